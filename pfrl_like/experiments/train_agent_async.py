"""Asynchronous training in several processes, with agents that share parameters or with actors and a learner."""

import logging
import multiprocessing
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from typing import Any

import torch

from pfrl_like.envs.make_env import env_factory
from pfrl_like.experiments import runner_arguments
from pfrl_like.experiments.async_source import AgentOfProcess0, AsyncWorkers, SharedAgent
from pfrl_like.experiments.async_worker import Counters, Job
from pfrl_like.experiments.callbacks import EpisodeLog
from pfrl_like.experiments.evaluator import evaluator_options, tensorboard_of_run
from pfrl_like.experiments.resume import newest_agent
from pfrl_like.experiments.run_state import is_restorable
from pfrl_like.experiments.shared_evaluator import shared_scores
from pfrl_like.experiments.train_agent import StepHookLike, check_hooks
from pfrl_like.experiments.training import train
from pfrl_like.loggers import MetricsLogger
from pfrl_like.optimizers import share_state
from pfrl_like.processes import check_sendable
from pfrl_like.processes.worker import resolve_start_method
from pfrl_like.runs.loop import Callback
from pfrl_like.runs.run_directory import check_directory, move_earlier_files, progress_of
from pfrl_like.runs.run_files import directory_lock
from pfrl_like.utils.checks import check_counts, check_seconds, names_unknown_keywords, takes_integral_floats
from pfrl_like.utils.old_names import old_names

_LOGGER = logging.getLogger(__name__)


