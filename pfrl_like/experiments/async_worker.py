"""The worker process of asynchronous training: the serial loop on a clock that all processes share."""

import contextlib
import cProfile
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pfrl_like.experiments.callbacks import Evaluation, StepHooks, statistics_of
from pfrl_like.experiments.evaluator import Evaluator
from pfrl_like.experiments.sources import SerialSource
from pfrl_like.experiments.training import closing_all
from pfrl_like.processes import WaitingEnd
from pfrl_like.runs.loop import Callback, Clock, Episode, run
from pfrl_like.utils.plain_values import to_json
from pfrl_like.utils.random_seed import set_random_seed

#: Most levels of nested JSON values in an agent's saved state.
_LEVELS = 100


@dataclass(frozen=True)
class Counters:
    """Counters in memory that the processes share.

    Attributes:
        totals: Number of steps that have begun, and number of episodes that have ended; a `multiprocessing.Array`.
        stop: 1 when all processes have to end; a raw `multiprocessing.Value`.
        beats: Number of signs of life of each process: its steps, those of evaluation, and the parts it constructs
            before; a raw `multiprocessing.Array`.
        saving: 1 while process 0 saves its agent at its end; a raw `multiprocessing.Value`.
    """

    totals: Any
    stop: Any
    beats: Any
    saving: Any

    @property
    def steps_begun(self) -> int:
        """The first of `totals`, read without its lock, which a killed process may still hold."""
        return int(self.totals.get_obj()[0])

    def beat(self, index: int) -> None:
        """Count a sign of life of a process."""
        self.beats[index] += 1


@dataclass(frozen=True)
class Job:
    """The job that every process gets.

    Attributes:
        counters: Counters shared with the other processes.
        make_env: Called as (process index, test=).
        make_agent: Called as (process index); None if `agent` is given.
        agent: The agent itself, of which every process gets a copy.
        shared: Attributes of the agent that all processes share, by name.
        seeds: Seeds of the random streams, one for each process.
        steps: Step, counted over all processes, at which training ends.
        step_offset: Step at which training starts.
        max_episode_len: Maximum number of steps in an episode. An episode that reaches this length is truncated. If
            None, there is no limit.
        global_step_hooks: Returns the hooks that are called as (env, agent, t) after every step.
        evaluator: Returns the arguments of the `Evaluator` of process 0; None for no evaluation.
        tells_evaluations: Whether process 0 sends the results of evaluations to the process that started all, which
            logs them.
        successful_score: Training ends when the mean return of an evaluation reaches this value. If None, no return
            ends training.
        profile: Folder for profiles; None for none.
        outcome: Folder in which process 0 saves its agent at the end; empty for none.
    """

    counters: Counters
    make_env: Callable[..., Any]
    make_agent: Callable[[int], Any] | None
    agent: Any
    shared: dict[str, Any]
    seeds: Sequence[int]
    steps: int
    step_offset: int
    max_episode_len: int | None
    global_step_hooks: Callable[[], Sequence[Callable[[Any, Any, int], Any]]]
    evaluator: Callable[[], dict[str, Any]] | None
    tells_evaluations: bool
    successful_score: float | None
    profile: str | None
    outcome: str


class SharedClock(Clock):
    """The clock of one process; `t` is the number of its latest step, counted over all processes.

    Args:
        job: Job of the process.
    """

    def __init__(self, job: Job) -> None:
        super().__init__(job.steps, job.step_offset)
        self.counters = job.counters

    @property
    def done(self) -> bool:
        """True if training is over, in this process or in all."""
        return super().done or self.asked_to_stop

    @property
    def asked_to_stop(self) -> bool:
        """True if all processes have to end."""
        return bool(self.counters.stop.value)

    def take_step(self) -> bool:
        """Take the number of the next step; return False if no steps are left."""
        with self.counters.totals.get_lock():
            t = self.counters.totals[0]
            if t < self.steps:
                self.counters.totals[0] = t + 1
        self.previous_t = self.t = t
        return bool(t < self.steps)

    def count_episodes(self) -> None:
        """Add the episodes that ended in this process to the total."""
        with self.counters.totals.get_lock():
            self.counters.totals[1] += len(self.ended)
            self.episodes = self.counters.totals[1]


class AsyncSource(SerialSource):
    """A source with one agent and one environment, for one of several processes."""

    def tick(self, clock: Clock) -> Sequence[Episode]:
        """Make one step, if any steps are left."""
        assert isinstance(clock, SharedClock)
        return super().tick(clock) if clock.take_step() else ()


