"""Interfaces of algorithms: the methods and attributes that evaluators use."""

from typing import Protocol

from pfrl_like.d3rlpy.preprocessing import ActionScaler, ObservationScaler, RewardScaler
from pfrl_like.d3rlpy.types import NDArray, Observation


class QLearningAlgoProtocol(Protocol):
    """Algorithm that selects actions and predicts their values."""

    def predict(self, x: Observation) -> NDArray:
        """Return the greedy actions, [N] for discrete actions, [N, A] for vectors.

        Args:
            x: Observations, [N, ...].
        """

    def predict_value(self, x: Observation, action: NDArray) -> NDArray:
        """Return the values of pairs of observation and action, [N].

        Args:
            x: Observations, [N, ...].
            action: Actions, [N] or [N, 1] for discrete actions, [N, A] for vectors.
        """

    def sample_action(self, x: Observation) -> NDArray:
        """Return sampled actions for observations [N, ...]: [N] for discrete actions, [N, A] for vectors."""

    @property
    def gamma(self) -> float:
        """Discount factor per step."""

    @property
    def observation_scaler(self) -> ObservationScaler | None:
        """Scaler of observations, or None."""

    @property
    def action_scaler(self) -> ActionScaler | None:
        """Scaler of actions, or None."""

    @property
    def reward_scaler(self) -> RewardScaler | None:
        """Scaler of rewards, or None."""

    @property
    def action_size(self) -> int | None:
        """Number of discrete actions, or size of an action vector. None before the networks are built."""


class StatefulTransformerAlgoProtocol(Protocol):
    """Transformer that remembers the steps of an episode."""

    def predict(self, x: Observation, reward: float) -> NDArray | int:
        """Return the action for one observation, an array or an index.

        Args:
            x: Observation, without a batch axis.
            reward: Reward of the previous action, 0 at the start of an episode.
        """

    def reset(self) -> None:
        """Forget the steps of the episode."""
