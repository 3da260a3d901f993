"""Estimators of behavioural cloning."""

from typing import Any, ClassVar, NoReturn

from torch import nn

from pfrl_like import agents
from pfrl_like.algos.fitting.base import Estimator
from pfrl_like.algos.fitting.networks import adam, categorical_policy, deterministic_policy


class BC(Estimator):
    """Behavioural cloning of continuous actions by the squared error, `pfrl_like.agents.BC`.

    An update equals that of d3rlpy 2.8 with its deterministic policy.

    Args:
        learning_rate: Learning rate of the policy.
        eps: Epsilon of Adam.
        kwargs: As `Estimator`.
    """

    loss_names: ClassVar[Any] = {"loss": "loss"}

    learning_rate: float = 1e-3
    eps: float = 1e-8

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        policy = deterministic_policy(self._encoder(observation_shape), action_size)
        return agents.BC(policy, self._optimizer(policy), **self._common())

    def _optimizer(self, policy: nn.Module) -> Any:
        return adam(policy, self.learning_rate, self.eps)

    def predict_value(self, x: Any, action: Any, with_std: bool = False) -> NoReturn:
        """Raise an error: behavioural cloning learns no values.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(f"{type(self).__name__} learns a policy only, which has no values")

    def sample_action(self, x: Any, *, action_mask: Any = None) -> NoReturn:
        """Raise an error: one action is learnt for each state, and `predict` returns it.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(f"{type(self).__name__} has nothing to draw from: use predict")


class DiscreteBC(BC):
    """Behavioural cloning of discrete actions by their likelihood, `pfrl_like.agents.DiscreteBC`.

    `beta` is the weight of the squared outputs of the last layer; in d3rlpy 2.8 it is that of the squared
    log-probabilities.

    Args:
        beta: Weight of the mean squared logits in the loss.
        kwargs: As `BC`.
    """

    discrete_action = True

    beta: float = 0.5

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        policy = categorical_policy(self._encoder(observation_shape), action_size)
        return agents.DiscreteBC(policy, self._optimizer(policy), beta=self.beta, **self._common())
