"""`EnvActor`: steps several environments in a process of its own, with a copy of the acting half of an agent."""

import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfrl_like.distributed.actor import vary_streams
from pfrl_like.distributed.chunk_sender import ChunkSender
from pfrl_like.envs import SerialVectorEnv
from pfrl_like.envs.env_states import layers_of
from pfrl_like.errors import WorkerError
from pfrl_like.experiments.sources import VectorSource
from pfrl_like.learning.chunks import with_priorities
from pfrl_like.processes.supervisor import close_all
from pfrl_like.random_streams.streams import GlobalStreams, Streams
from pfrl_like.runs.environment_record import versions_and_hardware
from pfrl_like.runs.loop import Clock
from pfrl_like.utils.plain_values import from_json, to_json
from pfrl_like.utils.random_seed import set_random_seed

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # Ray colours the names of processes
#: Function that makes an environment, called as (number of the actor, number of the environment in the actor, test).
MakeEnv = Callable[[int, int, bool], Any]
#: The tensors of the acting modules as bytes, in the order of `acting_tensors`.
Weights = list[NDArray[np.uint8]]


class Origin(NamedTuple):
    """The place and the random streams of an actor.

    Attributes:
        actor: Number of the actor, counted from 0.
        life: Number of earlier processes of this actor that were lost.
        jumps: Number of jumps by which the generators of the explorer advance. Each process has its own number.
        entropy: Seed of the streams of all actors. None if the actor continues `streams`.
        streams: Global streams of the driver, which the actor continues. None if `entropy` seeds the streams.
    """

    actor: int
    life: int
    jumps: int
    entropy: int | None
    streams: GlobalStreams | None


class Description(NamedTuple):
    """The process and the environments of an actor.

    Attributes:
        versions: Versions of Python, torch and this library, keyed by name.
        node: Identifier of the node in Ray.
        observation_space: Observation space of one environment. None if unknown.
        action_space: Action space of one environment. None if unknown.
        spec: `spec` of the first environment. None if unknown.
        layers: Class names of the first environment and its wrappers, the outermost wrapper first.
    """

    versions: dict[str, str]
    node: str
    observation_space: Any
    action_space: Any
    spec: Any
    layers: Sequence[str] = ()


class Answer(NamedTuple):
    """The result of one request to an actor.

    Attributes:
        chunk: The steps; in the driver, a `RemoteChunk` if there is a replay actor. None if no environment made a step.
        n_steps: Number of steps in the chunk.
        episodes: Return and length of each episode that ended.
        version: Version of the weights that selected the actions.
        seconds: Seconds in which the actor worked on the request.
        idle: Seconds for which the actor had waited for the request. 0 for the first request.
        label: In the driver, JSON values for a journal, see `RemoteChunk`.
    """

    chunk: Any
    n_steps: int
    episodes: list[tuple[float, int]]
    version: int
    seconds: float
    idle: float
    label: Mapping[str, Any] | None = None

    def to_plain(self) -> dict[str, Any]:
        """Return the answer as JSON values."""
        chunk = self.chunk
        if chunk is not None:
            # A sender takes the state after each step, too. The chunk has it only after the last ones.
            states = {"state": chunk.extra.get("state")}
            extra = {name: column for name, column in chunk.extra.items() if name not in states}
            steps = [to_json(step) for step in replace(chunk, extra=extra).steps()]
            others = {"last_extra": dict(chunk.last_extra), "cut": chunk.cut}
            chunk = {"n_envs": chunk.n_envs, "steps": steps, "states": to_json(states), "others": to_json(others)}
        return {"chunk": chunk, "others": to_json(self[1:])}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Answer":
        """Return the answer that `to_plain` converted."""
        chunk = plain["chunk"]
        if chunk is not None:
            sender = ChunkSender(chunk["n_envs"])
            for step in chunk["steps"]:
                sender.append_batch(**from_json(step))
            taken = sender.take()
            assert taken is not None
            states = {name: column for name, column in from_json(chunk["states"]).items() if column is not None}
            chunk = replace(taken, extra={**taken.extra, **states}, **from_json(chunk["others"]))
        return cls(chunk, *from_json(plain["others"]))


def versions() -> dict[str, str]:
    """Return the versions that must be equal in the driver and in its actors."""
    known = versions_and_hardware()["versions"]
    return {name: str(known[name]) for name in ("python", "torch", "numpy", "pfrl_like")}


