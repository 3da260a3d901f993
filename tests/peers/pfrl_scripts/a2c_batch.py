"""A2C on several environments, with rewards that a wrapper scales, and RMSprop of PFRL."""

import sys
from importlib import import_module

from parts import Walk, files, keys, report, scores
from torch import nn

pfrl = import_module(sys.argv[1])

model = pfrl.nn.Branched(
    nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3), pfrl.policies.SoftmaxCategoricalHead()),
    nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)),
)
optimizer = pfrl.optimizers.RMSpropEpsInsideSqrt(model.parameters(), lr=7e-4, eps=1e-5, alpha=0.99)
agent = pfrl.agents.A2C(
    model,
    optimizer,
    gamma=0.99,
    gpu=None,
    num_processes=3,
    update_steps=5,
    use_gae=True,
    tau=0.95,
    max_grad_norm=0.5,
    phi=lambda x: x * 2,
)
lrs, envs = [], [Walk(8), Walk(11), Walk(13)]


def lr_setter(env, agent, value):
    lrs.append(round(float(value), 9))
    for group in agent.optimizer.param_groups:
        group["lr"] = value


pfrl.experiments.train_agent_batch_with_evaluation(
    agent,
    pfrl.envs.SerialVectorEnv(envs),
    steps=150,
    eval_n_steps=None,
    eval_n_episodes=3,
    eval_interval=75,
    outdir="out",
    eval_env=pfrl.envs.SerialVectorEnv([Walk(4), Walk(5), Walk(6)]),
    log_interval=50,
    max_episode_len=10,
    step_hooks=[pfrl.experiments.LinearInterpolationHook(150, 7e-4, 0, lr_setter)],
)
report(
    hooks=len(lrs),
    lrs=lrs[::25],
    env=[[env.n_steps, env.n_resets] for env in envs],
    scores=scores("out"),
    files=files("out"),
    keys=keys(agent.get_statistics()),
)
