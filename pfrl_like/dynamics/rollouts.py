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
from pfrl_like.runs.loop import unknown
from pfrl_like.storage.plain_tensors import checksum
from pfrl_like.utils.checks import check_counts, check_numbers
from pfrl_like.utils.contexts import evaluating_readers
from pfrl_like.utils.random import RandomSource

#: Function of (obs, action, next_obs), [B, ...], that returns True for terminal next observations, bool [B].
Terminated = Callable[[Tensor, Tensor, Tensor], Tensor]


def imagine(
    model: DynamicsModel,
    obs: Tensor,
    choose: Callable[[Tensor], Tensor],
    horizon: int,
    lam: float = 0.0,
    terminated: Terminated | None = None,
) -> Iterator[Batch]:
    """Yield the steps of rollouts that start from given observations (arXiv:2005.13239, algorithm 2).

    Args:
        model: The model.
        obs: Observations from which rollouts start, [B, n].
        choose: Function that returns actions, [B, ...], for observations.
        horizon: Number of steps of a rollout.
        lam: Factor of the variance that is subtracted from rewards.
        terminated: Function of (obs, action, next_obs), tensors [B, ...], that returns True for terminal next
            observations, bool [B]. Rollouts end in terminal states. None means that no state is terminal.

    Yields:
        The transitions of one step. The discount is 0 for transitions to terminal states, and 1 for other transitions.
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
    """Raise an error if a parameter of rollouts is out of range.

    Raises:
        ValueError: If a parameter is out of range.
        TypeError: If `n_transitions` or `horizon` is not an integer, or `lam` is not a number.
    """
    check_counts(n_transitions=n_transitions, horizon=horizon)
    check_numbers(0, lam=lam)


def check_sides(dataset: Any, agent: Any, model: Any) -> None:
    """Raise an error if dataset, agent or model cannot be used for rollouts.

    Raises:
        TypeError: If the dataset has no `sample_batch` or is prioritised, the agent needs more than single transitions,
            or `model` is not a model. The message contains the name of the argument.
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
            f"agent is {type(agent).__name__}, which needs {', '.join(needed)}, but rollouts contain only single "
            "transitions: use another agent, such as COMBO"
        )
    if getattr(dataset, "prioritized", False):
        raise TypeError(
            f"dataset is {type(dataset).__name__}, which is prioritised, but imagined transitions have no "
            "priorities: use a dataset that samples uniformly"
        )


class ModelRollouts:
    """Minibatches of recorded transitions and of transitions imagined with an agent's policy.

    Pass it in place of the dataset to `train_agent_offline`. `Batch.extra` marks imagined rows;
    `pfrl_like.agents.COMBO` reads these marks. With a positive `lam`, other agents are trained as in MOPO. Checkpoints
    of a run contain the imagined transitions. They do not contain the model, and they contain the dataset only if it is
    a replay buffer. To resume a run, construct the object again with the same model and dataset.

    Args:
        dataset: Object with `sample_batch(n, gamma, device)`: an `MDPDataset`, or a replay buffer that samples
            uniformly.
        model: Trained model, such as `MOPO.impl`.
        agent: Agent that is trained on single transitions, not on sequences.
        real_ratio: Fraction of recorded transitions in a minibatch, between 0 and 1.
        n_transitions: Number of recorded observations from which rollouts start; at most the number of recorded
            transitions.
        horizon: Number of steps of a rollout.
        interval: Number of minibatches between new rollouts.
        kept: Number of rounds of rollouts whose transitions fit into the buffer of imagined transitions, if no rollout
            ends in a terminal state.
        lam: Factor of the variance that is subtracted from rewards.
        terminated: Function of (obs, action, next_obs), tensors [B, ...], that returns True for terminal next
            observations, bool [B]. Rollouts end in terminal states. None means that no state is terminal.
        rng: Source of randomness for the sampling of imagined rows; None is the global NumPy stream. The policy and the
            model use the global torch stream.

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
        check_sides(dataset, agent, model)
        self.dataset, self.model, self.agent = dataset, model, agent
        self.real_ratio, self.n_transitions, self.horizon, self.interval = real_ratio, n_transitions, horizon, interval
        self.lam, self.terminated = lam, terminated
        self.imagined = ReplayBuffer(kept * n_transitions * horizon, rng=rng)
        self._count = 0

    def sample_batch(self, n: int, gamma: float = 1.0, device: torch.device | str = "cpu", **options: Any) -> Batch:
        """Sample a minibatch of distinct recorded transitions, followed by distinct imagined transitions.

        Args:
            n: Number of transitions; at least 2.
            gamma: Discount factor per step.
            device: Device of the tensors.
            options: Other arguments of the dataset's `sample_batch`. Columns that imagined transitions do not have are
                removed.

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
        """Create imagined transitions from recorded observations with the current policy.

        Args:
            options: Other arguments of the dataset's `sample_batch`.
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
        """Return the number of minibatches, the dataset's state, the rollout parameters and the model's checksum.

        The run saves the imagined transitions, because they are in a replay buffer.
        """
        return {"count": self._count, "data": state_of_data(self.dataset), "made": self._made()}

    def restore_state(self, state: Mapping[str, Any]) -> Sequence[str]:
        """Restore the number of minibatches, and compare dataset, model and rollout parameters with the saved state.

        Returns:
            A description of each difference; empty if there is no difference.

        Raises:
            KeyError, TypeError, ValueError: If the state belongs to another object, or minibatches were sampled but
                there are no imagined transitions.
        """
        count, before, now = state["count"], dict(state["made"]), self._made()
        if type(count) is not int or count < 0 or (count and not len(self.imagined)):
            raise ValueError(
                f"the saved number of minibatches is {count!r:.100}, but there are {len(self.imagined)} transitions"
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
        """Return the rollout parameters and a checksum of the model, keyed by name.

        Without `state_dict`, the checksum of the model is unknown.
        """
        model: Any = unknown(f"the model is {type(self.model).__name__} without state_dict and may have changed")
        if hasattr(self.model, "state_dict"):
            model = checksum(checksums_of(self.model))
        numbers = {name: getattr(self, name) for name in ("real_ratio", "n_transitions", "horizon", "interval", "lam")}
        return numbers | {"model": model}

    @torch.no_grad()
    def _choose(self, obs: Tensor) -> Tensor:
        agent = self.agent
        if not samples_from_policy(agent):
            with agent.eval_mode():
                actions = agent.batch_act(obs.cpu().numpy())
            return torch.as_tensor(actions, device=self.model.device)
        features = agent.features.on_batch(obs, agent.device)
        with evaluating_readers(agent.policy):
            drawn: Tensor = agent.policy(features).sample()
        return drawn.to(self.model.device)


def _steps_of(batch: Batch) -> Batch:
    """Return a batch with only the columns that imagined transitions have."""
    return Batch(batch.obs, batch.action, batch.reward, batch.next_obs, batch.discount)
