"""`load_agent` rebuilds a saved agent for acting, from the composition in its directory.

A directory may come from someone else. Nothing in it is imported or executed: its composition calls only functions of
the table in `names.py`. The size of each tensor is checked before the tensor is allocated.
"""

import contextlib
import inspect
import os
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from pfrl_like.agent import AttributeSavingMixin, BatchAgent
from pfrl_like.batch import map_nested
from pfrl_like.errors import CheckpointError, MissingDependencyError
from pfrl_like.experiments.checkpoints import agents_in
from pfrl_like.explorers import Greedy
from pfrl_like.gpu import resolve_device
from pfrl_like.preprocessing.features import rows_of_stack
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.replay_buffers import EpisodicReplayBuffer
from pfrl_like.storage.attributes import COMPOSITION, KIND, MAX_COMPOSITION, load_attributes
from pfrl_like.storage.directory import Snapshot, has_manifest, load_directory
from pfrl_like.storage.json_file import read_json
from pfrl_like.utils.contexts import Mode
from pfrl_like.zoo import names
from pfrl_like.zoo.composition import Call, Given, Name, calls_of, evaluate, from_json, givens_of, names_of

#: Maximum size of all tensors that construct the agent: `_FACTOR` times the size of the files, plus `_BASE_BYTES`.
_FACTOR, _BASE_BYTES = 8, 1 << 20
#: Maximum number of PyTorch operations that construct the agent.
_MAX_OPERATIONS = 10_000
#: Maximum integer in a composition's networks.
_MAX_INT = 1 << 22
_TO_TRAIN = "To train, construct the agent again and call its method load(directory)"
#: Number of agents of a run that an error names.
_SHOWN = 5
#: Number of observations that `predict` passes to the agent at once.
_CHUNK = 1_024


class _OnlyActing(Mode):
    """Descriptor of `training` of an agent that does not learn."""

    def __set__(self, agent: Any, training: bool) -> None:
        if training:
            raise ValueError(f"training is {training!r}, expected False: a loaded agent only acts. {_TO_TRAIN}")


