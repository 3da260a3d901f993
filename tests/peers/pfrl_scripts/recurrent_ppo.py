"""Recurrent PPO with truncated sequences on several environments."""

import sys
from importlib import import_module

import torch
from parts import Walk, files, keys, report, scores
from torch import nn

pfrl = import_module(sys.argv[1])

model = pfrl.nn.RecurrentSequential(
    nn.Linear(4, 8),
    nn.Tanh(),
    nn.GRU(num_layers=1, input_size=8, hidden_size=8),
    pfrl.nn.Branched(nn.Sequential(nn.Linear(8, 3), pfrl.policies.SoftmaxCategoricalHead()), nn.Linear(8, 1)),
)
agent = pfrl.agents.PPO(
    model,
    torch.optim.Adam(model.parameters(), lr=1e-3),
    gamma=0.97,
    lambd=0.9,
    update_interval=48,
    minibatch_size=16,
    epochs=2,
    recurrent=True,
    max_recurrent_sequence_len=5,
    clip_eps=0.1,
    clip_eps_vf=0.1,
    max_grad_norm=0.5,
)
envs = [Walk(7), Walk(7), Walk(9)]
lrs = []
decay = pfrl.experiments.LinearInterpolationHook(240, 1e-3, 0, lambda env, agent, value: lrs.append(float(value)))
pfrl.experiments.train_agent_batch_with_evaluation(
    agent,
    pfrl.envs.SerialVectorEnv(envs),
    steps=240,
    eval_n_steps=None,
    eval_n_episodes=3,
    eval_interval=96,
    outdir="out",
    eval_env=pfrl.envs.SerialVectorEnv([Walk(3), Walk(3), Walk(3)]),
    step_hooks=[decay],
)
report(
    updates=agent.n_updates > 0,
    left=sum(len(episode) for episode in agent.memory),
    hooks=len(lrs),
    last=round(lrs[-1], 9),
    env=[[env.n_steps, env.n_resets] for env in envs],
    scores=scores("out"),
    files=files("out"),
    keys=keys(agent.get_statistics()),
)
