"""Off-policy algorithms that an `EpochRunner` trains in epochs: the base class, `EpochDQN` and `EpochDDPG`."""

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from pfrl_like import agents, explorers
from pfrl_like.envs.make_env import accept_env_ids
from pfrl_like.utils.checks import check_counts, check_numbers
from pfrl_like.utils.env_values import mask_columns, mask_keyword

_LOGGER = logging.getLogger(__name__)
Path = dict[str, Any]


class OffPolicyRLAlgorithm(ABC):
    """Base class of off-policy algorithms that are trained in epochs.

    An epoch consists of `steps_per_epoch` iterations. In each iteration an `EpochRunner` samples paths (the steps of
    episodes) and stores the steps in the replay buffer. Then the algorithm makes gradient steps. A subclass such as
    `EpochDQN` defines `init_opt`. This method sets the attribute `agent` to an agent of this library.

    Args:
        env_spec: Object with the environment's `observation_space` and `action_space`, such as the environment, or an
            environment id.
        policy: Policy that chooses actions without exploration.
        qf: The Q-function.
        replay_buffer: Replay buffer in which steps are stored.
        use_target: True to compute the values of next states with target networks. False to compute them with the
            online networks.
        discount: Discount factor per step.
        steps_per_epoch: Number of iterations per epoch. Each iteration is one call of `train_once`.
        max_path_length: Maximum number of steps of an episode. Longer episodes are truncated. None sets no limit.
        max_eval_path_length: Maximum number of steps of an evaluation episode. If None, `max_path_length` is used.
        n_train_steps: Number of gradient steps per iteration.
        buffer_batch_size: Number of transitions per minibatch.
        min_buffer_size: Number of transitions in the buffer at which gradient steps begin.
        rollout_batch_size: Number of complete paths (episodes) sampled per iteration.
        reward_scale: Factor of the rewards in training. Paths and returns contain unscaled rewards.
        smooth_return: True to average the return over all finished episodes of the epoch. False to average only over
            the episodes of the most recent iteration in which an episode finished.
        exploration_policy: `Explorer` that chooses actions during sampling. None disables exploration.

    Attributes:
        agent: The agent that acts and learns.
        average_return: Average return of the episodes that `smooth_return` selects. NaN before the first finished
            episode.
        success_rate: Fraction of successes among these episodes.

    Raises:
        TypeError: If `env_spec` has no spaces, or `init_opt` does not set `agent` to an agent of the library.
        ValueError: If a number is out of range.
    """

    agent: Any

    @accept_env_ids("env_spec")
    def __init__(
        self,
        env_spec: Any,
        policy: Any,
        qf: Any,
        replay_buffer: Any,
        *,
        use_target: bool = False,
        discount: float = 0.99,
        steps_per_epoch: int = 20,
        max_path_length: int | None = None,
        max_eval_path_length: int | None = None,
        n_train_steps: int = 50,
        buffer_batch_size: int = 64,
        min_buffer_size: int = 10000,
        rollout_batch_size: int = 1,
        reward_scale: float = 1.0,
        smooth_return: bool = True,
        exploration_policy: Any = None,
    ) -> None:
        check_counts(steps_per_epoch=steps_per_epoch, n_train_steps=n_train_steps)
        check_counts(buffer_batch_size=buffer_batch_size, min_buffer_size=min_buffer_size)
        check_counts(rollout_batch_size=rollout_batch_size)
        check_counts(optional=True, max_path_length=max_path_length, max_eval_path_length=max_eval_path_length)
        check_numbers(reward_scale=reward_scale)
        if not (hasattr(env_spec, "observation_space") and hasattr(env_spec, "action_space")):
            kind = type(env_spec).__name__
            raise TypeError(f"env_spec is {kind}, expected an object with observation_space and action_space")
        capacity = getattr(replay_buffer, "capacity", None)
        if not buffer_batch_size <= min_buffer_size <= (min_buffer_size if capacity is None else capacity):
            bounds = f"{buffer_batch_size} (buffer_batch_size) to {capacity} (capacity of replay_buffer)"
            raise ValueError(f"min_buffer_size is {min_buffer_size}, expected a number from {bounds}")
        self.env_spec, self.policy, self.qf, self.replay_buffer = env_spec, policy, qf, replay_buffer
        self.use_target, self.discount = use_target, discount
        self.steps_per_epoch, self.n_train_steps = steps_per_epoch, n_train_steps
        self.max_path_length, self.max_eval_path_length = max_path_length, max_eval_path_length
        self.buffer_batch_size, self.min_buffer_size = buffer_batch_size, min_buffer_size
        self.rollout_batch_size, self.reward_scale = rollout_batch_size, reward_scale
        self.smooth_return, self.exploration_policy = smooth_return, exploration_policy
        self.average_return = self.success_rate = float("nan")
        self._returns: list[float] = []
        self._successes: list[float] = []
        self.init_opt()
        if not hasattr(agent := getattr(self, "agent", None), "dry_run"):
            kind = type(self).__name__
            raise TypeError(f"agent is {agent!r:.80} after init_opt of {kind}, expected an agent with a replay buffer")

    @abstractmethod
    def init_opt(self) -> None:
        """Create `agent` and its optimisers from the arguments that the constructor stored."""

    # Saving

    def saved_state(self) -> dict[str, Any]:
        """Return the state that snapshots contain besides the agent's state: a dict of JSON values with string keys.

        `EpochRunner` saves and restores attributes that are numbers, strings, arrays or random generators. Subclasses
        may add other state, such as the `state_dict` of a network that is not part of the agent.
        """
        values = {"average_return": self.average_return, "success_rate": self.success_rate}
        return {name: value if math.isfinite(value) else None for name, value in values.items()}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `saved_state` returned."""
        for name in ("average_return", "success_rate"):
            setattr(self, name, float("nan") if state[name] is None else float(state[name]))

    # Sampling

    def dry_run(self, obs: Any, action_space: Any) -> None:
        """Raise an error if the agent cannot act in an environment. `obs` is the environment's first observation."""
        self.agent.dry_run(obs, action_space)

    def act(self, obs: Any, *, action_mask: Any = None) -> Any:
        """Return the action for an observation during sampling.

        Args:
            obs: The observation.
            action_mask: True for allowed actions, [n_actions]. None allows all actions.
        """
        self._obs, self._mask = obs, action_mask
        self._action = self.agent.act(obs, **mask_keyword(action_mask))
        return self._action

    def observe(self, obs: Any, reward: float, terminated: bool, truncated: bool, *, action_mask: Any = None) -> None:
        """Store the transition from the last observation to `obs`. No update is made.

        `action_mask` contains the allowed actions in `obs`.
        """
        self.replay_buffer.append(
            self._obs, self._action, reward * self.reward_scale, obs, is_state_terminal=terminated,
            **mask_columns(self._mask, action_mask, obs),
        )  # fmt: skip
        if truncated and not terminated:
            self.replay_buffer.stop_current_episode()
        self.agent.count_step()

    # Learning

    def train(self, runner: Any) -> float:
        """Train for all epochs of a runner.

        Args:
            runner: An `EpochRunner`. It yields the epochs (`step_epochs`), samples the paths (`obtain_samples`) and has
                the index of the iteration (`step_itr`).

        Returns:
            The average return of the last epoch.
        """
        for _ in runner.step_epochs():
            self._returns, self._successes = [], []
            for _ in range(self.steps_per_epoch):
                runner.step_path = runner.obtain_samples(runner.step_itr)
                self.train_once(runner.step_itr, runner.step_path)
                runner.step_itr += 1
        return self.average_return

    def train_once(self, itr: int, paths: Sequence[Path]) -> float:
        """Train for one iteration: process the paths and make `n_train_steps` gradient steps.

        The replay buffer already contains the paths.

        Args:
            itr: Index of the iteration.
            paths: Paths sampled for the iteration.

        Returns:
            The average return.
        """
        data = self.process_samples(itr, paths)
        completed = [i for i, complete in enumerate(data["complete"]) if complete]
        if not self.smooth_return and completed:
            self._returns, self._successes = [], []
        self._returns += [data["undiscounted_returns"][i] for i in completed]
        self._successes += [data["success_history"][i] for i in completed]
        if self._returns:
            self.average_return = float(np.mean(self._returns))
            self.success_rate = float(np.mean(self._successes))
        if len(self.replay_buffer) >= self.min_buffer_size:
            for _ in range(self.n_train_steps):
                self.optimize_policy(itr)
        self.log_diagnostics(paths)
        return self.average_return

    def optimize_policy(self, itr: int) -> None:
        """Make one gradient step on a minibatch of the buffer.

        Args:
            itr: Index of the iteration.
        """
        self.agent.update_from_replay()

    def process_samples(self, itr: int, paths: Sequence[Path]) -> dict[str, list[Any]]:
        """Return the returns, success flags and completion flags of paths.

        Args:
            itr: Index of the iteration.
            paths: Paths as returned by `EpochRunner.obtain_samples`.

        Returns:
            A dict of lists with one entry per path: "undiscounted_returns" (float, the return of the episode so far),
            "success_history" (1.0 if a step of the episode set `info["is_success"]` or `info["success"]`, else 0.0) and
            "complete" (bool, True if the episode has ended).
        """
        return {
            "undiscounted_returns": [float(path["undiscounted_return"]) for path in paths],
            "success_history": [float(path["success"]) for path in paths],
            "complete": [bool(path["complete"]) for path in paths],
        }

    def log_diagnostics(self, paths: Sequence[Path]) -> None:
        """Log the number, steps and returns of the paths at level INFO; subclasses may log more.

        Args:
            paths: Paths sampled for the iteration.
        """
        returns = [path["undiscounted_return"] for path in paths if path["complete"]]
        steps = sum(len(path["rewards"]) for path in paths)
        _LOGGER.info("%d paths with %d steps; returns of the finished episodes: %s", len(paths), steps, returns)


