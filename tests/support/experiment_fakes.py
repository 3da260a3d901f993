"""A counting environment and a recording agent."""

import contextlib
import os

import gymnasium
import numpy as np


class Counting(gymnasium.Env):
    """The observation is the step; an episode terminates after `length` steps and every step pays 1."""

    def __init__(self, length=3, truncate=False, mask=None, needs_reset_at=None):
        self.observation_space = gymnasium.spaces.Box(-1, 1000, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.length, self.truncate, self.mask, self.needs_reset_at = length, truncate, mask, needs_reset_at
        self.n_resets = 0
        self.reward = 1.0
        self.bad_obs = None
        self.in_place = []  # the array, if one that changes in place is returned every time

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.n_resets += 1
        self.step_in_episode = 0
        return self._obs(), self._info()

    def step(self, action):
        self.step_in_episode += 1
        end = self.step_in_episode == self.length
        return self._obs(), self.reward, end and not self.truncate, end and self.truncate, self._info()

    def _obs(self):
        if self.in_place:
            self.in_place[0][:] = self.step_in_episode
            return self.in_place[0]
        return np.array([self.step_in_episode], np.float32) if self.bad_obs is None else self.bad_obs

    def _info(self):
        info = {} if self.mask is None else {"action_mask": self.mask}
        return info | ({"needs_reset": True} if self.step_in_episode == self.needs_reset_at else {})


class Recorder:
    """An agent that knows only PFRL's methods and writes down what it is told."""

    def __init__(self, action=0):
        self.training, self.t, self.action = True, 0, action
        self.observed, self.evaluated, self.saved, self.masks = [], [], [], []

    def act(self, obs, **told):
        self.masks.append(told.get("action_mask"))
        return self.action

    def observe(self, obs, reward, done, reset, **told):
        (self.observed if self.training else self.evaluated).append((float(obs[0]), reward, done, reset))

    def batch_act(self, batch_obs):
        return np.array([self.act(obs) for obs in batch_obs])

    def batch_observe(self, batch_obs, batch_reward, batch_done, batch_reset):
        for row in zip(batch_obs, batch_reward, batch_done, batch_reset, strict=True):
            self.observe(*row)

    @contextlib.contextmanager
    def eval_mode(self):
        self.training = False
        yield
        self.training = True

    def save(self, dirname):
        os.makedirs(dirname, exist_ok=True)
        self.saved.append(dirname)

    def get_statistics(self):
        return [("n_observed", len(self.observed))]


class Bare:
    """An agent that only acts and observes."""

    def act(self, obs):
        return 0

    def observe(self, obs, reward, done, reset):
        pass
