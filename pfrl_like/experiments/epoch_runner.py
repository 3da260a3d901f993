"""Training in epochs. An algorithm calls methods of `EpochRunner` to sample, evaluate, save snapshots and resume."""

import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Literal, Protocol

from pfrl_like.envs.make_env import open_env
from pfrl_like.errors import CheckpointError
from pfrl_like.experiments.callbacks import EpisodeLog, statistics_of
from pfrl_like.experiments.checkpoints import Checkpoints
from pfrl_like.experiments.evaluator import Evaluator, evaluating
from pfrl_like.experiments.resume import Checkpoint, Configuration, checkpoint_mismatch, newest_checkpoint
from pfrl_like.experiments.run_state import OwnAttributes, restore_part
from pfrl_like.experiments.runner_arguments import check_arguments, saving_hooks
from pfrl_like.experiments.training import Actor, PathRecorder, train
from pfrl_like.loggers import CSVLogger, MetricsLogger
from pfrl_like.runs.loop import Callback, Clock, Source
from pfrl_like.runs.run_directory import check_directory
from pfrl_like.runs.run_files import EPOCHS, directory_lock
from pfrl_like.utils.checks import check_counts, check_flags, names_unknown_keywords, takes_integral_floats

_LOGGER = logging.getLogger(__name__)


class EpochAlgorithm(Actor, Protocol):
    """Interface of algorithms that `EpochRunner` can run; `algos.OffPolicyRLAlgorithm` implements it.

    Attributes:
        agent: The agent that is evaluated and saved.
        env_spec: Object with the observation and action spaces for which the algorithm was made.
        max_path_length: Maximum number of steps in a training episode. An episode that reaches this length is
            truncated. If None, there is no limit.
        max_eval_path_length: Maximum number of steps in an evaluation episode. If None, `max_path_length` is used.
        rollout_batch_size: Number of paths (recorded episodes) in a batch of samples.
        average_return: Latest average return.
        success_rate: Latest fraction of successful episodes.
    """

    agent: Any
    env_spec: Any
    max_path_length: int | None
    max_eval_path_length: int | None
    rollout_batch_size: int
    average_return: float
    success_rate: float

    def train(self, runner: Any) -> float:
        """Train for all epochs of `runner.step_epochs()`."""


