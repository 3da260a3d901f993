"""Evaluation of an agent without exploration and learning."""

import contextlib
import itertools
import logging
import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from pfrl_like.envs.env_states import is_vector, restore_between_episodes, state_between_episodes
from pfrl_like.envs.make_env import accept_env_ids, open_env
from pfrl_like.experiments.callbacks import save_agent, statistics_of
from pfrl_like.experiments.evaluation_env import SHARED_ENV, choose_eval_env
from pfrl_like.experiments.runner_arguments import check_arguments, check_has, check_steps_or_episodes
from pfrl_like.experiments.sources import SerialSource, VectorSource
from pfrl_like.loggers import TensorBoardLogger
from pfrl_like.processes.supervisor import close_all
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.runs.loop import Callback, Clock, Terminated, run
from pfrl_like.runs.mirror import mirrored
from pfrl_like.runs.run_directory import check_directory, move_earlier_files, progress_of
from pfrl_like.runs.run_files import RUN_EVENTS_SUFFIX, SCORES, column_of, directory_lock, encode_lines, lines_of
from pfrl_like.runs.secrets import masked
from pfrl_like.storage import AppendedFile
from pfrl_like.utils.checks import check_counts, names_unknown_keywords, takes_integral_floats
from pfrl_like.utils.old_names import old_names
from pfrl_like.utils.random_seed import set_random_seed

_LOGGER = logging.getLogger(__name__)
_Result = tuple[float, int]  # return and length of an episode
BASIC_COLUMNS = ("steps", "episodes", "elapsed", "mean", "median", "stdev", "max", "min")


@takes_integral_floats
@accept_env_ids("env")
def run_evaluation_episodes(
    env: Any,
    agent: Any,
    n_steps: int | None,
    n_episodes: int | None,
    max_episode_len: int | None = None,
    logger: logging.Logger | None = None,
    hooks: Sequence[Callback] = (),
) -> tuple[list[float], list[float]]:
    """Run an agent in evaluation mode in one environment.

    Args:
        env: Environment in any form that `as_gymnasium` accepts, or an environment id.
        agent: Agent to evaluate.
        n_steps: Number of steps. An unfinished last episode is discarded, unless it is the only episode. None if
            `n_episodes` is given.
        n_episodes: Number of episodes. None if `n_steps` is given.
        max_episode_len: Maximum number of steps in an episode. An episode that reaches this length is truncated. If
            None, there is no limit.
        logger: Logger that gets a line for every episode. If None, the logger of this module is used.
        hooks: Functions that are called with the `Clock` of the evaluation after every step.

    Returns:
        Two lists: the returns and the lengths of the episodes.

    Raises:
        ValueError: If both or neither of `n_steps` and `n_episodes` are given, or if a number is less than 1.
        TypeError: If a number is not an integer.
    """
    check_steps_or_episodes(n_steps=n_steps, n_episodes=n_episodes)
    scores: list[float] = []
    lengths: list[float] = []

    def count(clock: Clock) -> None:
        for episode in clock.ended:
            if clock.between_episodes or not scores:
                _log_episode(logger, len(scores), episode.length, episode.total_reward)
                scores.append(episode.total_reward)
                lengths.append(float(episode.length))
        if n_episodes is not None and len(scores) >= n_episodes:
            clock.stop()

    with agent.eval_mode():  # the last step is reported as truncated, so that the agent keeps no state
        run(SerialSource(agent, env, max_episode_len, cuts_off_at_end=True), Clock(n_steps), [count, *hooks])
    return scores, lengths


