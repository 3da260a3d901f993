"""Wrappers of environments, seeds, random policies, explorers and evaluation with noise."""

import sys

import d3rlpy
import gymnasium as gym
import numpy as np
from d3rlpy.algos import ConstantEpsilonGreedy, DDPGConfig, LinearDecayEpsilonGreedy, NormalNoise
from d3rlpy.dataset import create_fifo_replay_buffer, create_infinite_replay_buffer
from d3rlpy.envs import ChannelFirst, FrameStack, GoalConcatWrapper


class Colors(gym.Env):
    """Images of one colour, which the action has to name."""

    def __init__(self, shape=(9, 9, 3)):
        self.observation_space = gym.spaces.Box(0, 255, shape, np.uint8)
        self.action_space = gym.spaces.Discrete(3)

    def _image(self):
        image = np.zeros(self.observation_space.shape, np.uint8)
        if image.ndim == 3:
            image[..., self.color] = 200
        else:
            image[:] = 80 * self.color
        return image

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.color = 0, int(self.np_random.integers(3))
        return self._image(), {}

    def step(self, action):
        reward = float(action == self.color)
        self.t, self.color = self.t + 1, int(self.np_random.integers(3))
        return self._image(), reward, False, self.t == 10, {}


class Reach(gym.Env):
    """A point that moves to a goal, with dicts as observations."""

    def __init__(self):
        box = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = gym.spaces.Dict({"observation": box, "desired_goal": box, "achieved_goal": box})
        self.action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def _observation(self):
        return {"observation": self.at.copy(), "desired_goal": self.goal.copy(), "achieved_goal": self.at.copy()}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.at = 0, np.zeros(2, np.float32)
        self.goal = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self._observation(), {}

    def step(self, action):
        self.t += 1
        self.at = np.clip(self.at + 0.2 * np.asarray(action, np.float32), -1, 1)
        distance = float(np.linalg.norm(self.at - self.goal))
        return self._observation(), -distance, distance < 0.1, self.t == 20, {}


seed = int(sys.argv[1])
d3rlpy.seed(seed)
arrays, values, returns = {}, {}, []

for name, env in {
    "first": ChannelFirst(Colors()),
    "first_of_grey": ChannelFirst(Colors((9, 9))),
    "stack": FrameStack(Colors((9, 9)), num_stack=4),
}.items():
    d3rlpy.envs.seed_env(env, seed)
    observation, _ = env.reset(seed=seed)
    arrays[f"{name}_reset"], arrays[f"{name}_low"] = observation, env.observation_space.low
    arrays[f"{name}_step"] = env.step(0)[0]
    values[f"{name}_sum"] = observation.astype(int).sum((1, 2))
    values[f"{name}_shape"] = np.array(env.observation_space.shape)

env = ChannelFirst(Colors())
env.reset(seed=seed)
dqn = d3rlpy.algos.DQNConfig(
    batch_size=16, learning_rate=1e-3, target_update_interval=20, gamma=0.0,
    encoder_factory=d3rlpy.models.PixelEncoderFactory(filters=[[8, 3, 2]], feature_size=32),
    observation_scaler=d3rlpy.preprocessing.PixelObservationScaler(),
).create()  # fmt: skip
buffer = create_fifo_replay_buffer(limit=100, env=env)
dqn.fit_online(
    env, buffer, LinearDecayEpsilonGreedy(1.0, 0.1, duration=100), n_steps=200, n_steps_per_epoch=100,
    eval_env=ChannelFirst(Colors()), eval_n_trials=2, eval_epsilon=0.05, experiment_name="colors",
    with_timestamp=False, show_progress=False,
)  # fmt: skip
returns.append(d3rlpy.metrics.evaluate_qlearning_with_environment(dqn, env, n_trials=10))
returns.append(d3rlpy.metrics.evaluate_qlearning_with_environment(dqn, env, n_trials=10, epsilon=1.0))
values["transitions"] = np.array([buffer.transition_count, buffer.size()])

goals = GoalConcatWrapper(Reach())
pairs = GoalConcatWrapper(Reach(), tuple_observation=True)
values["goal_reset"] = goals.reset(seed=seed)[0]
for i, part in enumerate(pairs.reset(seed=seed)[0]):
    values[f"pair_{i}"] = np.asarray(part)
values["goal_shape"] = np.array(goals.observation_space.shape)

ddpg = DDPGConfig(
    batch_size=32, actor_learning_rate=1e-3, critic_learning_rate=1e-3,
    actor_encoder_factory=d3rlpy.models.VectorEncoderFactory([32, 32]),
    critic_encoder_factory=d3rlpy.models.VectorEncoderFactory([32, 32]),
).create()  # fmt: skip
data = d3rlpy.algos.RandomPolicyConfig(distribution="normal", normal_std=0.5).create().collect(
    goals, buffer=create_infinite_replay_buffer(env=goals), n_steps=100, show_progress=False
)  # fmt: skip
ddpg.fit_online(
    goals, data, NormalNoise(std=0.1), n_steps=600, n_steps_per_epoch=600, experiment_name="reach",
    with_timestamp=False, show_progress=False,
)  # fmt: skip
returns.append(d3rlpy.metrics.evaluate_qlearning_with_environment(ddpg, goals, n_trials=30))
arrays["goal_actions"] = data.sample_transition_batch(5).actions
arrays["goal_observations"] = data.sample_transition_batch(5).observations

explorers = {"constant": ConstantEpsilonGreedy(0.3), "linear": LinearDecayEpsilonGreedy(1.0, 0.1, 1000)}
images = buffer.sample_transition_batch(6).observations
for name, explorer in explorers.items():
    arrays[f"{name}_action"] = explorer.sample(dqn, images, 500)
arrays["noisy_action"] = NormalNoise(std=0.2).sample(ddpg, arrays["goal_observations"], 0)
values["epsilon"] = np.array(explorers["linear"].compute_epsilon(500))

# A test reads this
result = {"arrays": arrays, "values": values, "returns": returns}
