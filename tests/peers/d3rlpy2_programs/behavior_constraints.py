"""AWAC, CRR, BEAR, BCQ, PLAS and TD3+BC on one dataset of Pendulum, in a loop over configs."""

import sys

import d3rlpy
import gymnasium as gym
import numpy as np
from d3rlpy.algos import AWACConfig, BCQConfig, BEARConfig, CRRConfig, PLASConfig, TD3PlusBCConfig
from d3rlpy.dataset import MDPDataset
from d3rlpy.models import VectorEncoderFactory

seed = int(sys.argv[1])
d3rlpy.seed(seed)
env = gym.make("Pendulum-v1")
env.reset(seed=seed)


def controller(observation):
    """Swing up by energy, then balance, with noise."""
    cos, sin, velocity = observation
    angle = np.arctan2(sin, cos)
    lacking_energy = 5 - velocity**2 / 6 - 5 * cos
    torque = -12 * angle - 3 * velocity if cos > 0.8 else 3 * lacking_energy * np.sign(velocity)
    return np.clip([torque + np.random.normal(0, 0.5)], -2, 2).astype(np.float32)


columns = {"observations": [], "actions": [], "rewards": [], "terminals": [], "timeouts": []}
for _ in range(8):
    observation, _ = env.reset()
    truncated = False
    while not truncated:
        action = controller(observation)
        following, reward, terminated, truncated, _ = env.step(action)
        for name, value in zip(columns, (observation, action, reward, terminated, truncated), strict=True):
            columns[name].append(value)
        observation = following
dataset = MDPDataset(**{name: np.array(values, dtype=np.float32) for name, values in columns.items()})

encoder = VectorEncoderFactory([64, 64])
networks = dict(actor_encoder_factory=encoder, critic_encoder_factory=encoder)
common = dict(
    **networks,
    batch_size=64,
    actor_learning_rate=3e-3,
    critic_learning_rate=1e-3,
    action_scaler=d3rlpy.preprocessing.MinMaxActionScaler(),
    reward_scaler=d3rlpy.preprocessing.MultiplyRewardScaler(0.1),
)
configs = [
    AWACConfig(**common),
    CRRConfig(n_action_samples=4, advantage_type="mean", weight_type="exp", **common),
    BEARConfig(imitator_encoder_factory=encoder, n_target_samples=4, n_mmd_action_samples=4, warmup_steps=50, **common),
    BCQConfig(imitator_encoder_factory=encoder, n_action_samples=10, rl_start_step=50, **common),
    PLASConfig(imitator_encoder_factory=encoder, warmup_steps=50, **common),
    TD3PlusBCConfig(alpha=2.5, **common),
]
observations, actions = dataset.episodes[0].observations[:4], dataset.episodes[0].actions[:4]
arrays, metrics, returns = {}, {}, []
for config in configs:
    name = config.get_type()
    algo = config.create(device=False)
    history = algo.fit(
        dataset, n_steps=150, n_steps_per_epoch=75, experiment_name=name, with_timestamp=False, show_progress=False
    )
    arrays[f"{name}_predict"] = algo.predict(observations)
    arrays[f"{name}_sample"] = algo.sample_action(observations)
    arrays[f"{name}_value"] = algo.predict_value(observations, actions)
    metrics.update({f"{name}_{metric}": value for metric, value in history[-1][1].items()})
    env.reset(seed=seed)
    returns.append(d3rlpy.metrics.evaluate_qlearning_with_environment(algo, env, n_trials=2))

# A test reads this
result = {"arrays": arrays, "metrics": metrics, "returns": [np.mean(returns)]}
