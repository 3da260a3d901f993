"""Metrics for TensorBoard."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pfrl_like.errors import MissingDependencyError

Pairs = Sequence[tuple[str, Any]]


class TensorBoardLogger:
    """Writes TensorBoard event files.

    Args:
        directory: Where they go.

    Raises:
        MissingDependencyError: If TensorBoard is not installed.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingDependencyError("tensorboard", "use_tensorboard") from error
        self._writer: Any = SummaryWriter(log_dir=os.fspath(directory))

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Write each metric under its name with the prefix "train/"."""
        for name, value in metrics.items():
            self._writer.add_scalar(f"train/{name}", value, step)

    def log_evaluation(self, step: int, agent_stats: Pairs, eval_stats: Mapping[str, Any], env_stats: Pairs) -> None:
        """Write an evaluation under PFRL's names: agent/..., env/..., eval/... and extras/meanplusstdev, ...minusstdev.

        Args:
            step: Steps of training so far.
            agent_stats: (name, value) pairs.
            eval_stats: What `eval_performance` gave.
            env_stats: (name, value) pairs.
        """
        scalars = {f"agent/{name}": value for name, value in agent_stats}
        scalars |= {f"env/{name}": value for name, value in env_stats}
        scalars |= {f"eval/{name}": eval_stats[name] for name in ("mean", "median", "max", "min", "stdev")}
        scalars["extras/meanplusstdev"] = eval_stats["mean"] + eval_stats["stdev"]
        scalars["extras/meanminusstdev"] = eval_stats["mean"] - eval_stats["stdev"]
        for name, value in scalars.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        """Write the rest and close the files."""
        self._writer.close()
