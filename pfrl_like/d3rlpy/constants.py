"""Enums of the layer: kinds of action spaces, times of logging, and position encodings."""

from enum import Enum

from pfrl_like.loggers import LoggingStrategy

__all__ = ["ActionSpace", "LoggingStrategy", "PositionEncodingType"]


class ActionSpace(Enum):
    """Kind of actions of an algorithm or a dataset."""

    CONTINUOUS = 1
    DISCRETE = 2
    BOTH = 3


class PositionEncodingType(Enum):
    """Encoding of the positions of a transformer: by time step, or by time step and position in the context."""

    SIMPLE = "simple"
    GLOBAL = "global"