def check_versions(index: int, found: Mapping[str, str], which: str = "") -> None:
    """Check that an actor has the versions of this process.

    Args:
        index: Number of the actor.
        found: Result of `versions` in the actor.
        which: Text before the description of the failure.

    Raises:
        WorkerError: If a version differs. The message names the package and both versions.
    """
    for name, version in versions().items():
        if found[name] != version:
            other = f"{which}has {name} {found[name]}, and the driver has {version}"
            raise WorkerError(index, f"{other}: install the same versions on all nodes")


def acting_tensors(agent: Any) -> list[Tensor]:
    """Return the parameters and buffers that an agent and its acting copies have, in a fixed order."""
    states = (module.state_dict() for module in agent.acting_modules.values())
    return [value for state in states for value in state.values() if isinstance(value, Tensor)]


def pack_weights(tensors: Sequence[Tensor]) -> Weights:
    """Return copies of tensors as bytes. Ray sends arrays without further copies."""
    return [tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().copy() for tensor in tensors]


def load_weights(tensors: Sequence[Tensor], weights: Weights) -> None:
    """Write the result of `pack_weights` to tensors of the same shapes."""
    with torch.no_grad():
        for tensor, array in zip(tensors, weights, strict=True):
            if len(array):
                tensor.copy_(torch.from_numpy(array.copy()).view(tensor.dtype).view(tensor.shape))


def explorer_numbers(agent: Any) -> dict[str, Any]:
    """Return the public attributes of an agent's explorer that are numbers, keyed by name. `agent` may have none."""
    attributes = getattr(getattr(agent, "explorer", None), "__dict__", {})
    numbers = {name: value for name, value in attributes.items() if isinstance(value, int | float | np.number)}
    return {name: value for name, value in numbers.items() if not name.startswith("_")}


def error_of(index: int, which: str, error: Any) -> WorkerError:
    """Return the error of an actor whose environment or agent raised an exception.

    Args:
        index: Number of the actor.
        which: Text before the description of the failure.
        error: The `RayTaskError`.
    """
    return WorkerError(index, f"{which}raised {error.cause!r:.300}", _COLOURS.sub("", str(error)))


def add_paths(paths: Sequence[str]) -> None:
    """Append the driver's search path of modules to that of this process, without folders that do not exist here."""
    sys.path += [path for path in paths if path not in sys.path and os.path.isdir(path)]


