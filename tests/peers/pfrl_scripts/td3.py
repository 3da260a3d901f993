"""TD3 with its own smoothing of target actions, and policy updates that a hook counts."""

import numpy as np
import torch
from parts import Arm, adam, critic, pfrl, report, train
from torch import nn

smoothed = []


def target_policy_smoothing_func(batch_action):
    smoothed.append(tuple(batch_action.shape))
    return torch.clamp(batch_action + 0.1 * torch.randn_like(batch_action).clamp(-0.3, 0.3), -1, 1)


class OwnTD3(pfrl.agents.TD3):
    policy_calls = 0

    def update_policy(self, batch):
        self.policy_calls += 1
        super().update_policy(batch)


env = Arm()
policy = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2), nn.Tanh(), pfrl.policies.DeterministicHead())
networks = policy, critic(), critic()
explorer = pfrl.explorers.AdditiveGaussian(scale=0.1, low=env.action_space.low, high=env.action_space.high)
agent = OwnTD3(
    *networks,
    *map(adam, networks),
    pfrl.replay_buffers.ReplayBuffer(10**6),
    gamma=0.99,
    soft_update_tau=5e-3,
    explorer=explorer,
    replay_start_size=50,
    gpu=None,
    minibatch_size=20,
    burnin_action_func=lambda: env.action_space.sample().astype(np.float32),
    policy_update_delay=2,
    target_policy_smoothing_func=target_policy_smoothing_func,
)
counts = []
hooks = [lambda env, agent, t: counts.append(agent.q_func_n_updates)]
train(agent, env, steps=121, eval_interval=60, train_max_episode_len=9, step_hooks=hooks)
report(
    agent,
    "out",
    stored=len(agent.replay_buffer),
    q_updates=counts,
    policy_updates=agent.policy_n_updates,
    shapes=sorted(set(smoothed)),
    smoothed=len(smoothed),
    calls=agent.policy_calls,
)
