"""Checks of the arguments of runners. Runners call them before the run moves or creates any file."""

import inspect
import logging
import numbers
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from typing import Any

from gymnasium.envs.registration import EnvSpec

from pfrl_like.experiments.evaluation_hooks import EvaluationHook
from pfrl_like.experiments.hooks import SaveEvery, StepHook, TimedHook
from pfrl_like.experiments.run_state import buffers_of
from pfrl_like.replay_buffers.persistent import PersistentBuffer
from pfrl_like.runs.mirror import Mirror
from pfrl_like.runs.run_directory import is_url
from pfrl_like.runs.run_files import record_of
from pfrl_like.utils.checks import check_choice, check_counts, check_flags


def check_arguments(arguments: Mapping[str, Any], *methods: str) -> dict[str, Any]:
    """Check the arguments of a runner. Arguments whose names this module does not know are not checked.

    Args:
        arguments: Arguments of the runner, by name. The runner passes `locals()`, before it defines other variables.
        methods: Names of the methods that the agent must have.

    Returns:
        The arguments. If `outdir` is a URL, it is replaced by a `Mirror`.

    Raises:
        TypeError: If an argument has the wrong type. The message contains the name, the value and the expected type.
        ValueError: If a number is out of range, if a string is not one of the options, if `step_offset` is larger than
            `steps`, if both `resume` and `step_offset` are given, or if evaluations are requested and both or neither
            of `eval_n_steps` and `eval_n_episodes` are given.
    """
    if methods:
        check_has("agent", arguments["agent"], *methods)
    for name, (fits, expected) in _EXPECTED.items():
        if name in arguments and not fits(arguments[name]):
            raise _type_error(name, arguments[name], expected)
    for name, (fits, one, several) in _LISTS.items():
        value = arguments.get(name, ())
        if not isinstance(value, Collection):
            raise _type_error(name, value, f"a list of {several}{': put it in a list' if fits(value) else ''}")
        for index, each in enumerate(value):
            if not fits(each):
                raise _type_error(f"{name}[{index}]", each, one)
    check_flags(**{name: arguments[name] for name in _FLAGS & arguments.keys()})
    check_counts(1, True, **{name: arguments[name] for name in _COUNTS & arguments.keys()})
    for name in {"on_checkpoint_failure", "on_snapshot_failure"} & arguments.keys():
        check_choice(name, arguments[name], ("raise", "warn"))
    if "eval_n_steps" in arguments and arguments["eval_interval"] is not None:
        check_steps_or_episodes(eval_n_steps=arguments["eval_n_steps"], eval_n_episodes=arguments["eval_n_episodes"])
    if "step_offset" in arguments:
        check_counts(0, **{name: arguments[name] for name in ("steps", "step_offset") if name in arguments})
        step_offset, steps, resume = arguments["step_offset"], arguments.get("steps"), arguments.get("resume")
        if steps is not None and step_offset > steps:
            raise ValueError(
                f"step_offset is {step_offset} and steps is {steps}, expected step_offset <= steps: training starts at "
                "step_offset and ends at steps"
            )
        if resume and step_offset:
            raise ValueError(
                f"resume is True and step_offset is {step_offset}, expected only one of them: resume=True continues at "
                "the step of the newest checkpoint"
            )
    outdir = arguments.get("outdir")
    if "on_checkpoint_failure" in arguments and isinstance(outdir, str) and "://" in outdir and is_url(outdir):
        resumes = bool(arguments["resume"] or arguments.get("step_offset"))
        mirror = Mirror(outdir, resumes=resumes, stops=arguments["on_checkpoint_failure"] == "raise")
        return {**arguments, "outdir": mirror}
    return dict(arguments)


def arguments_for(function: Callable[..., Any], arguments: Mapping[str, Any], **others: Any) -> dict[str, Any]:
    """Return the arguments of a runner that `function` accepts, and `others`, keyed by name."""
    names = inspect.signature(function).parameters
    return {name: arguments[name] for name in names if name in arguments} | others


def check_steps_or_episodes(**limits: int | None) -> None:
    """Check that exactly one of two arguments (a number of steps and a number of episodes) is a positive integer.

    Args:
        **limits: The two arguments, with the names that the user knows. One of them must be None.

    Raises:
        ValueError: If both or neither are given, or if the number is less than 1.
        TypeError: If the number is not an integer.
    """
    if len(limits) - list(limits.values()).count(None) != 1:
        text = " and ".join(f"{name} is {value}" for name, value in limits.items())
        raise ValueError(f"{text}, expected exactly one of them")
    check_counts(1, True, **limits)