@takes_integral_floats
@accept_env_ids(vector="env")
def batch_run_evaluation_episodes(
    env: Any,
    agent: Any,
    n_steps: int | None,
    n_episodes: int | None,
    max_episode_len: int | None = None,
    logger: logging.Logger | None = None,
    hooks: Sequence[Callback] = (),
) -> tuple[list[float], list[float]]:
    """Run an agent in evaluation mode in a vector environment.

    The result contains the episodes that start first, in this order. It does not contain the episodes that end first,
    because too many of these are short.

    Args:
        env: Vector environment in any form that `as_vector_stream` accepts. A single environment or an environment id
            becomes a `SerialVectorEnv` of one environment.
        agent: Agent to evaluate.
        n_steps: Number of steps, counted over the episodes in the result. An unfinished last episode is discarded,
            unless it is the only episode. None if `n_episodes` is given.
        n_episodes: Number of episodes. None if `n_steps` is given.
        max_episode_len: Maximum number of steps in an episode. An episode that reaches this length is truncated. If
            None, there is no limit.
        logger: Logger that gets a line for every episode. If None, the logger of this module is used.
        hooks: Functions that are called with the `Clock` of the evaluation after every step.

    Returns:
        Two lists: the returns and the lengths of the episodes.

    Raises:
        ValueError: If both or neither of `n_steps` and `n_episodes` are given, or if a number is less than 1.
        TypeError: If a number is not an integer.
    """
    check_steps_or_episodes(n_steps=n_steps, n_episodes=n_episodes)
    finished: dict[int, _Result] = {}
    result: list[_Result] | None = None
    with agent.eval_mode():
        source, clock = VectorSource(agent, env, max_episode_len), Clock(None)
        numbers = np.arange(source.num_envs)  # number of the running episode in each environment
        while result is None:
            step, reset, end = source.step(clock)
            for i in np.flatnonzero(end):
                finished[int(numbers[i])] = (float(source.total_reward[i]), int(source.length[i]))
                numbers[i] = numbers.max() + 1
            result = _episodes_if_complete(finished, numbers, source, n_steps, n_episodes)
            source.observe(step, reset if result is None else np.ones_like(reset))
            for hook in hooks:
                hook(clock)
    for index, (score, steps) in enumerate(result):
        _log_episode(logger, index, steps, score)
    return [score for score, _ in result], [float(steps) for _, steps in result]


def _episodes_if_complete(
    finished: dict[int, _Result], numbers: Any, source: VectorSource, n_steps: int | None, n_episodes: int | None
) -> list[_Result] | None:
    """Return the (return, length) of each episode of the evaluation; None if more episodes are needed."""
    in_order = [finished[i] for i in itertools.takewhile(finished.__contains__, itertools.count())]
    if n_steps is None:
        assert n_episodes is not None
        return in_order[:n_episodes] if len(in_order) >= n_episodes else None
    running = [(float(source.total_reward[i]), int(source.length[i])) for i in np.flatnonzero(numbers == len(in_order))]
    ends = list(itertools.accumulate(steps for _, steps in in_order + running))
    if not ends or ends[-1] < n_steps:
        return None
    complete = [episode for episode, end in zip(in_order, ends, strict=False) if end <= n_steps]
    return complete or (in_order + running)[:1]


@names_unknown_keywords
@takes_integral_floats
@accept_env_ids("env")
def eval_performance(
    env: Any,
    agent: Any,
    n_steps: int | None,
    n_episodes: int | None,
    max_episode_len: int | None = None,
    logger: logging.Logger | None = None,
) -> dict[str, Any]:
    """Evaluate an agent in one or several environments.

    Args:
        env: Environment or vector environment, or an environment id.
        agent: Agent to evaluate.
        n_steps: Number of steps. An unfinished last episode is discarded, unless it is the only episode. None if
            `n_episodes` is given.
        n_episodes: Number of episodes. None if `n_steps` is given.
        max_episode_len: Maximum number of steps in an episode. An episode that reaches this length is truncated. If
            None, there is no limit.
        logger: Logger that gets a line for every episode. If None, the logger of this module is used.

    Returns:
        A dict with "episodes" (the number of episodes) and "mean", "median", "stdev", "max" and "min" of the returns.
        The same five statistics of the episode lengths have the prefix "length_". "stdev" is the sample standard
        deviation; it is 0 for one episode.

    Raises:
        ValueError: If both or neither of `n_steps` and `n_episodes` are given, or if a number is less than 1.
        TypeError: If a number is not an integer.
    """
    return episode_statistics(*_run(env, agent, n_steps, n_episodes, max_episode_len, logger))


