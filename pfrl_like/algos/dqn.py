"""Estimators of the DQN family."""

from typing import Any, ClassVar

from pfrl_like import agents
from pfrl_like.algos.fitting.networks import QLearning, adam
from pfrl_like.explorers import Greedy


class DQN(QLearning):
    """Deep Q-Network, `pfrl_like.agents.DQN`.

    With `clip_delta=True` an update equals that of d3rlpy 2.8, whose NFQ is `DQN(target_update_interval=1)`. d3rlpy
    updates the target network for the first time after the first update, this estimator after
    `target_update_interval` updates.

    Args:
        learning_rate: Learning rate of the Q-function.
        target_update_interval: Updates between updates of the target network.
        clip_delta: Loss of a TD error: True takes the Huber loss (half the square up to 1, the absolute error less 1/2
            beyond), as d3rlpy's code does from 0.32 to 2.8; False takes half the square, as in the formula of its
            document. The loss is the mean over the minibatch and the sum over the critics. It has no effect unless
            `q_func_type` is "mean": quantiles have the quantile Huber loss.
        kwargs: As `QLearning`.
    """

    agent_class: ClassVar[Any] = agents.DQN
    discrete_action = True
    loss_names = {"value_loss": "loss"}

    learning_rate: float = 6.25e-5
    batch_size = 32
    eps = 1.5e-4
    target_update_interval: float = 8e3
    clip_delta: bool = False

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        q_function = self._q_function(lambda: self._encoder(observation_shape), action_size)
        optimizer = adam(q_function, self.learning_rate, self.eps)
        return self.agent_class(q_function, optimizer, **self._dqn_options())

    def _dqn_options(self) -> dict[str, Any]:
        """Arguments that all agents of the family have."""
        return {
            "gamma": self.gamma, "explorer": Greedy(), "target_update_interval": int(self.target_update_interval),
            "clip_delta": self.clip_delta, **self._common(),
        }  # fmt: skip


class DoubleDQN(DQN):
    """Double DQN, `pfrl_like.agents.DoubleDQN`.

    Args:
        kwargs: As `DQN`.
    """

    agent_class = agents.DoubleDQN


class DiscreteCQL(DoubleDQN):
    """Conservative Q-Learning of discrete actions, `pfrl_like.agents.DiscreteCQL`.

    With `clip_delta=True` an update equals that of d3rlpy 2.8. Here each of several critics has its own conservative
    term, and the terms are added; d3rlpy has one term, of the mean of their values.

    Args:
        alpha: Weight of the conservative term.
        kwargs: As `DQN`.
    """

    agent_class = agents.DiscreteCQL

    alpha: float = 1.0

    def _dqn_options(self) -> dict[str, Any]:
        return {**super()._dqn_options(), "conservative_weight": self.alpha}
