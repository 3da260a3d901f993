"""Implicit Q-learning on a dataset in the form of Minari's: an episode has an observation more than actions."""

import sys
from dataclasses import dataclass

import d3rlpy
import gymnasium as gym
import numpy as np


@dataclass
class EpisodeData:
    """An episode as Minari returns it."""

    id: int
    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminations: np.ndarray
    truncations: np.ndarray


def controlled(obs, rng):
    """Pump energy into the pendulum, then hold it upright."""
    cos, sin, velocity = obs
    angle = np.arctan2(sin, cos)
    if cos > 0.8:
        torque = -10.0 * angle - 2.0 * velocity
    else:
        torque = 2.0 * np.sign(velocity) * np.sign(1.0 - cos - velocity**2 / 30.0 + 0.5)
    return np.clip(torque + 0.3 * rng.normal(size=1), -2.0, 2.0).astype(np.float32)


def load_dataset(env, n_episodes, seed):
    """Record the episodes of the controller."""
    rng = np.random.default_rng(seed)
    for i in range(n_episodes):
        obs, _ = env.reset(seed=100 * seed + i)
        columns = [[obs], [], [], [], []]
        ended = False
        while not ended:
            action = controlled(obs, rng)
            obs, reward, terminated, truncated, _ = env.step(action)
            for column, value in zip(columns, (obs, action, reward, terminated, truncated), strict=True):
                column.append(value)
            ended = terminated or truncated
        yield EpisodeData(i, *(np.array(column) for column in columns))


seed = int(sys.argv[1])
d3rlpy.seed(seed)
env = gym.make("Pendulum-v1")
minari_dataset = list(load_dataset(env, 20, seed))

dataset = d3rlpy.dataset.MDPDataset(
    observations=np.concatenate([episode.observations[:-1] for episode in minari_dataset]),
    actions=np.concatenate([episode.actions for episode in minari_dataset]),
    rewards=np.concatenate([episode.rewards for episode in minari_dataset]),
    terminals=np.concatenate([episode.terminations for episode in minari_dataset]),
    timeouts=np.concatenate([episode.truncations for episode in minari_dataset]),
)

reward_scaler = d3rlpy.preprocessing.ReturnBasedRewardScaler(multiplier=100.0)
iql = d3rlpy.algos.IQLConfig(
    actor_learning_rate=1e-3, critic_learning_rate=1e-3, batch_size=64, weight_temp=3.0, max_weight=100.0,
    expectile=0.7, actor_encoder_factory=d3rlpy.models.VectorEncoderFactory([64, 64]),
    critic_encoder_factory=d3rlpy.models.VectorEncoderFactory([64, 64]),
    value_encoder_factory=d3rlpy.models.VectorEncoderFactory([64, 64]),
    action_scaler=d3rlpy.preprocessing.MinMaxActionScaler(), reward_scaler=reward_scaler,
).create(device=False)  # fmt: skip
env.reset(seed=seed)
results = iql.fit(
    dataset, n_steps=1000, n_steps_per_epoch=500, save_interval=10, show_progress=False,
    evaluators={"environment": d3rlpy.metrics.EnvironmentEvaluator(env, n_trials=10)},
    experiment_name=f"IQL_pendulum_{seed}",
)  # fmt: skip

observations = minari_dataset[0].observations[:7]
actions = iql.predict(observations)
# A test reads this
result = {
    "arrays": {
        "actions": actions, "sample": iql.sample_action(observations),
        "value": iql.predict_value(observations, actions),
    },
    "values": {
        "sizes": np.array([dataset.size(), dataset.transition_count, *dataset.dataset_info.action_signature.shape[0]]),
        "returns": np.array([episode.compute_return() for episode in dataset.episodes]),
    },
    "metrics": results[-1][1], "returns": [results[-1][1]["environment"]],
}  # fmt: skip