class EnvActor:
    """Vector environment and acting copy of an agent in a process of Ray.

    The actor works only on requests: `collect` makes a number of steps and returns them. It sends nothing by itself.

    Args:
        origin: Place and random streams of the actor.
        packed: Result of `cloudpickle.dumps` for the acting copy and the function that makes an environment.
        num_envs: Number of environments.
        max_episode_len: Maximum number of steps in an episode. If None, there is no limit.
    """

    def __init__(self, origin: Origin, packed: bytes, num_envs: int, max_episode_len: int | None) -> None:
        self.origin, self.num_envs = origin, num_envs
        self._packed, self._max_episode_len = packed, max_episode_len
        self._version = 0
        self._finished_at: float | None = None

    def ping(self) -> None:
        """Return, to show that the actor has a process."""

    def start(self, records: bool, paths: Sequence[str]) -> Description:
        """Make the environments and the acting copy, and describe them.

        This is not a part of the constructor, because Ray reports an error in a constructor as the death of the actor.

        Args:
            records: True to record episodes, so that `saved_state` can be called.
            paths: Folders of modules that the user imports.
        """
        torch.set_num_threads(1)
        add_paths(paths)
        self.prepare()
        if records:
            self.source.record()
        return describe(self.env)

    def replace(self, origin: Origin) -> None:
        """Close the environments, and take the place of another process. Call `start` next."""
        self.origin, self._version, self._finished_at = origin, 0, None
        self.close()

    def prepare(self) -> None:
        """Set the random streams, and make the environments and the acting copy."""
        seeds = self._seed_global_streams()
        acting, make_env = cloudpickle.loads(self._packed)
        vary_streams(getattr(acting, "explorer", None), self.origin.jumps)
        self.env = SerialVectorEnv([make_env(self.origin.actor, i, False) for i in range(self.num_envs)])
        if seeds is not None:
            self.env.seed(seeds)
        self.acting, self.sender = acting, ChunkSender(self.num_envs)
        setattr(acting, "step_collector" if hasattr(acting, "step_collector") else "replay_buffer", self.sender)
        self.tensors = acting_tensors(acting)
        self.source = VectorSource(acting, self.env, self._max_episode_len)

    def _seed_global_streams(self) -> list[int] | None:
        """Seed the global streams. Return the seeds of the environments; None if they keep the seeds of `make_env`."""
        if self.origin.streams is not None:
            self.origin.streams._replace(cuda=None).restore()
            return None
        sequence = np.random.SeedSequence(self.origin.entropy, spawn_key=(self.origin.actor, self.origin.life))
        first, *others = map(int, sequence.generate_state(1 + self.num_envs))
        set_random_seed(first)
        return others

    def record(self) -> None:
        """Record episodes from now on."""
        self.source.record()

    def collect(self, weights: Weights, version: int, t: int, ticks: int, numbers: Mapping[str, Any]) -> Answer:
        """Step every environment `ticks` times.

        Args:
            weights: The newest weights of the agent.
            version: Version of these weights.
            t: Number of training steps so far. The schedule of the explorer depends on it.
            ticks: Number of steps of each environment.
            numbers: Attributes of the explorer that hooks have changed in the driver, keyed by name.
        """
        begun = time.perf_counter()
        idle = 0.0 if self._finished_at is None else begun - self._finished_at
        if version != self._version:
            load_weights(self.tensors, weights)
            self._version = version
        self.acting.t = t
        for name, number in numbers.items():
            setattr(self.acting.explorer, name, number)
        clock, episodes = Clock(None, t), []
        for _ in range(ticks):
            episodes += [(each.total_reward, each.length) for each in self.source.tick(clock)]
        chunk = self.sender.take()
        self._finished_at = time.perf_counter()
        n_steps = 0 if chunk is None else chunk.n_steps
        return Answer(chunk, n_steps, episodes, version, self._finished_at - begun, idle)

    def collect_apart(
        self, weights: Weights, version: int, t: int, ticks: int, numbers: Mapping[str, Any], has_errors: bool
    ) -> tuple[Answer, Any]:
        """Return the answer of `collect` without the chunk, and the chunk, as two objects of Ray.

        The driver passes the reference to the second one to the replay actor, and does not read it.

        Args:
            weights: The newest weights of the agent.
            version: Version of these weights.
            t: Number of training steps so far.
            ticks: Number of steps of each environment.
            numbers: Attributes of the explorer that hooks have changed in the driver, keyed by name.
            has_errors: True to add the column `priority` with TD errors, if the agent can compute them.
        """
        answer = self.collect(weights, version, t, ticks, numbers)
        adds = has_errors and answer.chunk is not None
        return answer._replace(chunk=None), with_priorities(self.acting, answer.chunk) if adds else answer.chunk

    def saved_state(self) -> dict[str, Any]:
        """Return the state of environments, acting copy and random streams as JSON values."""
        streams = Streams.of(self.acting, self.env).to_plain()  # first, because the other calls may draw numbers
        own = self.acting.saved_state() if hasattr(self.acting, "saved_state") else {}
        return {"source": self.source.saved_state(), "acting": to_json(own), "streams": streams}

    def restore_state(self, state: Mapping[str, Any]) -> list[str]:
        """Restore the result of `saved_state`. Return reasons why later steps may differ."""
        own = from_json(state["acting"])
        if own:
            self.acting.restore_state(own)
        reasons = [*self.source.restore_state(state["source"])]
        try:
            Streams.of(self.acting, self.env).restore(state["streams"])
        except ValueError as error:
            reasons.append(str(error))
        return reasons

    def close(self) -> None:
        """Close the environments."""
        close_all([self.env])


def describe(env: Any) -> Description:
    """Return the description of this process and of a vector environment."""
    import ray

    node = ray.get_runtime_context().get_node_id()
    layers = [type(layer).__name__ for layer in layers_of(env.envs[0])]
    return Description(versions(), node, env.observation_space, env.action_space, env.spec, layers)


@dataclass(frozen=True)
class RemoteEnvs:
    """Description of the environments of all actors. It stands for them in the driver, which has no environments.

    Attributes:
        num_envs: Number of environments of all actors.
        observation_space: Observation space of one environment. None if unknown.
        action_space: Action space of one environment. None if unknown.
        spec: `spec` of the first environment. None if unknown.
        remote_layers: Class names of the first environment and its wrappers, the outermost wrapper first.
    """

    num_envs: int
    observation_space: Any
    action_space: Any
    spec: Any
    remote_layers: Sequence[str]
