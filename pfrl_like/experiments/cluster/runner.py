"""`train_agent_distributed`: training with environments in actors of Ray, on one machine or on a cluster."""

import contextlib
import functools
import inspect
import logging
import os
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
from gymnasium.envs.registration import EnvSpec

from pfrl_like.distributed.data_parallel import check_agent, has_process_group
from pfrl_like.envs.make_env import make_env as make_env_from_id
from pfrl_like.experiments.callbacks import EpisodeLog, Evaluation, IntervalLog
from pfrl_like.experiments.cluster.actors import SAVE_SECONDS, EnvActors, Limits
from pfrl_like.experiments.cluster.env_actor import MakeEnv, Origin, RemoteEnvs
from pfrl_like.experiments.cluster.evaluation import ActorEvaluator, EvaluatedEnv
from pfrl_like.experiments.cluster.learners import Learners
from pfrl_like.experiments.cluster.ray_session import ray_session
from pfrl_like.experiments.cluster.remote_buffer import RemoteBuffer
from pfrl_like.experiments.cluster.replay_journal import JournaledBuffer
from pfrl_like.experiments.cluster.source import DistributedSource, Losses, MessageSize, Order, is_synchronous
from pfrl_like.experiments.evaluator import evaluator_options
from pfrl_like.experiments.runner_arguments import arguments_for, check_arguments, check_has
from pfrl_like.experiments.train_agent import StepHookLike, check_hooks
from pfrl_like.experiments.training import train
from pfrl_like.loggers import MetricsLogger
from pfrl_like.processes.rerun_request import rerun_request
from pfrl_like.random_streams.streams import GlobalStreams, global_entropy
from pfrl_like.replay_buffers.persistent import PersistentBuffer
from pfrl_like.runs.loop import Callback, Clock, Source, run
from pfrl_like.runs.mirror import mirrored
from pfrl_like.utils import checks

_LOGGER = logging.getLogger(__name__)


