"""IQN with networks of the user's own, and with an `update` that counts."""

import sys
from importlib import import_module

import torch
from parts import Walk, files, keys, report, scores
from torch import nn

pfrl = import_module(sys.argv[1])


class OwnIQN(pfrl.agents.IQN):
    calls, shapes = 0, ()

    def update(self, experiences, errors_out=None):
        self.calls += 1
        self.shapes = sorted({*self.shapes, *map(len, experiences)})
        super().update(experiences, errors_out)


def train(cls, outdir):
    q_func = pfrl.agents.iqn.ImplicitQuantileQFunction(
        psi=nn.Sequential(nn.Linear(4, 16), nn.ReLU()),
        phi=nn.Sequential(pfrl.agents.iqn.CosineBasisLinear(8, 16), nn.ReLU()),
        f=nn.Linear(16, 3),
    )
    env, buffer = Walk(), pfrl.replay_buffers.ReplayBuffer(500, num_steps=2)
    agent = cls(
        q_func,
        torch.optim.Adam(q_func.parameters()),
        buffer,
        gamma=0.9,
        explorer=pfrl.explorers.ConstantEpsilonGreedy(0.2, env.action_space.sample),
        replay_start_size=32,
        minibatch_size=16,
        update_interval=2,
        target_update_interval=20,
        quantile_thresholds_N=6,
        quantile_thresholds_N_prime=5,
        quantile_thresholds_K=4,
        act_deterministically=True,
    )
    pfrl.experiments.train_agent_with_evaluation(
        agent, env, steps=100, eval_n_steps=None, eval_n_episodes=2, eval_interval=50, outdir=outdir
    )
    return agent


first, second = train(OwnIQN, "iqn"), train(pfrl.agents.IQN, "second")
report(
    stored=[len(each.replay_buffer) for each in (first, second)],
    updates=[first.optim_t, second.optim_t],
    calls=first.calls,
    shapes=first.shapes,
    scores=[scores("iqn"), scores("second")],
    files=files("iqn"),
    keys=keys(first.get_statistics()),
    last=keys(second.get_statistics()),
)
