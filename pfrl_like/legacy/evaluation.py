"""PFRL's table of scores, its TensorBoard writer, and its evaluator for several processes."""

import logging
import multiprocessing
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pfrl_like.experiments.evaluator import header_of, row_of
from pfrl_like.experiments.runner_arguments import check_steps_or_episodes
from pfrl_like.experiments.shared_evaluator import SharedEvaluator, shared_scores
from pfrl_like.loggers import Pairs, TensorBoardLogger, evaluation_scalars
from pfrl_like.runs.run_directory import move_earlier_files
from pfrl_like.runs.run_files import SCORES, directory_lock
from pfrl_like.utils.checks import check_counts, takes_integral_floats
from pfrl_like.utils.stoppable_thread import StoppableThread

_LOGGER = logging.getLogger(__name__)


def write_header(outdir: str | os.PathLike[str], agent: Any, env: Any) -> None:
    """Write the header of `scores.txt`: the basic columns and the names of the statistics. Earlier rows are removed.

    Args:
        outdir: Run directory. It must exist.
        agent: Agent whose `get_statistics` names columns.
        env: Environment whose `get_statistics` names columns, if it has this method.
    """
    Path(outdir, SCORES.name).write_bytes(header_of(agent, env))


def record_stats(outdir: str | os.PathLike[str], values: Iterable[Any]) -> None:
    """Append a row to `scores.txt`.

    Args:
        outdir: Run directory. It must exist.
        values: The numbers in the row.
    """
    with Path(outdir, SCORES.name).open("ab") as file:
        file.write(row_of(values))


def create_tb_writer(outdir: str | os.PathLike[str]) -> Any:
    """Return TensorBoard's `SummaryWriter` for a directory, with two charts of the mean return and its spread.

    Args:
        outdir: Directory of the event file.

    Raises:
        MissingDependencyError: If TensorBoard is not installed.
    """
    writer = TensorBoardLogger(outdir).writer
    spread = ["eval/mean", "eval/min", "eval/max"], ["eval/mean", "extras/meanplusstdev", "extras/meanminusstdev"]
    names = "mean w/ min-max", "mean +/- std"
    charts = {name: ["Margin", tags] for name, tags in zip(names, spread, strict=True)}
    writer.add_custom_scalars({"Aggregate Charts": charts})
    return writer


def record_tb_stats(
    summary_writer: Any, agent_stats: Pairs, eval_stats: Mapping[str, Any], env_stats: Pairs, t: int
) -> None:
    """Write an evaluation to TensorBoard, under the names agent/..., env/..., eval/... and extras/mean...stdev.

    Args:
        summary_writer: Result of `create_tb_writer`.
        agent_stats: Statistics of the agent as (name, value) pairs.
        eval_stats: Result of `eval_performance`.
        env_stats: Statistics of the environment as (name, value) pairs.
        t: Number of training steps so far.
    """
    for name, value in evaluation_scalars(agent_stats, eval_stats, env_stats).items():
        summary_writer.add_scalar(name, value, t)
    summary_writer.flush()


def record_tb_stats_loop(outdir: str | os.PathLike[str], queue: Any, stop_event: Any) -> None:
    """Write evaluations from a queue to TensorBoard until an event is set and the queue is empty.

    Args:
        outdir: Directory of the event file.
        queue: `multiprocessing.Queue` of the lists [agent_stats, eval_stats, env_stats, t]; see `record_tb_stats`.
        stop_event: Event that ends the loop.
    """
    writer = create_tb_writer(outdir)
    while not (stop_event.wait(0.01) and queue.empty()):
        while not queue.empty():
            record_tb_stats(writer, *queue.get())
    writer.close()


