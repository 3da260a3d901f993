"""Estimators that choose among actions like the recorded ones."""

from typing import Any, ClassVar, NoReturn

from torch import Tensor, nn

from pfrl_like import agents
from pfrl_like.algos.dqn import DoubleDQN
from pfrl_like.algos.networks import adam, categorical_policy
from pfrl_like.algos.q_learning import ActorCritic
from pfrl_like.batch import Batch
from pfrl_like.nn import ConditionalVAE


class ImitatingActorCritic(ActorCritic):
    """Base of actor-critics that keep to a model of the recorded actions, which may learn first.

    Args:
        imitator_learning_rate: Of the model.
        lam: Weight of the least critic in the targets, where the largest has 1 - lam.
        n_action_samples: Actions that are drawn of the model.
        update_actor_interval: Updates of the critics for each one of the policy.
        rl_start_epoch: Epoch from which policy and critics learn, too.
        kwargs: As `ActorCritic`.
    """

    loss_names: ClassVar[Any] = {**ActorCritic.loss_names, "imitator_loss": "imitator_loss"}

    imitator_learning_rate: float = 1e-3
    lam: float = 0.75
    n_action_samples: int = 100
    update_actor_interval: int = 1
    rl_start_epoch: int = 0

    def _learn(self, epoch: int, total_step: int, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        starts = epoch >= self.rl_start_epoch
        self._agent.rl_start_step = 0 if starts else float("inf")
        td_error, losses = super()._learn(epoch, total_step, batch)
        return td_error, losses if starts else {"imitator_loss": losses["imitator_loss"]}

    def _imitator(self, observation_shape: tuple[int, ...], action_size: int) -> nn.Module:
        """The model of the recorded actions."""
        raise NotImplementedError(f"{type(self).__name__} has no model of the recorded actions")

    def _imitating(self, agent_class: Any, policy: nn.Module, shape: tuple[int, ...], size: int, **options: Any) -> Any:
        imitator = self._imitator(shape, size)
        return self._actor_critic(
            agent_class, policy, self._critics(shape, size), imitator=imitator,
            imitator_optimizer=adam(imitator, self.imitator_learning_rate, self.eps), lam=self.lam,
            n_action_samples=self.n_action_samples, policy_update_delay=self.update_actor_interval, **options,
        )  # fmt: skip


class BCQ(ImitatingActorCritic):
    """Batch-Constrained deep Q-learning, `pfrl_like.agents.BCQ`; predictions are drawn anew each time.

    Args:
        action_flexibility: How far drawn actions may be perturbed.
        latent_size: Numbers of the model's latent vector.
        beta: Weight of the divergence in the model's loss.
        kwargs: As `ImitatingActorCritic`.
    """

    actor_learning_rate = 1e-3
    critic_learning_rate = 1e-3
    action_flexibility: float = 0.05
    latent_size: int = 32
    beta: float = 0.5

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        perturbation = self._to_actions(observation_shape, action_size, action_size)
        return self._imitating(
            agents.BCQ, perturbation, observation_shape, action_size,
            action_flexibility=self.action_flexibility, beta=self.beta,
        )  # fmt: skip

    def _imitator(self, observation_shape: tuple[int, ...], action_size: int) -> nn.Module:
        encoder = self._encoder(observation_shape, action_size)
        to_latent = nn.Sequential(encoder, nn.Linear(encoder.feature_size, 2 * self.latent_size))
        decoder = self._to_actions(observation_shape, self.latent_size, action_size)
        return ConditionalVAE(to_latent, decoder, self.latent_size)

    def _to_actions(self, observation_shape: tuple[int, ...], size: int, action_size: int) -> nn.Module:
        """From pairs of observation and a vector to numbers in [-1, 1] like an action's."""
        encoder = self._encoder(observation_shape, size)
        return nn.Sequential(encoder, nn.Linear(encoder.feature_size, action_size), nn.Tanh())

    def sample_action(self, x: Any) -> NoReturn:
        """Refuse: `predict` draws already.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(f"{type(self).__name__} has no other actions than those of predict")


class DiscreteBCQ(DoubleDQN):
    """Batch-Constrained deep Q-learning of discrete actions, `pfrl_like.agents.DiscreteBCQ`.

    Args:
        action_flexibility: Actions of less than this share of the likeliest one's probability are left out.
        beta: Weight of the mean squared logits in the loss of the model of recorded actions.
        kwargs: As `DQN`.
    """

    loss_names = {"loss": "loss", "imitator_loss": "imitator_loss"}

    action_flexibility: float = 0.3
    beta: float = 0.5

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        q_function = self._q_function(lambda: self._encoder(observation_shape), action_size)
        imitator = categorical_policy(self._encoder(observation_shape), action_size)
        optimizer = adam(nn.ModuleList([q_function, imitator]), self.learning_rate, self.eps)
        return agents.DiscreteBCQ(
            q_function, optimizer, imitator=imitator, action_flexibility=self.action_flexibility, beta=self.beta,
            **self._dqn_options(),
        )  # fmt: skip
