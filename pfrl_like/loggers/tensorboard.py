"""Metrics for TensorBoard."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pfrl_like.errors import CheckpointError, MissingDependencyError
from pfrl_like.storage import Told

Pairs = Sequence[tuple[str, Any]]


class TensorBoardLogger:
    """Writes TensorBoard event files, until it cannot.

    Args:
        directory: Where they go.
        step_offset: Step that a run goes on from: TensorBoard hides what older files in the directory have beyond it.
            0 hides nothing.
        suffix: Ends the name of the file.

    Attributes:
        told: Gives a context to write in, where a runner says what becomes of a failure.

    Raises:
        MissingDependencyError: If TensorBoard is not installed.
    """

    def __init__(self, directory: str | os.PathLike[str], *, step_offset: int = 0, suffix: str = "") -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingDependencyError("tensorboard", "use_tensorboard") from error
        self._directory = os.fspath(directory)
        hidden_from = step_offset + 1 if step_offset else None
        self._writer: Any = SummaryWriter(log_dir=self._directory, purge_step=hidden_from, filename_suffix=suffix)
        self.told: Told = contextlib.nullcontext
        self.writes_to = (self,)

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Write each metric under its name with the prefix "train/"."""
        self._write({f"train/{name}": value for name, value in metrics.items()}, step)

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
        self._write(scalars, step)
        self.push()

    def push(self) -> None:
        """Let the files hold all that was logged."""
        with self._writing():
            self._writer.flush()

    def close(self) -> None:
        """Write the rest and close the files."""
        with self._writing():
            self._writer.close()

    def _write(self, scalars: Mapping[str, Any], step: int) -> None:
        with self._writing():
            for name, value in scalars.items():
                self._writer.add_scalar(name, value, step)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """What TensorBoard cannot write ends its thread, and with it everything that would come after."""
        with self.told("what TensorBoard shows"):
            try:
                yield
            except OSError as error:
                reason = f"TensorBoard cannot write: {error.strerror or error}"
                raise CheckpointError(self._directory, reason) from error
