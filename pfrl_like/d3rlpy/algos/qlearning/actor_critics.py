"""Algorithms with a policy of continuous actions and critics."""

import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from pfrl_like import agents
from pfrl_like.algos.fitting.networks import copy_targets_by_interval
from pfrl_like.batch import Batch
from pfrl_like.d3rlpy.algos.configs import (
    AWACConfig,
    CRRConfig,
    DDPGConfig,
    IQLConfig,
    ReBRACConfig,
    TD3Config,
    TD3PlusBCConfig,
)
from pfrl_like.d3rlpy.algos.qlearning.base import QLearningAlgoBase
from pfrl_like.d3rlpy.algos.qlearning.parts import Implementation, Parts, build_critics
from pfrl_like.d3rlpy.constants import ActionSpace
from pfrl_like.d3rlpy.models.heads import ValueFunction, encoder_and_size
from pfrl_like.d3rlpy.models.policies import DeterministicPolicy, GaussianPolicy
from pfrl_like.d3rlpy.types import Shape
from pfrl_like.explorers import Greedy
from pfrl_like.learning.lagrange import TemperatureHolder
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.utils.checks import check_choice, check_numbers


class ActorCritic(QLearningAlgoBase):
    """Base class of algorithms with a policy and critics.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the networks cannot be built from the config.
        TypeError: If `device` has the wrong type.
    """

    metrics = {"critic_loss": "loss", "actor_loss": "policy_loss"}
    arguments = {"tau": "soft_update_tau"}
    policy_parts = ("policy", "actor_optim")
    critic_optimizer = "critic_optim"
    agent_class: ClassVar[Any]
    #: Class of the policy, and its options. True if it has a target network.
    policy_class: ClassVar[Any] = GaussianPolicy
    policy_options: ClassVar[Mapping[str, Any]] = {}
    has_target_policy: ClassVar[bool] = False
    #: Other networks, which the optimisers of policy and critics train as well.
    trained_with_policy: ClassVar[tuple[str, ...]] = ()
    trained_with_critics: ClassVar[tuple[str, ...]] = ()

    def get_action_type(self) -> ActionSpace:
        return ActionSpace.CONTINUOUS

    def build(self, observation_shape: Shape, action_size: int) -> Implementation:
        policy = self._policy(observation_shape, action_size)
        discrete = self.get_action_type() is ActionSpace.DISCRETE
        q_func = build_critics(self.config, "critic_", observation_shape, action_size, discrete=discrete)
        others = self.other_networks(observation_shape, action_size)
        for network in (policy, q_func, *others.values()):
            network.to(self._device)
        actor_optim = self.optimizer("actor_", policy, *(others[name] for name in self.trained_with_policy))
        critic_optim = self.optimizer("critic_", q_func, *(others[name] for name in self.trained_with_critics))
        options = self.options() | self.agent_options(policy, others)
        agent = self.agent_class(
            policy, q_func, None, actor_optim.optim, critic_optim.optim, None, ReplayBuffer(None), **options
        )
        agent.delays_first_update, agent.evaluates_critics = False, True
        modules = Parts(
            policy=policy, q_funcs=q_func.members, targ_q_funcs=agent.target_q_func1.members, actor_optim=actor_optim,
            critic_optim=critic_optim, **({"targ_policy": agent.target_policy} if self.has_target_policy else {}),
            **others, **self.parts_of(agent),
        )  # fmt: skip
        return Implementation(self, agent, modules)

    def other_networks(self, observation_shape: Shape, action_size: int) -> dict[str, Any]:
        """Return further networks, keyed by d3rlpy's names."""
        return {}

    def agent_options(self, policy: Any, others: dict[str, Any]) -> dict[str, Any]:
        """Return the agent's arguments that are made of networks or of several fields.

        Args:
            policy: The policy.
            others: Result of `other_networks`. Optimisers may be added under d3rlpy's names.
        """
        return {}

    def parts_of(self, agent: Any) -> dict[str, Any]:
        """Return further networks and optimisers of the agent, keyed by d3rlpy's names."""
        return {}

    def _policy(self, observation_shape: Shape, action_size: int) -> Any:
        parts = encoder_and_size(self.config.actor_encoder_factory, observation_shape)
        return self.policy_class(*parts, action_size, **self.policy_options)

    def _sample(self, obs: Any) -> Any:
        return self._built.agent.policy(obs).sample()