class EpochDQN(OffPolicyRLAlgorithm):
    """Deep Q-Network that is trained in epochs (doi:10.1038/nature14236; arXiv:1509.06461).

    Args:
        env_spec: Object with the environment's `observation_space` and `action_space`, such as the environment, or an
            environment id. Actions must be discrete.
        policy: `Explorer` that chooses actions during sampling if `exploration_policy` is None. If both arguments are
            None, sampling uses the greedy action. Evaluation always uses the greedy action.
        qf: Module from observations to an `ActionValue`.
        replay_buffer: Replay buffer in which steps are stored.
        qf_lr: Learning rate (Adam).
        target_update_interval: Number of gradient steps between copies to the target network, if `use_target` is True.
        double_q: True if the online network chooses the next action (Double DQN).
        **options: Other arguments of `OffPolicyRLAlgorithm`.
    """

    def __init__(
        self,
        env_spec: Any,
        policy: Any,
        qf: Any,
        replay_buffer: Any,
        *,
        qf_lr: float = 1e-3,
        target_update_interval: int = 100,
        double_q: bool = True,
        **options: Any,
    ) -> None:
        self.qf_lr, self.target_update_interval, self.double_q = qf_lr, target_update_interval, double_q
        super().__init__(env_spec, policy, qf, replay_buffer, **options)

    def init_opt(self) -> None:
        """Create the agent, a `DQN` or `DoubleDQN`."""
        make = agents.DoubleDQN if self.double_q else agents.DQN
        self.agent = make(
            self.qf, torch.optim.Adam(self.qf.parameters(), lr=self.qf_lr), self.replay_buffer, self.discount,
            self.exploration_policy or self.policy or explorers.Greedy(),
            replay_start_size=self.min_buffer_size, minibatch_size=self.buffer_batch_size,
            target_update_interval=self.target_update_interval if self.use_target else 1,
        )  # fmt: skip