class LoadedAgent(BatchAgent):
    """A saved agent that acts without exploration. It does not learn, and its replay buffer and optimisers are empty.

    Actions are the same inside and outside of `eval_mode`. Observations may be lists. Numbers of float64 are cast to
    float32, unless the agent has parameters of float64. So are the integers of lists, unless the agent has an
    `nn.Embedding`, which takes integers. Arrays of integers are left as they are.

    Args:
        agent: The agent. It is switched to evaluation.

    Attributes:
        agent: The agent.
    """

    training: bool = _OnlyActing(False)  # type: ignore[assignment]

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        agent.training = False
        modules = [part for part in vars(agent).values() if isinstance(part, torch.nn.Module)]
        self._casts = all(param.dtype != torch.float64 for module in modules for param in module.parameters())
        layers = (layer for module in modules for layer in module.modules())
        self._casts_lists = not any(isinstance(layer, torch.nn.Embedding) for layer in layers)

    def __getattr__(self, name: str) -> Any:
        reason = f"{type(self).__name__} has no attribute {name!r}"
        if not name.startswith("_") and name != "agent" and hasattr(self.agent, name):
            reason += f": it only acts. {_TO_TRAIN}"
        raise AttributeError(reason)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.agent!r})"

    @property
    def acts_from_memory(self) -> bool:
        """True if an action depends on earlier steps."""
        return bool(self.agent.acts_from_memory)

    def batch_act(self, batch_obs: Sequence[Any], *, action_mask: Any = None, active: Any = None) -> Any:
        """Choose an action for each of k environments.

        Args:
            batch_obs: k observations.
            action_mask: True for allowed actions, [k, n_actions]. None allows all actions.
            active: False for environments whose action will be ignored, [k]. None if all are active.

        Returns:
            k actions.
        """
        keywords = _given(action_mask=action_mask, active=active)
        return self.agent.batch_act([self._as_array(obs) for obs in batch_obs], **keywords)

    def batch_observe(
        self,
        batch_obs: Sequence[Any],
        batch_reward: Sequence[float],
        batch_done: Sequence[bool],
        batch_reset: Sequence[bool],
        *,
        action_mask: Any = None,
        active: Any = None,
    ) -> None:
        """Process the results of the last k actions. Only agents whose actions depend on earlier steps need this call.

        Args:
            batch_obs: Observations after the actions, length k.
            batch_reward: Rewards, [k].
            batch_done: True for each environment whose observation is terminal, [k].
            batch_reset: True for each environment whose episode is truncated after this step, [k].
            action_mask: True for actions allowed in the new observations, [k, n_actions].
            active: False for environments that took no step, [k].
        """
        keywords = _given(action_mask=action_mask, active=active)
        arrays = [self._as_array(obs) for obs in batch_obs]
        self.agent.batch_observe(arrays, batch_reward, batch_done, batch_reset, **keywords)

    def _as_array(self, obs: Any) -> Any:
        """Return an observation as arrays, with the dtype of the networks. Tensors are left as they are."""
        if isinstance(obs, Mapping):
            return {key: self._as_array(part) for key, part in obs.items()}
        if isinstance(obs, tuple):
            return tuple(map(self._as_array, obs))
        array: Any = obs if isinstance(obs, torch.Tensor) else np.asarray(obs)
        if self._casts_lists and isinstance(obs, list) and array.dtype.kind == "i":
            array = array.astype(np.float64)
        return array.astype(np.float32) if self._casts and array.dtype == np.float64 else array

    def predict(self, observations: Any) -> Any:
        """Return the actions for n observations, [n, ...].

        Args:
            observations: Array of observations, [n, ...]; a dict of arrays if the observations are dicts; or a list.

        Raises:
            TypeError: If an action depends on earlier steps: call `act` and `observe` instead.
        """
        if self.acts_from_memory:
            raise TypeError("an action of this agent depends on earlier steps: call act and observe instead of predict")
        rows = observations if isinstance(observations, list) else rows_of_stack(map_nested(np.asarray, observations))
        parts = [rows[i : i + _CHUNK] for i in range(0, max(len(rows), 1), _CHUNK)]
        return np.concatenate([np.asarray(self.batch_act(part)) for part in parts])

    def stop_episode(self) -> None:
        """Forget the earlier steps of the running episodes."""
        getattr(self.agent, "stop_episode", lambda: None)()

    def dry_run(self, obs: Any, action_space: Any = None) -> Any:
        """Check with one observation that the agent and the environment match. See the agent's method.

        Args:
            obs: The observation.
            action_space: Action space of the environment. None if there is no environment.
        """
        check = getattr(self.agent, "dry_run", None)
        return None if check is None else check(obs, action_space)

    def export(self, path: str | os.PathLike[str], **options: Any) -> Any:
        """Write the greedy policy to a file that runs without this library.

        Args:
            path: Path of the file.
            options: Arguments of the agent's method `export`. `example_obs` is required.
        """
        return self.agent.export(path, **options)

    def save(self, dirname: str) -> None:
        """Raise an error: a loaded agent is not a complete agent.

        Raises:
            TypeError: Always.
        """
        raise TypeError("a loaded agent cannot be saved, because it has no optimiser states: copy its directory")

    def load(self, dirname: str) -> None:
        """Raise an error.

        Raises:
            TypeError: Always.
        """
        raise TypeError("a loaded agent does not load another directory: call load_agent")

    def get_statistics(self) -> list[tuple[str, Any]]:
        """Return an empty list."""
        return []


