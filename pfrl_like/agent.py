"""The interfaces of agents, and the saving and loading of their state."""

import contextlib
import copy
import os
import types
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from pfrl_like.batch import ACTION_MASK
from pfrl_like.storage.attributes import attributes_state, load_attributes, load_attributes_state, save_attributes
from pfrl_like.utils.contexts import MODES, Mode, evaluating_here, with_plain_mode
from pfrl_like.utils.reprs import never_raising, shown


class Agent(ABC):
    """Interface of agents, which choose actions in an environment and learn from the outcomes.

    Attributes:
        training: True if `observe` learns and `act` explores, in this thread; see `eval_mode`.
    """

    training: bool = Mode()  # type: ignore[assignment]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if isinstance(training := vars(cls).get("training"), bool):
            cls.training = Mode(training)  # type: ignore[assignment]

    def __getstate__(self) -> Any:
        return with_plain_mode(super().__getstate__(), self)

    @never_raising
    def __repr__(self) -> str:
        device, steps, gamma = (getattr(self, name, None) for name in ("device", "t", "gamma"))
        updates = getattr(self, "optim_t", getattr(self, "n_updates", None))
        facts = {"{}": device, "{:,} training steps": steps, "{:,} updates": updates, "gamma={}": gamma}
        known = [text.format(value) for text, value in facts.items() if isinstance(value, torch.device | int | float)]
        held = {name: getattr(self, name, None) for name in ("replay_buffer", "explorer")}
        lines = [f"{name}: {shown(value)}" for name, value in held.items() if value is not None]
        return "\n  ".join([f"{type(self).__name__}({', '.join(known)})", *_modules_line(self), *lines])

    @abstractmethod
    def act(self, obs: Any) -> Any:
        """Choose an action for an observation.

        The observation is not checked for NaN, not even in `eval_mode`; with NaN any action may result. Runners and
        evaluators refuse such observations; a custom loop may call `pfrl_like.utils.checks.check_finite("obs", obs)`
        first.
        """

    @abstractmethod
    def observe(self, obs: Any, reward: float, done: bool, reset: bool) -> None:
        """Process the outcome of the last action.

        Args:
            obs: Observation after the action; at an episode's end, the true last observation of that episode.
            reward: Reward of the last action.
            done: True if `obs` is terminal; its value must not be bootstrapped from.
            reset: True if the episode is truncated here for another reason, such as its length.
        """

    @abstractmethod
    def save(self, dirname: str) -> None:
        """Save the learnt state of the agent into a directory.

        Raises:
            CheckpointError: If it cannot be saved; an older save in the directory is kept.
        """

    @abstractmethod
    def load(self, dirname: str) -> None:
        """Load a directory written by `save`.

        Raises:
            CheckpointError: If the directory holds no complete save of such an agent; the agent is unchanged.
        """

    @abstractmethod
    def get_statistics(self) -> list[tuple[str, Any]]:
        """Statistics of learning, as (name, value) pairs with the same names at every call."""

    def unsaved(self) -> Sequence[str]:
        """Reasons why an agent loaded from a save may continue differently; empty if it continues exactly.

        A reason makes the run "approximate". An agent that saves less than it needs to continue exactly declares it
        here, and nowhere else.
        """
        return ()

    def waiting_for(self) -> str | None:
        """Reason why the agent cannot make an update yet, which runners show; None if it can."""
        return None

    @contextlib.contextmanager
    def eval_mode(self) -> Iterator[None]:
        """Context in which the agent neither learns nor explores.

        It applies to this thread and to the threads started within it. Threads may enter and leave it in any order, and
        may act with the same agent. A thread that was running before, and does not enter the context, keeps its
        `training`: one thread may learn while others evaluate. Two threads must not learn at the same time.

        If networks have dropout or batch normalisation, whose mode is the same in all threads, acting and updates wait
        for each other. An agent that remembers the episode it acts in (`acts_from_memory`) takes one thread at a time;
        `copy.deepcopy(agent)` makes a copy for another thread.

        Raises:
            RuntimeError: If the agent acts from memory and another thread is in the context.
        """
        with evaluating_here(self, alone=getattr(self, "acts_from_memory", False)):
            yield

    @property
    def acts_from_memory(self) -> bool:
        """True if an action depends on earlier steps, so that each thread needs its own copy of the agent."""
        return False

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        reduced: Any = self.__reduce_ex__(4)
        make, arguments, state, *_ = reduced
        with MODES:  # so that no layer is copied while another thread has changed its mode for a moment
            memo[id(self)] = copied = make(*arguments)
            state = copy.deepcopy(state, memo)
        restore = getattr(copied, "__setstate__", vars(copied).update)
        restore(state)
        return copied