class TD3(ActorCritic, config_class=TD3Config):
    """Twin Delayed Deep Deterministic Policy Gradient; the agent is a `pfrl_like.agents.TD3`.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the networks cannot be built from the config.
        TypeError: If `device` has the wrong type.
    """

    agent_class = agents.TD3
    arguments = {"tau": "soft_update_tau", "update_actor_interval": "policy_update_delay"}
    policy_class = DeterministicPolicy
    has_target_policy = True

    def agent_options(self, policy: Any, others: dict[str, Any]) -> dict[str, Any]:
        noise = self.config.target_smoothing_sigma, self.config.target_smoothing_clip
        check_numbers(0.0, target_smoothing_sigma=noise[0])
        return {"explorer": Greedy(), "target_policy_smoothing_func": functools.partial(smoothed, *noise)}


def smoothed(sigma: float, clip: float, action: Tensor) -> Tensor:
    """Add clipped normal noise to actions in [-1, 1], and clip the sums to [-1, 1].

    Args:
        sigma: Standard deviation of the noise.
        clip: Maximum absolute value of the noise.
        action: Actions, [B, A].
    """
    noise = (sigma * torch.randn_like(action)).clamp(-clip, clip)
    return (action + noise).clamp(-1.0, 1.0)


def unchanged(action: Tensor) -> Tensor:
    """Return the actions."""
    return action


class DDPG(ActorCritic, config_class=DDPGConfig):
    """Deep Deterministic Policy Gradient. The agent is a `pfrl_like.agents.TD3` without noise and without delay.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the networks cannot be built from the config.
        TypeError: If `device` has the wrong type.
    """

    agent_class = agents.TD3
    policy_class = DeterministicPolicy
    has_target_policy = True

    def agent_options(self, policy: Any, others: dict[str, Any]) -> dict[str, Any]:
        return {"explorer": Greedy(), "policy_update_delay": 1, "target_policy_smoothing_func": unchanged}


def bc_loss(algo: Any, agent: Any, batch: Batch, reduce: Any) -> dict[str, float]:
    """Return the metric `bc_loss` of an update of the policy, or nothing: the mean squared error of its actions.

    Args:
        algo: The algorithm.
        agent: Its agent.
        batch: Minibatch of the update.
        reduce: Function that reduces the squared errors of the components of an action.
    """
    if algo.grad_step % algo.config.update_actor_interval:
        return {}
    buffers = {name: each.clone() for name, each in agent.policy.named_buffers()}  # one update of statistics is enough
    with torch.no_grad():
        errors = (batch.action - torch.func.functional_call(agent.policy, buffers, (batch.obs,)).mean).square()
    return {"bc_loss": float(reduce(errors, -1).mean())}


class TD3PlusBC(TD3, config_class=TD3PlusBCConfig):
    """TD3 with behavioural cloning; the agent is a `pfrl_like.agents.TD3PlusBC`.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the networks cannot be built from the config.
        TypeError: If `device` has the wrong type.
    """

    agent_class = agents.TD3PlusBC
    arguments = {**TD3.arguments, "alpha": "alpha"}

    def metrics_before(self, agent: Any, batch: Batch) -> dict[str, float]:
        return bc_loss(self, agent, batch, torch.mean)


class ReBRAC(TD3, config_class=ReBRACConfig):
    """TD3 whose policy and targets stay near recorded actions; the agent is a `pfrl_like.agents.ReBRAC`.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the networks cannot be built from the config.
        TypeError: If `device` has the wrong type.
    """

    agent_class = agents.ReBRAC
    arguments = {**TD3.arguments, "actor_beta": "actor_beta", "critic_beta": "critic_beta"}

    def metrics_before(self, agent: Any, batch: Batch) -> dict[str, float]:
        return bc_loss(self, agent, batch, torch.sum)


