"""TD3+BC with scalers of everything, and with networks that the program registers."""

import dataclasses
import sys

import d3rlpy
import gymnasium
import numpy as np
import torch
from d3rlpy.models import EncoderFactory, register_encoder_factory
from torch import nn


class Encoder(nn.Module):
    """Two layers with a skip connection."""

    def __init__(self, observation_shape, feature_size):
        super().__init__()
        self.feature_size = feature_size
        self.fc1 = nn.Linear(observation_shape[0], feature_size)
        self.fc2 = nn.Linear(feature_size, feature_size)

    def forward(self, x):
        h = torch.relu(self.fc1(x))
        return h + torch.relu(self.fc2(h))


class EncoderWithAction(nn.Module):
    """The same, of observation and action."""

    def __init__(self, observation_shape, action_size, feature_size):
        super().__init__()
        self.feature_size = feature_size
        self.fc1 = nn.Linear(observation_shape[0] + action_size, feature_size)
        self.fc2 = nn.Linear(feature_size, feature_size)

    def forward(self, x, action):
        h = torch.relu(self.fc1(torch.cat([x, action], dim=1)))
        return h + torch.relu(self.fc2(h))


@dataclasses.dataclass()
class SkipEncoderFactory(EncoderFactory):
    """Makes the encoders."""

    feature_size: int = 64

    def create(self, observation_shape):
        return Encoder(observation_shape, self.feature_size)

    def create_with_action(self, observation_shape, action_size, discrete_action=False):
        return EncoderWithAction(observation_shape, action_size, self.feature_size)

    @staticmethod
    def get_type() -> str:
        return "skip"


register_encoder_factory(SkipEncoderFactory)

seed = int(sys.argv[1])
d3rlpy.seed(seed)
env = gymnasium.make("Pendulum-v1")
rng = np.random.default_rng(seed)
columns = {"observations": [], "actions": [], "rewards": [], "terminals": [], "timeouts": []}
for i in range(20):
    obs, _ = env.reset(seed=100 * seed + i)
    for _ in range(200):
        angle = np.arctan2(obs[1], obs[0])
        pump = 2.0 * np.sign(obs[2]) * np.sign(1.5 - obs[0] - obs[2] ** 2 / 30.0)
        swing = -10.0 * angle - 2.0 * obs[2] if obs[0] > 0.8 else pump
        action = np.clip(swing + 0.3 * rng.normal(size=1), -2, 2).astype(np.float32)
        next_obs, reward, terminated, truncated, _ = env.step(action)
        for name, value in zip(columns, (obs, action, reward, terminated, truncated), strict=True):
            columns[name].append(value)
        obs = next_obs
dataset = d3rlpy.dataset.MDPDataset(**{name: np.array(column) for name, column in columns.items()})

td3 = d3rlpy.algos.TD3PlusBCConfig(
    batch_size=64, actor_learning_rate=1e-3, critic_learning_rate=1e-3, alpha=2.5,
    observation_scaler=d3rlpy.preprocessing.StandardObservationScaler(),
    action_scaler=d3rlpy.preprocessing.MinMaxActionScaler(),
    reward_scaler=d3rlpy.preprocessing.MinMaxRewardScaler(multiplier=0.5),
    actor_encoder_factory=SkipEncoderFactory(32), critic_encoder_factory=SkipEncoderFactory(),
).create()  # fmt: skip
test_episodes = dataset.episodes[-3:]
d3rlpy.envs.seed_env(env, seed)
results = td3.fit(
    dataset, n_steps=1200, n_steps_per_epoch=600, show_progress=False,
    evaluators={
        "action_diff": d3rlpy.metrics.ContinuousActionDiffEvaluator(episodes=test_episodes),
        "advantage": d3rlpy.metrics.DiscountedSumOfAdvantageEvaluator(episodes=test_episodes),
        "environment": d3rlpy.metrics.EnvironmentEvaluator(env, n_trials=10),
    },
)  # fmt: skip
td3.save("td3.d3")
loaded = d3rlpy.load_learnable("td3.d3")
observations = test_episodes[0].observations[:6]
actions = td3.predict(observations)
assert np.allclose(loaded.predict(observations), actions)

# A test reads this
result = {
    "arrays": {"actions": actions, "value": td3.predict_value(observations, actions)},
    "values": {
        "mean": td3.observation_scaler.mean, "std": td3.observation_scaler.std,
        "scaled": td3.observation_scaler.transform_numpy(observations),
        "actions": td3.action_scaler.transform_numpy(test_episodes[0].actions[:5]),
        "rewards": td3.reward_scaler.transform_numpy(test_episodes[0].rewards[:5]),
        "feature sizes": np.array([loaded.config.actor_encoder_factory.feature_size, 64]),
    },
    "metrics": results[-1][1], "returns": [results[-1][1]["environment"]],
}  # fmt: skip
