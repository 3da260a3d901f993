"""Environments whose numbers depend on random streams of all sorts, and agents that remember all they are told."""

import random
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.envs.classic_control import CartPoleEnv

from pfrl_like.envs.abc import ABC
from pfrl_like.wrappers import ContinuingTimeLimit, RandomizeAction
from pfrl_like.wrappers.atari_wrappers import FrameStack


class Noisy(gymnasium.Env[Any, Any]):
    """Observations, rewards and ends are drawn: from the environment's own stream, or also from the global ones."""

    def __init__(self, shared: bool = False, seed: int = 0) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(3, seed=seed)
        self.shared, self.seed, self.steps, self.late = shared, seed, 0, None

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.late = self.late or np.random.default_rng(self.seed)  # lives on in later episodes
        self.steps = 0
        return self._obs(0), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        noise = random.gauss(0, 1) + np.random.normal() + torch.rand(()).item() if self.shared else 0.0
        ends = self.np_random.random() < 0.1
        return self._obs(action), float(action + noise), bool(ends), self.steps == 12, {}

    def _obs(self, action: Any) -> Any:
        drawn = random.random() + np.random.random() if self.shared else 0.0
        numbers = [self.np_random.random() + drawn, self.late.normal(), action]
        return np.array(numbers, np.float32)


class Unsteady(Noisy):
    """Nobody knows where its noise comes from."""

    def step(self, action: Any) -> Any:
        obs, reward, *rest = super().step(action)
        return (obs, reward + random.SystemRandom().random(), *rest)


class Sim(gymnasium.Env[Any, Any]):
    """Gives its state and takes it; where its noise comes from is its own affair."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(3, seed=0)
        self._x, self._hidden = np.zeros(2), [random.SystemRandom().random()]

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self._x = np.array([self._hidden[0], 0.0])
        return self._x.copy(), {}

    def step(self, action: Any) -> Any:
        self._hidden[0] = self._hidden[0] * 3.7 * (1 - self._hidden[0])
        self._x += (action, self._hidden[0])
        return self._x.copy(), self._hidden[0], False, False, {}

    def get_state(self) -> Any:
        return {"x": self._x.copy(), "hidden": tuple(self._hidden)}

    def set_state(self, state: Any) -> None:
        self._x, self._hidden = state["x"].copy(), list(state["hidden"])


class Restless(Sim):
    """Draws whenever it is asked for its state, which has NaN in it, and keeps what it is given in other containers."""

    def get_state(self) -> Any:
        self.np_random.random()
        return super().get_state() | {"none": [float("nan"), np.float32("nan")]}

    def set_state(self, state: Any) -> None:
        super().set_state(state)
        self._hidden = np.array(state["hidden"])

    def step(self, action: Any) -> Any:
        return super().step(action + self.np_random.random())


class Secretive(CartPoleEnv):
    """Does not give its state."""

    def get_state(self) -> Any:
        raise NotImplementedError("no snapshots")

    def set_state(self, state: Any) -> None:
        raise NotImplementedError("nor these")


def seeded(env: Any, seed: int = 0) -> Any:
    """The environment after a reset with a seed, as a script begins."""
    env.reset(seed=seed)
    return env


class Images(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Observations as images."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(0, 255, (1, 2, 2), np.uint8)

    def observation(self, obs: Any) -> Any:
        return (np.abs(np.resize(obs, (1, 2, 2))) * 50 % 256).astype(np.uint8)


#: What makes environments in which runs go on exactly.
ENVS: dict[str, Callable[[], Any]] = {
    "own stream": lambda: seeded(Noisy()),
    "never seeded": Noisy,
    "global streams": lambda: seeded(Noisy(shared=True)),
    "gives its state": lambda: gymnasium.wrappers.TimeLimit(Sim(), 9),
    "is restless": lambda: seeded(Restless()),
    "in a wrapper that is unknown": lambda: Images(Sim()),
    "random actions": lambda: seeded(RandomizeAction(ContinuingTimeLimit(Noisy(), 5), 0.5)),
    "stacked frames": lambda: FrameStack(Images(seeded(Noisy())), 3, "chw"),
    "of PFRL's form": lambda: ABC(3, episodic=False, partially_observable=True, discrete=False),
    "in turn": lambda: ABC(3, partially_observable=True, deterministic=True),
}


class Listener:
    """Draws its actions, between them also numbers for itself, and keeps what it is told."""

    def __init__(self, action_space: Any) -> None:
        self.action_space, self.heard = action_space, []

    def act(self, obs: Any) -> Any:
        random.random(), np.random.random(), torch.rand(2)
        action = self.action_space.sample()
        self.heard.append(("act", np.array(obs).tolist(), np.array(action).tolist()))
        return action

    def observe(self, obs: Any, *told: Any) -> None:
        self.heard.append(("observe", np.array(obs).tolist(), *told))

    def batch_act(self, batch_obs: Any, **_: Any) -> Any:
        random.random(), np.random.random(), torch.rand(2)
        actions = np.array([self.action_space.sample() for _ in batch_obs])
        self.heard.append(("act", [np.array(obs).tolist() for obs in batch_obs], actions.tolist()))
        return actions

    def batch_observe(self, batch_obs: Any, *told: Any, **more: Any) -> None:
        arrays = [*told, *more.values()]
        self.heard.append(([np.array(obs).tolist() for obs in batch_obs], [np.array(x).tolist() for x in arrays]))