def check_has(name: str, part: Any, *attributes: str, hint: str = "") -> None:
    """Check that an object is not a class and has the required attributes. `hint` is appended to the error.

    Raises:
        TypeError: If the object is a class or if an attribute is missing. The message contains the first missing
            attribute.
    """
    if isinstance(part, type):
        raise TypeError(f"{name} is the class {part.__name__}, expected an instance: {part.__name__}(...)")
    for attribute in attributes:
        if not hasattr(part, attribute):
            raise _type_error(name, part, f"something with {attribute}{hint}")


def _type_error(name: str, value: Any, expected: str) -> TypeError:
    first_line = repr(value).partition("\n")[0]
    return TypeError(f"{name} is {first_line:.80} ({type(value).__name__}), expected {expected}")


def _is_env(value: Any) -> bool:
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in ("reset", "step"))


def _optional(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or fits(value)


_NUMBER = _optional(lambda value: isinstance(value, numbers.Real) and not isinstance(value, bool)), "a number, or None"
_EVENT = _optional(lambda value: hasattr(value, "is_set") and hasattr(value, "set")), "an event, or None"
_ENV = "an environment id, or an environment: an object with the methods reset and step"
_EXPECTED: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "env": (_is_env, _ENV),
    "eval_env": (_optional(_is_env), f"{_ENV}, or None"),
    "evaluator": (
        _optional(lambda value: callable(value) or hasattr(value, "evaluate_if_necessary")),
        "an object with the method evaluate_if_necessary, a function that makes one, or None",
    ),
    "successful_score": _NUMBER,
    "eval_success_threshold": _NUMBER,
    "logger": (_optional(lambda value: hasattr(value, "addHandler")), "a logging.Logger, or None"),
    "make_env": (
        lambda value: callable(value) or isinstance(value, str | EnvSpec),
        "a function that makes environments, or an environment id",
    ),
    "make_agent": (_optional(callable), "a function that makes the agent"),
    "stop_event": _EVENT,
    "exception_event": _EVENT,
    "resume": (lambda value: isinstance(value, bool), "True or False"),
    "progress": (lambda value: value is None or isinstance(value, bool), "True, False or None"),
}
_STEP_FUNCTIONS = (
    lambda value: callable(value) and not isinstance(value, TimedHook | EvaluationHook),
    "a function of (env, agent, step)", "functions",
)  # fmt: skip
_LISTS: Mapping[str, tuple[Callable[[Any], bool], str, str]] = {
    "hooks": (
        lambda value: callable(value) and not isinstance(value, StepHook | EvaluationHook),
        "a function of the clock; step_hooks and evaluation_hooks are other arguments", "functions",
    ),
    "step_hooks": _STEP_FUNCTIONS,
    "global_step_hooks": _STEP_FUNCTIONS,
    "evaluation_hooks": (callable, "a function", "functions"),
    "loggers": (lambda value: hasattr(value, "log"), "an object with the method log", "loggers of metrics"),
}  # fmt: skip
_COUNTS = {
    "keep_checkpoints", "keep_snapshots", "checkpoint_freq", "log_interval", "return_window_size", "eval_interval",
    "max_episode_len", "train_max_episode_len", "eval_max_episode_len",
}  # fmt: skip
_FLAGS = {"eval_during_episode", "save_best_so_far_agent", "use_tensorboard", "profile", "use_shared_memory"}


#: Runners, keyed by a method of the agents that the runner can train.
_RUNNERS = {
    "setup_actor_learner_training": "train_agent_actor_learner",
    "batch_act": "train_agent_batch",
    "act": "train_agent",
}


def check_shares(agent: Any, name: str) -> None:
    """Check that an agent has shared attributes, so that its copies in several processes can be trained together.

    Args:
        agent: The agent.
        name: Name of the agent in the error message.

    Raises:
        TypeError: If the agent has no `shared_attributes`. The message names runners that can train the agent.
    """
    if hasattr(agent, "shared_attributes"):
        return
    runners = " or ".join(runner for method, runner in _RUNNERS.items() if hasattr(agent, method))
    raise TypeError(
        f"{name} is {type(agent).__name__}, which has no shared_attributes, expected an AsyncAgent (A3C or ACER): "
        f"train {type(agent).__name__} with {runners}, or pass use_shared_memory=False: then each process trains its "
        "own copy, and the copy of process 0 is saved"
    )


