"""The interface of agents, and the saving of what they have learnt."""

import contextlib
import copy
import os
import types
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pfrl_like.batch import ACTION_MASK
from pfrl_like.storage.attributes import attributes_state, load_attributes, load_attributes_state, save_attributes
from pfrl_like.utils.contexts import MODES, Mode, evaluating_here, with_plain_mode


class Agent(ABC):
    """What chooses actions in an environment and takes in what they lead to.

    Attributes:
        training: Whether `observe` learns and `act` explores, in this thread; see `eval_mode`.
    """

    training: bool = Mode()  # type: ignore[assignment]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if isinstance(training := vars(cls).get("training"), bool):
            cls.training = Mode(training)  # type: ignore[assignment]

    def __getstate__(self) -> Any:
        return with_plain_mode(super().__getstate__(), self)

    @abstractmethod
    def act(self, obs: Any) -> Any:
        """Choose an action for an observation.

        NaN in it is not looked for, also not in `eval_mode`: the action is then any. Runners and evaluators refuse such
        observations; a loop of one's own may call `pfrl_like.utils.checks.check_finite("obs", obs)` first.
        """

    @abstractmethod
    def observe(self, obs: Any, reward: float, done: bool, reset: bool) -> None:
        """Take in what the last action led to.

        Args:
            obs: Observation after it; at an episode's end its true last one.
            reward: Reward of the last action.
            done: Whether `obs` is terminal, so that nothing may be bootstrapped from it.
            reset: Whether the episode is cut off here for another reason, such as its length.
        """

    @abstractmethod
    def save(self, dirname: str) -> None:
        """Save what the agent has learnt into a directory.

        Raises:
            CheckpointError: If that is impossible; an older save in the directory stays.
        """

    @abstractmethod
    def load(self, dirname: str) -> None:
        """Load what `save` saved.

        Raises:
            CheckpointError: If the directory holds no complete save of such an agent; the agent is unchanged.
        """

    @abstractmethod
    def get_statistics(self) -> list[tuple[str, Any]]:
        """Numbers that say how learning goes, as (name, value) pairs, the same names every time."""

    def unsaved(self) -> Sequence[str]:
        """Why an agent that loads what `save` saves may go on otherwise than this one; nothing if it does not.

        It makes the run "approximate". An agent that saves less than it needs to go on says so here, and nowhere else.
        """
        return ()

    def waiting_for(self) -> str | None:
        """The reason, in words, why the agent cannot make an update yet, which runners show; None if it can."""
        return None

    @contextlib.contextmanager
    def eval_mode(self) -> Iterator[None]:
        """Within it the agent neither learns nor explores, in this thread and in those that are started within it.

        Threads may enter and leave it in any order, and act with one agent in it; a thread that was there before, and
        does not enter it, still has the `training` that it had: so one may learn while others evaluate. Two threads
        must not learn at once. Where networks have dropout or batch normalisation, whose mode is the same in all
        threads, acting and updates wait for each other. An agent that remembers the episode it acts in
        (`acts_from_memory`) takes one thread at a time; `copy.deepcopy(agent)` makes one for another.

        Raises:
            RuntimeError: If the agent acts from memory and another thread is in it.
        """
        with evaluating_here(self, alone=getattr(self, "acts_from_memory", False)):
            yield

    @property
    def acts_from_memory(self) -> bool:
        """True if an action depends on the steps before, so that each thread needs its own copy of the agent."""
        return False

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        reduced: Any = self.__reduce_ex__(4)
        make, arguments, state, *_ = reduced
        with MODES:  # no layer is copied in a mode that another thread has put it into for a moment
            memo[id(self)] = copied = make(*arguments)
            state = copy.deepcopy(state, memo)
        restore = getattr(copied, "__setstate__", vars(copied).update)
        restore(state)
        return copied


class BatchAgent(Agent):
    """An agent that acts in several environments at once, and in one as in a batch of one.

    Runners pass `action_mask` and `active` only when there is something to say, so that an agent that knows of neither
    may leave them out.
    """

    def act(self, obs: Any, *, action_mask: Any = None) -> Any:
        """Choose an action; `action_mask` says which are allowed, [n_actions].

        NaN in `obs` is not looked for, as `Agent.act` says.
        """
        return self.batch_act([obs], **_batched(action_mask))[0]

    def observe(self, obs: Any, reward: float, done: bool, reset: bool, *, action_mask: Any = None) -> None:
        """Take in what the last action led to; `action_mask` belongs to `obs`, [n_actions]."""
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
        """Take in what the last k actions led to; each argument has length k.

        Args:
            batch_obs: Observations after the actions; at an episode's end its true last one.
            batch_reward: Rewards.
            batch_done: Whether each observation is terminal.
            batch_reset: Whether each episode is cut off here for another reason.
        """


class AsyncAgent(Agent):
    """An agent of which several processes each run a copy, with shared parameters."""

    @property
    @abstractmethod
    def process_idx(self) -> int | None:
        """Number of this process, 0 for the one that represents all; None before it is given."""

    @property
    @abstractmethod
    def shared_attributes(self) -> tuple[str, ...]:
        """Names of the attributes that the processes share."""


class AttributeSavingMixin(ABC):
    """Saving and loading of the attributes that `saved_attributes` names.

    Each is a module, an optimiser, anything else with `state_dict` and `load_state_dict`, another object of this kind,
    or None, which is left out. Saving is atomic, loading all or nothing; PFRL's directories load too.
    """

    @property
    @abstractmethod
    def saved_attributes(self) -> tuple[str, ...]:
        """Names of the attributes to save."""

    #: What of them PFRL's and older directories lack, and which one's file is loaded into it instead.
    saved_instead: Mapping[str, str] = types.MappingProxyType({})

    def saved_state(self) -> dict[str, Any]:
        """Further state, such as counters: text keys, and finite numbers, text, tensors, lists and dicts as values."""
        return {}

    def restore_state(self, state: dict[str, Any]) -> None:
        """Take up what `saved_state` gave.

        Args:
            state: The same in value, with lists for tuples and arrays.

        Raises:
            ValueError: If it comes from another kind of object.
        """
        if state:
            raise ValueError(f"state has {sorted(state)}, but a {type(self).__name__} has no state")

    def save(self, dirname: str | os.PathLike[str]) -> None:
        """Save into a directory, which at every instant holds the old save or the new one.

        Beside the files that `load` reads it gets copies under PFRL's names (`model.pt`, ...).

        Raises:
            CheckpointError: If something cannot be saved or written; the old save stays.
            NonFiniteError: If a parameter is NaN or infinite; likewise.
        """
        save_attributes(self, dirname)

    def load(self, dirname: str | os.PathLike[str]) -> None:
        """Load what `save`, or PFRL, has saved, onto the devices that the live attributes are on.

        Raises:
            CheckpointError: If the directory holds no complete save or one of another agent; nothing was changed.
        """
        load_attributes(self, dirname)

    def state_dict(self) -> dict[str, Any]:
        """Everything that `save` saves: {"attributes": state dicts by name, "state": `saved_state` by owner}.

        As in PyTorch its tensors are the live ones, which go on changing: copy it to keep it.
        """
        return attributes_state(self)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load what `state_dict` gave, all or nothing.

        Raises:
            CheckpointError: If it is the state of another agent; nothing was changed.
        """
        load_attributes_state(self, state_dict)


def _batched(action_mask: Any) -> dict[str, list[Any]]:
    return {} if action_mask is None else {ACTION_MASK: [action_mask]}
