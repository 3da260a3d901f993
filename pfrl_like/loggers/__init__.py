"""Where numbers about a run go."""

from pfrl_like.loggers.csv import CSVLogger
from pfrl_like.loggers.metrics_logger import MetricsLogger
from pfrl_like.loggers.tensorboard import TensorBoardLogger

__all__ = [
    "CSVLogger",
    "MetricsLogger",
    "TensorBoardLogger",
]
