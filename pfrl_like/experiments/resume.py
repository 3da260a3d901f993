"""Loading of the newest complete checkpoint of a run directory, and comparison of the run's configuration."""

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

_LONGEST = 300  # characters of a description
_OF_BUFFERS = ("capacity", "num_steps")
_SPACES = ("observation_space", "action_space")
_OF_ENVS = ("num_envs", *_SPACES)


class Configuration:
    """A part of a run (see `loop.Resumable`) that describes how the other parts were constructed.

    It has to be made before anything is loaded or trained. Values that change during training are left out. The agent
    itself compares its weights.

    Args:
        agent: Described by its class, its numbers and flags that training does not change, those of its explorer, and
            its optimisers' hyperparameters.
        env: Described by its wrappers, the name it is registered by, and its spaces.
        source: May hold replay buffers, like the agent; they are described by their classes, capacities and numbers of
            steps.
    """

    def __init__(self, agent: Any, env: Any, source: Any) -> None:
        self._made = agent, env, buffers_of(agent, source)
        self._told = self._tell()

    def saved_state(self) -> dict[str, Any]:
        """The description."""
        now = self._tell()
        self._told = {name: value for name, value in self._told.items() if now.get(name) == value}
        return {"told": self._told}

    def restore_state(self, state: Mapping[str, Any]) -> list[str]:
        """Return the differences from a saved description."""
        return [*self._otherwise(state["told"])]

    def check_env(self, told: Mapping[str, Any]) -> None:
        """Refuse a checkpoint of an environment with spaces of another form.

        Args:
            told: Description that `told_in` returned.

        Raises:
            ValueError: If the forms differ; the message shows both.
        """
        forms = {name: told[name] for name in map(_form_of, _SPACES) if told.get(name) and self._told.get(name)}
        if reasons := [*self._otherwise(forms)]:
            raise ValueError(f"it belongs to another environment: {'; '.join(reasons)}")

    def _tell(self) -> dict[str, Any]:
        return {name: _plain(value) for name, value in _of_all(*self._made)}

    def _otherwise(self, told: Mapping[str, Any]) -> Iterator[str]:
        for name, before in told.items():
            if self._told.get(name) != before:
                yield f"{name} was {before!r:.100} and is {self._told.get(name)!r:.100}"


def told_in(state: Mapping[str, Any]) -> dict[str, Any]:
    """The description in the state of a whole run; empty if there is none."""
    own = state["parts"].get(Configuration.__name__)
    return {} if own is None else dict(from_json(own)["told"])


