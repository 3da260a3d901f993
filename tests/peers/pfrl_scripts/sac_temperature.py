"""SAC with a temperature of the user's own, burn-in actions, and critics with their own update."""

import torch
from parts import Arm, adam, critic, pfrl, report, train
from torch import distributions, nn


def squashed_diagonal_gaussian_head(x):
    mean, log_scale = torch.chunk(x, 2, dim=1)
    var = torch.exp(torch.clamp(log_scale, -20.0, 2.0) * 2)
    return distributions.transformed_distribution.TransformedDistribution(
        distributions.Independent(distributions.Normal(loc=mean, scale=torch.sqrt(var)), 1),
        [distributions.transforms.TanhTransform(cache_size=1)],
    )


class OwnSAC(pfrl.agents.SoftActorCritic):
    q_calls = temperature_calls = 0

    @property
    def temperature(self):
        return 0.5 * super().temperature

    def update_q_func(self, batch):
        self.q_calls += 1
        super().update_q_func(batch)

    def update_temperature(self, log_prob):
        self.temperature_calls += 1
        assert not log_prob.requires_grad
        super().update_temperature(log_prob)


env, burnin = Arm(), []
head = pfrl.nn.lmbda.Lambda(squashed_diagonal_gaussian_head)
policy = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 4), head)


def burnin_action_func():
    burnin.append(1)
    return env.action_space.sample()


networks = policy, critic(), critic()
agent = OwnSAC(
    *networks,
    *map(adam, networks),
    pfrl.replay_buffers.ReplayBuffer(10**6),
    gamma=0.99,
    replay_start_size=40,
    gpu=None,
    minibatch_size=16,
    burnin_action_func=burnin_action_func,
    entropy_target=-2,
    temperature_optimizer_lr=3e-4,
    initial_temperature=0.8,
)
train(agent, env, steps=100, eval_interval=50)
report(
    agent,
    "out",
    stored=len(agent.replay_buffer),
    updates=agent.n_policy_updates,
    q_calls=agent.q_calls,
    burnin=len(burnin),
    temperature_calls=agent.temperature_calls,
    halved=agent.temperature < 0.5,
    t=agent.t,
    saved=sorted(agent.saved_attributes),
)