@checks.names_unknown_keywords
@checks.takes_integral_floats
def train_agent_distributed(
    make_agent: Callable[[], Any],
    make_env: MakeEnv | str,
    *,
    steps: int,
    outdir: str | os.PathLike[str],
    actors: int = 4,
    envs_per_actor: int = 8,
    learners: int = 1,
    replay: Literal["learner", "actor"] = "learner",
    order: Order = "arrival",
    updates_per_step: float | None = None,
    seconds_per_message: float = 0.1,
    rows_per_message: tuple[int, int] = (1, 8),
    requests_in_flight: int = 2,
    minibatches_in_flight: int = 2,
    seed: int | None = None,
    address: str | None = None,
    cpus_per_actor: float | None = None,
    start_timeout: float = 60.0,
    answer_timeout: float = 600.0,
    replace_timeout: float = 600.0,
    max_early_deaths: int = 3,
    max_episode_len: int | None = None,
    eval_interval: int | None = None,
    eval_n_steps: int | None = None,
    eval_n_episodes: int | None = 10,
    eval_max_episode_len: int | None = None,
    eval_success_threshold: float | None = None,
    eval_timeout: float = 3600.0,
    successful_score: float | None = None,
    evaluation_hooks: Sequence[Any] = (),
    save_best_so_far_agent: bool = True,
    use_tensorboard: bool = False,
    checkpoint_freq: int | None = None,
    log_interval: int | None = None,
    return_window_size: int = 100,
    step_hooks: Sequence[StepHookLike] = (),
    hooks: Sequence[Callback] = (),
    loggers: Sequence[MetricsLogger] = (),
    logger: logging.Logger | None = None,
    progress: bool | None = None,
    resume: bool = False,
    keep_checkpoints: int | None = None,
    on_checkpoint_failure: Literal["raise", "warn"] = "raise",
) -> tuple[Any, list[dict[str, Any]]]:
    """Train an agent with environments in several processes of Ray, on this machine or on a cluster.

    Each actor, a process of Ray, steps its environments with a copy of the acting half of the agent, and returns the
    steps as columns. This process, the learner, stores the steps and makes the updates. It asks an actor for further
    steps when the updates for the last ones are made. Therefore the number of updates per step is exact. A run that
    could be faster shows "learner_waits" (more actors would help) or "actors_wait" (the learner is the bottleneck) in
    `metrics.csv`.

    Agents with a replay buffer, and on-policy agents that correct for the age of their steps (IMPALA, APPO), are
    trained while the actors step. Other on-policy agents (PPO, A2C) are trained synchronously: all actors are asked for
    the steps of one update with the newest weights, and wait during the update.

    With `replay="actor"`, the replay buffer is in a process of its own (Ape-X, arXiv:1803.00933). Steps go from the
    actors to this process without the learner, and the learner asks for minibatches ahead. The attribute
    `replay_buffer` of the agent then refers to this process, which ends with the run. If the process is lost, the run
    ends with an error. The process writes each message to a journal before it confirms it, so that a resumed run keeps
    all confirmed steps after its checkpoint, see `replay`.

    Arguments that are not the default and have no effect on the agent are named in a warning.

    A lost actor costs its running episodes and the steps that were on their way. Another process with other random
    streams takes its place. An error that an environment raises ends the run.

    Args:
        make_agent: Function without arguments that makes the agent, in this process.
        make_env: Function that makes an environment in an actor, called as `make_env(actor, index, test)`. `actor` is
            the number of the actor, and `index` the number of the environment in this actor, both counted from 0.
            `test` is True for the environment of the evaluation, whose `actor` is `actors`. The function may be a
            lambda or a local function, and is sent to the actors. Modules that it imports must be installed on all
            nodes, or be in a folder of `sys.path` that exists on all nodes. An environment id such as "CartPole-v1" is
            also accepted.
        steps: Step at which training ends. Steps are counted over all environments.
        outdir: Run directory, or its URL on a storage that fsspec knows, such as "s3://bucket/run" (extra `hub`). It is
            created if it does not exist. At a URL, the run works in a local folder. Changed files are uploaded after
            each checkpoint, after each new best score and at the end, also after an error or SIGTERM. `resume=True`
            first downloads the run. Two machines must not write to the same URL at the same time.
        actors: Number of actors. A multiple of `learners`.
        envs_per_actor: Number of environments in each actor.
        learners: Number of processes that make every update together (data parallelism; see `data_parallel`). This
            process is learner 0, and Ray starts the others, which call `make_agent` and get the parameters of this
            process. The steps of actor i belong to learner i % learners, and each learner has its own replay buffer or
            rollout. An update learns from one minibatch of each learner: `minibatch_size`, `replay_start_size`, and the
            `update_interval` of an on-policy agent, are numbers for each learner. If the agent is on a GPU, each
            learner needs a GPU of its own. `replay` must be "learner".
        replay: "learner" keeps the replay buffer in the process of the learner, "actor" in a process of Ray of its own.
            This process runs on the node of the learner, because it writes the files of the buffer. If the buffer is a
            `PrioritizedReplayBuffer` and the agent acts with a Q-function, the actors compute the first priorities of
            new steps: the one-step TD errors under the weights with which they act. Otherwise new steps have the
            largest priority. From the first checkpoint on, the process also writes all steps to journals in
            `outdir/checkpoint_buffers/`. A run that resumes from a checkpoint stores the steps of its journals again
            and counts them, and all episodes start anew. If `order` is "fixed" and the run resumes exactly, it repeats
            these steps instead. Journals survive the end of all processes, but they are not synced: a crash of the
            machine may destroy their last seconds. Journals that no kept checkpoint needs are deleted. A journal that
            cannot be written always ends training. A persistent buffer is closed in this process and opened in the
            other one. With "learner", a persistent buffer has journals too, unless there are several learners.
        order: "arrival" reads the actors as they answer, so that no actor waits for a slower one. "fixed" reads them in
            turn: two runs with the same seeds are then equal, with their scores, and a run resumes exactly. A
            checkpoint then waits for all actors, within `answer_timeout`.
        updates_per_step: Number of updates per environment step of an agent with a replay buffer, counted from the
            first update on. If None, the agent's `n_times_update / update_interval`.
        seconds_per_message: Number of seconds of stepping that one message contains, within `rows_per_message`.
        rows_per_message: Minimum and maximum number of steps in a message. Few steps cost the learner more time per
            step. Many steps delay learning, because they were made with older weights. With `order="fixed"`, the
            maximum is always used. For an on-policy agent, a message is an actor's part of one update.
        requests_in_flight: Number of requests that each actor has at the same time. With 2, an actor need not wait for
            the learner. With 1, its weights are newer.
        minibatches_in_flight: Number k of minibatches that the learner requests at the same time with
            `replay="actor"`. A minibatch is then sampled before the priorities of the last k - 1 updates are known.
            With `order="fixed"`, and for buffers with `wait_priority_after_sampling=True`, this number is always 1.
        seed: Seed of the random streams of the actors and their environments. If None, it is taken from the global
            NumPy stream. A single actor then continues the global streams of this process instead, and its environments
            keep the seeds that `make_env` gives them, as in `train_agent_batch`.
        address: Address of a Ray cluster, for example "auto". If None, the environment variable RAY_ADDRESS is used. If
            this variable is not set either, or if the address is "local", Ray is started on this machine for this run.
            If the program has already called `ray.init`, this Ray is used.
        cpus_per_actor: Number of CPUs that Ray reserves for each actor, and for each further learner. A fraction lets
            several actors share a CPU. If None, 0 if Ray is started for this run, else 1.
        start_timeout: Seconds in which an actor must be scheduled and make its environments, or a learner its agent.
        answer_timeout: Seconds in which an actor must answer. An actor that takes longer is replaced. A learner that
            takes longer ends the run.
        replace_timeout: Seconds in which an actor must start again after its node was lost. The actor of the evaluation
            always has this time to start again.
        max_early_deaths: Number of times in a row that the processes of an actor may be lost before their first answer.
            If they are lost more often, the run ends.
        max_episode_len: Maximum number of steps in an episode. An episode that reaches this length is truncated. If
            None, there is no limit.
        eval_interval: Number of training steps between evaluations. They run in an actor of their own while training
            continues. With `order="arrival"`, training waits for them only at its end: an evaluation that is due while
            another one is running starts later, or is skipped. With `order="fixed"`, training waits for the running
            evaluation when the next one is due and when a checkpoint is saved. If None, there are no evaluations.
        eval_n_steps: Number of steps of each evaluation. None if `eval_n_episodes` is given.
        eval_n_episodes: Number of episodes of each evaluation. None if `eval_n_steps` is given.
        eval_max_episode_len: Maximum number of steps in an evaluation episode. If None, `max_episode_len` is used.
        eval_success_threshold: Minimum return of a successful evaluation episode. If not None, "success_rate" is added
            to the statistics that evaluation hooks and TensorBoard get.
        eval_timeout: Seconds in which an evaluation must finish. If it takes longer, its actor is replaced, and repeats
            the evaluation. If this happens four times in one evaluation, the run ends.
        successful_score: Training ends when the mean return of an evaluation reaches this value. If None, this
            condition is disabled.
        evaluation_hooks: `EvaluationHook`s that are called after every evaluation.
        save_best_so_far_agent: True to save the agent as `best` whenever its mean return is the best so far.
        use_tensorboard: True to log evaluations and the rows of `metrics.csv` to TensorBoard, too.
        checkpoint_freq: Number of steps between checkpoints `<t>_checkpoint`. A checkpoint contains everything that
            `resume` needs, except the contents of replay buffers. These are in the folder `checkpoint_buffers/`. If
            None, no checkpoints are saved.
        log_interval: Number of steps between log lines. If None, no lines are logged.
        return_window_size: Number of episodes in the logged mean return.
        step_hooks: Functions that are called as `hook(env, agent, t)` for every step. `env` describes the environments.
            The hooks change the agent of the learner. Only the public attributes of its explorer that are numbers, such
            as "explorer.epsilon", reach the actors, with the next request. Other changes do not affect the actions.
        hooks: Functions that are called with the `Clock` after every iteration of the training loop, after logging and
            evaluation. `clock.stop()` ends training. If a hook has a method `close`, the runner calls `close` at the
            end. `resume` restores the hooks and loggers that have `saved_state()` and `restore_state(state)`, or
            `state_dict()` and `load_state_dict(state)`.
        loggers: Loggers that get the metrics in addition to the CSV file. The runner closes them at the end.
        logger: Logger of this run. If None, the logger of this module is used.
        progress: True to show a progress bar. If None, the bar is shown only on a terminal.
        resume: True to resume from the newest complete checkpoint in `outdir`. The run then continues as if it had not
            stopped. If `outdir` contains no checkpoint or agent, a new run starts. All objects must be constructed in
            the same way as in the saved run. Everything that belongs to steps after the checkpoint is moved to
            `outdir/beyond-...`. If later steps may differ from the steps of an uninterrupted run, the reasons are
            logged.
        keep_checkpoints: Number of checkpoints to keep, in addition to `best`. A run can resume from each of them. If
            None, the agents of all checkpoints are kept, and a run can resume from the newest two.
        on_checkpoint_failure: "raise": a failed write of a checkpoint, table or trace ends training. "warn": the first
            failed write of each file is logged, training continues, and unwritten rows stay in memory until the disk
            has space. Earlier checkpoints are always kept. A file that cannot be created always raises an error. Failed
            writes of `run.log` and of the report never end training.

    Returns:
        The agent, and a list with one dict for each evaluation: the agent's statistics and "eval_score".

    Raises:
        WorkerError: If an environment raised an error, if an actor cannot be started or replaced, or if the replay
            actor or a learner is lost. The message contains the traceback of the environment, or the resources that are
            missing.
        MissingDependencyError: If Ray is not installed, or a package that the URL `outdir` needs.
        ConnectionError: If no cluster answers at `address`.
        ValueError: If a number is out of range, if `order` or `replay` is unknown, or if `actors`, `replay` or the
            agent does not permit several learners.
        TypeError: If an argument has the wrong type, if `make_agent` returns an object that is no agent of this
            library, if `replay` is "actor" and the agent has no replay buffer, if the agent cannot learn in a group of
            learners, or if `make_env`, `make_agent`, the agent or its buffer cannot be sent to an actor.
        CheckpointError: If a file cannot be written or uploaded (see `on_checkpoint_failure`), if the URL `outdir`
            cannot be read, or if checkpoints exist but none can be loaded.
    """
    arguments = check_arguments(locals())
    size = _check(arguments)
    parts = _parts_of(arguments)
    packed = _packed(**parts)
    with mirrored(arguments["outdir"]), ray_session(address) as (ray, is_private), _replay_actor(ray, arguments):
        arguments["cpus_per_actor"] = float(not is_private) if cpus_per_actor is None else cpus_per_actor
        with (
            _learners(ray, arguments) as group,
            contextlib.closing(_source(ray, packed, size, group, arguments)) as source,
        ):
            evaluator = None if eval_interval is None else _evaluator(ray, parts["acting"], source, arguments)
            return arguments["agent"], _train(source, evaluator, arguments)


