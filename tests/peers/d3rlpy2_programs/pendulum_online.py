"""SAC, then DDPG and TD3 with normal noise, learn Pendulum online."""

import sys

import d3rlpy
import gymnasium
import numpy as np
from d3rlpy.algos import DDPGConfig, NormalNoise, SACConfig, TD3Config
from d3rlpy.preprocessing import MinMaxActionScaler

SEED = int(sys.argv[1])
d3rlpy.seed(SEED)
env, eval_env = gymnasium.make("Pendulum-v1"), gymnasium.make("Pendulum-v1")
for each in (env, eval_env):
    d3rlpy.envs.seed_env(each, SEED)

encoder = d3rlpy.models.VectorEncoderFactory([64, 64])
options = {
    "batch_size": 64, "gamma": 0.95, "tau": 0.02, "actor_learning_rate": 3e-3, "critic_learning_rate": 3e-3,
    "actor_encoder_factory": encoder, "critic_encoder_factory": encoder,
    "action_scaler": MinMaxActionScaler(minimum=np.array([-2.0]), maximum=np.array([2.0])),
}  # fmt: skip
sac = SACConfig(temp_learning_rate=3e-3, initial_temperature=0.2, **options).create(device=False)
sac.fit_online(
    env, d3rlpy.dataset.create_fifo_replay_buffer(limit=100000, env=env), n_steps=3000, n_steps_per_epoch=1000,
    update_interval=1, n_updates=1, update_start_step=300, random_steps=300, eval_env=eval_env, eval_n_trials=2,
    show_progress=False,
)  # fmt: skip
returns = [d3rlpy.metrics.evaluate_qlearning_with_environment(sac, eval_env, n_trials=20)]

observations = np.array([env.observation_space.sample() for _ in range(5)])
arrays = {"SAC": sac.predict(observations), "SAC sample": sac.sample_action(observations)}
arrays["SAC value"] = sac.predict_value(observations, arrays["SAC"])
for config in (DDPGConfig(**options), TD3Config(**options, target_smoothing_sigma=0.2, update_actor_interval=2)):
    algo = config.create()
    noise = NormalNoise(mean=0.0, std=0.2)
    buffer = d3rlpy.dataset.ReplayBuffer(d3rlpy.dataset.InfiniteBuffer(), env=env)
    algo.fit_online(
        env, buffer, noise, n_steps=600, n_steps_per_epoch=300, update_interval=2, update_start_step=100,
        experiment_name=f"pendulum_{type(algo).__name__.lower()}", show_progress=False,
    )  # fmt: skip
    returns.append(d3rlpy.metrics.evaluate_qlearning_with_environment(algo, eval_env, n_trials=5))
    name = type(algo).__name__
    arrays[name], arrays[f"{name} noise"] = algo.predict(observations), noise.sample(algo, observations, 1)
    assert np.abs(arrays[f"{name} noise"]).max() <= 2.0
    arrays[f"{name} buffer"] = np.array([buffer.size(), buffer.transition_count, algo.grad_step])

# A test reads this
result = {"arrays": arrays, "returns": returns}
