"""Training in epochs, as an algorithm asks for them: the runner samples, evaluates, snapshots and resumes."""

import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Literal, Protocol

from pfrl_like.errors import CheckpointError
from pfrl_like.experiments.callbacks import EpisodeLog, statistics_of
from pfrl_like.experiments.checkpoints import Checkpoints
from pfrl_like.experiments.evaluator import Evaluator, evaluating
from pfrl_like.experiments.resume import Checkpoint, Configuration, fitting, newest_checkpoint
from pfrl_like.experiments.run_state import OwnAttributes, restore_part
from pfrl_like.experiments.runner_arguments import check_arguments
from pfrl_like.experiments.training import Actor, PathRecorder, train
from pfrl_like.loggers import CSVLogger, MetricsLogger
from pfrl_like.runs.loop import Callback, Clock, Source
from pfrl_like.runs.run_directory import check_directory
from pfrl_like.runs.run_files import EPOCHS, owned
from pfrl_like.utils.checks import check_counts, check_flags

_LOGGER = logging.getLogger(__name__)


class EpochAlgorithm(Actor, Protocol):
    """What the runner asks of an algorithm; `algos.OffPolicyRLAlgorithm` has it all.

    Attributes:
        agent: What is evaluated and saved.
        env_spec: Has the spaces that it is made for.
        max_path_length, max_eval_path_length: Steps after which episodes are cut off, in training and in evaluation.
        rollout_batch_size: Paths of a batch of samples.
        average_return: Its latest average return.
        success_rate: Its latest share of successes.
    """

    agent: Any
    env_spec: Any
    max_path_length: int | None
    max_eval_path_length: int | None
    rollout_batch_size: int
    average_return: float
    success_rate: float

    def train(self, runner: Any) -> float:
        """Train for all of `runner.step_epochs()`."""


