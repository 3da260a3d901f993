"""CQL on Pendulum data of a random policy: schedules of learning rates, clipped gradients, three critics."""

import sys

import d3rlpy
import gymnasium as gym
import numpy as np
from d3rlpy.models import QRQFunctionFactory, VectorEncoderFactory
from d3rlpy.optimizers import AdamFactory, AdamWFactory, CosineAnnealingLRFactory, WarmupSchedulerFactory
from d3rlpy.preprocessing import MinMaxActionScaler

seed = int(sys.argv[1])
env, eval_env = gym.make("Pendulum-v1"), gym.make("Pendulum-v1")
d3rlpy.envs.seed_env(env, seed)
d3rlpy.envs.seed_env(eval_env, seed)

scaler = MinMaxActionScaler(minimum=env.action_space.low, maximum=env.action_space.high)
behavior = d3rlpy.algos.RandomPolicyConfig(distribution="uniform", action_scaler=scaler).create()
dataset = d3rlpy.dataset.create_fifo_replay_buffer(limit=5000, env=env)
d3rlpy.seed(seed)
behavior.collect(env, buffer=dataset, n_steps=2000, show_progress=False)

steps = 200
encoder = VectorEncoderFactory(hidden_units=[64, 64])
cql = d3rlpy.algos.CQLConfig(
    batch_size=64,
    actor_learning_rate=1e-3,
    critic_learning_rate=3e-3,
    temp_learning_rate=1e-3,
    alpha_learning_rate=0.0,
    conservative_weight=1.0,
    n_action_samples=4,
    n_critics=3,
    actor_encoder_factory=encoder,
    critic_encoder_factory=encoder,
    q_func_factory=QRQFunctionFactory(n_quantiles=8),
    actor_optim_factory=AdamFactory(lr_scheduler_factory=CosineAnnealingLRFactory(T_max=steps), clip_grad_norm=1.0),
    critic_optim_factory=AdamWFactory(weight_decay=1e-4, lr_scheduler_factory=WarmupSchedulerFactory(warmup_steps=50)),
    action_scaler=scaler,
    reward_scaler=d3rlpy.preprocessing.StandardRewardScaler(),
).create(device=False)
rates = []


def learning_rates(modules):
    return [wrapper.optim.param_groups[0]["lr"] for wrapper in (modules.actor_optim, modules.critic_optim)]


history = cql.fit(
    dataset,
    n_steps=steps,
    n_steps_per_epoch=steps // 2,
    evaluators={
        "environment": d3rlpy.metrics.EnvironmentEvaluator(eval_env, n_trials=3),
        "action_diff": d3rlpy.metrics.ContinuousActionDiffEvaluator(),
    },
    experiment_name="cql",
    with_timestamp=False,
    show_progress=False,
    callback=lambda algo, epoch, step: rates.append(learning_rates(algo.impl.modules)),
)
cql.save_model("cql.pt")

observations = dataset.episodes[0].observations[:5]
# A test reads this
result = {
    "arrays": {
        "predict": cql.predict(observations),
        "sample": cql.sample_action(observations),
        "value": cql.predict_value(observations, dataset.episodes[0].actions[:5]),
    },
    "values": {"learning_rates": np.array(rates)[::10]},
    "metrics": history[-1][1],
    "returns": [metrics["environment"] for _, metrics in history],
}
