"""Rollouts of a dynamics model, and minibatches of imagined and recorded transitions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.agents.offline.combo import IMAGINED
from pfrl_like.batch import Batch, concatenate_batches
from pfrl_like.dynamics.dynamics_model import DynamicsModel
from pfrl_like.learning.acting import samples_from_policy
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.runs.checksums import checksums_of, restore_data, state_of_data
from pfrl_like.runs.loop import unknown_state
from pfrl_like.storage.plain_tensors import checksum
from pfrl_like.utils.checks import check_counts, check_numbers
from pfrl_like.utils.contexts import evaluation_mode
from pfrl_like.utils.random import RandomSource

#: Function called as `terminated(obs, action, next_obs)`, with tensors [B, ...]. It returns a mask, bool [B]: True for
#: terminal next observations.
Terminated = Callable[[Tensor, Tensor, Tensor], Tensor]


def imagine(
    model: DynamicsModel,
    obs: Tensor,
    choose: Callable[[Tensor], Tensor],
    horizon: int,
    lam: float = 0.0,
    terminated: Terminated | None = None,
) -> Iterator[Batch]:
    """Yield the steps of imagined rollouts that start from the observations `obs` (arXiv:2005.13239, algorithm 2).

    Args:
        model: The model.
        obs: Observations from which rollouts start, [B, n].
        choose: Function from observations, [B, n], to actions, [B, ...].
        horizon: Number of steps of a rollout.
        lam: Factor of the variance of the prediction. The product is subtracted from the reward.
        terminated: Function called as `terminated(obs, action, next_obs)`, with tensors [B, ...]. It returns a mask,
            bool [B]: True for terminal next observations. Rollouts end in terminal states. None means that no state is
            terminal.

    Yields:
        A batch with one transition of each rollout that has not ended. The discount is 0 if the next state is terminal,
        otherwise 1.
    """
    for _ in range(horizon):
        action = choose(obs)
        step = model.sample(obs, action)
        reward = step.reward - lam * step.variance
        continues = torch.ones_like(reward, dtype=torch.bool)
        if terminated is not None:
            continues = ~terminated(obs, action, step.next_obs)
        yield Batch(obs, action, reward, step.next_obs, discount=continues.float())
        obs = step.next_obs if terminated is None else step.next_obs[continues]
        if not len(obs):
            return


def check_rollouts(n_transitions: int, horizon: int, lam: float) -> None:
    """Check that the parameters of rollouts are in range.

    Raises:
        ValueError: If a parameter is out of range.
        TypeError: If `n_transitions` or `horizon` is not an integer, or `lam` is not a number.
    """
    check_counts(n_transitions=n_transitions, horizon=horizon)
    check_numbers(0, lam=lam)


def check_rollout_parts(dataset: Any, agent: Any, model: Any) -> None:
    """Check that dataset, agent and model can be used for rollouts.

    Raises:
        TypeError: If `dataset` has no `sample_batch` or is prioritised, if `agent` needs sequences or other steps in
            addition to single transitions, or if `model` is not a dynamics model. The message contains the name of the
            argument.
    """
    kind, needed = type(dataset).__name__, [*getattr(agent, "sampling", {})]
    if not hasattr(dataset, "sample_batch"):
        raise TypeError(f"dataset is {kind}, expected one with sample_batch, such as MDPDataset.from_episodes(list)")
    if not hasattr(model, "sample"):
        raise TypeError(f"model is {type(model).__name__}, expected a DynamicsModel, for example impl of a fitted MOPO")
    if getattr(agent, "learns_from_sequences", False):
        needed = ["sequences", *needed]
    if needed:
        problem = f"needs {', '.join(needed)}, but rollouts contain only single transitions"
        raise TypeError(f"agent is {type(agent).__name__}, which {problem}: use another agent, such as COMBO")
    if getattr(dataset, "prioritized", False):
        raise TypeError(f"dataset is {kind}, which is prioritised, expected a dataset that samples uniformly")


class ModelRollouts:
    """Source of minibatches that contain recorded transitions and imagined transitions of an agent's policy.

    Pass a `ModelRollouts` in place of the dataset to `train_agent_offline`. `Batch.extra` marks the imagined rows;
    `pfrl_like.agents.COMBO` reads this mark. With positive `lam`, any other agent learns as in MOPO. Checkpoints of a
    run contain the imagined transitions, and the dataset if it is a replay buffer. Checkpoints do not contain the
    model. To resume a run, construct the object again with the same model and dataset.

    Args:
        dataset: Object with `sample_batch(n, gamma, device)`: an `MDPDataset`, or a replay buffer that samples
            uniformly.
        model: Trained model, such as `MOPO.impl`.
        agent: Agent that learns from single transitions, not from sequences.
        real_ratio: Fraction of recorded transitions in a minibatch, between 0 and 1.
        n_transitions: Number of rollouts in a round. Each rollout starts from a recorded observation. At most the
            number of recorded transitions.
        horizon: Number of steps of a rollout.
        interval: Number of minibatches between rounds of rollouts.
        kept: Number of recent rounds of rollouts that are stored. The capacity of the replay buffer `imagined` is
            `kept` * `n_transitions` * `horizon` transitions.
        lam: Factor of the variance of the prediction. The product is subtracted from the reward.
        terminated: Function called as `terminated(obs, action, next_obs)`, with tensors [B, ...]. It returns a mask,
            bool [B]: True for terminal next observations. Rollouts end in terminal states. None means that no state is
            terminal.
        rng: Source of randomness for the sampling of imagined rows; None uses the global NumPy generator. The policy
            and the model use the global torch generator.

    Attributes:
        imagined: Replay buffer of the imagined transitions.

    Raises:
        ValueError: If a number is out of range.
        TypeError: If a number has the wrong type, or dataset, model or agent cannot be used for rollouts.
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
        check_rollout_parts(dataset, agent, model)
        self.dataset, self.model, self.agent = dataset, model, agent
        self.real_ratio, self.n_transitions, self.horizon, self.interval = real_ratio, n_transitions, horizon, interval
        self.lam, self.terminated = lam, terminated
        self.imagined = ReplayBuffer(kept * n_transitions * horizon, rng=rng)
        self._count = 0

    def sample_batch(self, n: int, gamma: float = 1.0, device: torch.device | str = "cpu", **options: Any) -> Batch:
        """Sample a minibatch without duplicates. The first rows are recorded, the other rows are imagined.

        Args:
            n: Number of transitions; at least 2.
            gamma: Discount factor per step.
            device: Device of the tensors.
            options: Other arguments of the dataset's `sample_batch`. Columns that imagined transitions do not have are
                removed from the result.

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
        return concatenate_batches([_columns(recorded), _columns(imagined)]).replace(extra={IMAGINED: marks})

    def roll_out(self, **options: Any) -> None:
        """Make one round of rollouts with the current policy, and store the imagined transitions.

        Args:
            options: Other arguments of the dataset's `sample_batch`.
        """
        start = self.dataset.sample_batch(self.n_transitions, 1.0, self.model.device, **options).obs
        ids = np.arange(len(start))
        for t, step in enumerate(imagine(self.model, start, self._choose, self.horizon, self.lam, self.terminated), 1):
            columns = step.obs.float(), step.action, step.reward, step.next_obs.float(), step.discount == 0
            obs, action, reward, next_obs, ends = (column.cpu().numpy() for column in columns)
            cut = np.full(len(ids), t == self.horizon)
            self.imagined.append_batch(obs, action, reward, next_obs, ends, cut, ids.tolist())
            ids = ids[~ends]

    def saved_state(self) -> dict[str, Any]:
        """Return the number of sampled minibatches, the dataset's state, the rollout parameters and the model's hash.

        Runs save replay buffers separately, so the state does not contain the imagined transitions.
        """
        return {"count": self._count, "data": state_of_data(self.dataset), "made": self._parameters()}

    def restore_state(self, state: Mapping[str, Any]) -> Sequence[str]:
        """Restore the number of sampled minibatches.

        Compare dataset, model and rollout parameters with the saved state.

        Returns:
            A description of each difference; an empty list if there is no difference.

        Raises:
            KeyError, TypeError, ValueError: If `state` is not a state of a `ModelRollouts`, or if minibatches were
                sampled but there are no imagined transitions.
        """
        count, before, now = state["count"], dict(state["made"]), self._parameters()
        if type(count) is not int or count < 0 or (count and not len(self.imagined)):
            raise ValueError(f"saved count is {count!r:.100}, but there are {len(self.imagined)} imagined transitions")
        reasons = [*restore_data(self.dataset, state["data"])]
        reasons += [
            f"{name} of the rollouts was {value!r:.100} and is {now.get(name)!r:.100}"
            for name, value in before.items()
            if now.get(name) != value
        ]
        self._count = count
        return reasons

    def _parameters(self) -> dict[str, Any]:
        """Return the rollout parameters and a checksum of the model, keyed by name.

        If the model has no `state_dict`, its entry says that the checksum is unknown.
        """
        model: Any = unknown_state(f"the model is {type(self.model).__name__} without state_dict and may have changed")
        if hasattr(self.model, "state_dict"):
            model = checksum(checksums_of(self.model))
        values = {name: getattr(self, name) for name in ("real_ratio", "n_transitions", "horizon", "interval", "lam")}
        return values | {"model": model}

    @torch.no_grad()
    def _choose(self, obs: Tensor) -> Tensor:
        agent = self.agent
        if not samples_from_policy(agent):
            with agent.eval_mode():
                actions = agent.batch_act(obs.cpu().numpy())
            return torch.as_tensor(actions, device=self.model.device)
        features = agent.features.on_batch(obs, agent.device)
        with evaluation_mode(agent.policy):
            sampled: Tensor = agent.policy(features).sample()
        return sampled.to(self.model.device)


def _columns(batch: Batch) -> Batch:
    """Return a batch with only the columns that imagined transitions have."""
    return Batch(batch.obs, batch.action, batch.reward, batch.next_obs, batch.discount)