class EpochRunner:
    """Runs an algorithm for epochs in an environment.

    The run directory is that of `train_agent`, with `epochs.csv`, a line for every epoch, and `<t>_checkpoint`, the
    checkpoint that training can go on from, after every `snapshot_interval` epochs and the last one. Attributes of the
    algorithm that training changes go on, too, if they are numbers, flags, text, arrays, tensors, or lists, tuples and
    dicts of such, and generators of random numbers; what else it keeps, it saves by `saved_state` and `restore_state`.

    Args:
        algorithm: The algorithm.
        env: Environment to train in, of any of the forms that `as_gymnasium` takes.
        outdir: Run directory; made if it is missing.
        eval_env: Environment to evaluate in; None for a fresh one of the same specification, else a deep copy.
        eval_n_episodes: Episodes of the evaluation after every epoch; 0 for none.
        snapshot_interval: Epochs between snapshots.
        keep_snapshots: Snapshots that stay, as `keep_checkpoints` of `train_agent`.
        on_snapshot_failure: As `on_checkpoint_failure` of `train_agent`.
        logger: Logger of this run.
        hooks: Called with the `Clock` of the loop after every step; `clock.stop()` ends training after the epoch.
        loggers: Further loggers of the metrics of episodes; closed at the end.

    Attributes:
        epoch: Epochs that are over.
        step_itr: Iterations so far, which the algorithm counts.
        step_path: Paths of the last iteration, for the algorithm to keep here.

    Raises:
        ValueError: If a number is out of range, or the environment has other spaces than the algorithm is made for.
        TypeError: If the algorithm is none that is driven in epochs.
    """

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
        check_arguments(locals())
        check_counts(snapshot_interval=snapshot_interval)
        check_counts(least=0, eval_n_episodes=eval_n_episodes)
        self.algorithm, self.env, self.outdir = algorithm, env, check_directory(outdir)
        self._given_outdir = outdir
        self.eval_env, self.eval_n_episodes, self.snapshot_interval = eval_env, eval_n_episodes, snapshot_interval
        self.keep_snapshots, self.on_snapshot_failure = keep_snapshots, on_snapshot_failure
        self.logger, self.hooks, self.loggers = logger or _LOGGER, hooks, loggers
        self._check_spaces()
        self._own = OwnAttributes(algorithm)
        self.epoch = self.step_itr = 0
        self.step_path: list[dict[str, Any]] = []
        self._restored: Checkpoint | None = None
        self._recorder: PathRecorder | None = None
        self._evaluator: Evaluator | None = None
        self._table: CSVLogger | None = None

    def train(self, n_epochs: int, batch_size: int | None = None, *, resume: bool = False) -> float:
        """Train up to an epoch, those before `restore` included.

        Args:
            n_epochs: Epochs in all.
            batch_size: Steps of a batch of samples; None for `algorithm.rollout_batch_size` whole paths.
            resume: Whether to `restore` first if anything was saved in `outdir`.

        Returns:
            What `algorithm.train` returns: the average return of the last epoch.
        """
        check_counts(n_epochs=n_epochs)
        check_flags(resume=resume)
        check_counts(optional=True, batch_size=batch_size)
        algorithm = self.algorithm
        self._n_epochs, self._batch_size = n_epochs, batch_size
        recorder = self._recorder = PathRecorder(algorithm, self.env, algorithm.max_path_length)
        average: list[float] = []

        def drive(source: Source, clock: Clock, callbacks: Sequence[Callback], checkpoints: Checkpoints) -> None:
            self._walked, self._checkpoints = (source, clock, callbacks), checkpoints
            checkpoints.writes.govern([self._table])
            average.append(algorithm.train(self))

        with owned(self.outdir), ExitStack() as stack:
            if resume:
                self._take_up()
            goes_on_from, self._restored = self._restored, None
            train(
                algorithm.agent, self.env, recorder.source, None, self._given_outdir, drive=drive,
                make_logs=partial(self._make_logs, stack), logger=self.logger, hooks=self.hooks, loggers=self.loggers,
                evaluator=partial(self._make_evaluator, stack) if self.eval_n_episodes else None,
                parts=self._parts(), resume=goes_on_from or resume,
                keep_checkpoints=self.keep_snapshots, on_checkpoint_failure=self.on_snapshot_failure,
            )  # fmt: skip
        return average[0] if average else float("nan")  # of a program that was started again for another run

    def step_epochs(self) -> Iterator[int]:
        """The epochs' numbers; each is logged, evaluated and kept when the next one is asked for."""
        _, clock, _ = self._walked
        while self.epoch < self._n_epochs and not clock.stopped:
            yield self.epoch
            self.epoch += 1
            self._end_epoch(clock)

    def obtain_samples(self, itr: int) -> list[dict[str, Any]]:
        """New paths of the algorithm in the environment; see `PathRecorder` for what they hold.

        Args:
            itr: Number of the iteration, for the log.
        """
        self.logger.debug("iteration %d: sampling", itr)
        assert self._recorder is not None
        return self._recorder.walk(*self._walked, self.algorithm.rollout_batch_size, self._batch_size)

    def restore(self) -> int:
        """Go back to the newest snapshot in `outdir` that is whole, with an algorithm made as the one that was saved.

        `train` then goes on as if it had not been stopped, as `train_agent` does with `resume=True`.

        Returns:
            Epochs that are over.

        Raises:
            CheckpointError: If there is none, or it cannot be read.
        """
        self._take_up()
        if self._restored is None:
            raise CheckpointError(self.outdir, "holds no snapshot to go back to")
        return self.epoch

    def _take_up(self) -> None:
        """Go back to the newest snapshot, if there is one."""
        agent = self.algorithm.agent
        made = Configuration(agent, self.env, None)
        checkpoint = newest_checkpoint(agent, None, self.outdir, self.logger, made)
        if checkpoint is not None:
            with fitting(checkpoint.path):
                for part in self._parts():
                    restore_part(part, checkpoint.state)
        self._restored = checkpoint

    def saved_state(self) -> dict[str, Any]:
        """How many epochs and iterations are over, and the seconds that the table of epochs tells."""
        assert self._table is not None
        return {"epoch": self.epoch, "step_itr": self.step_itr, "table": self._table.saved_state()}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `saved_state` gave."""
        self.epoch, self.step_itr = int(state["epoch"]), int(state["step_itr"])
        if self._table is not None:
            self._table.restore_state(state["table"])

    def flush(self) -> None:
        """Let the table of epochs hold all of them, which a snapshot presumes.

        Raises:
            CheckpointError: If that cannot be.
        """
        if self._table is not None:
            self._table.flush()

    def _parts(self) -> list[Any]:
        return [self, self._own, self.algorithm, *([self._recorder] if self._recorder else [])]

    def _check_spaces(self) -> None:
        if not hasattr(self.algorithm, "env_spec"):
            name = type(self.algorithm).__name__
            raise TypeError(
                f"algorithm: got a {name}, expected an EpochAlgorithm, such as algos.EpochDQN of your parts"
            )
        for name in ("observation_space", "action_space"):
            wanted, found = getattr(self.algorithm.env_spec, name), getattr(self.env, name, None)
            if found is not None and found != wanted:
                raise ValueError(f"env: has the {name} {found}, expected {wanted} as env_spec of the algorithm says")

    def _make_evaluator(self, stack: ExitStack, t: int) -> Evaluator:
        algorithm = self.algorithm
        given = {
            "agent": algorithm.agent, "eval_env": self.eval_env, "eval_n_steps": None, "outdir": self.outdir,
            "eval_n_episodes": self.eval_n_episodes, "eval_interval": sys.maxsize, "logger": self.logger,
            "eval_max_episode_len": algorithm.max_eval_path_length,
        }  # fmt: skip
        self._evaluator = stack.enter_context(evaluating(given, self.env, algorithm.max_path_length))(t)
        return self._evaluator

    def _make_logs(self, stack: ExitStack, sinks: Sequence[MetricsLogger], directory: str) -> list[Callback]:
        self._table = CSVLogger(os.path.join(directory, EPOCHS.name), append=self.epoch > 0)
        stack.callback(self._table.close)
        return [EpisodeLog(self.algorithm.agent, sinks, self.logger, directory)]

    def _end_epoch(self, clock: Clock) -> None:
        algorithm, score = self.algorithm, None
        assert self._table is not None
        if self._evaluator is not None:
            score = self._evaluator.evaluate_and_update_max_score(clock.t, clock.episodes)
        told = {
            "epoch": self.epoch, "itr": self.step_itr, "return": algorithm.average_return,
            "success_rate": algorithm.success_rate, "eval_return": score,
        }  # fmt: skip
        self._table.log(clock.t, told | dict(statistics_of(algorithm.agent)))
        self._table.push()
        self.logger.info("step %d: %s", clock.t, told)
        if self.epoch % self.snapshot_interval == 0 or self.epoch == self._n_epochs:
            self._checkpoints.save(clock, "_checkpoint")
