"""Training in several processes at once: agents that share parameters, or actors and a learner."""

import logging
import multiprocessing
import os
import pickle
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from typing import Any

import torch

from pfrl_like.experiments.async_source import AgentOfProcess0, AsyncWorkers, SharedAgent
from pfrl_like.experiments.async_worker import Counters, Job
from pfrl_like.experiments.callbacks import EpisodeLog
from pfrl_like.experiments.evaluator import evaluator_options, tensorboard_of_run
from pfrl_like.experiments.resume import newest_agent
from pfrl_like.experiments.runner_arguments import (
    check_arguments,
    check_has,
    check_shares,
    seeds_of_processes,
    warn_of_other_step,
)
from pfrl_like.experiments.train_agent import StepHookLike, check_hooks
from pfrl_like.experiments.training import train
from pfrl_like.loggers import MetricsLogger
from pfrl_like.optimizers import share_state
from pfrl_like.processes.worker import chosen_method, sendable
from pfrl_like.runs.loop import Callback
from pfrl_like.runs.run_directory import check_directory, progress_of, set_aside
from pfrl_like.runs.run_files import owned
from pfrl_like.utils.checks import check_counts, check_seconds

_LOGGER = logging.getLogger(__name__)


def train_agent_async(
    outdir: str | os.PathLike[str],
    processes: int,
    make_env: Callable[..., Any],
    profile: bool = False,
    steps: int = 8 * 10**7,
    eval_interval: int | None = 10**6,
    eval_n_steps: int | None = None,
    eval_n_episodes: int | None = 10,
    eval_success_threshold: float = 0.0,
    max_episode_len: int | None = None,
    step_offset: int = 0,
    successful_score: float | None = None,
    agent: Any = None,
    make_agent: Callable[[int], Any] | None = None,
    global_step_hooks: Sequence[StepHookLike] = (),
    evaluation_hooks: Sequence[Any] = (),
    save_best_so_far_agent: bool = True,
    use_tensorboard: bool = False,
    logger: logging.Logger | None = None,
    random_seeds: Sequence[int] | None = None,
    stop_event: Any = None,
    exception_event: Any = None,
    use_shared_memory: bool = True,
    *,
    start_method: str | None = None,
    grace: float = 60.0,
    step_timeout: float | None = 600.0,
    checkpoint_freq: int | None = None,
    progress: bool | None = None,
    hooks: Sequence[Callback] = (),
    loggers: Sequence[MetricsLogger] = (),
    resume: bool = False,
) -> Any:
    """Train copies of an agent in several processes, each in an environment of its own.

    The run directory gets what `train_agent` writes. Process 0 also evaluates, between its episodes, while the others
    go on.

    Args:
        outdir: Run directory.
        processes: Number of processes.
        make_env: Called in each process as (process index, test=False), and in process 0 with test=True for the
            environment to evaluate in; a lambda will do.
        profile: Whether each process writes a profile, `profile-<process index>.out`, of the time it spent.
        steps: Step, counted over all processes, at which training ends.
        eval_interval: Steps between evaluations; None for none.
        eval_n_steps: Steps of each evaluation; None if `eval_n_episodes` is given.
        eval_n_episodes: Episodes of each evaluation; None if `eval_n_steps` is given.
        eval_success_threshold: Return from which an evaluation episode counts as a success; adds "success_rate" to what
            evaluation hooks and TensorBoard get.
        max_episode_len: Steps after which an episode is cut off, in training and in evaluation.
        step_offset: Step at which training starts; see `train_agent`.
        successful_score: Mean return in evaluation that ends training.
        agent: Agent of which each process gets a copy, such as `A3C` or `ACER`; not with `make_agent`.
        make_agent: Called in each process with its index.
        global_step_hooks: Called as (env, agent, t) after every step, in the process that made it; every t comes once.
        evaluation_hooks: `EvaluationHook`s, called after every evaluation, in process 0.
        save_best_so_far_agent: Whether to save the agent as `best` whenever its score is the best so far.
        use_tensorboard: Whether to log evaluations, and what `metrics.csv` gets, to TensorBoard, too.
        logger: Logger of this run.
        random_seeds: Seed of the random streams of each process; None for 0, 1, ...
        stop_event: Ends training when it is set; set here in the end. It is looked at in this process alone, so that
            one of `threading` will do.
        exception_event: Ends training with an error when it is set; likewise.
        use_shared_memory: Whether the attributes that the agent names in `shared_attributes` are the same in all
            processes. Without, each process's agent learns for itself, and that of process 0 is the one that is saved,
            at the end.
        start_method: How processes start: "fork", "spawn" or "forkserver". None is forkserver where there is one, else
            spawn; both need the script's main part under `if __name__ == "__main__":`, fork does not.
        grace: Seconds that processes get to end once training is over, an evaluation that goes on not counted; longer
            than any step (of an actor also its wait for the learner), reset, save or hook takes, and `make_env`. One
            that hangs is then ended by force, and named in the error. After another process has failed it is 2 s at
            most, and half a second after Ctrl-C, SIGTERM or an error in this process.
        step_timeout: Seconds without a sign of life, from a step of training or evaluation or from making a part, after
            which a process hangs while training goes on: it ends training with an error, as any failure does, which
            tells where it was. None is for ever.
        checkpoint_freq: Steps between checkpoints `<t>_checkpoint`; None for none. It needs shared memory.
        progress: Whether to show progress; None shows it on a terminal.
        hooks: Called with the `Clock` of this process's loop several times a second.
        loggers: Further loggers of the metrics, beside the CSV file; closed at the end.
        resume: Whether to go on from the newest agent in `outdir` that is whole; from the start if nothing was saved
            there. Networks, optimisers, counters, scores and tables go on. What processes do beside each other is never
            the same twice, so their environments begin new episodes, with seeds of their own, and a replay buffer
            fills anew. It needs shared memory.

    Returns:
        The agent: that given, the first one made or, if `make_agent` is that of actors, the one that learns. What the
        processes do not share, such as the running means of its statistics, is that of process 0. Without shared memory
        it has not learnt (load what was saved), and is None if none was given.

    Raises:
        AsyncTrainingError: If a process raised, died or did not end, or `exception_event` was set: with all tracebacks,
            after the agent has been saved as `<t>_except` and all processes have ended.
        ValueError: If not exactly one of `agent` and `make_agent` is given, or a number is out of range.
        TypeError: If a number is no integer, a part is none, the agent does not name what its copies share although
            they are to, or something cannot be sent to another process.
    """
    logger = logger or _LOGGER
    given = check_arguments(locals())
    check_hooks(evaluation_hooks, "support_train_agent_async", "train_agent_async")
    outdir = check_directory(outdir)
    check_counts(processes=processes)
    if agent is not None:
        check_has("agent", agent, "act", "observe")
    if (agent is None) == (make_agent is None):
        raise ValueError(f"agent is {agent!r:.80} and make_agent is {make_agent!r:.80}, expected exactly one of them")
    check_seconds(grace=grace)
    check_seconds(optional=True, step_timeout=step_timeout)
    chosen_method(start_method)
    seeds = seeds_of_processes(random_seeds, processes)
    with owned(outdir):
        if agent is None and make_agent is not None:
            agent = getattr(make_agent, "representative", None)
            if agent is None and use_shared_memory:
                agent = make_agent(0)
        represented = hasattr(agent, "starting")  # by a learner of its own, here
        if use_shared_memory and not represented:
            check_shares(agent, "agent" if make_agent is None else "make_agent(0)")
        alone = not use_shared_memory and not represented
        if alone and resume:
            raise ValueError("resume is True and use_shared_memory is False, so that no process would get the agent")
        if alone and checkpoint_freq is not None:
            raise ValueError(
                f"checkpoint_freq is {checkpoint_freq} and use_shared_memory is False, but checkpoints are made of "
                "what the processes share: expected None"
            )
        if resume:
            step_offset = min(newest_agent(getattr(agent, "agent", agent), outdir, logger), steps)
        outcome = os.path.join(outdir, ".process-0") if alone else ""
        if alone:
            shutil.rmtree(outcome, ignore_errors=True)  # of a run that was killed
        evaluator = evaluator_options(given, max_episode_len) | {
            "outdir": outdir, "step_offset": step_offset, "logger": None, "use_tensorboard": False,
        }  # fmt: skip
        spawn = multiprocessing.get_context("spawn")  # whose locks reach processes of each kind
        totals = spawn.Array("q", [step_offset, progress_of(outdir, step_offset).episodes])
        counters = Counters(totals, spawn.RawValue("b", 0), spawn.RawArray("Q", processes), spawn.RawValue("b", 0))
        job = Job(
            counters=counters, make_env=sendable(make_env, "make_env", start_method),
            make_agent=None if make_agent is None else sendable(make_agent, "make_agent", start_method),
            agent=agent if make_agent is None else None, shared=_share(agent) if use_shared_memory else {}, seeds=seeds,
            steps=steps, step_offset=step_offset, max_episode_len=max_episode_len,
            global_step_hooks=sendable(lambda: global_step_hooks, "global_step_hooks", start_method),
            evaluator=None if eval_interval is None else sendable(lambda: evaluator, "evaluation_hooks", start_method),
            tells_evaluations=use_tensorboard, successful_score=successful_score,
            profile=outdir if profile else None, outcome=outcome,
        )  # fmt: skip
        set_aside(outdir, step_offset, logger, in_vain=resume)  # before processes write
        learner = getattr(agent, "agent", agent)
        if hasattr(learner, "t"):
            warn_of_other_step(learner.t, step_offset, logger)
            if not represented:
                learner.t = step_offset
        try:
            with getattr(agent, "starting", nullcontext)(step_offset):
                source = AsyncWorkers(job, stop_event, exception_event, logger, start_method, grace, step_timeout)
        except (AttributeError, pickle.PicklingError) as error:
            raise TypeError(
                f"agent cannot be sent to another process: {error}; give a make_agent instead, or "
                'start_method="fork", which needs no sending'
            ) from error
        seen: Any = agent if represented else SharedAgent(agent, source)
        if alone:
            seen = AgentOfProcess0(source, outcome, logger)
        with closing(source):
            if use_tensorboard:  # one file for all processes
                source.tensorboard = tensorboard_of_run(outdir, step_offset)
                loggers = [*loggers, source.tensorboard]
            try:
                train(
                    seen, None, source, steps, outdir,
                    make_logs=lambda sinks, directory: [EpisodeLog(seen, sinks, logger, directory)],
                    checkpoint_freq=checkpoint_freq, step_offset=step_offset, logger=logger, progress=progress,
                    hooks=hooks, loggers=loggers, on_error=lambda _: source.close(), clears=False,
                )  # fmt: skip
            finally:
                if stop_event is not None:
                    stop_event.set()
                if alone:
                    shutil.rmtree(outcome, ignore_errors=True)
    return learner


