"""Algorithms that imitate recorded actions."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from pfrl_like import agents
from pfrl_like.d3rlpy.algos.configs import BCConfig, DiscreteBCConfig
from pfrl_like.d3rlpy.algos.qlearning.base import QLearningAlgoBase
from pfrl_like.d3rlpy.algos.qlearning.parts import Implementation, Parts
from pfrl_like.d3rlpy.constants import ActionSpace
from pfrl_like.d3rlpy.models.heads import encoder_and_size
from pfrl_like.d3rlpy.models.policies import CategoricalPolicy, DeterministicPolicy, GaussianPolicy
from pfrl_like.d3rlpy.types import Shape
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.utils.checks import check_choice


class BC(QLearningAlgoBase, config_class=BCConfig):
    """Behavioural cloning; the agent is a `pfrl_like.agents.BC`.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the networks cannot be built from the config.
        TypeError: If `device` has the wrong type.
    """

    metrics = {"loss": "loss"}
    policy_parts = ("imitator", "optim")
    agent_class: ClassVar[Any] = agents.BC

    def get_action_type(self) -> ActionSpace:
        return ActionSpace.CONTINUOUS

    def build(self, observation_shape: Shape, action_size: int) -> Implementation:
        imitator = self._imitator(observation_shape, action_size).to(self._device)
        optim = self.optimizer("", imitator)
        options = self.options() | self._loss_options()
        del options["gamma"]
        return Implementation(
            self,
            self.agent_class(imitator, optim.optim, ReplayBuffer(None), **options),
            Parts(optim=optim, imitator=imitator),
        )

    def _imitator(self, observation_shape: Shape, action_size: int) -> Any:
        check_choice("policy_type", self.config.policy_type, ("deterministic", "stochastic"))
        parts = (*encoder_and_size(self.config.encoder_factory, observation_shape), action_size)
        if self.config.policy_type == "deterministic":
            return DeterministicPolicy(*parts)
        return GaussianPolicy(*parts, squashes_samples=False, min_logstd=-4.0, max_logstd=15.0)

    def _loss_options(self) -> dict[str, Any]:
        return {"squared_error": self.config.policy_type == "stochastic"}


class DiscreteBC(BC, config_class=DiscreteBCConfig):
    """Behavioural cloning of discrete actions; the agent is a `pfrl_like.agents.DiscreteBC`.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the config has an `action_scaler`.
        TypeError: If `device` has the wrong type.
    """

    agent_class = agents.DiscreteBC
    arguments = {"beta": "beta"}

    def get_action_type(self) -> ActionSpace:
        return ActionSpace.DISCRETE

    def _imitator(self, observation_shape: Shape, action_size: int) -> Any:
        return CategoricalPolicy(*encoder_and_size(self.config.encoder_factory, observation_shape), action_size)

    def _loss_options(self) -> dict[str, Any]:
        return {}

    def report(self, error: Tensor, statistics: Mapping[str, Tensor]) -> dict[str, float]:
        loss, imitation = float(statistics["loss"]), float(error.mean())
        return {"loss": loss, "imitation_loss": imitation, "regularization_loss": loss - imitation}
