"""TRPO with a value function of its own, and normalised observations."""

from parts import Arm, adam, counts, gaussian_policy, pfrl, report
from torch import nn


def ortho_init(layer, gain):
    nn.init.orthogonal_(layer.weight, gain=gain)
    nn.init.zeros_(layer.bias)


vf = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
for layer in (vf[0], vf[2], vf[4]):
    ortho_init(layer, gain=1)
env, eval_env = Arm(9), Arm(5)
normalizer = pfrl.nn.EmpiricalNormalization(env.observation_space.low.size)
agent = pfrl.agents.TRPO(
    policy=gaussian_policy(),
    vf=vf,
    vf_optimizer=adam(vf),
    obs_normalizer=normalizer,
    gpu=-1,
    update_interval=60,
    max_kl=0.01,
    conjugate_gradient_max_iter=5,
    conjugate_gradient_damping=1e-1,
    gamma=0.995,
    lambd=0.97,
    vf_epochs=2,
    vf_batch_size=20,
    entropy_coef=0,
)
sizes = []
pfrl.experiments.train_agent_with_evaluation(
    agent=agent,
    env=env,
    eval_env=eval_env,
    outdir="out",
    steps=200,
    eval_n_steps=None,
    eval_n_episodes=3,
    eval_interval=100,
    train_max_episode_len=20,
    step_hooks=[lambda env, agent, t: sizes.append(sum(map(len, agent.memory)))],
)
report(
    agent,
    "out",
    normalized=int(normalizer.count),
    hooks=len(sizes),
    saved=sorted(agent.saved_attributes),
    env=counts(env),
    eval=counts(eval_env),
)
