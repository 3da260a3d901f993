"""Discrete CQL on small images that the dataset stacks; the environment stacks them with `FrameStack`."""

import sys

import d3rlpy
import gymnasium as gym
import numpy as np
from d3rlpy.dataset import FrameStackTrajectorySlicer, FrameStackTransitionPicker, MDPDataset

SIZE = 12


class Catch(gym.Env):
    """A ball falls; the paddle in the last row moves left, stays or moves right."""

    observation_space = gym.spaces.Box(0, 255, (SIZE, SIZE), np.uint8)
    action_space = gym.spaces.Discrete(3)

    def _image(self):
        image = np.zeros((SIZE, SIZE), np.uint8)
        image[self.row, self.ball] = 255
        image[-1, self.paddle] = 128
        return image

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.row, self.ball, self.paddle = 0, int(self.np_random.integers(SIZE)), SIZE // 2
        return self._image(), {}

    def step(self, action):
        self.row += 1
        self.paddle = int(np.clip(self.paddle + action - 1, 0, SIZE - 1))
        terminated = self.row == SIZE - 1
        return self._image(), float(terminated and abs(self.ball - self.paddle) < 2), terminated, False, {}


seed = int(sys.argv[1])
d3rlpy.seed(seed)
env = Catch()
env.reset(seed=seed)
observations, actions, rewards, terminals = [], [], [], []
for _ in range(60):
    observation, _ = env.reset()
    terminated = False
    while not terminated:
        action = np.random.randint(3)
        if np.random.random() < 0.5:
            action = int(np.sign(env.ball - env.paddle)) + 1
        observations.append(observation[None])
        observation, reward, terminated, _, _ = env.step(action)
        actions.append(action)
        rewards.append(reward)
        terminals.append(float(terminated))
dataset = MDPDataset(
    observations=np.array(observations),
    actions=np.array(actions),
    rewards=np.array(rewards),
    terminals=np.array(terminals),
    transition_picker=FrameStackTransitionPicker(n_frames=3),
    trajectory_slicer=FrameStackTrajectorySlicer(n_frames=3),
)

cql = d3rlpy.algos.DiscreteCQLConfig(
    batch_size=32,
    learning_rate=1e-3,
    alpha=1.0,
    target_update_interval=50,
    encoder_factory=d3rlpy.models.PixelEncoderFactory(filters=[[8, 4, 2], [16, 3, 1]], feature_size=64),
    observation_scaler=d3rlpy.preprocessing.PixelObservationScaler(),
).create()
eval_env = d3rlpy.envs.FrameStack(Catch(), num_stack=3)
eval_env.reset(seed=seed)
history = cql.fit(
    dataset,
    n_steps=200,
    n_steps_per_epoch=100,
    experiment_name="catch",
    with_timestamp=False,
    show_progress=False,
    evaluators={
        "environment": d3rlpy.metrics.EnvironmentEvaluator(eval_env, n_trials=10),
        "match": d3rlpy.metrics.DiscreteActionMatchEvaluator(),
        "value": d3rlpy.metrics.InitialStateValueEstimationEvaluator(),
    },
)

batch = dataset.sample_transition_batch(4)
trajectory = dataset.sample_trajectory(15)
first = dataset.transition_picker(dataset.episodes[0], 0)
padded = dataset.trajectory_slicer(dataset.episodes[0], 2, 5)
# A test reads this
result = {
    "arrays": {
        "predict": cql.predict(batch.observations),
        "value": cql.predict_value(batch.observations, batch.actions),
        "observations": batch.observations,
        "next_observations": batch.next_observations,
        "trajectory": trajectory.observations,
        "trajectories": dataset.sample_trajectory_batch(2, 4).observations,
        "masks": trajectory.masks,
        "first": first.observation,
        "padded": padded.observations,
    },
    "values": {
        "observation_shape": np.array(cql.observation_shape),
        "first_sums": first.observation.sum((1, 2)),
        "padded_sums": padded.observations.sum((2, 3)),
        "padded_masks": padded.masks,
    },
    "metrics": history[-1][1],
    "returns": [metrics["environment"] for _, metrics in history],
}