@names_unknown_keywords
@takes_integral_floats
def train_agent_async(
    outdir: str | os.PathLike[str],
    processes: int,
    make_env: Callable[..., Any] | str,
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
    """Train copies of an agent in several processes, each in its own environment.

    The run directory contains the same files as after `train_agent`. The process whose episode ends after a multiple of
    `eval_interval` evaluates the agent. The other processes continue during an evaluation, so the rows of `scores.txt`
    may not be in the order of their steps.

    With every start method, the agent, its parts, the hooks and the functions may contain lambdas, local functions and
    local classes. Tensors in shared memory, and locks and counters of `multiprocessing`, stay shared.

    Args:
        outdir: Run directory. It is created if it does not exist.
        processes: Number of processes.
        make_env: Function that makes the environment of each process, called as `make_env(process_index, test=False)`.
            If there are evaluations, each process also calls it with `test=True`, to make its evaluation environment.
            Instead of a function, an environment id such as "CartPole-v1" is also accepted. Each process then seeds its
            environments from its global NumPy stream.
        profile: True to write a profile of the running time of each process, `profile-<process index>.out`.
        steps: Step at which training ends. Steps are counted over all processes.
        eval_interval: Number of training steps between evaluations. If None, there are no evaluations.
        eval_n_steps: Number of steps of each evaluation. None if `eval_n_episodes` is given.
        eval_n_episodes: Number of episodes of each evaluation. None if `eval_n_steps` is given.
        eval_success_threshold: Minimum return of a successful evaluation episode. "success_rate", the fraction of such
            episodes, is added to the statistics that evaluation hooks and TensorBoard get.
        max_episode_len: Maximum number of steps in an episode, in training and in evaluation. An episode that reaches
            this length is truncated. If None, there is no limit.
        step_offset: Step at which training starts, at most `steps`. If positive, the run in `outdir` resumes: the
            episode count and the elapsed time continue, and everything that belongs to later steps is moved to
            `outdir/beyond-...`. If 0, everything that an earlier run wrote is moved to `outdir/earlier-...`.
        successful_score: Training ends when the mean return of an evaluation reaches this value. The agent is then
            also saved as `successful`. If None, this condition is disabled.
        agent: Agent such as `A3C` or `ACER`. Each process gets a copy. None if `make_agent` is given.
        make_agent: Function that makes the agent of a process, called as `make_agent(process_index)` in each process.
            None if `agent` is given.
        global_step_hooks: Functions that are called as `hook(env, agent, t)` after every step, in the process that made
            the step. Every t occurs once.
        evaluation_hooks: `EvaluationHook`s that are called after every evaluation, in the process that evaluated. Each
            process has its own copies. If a hook has a state (`state_dict` or `saved_state`), only process 0 evaluates,
            so that the hook sees all evaluations.
        save_best_so_far_agent: True to save the agent as `best` whenever its mean return is the best so far.
        use_tensorboard: True to log evaluations and the rows of `metrics.csv` to TensorBoard, too.
        logger: Logger of this run. If None, the logger of this module is used.
        random_seeds: Seeds of the random streams, one for each process. If None, the seeds are 0, 1, ...
        stop_event: Event that ends training when it is set. The runner also sets the event at the end of training. Only
            this process reads the event, so a `threading.Event` can be used. If None, no event ends training.
        exception_event: Event that ends training with an error when it is set. Only this process reads the event, so a
            `threading.Event` can be used. If None, no event ends training.
        use_shared_memory: True to share the attributes in the agent's `shared_attributes` between all processes. If
            False, each process trains its own agent, and only the agent of process 0 is evaluated, and saved at the
            end.
        start_method: Start method of the processes: "fork", "spawn" or "forkserver". If None, the method that
            `multiprocessing.set_start_method` has chosen is used. If none has been chosen, or if it is fork and this
            process has other threads or uses CUDA, forkserver is used if the system has it, else spawn. Forkserver and
            spawn require the main part of the script under `if __name__ == "__main__":`.
        grace: Maximum number of seconds that a process may take to end after the end of training. The time of a running
            evaluation is not included. A process that takes longer is killed, and the error names the process. The
            limit must be longer than the longest step, reset, save, hook or call of `make_env`. A step of an actor
            includes its wait for the learner. If another process has failed, the limit is at most 2 seconds. After
            Ctrl-C, SIGTERM or an error in this process, the limit is at most half a second.
        step_timeout: Maximum number of seconds between two heartbeats of a process during training. A heartbeat is a
            step of training or evaluation, or the construction of an environment or agent. A process that exceeds the
            limit ends training with an error. The error contains the traceback of the process. If None, there is no
            limit.
        checkpoint_freq: Number of steps between checkpoints `<t>_checkpoint`. If None, no checkpoints are saved.
            Checkpoints require shared memory.
        progress: True to show a progress bar. If None, the bar is shown only on a terminal.
        hooks: Functions that are called with the `Clock` of this process several times a second.
        loggers: Loggers that get the metrics in addition to the CSV file. The runner closes them at the end.
        resume: True to resume from the newest complete agent in `outdir`. If `outdir` contains no agent, a new run
            starts. Networks, optimisers, counters, scores and tables are restored. The environments start new episodes,
            with the seeds of the new run, and a replay buffer starts empty, because the steps of parallel processes are
            never exactly reproducible. `resume` requires shared memory.

    Returns:
        `agent`, or, if `make_agent` is given, the agent that `make_agent(0)` returned. If `make_agent` makes actors,
        the agent of the learner is returned. Attributes that the processes do not share, such as running means of
        statistics, have the values of process 0. If `use_shared_memory` is False, the result is the untrained `agent`,
        or None if `make_agent` is given: load the trained agent from `outdir`.

    Raises:
        AsyncTrainingError: If a process raised an error, died or did not end, or if `exception_event` was set. The
            error contains all tracebacks. Before the error is raised, the agent is saved as `<t>_except`, and all
            processes have ended.
        ValueError: If not exactly one of `agent` and `make_agent` is given, if a number is out of range, or if no
            environment is registered under the id `make_env`.
        TypeError: If a number is not an integer, if an argument has the wrong type, if `use_shared_memory` is True and
            the agent has no `shared_attributes`, or if an object cannot be sent to another process.
    """
    logger = logger or _LOGGER
    arguments = runner_arguments.check_arguments(locals())
    check_hooks(evaluation_hooks, "support_train_agent_async", "train_agent_async")
    outdir = check_directory(outdir)
    check_counts(processes=processes)
    if agent is not None:
        runner_arguments.check_has("agent", agent, "act", "observe")
    if (agent is None) == (make_agent is None):
        raise ValueError(f"agent is {agent!r:.80} and make_agent is {make_agent!r:.80}, expected exactly one of them")
    check_seconds(grace=grace)
    check_seconds(optional=True, step_timeout=step_timeout)
    start_method = resolve_start_method(start_method)
    seeds = runner_arguments.process_seeds(random_seeds, processes)
    factory = env_factory(make_env)
    with directory_lock(outdir):
        if agent is None and make_agent is not None:
            agent = getattr(make_agent, "representative", None)
            if agent is None and use_shared_memory:
                agent = make_agent(0)
        has_learner = hasattr(agent, "starting")  # True if a learner runs in this process
        if use_shared_memory and not has_learner:
            runner_arguments.check_shares(agent, "agent" if make_agent is None else "make_agent(0)")
        is_independent = not use_shared_memory and not has_learner
        saving = runner_arguments.saving_hooks(hooks) or None
        sharing = {"resume": resume or None, "checkpoint_freq": checkpoint_freq, "hooks": saving}
        for name, value in sharing.items():
            if is_independent and value is not None:
                raise ValueError(f"{name} is {value}, which requires use_shared_memory=True, got False")
        parts = {"make_env": factory, "make_agent": make_agent, "global_step_hooks": global_step_hooks}
        for name, part in (parts | {"evaluation_hooks": evaluation_hooks}).items():
            check_sendable(name, part, start_method)
        if make_agent is None:
            check_sendable("agent", agent, start_method, "pass make_agent instead of agent; ")
        if resume:
            step_offset = min(newest_agent(getattr(agent, "agent", agent), outdir, logger), steps)
        save_dir = os.path.join(outdir, ".process-0") if is_independent else ""
        if is_independent:
            shutil.rmtree(save_dir, ignore_errors=True)  # a killed run may have left the folder
        evaluator = evaluator_options(arguments, max_episode_len) | {
            "outdir": outdir, "step_offset": step_offset, "logger": None, "use_tensorboard": False,
        }  # fmt: skip
        spawn = multiprocessing.get_context("spawn")  # locks of this context work with every start method
        totals = spawn.Array("q", [step_offset, progress_of(outdir, step_offset)[0]])
        beats = spawn.RawArray("Q", processes)
        counters = Counters(totals, spawn.RawValue("b", 0), beats, spawn.RawValue("b", 0), shared_scores())
        job = Job(
            counters=counters, make_env=factory, make_agent=make_agent, agent=agent if make_agent is None else None,
            shared=_share(agent) if use_shared_memory else {}, seeds=seeds, steps=steps, step_offset=step_offset,
            max_episode_len=max_episode_len, global_step_hooks=global_step_hooks,
            evaluator=None if eval_interval is None else evaluator,
            only_process_0_evaluates=is_independent or any(map(is_restorable, evaluation_hooks)),
            sends_evaluations=use_tensorboard, successful_score=successful_score,
            profile=outdir if profile else None, save_dir=save_dir,
        )  # fmt: skip
        if resume and step_offset:
            logger.info("The run resumes from step %d of %s", step_offset, outdir)
        # Move the files before the processes write new files.
        move_earlier_files(outdir, step_offset, logger, no_checkpoint=resume)
        learner = getattr(agent, "agent", agent)
        runner_arguments.set_step(learner, step_offset, logger)
        with getattr(agent, "starting", nullcontext)(step_offset):
            source = AsyncWorkers(job, stop_event, exception_event, logger, start_method, grace, step_timeout)
        saved_agent: Any = agent if has_learner else SharedAgent(agent, source)
        if is_independent:
            saved_agent = AgentOfProcess0(source, save_dir, logger)
        with closing(source):
            if use_tensorboard:  # all processes share one file
                source.tensorboard = tensorboard_of_run(outdir, step_offset)
                loggers = [*loggers, source.tensorboard]
            try:
                train(
                    saved_agent, None, source, steps, outdir,
                    make_logs=lambda all_loggers, directory: [EpisodeLog(saved_agent, all_loggers, logger, directory)],
                    checkpoint_freq=checkpoint_freq, step_offset=step_offset, logger=logger, progress=progress,
                    hooks=hooks, loggers=loggers, on_error=lambda _: source.close(), moves_files=False,
                    run_loop=lambda _, clock, callbacks, __: source.run(clock, callbacks),
                )  # fmt: skip
            finally:
                if stop_event is not None:
                    stop_event.set()
                if is_independent:
                    shutil.rmtree(save_dir, ignore_errors=True)
    return learner


def _share(agent: Any) -> dict[str, Any]:
    """Move the attributes that an agent shares with other processes to shared memory, and return them."""
    shared = {name: getattr(agent, name) for name in getattr(agent, "shared_attributes", ())}
    for value in shared.values():
        if isinstance(value, torch.nn.Module):
            value.share_memory()
        elif isinstance(value, torch.optim.Optimizer):
            share_state(value)
    return shared


@takes_integral_floats
def train_agent_actor_learner(
    agent: Any,
    make_env: Callable[..., Any] | str,
    steps: int,
    outdir: str | os.PathLike[str],
    n_actors: int = 2,
    *,
    n_updates: int | None = None,
    actor_update_interval: int = 8,
    updates_per_step: float | None = None,
    **options: Any,
) -> Any:
    """Train an agent from replay. Actors collect steps in other processes; a thread of this process learns.

    By default, processes start with forkserver or spawn. These require the main part of the script under `if __name__
    == "__main__":`. `start_method="fork"` does not require it.

    Args:
        agent: Agent with the method `setup_actor_learner_training`, such as `pfrl_like.agents.DQN`. The learner counts
            updates, not steps: it synchronises the target network every `target_update_interval / update_interval *
            n_times_update` updates. `update_interval` has no other effect.
        make_env: Function that makes the environment of each actor's process, called as `make_env(process_index,
            test=False)`. Each process also calls it with `test=True`, to make its evaluation environment. The argument
            `test` is passed by name. `make_env` may also be an environment id, as in `train_agent_async`.
        steps: Step at which training ends. Steps are counted over all actors.
        outdir: Run directory. It is created if it does not exist.
        n_actors: Number of actors.
        n_updates: Number of updates after which training ends. If None, there is no limit.
        actor_update_interval: Number of updates after which the learner sends its parameters to the actors.
        updates_per_step: Number of updates per step. If None, actors and learner each run as fast as possible.
        **options: Additional arguments of `train_agent_async`: evaluation, hooks, checkpoints, progress, start method.
            The defaults of `train_agent_async` apply: the agent is evaluated for 10 episodes every 10**6 steps, and the
            best agent is saved. If the run is shorter, pass a smaller `eval_interval`.

    Returns:
        The agent in its final state. This state is also saved as `<t>_finish`.

    Raises:
        AsyncTrainingError: If an actor or the learner raised an error or died. Before the error is raised, the agent is
            saved.
    """
    runner_arguments.check_arguments({"agent": agent}, "setup_actor_learner_training")
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


__getattr__ = old_names(__name__)
