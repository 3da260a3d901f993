"""Transition pickers and a trajectory slicer of the user, beside those of the library, and what they feed."""

import dataclasses
import sys

import d3rlpy
import gymnasium as gym
import numpy as np
from d3rlpy.dataset import (
    BasicTrajectorySlicer,
    BasicTransitionPicker,
    Episode,
    InfiniteBuffer,
    MultiStepTransitionPicker,
    PartialTrajectory,
    ReplayBuffer,
    SparseRewardTransitionPicker,
    Transition,
    TransitionPickerProtocol,
)

seed = int(sys.argv[1])
d3rlpy.seed(seed)
env = gym.make("CartPole-v1")
env.reset(seed=seed)


class SurvivalPicker(TransitionPickerProtocol):
    """Pays -1 at the pole's fall and 0 before."""

    def __init__(self):
        self.picker = BasicTransitionPicker()

    def __call__(self, episode, index):
        transition = self.picker(episode, index)
        return dataclasses.replace(transition, reward=np.array([-transition.terminal], dtype=np.float32))


def without_velocities(episode, index: int) -> Transition:
    """A picker that is a function: hides the velocities from the algorithm."""
    transition = BasicTransitionPicker()(episode, index)
    mask = np.array([1, 0, 1, 0], dtype=np.float32)
    return dataclasses.replace(
        transition, observation=transition.observation * mask, next_observation=transition.next_observation * mask
    )


class TailSlicer:
    """Slices that end at the episode's end."""

    def __call__(self, episode, end_index: int, size: int) -> PartialTrajectory:
        return BasicTrajectorySlicer()(episode, episode.size() - 1, size)


episodes = d3rlpy.algos.DiscreteRandomPolicyConfig().create().collect(env, n_steps=600, show_progress=False).episodes
pickers = {
    "multi_step": MultiStepTransitionPicker(n_steps=3, gamma=0.99),
    "sparse": SparseRewardTransitionPicker(failure_return=-5.0, step_reward=1.0),
    "survival": SurvivalPicker(),
    "function": without_velocities,
}
arrays, values, metrics, returns = {}, {}, {}, []
for name, picker in pickers.items():
    dataset = ReplayBuffer(InfiniteBuffer(), picker, trajectory_slicer=TailSlicer(), episodes=episodes)
    algo = d3rlpy.algos.DoubleDQNConfig(
        batch_size=32, learning_rate=1e-3, target_update_interval=50,
        encoder_factory=d3rlpy.models.VectorEncoderFactory([32, 32]),
    ).create()  # fmt: skip
    history = algo.fit(
        dataset, n_steps=40, n_steps_per_epoch=40, experiment_name=name, with_timestamp=False, show_progress=False,
        evaluators={"td_error": d3rlpy.metrics.TDErrorEvaluator()},
    )  # fmt: skip
    returns.append(d3rlpy.metrics.evaluate_qlearning_with_environment(algo, env, n_trials=5))
    metrics.update({f"{name}_{metric}": value for metric, value in history[-1][1].items()})
    picked = picker(episodes[0], episodes[0].transition_count - 1)
    batch = dataset.sample_transition_batch(8)
    trajectory = dataset.sample_trajectory_batch(4, length=5)
    values[name] = np.array([picked.terminal, picked.interval, *picked.reward, *picked.next_observation])
    for column in ("observations", "actions", "rewards", "next_observations", "next_actions", "terminals", "intervals"):
        arrays[f"{name}_{column}"] = getattr(batch, column)
    arrays[f"{name}_timesteps"], arrays[f"{name}_returns"] = trajectory.timesteps, trajectory.returns_to_go

# Arithmetic that can be checked by hand.
episode = Episode(np.eye(4, dtype=np.float32), np.arange(4)[:, None], np.array([[0.0], [1.0], [0.0], [0.0]]), False)
three = pickers["multi_step"](episode, 0)
sparse = SparseRewardTransitionPicker(failure_return=-5.0, step_reward=0.0)
values.update(
    three_steps=three.reward,
    intervals=np.array([three.interval, pickers["multi_step"](episode, 2).interval, episode.transition_count]),
    rewards_to_go=np.array([sparse(episode, index).rewards_to_go.sum() for index in range(3)]),
    next_observation=three.next_observation,
)
arrays["rewards_to_go"] = sparse(episode, 2).rewards_to_go

# A test reads this
result = {"arrays": arrays, "values": values, "metrics": metrics, "returns": [np.mean(returns)]}