class AsyncEvaluator:
    """Evaluates agents of several processes at regular intervals. The processes share the clock and the best score.

    Each process evaluates with a `SharedEvaluator`, which is the argument `evaluator` of the hooks.

    Args:
        n_steps: Number of steps of each evaluation. None if `n_episodes` is given.
        n_episodes: Number of episodes of each evaluation. None if `n_steps` is given.
        eval_interval: Number of training steps between evaluations.
        outdir: Run directory. The first evaluation creates `scores.txt` in it.
        max_episode_len: Maximum number of steps in an episode. An episode that reaches this length is truncated. If
            None, there is no limit.
        step_offset: Step at which training starts. Evaluations take place at multiples of `eval_interval`. If positive,
            the rows of earlier steps and the best score are kept. Other scores of an earlier run are moved to a
            subfolder.
        evaluation_hooks: `EvaluationHook`s that are called after every evaluation.
        save_best_so_far_agent: True to save the agent as `best` whenever its mean return is the best so far.
        logger: Logger of this run. If None, the logger of this module is used.

    Raises:
        ValueError: If both or neither of `n_steps` and `n_episodes` are given, or if a number is out of range.
        TypeError: If a number of steps or episodes is not an integer.
    """

    @takes_integral_floats
    def __init__(
        self,
        n_steps: int | None,
        n_episodes: int | None,
        eval_interval: int,
        outdir: str | os.PathLike[str],
        max_episode_len: int | None = None,
        step_offset: int = 0,
        evaluation_hooks: Sequence[Any] = (),
        save_best_so_far_agent: bool = True,
        logger: logging.Logger | None = None,
    ) -> None:
        check_steps_or_episodes(n_steps=n_steps, n_episodes=n_episodes)
        check_counts(eval_interval=eval_interval)
        self.n_steps, self.n_episodes, self.eval_interval = n_steps, n_episodes, eval_interval
        self.outdir, self.max_episode_len, self.step_offset = os.fspath(outdir), max_episode_len, step_offset
        self.evaluation_hooks, self.save_best_so_far_agent = evaluation_hooks, save_best_so_far_agent
        self.logger = logger or _LOGGER
        self._options = {**vars(self)}
        with directory_lock(self.outdir):
            move_earlier_files(self.outdir, step_offset, self.logger, training=False, tensorboard=False)
        self._scores, self.start_time = shared_scores(), time.time()
        self.prev_eval_t = self._scores.due
        self._evaluator: SharedEvaluator | None = None
        self.record_tb_stats_queue: Any = None
        self.record_tb_stats_thread: StoppableThread | None = None

    @property
    def max_score(self) -> float:
        """Best mean return so far, of all processes."""
        return float(self._scores.best.value)

    def evaluate_if_necessary(self, t: int, episodes: int, env: Any, agent: Any) -> float | None:
        """Evaluate if `eval_interval` steps have passed since the last evaluation of any process.

        Args:
            t: Number of training steps so far, of all processes.
            episodes: Number of training episodes that have ended so far.
            env: Environment for evaluation.
            agent: Agent to evaluate.

        Returns:
            The mean return, or None if no evaluation is due.
        """
        return self._evaluator_of(env, agent).evaluate_if_necessary(t, episodes)

    def evaluate_and_update_max_score(self, t: int, episodes: int, env: Any, agent: Any) -> float:
        """Evaluate an agent, even if no evaluation is due.

        Args:
            t: Number of training steps so far, of all processes.
            episodes: Number of training episodes that have ended so far.
            env: Environment for evaluation.
            agent: Agent to evaluate.

        Returns:
            The mean return.
        """
        return self._evaluator_of(env, agent).evaluate_and_update_max_score(t, episodes)

    def _evaluator_of(self, env: Any, agent: Any) -> SharedEvaluator:
        """Return the evaluator of this process, for an environment and an agent."""
        if self._evaluator is None:
            hooks = [self._send, *self.evaluation_hooks]
            self._evaluator = SharedEvaluator(self._scores, agent, env, **{**self._options, "evaluation_hooks": hooks})
            self._evaluator.start_time = self.start_time
        self._evaluator.env, self._evaluator.agent = env, agent
        return self._evaluator

    def _send(self, *, step: int, agent_stats: Any, eval_stats: Any, env_stats: Any, **_: Any) -> None:
        if self.record_tb_stats_queue is not None:
            self.record_tb_stats_queue.put([agent_stats, eval_stats, env_stats, step])

    def start_tensorboard_writer(self, outdir: str | os.PathLike[str], stop_event: Any) -> None:
        """Start a thread of this process that writes the evaluations of all processes to TensorBoard.

        Args:
            outdir: Directory of the event file.
            stop_event: Event that ends the thread.
        """
        queue = self.record_tb_stats_queue = multiprocessing.Queue()
        arguments = (outdir, queue, stop_event)
        self.record_tb_stats_thread = StoppableThread(stop_event, target=record_tb_stats_loop, args=arguments)
        self.record_tb_stats_thread.start()

    def join_tensorboard_writer(self) -> None:
        """Wait until the thread has written everything. The event must be set before."""
        if self.record_tb_stats_thread is not None:
            self.record_tb_stats_thread.join()
