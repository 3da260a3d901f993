"""Algorithms of maximum entropy, and conservative ones that build on them."""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from pfrl_like import agents
from pfrl_like.agents.offline.cql import max_next_value, mode_next_value
from pfrl_like.algos.fitting.networks import copy_targets_by_interval
from pfrl_like.d3rlpy.algos.configs import CalQLConfig, CQLConfig, DiscreteSACConfig, SACConfig
from pfrl_like.d3rlpy.algos.qlearning.actor_critics import ActorCritic
from pfrl_like.d3rlpy.algos.qlearning.parts import Implementation
from pfrl_like.d3rlpy.constants import ActionSpace
from pfrl_like.d3rlpy.models.policies import CategoricalPolicy
from pfrl_like.d3rlpy.types import Shape
from pfrl_like.functions.losses import huber, square

#: Maximum of CQL's alpha.
MAX_ALPHA = 1e6


class SAC(ActorCritic, config_class=SACConfig):
    """Soft Actor-Critic; the agent is a `pfrl_like.agents.SoftActorCritic`.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the networks cannot be built from the config.
        TypeError: If `device` has the wrong type.
    """

    agent_class: ClassVar[Any] = agents.SoftActorCritic
    arguments = {**ActorCritic.arguments, "initial_temperature": "initial_temperature"}
    metrics = {**ActorCritic.metrics, "temp_loss": "temperature_loss"}
    #: True if multipliers at learning rate 0 have optimisers, too.
    optimizes_constants: ClassVar[bool] = False

    def agent_options(self, policy: Any, others: dict[str, Any]) -> dict[str, Any]:
        return {"elementwise": square, "entropy_target": float(-policy._mu.out_features), **self.multipliers(others)}

    def multipliers(self, others: dict[str, Any]) -> dict[str, Any]:
        """Return the options of the multipliers. Their optimisers become parts."""
        makers = {"temperature": self._optimizer_of_multiplier("temp", others)}
        return {"multipliers_first": True, "multiplier_optimizers": makers}

    def parts_of(self, agent: Any) -> dict[str, Any]:
        return {"log_temp": agent.temperature_holder}

    def report(self, error: Tensor, statistics: Mapping[str, Tensor]) -> dict[str, float]:
        metrics = super().report(error, statistics) | {"temp": float(self._built.agent.temperature)}
        learns = self.config.temp_learning_rate or self.optimizes_constants
        return metrics if learns else metrics | {"temp_loss": 0.0}

    def _optimizer_of_multiplier(
        self, name: str, others: dict[str, Any], rate_of: str = ""
    ) -> Callable[[Any], torch.optim.Optimizer]:
        """Return a function from parameters to their optimiser. At learning rate 0, the parameters do not change.

        Args:
            name: Beginning of the names of the fields of the multiplier: "temp" or "alpha".
            others: Dict to which the function adds the optimiser, under d3rlpy's name.
            rate_of: Beginning of the name of the field with the learning rate. If empty, `name`.
        """
        factory = getattr(self.config, f"{name}_optim_factory")
        rate = getattr(self.config, f"{rate_of or name}_learning_rate")

        def make(parameters: Any) -> torch.optim.Optimizer:
            if rate == 0 and not self.optimizes_constants:
                return torch.optim.SGD(parameters, lr=0.0)
            wrapper = others[f"{name}_optim"] = factory.create(
                nn.ParameterList(parameters).named_modules(), rate, self.compiled
            )
            optimizer: torch.optim.Optimizer = wrapper.optim
            return optimizer

        return make


class CQL(SAC, config_class=CQLConfig):
    """Conservative Q-Learning; the agent is a `pfrl_like.agents.CQL`.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the networks cannot be built from the config.
        TypeError: If `device` has the wrong type.
    """

    agent_class: ClassVar[Any] = agents.CQL
    arguments = {
        **SAC.arguments, "initial_alpha": "initial_alpha", "conservative_weight": "conservative_weight",
        "n_action_samples": "n_action_samples", "soft_q_backup": "soft_q_backup",
    }  # fmt: skip

    def agent_options(self, policy: Any, others: dict[str, Any]) -> dict[str, Any]:
        config, options = self.config, super().agent_options(policy, others)
        if config.soft_q_backup and config.max_q_backup:
            raise ValueError("soft_q_backup and max_q_backup are True, expected at most one of them")
        del options["elementwise"]  # the square is CQL's own
        makers = options["multiplier_optimizers"] | {"alpha": self._optimizer_of_multiplier("alpha", others)}
        hard = functools.partial(max_next_value, n=config.n_action_samples) if config.max_q_backup else mode_next_value
        return options | {
            "multiplier_optimizers": makers, "alpha_threshold": self._threshold, "max_alpha": MAX_ALPHA,
            "next_value": None if config.soft_q_backup else hard,
        }  # fmt: skip

    @property
    def _threshold(self) -> float:
        """Threshold of the weighted gap."""
        return float(self.config.conservative_weight * self.config.alpha_threshold)

    def parts_of(self, agent: Any) -> dict[str, Any]:
        return {**super().parts_of(agent), "log_alpha": agent.alpha_holder}

    def report(self, error: Tensor, statistics: Mapping[str, Tensor]) -> dict[str, float]:
        """Return metrics. d3rlpy takes the threshold off the gap of each critic, in the critics' loss, too."""
        metrics, alpha = super().report(error, statistics), float(self._built.agent.alpha)
        weight, gap = alpha * self.config.n_critics, float(statistics["conservative_gap"].mean())
        return metrics | {
            "alpha": alpha, "conservative_loss": weight * (gap - self._threshold),
            "critic_loss": metrics["critic_loss"] - weight * self._threshold,
        }  # fmt: skip


class CalQL(CQL, config_class=CalQLConfig):
    """Calibrated Q-Learning: CQL whose values are at least the returns of the data; the agent is a `CalQL`.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the networks cannot be built from the config.
        TypeError: If `device` has the wrong type.
    """

    agent_class = agents.CalQL

    @property
    def need_returns_to_go(self) -> bool:
        return True


class DiscreteSAC(SAC, config_class=DiscreteSACConfig):
    """Soft Actor-Critic for discrete actions; the agent is a `pfrl_like.agents.DiscreteSAC` with hard targets.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the networks cannot be built from the config.
        TypeError: If `device` has the wrong type.
    """

    agent_class = agents.DiscreteSAC
    arguments = {"initial_temperature": "initial_temperature"}
    metrics = ActorCritic.metrics
    policy_class = CategoricalPolicy

    def get_action_type(self) -> ActionSpace:
        return ActionSpace.DISCRETE

    def agent_options(self, policy: Any, others: dict[str, Any]) -> dict[str, Any]:
        target = 0.98 * math.log(policy._fc.out_features)
        return {"elementwise": huber, "entropy_target": target, **self.multipliers(others)}

    def build(self, observation_shape: Shape, action_size: int) -> Implementation:
        implementation = super().build(observation_shape, action_size)
        copy_targets_by_interval(implementation.agent, self.config.target_update_interval)
        return implementation

    def report(self, error: Tensor, statistics: Mapping[str, Tensor]) -> dict[str, float]:
        return ActorCritic.report(self, error, statistics)
