"""Algorithms that learn Q-functions of discrete actions and act greedily."""

from typing import Any, ClassVar

from pfrl_like import agents
from pfrl_like.d3rlpy.algos.configs import DiscreteCQLConfig, DoubleDQNConfig, DQNConfig, NFQConfig
from pfrl_like.d3rlpy.algos.qlearning.base import QLearningAlgoBase
from pfrl_like.d3rlpy.algos.qlearning.parts import Implementation, Parts, build_critics
from pfrl_like.d3rlpy.constants import ActionSpace
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
        q_function = build_critics(self.config, "", observation_shape, action_size, discrete=True)
        q_function.to(self._device)
        optim = self.optimizer("", q_function)
        agent = self.agent_class(
            q_function, optim.optim, ReplayBuffer(None), explorer=Greedy(), clip_delta=True, **self.options()
        )
        agent.delays_first_update = False
        modules = Parts(q_funcs=agent.model.members, targ_q_funcs=agent.target_model.members, optim=optim)
        return Implementation(agent, modules)


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

    agent_class = agents.DoubleDQN


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
