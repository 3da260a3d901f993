"""Enums of the layer: kinds of action spaces, times of logging, and position encodings."""

from enum import Enum


class ActionSpace(Enum):
    """Kind of actions of an algorithm or a dataset."""

    CONTINUOUS = 1
    DISCRETE = 2
    BOTH = 3


class PositionEncodingType(Enum):
    """Encoding of the positions of a transformer: by time step, or by time step and position in the context."""

    SIMPLE = "simple"
    GLOBAL = "global"


class LoggingStrategy(Enum):
    """Times at which metrics are logged: every `logging_steps` steps, or once per epoch."""

    STEPS = "steps"
    EPOCH = "epoch"