class EpochRunner:
    """Runs an algorithm for epochs in an environment.

    The run directory contains the same files as after `train_agent`, and `epochs.csv` with a row for every epoch. After
    every `snapshot_interval` epochs and after the last epoch, a snapshot is saved as the checkpoint `<t>_checkpoint`.
    Training can resume from a snapshot.

    A resumed run also restores attributes of the algorithm that training has changed, if their values are numbers,
    bools, strings, arrays, tensors, random generators, or lists, tuples and dicts of such values. If the algorithm has
    other state, define its methods `saved_state` and `restore_state`.

    Args:
        algorithm: The algorithm.
        env: Training environment, in any form that `as_gymnasium` accepts, or an environment id. An environment that is
            made from an id is closed at the end of `train`.
        outdir: Run directory. It is created if it does not exist.
        eval_env: Environment for evaluation, or its id. If None, a new environment is made from `env.spec`. If that is
            impossible, a deep copy of `env` is used, and if `env` cannot be copied, `env` itself. An agent with an
            attribute that is `env` is evaluated in `env` itself. `run.json` records the choice.
        eval_n_episodes: Number of episodes of the evaluation after every epoch. If 0, there are no evaluations.
        snapshot_interval: Number of epochs between snapshots.
        keep_snapshots: Number of snapshots to keep, in addition to `best`. A run can resume from each of them. If None,
            the agent files of all snapshots are kept, but a run can resume only from the newest two snapshots.
        on_snapshot_failure: "raise": a failed write of a snapshot, table or trace ends training. "warn": the first
            failed write of each file is logged, training continues, and unwritten rows stay in memory until the disk
            has space. Earlier snapshots are always kept. A file that cannot be created always raises an error. Failed
            writes of `run.log` and of the report never end training.
        logger: Logger of this run. If None, the logger of this module is used.
        hooks: Functions that are called with the `Clock` after every step. `clock.stop()` ends training after the
            epoch.
        loggers: Loggers that get the metrics in addition to the CSV file. The runner closes them at the end.

    Attributes:
        epoch: Number of finished epochs.
        step_itr: Number of iterations (calls of `obtain_samples`) so far. An epoch may have several. The algorithm
            increases this number.
        step_path: Paths of the last iteration. The algorithm sets this attribute.

    Raises:
        ValueError: If a number is out of range, or if the spaces of the environment differ from the spaces in
            `algorithm.env_spec`.
        TypeError: If the algorithm is not an `EpochAlgorithm`.
    """

    @names_unknown_keywords
    @takes_integral_floats
    def __init__(
        self,
        algorithm: EpochAlgorithm,
        env: Any,
        outdir: str | os.PathLike[str],
        *,
        eval_env: Any = None,
        eval_n_episodes: int = 5,
        snapshot_interval: int = 1,
        keep_snapshots: int | None = None,
        on_snapshot_failure: Literal["raise", "warn"] = "raise",
        logger: logging.Logger | None = None,
        hooks: Sequence[Callback] = (),
        loggers: Sequence[MetricsLogger] = (),
    ) -> None:
        self._given_envs = {"env": env, "eval_env": eval_env}
        with open_env(env) as env, open_env(eval_env, "eval_env") as eval_env:
            check_arguments(locals())
        check_counts(snapshot_interval=snapshot_interval)
        check_counts(least=0, eval_n_episodes=eval_n_episodes)
        if saving_hooks(hooks):
            raise ValueError(
                "hooks has a SaveEvery, which EpochRunner does not support: pass snapshot_interval instead"
            )
        self.algorithm, self.env, self.outdir = algorithm, env, check_directory(outdir)
        self._given_outdir = outdir
        self.eval_env, self.eval_n_episodes, self.snapshot_interval = eval_env, eval_n_episodes, snapshot_interval
        self.keep_snapshots, self.on_snapshot_failure = keep_snapshots, on_snapshot_failure
        self.logger, self.hooks, self.loggers = logger or _LOGGER, hooks, loggers
        self._check_spaces()
        self._algorithm_state = OwnAttributes(algorithm)
        self.epoch = self.step_itr = 0
        self.step_path: list[dict[str, Any]] = []
        self._restored: Checkpoint | None = None
        self._recorder: PathRecorder | None = None
        self._evaluator: Evaluator | None = None
        self._table: CSVLogger | None = None

    def train(self, n_epochs: int, batch_size: int | None = None, *, resume: bool = False) -> float:
        """Train until `n_epochs` epochs are finished, including the epochs before a restored snapshot.

        Args:
            n_epochs: Total number of epochs.
            batch_size: Number of steps in a batch of samples. If None, a batch contains `algorithm.rollout_batch_size`
                complete paths.
            resume: True to restore the newest snapshot first, if `outdir` contains a snapshot.

        Returns:
            The result of `algorithm.train`: the average return of the last epoch.
        """
        check_counts(n_epochs=n_epochs)
        check_flags(resume=resume)
        check_counts(optional=True, batch_size=batch_size)
        algorithm = self.algorithm
        self._n_epochs, self._batch_size = n_epochs, batch_size
        average: list[float] = []

        def run_loop(source: Source, clock: Clock, callbacks: Sequence[Callback], checkpoints: Checkpoints) -> None:
            self._loop_arguments, self._checkpoints = (source, clock, callbacks), checkpoints
            checkpoints.writes.handle_writes_of([self._table])
            average.append(algorithm.train(self))

        with directory_lock(self.outdir), ExitStack() as stack:
            self.env, self.eval_env = (
                stack.enter_context(open_env(env, name)) for name, env in self._given_envs.items()
            )
            recorder = self._recorder = PathRecorder(algorithm, self.env, algorithm.max_path_length)
            if resume:
                self._load_newest()
            resumed_from, self._restored = self._restored, None
            train(
                algorithm.agent, self.env, recorder.source, None, self._given_outdir, run_loop=run_loop,
                make_logs=partial(self._make_logs, stack), logger=self.logger, hooks=self.hooks, loggers=self.loggers,
                evaluator=partial(self._make_evaluator, stack) if self.eval_n_episodes else None,
                parts=self._stateful_objects(), resume=resumed_from or resume,
                keep_checkpoints=self.keep_snapshots, on_checkpoint_failure=self.on_snapshot_failure,
            )  # fmt: skip
        # If this process was started to repeat a different run, it skips this run, and the result is NaN.
        return average[0] if average else float("nan")

    def step_epochs(self) -> Iterator[int]:
        """Yield the epoch numbers. Before the next number, evaluate and log the epoch, and save a snapshot if due."""
        _, clock, _ = self._loop_arguments
        while self.epoch < self._n_epochs and not clock.stopped:
            yield self.epoch
            self.epoch += 1
            self._end_epoch(clock)

    def obtain_samples(self, itr: int) -> list[dict[str, Any]]:
        """Sample new paths with the algorithm in the environment. `PathRecorder` documents the content of a path.

        Args:
            itr: Iteration number, for the log.
        """
        self.logger.debug("iteration %d: sampling", itr)
        assert self._recorder is not None
        return self._recorder.sample(*self._loop_arguments, self.algorithm.rollout_batch_size, self._batch_size)

    def restore(self) -> int:
        """Load the newest complete snapshot in `outdir`. The algorithm must be constructed as in the saved run.

        `train` then resumes as if the run had not stopped, like `train_agent` with `resume=True`.

        Returns:
            Number of finished epochs.

        Raises:
            CheckpointError: If no snapshot exists, or if the snapshot cannot be read.
        """
        self._load_newest()
        if self._restored is None:
            raise CheckpointError(self.outdir, "contains no snapshot to restore")
        return self.epoch

    def _load_newest(self) -> None:
        """Load the newest snapshot, if `outdir` contains a snapshot."""
        agent = self.algorithm.agent
        checkpoint = newest_checkpoint(agent, None, self.outdir, self.logger, Configuration(agent, self.env, None))
        if checkpoint is not None:
            with checkpoint_mismatch(checkpoint.path):
                for part in self._stateful_objects():
                    restore_part(part, checkpoint.state)
        self._restored = checkpoint

    def saved_state(self) -> dict[str, Any]:
        """Return the number of finished epochs, the number of iterations, and the state of `epochs.csv`."""
        assert self._table is not None
        return {"epoch": self.epoch, "step_itr": self.step_itr, "table": self._table.saved_state()}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `saved_state`."""
        self.epoch, self.step_itr = int(state["epoch"]), int(state["step_itr"])
        if self._table is not None:
            self._table.restore_state(state["table"])

    def flush(self) -> None:
        """Write all buffered rows to `epochs.csv`.

        Raises:
            CheckpointError: If the file cannot be written.
        """
        if self._table is not None:
            self._table.flush()

    def _stateful_objects(self) -> list[Any]:
        return [self, self._algorithm_state, self.algorithm, *([self._recorder] if self._recorder else [])]

    def _check_spaces(self) -> None:
        if not hasattr(self.algorithm, "env_spec"):
            name = type(self.algorithm).__name__
            raise TypeError(f"algorithm: got {name}, expected an EpochAlgorithm, such as an algos.EpochDQN")
        for name in ("observation_space", "action_space"):
            expected, actual = getattr(self.algorithm.env_spec, name), getattr(self.env, name, None)
            if actual is not None and actual != expected:
                raise ValueError(f"env: has the {name} {actual}, but env_spec of the algorithm has {expected}")

    def _make_evaluator(self, stack: ExitStack, t: int) -> Evaluator:
        algorithm = self.algorithm
        arguments = {
            "agent": algorithm.agent, "eval_env": self.eval_env, "eval_n_steps": None, "outdir": self.outdir,
            "eval_n_episodes": self.eval_n_episodes, "eval_interval": sys.maxsize, "logger": self.logger,
            "eval_max_episode_len": algorithm.max_eval_path_length,
        }  # fmt: skip
        self._evaluator = stack.enter_context(evaluating(arguments, self.env, algorithm.max_path_length))(t)
        return self._evaluator

    def _make_logs(self, stack: ExitStack, loggers: Sequence[MetricsLogger], directory: str) -> list[Callback]:
        self._table = CSVLogger(os.path.join(directory, EPOCHS.name), append=self.epoch > 0)
        stack.callback(self._table.close)
        return [EpisodeLog(self.algorithm.agent, loggers, self.logger, directory)]

    def _end_epoch(self, clock: Clock) -> None:
        algorithm, score = self.algorithm, None
        assert self._table is not None
        if self._evaluator is not None:
            score = self._evaluator.evaluate_and_update_max_score(clock.t, clock.episodes)
        row = {
            "epoch": self.epoch, "itr": self.step_itr, "return": algorithm.average_return,
            "success_rate": algorithm.success_rate, "eval_return": score,
        }  # fmt: skip
        self._table.log(clock.t, row | dict(statistics_of(algorithm.agent)))
        self._table.push()
        self.logger.info("step %d: %s", clock.t, row)
        if self.epoch % self.snapshot_interval == 0 or self.epoch == self._n_epochs:
            self._checkpoints.save(clock, "_checkpoint")
