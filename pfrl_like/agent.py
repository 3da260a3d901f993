"""Interfaces of agents, and saving and loading of their state."""

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
from pfrl_like.utils.checks import names_unknown_keywords, takes_integral_floats
from pfrl_like.utils.contexts import MODE_LOCK, Mode, evaluating_in_thread, state_with_mode
from pfrl_like.utils.reprs import never_raising, shown

#: Text that names the function to use instead of the method `learn` of other libraries.
TRAIN = "to train it in an environment, use experiments.train_agent(agent, env, steps, outdir)"


class _Elsewhere:
    """Descriptor of a method that agents of other libraries have. Reading it raises an error that says what to use.

    Args:
        advice: End of the error message.
    """

    def __init__(self, advice: str) -> None:
        self.advice = advice

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, agent: Any, owner: Any = None) -> Any:
        if agent is None:
            return self
        try:
            return getattr(super(Agent, agent), self.name)  # a mix-in may define the method
        except AttributeError:
            text = f"{type(agent).__name__} has no {self.name}: {self.advice}"
            raise AttributeError(text, name=self.name, obj=agent) from None


class Agent(ABC):
    """Interface of agents. An agent chooses actions in an environment and learns from the results.

    Attributes:
        training: True if `observe` learns and `act` explores. False in threads inside the context `eval_mode`.
    """

    training: bool = Mode()  # type: ignore[assignment]
    learn: Any = _Elsewhere(TRAIN)
    predict: Any = _Elsewhere("act(obs) selects an action, and the greedy action inside `with agent.eval_mode():`")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if isinstance(training := vars(cls).get("training"), bool):
            cls.training = Mode(training)  # type: ignore[assignment]
        if "__init__" in vars(cls):
            cls.__init__ = names_unknown_keywords(takes_integral_floats(cls.__init__))  # type: ignore[method-assign]

    def __getstate__(self) -> Any:
        return state_with_mode(super().__getstate__(), self)

    @never_raising
    def __repr__(self) -> str:
        device, steps, gamma = (getattr(self, name, None) for name in ("device", "t", "gamma"))
        updates = getattr(self, "optim_t", getattr(self, "n_updates", None))
        facts = {"{}": device, "{:,} training steps": steps, "{:,} updates": updates, "gamma={}": gamma}
        numbers = [text.format(value) for text, value in facts.items() if isinstance(value, torch.device | int | float)]
        parts = {name: getattr(self, name, None) for name in ("replay_buffer", "explorer")}
        lines = [f"{name}: {shown(value)}" for name, value in parts.items() if value is not None]
        return "\n  ".join([f"{type(self).__name__}({', '.join(numbers)})", *_modules_line(self), *lines])

    @abstractmethod
    def act(self, obs: Any) -> Any:
        """Choose an action for an observation.

        The observation is not checked for NaN, not even in `eval_mode`. If it contains NaN, the returned action is
        arbitrary. Runners and evaluators reject observations that contain NaN. A custom loop can call
        `pfrl_like.utils.checks.check_finite("obs", obs)` before `act`.
        """

    @abstractmethod
    def observe(self, obs: Any, reward: float, done: bool, reset: bool) -> None:
        """Process the result of the last action.

        Args:
            obs: Observation after the action. At the end of an episode, the last observation of this episode, not the
                first observation of the next episode.
            reward: Reward of the last action.
            done: True if `obs` is terminal. The agent must not bootstrap from the value of a terminal observation.
            reset: True if the episode is truncated after this step, for example because of its length.
        """

    @abstractmethod
    def save(self, dirname: str) -> None:
        """Save the learnt state of the agent in a directory.

        Raises:
            CheckpointError: If the state cannot be saved. The directory keeps its older files.
        """

    @abstractmethod
    def load(self, dirname: str) -> None:
        """Load a directory written by `save`.

        Raises:
            CheckpointError: If the directory does not contain a complete saved agent that matches this agent. The agent
                does not change.
        """

    @abstractmethod
    def get_statistics(self) -> list[tuple[str, Any]]:
        """Return the statistics of training as (name, value) pairs. The names are the same at every call."""

    def unsaved(self) -> Sequence[str]:
        """Return texts that say why training may continue differently after `load`. Empty if it continues identically.

        If there is such a text, the record of a resumed run says "approximate". An agent that does not save all of its
        state must override this method and return the reasons.
        """
        return ()

    def waiting_for(self) -> str | None:
        """Return a text that says why the agent cannot make an update yet. None if it can. Runners show the text."""
        return None

    @contextlib.contextmanager
    def eval_mode(self) -> Iterator[None]:
        """Return a context manager in which the agent neither learns nor explores.

        The context applies to the current thread and to all threads that are started inside the context. Threads may
        enter and leave the context in any order, and may act with the same agent. The context does not change
        `training` in other threads: one thread may learn while other threads evaluate. Two threads must not learn at
        the same time.

        Layers such as dropout and batch normalisation have one mode for all threads. If networks contain such layers,
        acting and updates wait for each other. If an action depends on earlier steps (`acts_from_memory`), only one
        thread can be in the context at a time. Use `copy.deepcopy(agent)` to make a copy for another thread.

        Raises:
            RuntimeError: If `acts_from_memory` is True and another thread is in the context.
        """
        with evaluating_in_thread(self, alone=getattr(self, "acts_from_memory", False)):
            yield

    @property
    def acts_from_memory(self) -> bool:
        """True if an action depends on earlier steps, so that each thread needs its own copy of the agent."""
        return False

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        reduced: Any = self.__reduce_ex__(4)
        make, arguments, state, *_ = reduced
        with MODE_LOCK:  # no layer may be copied while another thread changes its mode
            memo[id(self)] = copied = make(*arguments)
            state = copy.deepcopy(state, memo)
        restore = getattr(copied, "__setstate__", vars(copied).update)
        restore(state)
        return copied


