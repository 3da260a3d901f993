"""Tuple observations: a dataset, an encoder factory and an environment of the user, with DiscreteSAC and DiscreteBC."""

import dataclasses
import sys

import d3rlpy
import gymnasium as gym
import numpy as np
import torch
from d3rlpy.dataset import MDPDataset
from d3rlpy.models.encoders import EncoderFactory, register_encoder_factory
from d3rlpy.preprocessing import StandardObservationScaler, TupleObservationScaler
from torch import nn


class TupleEncoder(nn.Module):
    """One branch for each part, concatenated."""

    def __init__(self, shapes, n_features):
        super().__init__()
        self.branches = nn.ModuleList([nn.Linear(shape[0], 16) for shape in shapes])
        self.out = nn.Linear(16 * len(shapes), n_features)

    def forward(self, x):
        features = [torch.relu(branch(part)) for branch, part in zip(self.branches, x, strict=True)]
        return torch.relu(self.out(torch.cat(features, dim=1)))


@dataclasses.dataclass()
class TupleEncoderFactory(EncoderFactory):
    """Factory of `TupleEncoder`."""

    n_features: int = 32

    def create(self, observation_shape):
        return TupleEncoder(observation_shape, self.n_features)

    @staticmethod
    def get_type() -> str:
        return "tuple_of_vectors"


register_encoder_factory(TupleEncoderFactory)


class PositionsAndVelocities(gym.ObservationWrapper):
    """CartPole with a tuple of positions and velocities, and a constant."""

    def __init__(self, env):
        super().__init__(env)
        low, high = np.full(2, -np.inf, np.float32), np.full(2, np.inf, np.float32)
        self.observation_space = gym.spaces.Tuple(
            [gym.spaces.Box(low, high), gym.spaces.Box(low, high), gym.spaces.Box(low[:1], high[:1])]
        )

    def observation(self, observation):
        return observation[[0, 2]], observation[[1, 3]], np.ones(1, np.float32)


seed = int(sys.argv[1])
d3rlpy.seed(seed)
env = PositionsAndVelocities(gym.make("CartPole-v1"))
env.reset(seed=seed)
parts, actions, rewards, terminals = ([], [], []), [], [], []
for _ in range(40):
    observation, _ = env.reset()
    terminated = False
    while not terminated:
        positions, velocities, _ = observation
        action = int(positions[1] + velocities[1] > 0) if np.random.random() < 0.6 else np.random.randint(2)
        for part, value in zip(parts, observation, strict=True):
            part.append(value)
        observation, reward, terminated, truncated, _ = env.step(action)
        actions.append(action)
        rewards.append(reward)
        terminals.append(terminated)
        if truncated:
            terminals[-1] = True
            break
dataset = MDPDataset(
    observations=tuple(np.array(part) for part in parts),
    actions=np.array(actions),
    rewards=np.array(rewards),
    terminals=np.array(terminals, dtype=np.float32),
)

factory = TupleEncoderFactory(n_features=24)
sac = d3rlpy.algos.DiscreteSACConfig(
    batch_size=64, actor_learning_rate=1e-3, critic_learning_rate=1e-3, target_update_interval=20,
    actor_encoder_factory=factory, critic_encoder_factory=factory,
    observation_scaler=TupleObservationScaler([StandardObservationScaler() for _ in range(3)]),
).create()  # fmt: skip
bc = d3rlpy.algos.DiscreteBCConfig(batch_size=64, learning_rate=1e-3, encoder_factory=factory).create()

arrays, values, metrics, returns = {}, {}, {}, []
window = [part[:5] for part in dataset.episodes[0].observations]
for name, algo in {"sac": sac, "bc": bc}.items():
    history = algo.fit(
        dataset, n_steps=200, n_steps_per_epoch=100, experiment_name=name, with_timestamp=False, show_progress=False,
        evaluators={
            "environment": d3rlpy.metrics.EnvironmentEvaluator(env, n_trials=5),
            "match": d3rlpy.metrics.DiscreteActionMatchEvaluator(),
        },
    )  # fmt: skip
    returns.append(history[-1][1]["environment"])
    metrics.update({f"{name}_{metric}": value for metric, value in history[-1][1].items()})
    arrays[f"{name}_predict"] = algo.predict(window)
    algo.save(f"{name}.d3")
arrays["sac_sample"] = sac.sample_action(window)
arrays["sac_value"] = sac.predict_value(window, np.array([0, 1, 0, 1, 0]))
again = d3rlpy.load_learnable("sac.d3")
values["same_after_load"] = again.predict(window) == arrays["sac_predict"]
values["shapes"] = np.array(again.observation_shape)

batch = dataset.sample_transition_batch(3)
for i, part in enumerate(batch.observations):
    arrays[f"observations_{i}"] = part
trajectory = dataset.sample_trajectory(4)
for i, part in enumerate(trajectory.observations):
    arrays[f"trajectory_{i}"] = part
with open("tuple.h5", "w+b") as file:
    dataset.dump(file)
with open("tuple.h5", "rb") as file:
    loaded = d3rlpy.dataset.ReplayBuffer.load(file, d3rlpy.dataset.InfiniteBuffer())
values["transitions"] = np.array([loaded.transition_count, dataset.transition_count, loaded.size()])
values["signature"] = np.array(loaded.dataset_info.observation_signature.shape)

# A test reads this
result = {"arrays": arrays, "values": values, "metrics": metrics, "returns": returns}
