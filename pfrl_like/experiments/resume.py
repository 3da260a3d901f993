"""Loading of the newest complete checkpoint of a run, and comparison of the saved and the new configuration."""

import contextlib
import inspect
import logging
import math
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from torch.optim import Optimizer

from pfrl_like.debug import crash_replay
from pfrl_like.envs.env_states import layers_of
from pfrl_like.errors import CheckpointError, PfrlLikeError
from pfrl_like.experiments.checkpoints import BUFFERS, Saved, saved_in
from pfrl_like.experiments.run_state import RunState, buffers_of
from pfrl_like.runs.loop import Clock
from pfrl_like.utils.env_values import space_kind
from pfrl_like.utils.plain_values import from_json

_LONGEST = 300  # maximum length of a text in characters
_BUFFER_ATTRIBUTES = ("capacity", "num_steps")
_SPACES = ("observation_space", "action_space")
_ENV_ATTRIBUTES = ("num_envs", *_SPACES)


class Configuration:
    """Description of the agent, the environment and the replay buffers of a run; see `loop.Resumable`.

    Construct this object before anything is loaded or trained. The description does not contain values that change
    during training, such as weights.

    Args:
        agent: Agent. Its description contains its class, the hyperparameters of its optimisers, and the attributes of
            the agent and its explorer that are numbers or bools and do not change during training.
        env: Environment. Its description contains its wrappers, the name under which it is registered, and its spaces.
        source: Source of training steps. The description of replay buffers in the agent and in the source contains
            their classes, capacities and `num_steps`.
    """

    def __init__(self, agent: Any, env: Any, source: Any) -> None:
        self._objects = agent, env, buffers_of(agent, source)
        self._facts = self._describe()

    def saved_state(self) -> dict[str, Any]:
        """Return the description, without values that have changed since construction."""
        now = self._describe()
        self._facts = {name: value for name, value in self._facts.items() if now.get(name) == value}
        return {"told": self._facts}

    def restore_state(self, state: Mapping[str, Any]) -> list[str]:
        """Return the differences between this description and a saved description."""
        return [*self._differences(state["told"])]

    def check_env(self, saved: Mapping[str, Any]) -> None:
        """Check that the spaces of the environment have the same shapes and sizes as in a checkpoint.

        Args:
            saved: Description that `description_in` returned.

        Raises:
            ValueError: If a space has a different shape or size than in the checkpoint. The message contains both.
        """
        forms = {name: saved[name] for name in map(_form_name, _SPACES) if saved.get(name) and self._facts.get(name)}
        if reasons := [*self._differences(forms)]:
            raise ValueError(f"the checkpoint belongs to another environment: {'; '.join(reasons)}")

    def _describe(self) -> dict[str, Any]:
        return {name: _plain(value) for name, value in _facts_of(*self._objects)}

    def _differences(self, saved: Mapping[str, Any]) -> Iterator[str]:
        for name, before in saved.items():
            if self._facts.get(name) != before:
                yield f"{name} was {before!r:.100} and is {self._facts.get(name)!r:.100}"


