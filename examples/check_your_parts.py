"""Checks your own parts: a Q-function and an explorer in an agent, a replay buffer, and an environment.

    python examples/check_your_parts.py

Each check takes seconds; it passes in silence, or raises an AssertionError that names the contract that is broken.
"""

import gymnasium
import numpy as np
import torch
from torch import nn

from pfrl_like import agents, q_functions, replay_buffers, testing
from pfrl_like.explorer import Explorer


class EveryTenthAtRandom(Explorer):
    """An explorer of one method."""

    def select_action(self, t, greedy_action_func, action_value=None):
        """A random action at every tenth step, the greedy one otherwise."""
        return np.random.randint(2) if t % 10 == 0 else greedy_action_func()


class ThreeSteps(replay_buffers.ReplayBuffer):
    """A buffer of 3-step transitions."""

    def __init__(self, capacity=None):
        super().__init__(capacity, num_steps=3)


class Coin(gymnasium.Env):
    """Guess what a coin will show; ten guesses are an episode."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        """Start an episode; the observation is the share of guesses that were made."""
        super().reset(seed=seed)
        self.guesses = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        """Guess."""
        self.guesses += 1
        obs = np.array([self.guesses / 10], np.float32)
        return obs, float(action == self.np_random.integers(2)), self.guesses == 10, False, {}


def make_agent(**options):
    """A new agent that begins to learn at once; `check_agent` gives options of its own, which are handed on.

    The default environment of `check_agent` gives one-hot observations, float32 [5], and takes the actions 0 and 1.
    """
    q_function = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2), q_functions.DiscreteActionValueHead())
    return agents.DQN(
        q_function,
        torch.optim.Adam(q_function.parameters(), lr=1e-2),
        ThreeSteps(1_000),
        gamma=0.9,
        explorer=EveryTenthAtRandom(),
        replay_start_size=10,
        minibatch_size=4,
        target_update_interval=5,
        **options,
    )


def main() -> None:
    torch.set_num_threads(1)  # networks this small are slower on several threads
    testing.check_replay_buffer(ThreeSteps)
    testing.check_env(Coin())
    testing.check_agent(make_agent)
    print("every part keeps its contracts")


if __name__ == "__main__":
    main()
