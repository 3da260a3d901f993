"""Adapters that write parameters, metrics and models of a `fit`, and their factories."""

from pfrl_like.d3rlpy.logging.adapters import (
    CombineAdapter,
    CombineAdapterFactory,
    D3RLPyLogger,
    FileAdapter,
    FileAdapterFactory,
    LoggerAdapter,
    LoggerAdapterFactory,
    NoopAdapter,
    NoopAdapterFactory,
    TensorboardAdapter,
    TensorboardAdapterFactory,
    WanDBAdapter,
    WanDBAdapterFactory,
)

__all__ = [
    "CombineAdapter", "CombineAdapterFactory", "D3RLPyLogger", "FileAdapter", "FileAdapterFactory", "LoggerAdapter",
    "LoggerAdapterFactory", "NoopAdapter", "NoopAdapterFactory", "TensorboardAdapter", "TensorboardAdapterFactory",
    "WanDBAdapter", "WanDBAdapterFactory",
]  # fmt: skip
