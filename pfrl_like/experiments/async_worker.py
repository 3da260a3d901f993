"""The worker process of asynchronous training: the training loop with a clock that all processes share."""

import contextlib
import cProfile
import logging
import numbers
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pfrl_like.experiments.callbacks import Evaluation, StepHooks, save_agent, statistics_at
from pfrl_like.experiments.shared_evaluator import SharedEvaluator, SharedScores
from pfrl_like.experiments.sources import SerialSource
from pfrl_like.experiments.training import closing_all
from pfrl_like.processes import ProcessArgument, WaitingEnd
from pfrl_like.runs.loop import Callback, Clock, Episode, run
from pfrl_like.utils.plain_values import to_json
from pfrl_like.utils.random_seed import set_random_seed

_LOGGER = logging.getLogger(__name__)
#: Maximum nesting depth of the JSON values in an agent's saved state.
_MAX_DEPTH = 100


@dataclass(frozen=True)
class Counters:
    """Counters in shared memory.

    Attributes:
        totals: A `multiprocessing.Array` of two numbers: the number of steps that have started, and the number of
            episodes that have ended.
        stop: A raw `multiprocessing.Value`: 1 if all processes must end, else 0.
        beats: Number of heartbeats of each process, in a raw `multiprocessing.Array`. A heartbeat is a step of training
            or evaluation, or the construction of an environment or agent.
        saving: A raw `multiprocessing.Value`: 1 while process 0 saves its agent at the end of training, else 0.
        scores: Progress of the evaluations.
    """

    totals: Any
    stop: Any
    beats: Any
    saving: Any
    scores: SharedScores

    @property
    def steps_started(self) -> int:
        """Number of steps that have started.

        The number is read without the lock, because a killed process may still hold the lock.
        """
        return int(self.totals.get_obj()[0])


