"""Policies that ignore observations. They collect data, and cannot learn."""

from typing import Any

import numpy as np

from pfrl_like.d3rlpy.algos.configs import DiscreteRandomPolicyConfig, RandomPolicyConfig
from pfrl_like.d3rlpy.algos.qlearning.base import QLearningAlgoBase
from pfrl_like.d3rlpy.algos.qlearning.parts import Implementation, Parts
from pfrl_like.d3rlpy.base import DeviceArg
from pfrl_like.d3rlpy.constants import ActionSpace
from pfrl_like.d3rlpy.types import NDArray, Observation, Shape
from pfrl_like.utils.checks import check_choice


class RandomPolicy(QLearningAlgoBase, config_class=RandomPolicyConfig):
    """Random actions in [-1, 1], or in the range of the action scaler, drawn with NumPy's global stream.

    Args:
        config: Config with the distribution: "uniform", or "normal" with the deviation `normal_std`, clipped.
        device: Ignored, because there are no networks.
        enable_ddp: Ignored, because there are no networks.

    Raises:
        ValueError: If the distribution has another name.
    """

    def __init__(self, config: Any, *, device: DeviceArg = False, enable_ddp: bool = False) -> None:
        if isinstance(config, RandomPolicyConfig):
            check_choice("distribution", config.distribution, ("uniform", "normal"))
        super().__init__(config, False, False)

    def get_action_type(self) -> ActionSpace:
        return ActionSpace.CONTINUOUS

    def build(self, observation_shape: Shape, action_size: int) -> Implementation:
        return Implementation(self, None, Parts())

    def save_policy(self, fname: str) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no network to export")

    def predict(self, x: Observation) -> NDArray:
        return self.sample_action(x)

    def sample_action(self, x: Observation) -> NDArray:
        shape = len(x[0] if isinstance(x, list | tuple) else x), self.action_size or 1
        if self.config.distribution == "uniform":
            action = np.random.uniform(-1.0, 1.0, shape)
        else:
            action = np.random.normal(0.0, self.config.normal_std, shape).clip(-1.0, 1.0)
        return action if self.action_scaler is None else self.action_scaler.reverse_transform_numpy(action)

    def _greedy(self, obs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no network: call predict")

    def learn(self, batch: Any) -> dict[str, float]:
        """Raise an error, because the policy cannot learn.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot learn: call collect, or choose another algorithm")


class DiscreteRandomPolicy(RandomPolicy, config_class=DiscreteRandomPolicyConfig):
    """Random discrete actions, all with the same probability, drawn with NumPy's global stream.

    Args:
        config: Config of the policy.
        device: Ignored, because there are no networks.
        enable_ddp: Ignored, because there are no networks.

    Raises:
        ValueError: If the config has an `action_scaler`.
    """

    def get_action_type(self) -> ActionSpace:
        return ActionSpace.DISCRETE

    def sample_action(self, x: Observation) -> NDArray:
        return np.random.randint(self.action_size or 1, size=len(x[0] if isinstance(x, list | tuple) else x))