def _of_all(agent: Any, env: Any, buffers: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "agent", type(agent).__name__
    explorer = getattr(agent, "explorer", None)
    for owner, name in ((agent, ""), (explorer, "explorer.")):
        yield from ((name + each, value) for each, value in _constants_of(owner))
    for name, optimizer in _optimizers_of(agent).items():
        yield name, type(optimizer).__name__
        for number, group in enumerate(optimizer.param_groups):
            yield from ((f"{name}[{number}].{each}", value) for each, value in group.items() if each != "params")
    for name, buffer in buffers.items():
        yield name, type(buffer).__name__
        yield from ((f"{name}.{each}", getattr(buffer, each, None)) for each in _OF_BUFFERS)
    layers = list(layers_of(env))
    yield "env", [type(layer).__name__ for layer in layers]
    yield "env.spec", getattr(getattr(env, "spec", None), "id", None)
    yield from ((f"env.{each}", str(getattr(env, each, None))[:_LONGEST]) for each in _OF_ENVS)
    yield from ((_form_of(each), _form(getattr(env, each, None))) for each in _SPACES)


def _form_of(space: str) -> str:
    return f"form of env.{space}"


def _form(space: Any) -> str | None:
    """The form of a space that networks depend on; None for spaces other than boxes and discrete ones."""
    kind = space_kind(space)
    if kind == "box":
        return f"a box of shape {space.shape}"
    return f"{space.n} numbers" if kind == "discrete" else None


def _constants_of(owner: Any) -> Iterator[tuple[str, Any]]:
    """Numbers and flags among the attributes of an object that are not saved with it and describe its construction.

    An attribute that begins with a default of the class, and is not an argument, is left out: it describes the present
    state, like `training` of an agent.
    """
    kind, arguments = type(owner), _arguments_of(type(owner))
    saved = {"t", *getattr(kind, "saved_attributes", ())}
    for name, value in getattr(owner, "__dict__", {}).items():
        was_given = name in arguments or not hasattr(kind, name)
        if was_given and not name.startswith("_") and name not in saved and isinstance(value, bool | int | float):
            yield name, value


def _arguments_of(kind: type) -> set[str]:
    """The names of all arguments of the constructors of a class and of its base classes."""
    constructors = filter(inspect.isfunction, (vars(each).get("__init__") for each in kind.__mro__))
    return {name for constructor in constructors for name in inspect.signature(constructor).parameters}


def _optimizers_of(agent: Any) -> dict[str, Optimizer]:
    names = [*getattr(agent, "__dict__", {}), *getattr(type(agent), "saved_attributes", ())]
    found = {name: getattr(agent, name, None) for name in names}
    return {name: value for name, value in found.items() if isinstance(value, Optimizer)}


def _plain(value: Any) -> Any:
    """A value that equals itself after it was written as JSON and read back."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, bool | int | float | str | None) else str(value)[:_LONGEST]


_T = TypeVar("_T")


class Checkpoint(NamedTuple):
    """A checkpoint whose agent and replay buffers have been loaded.

    Attributes:
        path: Its directory.
        t: Step at which it was saved.
        state: The rest of the saved state, see `RunState`.
        references: Files of replay buffers that belong to it.
    """

    path: str
    t: int
    state: Mapping[str, Any]
    references: Mapping[str, Any]

    @property
    def is_finish(self) -> bool:
        """True if the checkpoint was saved at the end of a run."""
        return self.path.endswith("_finish")

    def restore(self, run: RunState, clock: Clock, logger: logging.Logger) -> dict[str, Any]:
        """Restore the rest of the run.

        Args:
            run: State of the rest of the run.
            clock: Clock of the run; it is set to the step and episodes of the checkpoint.
            logger: Gets a warning if later steps may differ from those of an uninterrupted run.

        Returns:
            A record for `run.json`: the checkpoint, and reasons why later steps may differ.

        Raises:
            CheckpointError: If the checkpoint belongs to another run.
        """
        with fitting(self.path):
            clock.t = clock.previous_t = self.t
            clock.episodes = int(self.state["episodes"])
            reasons = run.restore(self.state)
        if clock.done:
            logger.warning("nothing is left to train: steps is %d, %s is of step %d", clock.steps, self.path, self.t)
        for reason in () if clock.done else reasons:
            logger.warning("the run does not resume exactly: %s", reason)
        logger.info("The run resumes from %s", self.path)
        how = "approximate" if reasons else "exact"
        return {"checkpoint": os.path.basename(self.path), "t": self.t, "resume": how, "reasons": reasons}


@contextlib.contextmanager
def fitting(path: str) -> Iterator[None]:
    """Turn errors inside the context into an error that says that the checkpoint does not fit the run.

    Raises:
        CheckpointError: Instead of the original error.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        if isinstance(error, PfrlLikeError):
            raise
        told = str(error) if type(error) is ValueError else repr(error)  # messages of this library are used unchanged
        raise CheckpointError(path, f"does not fit this run: {told:.300}") from error


def newest_agent(agent: Any, outdir: str, logger: logging.Logger) -> int:
    """Load the newest complete agent of a run directory; asynchronous training resumes nothing else.

    Args:
        agent: An agent constructed like that of the run.
        outdir: Run directory; it need not exist.
        logger: Gets a message about every agent that is skipped.

    Returns:
        The step at which the agent was saved; 0 if this directory has no complete agent.

    Raises:
        CheckpointError: If there are agents, but none that can be loaded; the message gives the reason for each.
        TypeError: If the agent has no method `load`.
    """
    return _newest(lambda saved: _load_agent(agent, saved), outdir, logger) or 0


def newest_checkpoint(
    agent: Any, source: Any, outdir: str, logger: logging.Logger, configuration: Configuration | None = None
) -> Checkpoint | None:
    """Load agent and replay buffers from the newest complete checkpoint; older checkpoints are not changed.

    In the rerun of a program from a given checkpoint, that checkpoint is loaded.

    Args:
        agent: An agent constructed like that of the run.
        source: Source of the training steps, which may hold a replay buffer.
        outdir: Run directory; it need not exist.
        logger: Gets a message about every checkpoint that is skipped.
        configuration: Configuration of the run, to refuse checkpoints of other environments; None refuses none.

    Returns:
        The checkpoint; None if this directory has no complete one.

    Raises:
        CheckpointError: If there are agents, but no checkpoint that can be loaded; the message gives the reason for
            each.
        TypeError: If the agent has no method `load`.
    """
    if (path := crash_replay.checkpoint()) is not None:
        return _load(agent, source, Saved(0, path), os.path.dirname(path), configuration)
    hint = (
        " A run with checkpoint_freq makes them; to continue from an agent alone, load it and give the step_offset; "
        "for a new run, give another outdir"
    )
    return _newest(lambda saved: _load(agent, source, saved, outdir, configuration), outdir, logger, hint)


def _newest(load: Callable[[Saved], _T], outdir: str, logger: logging.Logger, hint: str = "") -> _T | None:
    """Load the newest agent in a run directory that can be loaded; return None if no save was completed."""
    problems = []
    for saved in saved_in(outdir):
        if saved.is_incomplete:
            logger.info("%s was not saved to its end and is passed over", saved.path)
            continue
        try:
            return load(saved)
        except CheckpointError as error:
            problems.append(str(error))
            level = logging.WARNING if saved.is_checkpoint else logging.INFO
            logger.log(level, "a checkpoint is passed over: %s", error)
    if problems:
        raise CheckpointError(outdir, f"has no checkpoint to resume from: {'; '.join(problems)}.{hint}")
    return None


def _load_agent(agent: Any, saved: Saved) -> int:
    if not hasattr(agent, "load"):
        raise TypeError(f"agent: {type(agent).__name__} has no method load, which resume=True needs")
    try:
        agent.load(saved.path)
    except PfrlLikeError:
        raise
    except Exception as error:  # the user's own agents may raise anything
        raise CheckpointError(saved.path, f"holds an agent that cannot be loaded: {error!r:.300}") from error
    return saved.t


def _load(agent: Any, source: Any, saved: Saved, outdir: str, configuration: Configuration | None) -> Checkpoint:
    if not saved.is_checkpoint:
        raise CheckpointError(saved.path, "holds an agent alone")
    state = saved.state(agent)
    with fitting(saved.path):
        told = told_in(state)
        if configuration is not None:
            configuration.check_env(told)
    try:
        with fitting(saved.path):
            t, references = int(state["t"]), dict(state["buffers"])
            buffers = buffers_of(agent, source)
            if references.keys() != buffers.keys():
                raise ValueError(f"it has the buffers {sorted(references)}, the run has {sorted(buffers)}")
            for name, buffer in buffers.items():
                buffer.load_increment(os.path.join(outdir, BUFFERS, name), references[name])
        _load_agent(agent, saved)
    except CheckpointError as error:
        was, now = told.get("agent"), type(agent).__name__
        if was in (None, now):
            raise
        reason = f"was saved by the agent {was}, and that of this run is {now}: {error.reason}"
        raise CheckpointError(error.path, reason) from error
    return Checkpoint(saved.path, t, state, references)
