"""Rollouts of a dynamics model, and minibatches of imagined and recorded transitions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.agents.offline.combo import IMAGINED
from pfrl_like.batch import Batch, concatenate_batches
from pfrl_like.dynamics.dynamics_model import DynamicsModel
from pfrl_like.learning.acting import samples_its_policy
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.runs.checksums import checksums_of, restore_data, state_of_data
from pfrl_like.runs.loop import unknown
from pfrl_like.storage.plain_tensors import checksum
from pfrl_like.utils.checks import check_counts, check_numbers
from pfrl_like.utils.contexts import evaluating_readers
from pfrl_like.utils.random import RandomSource

#: Function of observations, actions and next observations, [B, ...], that is True where the latter are terminal, [B].
Terminated = Callable[[Tensor, Tensor, Tensor], Tensor]


def imagine(
    model: DynamicsModel,
    obs: Tensor,
    choose: Callable[[Tensor], Tensor],
    horizon: int,
    lam: float = 0.0,
    terminated: Terminated | None = None,
) -> Iterator[Batch]:
    """Make rollouts from some observations, step by step (arXiv:2005.13239, algorithm 2).

    Args:
        model: The model.
        obs: Observations from which rollouts start, [B, n].
        choose: Function of observations that returns the actions, [B, ...].
        horizon: Number of steps of a rollout.
        lam: Factor of the variance that is subtracted from rewards.
        terminated: Function of observations, actions and next observations, tensors [B, ...], that is True where the
            latter are terminal, bool [B]; rollouts end there. None if no state is terminal.

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
    """Raise an error if a parameter of rollouts is out of range.

    Raises:
        ValueError: If one is out of range.
        TypeError: If a count is no integer, or `lam` no number.
    """
    check_counts(n_transitions=n_transitions, horizon=horizon)
    check_numbers(0, lam=lam)


def check_sides(dataset: Any, agent: Any, model: Any) -> None:
    """Raise an error if dataset, agent and model cannot be used for rollouts.

    Raises:
        TypeError: If the dataset has no `sample_batch` or draws by priorities, the agent needs more than single
            transitions, or `model` is no model; the message names the argument.
    """
    if not hasattr(dataset, "sample_batch"):
        raise TypeError(
            f"dataset is {type(dataset).__name__}, expected something with sample_batch; MDPDataset.from_episodes "
            "makes a dataset of a list of episodes"
        )
    if not hasattr(model, "sample"):
        raise TypeError(
            f"model is {type(model).__name__}, expected a DynamicsModel, such as the `impl` of a MOPO that is fitted"
        )
    needed = ["sequences"] * getattr(agent, "learns_from_sequences", False) + [*getattr(agent, "sampling", {})]
    if needed:
        raise TypeError(
            f"agent is {type(agent).__name__}, which learns from {', '.join(needed)}, but what is imagined is single "
            "transitions: use another agent, such as COMBO"
        )
    if getattr(dataset, "prioritized", False):
        raise TypeError(
            f"dataset is {type(dataset).__name__}, which draws by priorities, but imagined transitions have none: "
            "use one that draws uniformly"
        )