def load_agent(
    directory: str | os.PathLike[str],
    *,
    make_agent: Callable[[], Any] | None = None,
    given: Mapping[str, Any] | None = None,
    device: torch.device | str = "cpu",
) -> LoadedAgent:
    """Load a saved agent for acting, without its replay buffer and its optimisers.

    The classes and arguments of the agent are in the file `composition.json` of the directory. Agents that
    `pfrl_like.make` has made save this file. The directory may come from someone else: nothing in it is imported or
    executed, and the agent may not need much more memory than the files have.

    Args:
        directory: Directory that `agent.save` has written, for example `best` in a run directory.
        make_agent: Function without arguments that constructs the agent. Needed only if the directory has no
            composition. The agent's networks must have the saved shapes.
        given: Objects that the caller passed to `make`, keyed by argument name, for example
            `{"q_function": module}`. The saved parameters are loaded into these objects.
        device: Device of the networks. Ignored if `make_agent` is given, and by A3C and ACER.

    Raises:
        CheckpointError: If the directory has no complete saved agent (of a run directory, the message names the
            agents), or no composition and `make_agent` is None; or if the composition is invalid, needs objects that
            are not in `given`, or does not match the other files.
        ValueError: If `given` has unknown names, if `make_agent` and `given` are both given, or if the device is not
            available.
        TypeError: If `make_agent` does not return an agent that can load a directory.
    """
    path = os.fspath(directory)
    if not has_manifest(path) and (agents := [*map(os.path.basename, agents_in(path))]):
        found = ", ".join(agents[:_SHOWN] + (["..."] if len(agents) > _SHOWN else []))
        raise CheckpointError(path, f"is the directory of a run: pass that of one of its agents ({found})")
    resolved = resolve_device(None, device)
    if make_agent is not None and given:
        text = "given is the objects of a composition, and make_agent uses no composition: pass only one of them"
        raise ValueError(f"make_agent and given={{{', '.join(given)}}} are both given: {text}")
    with isolated_rng():
        if make_agent is not None:
            agent = make_agent()
            if not isinstance(agent, BatchAgent) or not isinstance(agent, AttributeSavingMixin):
                raise TypeError(f"make_agent returned {type(agent).__name__}, expected an agent of pfrl_like")
        else:
            agent = _agent_of(path, given or {}, resolved)
    load_attributes(agent, path, modules_only=True)
    return LoadedAgent(agent)


def _agent_of(path: str, given: Mapping[str, Any], device: torch.device) -> Any:
    """Return the agent that the composition in a directory describes, with initial parameters."""
    advice = "pass make_agent=, a function that constructs the agent"
    if not has_manifest(path):
        if os.path.isdir(path):
            raise CheckpointError(path, f"has no manifest of a saved agent, and so no {COMPOSITION}: {advice}")
        raise CheckpointError(path, "is not the directory of a saved agent")
    snapshot = load_directory(path, kind=KIND, limits={COMPOSITION: MAX_COMPOSITION})
    if COMPOSITION not in snapshot.keys:
        reason = "an older version or an agent that `make` did not make has saved the directory"
        raise CheckpointError(path, f"has no {COMPOSITION}, because {reason}: {advice}")
    with _rejecting(path):
        stored = read_json(snapshot.open(COMPOSITION), MAX_COMPOSITION)
        stored.pop("run", None)  # how the agent was trained
        composition = from_json(stored)
        call, cls = _agent_call(composition)
        saved = snapshot.manifest.get("class")
        if saved != (kind := f"{cls.__module__}.{cls.__qualname__}"):
            raise ValueError(f"is of a {kind}, but the manifest is of a {saved!r:.200}")
        call, stand_ins = _for_acting(call, cls, device)
    if unknown := given.keys() - {*givens_of(composition)}:
        raise ValueError(f"given has {', '.join(sorted(unknown))}, which {path} does not need")
    if missing := [name for name in givens_of(call) if name not in {*stand_ins, *given}]:
        text = ", ".join(f'"{name}": ...' for name in missing)
        raise CheckpointError(path, f"needs objects that the caller passed to make: pass given={{{text}}}")
    with _rejecting(path), _Allocations(_FACTOR * _size_of_tensors(snapshot) + _BASE_BYTES):
        return evaluate(call, stand_ins | dict(given))


@contextlib.contextmanager
def _rejecting(path: str) -> Iterator[None]:
    """Convert errors to errors that name the directory."""
    try:
        yield
    except (CheckpointError, MissingDependencyError):
        raise
    except Exception as error:  # constructors raise errors of any type
        text = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        raise CheckpointError(path, f"has a {COMPOSITION} that cannot be used: {text:.500}") from error


