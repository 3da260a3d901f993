"""Where numbers about a run go."""

from pfrl_like.loggers.recorders import CSVLogger, MetricsLogger, TensorBoardLogger

__all__ = [
    "CSVLogger",
    "MetricsLogger",
    "TensorBoardLogger",
]