def _run(env: Any, agent: Any, *arguments: Any) -> tuple[list[float], list[float]]:
    check_has("agent", agent, "eval_mode", "batch_act" if is_vector(env) else "act")
    return (batch_run_evaluation_episodes if is_vector(env) else run_evaluation_episodes)(env, agent, *arguments)


def episode_statistics(
    scores: list[float], lengths: list[float], success_threshold: float | None = None
) -> dict[str, Any]:
    """Return the statistics of `eval_performance`, and "success_rate" if `success_threshold` is not None."""
    length_stats = {f"length_{name}": value for name, value in _summary(lengths).items()}
    stats = {"episodes": len(scores), **_summary(scores), **length_stats}
    if success_threshold is not None:
        stats["success_rate"] = statistics.mean(score >= success_threshold for score in scores)
    return stats


def _summary(values: Sequence[float]) -> dict[str, float]:
    return {
        "mean": statistics.mean(values),
        "median": statistics.median(values),
        "stdev": statistics.stdev(values) if len(values) >= 2 else 0.0,
        "max": max(values),
        "min": min(values),
    }


class Evaluator:
    """Evaluates an agent at regular intervals, writes the scores to `scores.txt`, and saves the best agent as `best`.

    Args:
        agent: Agent to evaluate.
        env: Environment or vector environment for evaluation, or an environment id. An environment that is made from an
            id is closed by `close`.
        n_steps: Number of steps of each evaluation. None if `n_episodes` is given.
        n_episodes: Number of episodes of each evaluation. None if `n_steps` is given.
        eval_interval: Number of training steps between evaluations.
        outdir: Run directory. It is created if it does not exist.
        max_episode_len: Maximum number of steps in an episode. An episode that reaches this length is truncated. If
            None, there is no limit.
        step_offset: Step at which training starts. Evaluations take place at multiples of `eval_interval`. If positive,
            the run in `outdir` resumes: the evaluator appends to `scores.txt` and restores `max_score` from it. Scores
            of later steps are moved to `outdir/beyond-...`. `best` is also moved if its score belongs to a later step.
            If 0, all scores and `best` are moved to `outdir/earlier-...`.
        evaluation_hooks: `EvaluationHook`s that are called after every evaluation.
        save_best_so_far_agent: True to save the agent as `best` whenever its mean return is the best so far.
        logger: Logger of this run. If None, the logger of this module is used.
        use_tensorboard: True to log evaluations to TensorBoard, too. A runner then also logs the metrics of training to
            TensorBoard.
        success_threshold: Minimum return of a successful episode. If not None, "success_rate" is added to the
            statistics.
        env_choice: Description of `env` for `run.json`. If it begins with "fresh" (a new environment), the evaluator
            seeds `env` with a number from the global NumPy stream, and restores the state of this stream. If it begins
            with "the training", every evaluation restores the random generator of `env`.
        hooks: Functions that are called with the `Clock` of the evaluation after every step.
        moves_files: True to move files of an earlier run. False if the caller has already moved them.

    Attributes:
        max_score: Best mean return so far.
        repeatable: True to restore the environment if a signal interrupts an evaluation, so that a resumed run can
            repeat the evaluation with equal numbers. Runners that save checkpoints set this attribute.
        is_interrupted: True if a signal has interrupted the last evaluation, and the environment has been restored.
        tensorboard: TensorBoard logger. None if `use_tensorboard` is False.
        tb_writer: TensorBoard's `SummaryWriter`. None if `use_tensorboard` is False.
        writes_to: Tuple of the files that the evaluator writes. The runner sets the attribute `error_context` of each
            file, which handles failed writes.

    Raises:
        ValueError: If both or neither of `n_steps` and `n_episodes` are given, or if a number is out of range.
        TypeError: If a number of steps or episodes is not an integer.
        MissingDependencyError: If `use_tensorboard` is True and TensorBoard is not installed.
    """

    @names_unknown_keywords
    @takes_integral_floats
    def __init__(
        self,
        agent: Any,
        env: Any,
        n_steps: int | None,
        n_episodes: int | None,
        eval_interval: int,
        outdir: str | os.PathLike[str],
        max_episode_len: int | None = None,
        step_offset: int = 0,
        evaluation_hooks: Sequence[Any] = (),
        save_best_so_far_agent: bool = True,
        logger: logging.Logger | None = None,
        use_tensorboard: bool = False,
        *,
        success_threshold: float | None = None,
        env_choice: str = "eval_env given",
        hooks: Sequence[Callback] = (),
        moves_files: bool = True,
    ) -> None:
        check_counts(eval_interval=eval_interval)
        self._made = ExitStack()
        env = self._made.enter_context(open_env(env))
        check_arguments(locals(), "eval_mode")
        check_steps_or_episodes(n_steps=n_steps, n_episodes=n_episodes)
        self.agent, self.env = agent, env
        self.n_steps, self.n_episodes, self.eval_interval = n_steps, n_episodes, eval_interval
        self.outdir = check_directory(outdir)
        self.max_episode_len, self.step_offset = max_episode_len, step_offset
        self.evaluation_hooks, self.save_best_so_far_agent = evaluation_hooks, save_best_so_far_agent
        self.logger = logger or _LOGGER
        self.success_threshold, self.env_choice, self.hooks = success_threshold, env_choice, hooks
        self.use_tensorboard, self.repeatable, self.is_interrupted = use_tensorboard, False, False
        with directory_lock(self.outdir):
            if moves_files:
                move_earlier_files(self.outdir, step_offset, self.logger, training=False, tensorboard=use_tensorboard)
            self.tensorboard = tensorboard_of_run(self.outdir, step_offset) if use_tensorboard else None
            self.tb_writer = None if self.tensorboard is None else self.tensorboard.writer
            self.start_time = time.time() - progress_of(self.outdir, step_offset)[1]
            rows = zip(*column_of(self.outdir, SCORES, "mean"), strict=True) if step_offset else ()
            earlier = {t: score for t, score in rows if t <= step_offset}  # scores up to `step_offset`
            self.max_score = max(filter(math.isfinite, earlier.values()), default=float(np.finfo(np.float32).min))
            last = int(max(earlier, default=step_offset))
            # If the earlier run ended before an evaluation that was due, this evaluation is made.
            self.prev_eval_t = last - last % eval_interval
            self._scores = AppendedFile(
                os.path.join(self.outdir, SCORES.name), keep=0 if moves_files and not step_offset else None
            )
            if not self._scores.size:  # the table of a resumed run, or of several processes, may already have a header
                self._scores.append(header_of(agent, env))
        self.writes_to = self._scores, *([self.tensorboard] if self.tensorboard is not None else [])
        with isolated_rng():
            self._seed = int(np.random.randint(2**31))
        if env_choice.startswith("fresh"):
            env.reset(seed=self._seed)

    def evaluate_if_necessary(self, t: int, episodes: int) -> float | None:
        """Evaluate if `eval_interval` steps have passed since the last evaluation.

        Args:
            t: Number of training steps so far.
            episodes: Number of training episodes that have ended so far.

        Returns:
            The mean return, or None if no evaluation is due.
        """
        if t < self.prev_eval_t + self.eval_interval:
            return None
        score = self.evaluate_and_update_max_score(t, episodes)
        self.prev_eval_t = t - t % self.eval_interval
        return score

    def evaluate_and_update_max_score(self, t: int, episodes: int) -> float:
        """Evaluate the agent, even if no evaluation is due.

        Args:
            t: Number of training steps so far.
            episodes: Number of training episodes that have ended so far.

        Returns:
            The mean return.
        """
        getattr(self.env, "clear_statistics", lambda: None)()
        own_env = self.env if self.env_choice.startswith("the training") else None
        with self._restoring_after_signal(), isolated_rng(self.env), _restoring_rng(own_env):
            set_random_seed((self._seed + t) % 2**32)  # scores depend neither on training nor on earlier evaluations
            returns, lengths = _run(
                self.env, self.agent, self.n_steps, self.n_episodes, self.max_episode_len, self.logger, self.hooks
            )
        stats = episode_statistics(returns, lengths, self.success_threshold)
        self._record(t, episodes, stats)
        return float(stats["mean"])

    def _record(self, t: int, episodes: int, stats: dict[str, Any]) -> None:
        """Write the row of an evaluation, call the hooks, and save the best agent."""
        agent_stats, env_stats = statistics_of(self.agent), statistics_of(self.env)
        mean = float(stats["mean"])
        row = [t, episodes, time.time() - self.start_time, *(stats[name] for name in BASIC_COLUMNS[3:])]
        self._scores.append(row_of([*row, *(value for _, value in [*agent_stats, *env_stats])]))
        if self.tensorboard is not None:
            self.tensorboard.log_evaluation(t, agent_stats, stats, env_stats)
        for hook in self.evaluation_hooks:
            hook(
                env=self.env, agent=self.agent, evaluator=self, step=t,
                eval_stats=stats, agent_stats=agent_stats, env_stats=env_stats,
            )  # fmt: skip
        if mean > self.max_score:
            self.logger.info("The best score is updated %s -> %s", self.max_score, mean)
            self.max_score = mean
            if self.save_best_so_far_agent:
                with self._scores.error_context("best"):
                    save_agent(self.agent, "best", self.outdir, self.logger)

    @contextlib.contextmanager
    def _restoring_after_signal(self) -> Iterator[None]:
        """Restore the state of the environment after a signal, and set `is_interrupted`.

        The state is not restored if it is in other processes, which the signal may have interrupted, too, if hooks have
        seen some steps, or if training episodes are running in the environment.
        """
        self.is_interrupted, before = False, None
        if self.repeatable and not self.hooks and self.env_choice != SHARED_ENV:
            with contextlib.suppress(Exception):  # the user's environment may raise any exception
                before = state_between_episodes(self.env)
        try:
            yield
        except (KeyboardInterrupt, Terminated):
            if before is not None and before["envs"] is None:
                with contextlib.suppress(ValueError), isolated_rng():
                    restore_between_episodes(self.env, before)
                    self.is_interrupted = True
            raise

    def saved_state(self) -> dict[str, Any]:
        """Return the state that later scores depend on, except the state of the agent."""
        return {
            "seed": self._seed, "max_score": self.max_score, "prev_eval_t": self.prev_eval_t,
            "elapsed": time.time() - self.start_time,
            "env": None if self.env_choice == SHARED_ENV else state_between_episodes(self.env),
        }  # fmt: skip

    def restore_state(self, state: Mapping[str, Any]) -> Sequence[str]:
        """Restore the result of `saved_state`.

        Returns:
            Reasons why later scores may differ from the scores of an uninterrupted run. The list is empty if later
            scores are equal.
        """
        self._seed, self.max_score, self.prev_eval_t = state["seed"], state["max_score"], state["prev_eval_t"]
        self.start_time = time.time() - state["elapsed"]
        try:
            with isolated_rng():  # `restore_between_episodes` may reset the environment
                if state["env"] is not None:
                    restore_between_episodes(self.env, state["env"])
        except ValueError as error:
            return [f"the evaluation environment cannot be restored: {error}"]
        return ()

    def close(self) -> None:
        """Close the evaluator's files, and the environment if it was made from an id."""
        close_all([*self.writes_to, self._made])

    def drop_scores(self, t: int) -> None:
        """Remove the rows of `scores.txt` from a step on, because this evaluation is repeated.

        Args:
            t: The first step whose row is removed.

        Raises:
            CheckpointError: If the table cannot be replaced.
        """
        lines, _ = lines_of(self._scores.path)
        kept = [row for row in lines[1:] if int(row.partition(SCORES.delimiter)[0]) < t]
        if len(kept) < len(lines[1:]):
            self._scores.replace(encode_lines([lines[0], *kept]))

    def flush(self) -> None:
        """Write all scores to the table.

        Raises:
            CheckpointError: If the table cannot be written.
        """
        self._scores.flush()