def _agent_call(composition: Any) -> tuple[Call, Any]:
    """Return the checked call of the agent's constructor, and the class of the agent."""
    for name in names_of(composition):
        if not names.is_storable(name):
            raise ValueError(f"has the name {name!r}, which the composition of an agent cannot contain")
    if any(isinstance(call._function, Given) for call in calls_of(composition)):
        raise ValueError("calls an object of the caller")
    function = composition._function if isinstance(composition, Call) else None
    cls = names.resolve(function._path) if isinstance(function, Name) else None
    if not isinstance(cls, type) or not issubclass(cls, AttributeSavingMixin):
        raise ValueError("does not construct an agent")
    return composition, cls


def _for_acting(call: Call, cls: Any, device: torch.device) -> tuple[Call, dict[str, Any]]:
    """Return the call without the replay buffer, explorer, device and compilation, and the stand-ins, by name."""
    bound = inspect.signature(cls).bind(*call._args, **call._kwargs).arguments
    parts = {"replay_buffer": EpisodicReplayBuffer(), "explorer": Greedy()}
    stand_ins = {f"_{name}": part for name, part in parts.items()} | {"_device": device}
    arguments = {name: value for name, value in bound.items() if name not in ("gpu", "compile")}
    arguments |= {name: Given(f"_{name}") for name in parts if arguments.get(name) is not None}
    if "device" in inspect.signature(cls).parameters:
        arguments["device"] = Given("_device")
    _check_integers(arguments)
    space = types.SimpleNamespace(sample=_do_not_explore)
    return Call(call._function, (), arguments), stand_ins | {"env": types.SimpleNamespace(action_space=space)}


def _check_integers(arguments: Any) -> None:
    """Check the integers in calls, because constructors may loop over numbers, or pass them to NumPy."""
    for call in calls_of(arguments):
        for part in tree_leaves([call._args, call._kwargs]):
            if isinstance(part, int) and abs(part) > _MAX_INT:
                raise ValueError(f"has the integer {part:,} in a network, expected at most {_MAX_INT:,}")


def _do_not_explore() -> Any:
    raise RuntimeError("a loaded agent does not explore")


def _size_of_tensors(snapshot: Snapshot) -> int:
    """Return the number of bytes that the tensor files of a saved agent have on the disk. Holes do not count."""
    paths = [snapshot.open(key) for key in snapshot.keys if key.endswith(".pt")]
    files = [os.lstat(path) for path in paths if os.path.lexists(path)]  # `load_attributes` reports missing files
    sizes = {(file.st_dev, file.st_ino): min(file.st_size, 512 * file.st_blocks) for file in files}
    return sum(sizes.values())


class _Allocations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Context that limits the memory of new tensors and the number of operations. It checks before it allocates.

    It runs each operation that makes a tensor first without memory, on the device "meta". Views and changes in place
    make no tensor. Tensors that are freed count, too.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._limit, self._size, self._operations = limit, 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self._operations += 1
        if self._operations > _MAX_OPERATIONS:
            raise ValueError(f"needs more than {_MAX_OPERATIONS:,} operations to construct the agent")
        if any("Tensor" in str(each.type) and each.alias_info is None for each in func._schema.returns):
            on_meta = tree_map_only(torch.Tensor, lambda tensor: tensor.to("meta"), (args, kwargs))
            self._count(func, *on_meta)
        return func(*args, **kwargs)

    def _count(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        """Add the size of an operation's results. The tensors among its arguments are on the device "meta"."""
        if any(argument.name == "device" for argument in func._schema.arguments):
            kwargs = kwargs | {"device": torch.device("meta")}
        results = tree_leaves(func(*args, **kwargs))
        self._size += sum(result.nbytes for result in results if isinstance(result, torch.Tensor))
        if self._size > self._limit:
            raise ValueError(
                f"needs at least {self._size:,} bytes for its networks, but the files allow only {self._limit:,}"
            )


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