class ModelRollouts:
    """Minibatches of recorded transitions and of transitions imagined with an agent's policy.

    It replaces the dataset in the training of an agent (`train_agent_offline`). Imagined rows are marked in
    `Batch.extra`, which `pfrl_like.agents.COMBO` reads; with a `lam` other agents learn from them as in MOPO.
    Checkpoints of a run contain the imagined transitions, but not the model, and not the dataset unless it is a replay
    buffer: to resume a run, give both again.

    Args:
        dataset: Anything with `sample_batch(n, gamma, device)`: an `MDPDataset`, or a replay buffer that draws
            uniformly.
        model: A trained model, such as `MOPO.impl`.
        agent: The agent; it has to learn from single transitions, without the steps after them.
        real_ratio: Share of recorded transitions in a minibatch, between 0 and 1.
        n_transitions: Number of recorded observations from which rollouts start; at most as many as there are.
        horizon: Number of steps of a rollout.
        interval: Minibatches after which new rollouts are made.
        kept: The transitions of this many of the newest rounds of rollouts are kept; of more rounds if some rollouts
            end in terminal states.
        lam: Factor of the variance that is subtracted from rewards.
        terminated: Function of observations, actions and next observations, tensors [B, ...], that is True where the
            latter are terminal, bool [B]; rollouts end there. None if no state is terminal.
        rng: Source of randomness by which imagined rows are drawn; None is the global NumPy stream. The policy and the
            model draw from torch's.

    Attributes:
        imagined: Replay buffer of the imagined transitions.

    Raises:
        ValueError: On numbers out of range.
        TypeError: On a number or integer of a wrong type, and on a dataset, a model or an agent of another kind.
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
        rng: RandomSource = None,
    ) -> None:
        check_rollouts(n_transitions, horizon, lam)
        check_counts(interval=interval, kept=kept)
        check_numbers(0, 1, between=True, real_ratio=real_ratio)
        check_sides(dataset, agent, model)
        self.dataset, self.model, self.agent = dataset, model, agent
        self.real_ratio, self.n_transitions, self.horizon, self.interval = real_ratio, n_transitions, horizon, interval
        self.lam, self.terminated = lam, terminated
        self.imagined = ReplayBuffer(kept * n_transitions * horizon, rng=rng)
        self._count = 0

    def sample_batch(self, n: int, gamma: float = 1.0, device: torch.device | str = "cpu", **options: Any) -> Batch:
        """Draw a minibatch of distinct recorded transitions, followed by distinct imagined ones.

        Args:
            n: Number of transitions; at least 2.
            gamma: Discount factor per step.
            device: Device of the tensors.
            options: Further arguments of the dataset's `sample_batch`; columns that imagined transitions do not have
                are left out.

        Raises:
            ValueError: If there are too few recorded or imagined transitions, or `n` is less than 2.
        """
        check_counts(least=2, n=n)
        if self._count % self.interval == 0:
            self.roll_out(**options)
        self._count += 1
        n_recorded = min(max(round(n * self.real_ratio), 1), n - 1)
        recorded = self.dataset.sample_batch(n_recorded, gamma, device, **options)
        imagined = self.imagined.sample_batch(n - n_recorded, gamma, device)
        marks = torch.arange(n, device=device) >= n_recorded
        return concatenate_batches([_steps_of(recorded), _steps_of(imagined)]).replace(extra={IMAGINED: marks})

    def roll_out(self, **options: Any) -> None:
        """Imagine transitions now, from recorded observations, with the current policy.

        Args:
            options: Further arguments of the dataset's `sample_batch`.
        """
        begin = self.dataset.sample_batch(self.n_transitions, 1.0, self.model.device, **options).obs
        ids = np.arange(len(begin))
        for t, step in enumerate(imagine(self.model, begin, self._choose, self.horizon, self.lam, self.terminated), 1):
            columns = step.obs.float(), step.action, step.reward, step.next_obs.float(), step.discount == 0
            obs, action, reward, next_obs, ends = (column.cpu().numpy() for column in columns)
            cut = np.full(len(ids), t == self.horizon)
            self.imagined.append_batch(obs, action, reward, next_obs, ends, cut, ids.tolist())
            ids = ids[~ends]

    def saved_state(self) -> dict[str, Any]:
        """Number of minibatches so far, state of the dataset, parameters of the rollouts and checksum of the model.

        The run saves the imagined transitions, as it does for every replay buffer.
        """
        return {"count": self._count, "data": state_of_data(self.dataset), "made": self._made()}

    def restore_state(self, state: Mapping[str, Any]) -> Sequence[str]:
        """Restore the count that `saved_state` returned, and compare dataset, model and parameters with its state.

        Returns:
            A description of each difference; empty if all are the same.

        Raises:
            KeyError, TypeError, ValueError: If it is the state of something else, or minibatches were drawn but there
                are no imagined transitions.
        """
        count, before, now = state["count"], dict(state["made"]), self._made()
        if type(count) is not int or count < 0 or (count and not len(self.imagined)):
            raise ValueError(
                f"there were {count!r:.100} minibatches, and {len(self.imagined)} transitions are imagined"
            )
        reasons = [*restore_data(self.dataset, state["data"])]
        reasons += [
            f"{name} of the rollouts was {value!r:.100} and is {now.get(name)!r:.100}"
            for name, value in before.items()
            if now.get(name) != value
        ]
        self._count = count
        return reasons

    def _made(self) -> dict[str, Any]:
        """Parameters of the rollouts and the checksum of the model, by name; it is unknown without `state_dict`."""
        model: Any = unknown(f"the model is {type(self.model).__name__} without state_dict, which may be another one")
        if hasattr(self.model, "state_dict"):
            model = checksum(checksums_of(self.model))
        numbers = {name: getattr(self, name) for name in ("real_ratio", "n_transitions", "horizon", "interval", "lam")}
        return numbers | {"model": model}

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
    """A batch with only the columns that imagined transitions have."""
    return Batch(batch.obs, batch.action, batch.reward, batch.next_obs, batch.discount)