class IQL(ActorCritic, config_class=IQLConfig):
    """Implicit Q-Learning; the agent is a `pfrl_like.agents.IQL` with one optimiser of critics and value function.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the networks cannot be built from the config.
        TypeError: If `device` has the wrong type.
    """

    agent_class = agents.IQL
    arguments = {
        **ActorCritic.arguments, "expectile": "expectile", "weight_temp": "beta", "max_weight": "max_weight",
    }  # fmt: skip
    metrics = {**ActorCritic.metrics, "q_loss": "loss", "v_loss": "v_func_loss"}
    policy_options = {"squashes_samples": False, "min_logstd": -5.0, "max_logstd": 2.0, "has_common_std": True}
    trained_with_critics = ("value_func",)

    def other_networks(self, observation_shape: Shape, action_size: int) -> dict[str, Any]:
        return {"value_func": ValueFunction(*encoder_and_size(self.config.value_encoder_factory, observation_shape), 1)}

    def agent_options(self, policy: Any, others: dict[str, Any]) -> dict[str, Any]:
        return {"v_func": others["value_func"], "v_func_optimizer": None}

    def report(self, error: Tensor, statistics: Mapping[str, Tensor]) -> dict[str, float]:
        metrics = super().report(error, statistics)
        return metrics | {"critic_loss": metrics["q_loss"] + metrics["v_loss"]}


class AWAC(ActorCritic, config_class=AWACConfig):
    """Advantage-Weighted Actor-Critic; the agent is a `pfrl_like.agents.AWAC` with softmax weights.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the networks cannot be built from the config.
        TypeError: If `device` has the wrong type.
    """

    agent_class = agents.AWAC
    arguments = {**ActorCritic.arguments, "lam": "lam", "n_action_samples": "n_action_samples"}
    policy_options = {"squashes_samples": False, "min_logstd": -6.0, "max_logstd": 0.0, "has_common_std": True}

    def agent_options(self, policy: Any, others: dict[str, Any]) -> dict[str, Any]:
        policy.scaler = self.observation_scaler  # before the copy
        return {"weight_type": "softmax", "next_policy": policy.squashed()}

    def parts_of(self, agent: Any) -> dict[str, Any]:
        """Return the temperature, which is constant. d3rlpy reports 0 for it."""
        return {"log_temp": TemperatureHolder().to(self._device)}

    def report(self, error: Tensor, statistics: Mapping[str, Tensor]) -> dict[str, float]:
        return super().report(error, statistics) | {"temp": 0.0, "temp_loss": 0.0}


class CRR(ActorCritic, config_class=CRRConfig):
    """Critic Regularized Regression; the agent is a `pfrl_like.agents.CRR`. d3rlpy ignores `update_actor_interval`.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the networks cannot be built from the config.
        TypeError: If `device` has the wrong type.
    """

    agent_class = agents.CRR
    arguments = {
        **ActorCritic.arguments, "beta": "beta", "n_action_samples": "n_action_samples", "max_weight": "max_weight",
        "advantage_type": "advantage_type", "weight_type": "weight_type",
    }  # fmt: skip
    policy_options = {"squashes_samples": False}
    has_target_policy = True

    def agent_options(self, policy: Any, others: dict[str, Any]) -> dict[str, Any]:
        return {"advantage_critics": "mean", "resample_actions": True}

    def build(self, observation_shape: Shape, action_size: int) -> Implementation:
        check_choice("target_update_type", self.config.target_update_type, ("hard", "soft"))
        implementation = super().build(observation_shape, action_size)
        if self.config.target_update_type == "hard":
            copy_targets_by_interval(implementation.agent, self.config.target_update_interval)
        return implementation