def _parts_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """Make the agent, and return the parts of an actor: the acting copy and the function that makes environments.

    The agent, this function, and what is sent to other processes are added to the arguments.
    """
    agent = arguments["make_agent"]()
    check_has("make_agent()", agent, "observe_chunk", "acting_copy", hint=": an off-policy or on-policy agent")
    parts = {"acting": _acting_copy(agent), "make_env": _make_env_of(arguments["make_env"])}
    arguments |= {"agent": agent, "make_env": parts["make_env"], "logger": arguments["logger"] or _LOGGER}
    _warn_of_no_effect(arguments)
    if arguments["learners"] > 1:
        check_agent(agent)
        arguments["packed_agent"] = _packed(make_agent=arguments["make_agent"])
    if arguments["replay"] == "actor":
        check_has("make_agent()", agent, "update_from_replay", hint=": replay is 'actor', which needs a buffer")
        arguments["packed_buffer"] = _packed(replay_buffer=_movable(agent.replay_buffer))
    return parts


def _train(source: DistributedSource, evaluator: Any, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Call `train` with the source of all actors."""
    agent, logger, first = arguments["agent"], arguments["logger"], source.actors.descriptions[0]
    env = RemoteEnvs(source.num_envs, first.observation_space, first.action_space, first.spec, first.layers)
    return train(
        **arguments_for(train, arguments, env=env, source=source, evaluator=evaluator),
        make_logs=lambda all_loggers, directory: [
            EpisodeLog(agent, all_loggers, None, directory, source.get_statistics),
            IntervalLog(agent, arguments["log_interval"], arguments["return_window_size"], logger, directory),
        ],
        eval_during_episode=True,
        run_loop=_run_loop,
    )


def _run_loop(source: Source, clock: Clock, callbacks: Sequence[Callback], _: Any) -> None:
    """Run the training loop, and wait for the evaluations that are running or due at its end."""
    run(source, clock, callbacks)
    for evaluation in (each for each in callbacks if isinstance(each, Evaluation)):
        evaluation.finish(clock)


def _source(
    ray: Any, packed: bytes, size: MessageSize, learners: Learners | None, arguments: Mapping[str, Any]
) -> DistributedSource:
    """Start the actors, and return the source of their steps."""
    agent, actors, num_envs = (arguments[name] for name in ("agent", "actors", "envs_per_actor"))
    group = EnvActors(
        ray, actors, _origins(arguments["seed"], actors), (packed, num_envs, arguments["max_episode_len"]),
        num_envs=num_envs, cpus=arguments["cpus_per_actor"], logger=arguments["logger"], limits=_limits(arguments),
        buffer=agent.replay_buffer if "packed_buffer" in arguments else None, learners=arguments["learners"],
    )  # fmt: skip
    losses = Losses(arguments["outdir"], arguments["resume"])
    journal = _journal(agent) if learners is None else None
    return DistributedSource(
        agent, group, arguments["order"], size, arguments["updates_per_step"], losses, learners, journal
    )


def _journal(agent: Any) -> JournaledBuffer | None:
    """Return a journal for a persistent replay buffer in this process. None if the agent has another buffer."""
    buffer = getattr(agent, "replay_buffer", None)
    if not isinstance(buffer, PersistentBuffer) or rerun_request() is not None:
        return None  # a rerun of a part of a run does not change the files of the run
    buffer.journal = journal = JournaledBuffer(buffer)
    return journal


def _limits(arguments: Mapping[str, Any]) -> Limits:
    """Return the limits of the actors. A checkpoint from which a run resumes exactly needs the states of all actors."""
    is_sync, answer = is_synchronous(arguments["agent"]), arguments["answer_timeout"]
    is_exact, in_flight = arguments["order"] == "fixed" or is_sync, 1 if is_sync else arguments["requests_in_flight"]
    return Limits(
        start=arguments["start_timeout"], answer=answer, replace=arguments["replace_timeout"],
        save=answer * in_flight if is_exact else min(answer, SAVE_SECONDS),
        early_deaths=arguments["max_early_deaths"], in_flight=in_flight,
    )  # fmt: skip


@contextlib.contextmanager
def _learners(ray: Any, arguments: Mapping[str, Any]) -> Iterator[Learners | None]:
    """Start the other learners, if the arguments ask for them, and end them afterwards."""
    if "packed_agent" not in arguments:
        yield None
        return
    entropy = global_entropy() if arguments["seed"] is None else arguments["seed"]
    keys = [(arguments["actors"] + 2 + rank, 0) for rank in range(1, arguments["learners"])]
    seeds = [int(np.random.SeedSequence(entropy, spawn_key=key).generate_state(1)[0]) for key in keys]
    limits = arguments["start_timeout"], arguments["answer_timeout"]
    learners = Learners(ray, arguments["agent"], arguments["packed_agent"], seeds, arguments["cpus_per_actor"], limits)
    with contextlib.closing(learners):
        yield learners


@contextlib.contextmanager
def _replay_actor(ray: Any, arguments: Mapping[str, Any]) -> Iterator[None]:
    """Move the agent's replay buffer to a replay actor, if the arguments ask for it, and end the actor afterwards."""
    if "packed_buffer" not in arguments:
        yield
        return
    agent, actors = arguments["agent"], arguments["actors"]
    entropy = global_entropy() if arguments["seed"] is None else arguments["seed"]
    seeds = np.random.SeedSequence(entropy, spawn_key=(actors + 1, 0))
    in_flight = 1 if arguments["order"] == "fixed" else arguments["minibatches_in_flight"]
    timeouts, seed = (arguments["start_timeout"], arguments["answer_timeout"]), int(seeds.generate_state(1)[0])
    buffer = RemoteBuffer(ray, agent.replay_buffer, arguments["packed_buffer"], seed, in_flight, timeouts)
    with contextlib.closing(buffer):
        agent.replay_buffer = buffer
        yield


def _movable(buffer: Any) -> Any:
    """Return what the replay actor gets: the buffer, or a function that opens it if it is in a directory."""
    return buffer.hand_over() if isinstance(buffer, PersistentBuffer) else buffer


def _evaluator(
    ray: Any, acting: Any, source: DistributedSource, arguments: Mapping[str, Any]
) -> Callable[[int], ActorEvaluator]:
    """Return a function that makes the evaluator; it is called with the step at which training starts."""
    make_env = functools.partial(arguments["make_env"], arguments["actors"], 0, True)
    packed = _packed(acting=acting, make_env=make_env)
    options = evaluator_options(arguments, arguments["max_episode_len"])
    return lambda step_offset: ActorEvaluator(
        arguments["agent"], EvaluatedEnv(source), step_offset=step_offset, ray=ray, packed=packed,
        cpus=arguments["cpus_per_actor"], is_exact=arguments["order"] == "fixed",
        limits=source.actors.limits, timeout=arguments["eval_timeout"], **options,
    )  # fmt: skip


def _check(arguments: Mapping[str, Any]) -> MessageSize:
    """Check the arguments that only this runner has. Return the size of messages."""
    counts = "actors", "envs_per_actor", "learners", "requests_in_flight", "minibatches_in_flight"
    checks.check_counts(1, False, **{name: arguments[name] for name in counts})
    checks.check_counts(0, False, max_early_deaths=arguments["max_early_deaths"])
    checks.check_counts(0, True, seed=arguments["seed"])
    seconds = "seconds_per_message", "start_timeout", "answer_timeout", "replace_timeout", "eval_timeout"
    checks.check_seconds(**{name: arguments[name] for name in seconds})
    checks.check_choice("order", arguments["order"], ("arrival", "fixed"))
    checks.check_choice("replay", arguments["replay"], ("learner", "actor"))
    actors, learners = arguments["actors"], arguments["learners"]
    if actors % learners:
        raise ValueError(f"actors is {actors}, expected a multiple of learners, which is {learners}")
    if learners > 1 and arguments["replay"] == "actor":
        raise ValueError('replay is "actor", expected "learner", because each of several learners has its own buffer')
    if learners > 1 and has_process_group():
        raise ValueError(f"learners is {learners}, expected 1, because this process is already in a process group")
    rows, rate, cpus = (arguments[name] for name in ("rows_per_message", "updates_per_step", "cpus_per_actor"))
    if not isinstance(rows, Sequence) or len(rows) != 2:
        raise TypeError(f"rows_per_message is {rows!r:.80}, expected two numbers: a minimum and a maximum")
    checks.check_counts(1, False, **{f"rows_per_message[{i}]": number for i, number in enumerate(rows)})
    if rows[0] > rows[1]:
        raise ValueError(f"rows_per_message is {rows!r:.80}, expected a minimum that is not above the maximum")
    if rate is not None:
        checks.check_numbers(0.0, updates_per_step=rate)
    if cpus is not None:
        checks.check_numbers(0.0, cpus_per_actor=cpus)
    check_hooks(arguments["evaluation_hooks"], "support_train_agent_batch", "train_agent_distributed")
    for name, parameters in (("make_agent", ()), ("make_env", ("actor", "index", "test"))):
        with contextlib.suppress(ValueError):  # some callables have no signature
            _check_call(name, arguments[name], parameters)
    return MessageSize(arguments["seconds_per_message"], *rows)


def _check_call(name: str, function: Any, arguments: Sequence[str]) -> None:
    """Check that a function, which may also be an environment id, accepts some positional arguments.

    Raises:
        TypeError: If it does not.
        ValueError: If Python does not know the arguments of the function.
    """
    try:
        if callable(function):
            inspect.signature(function).bind(*arguments)
    except TypeError as error:
        expected = f"a function that is called as {name}({', '.join(arguments)})"
        raise TypeError(f"{name} is {function!r:.80}, expected {expected}: {error}") from None


def _warn_of_no_effect(arguments: Mapping[str, Any]) -> None:
    """Log a warning for each argument that is not the default and has no effect on this agent."""
    agent, fixed = arguments["agent"], 'order is "fixed"' if arguments["order"] == "fixed" else ""
    has_replay = hasattr(agent, "update_from_replay")
    is_part = not has_replay and agent.steps_until_update is not None
    part = "a message is an actor's part of one update" if is_part else ""
    reasons = {
        "updates_per_step": "" if has_replay else "the agent has no replay buffer",
        "requests_in_flight": "the agent is trained synchronously" if is_synchronous(agent) else "",
        "minibatches_in_flight": fixed if arguments["replay"] == "actor" else 'replay is "learner"',
        "rows_per_message": part,
        "seconds_per_message": part or fixed,
    }
    parameters = inspect.signature(train_agent_distributed).parameters
    for name, reason in reasons.items():
        if reason and arguments[name] != parameters[name].default:
            arguments["logger"].warning("%s is %r and has no effect, because %s", name, arguments[name], reason)


def _make_env_of(make_env: MakeEnv | str | EnvSpec) -> MakeEnv:
    """Return a function that makes environments. If `make_env` is an environment id, the id is checked."""
    if not isinstance(make_env, str | EnvSpec):
        return make_env
    made = make_env_from_id(make_env)
    spec = made.unwrapped.spec
    made.close()

    def make(actor: int, index: int, test: bool) -> Any:
        seeds = np.random.SeedSequence([global_entropy(), actor, index, test])
        return make_env_from_id(spec, seed=int(seeds.generate_state(1)[0]))

    return make


def _origins(seed: int | None, actors: int) -> Callable[[int, int], Origin]:
    """Return a function of (number of the actor, number of its earlier processes) that returns the actor's origin."""
    entropy = global_entropy() if seed is None else seed
    streams = GlobalStreams.now() if seed is None and actors == 1 else None

    def origin(index: int, life: int) -> Origin:
        return Origin(index, life, index + actors * life, entropy, streams if life == 0 else None)

    return origin


def _packed(**parts: Any) -> bytes:
    """Return objects as bytes that an actor can read.

    Raises:
        TypeError: If an object cannot be sent. The message names the attribute or variable that is the reason.
    """
    try:
        return bytes(cloudpickle.dumps(tuple(parts.values())))
    except Exception as error:
        raise _unsendable(parts, error) from error


def _acting_copy(agent: Any) -> Any:
    """Return an acting copy of the agent.

    Raises:
        TypeError: If the agent cannot be copied. The message names the attribute that is the reason.
    """
    try:
        return agent.acting_copy()
    except TypeError as error:
        raise _unsendable({"agent": agent}, error) from error


def _unsendable(parts: Mapping[str, Any], error: Exception) -> TypeError:
    culprits = (_culprit(name, part, set()) for name, part in parts.items())
    name, reason = next(filter(None, culprits), (" or ".join(parts), error))
    return TypeError(f"{name} cannot be sent to an actor: {reason}. Make such an object in make_env, or remove it")


def _culprit(name: str, value: Any, seen: set[int]) -> tuple[str, Exception] | None:
    """Return the name of the innermost part that cannot be pickled, and the error. None if there is no such part."""
    if id(value) in seen:
        return None
    seen.add(id(value))
    try:
        cloudpickle.dumps(value)
    except Exception as error:
        inner = (_culprit(part_name, part, seen) for part_name, part in _parts(name, value))
        return next(filter(None, inner), (name, error))
    return None


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of the attributes, items or variables of an object."""
    if isinstance(value, types.FunctionType):
        variables = inspect.getclosurevars(value)
        yield from ((f"{each} (a variable of {name})", part) for each, part in variables.nonlocals.items())
        yield from ((f"{each} (a variable of {name})", part) for each, part in variables.globals.items())
    elif isinstance(value, types.MethodType):
        yield f"{name}.__self__", value.__self__
    elif isinstance(value, Mapping):
        yield from ((f"{name}[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"{name}[{i}]", part) for i, part in enumerate(value))
    elif isinstance(value, functools.partial):
        yield from ((f"{name}.func", value.func), (f"{name}.args", value.args), (f"{name}.keywords", value.keywords))
    else:
        yield from ((f"{name}.{each}", part) for each, part in getattr(value, "__dict__", {}).items())
