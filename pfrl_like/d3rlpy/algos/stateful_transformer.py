"""Transformers that keep the context of the running episode, and samplers of their actions."""

from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pfrl_like.d3rlpy.constants import ActionSpace
from pfrl_like.errors import NotFittedError
from pfrl_like.utils.checks import check_numbers


@dataclass(frozen=True)
class TransformerInput:
    """The last L steps of an episode, oldest first.

    Args:
        observations: Observations, [L, ...]; a list of such arrays for tuples of observations.
        actions: Actions, [L] if they are discrete, otherwise [L, action_size]. The last one is a placeholder.
        rewards: Rewards of the previous actions, [L, 1].
        returns_to_go: Returns that are to be reached from each step on, [L, 1].
        timesteps: Numbers of the steps, from 1, [L].

    Raises:
        ValueError: If the lengths differ.
    """

    observations: Any
    actions: NDArray[Any]
    rewards: NDArray[Any]
    returns_to_go: NDArray[Any]
    timesteps: NDArray[Any]

    def __post_init__(self) -> None:
        parts = self.observations if isinstance(self.observations, list) else [self.observations]
        lengths = [len(each) for each in (self.actions, self.rewards, self.returns_to_go, self.timesteps, *parts)]
        if len({*lengths}) > 1:
            raise ValueError(
                f"actions, rewards, returns_to_go, timesteps, observations have {lengths} steps, not equal"
            )

    @property
    def length(self) -> int:
        """Number of steps, L."""
        return len(self.actions)


class TransformerActionSampler(Protocol):
    """Interface of samplers."""

    def __call__(self, transformer_output: NDArray[Any]) -> Any:
        """Return an action.

        Args:
            transformer_output: The action of a continuous transformer, [action_size], or logits, [n_actions].
        """


class IdentityTransformerActionSampler(TransformerActionSampler):
    """Returns the output, which is the action of a continuous transformer."""

    def __call__(self, transformer_output: NDArray[Any]) -> Any:
        """Return the output."""
        return transformer_output


class SoftmaxTransformerActionSampler(TransformerActionSampler):
    """Samples a discrete action from the softmax of the logits, with NumPy's global generator.

    Args:
        temperature: Divisor of the logits. A low temperature prefers the greedy action.

    Raises:
        ValueError: If `temperature` is not positive.
    """

    def __init__(self, temperature: float = 1.0) -> None:
        check_numbers(0, float("inf"), between=True, temperature=temperature)
        self._temperature = temperature

    def __call__(self, transformer_output: NDArray[Any]) -> Any:
        """Return the sampled action, an integer."""
        logits = np.asarray(transformer_output, np.float64) / self._temperature
        weights = np.exp(logits - logits.max())
        return int(np.random.choice(len(weights), p=weights / weights.sum()))


class GreedyTransformerActionSampler(TransformerActionSampler):
    """Returns the discrete action with the largest logit."""

    def __call__(self, transformer_output: NDArray[Any]) -> Any:
        """Return the greedy action, an integer."""
        return int(np.argmax(transformer_output))


class StatefulTransformerWrapper:
    """Acts with a transformer and keeps the context of the running episode.

    Args:
        algo: Transformer, built.
        target_return: Undiscounted return that the episodes are to reach.
        action_sampler: Function that makes an action of the transformer's output.

    Raises:
        NotFittedError: If the transformer is not built.
    """

    def __init__(self, algo: Any, target_return: float, action_sampler: TransformerActionSampler) -> None:
        if algo.impl is None:
            raise NotFittedError("algo is not built: call fit, build_with_dataset, build_with_env or create_impl first")
        self._algo, self._target_return, self._action_sampler = algo, target_return, action_sampler
        self.reset()

    @property
    def algo(self) -> Any:
        """The transformer."""
        return self._algo

    def reset(self) -> None:
        """Start a new episode."""
        self._steps: deque[list[Any]] = deque(maxlen=self._algo.config.context_size)
        self._return_to_go, self._timestep = self._target_return, 1

    def predict(self, x: Any, reward: float) -> Any:
        """Return the action for an observation.

        Args:
            x: Observation, [...], or a tuple of arrays.
            reward: Reward of the previous action, 0 at the start of an episode.
        """
        continuous = self._algo.get_action_type() is ActionSpace.CONTINUOUS
        placeholder = np.zeros(self._algo.action_size, np.float32) if continuous else 0
        self._return_to_go -= reward
        self._steps.append([x, placeholder, reward, self._return_to_go, self._timestep])
        observations, actions, rewards, returns_to_go, timesteps = zip(*self._steps, strict=True)
        tuples = isinstance(x, tuple | list)
        context = TransformerInput(
            observations=[*map(np.array, zip(*observations, strict=True))] if tuples else np.array(observations),
            actions=np.array(actions),
            rewards=np.array(rewards)[:, None],
            returns_to_go=np.array(returns_to_go)[:, None],
            timesteps=np.array(timesteps),
        )
        self._steps[-1][1] = action = self._action_sampler(self._algo.predict(context))
        self._timestep = min(self._timestep + 1, self._algo.config.max_timestep)
        return action