def process_seeds(random_seeds: Any, processes: int) -> Sequence[int]:
    """Return the seed of each process: `random_seeds`, or 0, 1, ... if `random_seeds` is None.

    Raises:
        TypeError: If a seed is not an integer.
        ValueError: If the number of seeds is wrong, or a seed is out of range.
    """
    if random_seeds is None:
        return range(processes)
    if not isinstance(random_seeds, Iterable):
        raise TypeError(f"random_seeds is {random_seeds!r}, expected a list with one seed for each process, or None")
    seeds = list(random_seeds)
    if len(seeds) != processes:
        raise ValueError(f"random_seeds has {len(seeds)} seeds for {processes} processes, expected one seed for each")
    check_counts(0, False, **{f"random_seeds[{i}]": seed for i, seed in enumerate(seeds)})
    if max(seeds) >= 2**32:
        raise ValueError(f"random_seeds contains {max(seeds)}, expected integers below 2**32")
    return [int(seed) for seed in seeds]


def saving_hooks(hooks: Sequence[Any]) -> list[SaveEvery]:
    """Return the hooks that save checkpoints."""
    return [hook for hook in hooks if isinstance(hook, SaveEvery)]


def set_step(agent: Any, step_offset: int, logger: logging.Logger) -> None:
    """Set `agent.t` to the step of the run, if the agent has `t`. Warn if `agent.t` is neither 0 nor this step."""
    if getattr(agent, "t", 0) not in (0, step_offset):
        logger.warning(
            "agent.t is %s and step_offset is %d: agent.t is set to step_offset; to continue from agent.t, pass "
            "step_offset=agent.t", agent.t, step_offset,
        )  # fmt: skip
    if hasattr(agent, "t"):
        agent.t = step_offset


def items_on_disk(*owners: Any) -> dict[str, int]:
    """Return the number of items in each replay buffer on disk, keyed by the name of the buffer."""
    buffers = buffers_of(*owners).items()
    return {name: len(buffer) for name, buffer in buffers if isinstance(buffer, PersistentBuffer)}


def warn_of_old_items(items: Mapping[str, int], outdir: str, logger: logging.Logger) -> None:
    """Warn that a replay buffer on disk still contains items of the interrupted run.

    Args:
        items: Number of items in each replay buffer on disk, keyed by the name of the buffer.
        outdir: Run directory, which still contains `run.json` of the interrupted run.
        logger: Logger that gets the warning.
    """
    before = record_of(outdir).get("items_on_disk", {})
    for name, count in items.items():
        if before.get(name, count) != count:
            logger.warning(
                "%s contains %s items; it contained %s when the interrupted run started. No items are removed: the new "
                "run starts with all of them. To reproduce the run, pass a buffer in an empty directory",
                name, f"{count:,}", f"{before[name]:,}",
            )  # fmt: skip


def warn_of_no_evaluation(
    evaluator: Any, successful_score: float | None, steps: int | None, step_offset: int, logger: logging.Logger
) -> None:
    """Warn if an evaluation is requested but none will take place before the run ends."""
    interval = getattr(evaluator, "eval_interval", None)
    if evaluator is None and successful_score is not None:
        logger.warning("successful_score is %s, but there is no evaluator: it has no effect", successful_score)
    if steps is None or not isinstance(interval, numbers.Integral) or steps <= step_offset:
        return
    if steps // interval == step_offset // interval:
        logger.warning(
            "no multiple of eval_interval=%d lies between step %d and step %d: there will be no evaluation",
            interval, step_offset, steps,
        )  # fmt: skip


def warn_of_no_update(agent: Any, source: Any, steps: int | None, step_offset: int, logger: logging.Logger) -> None:
    """Warn if the run will end before the replay buffer contains the `replay_start_size` of the agent.

    A dataset is no reason for a warning, because the agent then learns without its buffer.
    """
    agent = getattr(agent, "agent", agent)
    start, buffer = getattr(agent, "replay_start_size", None), getattr(agent, "replay_buffer", None)
    if steps is None or not isinstance(start, int) or not isinstance(buffer, Sized) or hasattr(source, "dataset"):
        return
    if steps > step_offset and len(buffer) + steps - step_offset < start:
        logger.warning(
            "no update will be made: the run has %s steps, the buffer holds %s transitions, and replay_start_size is "
            "%s: increase steps or reduce replay_start_size",
            f"{steps - step_offset:,}", f"{len(buffer):,}", f"{start:,}",
        )  # fmt: skip