def description_in(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description in the saved state of a run; empty if the state contains no description."""
    saved = state["parts"].get(Configuration.__name__)
    return {} if saved is None else dict(from_json(saved)["told"])


def _facts_of(agent: Any, env: Any, buffers: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "agent", type(agent).__name__
    for owner, name in ((agent, ""), (getattr(agent, "explorer", None), "explorer.")):
        yield from ((name + each, value) for each, value in _constants_of(owner))
    for name, optimizer in _optimizers_of(agent).items():
        yield name, type(optimizer).__name__
        for number, group in enumerate(optimizer.param_groups):
            yield from ((f"{name}[{number}].{each}", value) for each, value in group.items() if each != "params")
    for name, buffer in buffers.items():
        yield name, type(buffer).__name__
        yield from ((f"{name}.{each}", getattr(buffer, each, None)) for each in _BUFFER_ATTRIBUTES)
    remote = getattr(env, "__dict__", {}).get("remote_layers", ())
    yield "env", [*(type(layer).__name__ for layer in layers_of(env)), *remote]
    yield "env.spec", getattr(getattr(env, "spec", None), "id", None)
    yield from ((f"env.{each}", str(getattr(env, each, None))[:_LONGEST]) for each in _ENV_ATTRIBUTES)
    yield from ((_form_name(each), _form(getattr(env, each, None))) for each in _SPACES)


def _form_name(space: str) -> str:
    return f"form of env.{space}"


def _form(space: Any) -> str | None:
    """Return a text with the shape of a Box or the size of a Discrete space; None for other spaces.

    The layers of networks depend on these shapes and sizes.
    """
    kind = space_kind(space)
    if kind == "box":
        return f"a box of shape {space.shape}"
    return f"{space.n} numbers" if kind == "discrete" else None


def _constants_of(owner: Any) -> Iterator[tuple[str, Any]]:
    """Yield the hyperparameters of an object: attributes that are numbers or bools, except those that are saved.

    An attribute is also omitted if the class has a default for it and it is not a constructor argument. Such an
    attribute describes the current state, for example `training` of an agent.
    """
    kind, arguments = type(owner), _arguments_of(type(owner))
    saved = {"t", *getattr(kind, "saved_attributes", ())}
    for name, value in getattr(owner, "__dict__", {}).items():
        was_given = name in arguments or not hasattr(kind, name)
        if was_given and not name.startswith("_") and name not in saved and isinstance(value, bool | int | float):
            yield name, value


def _arguments_of(kind: type) -> set[str]:
    """Return the argument names of the constructors of a class and of its base classes."""
    constructors = filter(inspect.isfunction, (vars(each).get("__init__") for each in kind.__mro__))
    return {name for constructor in constructors for name in inspect.signature(constructor).parameters}


def _optimizers_of(agent: Any) -> dict[str, Optimizer]:
    names = [*getattr(agent, "__dict__", {}), *getattr(type(agent), "saved_attributes", ())]
    attributes = {name: getattr(agent, name, None) for name in names}
    return {name: value for name, value in attributes.items() if isinstance(value, Optimizer)}


def _plain(value: Any) -> Any:
    """Convert a value to a JSON value that is still the same after it is written to a file and read again."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, bool | int | float | str | None) else str(value)[:_LONGEST]


_T = TypeVar("_T")


class Checkpoint(NamedTuple):
    """A checkpoint whose agent and replay buffers have been loaded.

    Attributes:
        path: Directory of the checkpoint.
        t: Step at which the checkpoint was saved.
        state: Saved state of everything except the agent and the replay buffers, see `RunState`.
        references: Files of the replay buffers of this checkpoint.
    """

    path: str
    t: int
    state: Mapping[str, Any]
    references: Mapping[str, Any]

    def restore(self, run: RunState, clock: Clock, logger: logging.Logger) -> dict[str, Any]:
        """Restore the state of everything except the agent and the replay buffers.

        Args:
            run: Object that restores this state.
            clock: Clock of the run. Its step and its number of episodes are set to the values of the checkpoint.
            logger: Logger that gets a warning if later steps may differ from the steps of an uninterrupted run.

        Returns:
            A record for `run.json`: the checkpoint, its step, and the reasons why later steps may differ.

        Raises:
            CheckpointError: If the checkpoint does not match this run.
        """
        with checkpoint_mismatch(self.path):
            clock.t = clock.previous_t = self.t
            clock.episodes = int(self.state["episodes"])
            reasons = run.restore(self.state)
        if clock.done:
            logger.warning("nothing is left to train: steps is %d, %s has step %d", clock.steps, self.path, self.t)
        for reason in () if clock.done else reasons:
            logger.warning("the run does not resume exactly: %s", reason)
        logger.info("The run resumes from %s", self.path)
        how = "approximate" if reasons else "exact"
        return {"checkpoint": os.path.basename(self.path), "t": self.t, "resume": how, "reasons": reasons}


@contextlib.contextmanager
def checkpoint_mismatch(path: str) -> Iterator[None]:
    """Convert an error inside the context into a `CheckpointError`: "does not match this run".

    Raises:
        CheckpointError: If an error is raised inside the context.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        if isinstance(error, PfrlLikeError):
            raise
        # The message of a ValueError is enough to understand the error.
        reason = str(error) if type(error) is ValueError else repr(error)
        raise CheckpointError(path, f"does not match this run: {reason:.300}") from error


def newest_agent(agent: Any, outdir: str, logger: logging.Logger) -> int:
    """Load the newest complete agent of a run directory. Asynchronous training restores only the agent.

    Args:
        agent: Agent that was constructed in the same way as the saved agent.
        outdir: Run directory. It may be missing.
        logger: Logger that gets a message about every agent that is skipped.

    Returns:
        The step at which the agent was saved; 0 if the directory contains no complete agent.

    Raises:
        CheckpointError: If the directory contains complete saved agents, but none of them can be loaded. The message
            contains the reason for each agent.
        TypeError: If the agent has no method `load`.
    """
    return _newest(lambda saved: _load_agent(agent, saved), outdir, logger) or 0


def newest_checkpoint(
    agent: Any, source: Any, outdir: str, logger: logging.Logger, configuration: Configuration | None = None
) -> Checkpoint | None:
    """Load agent and replay buffers from the newest complete checkpoint. No files are changed.

    If this process was started to repeat a run from a certain checkpoint, that checkpoint is loaded instead.

    Args:
        agent: Agent that was constructed in the same way as the saved agent.
        source: Source of training steps, which may contain a replay buffer.
        outdir: Run directory. It may be missing.
        logger: Logger that gets a message about every checkpoint that is skipped.
        configuration: Configuration of the run. A checkpoint of an environment with other spaces is skipped. If None,
            spaces are not compared.

    Returns:
        The checkpoint; None if the directory contains no complete checkpoint.

    Raises:
        CheckpointError: If the directory contains complete saved agents, but none of them is a checkpoint that can be
            loaded. The message contains the reason for each agent.
        TypeError: If the agent has no method `load`.
    """
    if (path := crash_replay.checkpoint()) is not None:
        return _load(agent, source, Saved(0, path), os.path.dirname(path), configuration)
    hint = (
        " A run with checkpoint_freq saves checkpoints; to continue from an agent, load it and pass step_offset; "
        "for a new run, pass another outdir"
    )
    return _newest(lambda saved: _load(agent, source, saved, outdir, configuration), outdir, logger, hint)


def _newest(load: Callable[[Saved], _T], outdir: str, logger: logging.Logger, hint: str = "") -> _T | None:
    """Return the result of `load` for the newest agent that can be loaded; None if no saved agent is complete."""
    problems = []
    for saved in saved_in(outdir):
        if saved.is_incomplete:
            logger.info("%s is incomplete and is skipped", saved.path)
            continue
        try:
            return load(saved)
        except CheckpointError as error:
            problems.append(str(error))
            level = logging.WARNING if saved.is_checkpoint else logging.INFO
            logger.log(level, "a checkpoint is skipped: %s", error)
    if problems:
        raise CheckpointError(outdir, f"has no checkpoint to resume from: {'; '.join(problems)}.{hint}")
    return None


def _load_agent(agent: Any, saved: Saved) -> int:
    if not hasattr(agent, "load"):
        raise TypeError(f"agent: {type(agent).__name__} has no method load, which resume=True requires")
    try:
        agent.load(saved.path)
    except PfrlLikeError:
        raise
    except Exception as error:  # user-defined agents may raise any exception
        raise CheckpointError(saved.path, f"contains an agent that cannot be loaded: {error!r:.300}") from error
    return saved.t


def _load(agent: Any, source: Any, saved: Saved, outdir: str, configuration: Configuration | None) -> Checkpoint:
    if not saved.is_checkpoint:
        raise CheckpointError(saved.path, "contains only an agent")
    state = saved.state(agent)
    with checkpoint_mismatch(saved.path):
        description = description_in(state)
        if configuration is not None:
            configuration.check_env(description)
        if hasattr(source, "check_state") and state["source"] is not None:
            source.check_state(state["source"])
    try:
        with checkpoint_mismatch(saved.path):
            t, references = int(state["t"]), dict(state["buffers"])
            buffers = buffers_of(agent, source)
            if references.keys() != buffers.keys():
                raise ValueError(f"the checkpoint has the buffers {sorted(references)}, the run has {sorted(buffers)}")
            for name, buffer in buffers.items():
                buffer.load_increment(os.path.join(outdir, BUFFERS, name), references[name])
        _load_agent(agent, saved)
    except CheckpointError as error:
        was, now = description.get("agent"), type(agent).__name__
        if was in (None, now):
            raise
        reason = f"was saved by the agent {was}, but the agent of this run is {now}: {error.reason}"
        raise CheckpointError(error.path, reason) from error
    return Checkpoint(saved.path, t, state, references)
