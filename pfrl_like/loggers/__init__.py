"""Where numbers about a run go."""

from pfrl_like.loggers.csv import CSVLogger as CSVLogger
from pfrl_like.loggers.metrics_logger import MetricsLogger as MetricsLogger
from pfrl_like.loggers.tensorboard import TensorBoardLogger as TensorBoardLogger
