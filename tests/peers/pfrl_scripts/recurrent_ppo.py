"""Recurrent PPO with truncated sequences on several environments."""

from parts import Walk, adam, counts, pfrl, report, train
from torch import nn

model = pfrl.nn.RecurrentSequential(
    nn.Linear(4, 8),
    nn.Tanh(),
    nn.GRU(num_layers=1, input_size=8, hidden_size=8),
    pfrl.nn.Branched(nn.Sequential(nn.Linear(8, 3), pfrl.policies.SoftmaxCategoricalHead()), nn.Linear(8, 1)),
)
agent = pfrl.agents.PPO(
    model,
    adam(model, lr=1e-3),
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
env, eval_env = pfrl.envs.SerialVectorEnv(envs), pfrl.envs.SerialVectorEnv([Walk(3), Walk(3), Walk(3)])
train(agent, env, steps=240, eval_interval=96, eval_n_episodes=3, eval_env=eval_env, step_hooks=[decay])
report(
    agent,
    "out",
    updates=agent.n_updates > 0,
    left=sum(len(episode) for episode in agent.memory),
    hooks=len(lrs),
    last=round(lrs[-1], 9),
    env=[counts(each) for each in envs],
)
