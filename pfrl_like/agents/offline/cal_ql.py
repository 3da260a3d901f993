"""Calibrated Q-learning (Nakamoto et al. 2023, arXiv:2303.05479)."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from pfrl_like.agents.offline.cql import CQL
from pfrl_like.agents.offline.future_returns import check_tells_future, future_returns
from pfrl_like.batch import Batch, batch_of_states
from pfrl_like.learning.critics import distribution_of, least_value
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.contexts import evaluating_readers


class CalQL(CQL):
    """Conservative Q-Learning that pushes no value below the return that was had, so that learning goes on online.

    Where the conservative term lowers values of the policy's actions it counts those as at least the return from the
    row's state on, of the recorded actions (arXiv:2303.05479, eq. 5.1). An episode that was cut off, or still runs,
    goes on with the least value of the critics' targets there.

    Beside d3rlpy 2.8 the losses differ as the estimator `pfrl_like.algos.CQL` says. Its returns end without a value
    where an episode was cut off.

    Batches for `update` need the steps after their own, `sample_batch(..., future=math.inf)`; runners and the replay
    buffer are asked for them. There is no recurrent form.

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
        self.sampling = {"future": math.inf if horizon is None else horizon}
        super().__init__(*args, **kwargs)

    def check_declared(self, modules: Mapping[str, nn.Module]) -> None:
        """As of `CQL`; a replay buffer that cannot tell what came after a step is refused as well."""
        super().check_declared(modules)
        check_tells_future(self.replay_buffer)

    def learn(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """As of `CQL`, with the returns."""
        with evaluating_readers(self.policy):
            returns = future_returns(batch, self.target_value, 1.0)
        return super().learn(batch.replace(returns=returns, future=None))

    def target_value(self, obs: Any) -> Tensor:
        """Least value, under the critics' targets, of an action of the policy, [n]."""
        states = batch_of_states(obs)
        return least_value(self.target_critics, states, distribution_of(self.policy, states).sample())

    def compared_values(self, values: Tensor, batch: Batch) -> Tensor:
        """Those of the policy's actions are at least the returns; of uniform actions they stay."""
        (returns,) = batch.required("returns")
        of_policy = 2 * self.n_action_samples
        return torch.cat([torch.maximum(values[:of_policy], returns), values[of_policy:]])
