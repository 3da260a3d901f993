"""Transitions that are imagined with a model, and minibatches in which they stand beside recorded ones."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.agents.combo import IMAGINED
from pfrl_like.agents.policy_acting import samples_its_policy
from pfrl_like.batch import Batch, concatenate_batches
from pfrl_like.dynamics.dynamics_model import DynamicsModel
from pfrl_like.utils.checks import check_counts, check_numbers
from pfrl_like.utils.contexts import evaluating_readers

#: Tells of observations, actions and next observations, [B, ...], which of the latter are terminal, [B], bool.
Terminated = Callable[[Tensor, Tensor, Tensor], Tensor]


def imagine(
    model: DynamicsModel,
    obs: Tensor,
    choose: Callable[[Tensor], Tensor],
    horizon: int,
    lam: float = 0.0,
    terminated: Terminated | None = None,
) -> Iterator[Batch]:
    """Go on from some observations, step by step (arXiv:2005.13239, algorithm 2).

    Args:
        model: The model.
        obs: Where to begin, [B, n].
        choose: Gives the actions, [B, ...], for observations.
        horizon: For how many steps.
        lam: By how many variances of the prediction the rewards are less.
        terminated: Tells which states are terminal, in which nothing is gone on from; None for none.

    Yields:
        The transitions of a step, with discount 1, or 0 where they end in a terminal state.
    """
    for _ in range(horizon):
        action = choose(obs)
        step = model.sample(obs, action)
        reward = step.reward - lam * step.variance
        goes_on = torch.ones_like(reward, dtype=torch.bool)
        if terminated is not None:
            goes_on = ~terminated(obs, action, step.next_obs)
        yield Batch(obs, action, reward, step.next_obs, discount=goes_on.float())
        obs = step.next_obs if terminated is None else step.next_obs[goes_on]
        if not len(obs):
            return


def check_rollouts(n_transitions: int, horizon: int, lam: float) -> None:
    """Refuse numbers by which nothing can be imagined.

    Raises:
        ValueError: If one is out of range.
        TypeError: If a count is no integer, or `lam` no number.
    """
    check_counts(n_transitions=n_transitions, horizon=horizon)
    check_numbers(0, lam=lam)


def check_sides(dataset: Any, agent: Any, model: Any) -> None:
    """Refuse an agent that cannot learn from imagined transitions, priorities, which these have not, and no model.

    Raises:
        TypeError: Naming the argument.
    """
    if not hasattr(dataset, "sample_batch"):
        raise TypeError(
            f"dataset is a {type(dataset).__name__}, expected something with sample_batch; MDPDataset.from_episodes "
            "makes a dataset of a list of episodes"
        )
    if not hasattr(model, "sample"):
        raise TypeError(
            f"model is a {type(model).__name__}, expected a DynamicsModel, such as the `impl` of a MOPO that is fitted"
        )
    needed = ["sequences"] * getattr(agent, "learns_from_sequences", False) + [*getattr(agent, "sampling", {})]
    if needed:
        raise TypeError(
            f"agent is a {type(agent).__name__}, which learns from {', '.join(needed)}, but what is imagined is single "
            "transitions: use another agent, such as COMBO"
        )
    if getattr(dataset, "prioritized", False):
        raise TypeError(
            f"dataset is a {type(dataset).__name__}, which draws by priorities, but imagined transitions have none: "
            "use one that draws uniformly"
        )


class ModelRollouts:
    """Minibatches of recorded transitions and of ones that are imagined with an agent's policy.

    It stands in the place of a dataset where an agent is trained (`train_agent_offline`). Imagined rows are marked in
    `Batch.extra`, which `pfrl_like.agents.COMBO` looks at; with a `lam` others learn from them as in MOPO.

    Args:
        dataset: Anything with `sample_batch(n, gamma, device)`: an `MDPDataset`, or a replay buffer that draws
            uniformly.
        model: A model that has been learnt, such as `MOPO.impl`.
        agent: The agent; one that learns from single transitions, and needs to know nothing of those after them.
        real_ratio: Share of recorded transitions in a minibatch, between 0 and 1.
        n_transitions: How many recorded observations are gone on from; at most as many as there are.
        horizon: For how many steps.
        interval: Minibatches after which that is done anew.
        kept: How many times' transitions are kept.
        lam: By how many variances of the prediction the rewards are less.
        terminated: Tells of observations, actions and next observations, tensors [B, ...], which of the latter are
            terminal, bool [B]; None for none.

    Raises:
        ValueError: On numbers out of range.
        TypeError: On what should be a number or an integer, and on a dataset, a model or an agent of another kind.
    """

    def __init__(
        self,
        dataset: Any,
        model: DynamicsModel,
        agent: Any,
        *,
        real_ratio: float = 0.5,
        n_transitions: int = 400,
        horizon: int = 5,
        interval: int = 1000,
        kept: int = 5,
        lam: float = 0.0,
        terminated: Terminated | None = None,
    ) -> None:
        check_rollouts(n_transitions, horizon, lam)
        check_counts(interval=interval, kept=kept)
        check_numbers(0, 1, between=True, real_ratio=real_ratio)
        check_sides(dataset, agent, model)
        self.dataset, self.model, self.agent = dataset, model, agent
        self.real_ratio, self.n_transitions, self.horizon, self.interval = real_ratio, n_transitions, horizon, interval
        self.lam, self.terminated = lam, terminated
        self._rollouts: deque[Batch] = deque(maxlen=kept)
        self._imagined: Batch | None = None
        self._count = 0

    def sample_batch(self, n: int, gamma: float = 1.0, device: torch.device | str = "cpu", **options: Any) -> Batch:
        """Draw recorded transitions, and with replacement imagined ones, which come last.

        Args:
            n: How many; at least 2.
            gamma: Discount factor per step.
            device: Where the tensors go.
            options: Further arguments of the dataset's `sample_batch`; columns that imagined transitions do not have
                are left out.

        Raises:
            ValueError: If there are not as many recorded transitions, or `n` is less than 2.
        """
        check_counts(least=2, n=n)
        if self._count % self.interval == 0:
            self.roll_out()
        self._count += 1
        assert self._imagined is not None
        n_recorded = min(max(round(n * self.real_ratio), 1), n - 1)
        recorded = self.dataset.sample_batch(n_recorded, gamma, device, **options)
        rows = torch.from_numpy(np.random.randint(len(self._imagined), size=n - n_recorded))
        imagined = self._imagined[rows.to(self.model.device)].to(device)
        imagined = imagined.replace(discount=gamma * imagined.discount)
        marks = torch.arange(n, device=device) >= n_recorded
        return concatenate_batches([_steps_of(recorded), imagined]).replace(extra={IMAGINED: marks})

    def roll_out(self) -> None:
        """Imagine transitions now, from recorded observations on, by the policy as it is."""
        begin = self.dataset.sample_batch(self.n_transitions, 1.0, self.model.device).obs
        steps = imagine(self.model, begin, self._choose, self.horizon, self.lam, self.terminated)
        self._rollouts.append(concatenate_batches([*steps]))
        self._imagined = concatenate_batches([*self._rollouts])

    @torch.no_grad()
    def _choose(self, obs: Tensor) -> Tensor:
        agent = self.agent
        if not samples_its_policy(agent):
            with agent.eval_mode():
                actions = agent.batch_act(obs.cpu().numpy())
            return torch.as_tensor(actions, device=self.model.device)
        features = agent.features.on_batch(obs, agent.device)
        with evaluating_readers(agent.policy):
            drawn: Tensor = agent.policy(features).sample()
        return drawn.to(self.model.device)


def _steps_of(batch: Batch) -> Batch:
    """What imagined transitions have, too."""
    return Batch(batch.obs, batch.action, batch.reward, batch.next_obs, batch.discount)