class BatchAgent(Agent):
    """Interface of agents that act in several environments at once. A single environment is a batch of size 1.

    Runners pass `action_mask` only if actions are masked, and `active` only if an environment is inactive. An agent
    that does not support an argument may omit it from its methods.
    """

    def act(self, obs: Any, *, action_mask: Any = None) -> Any:
        """Choose an action. `action_mask` is True for allowed actions, bool [n_actions].

        The method does not check `obs` for NaN, see `Agent.act`.
        """
        return self.batch_act([obs], **_batched(action_mask))[0]

    def observe(self, obs: Any, reward: float, done: bool, reset: bool, *, action_mask: Any = None) -> None:
        """Process the result of the last action. `action_mask` is True for actions allowed in `obs`, [n_actions]."""
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
        """Process the results of the last k actions. Each argument has length k.

        Args:
            batch_obs: Observations after the actions. At the end of an episode, the last observation of this episode,
                not the first observation of the next episode.
            batch_reward: Rewards.
            batch_done: True for each environment whose observation is terminal.
            batch_reset: True for each environment whose episode is truncated after this step.
        """


class AsyncAgent(Agent):
    """Interface of agents that several processes copy and run. The copies share their parameters."""

    @property
    @abstractmethod
    def process_idx(self) -> int | None:
        """Index of this process. Process 0 also evaluates the agent. None until the index is set."""

    @property
    @abstractmethod
    def shared_attributes(self) -> tuple[str, ...]:
        """Names of the attributes that the processes share."""


class AttributeSavingMixin(ABC):
    """Saves and loads the attributes whose names are in `saved_attributes`.

    Each attribute is a module, an optimiser, another object with `state_dict` and `load_state_dict`, an instance of
    this class, or None. Attributes that are None are skipped. Saving is atomic: a directory never contains an
    incomplete mix of files. If loading fails, no attribute changes. Directories that PFRL has saved can be loaded, too.
    """

    @property
    @abstractmethod
    def saved_attributes(self) -> tuple[str, ...]:
        """Names of the attributes to save."""

    #: Replacements for attributes that have no file in directories of PFRL or of older versions. Each key is the name
    #: of such an attribute. The value is the name of the attribute whose file is loaded instead.
    saved_instead: Mapping[str, str] = types.MappingProxyType({})
    #: Composition of the agent, as JSON values, or None. `pfrl_like.make` sets it. `save` writes it into the directory,
    #: and `pfrl_like.load_agent` reads it there. `load` ignores it.
    composition: Mapping[str, Any] | None = None

    def saved_state(self) -> dict[str, Any]:
        """Return all other state, such as counters: a dict of finite numbers, strings, tensors, lists and dicts."""
        return {}

    def restore_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `saved_state`.

        Args:
            state: The result of `saved_state`, with lists in place of tuples and arrays.

        Raises:
            ValueError: If `state` is not empty. Subclasses that have a state define their own conditions.
        """
        if state:
            raise ValueError(f"state has {sorted(state)}, but {type(self).__name__} has no state")

    def save(self, dirname: str | os.PathLike[str]) -> None:
        """Save the attributes in a directory. At every moment, the directory contains either the old or the new files.

        In addition to the files that `load` reads, the method writes copies under PFRL's names (`model.pt`, ...).

        Raises:
            CheckpointError: If an attribute cannot be saved, or a file cannot be written. The old files are kept.
            NonFiniteError: If a parameter is NaN or infinite. The old files are kept.
        """
        save_attributes(self, dirname)

    def load(self, dirname: str | os.PathLike[str]) -> None:
        """Load a directory written by `save` or by PFRL. Tensors are moved to the devices of the attributes.

        Raises:
            CheckpointError: If the directory does not contain a complete saved agent, or if the saved attributes differ
                from the attributes of this agent in names or shapes. The agent does not change. The classes of the
                agents are not compared: a DoubleDQN can load the files of a DQN.
        """
        load_attributes(self, dirname)

    def state_dict(self) -> dict[str, Any]:
        """Return all state that `save` saves, as {"attributes": {name: state dict}, "state": {owner: saved_state}}.

        As in PyTorch, the tensors are not copied, and training changes them. To keep the values, make a deep copy of
        the dict.
        """
        return attributes_state(self)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load the result of `state_dict`. If loading fails, the agent does not change.

        Raises:
            CheckpointError: If the dict does not match this agent.
        """
        load_attributes_state(self, state_dict)


def _modules_line(agent: Agent) -> list[str]:
    """Return a line with the sizes of the modules. Omit target networks, and modules that share parameters."""
    seen: set[nn.Parameter] = set()
    texts = []
    for name, module in dict(vars(agent)).items():
        if isinstance(module, nn.Module) and not name.startswith(("_", "target_", "shared_average_")):
            params = {*module.parameters()}
            if params - seen:
                texts.append(f"{name} {sum(param.numel() for param in params):,} ({type(module).__name__})")
            seen |= params
    return [f"parameters: {', '.join(texts)}"] if texts else []


def _batched(action_mask: Any) -> dict[str, list[Any]]:
    return {} if action_mask is None else {ACTION_MASK: [action_mask]}
