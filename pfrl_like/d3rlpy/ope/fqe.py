"""Fitted Q Evaluation: the value of a policy from recorded data."""

import dataclasses
from typing import Any

import torch
from torch import Tensor, nn

from pfrl_like import agents
from pfrl_like.agents.offline.fitted_q_evaluation import next_action_of
from pfrl_like.batch import Batch
from pfrl_like.d3rlpy.algos.configs import ValueConfig
from pfrl_like.d3rlpy.algos.qlearning import QLearningAlgoBase
from pfrl_like.d3rlpy.algos.qlearning.parts import Implementation, Parts, build_critics
from pfrl_like.d3rlpy.base import DeviceArg
from pfrl_like.d3rlpy.constants import ActionSpace
from pfrl_like.d3rlpy.types import NDArray, Observation, Shape
from pfrl_like.distributions import DeltaVector
from pfrl_like.explorers import Greedy
from pfrl_like.learning.actor_critic import OffPolicyActorCritic
from pfrl_like.learning.critics import min_next_value
from pfrl_like.replay_buffers import ReplayBuffer


@dataclasses.dataclass
class FQEConfig(ValueConfig, type_name="fqe"):
    """Config of Fitted Q Evaluation (arXiv:2007.09055).

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Scaler of continuous actions. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: Ignored, as in d3rlpy.
        learning_rate: Learning rate.
        optim_factory: Factory of the optimiser.
        encoder_factory: Factory of the encoder.
        q_func_factory: Factory of the Q-functions.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
        target_update_interval: Number of updates per copy of the parameters to the target networks.
    """

    batch_size: int = 100
    learning_rate: float = 1e-4
    target_update_interval: int = 100


class FQE(QLearningAlgoBase):
    """Fitted Q Evaluation of an algorithm with continuous actions.

    The agent is an `EvaluationByMinimum`. Targets use the greedy actions of the algorithm, which sees
    observations with its own scalers. `save` writes a file that cannot be loaded again, as in d3rlpy.

    Args:
        algo: Evaluated algorithm. Its networks are built.
        config: Config of the evaluation.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        TypeError: If `algo` is no algorithm of this package, or `device` has the wrong type.
    """

    metrics = {"loss": "loss"}
    arguments = {"target_update_interval": "target_update_interval"}
    critic_optimizer = "optim"

    def __init__(
        self, algo: Any, config: FQEConfig, device: DeviceArg = False, enable_ddp: bool = False, impl: Any = None
    ) -> None:
        super().__init__(config, device, enable_ddp, impl)
        if not hasattr(algo, "greedy_tensor"):
            other = "evaluate estimators and agents with pfrl_like.ope.FQE"
            raise TypeError(f"algo is {type(algo).__name__}, expected an algorithm of pfrl_like.d3rlpy: {other}")
        self._algo = algo

    @property
    def compiled(self) -> bool:
        """False."""
        return False

    @property
    def algo(self) -> Any:
        """Evaluated algorithm."""
        return self._algo

    def get_action_type(self) -> ActionSpace:
        return ActionSpace.CONTINUOUS

    def build(self, observation_shape: Shape, action_size: int) -> Implementation:
        q_func = build_critics(self.config, "", observation_shape, action_size, discrete=False).to(self._device)
        optim = self.optimizer("", q_func)
        agent = EvaluationByMinimum(
            EvaluatedPolicy(self), [q_func], [optim.optim], ReplayBuffer(None), **self.options()
        )
        agent.delays_first_update = False
        return Implementation(
            self, agent, Parts(q_funcs=q_func.members, targ_q_funcs=nn.ModuleList(agent.target_critics), optim=optim)
        )

    def evaluated_actions(self, obs: Any) -> Tensor:
        """Return the greedy actions of the evaluated algorithm, scaled by the scaler of this object.

        Args:
            obs: Observations, as in the dataset.
        """
        actions = self.algo.greedy_tensor(obs)
        scaled: Tensor = actions if self.action_scaler is None else self.action_scaler.transform(actions)
        return scaled

    def save_policy(self, fname: str) -> None:
        self.algo.save_policy(fname)

    def predict(self, x: Observation) -> NDArray:
        actions: NDArray = self.algo.predict(x)
        return actions

    def sample_action(self, x: Observation) -> NDArray:
        actions: NDArray = self.algo.sample_action(x)
        return actions


class DiscreteFQE(FQE):
    """Fitted Q Evaluation of an algorithm with discrete actions. The agent is a `pfrl_like.agents.DQN`.

    The next actions of its targets are the greedy actions of the evaluated algorithm.

    Args:
        algo: Evaluated algorithm. Its networks are built.
        config: Config of the evaluation.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the config has an `action_scaler`.
        TypeError: If `algo` is no algorithm of this package, or `device` has the wrong type.
    """

    def get_action_type(self) -> ActionSpace:
        return ActionSpace.DISCRETE

    def build(self, observation_shape: Shape, action_size: int) -> Implementation:
        q_func = build_critics(self.config, "", observation_shape, action_size, discrete=True).to(self._device)
        optim = self.optimizer("", q_func)
        agent: Any = agents.DQN(q_func, optim.optim, ReplayBuffer(None), explorer=Greedy(), **self.options())
        agent.next_action = self._next_action
        agent.delays_first_update = False
        return Implementation(
            self, agent, Parts(q_funcs=q_func.members, targ_q_funcs=agent.target_model.members, optim=optim)
        )

    def _next_action(self, q_function: Any, batch: Batch) -> Tensor:
        return self.evaluated_actions(batch.next_obs)


class EvaluationByMinimum(agents.FittedQEvaluation):
    """Fitted Q evaluation whose critics have one target, the minimum over the target critics."""

    def critic_losses(self, batch: Batch) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Return one result of `critic_loss` per critic."""
        return [*OffPolicyActorCritic.critic_losses(self, batch)]

    def bootstrap(self, batch: Batch) -> tuple[Any, Tensor]:
        """Return the minimum of the target critics' values of the policy's next actions, and the rewards, [N]."""
        action = next_action_of(self.policy, batch, deterministic=True)
        return min_next_value(self.target_critics, batch, action), batch.reward


class EvaluatedPolicy(nn.Module):
    """Policy of the algorithm that a `FQE` evaluates. It has no parameters of its own.

    Args:
        fqe: The evaluation.
    """

    def __init__(self, fqe: FQE) -> None:
        super().__init__()
        self._act = fqe.evaluated_actions

    def forward(self, obs: Any) -> DeltaVector:
        """Return distributions without variance."""
        with torch.no_grad():
            return DeltaVector(self._act(obs))
