"""A2C on several environments, with rewards that a wrapper scales, and RMSprop of PFRL."""

from parts import Walk, actor_critic, categorical_policy, counts, pfrl, report, set_lr, train

model = actor_critic(categorical_policy())
optimizer = pfrl.optimizers.RMSpropEpsInsideSqrt(model.parameters(), lr=7e-4, eps=1e-5, alpha=0.99)
options = dict(gpu=None, num_processes=3, update_steps=5, use_gae=True, tau=0.95, max_grad_norm=0.5)
agent = pfrl.agents.A2C(model, optimizer, gamma=0.99, phi=lambda x: x * 2, **options)
lrs, envs = [], [Walk(8), Walk(11), Walk(13)]


def lr_setter(env, agent, value):
    lrs.append(round(float(value), 9))
    set_lr(env, agent, value)


train(
    agent,
    pfrl.envs.SerialVectorEnv(envs),
    steps=150,
    eval_interval=75,
    eval_n_episodes=3,
    eval_env=pfrl.envs.SerialVectorEnv([Walk(4), Walk(5), Walk(6)]),
    log_interval=50,
    max_episode_len=10,
    step_hooks=[pfrl.experiments.LinearInterpolationHook(150, 7e-4, 0, lr_setter)],
)
report(agent, "out", hooks=len(lrs), lrs=lrs[::25], env=[counts(env) for env in envs])
