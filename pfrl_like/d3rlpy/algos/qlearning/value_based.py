"""Algorithms that learn Q-functions of discrete actions and act greedily."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from pfrl_like import agents
from pfrl_like.agents.offline.cql import pooled_conservative_gap
from pfrl_like.d3rlpy.algos.configs import DiscreteBCQConfig, DiscreteCQLConfig, DoubleDQNConfig, DQNConfig, NFQConfig
from pfrl_like.d3rlpy.algos.qlearning.base import QLearningAlgoBase
from pfrl_like.d3rlpy.algos.qlearning.parts import Implementation, Parts, build_critics
from pfrl_like.d3rlpy.constants import ActionSpace
from pfrl_like.d3rlpy.models.heads import encoder_and_size
from pfrl_like.d3rlpy.models.policies import CategoricalPolicy
from pfrl_like.d3rlpy.types import Shape
from pfrl_like.explorers import Greedy
from pfrl_like.replay_buffers import ReplayBuffer


class DQN(QLearningAlgoBase, config_class=DQNConfig):
    """Deep Q-Network; the agent is a `pfrl_like.agents.DQN`.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the config has an `action_scaler`.
        TypeError: If `device` has the wrong type.
    """

    metrics = {"loss": "loss"}
    arguments = {"target_update_interval": "target_update_interval"}
    critic_optimizer = "optim"
    agent_class: ClassVar[Any] = agents.DQN

    def get_action_type(self) -> ActionSpace:
        return ActionSpace.DISCRETE

    def build(self, observation_shape: Shape, action_size: int) -> Implementation:
        q_function = build_critics(self.config, "", observation_shape, action_size, discrete=True).to(self._device)
        others = self.other_networks(q_function, observation_shape, action_size)
        optim = self.optimizer("", q_function, *others.values())
        options = self.options() | self.agent_options(others)
        agent = self.agent_class(q_function, optim.optim, ReplayBuffer(None), explorer=Greedy(), **options)
        agent.delays_first_update = False
        modules = Parts(q_funcs=agent.model.members, targ_q_funcs=agent.target_model.members, optim=optim, **others)
        return Implementation(self, agent, modules)

    def other_networks(self, q_function: Any, observation_shape: Shape, action_size: int) -> dict[str, Any]:
        """Return further networks, which the optimiser trains as well, keyed by d3rlpy's names."""
        return {}

    def agent_options(self, others: dict[str, Any]) -> dict[str, Any]:
        """Return the agent's arguments that are no fields of the config. `others` is that of `other_networks`."""
        return {"clip_delta": True}


class DoubleDQN(DQN, config_class=DoubleDQNConfig):
    """Double DQN; the agent is a `pfrl_like.agents.DoubleDQN`.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the config has an `action_scaler`.
        TypeError: If `device` has the wrong type.
    """

    agent_class: ClassVar[Any] = agents.DoubleDQN


class NFQ(DQN, config_class=NFQConfig):
    """Neural Fitted Q-Iteration: DQN whose targets are computed with the current parameters.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the config has an `action_scaler`.
        TypeError: If `device` has the wrong type.
    """

    arguments = {}

    def options(self) -> dict[str, Any]:
        return {**super().options(), "target_update_interval": 1}


class DiscreteCQL(DoubleDQN, config_class=DiscreteCQLConfig):
    """Conservative Q-Learning for discrete actions; the agent is a `pfrl_like.agents.DiscreteCQL`.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the config has an `action_scaler`.
        TypeError: If `device` has the wrong type.
    """

    agent_class = agents.DiscreteCQL
    arguments = {**DQN.arguments, "alpha": "conservative_weight"}

    def agent_options(self, others: dict[str, Any]) -> dict[str, Any]:
        return {**super().agent_options(others), "gap": self._gap}

    def _gap(self, value: Any, action: Tensor) -> Tensor:
        gap = pooled_conservative_gap(value, action)
        self._last_gap = gap.detach().mean()
        return gap

    def report(self, error: Tensor, statistics: Mapping[str, Tensor]) -> dict[str, float]:
        if self.compiled:  # a compiled update does not store the gap
            return {"loss": float(statistics["loss"])}
        loss, gap = float(statistics["loss"]), float(self._last_gap)
        return {"loss": loss, "td_loss": loss - self.config.alpha * gap, "conservative_loss": gap}


class DiscreteBCQ(DoubleDQN, config_class=DiscreteBCQConfig):
    """Batch-Constrained Q-Learning for discrete actions; the agent is a `pfrl_like.agents.DiscreteBCQ`.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the networks cannot be built from the config.
        TypeError: If `device` has the wrong type.
    """

    agent_class = agents.DiscreteBCQ
    arguments = {**DQN.arguments, "action_flexibility": "action_flexibility", "beta": "beta"}

    def other_networks(self, q_function: Any, observation_shape: Shape, action_size: int) -> dict[str, Any]:
        """Return the imitator. With `share_encoder`, it has the encoder of the first Q-function."""
        encoder, n_features = encoder_and_size(self.config.encoder_factory, observation_shape)
        if self.config.share_encoder:
            encoder = q_function.members[0]._encoder
        return {"imitator": CategoricalPolicy(encoder, n_features, action_size).to(self._device)}

    def agent_options(self, others: dict[str, Any]) -> dict[str, Any]:
        return {**super().agent_options(others), **others}

    def report(self, error: Tensor, statistics: Mapping[str, Tensor]) -> dict[str, float]:
        loss, imitation = float(statistics["loss"]), float(statistics["imitator_loss"])
        return {"loss": loss, "td_loss": loss - imitation, "imitator_loss": imitation}