def _share(agent: Any) -> dict[str, Any]:
    """The attributes that an agent shares with its copies in other processes, moved into shared memory."""
    shared = {name: getattr(agent, name) for name in getattr(agent, "shared_attributes", ())}
    for value in shared.values():
        if isinstance(value, torch.nn.Module):
            value.share_memory()
        elif isinstance(value, torch.optim.Optimizer):
            share_state(value)
    return shared


def train_agent_actor_learner(
    agent: Any,
    make_env: Callable[..., Any],
    steps: int,
    outdir: str | os.PathLike[str],
    n_actors: int = 2,
    *,
    n_updates: int | None = None,
    actor_update_interval: int = 8,
    updates_per_step: float | None = None,
    **options: Any,
) -> Any:
    """Train an agent that learns from replay: actors gather steps in processes of their own, a thread here learns.

    Processes start by forkserver, or spawn: a script that calls this needs its main part under
    `if __name__ == "__main__":`, or `start_method="fork"`.

    Args:
        agent: Agent with `setup_actor_learner_training`, such as `pfrl_like.agents.DQN`. Its `target_update_interval`
            is divided by its `update_interval`, which is of no other effect here, and the target moves after so many
            updates, not steps; `n_times_update` multiplies that number.
        make_env: Called in each actor's process as (process index, test=False), and in process 0 with test=True for the
            environment to evaluate in; the name `test` is given.
        steps: Step, counted over all actors, at which training ends.
        outdir: Run directory.
        n_actors: Number of actors.
        n_updates: Updates after which training ends; None for no such end.
        actor_update_interval: Updates after which the actors' parameters are renewed.
        updates_per_step: Updates for each step; None lets actors and learner each run as fast as they can.
        **options: Further keywords of `train_agent_async`: evaluation, hooks, checkpoints, progress, start method. Its
            defaults hold: 10 episodes of evaluation every 10**6 steps, so that a shorter run has none without another
            `eval_interval`, and the best agent is saved.

    Returns:
        The agent, as it was saved last (`<t>_finish`).

    Raises:
        AsyncTrainingError: If an actor or the learner raised or died, after the agent has been saved.
    """
    check_arguments({"agent": agent}, "setup_actor_learner_training")
    make_actor, learner, poller, exception_event = agent.setup_actor_learner_training(
        n_actors, n_updates=n_updates, actor_update_interval=actor_update_interval, updates_per_step=updates_per_step
    )
    poller.start()
    learner.start()
    try:
        return train_agent_async(
            outdir, n_actors, make_env, steps=steps, make_agent=make_actor, stop_event=learner.stop_event,
            exception_event=exception_event, **options,
        )  # fmt: skip
    finally:
        for thread in (poller, learner):
            thread.stop()
        for thread in (poller, learner):
            thread.join()