def header_of(agent: Any, env: Any) -> bytes:
    """Return the header of `scores.txt`: the basic columns and the names of the statistics of agent and environment."""
    return row_of([*BASIC_COLUMNS, *(name for name, _ in [*statistics_of(agent), *statistics_of(env)])])


def row_of(values: Iterable[Any]) -> bytes:
    """Return a row of `scores.txt`."""
    return ("\t".join(str(masked(value)) for value in values) + "\n").encode()


@contextlib.contextmanager
def _restoring_rng(env: Any) -> Iterator[None]:
    """Restore the random generator of `env` at the end of the context. If `env` is None, do nothing."""
    generator = getattr(getattr(env, "unwrapped", env), "np_random", None)
    state = getattr(getattr(generator, "bit_generator", None), "state", None)
    try:
        yield
    finally:
        if generator is not None and state is not None:
            generator.bit_generator.state = state


def _log_episode(logger: logging.Logger | None, number: int, length: int, score: float) -> None:
    (logger or _LOGGER).info("evaluation episode %s length:%s R:%s", number, length, score)


def tensorboard_of_run(outdir: str, step_offset: int) -> TensorBoardLogger:
    """Return a TensorBoard logger for a run directory. The caller must already have moved the files of earlier runs.

    Raises:
        MissingDependencyError: If TensorBoard is not installed.
    """
    return TensorBoardLogger(outdir, step_offset=step_offset, suffix=RUN_EVENTS_SUFFIX)


