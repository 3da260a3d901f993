"""Training in epochs, as an algorithm asks for them: the runner samples, evaluates, snapshots and resumes."""

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Protocol

from pfrl_like.errors import CheckpointError
from pfrl_like.experiments.callbacks import EpisodeLog, statistics_of
from pfrl_like.experiments.evaluation_env import choose_eval_env
from pfrl_like.experiments.evaluator import Evaluator
from pfrl_like.experiments.loop import Callback, Clock, Source
from pfrl_like.experiments.ownership import owned
from pfrl_like.experiments.paths import Actor, PathRecorder
from pfrl_like.experiments.run_directory import check_directory
from pfrl_like.experiments.training import train
from pfrl_like.loggers import CSVLogger, MetricsLogger
from pfrl_like.storage import atomic_write, dump_json, read_json
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.isolated_rng import isolated_rng
from pfrl_like.utils.random_streams import GlobalStreams, Streams

_LOGGER = logging.getLogger(__name__)
_RECORD = "epoch.json"
_LARGEST_RECORD = 1 << 16
#: What a snapshot holds beside agent and buffer: random streams, and what else the numbers depend on.
_STATE = "run_state.json"
_LARGEST_STATE = 1 << 28


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
    agent and its replay buffer, after every `snapshot_interval` epochs and the last one; of older ones only the agent
    is kept.

    Args:
        algorithm: The algorithm.
        env: Environment to train in, of any of the forms that `as_gymnasium` takes.
        outdir: Run directory; made if it is missing.
        eval_env: Environment to evaluate in; None for a fresh one of the same specification, else a deep copy.
        eval_n_episodes: Episodes of the evaluation after every epoch; 0 for none.
        snapshot_interval: Epochs between snapshots.
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
        logger: logging.Logger | None = None,
        hooks: Sequence[Callback] = (),
        loggers: Sequence[MetricsLogger] = (),
    ) -> None:
        check_counts(snapshot_interval=snapshot_interval)
        check_counts(least=0, eval_n_episodes=eval_n_episodes)
        self.algorithm, self.env, self.outdir = algorithm, env, check_directory(outdir)
        self.eval_env, self.eval_n_episodes, self.snapshot_interval = eval_env, eval_n_episodes, snapshot_interval
        self.logger, self.hooks, self.loggers = logger or _LOGGER, hooks, loggers
        self._check_spaces()
        self.epoch = self.step_itr = self._t = 0
        self.step_path: list[dict[str, Any]] = []
        self._restored: dict[str, Any] | None = None

    def train(self, n_epochs: int, batch_size: int | None = None) -> float:
        """Train up to an epoch, those before `restore` included.

        Args:
            n_epochs: Epochs in all.
            batch_size: Steps of a batch of samples; None for `algorithm.rollout_batch_size` whole paths.

        Returns:
            What `algorithm.train` returns: the average return of the last epoch.
        """
        check_counts(n_epochs=n_epochs)
        check_counts(optional=True, batch_size=batch_size)
        algorithm = self.algorithm
        self._n_epochs, self._batch_size = n_epochs, batch_size
        self._recorder = PathRecorder(algorithm, self.env, algorithm.max_path_length)
        average: list[float] = []

        def drive(source: Source, clock: Clock, callbacks: Sequence[Callback]) -> None:
            self._walked = (source, clock, callbacks)
            self._go_on()
            average.append(algorithm.train(self))

        with owned(self.outdir), ExitStack() as stack:
            self._evaluator = self._make_evaluator(stack) if self.eval_n_episodes else None
            train(
                algorithm.agent, self.env, self._recorder.source, None, self.outdir, drive=drive,
                make_logs=partial(self._make_logs, stack), checkpoint_freq=None, step_offset=self._t,
                evaluator=self._evaluator, successful_score=None, step_hooks=(), eval_during_episode=False,
                logger=self.logger, progress=None, hooks=self.hooks, loggers=self.loggers,
            )  # fmt: skip
        return average[0]

    def step_epochs(self) -> Iterator[int]:
        """The epochs' numbers; each is logged, evaluated and kept when the next one is asked for."""
        _, clock, _ = self._walked
        while self.epoch < self._n_epochs and not clock.stopped:
            yield self.epoch
            self.epoch += 1
            self._t = clock.t
            self._end_epoch(clock)

    def obtain_samples(self, itr: int) -> list[dict[str, Any]]:
        """New paths of the algorithm in the environment; see `PathRecorder` for what they hold.

        Args:
            itr: Number of the iteration, for the log.
        """
        self.logger.debug("iteration %d: sampling", itr)
        return self._recorder.walk(*self._walked, self.algorithm.rollout_batch_size, self._batch_size)

    def restore(self) -> int:
        """Go back to the last snapshot in `outdir`, with an algorithm that was made as the one that was saved.

        `train` then goes on bit for bit (on a CPU, and save for the times in the tables) as if it had not been
        stopped: networks, optimisers, counters, replay buffer, averages, the global random streams and those of the
        environments and their action spaces are as they were, and the actions of an episode that was running are taken
        again. If the environment comes to another state by them, the log warns, and a new episode begins. What an
        environment keeps between episodes, and generators that nobody but the user knows, are not in a snapshot.

        Returns:
            Epochs that are over.

        Raises:
            CheckpointError: If there is none, or it cannot be read.
        """
        record = os.path.join(self.outdir, _RECORD)
        told = read_json(record, _LARGEST_RECORD)
        numbers: list[Any] = [told.get(name) for name in ("epoch", "step_itr", "t")]
        if not all(type(number) is int and number > 0 for number in numbers):
            raise CheckpointError(record, "tells of no snapshot")
        snapshot = os.path.join(self.outdir, _snapshot_of(numbers[2]))
        path = os.path.join(snapshot, _STATE)
        state = read_json(path, _LARGEST_STATE)
        with _damage(path):
            streams = GlobalStreams.from_plain(state["streams"])
            getattr(self.algorithm, "restore_state", lambda state: None)(state["algorithm"])
        self.algorithm.agent.load_snapshot(snapshot)
        self.epoch, self.step_itr, self._t = numbers
        self._restored = state | {"streams": streams, "path": path}
        return self.epoch

    def _go_on(self) -> None:
        """Let everything random be as it was at the snapshot that training goes on from."""
        state, self._restored = self._restored, None
        if state is None:
            return
        with _damage(state["path"]):
            if state["episode"] is not None and not self._recorder.relive(state["episode"]):
                self.logger.warning(
                    "the environment did not come to where its episode was: a new one begins, and numbers will differ "
                    "from those of a run that was not stopped"
                )
            Streams.of(self.env, with_global=False).restore(state["env"])
            if self._evaluator is not None and state["evaluator"] is not None:
                self._evaluator.restore_state(state["evaluator"])
            state["streams"].restore()

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

    def _make_evaluator(self, stack: ExitStack) -> Evaluator:
        algorithm = self.algorithm
        own_env, choice = choose_eval_env(self.env, self.eval_env)
        limit = algorithm.max_eval_path_length
        return Evaluator(
            agent=algorithm.agent, env=stack.enter_context(own_env), n_steps=None, n_episodes=self.eval_n_episodes,
            eval_interval=sys.maxsize, outdir=self.outdir, step_offset=self._t, logger=self.logger, env_choice=choice,
            max_episode_len=algorithm.max_path_length if limit is None else limit,
        )  # fmt: skip

    def _make_logs(self, stack: ExitStack, sinks: Sequence[MetricsLogger]) -> list[Callback]:
        self._epochs = CSVLogger(os.path.join(self.outdir, "epochs.csv"), append=self._t > 0)
        stack.callback(self._epochs.close)
        return [EpisodeLog(self.algorithm.agent, sinks, self.logger, self.outdir)]

    def _end_epoch(self, clock: Clock) -> None:
        algorithm = self.algorithm
        score = None
        if self._evaluator is not None:
            score = self._evaluator.evaluate_and_update_max_score(clock.t, clock.episodes)
        told = {
            "epoch": self.epoch, "itr": self.step_itr, "return": algorithm.average_return,
            "success_rate": algorithm.success_rate, "eval_return": score,
        }  # fmt: skip
        self._epochs.log(clock.t, told | dict(statistics_of(algorithm.agent)))
        self.logger.info("step %d: %s", clock.t, told)
        if self.epoch % self.snapshot_interval == 0 or self.epoch == self._n_epochs:
            self._snapshot(clock.t)

    def _state(self) -> dict[str, Any]:
        """What numbers depend on beside agent and buffer."""
        return {
            "streams": GlobalStreams.now().to_plain(),
            "env": Streams.of(self.env, with_global=False).to_plain(),
            "evaluator": None if self._evaluator is None else self._evaluator.saved_state(),
            "episode": self._recorder.running_episode(),
            "algorithm": getattr(self.algorithm, "saved_state", dict)(),
        }

    def _snapshot(self, t: int) -> None:
        record, snapshot = os.path.join(self.outdir, _RECORD), os.path.join(self.outdir, _snapshot_of(t))
        with isolated_rng():
            self.algorithm.agent.save_snapshot(snapshot)
        path = os.path.join(snapshot, _STATE)
        atomic_write(path, dump_json(self._state(), path))
        before = read_json(record, _LARGEST_RECORD).get("t") if os.path.exists(record) else t
        atomic_write(record, dump_json({"epoch": self.epoch, "step_itr": self.step_itr, "t": t}, record))
        if before != t:
            with suppress(FileNotFoundError):
                os.remove(os.path.join(self.outdir, _snapshot_of(before), "replay_buffer.pkl"))


@contextmanager
def _damage(path: str) -> Iterator[None]:
    """Say of what does not fit that a file holds it."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(path, f"holds no state of this run: {error!r:.200}") from error


def _snapshot_of(t: Any) -> str:
    return f"{t}_checkpoint"
