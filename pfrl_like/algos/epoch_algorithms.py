"""Algorithms in epochs that are ready to run: Q-learning, and a deterministic policy gradient."""

from typing import Any

import torch

from pfrl_like import agents, explorers
from pfrl_like.algos.off_policy_rl_algorithm import OffPolicyRLAlgorithm


class EpochDQN(OffPolicyRLAlgorithm):
    """Deep Q-Network in epochs (doi:10.1038/nature14236; arXiv:1509.06461).

    Args:
        env_spec: As in `OffPolicyRLAlgorithm`, with discrete actions.
        policy: An `Explorer`, which chooses among the values of actions while there is no exploration policy; None
            for the greedy action, which evaluation always takes.
        qf: Module from observations to an `ActionValue`.
        replay_buffer: As in `OffPolicyRLAlgorithm`.
        qf_lr: Learning rate (Adam).
        target_update_interval: Gradient steps between copies to the target network, if `use_target`.
        double_q: Whether the network that learns chooses the next action (Double DQN).
        **options: Those of `OffPolicyRLAlgorithm`.
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
        """Make the `DQN`, or `DoubleDQN`, that learns."""
        make = agents.DoubleDQN if self.double_q else agents.DQN
        self.agent = make(
            self.qf, torch.optim.Adam(self.qf.parameters(), lr=self.qf_lr), self.replay_buffer, self.discount,
            self.exploration_policy or self.policy or explorers.Greedy(),
            replay_start_size=self.min_buffer_size, minibatch_size=self.buffer_batch_size,
            target_update_interval=self.target_update_interval if self.use_target else 1,
        )  # fmt: skip


class EpochDDPG(OffPolicyRLAlgorithm):
    """Deep Deterministic Policy Gradient in epochs (arXiv:1509.02971).

    Args:
        env_spec: As in `OffPolicyRLAlgorithm`, with continuous actions.
        policy: Module from observations to distributions of actions, such as one that ends in a `DeterministicHead`.
        qf: Critic, called as `qf((obs, action))`.
        replay_buffer: As in `OffPolicyRLAlgorithm`.
        policy_lr: Learning rate of the policy (Adam).
        qf_lr: Learning rate of the critic (Adam).
        target_update_tau: How far the targets move with every gradient step, if `use_target`.
        **options: Those of `OffPolicyRLAlgorithm`.
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
        """Make the `DDPG` that learns."""
        actor, critic = (
            torch.optim.Adam(module.parameters(), lr=lr)
            for module, lr in ((self.policy, self.policy_lr), (self.qf, self.qf_lr))
        )
        self.agent = agents.DDPG(
            self.policy, self.qf, actor, critic, self.replay_buffer, self.discount,
            self.exploration_policy or explorers.Greedy(),
            replay_start_size=self.min_buffer_size, minibatch_size=self.buffer_batch_size, target_update_interval=1,
            target_update_method="soft" if self.use_target else "hard", soft_update_tau=self.target_update_tau,
        )  # fmt: skip