def work(channel: WaitingEnd, index: int, job: Job) -> None:
    """Train until the steps are used up or all processes have to end, and send messages.

    The messages are ("episode", t, episode), ("score", t, score) and ("stop", t, reason). If the job asks for it,
    ("evaluation", t, (statistics of the agent, of the returns, of the environment)) is sent, too. Process 0 sends
    ("agent", t, (statistics, state)) after each of its episodes and at the end; the state is what its agent saves
    besides the shared attributes, or None if nothing is shared or it has none.

    Args:
        channel: Channel for the messages.
        index: Index of the process.
        job: Job of the process.
    """
    torch.set_num_threads(1)
    set_random_seed(job.seeds[index])
    counters = job.counters
    counters.beat(index)
    env = job.make_env(index, test=False)
    counters.beat(index)
    opened = [env]
    clock = SharedClock(job)

    def report(clock: Clock) -> None:
        assert isinstance(clock, SharedClock)
        counters.beat(index)
        clock.count_episodes()
        for episode in clock.ended:
            channel.send(("episode", clock.t, episode))
        if clock.ended:
            tell_of_agent()

    def tell_of_agent() -> None:
        if index == 0:
            tells = job.shared and hasattr(agent, "saved_state")
            own = to_json(agent.saved_state(), _LEVELS) if tells else None  # tensors by value
            channel.send(("agent", clock.t, (_numbers(statistics_of(agent)), own)))

    def tell_of_evaluation(*, step: int, agent_stats: Any, eval_stats: Any, env_stats: Any, **_: Any) -> None:
        channel.send(("evaluation", step, (_numbers(agent_stats), eval_stats, _numbers(env_stats))))

    with closing_all(opened):
        agent = job.agent if job.make_agent is None else job.make_agent(index)
        opened.append(agent)
        counters.beat(index)
        for name, value in job.shared.items():
            setattr(agent, name, value)
        if hasattr(agent, "process_idx"):
            agent.process_idx = index
        callbacks: list[Callback] = [StepHooks(job.global_step_hooks(), env, agent), report]
        if job.evaluator is not None and index == 0:
            opened.append(job.make_env(index, test=True))
            told: dict[str, Any] = {"logger": logging.getLogger(__name__), "hooks": [lambda _: counters.beat(0)]}
            evaluator = Evaluator(agent, opened[-1], **job.evaluator() | told)
            if job.tells_evaluations:
                evaluator.evaluation_hooks = [*evaluator.evaluation_hooks, tell_of_evaluation]
            opened.append(evaluator)
            callbacks.append(_evaluation(Evaluation(evaluator, agent, job.successful_score, False), channel))
        saves = job.outcome and index == 0 and hasattr(agent, "save")
        saved = _saved_in(job.outcome, agent, counters) if saves else contextlib.nullcontext()
        with saved, _profiled(job.profile, index):
            run(AsyncSource(agent, env, job.max_episode_len), clock, callbacks)
            tell_of_agent()


def _numbers(statistics: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [pair for pair in statistics if isinstance(pair[1], int | float)]


def _evaluation(evaluation: Evaluation, channel: WaitingEnd) -> Callback:
    """A callback that evaluates, sends the scores, and ends training in all processes if a score is good enough."""

    def evaluate(clock: Clock) -> None:
        assert isinstance(clock, SharedClock)
        if clock.asked_to_stop:
            return
        known = len(evaluation.history)
        evaluation(clock)
        for statistics in evaluation.history[known:]:
            channel.send(("score", clock.t, statistics["eval_score"]))
        if clock.stopped:
            channel.send(("stop", clock.t, clock.reason))
            clock.counters.stop.value = 1

    return evaluate


@contextlib.contextmanager
def _saved_in(folder: str, agent: Any, counters: Counters) -> Iterator[None]:
    """Save the agent at the end of the context, even after an error; a failure to save then does not hide the error."""

    def save() -> None:
        counters.saving.value = 1
        try:
            agent.save(folder)
        finally:
            counters.saving.value = 0

    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):
            save()
        raise
    save()


@contextlib.contextmanager
def _profiled(folder: str | None, index: int) -> Iterator[None]:
    if folder is None:
        yield
        return
    with cProfile.Profile() as profile:
        yield
    profile.dump_stats(os.path.join(folder, f"profile-{index}.out"))
