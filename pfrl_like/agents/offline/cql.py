"""Conservative Q-Learning (Kumar et al. 2020, arXiv:2006.04779); Cal-QL (Nakamoto et al. 2023, arXiv:2303.05479)."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.agents.double_dqn import DoubleDQN
from pfrl_like.agents.offline.future_returns import check_tells_future, future_returns
from pfrl_like.agents.soft_actor_critic import SoftActorCritic
from pfrl_like.batch import Batch, batch_of_states
from pfrl_like.functions.losses import square, weighted_mean
from pfrl_like.learning.compatibility.parts import check_numbers_in
from pfrl_like.learning.compatibility.spaces import Bounds
from pfrl_like.learning.critics import (
    average,
    critic_loss,
    distribution_of,
    least_value,
    mean_value,
    values_of_actions,
)
from pfrl_like.learning.lagrange import LagrangeMultiplier
from pfrl_like.optimizers.compiled_step import Step
from pfrl_like.utils.checks import check_counts, constructor_only
from pfrl_like.utils.contexts import evaluating_readers


@torch.no_grad()
def conservative_actions(policy: Any, batch: Batch, n: int) -> tuple[Tensor, Tensor]:
    """Actions under which critics should not be optimistic (arXiv:2006.04779, appendix F).

    Args:
        policy: The policy.
        batch: Transitions or sequences.
        n: Actions of each kind.

    Returns:
        n of the policy, n of the policy in the next state and n that are uniform in [-1, 1], for each row,
        [3 * n, N, ...], and the logarithms of their densities, [3 * n, N].
    """
    distributions = distribution_of(policy, batch), distribution_of(policy, batch, next=True)
    drawn = [distribution.sample((n,)) for distribution in distributions]
    density = [distribution.log_prob(action) for distribution, action in zip(distributions, drawn, strict=True)]
    uniform = 2 * torch.rand_like(drawn[0]) - 1
    of_uniform = torch.full_like(density[0], -math.log(2) * uniform[0, 0].numel())
    return torch.cat([*drawn, uniform]), torch.cat([*density, of_uniform])


def conservative_gap(values: Tensor, log_density: Tensor, data_value: Tensor) -> Tensor:
    """By how much actions drawn are valued above those of the data, [N] (arXiv:2006.04779, eq. 4 and appendix F).

    log sum exp(Q(s, a) - log density(a)) - Q(s, a of the data). It is a sum over the draws, not a mean, as thresholds
    are usually given for it; the two differ by a constant.

    Args:
        values: Of the actions drawn, [M, N].
        log_density: Of the same under what they were drawn from, [M, N].
        data_value: Of the data's actions, [N].
    """
    return torch.logsumexp(values - log_density, 0) - data_value


@constructor_only("initial_alpha", "alpha_holder", "alpha_optimizer")
class CQL(SoftActorCritic):
    """Conservative Q-Learning, CQL(H): Soft Actor-Critic whose critics are held from valuing unseen actions highly.

    Actions that the critics are compared on are drawn from the policy and uniformly from [-1, 1]. The term stands
    beside the squares of the critics' errors, not their halves as in the paper's equation, since so do the weights that
    the authors and others give for it.

    Args:
        args: As `SoftActorCritic`.
        conservative_weight: Factor of the gap between the values of actions drawn and those of the data.
        alpha_threshold: At which `conservative_weight` times the gap is held, by learning the weight alpha of the term;
            None keeps alpha.
        initial_alpha: First alpha, positive; the only one without an `alpha_threshold`, when it may be 0.
        alpha_optimizer_lr: Learning rate of alpha's Adam; None for Adam's own default.
        n_action_samples: Actions drawn for each row of each kind: of the policy, of it in the next state, uniform.
        soft_q_backup: Whether the critics' targets hold the next state's entropy, as those of Soft Actor-Critic do; the
            policy is rewarded for its entropy either way.
        kwargs: As `SoftActorCritic`.

    Raises:
        ValueError: On values outside those named here, and as `SoftActorCritic`.
        TypeError: As `SoftActorCritic`.
    """

    averaged_rows = (*SoftActorCritic.averaged_rows, "conservative_gap")
    reported = (*SoftActorCritic.reported, "average_conservative_gap", "alpha")
    elementwise = staticmethod(square)
    is_offline = True

    def __init__(
        self,
        *args: Any,
        conservative_weight: float = 1.0,
        alpha_threshold: float | None = 10.0,
        initial_alpha: float = 5.0,
        alpha_optimizer_lr: float | None = 3e-4,
        n_action_samples: int = 10,
        soft_q_backup: bool = True,
        **kwargs: Any,
    ) -> None:
        check_counts(n_action_samples=n_action_samples)
        self.n_action_samples, self.conservative_weight = n_action_samples, conservative_weight
        self.soft_q_backup = soft_q_backup
        check_numbers_in(self, conservative_weight=(0, None))
        self.initial_alpha, self.alpha_threshold = initial_alpha, alpha_threshold
        self.alpha_optimizer_lr = alpha_optimizer_lr
        super().__init__(*args, **kwargs)

    def make_multipliers(self) -> list[LagrangeMultiplier]:
        """Temperature and alpha."""
        lr = self.alpha_optimizer_lr
        alpha = LagrangeMultiplier("alpha", self.initial_alpha, "alpha_threshold", self.alpha_threshold, lr)
        return [*super().make_multipliers(), alpha]

    @property
    def alpha(self) -> float:
        """Weight of the conservative term."""
        return float(self.multipliers["alpha"]())

    def bootstrap(self, batch: Batch) -> tuple[Any, Tensor]:
        """As of `SoftActorCritic`, or with the rewards as they are."""
        next_value, soft = super().bootstrap(batch)
        return next_value, soft if self.soft_q_backup else batch.reward

    def critic_losses(self, batch: Batch) -> Iterable[tuple[Tensor, Tensor, Tensor]]:
        """Those of Soft Actor-Critic with the conservative term."""
        return (found for found, _ in self.conservative_losses(batch))

    def critics_step(
        self, batch: Batch, step: Step
    ) -> tuple[Sequence[tuple[Tensor, Tensor, Tensor]], dict[str, Tensor]]:
        """Descend on the critics' losses, and on alpha's, which is `temperature_loss` of the mean gap."""
        gaps = []

        def losses() -> Iterator[tuple[Tensor, Tensor, Tensor]]:
            for found, gap in self.conservative_losses(batch):
                gaps.append(gap.detach())
                yield found

        found = self.step_critics(losses(), step)
        gap = average(gaps)
        self.multipliers["alpha"].update(
            step, gap, -(self.alpha_threshold or 0.0), batch.weight, self.batch_accumulator
        )
        return found, {"conservative_gap": gap}

    def conservative_losses(self, batch: Batch) -> Iterator[tuple[tuple[Tensor, Tensor, Tensor], Tensor]]:
        """Of each critic what `critic_loss` gives, with the conservative term in it, and the weighted gap, [N]."""
        with torch.no_grad():
            next_value, reward = self.bootstrap(batch)
        with evaluating_readers(self.policy):
            actions, log_density = conservative_actions(self.policy, batch, self.n_action_samples)
        alpha = self.multipliers["alpha"]()
        for critic, rows in zip(self.critics, self.rows_of_critics(batch), strict=True):
            value = self.value_of(critic, batch)
            loss, td_error, mean = critic_loss(value, rows, next_value, reward, **self.loss_options)
            values = self.compared_values(values_of_actions(critic, batch, actions), batch)
            gap = self.conservative_weight * self.gap(values, log_density, mean_value(value), batch)
            loss = loss + alpha * weighted_mean(gap, rows.weight, self.batch_accumulator)
            yield (loss, td_error, mean), gap

    def compared_values(self, values: Tensor, batch: Batch) -> Tensor:
        """Values of the actions drawn, [3 * n_action_samples, N], as the conservative term takes them."""
        return values

    def gap(self, values: Tensor, log_density: Tensor, data_value: Tensor, batch: Batch) -> Tensor:
        """`conservative_gap`, which also describes the arguments; its mean over the batch is held down."""
        return conservative_gap(values, log_density, data_value)

    def bounds_of_actions(self, distribution: Distribution) -> dict[str, Bounds | None]:
        """As of `SoftActorCritic`, with those of the uniform actions."""
        return {**super().bounds_of_actions(distribution), "uniform actions of CQL": (-1.0, 1.0)}


def discrete_conservative_gap(value: Any, action: Tensor) -> Tensor:
    """The soft maximum log sum exp Q(s, .) less Q(s, a), [N] (arXiv:2006.04779, eq. 4), of what is allowed.

    Args:
        value: A `DiscreteActionValue` of the states, of any form; of an ensemble the gaps of all are added up.
        action: The data's actions, [N].
    """
    gaps = [
        each.without_forbidden(each.q_values).logsumexp(1) - each.evaluate_actions(action)
        for each in getattr(value, "members", [value])
    ]
    return torch.stack(gaps).sum(0) if len(gaps) > 1 else gaps[0]


class DiscreteCQL(DoubleDQN):
    """Conservative Q-Learning for discrete actions: Double DQN held from valuing unseen actions highly.

    Args:
        args: As `DQN`; the Q-function gives a `DiscreteActionValue` of any form.
        conservative_weight: Factor of the gap between the soft maximum and the value of the data's action.
        kwargs: As `DQN`.

    Raises:
        ValueError: If `conservative_weight` is negative, and as `DQN`.
        TypeError: As `DQN`.
    """

    value_type = DiscreteActionValue
    is_offline = True

    def __init__(self, *args: Any, conservative_weight: float = 1.0, **kwargs: Any) -> None:
        self.conservative_weight = conservative_weight
        check_numbers_in(self, conservative_weight=(0, None))
        super().__init__(*args, **kwargs)

    def penalty(self, value: Any, batch: Batch) -> Tensor:
        """`conservative_weight` times `discrete_conservative_gap`."""
        return self.conservative_weight * discrete_conservative_gap(value, batch.action)


class CalQL(CQL):
    """Conservative Q-Learning that pushes no value below the return that was had, so that learning goes on online.

    Where the conservative term lowers values of the policy's actions it counts those as at least the return from the
    row's state on, of the recorded actions (arXiv:2303.05479, eq. 5.1). An episode that was cut off, or still runs,
    goes on with the least value of the critics' targets there.

    Beside d3rlpy 2.8 the losses differ as the estimator `pfrl_like.algos.CQL` says. Its returns end without a value
    where an episode was cut off.

    Batches for `update` need the steps after their own, `sample_batch(..., continuation=math.inf)`; runners and the
    replay buffer are asked for them. There is no recurrent form.

    Args:
        args: As `CQL`.
        horizon: Steps after which a return goes on with the targets' value, at least; None for the end of the episode.
        kwargs: As `CQL`.

    Raises:
        ValueError: As `CQL`.
        TypeError: As `CQL`, and on a replay buffer that cannot tell what came after a step.
    """

    may_be_recurrent = False

    def __init__(self, *args: Any, horizon: int | None = None, **kwargs: Any) -> None:
        check_counts(optional=True, horizon=horizon)
        self.horizon = horizon
        self.sampling = {"continuation": math.inf if horizon is None else horizon}
        super().__init__(*args, **kwargs)

    def check_modules(self, modules: Mapping[str, nn.Module]) -> None:
        """As of `CQL`; a replay buffer that cannot tell what came after a step is refused as well."""
        super().check_modules(modules)
        check_tells_future(self.replay_buffer)

    def learn(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """As of `CQL`, with the returns."""
        with evaluating_readers(self.policy):
            returns = future_returns(batch, self.target_value, 1.0)
        return super().learn(batch.replace(returns=returns, continuation=None))

    def target_value(self, obs: Any) -> Tensor:
        """Least value, under the critics' targets, of an action of the policy, [n]."""
        states = batch_of_states(obs)
        return least_value(self.target_critics, states, distribution_of(self.policy, states).sample())

    def compared_values(self, values: Tensor, batch: Batch) -> Tensor:
        """Those of the policy's actions are at least the returns; of uniform actions they stay."""
        (returns,) = batch.required("returns")
        of_policy = 2 * self.n_action_samples
        return torch.cat([torch.maximum(values[:of_policy], returns), values[of_policy:]])
