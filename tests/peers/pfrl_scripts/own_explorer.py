"""Explorers of the user's own, and those of the library, in DQN and DDPG."""

import numpy as np
from parts import Arm, Walk, adam, critic, dqn, pfrl, report
from torch import nn


class Cycle(pfrl.explorer.Explorer):
    """Takes each action in turn at every third step."""

    def __init__(self):
        self.steps, self.greedy = [], 0

    def select_action(self, t, greedy_action_func, action_value=None):
        self.steps.append(t)
        assert action_value.q_values.shape == (1, 3)
        if t % 3 == 0:
            return t // 3 % 3
        self.greedy += 1
        return greedy_action_func()

    def __repr__(self):
        return "Cycle()"


class Halved(pfrl.explorers.AdditiveGaussian):
    calls = 0

    def select_action(self, t, greedy_action_func, action_value=None):
        self.calls += 1
        return super().select_action(t, lambda: greedy_action_func() / 2, action_value)


def trained(explorer):
    agent = dqn(explorer=explorer)
    pfrl.experiments.train_agent(agent, Walk(), steps=60, outdir="dqn")
    return agent


own = Cycle()
agent = trained(own)
others = [
    trained(pfrl.explorers.Boltzmann(T=0.5)).optim_t,
    trained(pfrl.explorers.ExponentialDecayEpsilonGreedy(1.0, 0.1, 0.9, lambda: np.random.randint(3))).optim_t,
    trained(pfrl.explorers.LinearDecayEpsilonGreedy(1.0, 0.1, 50, lambda: np.random.randint(3))).optim_t,
]
bound = pfrl.nn.BoundByTanh(low=[-1, -1], high=[1, 1])
policy = nn.Sequential(nn.Linear(4, 2), bound, pfrl.policies.DeterministicHead())
q_func, halved = critic(), Halved(0.1, low=-1, high=1)
ddpg = pfrl.agents.DDPG(
    policy,
    q_func,
    adam(policy),
    adam(q_func),
    pfrl.replay_buffers.ReplayBuffer(500),
    0.9,
    explorer=halved,
    replay_start_size=32,
    minibatch_size=16,
)
pfrl.experiments.train_agent(ddpg, Arm(), steps=60, outdir="ddpg")
report(
    ddpg,
    steps=own.steps,
    greedy=own.greedy,
    updates=[agent.optim_t, *others, ddpg.n_updates],
    calls=halved.calls,
    last=[int(item["action"]) for each in list(agent.replay_buffer.memory)[:4] for item in each][::3],
    names=[repr(own), type(halved).__name__],
)
