"""REINFORCE with a batch of episodes, backward passes one by one, and a directory of prepare_output_dir."""

import torch
from parts import Walk, counts, pfrl, report, train
from torch import nn

pfrl.utils.set_random_seed(7)

model = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 3), pfrl.policies.SoftmaxCategoricalHead())
steps = []


class CountedAdam(torch.optim.Adam):
    def step(self, closure=None):
        steps.append(1)
        return super().step(closure)


agent = pfrl.agents.REINFORCE(
    model,
    CountedAdam(model.parameters(), lr=1e-3),
    gpu=None,
    beta=1e-3,
    batchsize=4,
    max_grad_norm=1.0,
    backward_separately=True,
    act_deterministically=True,
)
outdir = pfrl.experiments.prepare_output_dir({"steps": 200}, "results", exp_id="run", argv=["script.py"])
env = Walk(7)
options = dict(outdir=outdir, eval_env=Walk(5), checkpoint_freq=100)
returned, history = train(agent, env, steps=200, eval_interval=60, eval_n_episodes=3, **options)
report(
    agent,
    outdir,
    updates=len(steps),
    outdir=outdir,
    same=returned is agent,
    history=[sorted(each) for each in history],
    env=counts(env),
)