@dataclass(frozen=True)
class Job:
    """The arguments of every process.

    Attributes:
        counters: Counters that all processes share.
        make_env: Function that makes an environment, called as `make_env(process_index, test=...)`.
        make_agent: Function that makes an agent, called as `make_agent(process_index)`. None if `agent` is given.
        agent: Agent. Every process gets a copy. None if `make_agent` is given.
        shared: Attributes of the agent that all processes share, keyed by name.
        seeds: Seeds of the random streams, one for each process.
        steps: Step at which training ends. Steps are counted over all processes.
        step_offset: Step at which training starts.
        max_episode_len: Maximum number of steps in an episode. An episode that reaches this length is truncated. If
            None, there is no limit.
        global_step_hooks: Step hooks. Each hook is called as `hook(env, agent, t)` after every step.
        evaluator: Arguments of `Evaluator`. If None, there are no evaluations.
        only_process_0_evaluates: True if the other processes make no evaluations.
        sends_evaluations: True if the processes send the results of evaluations to the main process. The main process
            logs them to TensorBoard.
        successful_score: Training ends when the mean return of an evaluation reaches this value. If None, this
            condition is disabled.
        profile: Folder for profiles. If None, no profiles are written.
        save_dir: Folder in which process 0 saves its agent at the end of training. If it is an empty string, the agent
            is not saved.
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
    global_step_hooks: Sequence[Callable[[Any, Any, int], Any]]
    evaluator: Mapping[str, Any] | None
    only_process_0_evaluates: bool
    sends_evaluations: bool
    successful_score: float | None
    profile: str | None
    save_dir: str


class SharedClock(Clock):
    """The clock of one process.

    The steps of all processes are numbered together. `t` is the number of the last step that this process took.

    Args:
        job: Job of the process.

    Attributes:
        last_step: Number of the last step that this process took. `t` also moves to the end when no steps are left.
    """

    def __init__(self, job: Job) -> None:
        super().__init__(job.steps, job.step_offset)
        self.counters, self.last_step = job.counters, job.step_offset

    @property
    def done(self) -> bool:
        """True if training is over in this process or in all processes."""
        return super().done or self.asked_to_stop

    @property
    def asked_to_stop(self) -> bool:
        """True if all processes must end."""
        return bool(self.counters.stop.value)

    def take_step(self) -> bool:
        """Reserve the number of the next step. Return False if no steps are left."""
        with self.counters.totals.get_lock():
            t = self.counters.totals[0]
            if t < self.steps:
                self.counters.totals[0] = t + 1
        self.previous_t = self.t = t
        if t >= self.steps:
            return False
        self.last_step = t + 1
        return True

    def count_episodes(self) -> None:
        """Add the episodes that ended in this process to the total."""
        with self.counters.totals.get_lock():
            self.counters.totals[1] += len(self.ended)
            self.episodes = self.counters.totals[1]


class AsyncSource(SerialSource):
    """Source of training steps for one of several processes: one agent in one environment."""

    def tick(self, clock: Clock) -> Sequence[Episode]:
        """Make one step, if any steps are left."""
        assert isinstance(clock, SharedClock)
        return super().tick(clock) if clock.take_step() else ()


def work(channel: WaitingEnd, index: int, argument: ProcessArgument[Job]) -> None:
    """Train until no steps are left or all processes must end, and send messages to the main process.

    The messages are ("episode", t, episode), ("score", t, score) and ("stop", t, reason). If `job.sends_evaluations` is
    True, there are also messages ("evaluation", t, (agent_stats, eval_stats, env_stats)). If a hook has changed numbers
    of a shared optimiser, such as the learning rate, the process sends ("optimizers", t, numbers of `option_numbers`).
    Process 0 sends ("agent", t, (statistics, state)) after each of its episodes and at the end. The state is the
    `saved_state` of its agent, or None if the agent has no `saved_state` or if the processes share no attributes.

    Args:
        channel: Channel to the main process.
        index: Index of the process.
        argument: Job of the process.
    """
    torch.set_num_threads(1)
    job = argument.value
    set_random_seed(job.seeds[index])
    counters = job.counters
    counters.beats[index] += 1
    env = job.make_env(index, test=False)
    counters.beats[index] += 1
    opened, clock = [env], SharedClock(job)

    def beat(_: Clock) -> None:
        counters.beats[index] += 1

    def report(clock: Clock) -> None:
        assert isinstance(clock, SharedClock)
        beat(clock)
        clock.count_episodes()
        for episode in clock.ended:
            channel.send(("episode", clock.t, episode))
        if clock.ended:
            send_agent()

    sent_options = [option_numbers(job.shared)]

    def send_agent() -> None:
        options = option_numbers(job.shared)
        if options != sent_options[0]:
            sent_options[:] = [options]
            channel.send(("optimizers", clock.last_step, options))
        if index == 0:
            has_state = job.shared and hasattr(agent, "saved_state")
            state = to_json(agent.saved_state(), _MAX_DEPTH) if has_state else None  # `to_json` copies the tensors
            channel.send(("agent", clock.t, (_numbers(statistics_at(clock, agent)), state)))

    def send_evaluation(*, step: int, agent_stats: Any, eval_stats: Any, env_stats: Any, **_: Any) -> None:
        channel.send(("evaluation", step, (_numbers(agent_stats), eval_stats, _numbers(env_stats))))

    with closing_all(opened):
        agent = job.agent if job.make_agent is None else job.make_agent(index)
        opened.append(agent)
        counters.beats[index] += 1
        for name, value in job.shared.items():
            setattr(agent, name, value)
        if hasattr(agent, "process_idx"):
            agent.process_idx = index
        callbacks: list[Callback] = [StepHooks(job.global_step_hooks, env, agent), report]
        if job.evaluator is not None and (index == 0 or not job.only_process_0_evaluates):
            opened.append(job.make_env(index, test=True))
            options: dict[str, Any] = {"logger": _LOGGER, "hooks": [beat]}
            evaluator = SharedEvaluator(counters.scores, agent, opened[-1], **{**job.evaluator, **options})
            if job.sends_evaluations:
                evaluator.evaluation_hooks = [*evaluator.evaluation_hooks, send_evaluation]
            opened.append(evaluator)
            evaluation = Evaluation(evaluator, agent, job.successful_score, False, evaluator.evaluation_hooks)
            callbacks.append(_evaluation_callback(evaluation, channel, str(job.evaluator["outdir"])))
        saves = job.save_dir and index == 0 and hasattr(agent, "save")
        save_at_end = _saving_in(job.save_dir, agent, counters) if saves else contextlib.nullcontext()
        profile = contextlib.nullcontext() if job.profile is None else cProfile.Profile()
        with save_at_end, profile:
            run(AsyncSource(agent, env, job.max_episode_len), clock, callbacks)
            if not clock.ended:  # otherwise the agent has just been sent
                send_agent()
        if isinstance(profile, cProfile.Profile):
            profile.dump_stats(os.path.join(str(job.profile), f"profile-{index}.out"))


def _numbers(statistics: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [pair for pair in statistics if isinstance(pair[1], int | float)]


def option_numbers(shared: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the numbers in the parameter groups of each optimiser, such as the learning rate, keyed by its name."""
    optimizers = {name: value for name, value in shared.items() if isinstance(value, torch.optim.Optimizer)}
    return {
        name: [
            {key: value for key, value in group.items() if isinstance(value, numbers.Real | tuple)}
            for group in optimizer.param_groups
        ]
        for name, optimizer in optimizers.items()
    }


def _evaluation_callback(evaluation: Evaluation, channel: WaitingEnd, outdir: str) -> Callback:
    """Return a callback that evaluates, sends the score, and ends all processes if the score is high enough.

    If the score has reached `successful_score`, the agent is saved as `successful`, as in PFRL.
    """

    def evaluate(clock: Clock) -> None:
        assert isinstance(clock, SharedClock)
        if clock.asked_to_stop:
            return
        count = len(evaluation.history)
        evaluation(clock)
        for statistics in evaluation.history[count:]:
            channel.send(("score", clock.t, statistics["eval_score"]))
        if clock.stopped:
            channel.send(("stop", clock.t, clock.reason))
            clock.counters.stop.value = 1
        if clock.stopped and evaluation.success is not None:
            with clock.counters.scores.recording:
                save_agent(evaluation.agent, "successful", outdir, _LOGGER)

    return evaluate


@contextlib.contextmanager
def _saving_in(folder: str, agent: Any, counters: Counters) -> Iterator[None]:
    """Save the agent at the end of the context, even after an error in the context."""

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
