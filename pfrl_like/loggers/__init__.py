"""Where numbers about a run go."""

from pfrl_like.loggers.adapters import CSVLogger, MetricsLogger, TensorBoardLogger

__all__ = [
    "CSVLogger",
    "MetricsLogger",
    "TensorBoardLogger",
]