class BatchAgent(Agent):
    """An agent that acts in several environments at once; a single environment is a batch of one.

    Runners pass `action_mask` and `active` only when they carry information, so an agent that supports neither may
    leave them out of its signatures.
    """

    def act(self, obs: Any, *, action_mask: Any = None) -> Any:
        """Choose an action; `action_mask` says which are allowed, [n_actions].

        `obs` is not checked for NaN, see `Agent.act`.
        """
        return self.batch_act([obs], **_batched(action_mask))[0]

    def observe(self, obs: Any, reward: float, done: bool, reset: bool, *, action_mask: Any = None) -> None:
        """Process the outcome of the last action; `action_mask` says what is allowed in `obs`, [n_actions]."""
        self.batch_observe([obs], [reward], [done], [reset], **_batched(action_mask))

    @abstractmethod
    def batch_act(self, batch_obs: Sequence[Any]) -> Sequence[Any]:
        """Choose an action for each of k environments.

        Args:
            batch_obs: k observations.

        Returns:
            k actions.
        """

    @abstractmethod
    def batch_observe(
        self,
        batch_obs: Sequence[Any],
        batch_reward: Sequence[float],
        batch_done: Sequence[bool],
        batch_reset: Sequence[bool],
    ) -> None:
        """Process the outcomes of the last k actions; each argument has length k.

        Args:
            batch_obs: Observations after the actions; at an episode's end, the true last observation of that episode.
            batch_reward: Rewards.
            batch_done: For each environment, True if its observation is terminal.
            batch_reset: For each environment, True if its episode is truncated here for another reason.
        """


class AsyncAgent(Agent):
    """An agent that runs as one copy in each of several processes, with shared parameters."""

    @property
    @abstractmethod
    def process_idx(self) -> int | None:
        """Number of this process; 0 is the process that represents all; None until it is set."""

    @property
    @abstractmethod
    def shared_attributes(self) -> tuple[str, ...]:
        """Names of the attributes that the processes share."""


class AttributeSavingMixin(ABC):
    """Saves and loads the attributes that `saved_attributes` names.

    Each is a module, an optimiser, another object with `state_dict` and `load_state_dict`, another object of this
    class, or None, which is skipped. Saving is atomic. Loading changes everything or nothing. PFRL's directories can
    be loaded as well.
    """

    @property
    @abstractmethod
    def saved_attributes(self) -> tuple[str, ...]:
        """Names of the attributes to save."""

    #: Attributes that PFRL's and older directories lack, and for each the attribute whose file is loaded instead.
    saved_instead: Mapping[str, str] = types.MappingProxyType({})

    def saved_state(self) -> dict[str, Any]:
        """Further state, such as counters: keys are text, values finite numbers, text, tensors, lists and dicts."""
        return {}

    def restore_state(self, state: dict[str, Any]) -> None:
        """Restore the state that `saved_state` returned.

        Args:
            state: The same values, with lists in place of tuples and arrays.

        Raises:
            ValueError: If the state comes from another kind of object.
        """
        if state:
            raise ValueError(f"state has {sorted(state)}, but {type(self).__name__} has no state")

    def save(self, dirname: str | os.PathLike[str]) -> None:
        """Save into a directory, which holds either the old save or the new one at every instant.

        In addition to the files that `load` reads, it writes copies under PFRL's names (`model.pt`, ...).

        Raises:
            CheckpointError: If something cannot be saved or written; the old save is kept.
            NonFiniteError: If a parameter is NaN or infinite; the old save is kept.
        """
        save_attributes(self, dirname)

    def load(self, dirname: str | os.PathLike[str]) -> None:
        """Load a directory written by `save`, or by PFRL, onto the devices of the live attributes.

        Raises:
            CheckpointError: If the directory holds no complete save, or one whose parts have other names or shapes than
                the agent's; nothing is changed. Classes are not compared: a save of a DQN loads into a DoubleDQN.
        """
        load_attributes(self, dirname)

    def state_dict(self) -> dict[str, Any]:
        """All state that `save` saves: {"attributes": state dicts by name, "state": `saved_state` by owner}.

        As in PyTorch, the tensors are the live ones, which training changes: copy the dict to keep it.
        """
        return attributes_state(self)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a dict that `state_dict` returned; everything is changed or nothing.

        Raises:
            CheckpointError: If it is the state of another agent; nothing is changed.
        """
        load_attributes_state(self, state_dict)


def _modules_line(agent: Agent) -> list[str]:
    """A line with the size of each module, if there is one; targets and modules made of others are left out."""
    seen: set[nn.Parameter] = set()
    texts = []
    for name, module in dict(vars(agent)).items():
        if isinstance(module, nn.Module) and not name.startswith(("_", "target_", "shared_average_")):
            own = {*module.parameters()}
            if own - seen:
                texts.append(f"{name} {sum(param.numel() for param in own):,} ({type(module).__name__})")
            seen |= own
    return [f"parameters: {', '.join(texts)}"] if texts else []


def _batched(action_mask: Any) -> dict[str, list[Any]]:
    return {} if action_mask is None else {ACTION_MASK: [action_mask]}