#: Names of arguments of the runners (keys) and of the corresponding arguments of `Evaluator` (values).
_EVALUATOR_ARGUMENTS = {
    **{name: name for name in ("eval_interval", "evaluation_hooks", "save_best_so_far_agent", "use_tensorboard")},
    **{f"eval_{name}": name for name in ("n_steps", "n_episodes", "success_threshold")},
    "logger": "logger",
    "outdir": "outdir",
}


def evaluator_options(arguments: Mapping[str, Any], max_episode_len: int | None) -> dict[str, Any]:
    """Return those arguments of a runner that `Evaluator` accepts, under the names that `Evaluator` uses.

    Args:
        arguments: Arguments of the runner.
        max_episode_len: Maximum number of steps in a training episode. If `eval_max_episode_len` is None or missing,
            this is also the maximum in an evaluation episode. If None, there is no limit.
    """
    limit = arguments.get("eval_max_episode_len")
    options = {
        name: arguments[runner_name] for runner_name, name in _EVALUATOR_ARGUMENTS.items() if runner_name in arguments
    }
    return options | {"max_episode_len": max_episode_len if limit is None else limit}


@contextlib.contextmanager
def evaluating(
    arguments: Mapping[str, Any], env: Any, max_episode_len: int | None = None, *, vector: bool = False
) -> Iterator[Callable[[int], Evaluator]]:
    """Lock the run directory, choose the evaluation environment, and yield a function that makes the evaluator.

    Args:
        arguments: Arguments of the runner.
        env: Training environment.
        max_episode_len: Maximum number of steps in a training episode. If `eval_max_episode_len` is None or missing,
            this is also the maximum in an evaluation episode. If None, there is no limit.
        vector: True if `env` is a vector environment.

    Returns:
        A function that takes the step at which training starts and returns the evaluator.
    """
    env_context, choice = choose_eval_env(env, arguments["eval_env"], agent=arguments["agent"], vector=vector)
    options = evaluator_options(arguments, max_episode_len)
    with mirrored(arguments["outdir"]) as outdir, directory_lock(check_directory(outdir)), env_context as chosen_env:
        yield lambda t: Evaluator(arguments["agent"], chosen_env, step_offset=t, env_choice=choice, **options)


__getattr__ = old_names(__name__)