class EpochDDPG(OffPolicyRLAlgorithm):
    """Deep Deterministic Policy Gradient that is trained in epochs (arXiv:1509.02971).

    Args:
        env_spec: Object with the environment's `observation_space` and `action_space`, such as the environment, or an
            environment id. Actions must be continuous.
        policy: Module from observations to action distributions, such as a network that ends in a `DeterministicHead`.
        qf: Critic, called as `qf((obs, action))`.
        replay_buffer: Replay buffer in which steps are stored.
        policy_lr: Learning rate of the policy (Adam).
        qf_lr: Learning rate of the critic (Adam).
        target_update_tau: Coefficient of the soft target update, if `use_target` is True: target = tau * online network
            + (1 - tau) * target.
        **options: Other arguments of `OffPolicyRLAlgorithm`.
    """

    def __init__(
        self,
        env_spec: Any,
        policy: Any,
        qf: Any,
        replay_buffer: Any,
        *,
        policy_lr: float = 1e-4,
        qf_lr: float = 1e-3,
        target_update_tau: float = 0.01,
        **options: Any,
    ) -> None:
        self.policy_lr, self.qf_lr, self.target_update_tau = policy_lr, qf_lr, target_update_tau
        super().__init__(env_spec, policy, qf, replay_buffer, **options)

    def init_opt(self) -> None:
        """Create the agent, a `DDPG`."""
        actor = torch.optim.Adam(self.policy.parameters(), lr=self.policy_lr)
        critic = torch.optim.Adam(self.qf.parameters(), lr=self.qf_lr)
        self.agent = agents.DDPG(
            self.policy, self.qf, actor, critic, self.replay_buffer, self.discount,
            self.exploration_policy or explorers.Greedy(),
            replay_start_size=self.min_buffer_size, minibatch_size=self.buffer_batch_size, target_update_interval=1,
            target_update_method="soft" if self.use_target else "hard", soft_update_tau=self.target_update_tau,
        )  # fmt: skip
