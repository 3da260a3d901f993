"""REINFORCE with a batch of episodes, backward passes one by one, and a directory of prepare_output_dir."""

import sys
from importlib import import_module

import torch
from parts import Walk, files, keys, report, scores
from torch import nn

pfrl = import_module(sys.argv[1])
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
returned, history = pfrl.experiments.train_agent_with_evaluation(
    agent,
    env,
    steps=200,
    eval_n_steps=None,
    eval_n_episodes=3,
    eval_interval=60,
    outdir=outdir,
    eval_env=Walk(5),
    checkpoint_freq=100,
)
report(
    updates=len(steps),
    outdir=outdir,
    same=returned is agent,
    history=[sorted(each) for each in history],
    env=[env.n_steps, env.n_resets],
    scores=scores(outdir),
    files=files(outdir),
    keys=keys(agent.get_statistics()),
)
