"""Agents in environments for a few steps, as the runners drive them but without files and logs."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from pfrl_like.batch import ACTION_MASK
from pfrl_like.env import as_gymnasium
from pfrl_like.envs import VectorObs, VectorStep
from pfrl_like.envs.vector_stream import VectorStream
from pfrl_like.utils.env_values import own_copy


class Episodes:
    """One environment with the episode that runs in it.

    Args:
        env: Environment of any form; it is copied.
        seed: Seed of its first episode, used if it takes one.
    """

    def __init__(self, env: Any, seed: int) -> None:
        self.env = as_gymnasium(copy.deepcopy(env))
        try:
            self._begin(seed=seed)
        except ValueError:  # it takes no seed
            self._begin()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Any]:
        """Act; returns the true next observation, reward, terminated, truncated and its action mask."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        obs, mask = own_copy(obs), own_copy(info.get(ACTION_MASK))
        self.obs, self.mask = obs, mask
        truncated = bool(truncated or info.get("needs_reset", False))
        if terminated or truncated:
            self._begin()
        return obs, float(reward), bool(terminated), truncated, mask

    def _begin(self, **seed: int) -> None:
        obs, info = self.env.reset(**seed)
        self.obs, self.mask = own_copy(obs), own_copy(info.get(ACTION_MASK))


def play_step(agent: Any, episodes: Episodes) -> Any:
    """One step of `act` and `observe`; returns the action."""
    action = agent.act(episodes.obs, **_told(episodes.mask))
    obs, reward, terminated, truncated, mask = episodes.step(action)
    agent.observe(obs, reward, terminated, truncated, **_told(mask))
    return action


def play_one(agent: Any, env: Any, n_steps: int, seed: int = 0) -> list[Any]:
    """Let an agent act and learn by `act` and `observe`; returns its actions."""
    episodes = Episodes(env, seed)
    return [play_step(agent, episodes) for _ in range(n_steps)]


def play_several(agent: Any, env: Any, n_envs: int, n_steps: int, seed: int = 0) -> list[Any]:
    """Let an agent act and learn by `batch_act` and `batch_observe`; returns the actions of each step."""
    several = [Episodes(env, seed + i) for i in range(n_envs)]
    all_actions = []
    for _ in range(n_steps):
        actions = agent.batch_act([one.obs for one in several], **_all_told([one.mask for one in several]))
        steps = [one.step(action) for one, action in zip(several, actions, strict=True)]
        obs, reward, terminated, truncated, masks = (list(column) for column in zip(*steps, strict=True))
        agent.batch_observe(obs, reward, terminated, truncated, **_all_told(masks))
        all_actions.append(list(actions))
    return all_actions


def play_stream(agent: Any, stream: VectorStream, n_steps: int) -> None:
    """Let an agent act and learn until the environments of a stream have made `n_steps` steps together."""
    now, made = stream.reset(), 0
    while made < n_steps:
        step = stream.step(agent.batch_act(now.obs, **_of_stream(now)))
        agent.batch_observe(step.obs, step.reward, step.terminated, step.truncated, **_of_stream(step))
        made += int(np.count_nonzero(step.active))
        now = stream.begin((step.terminated | step.truncated) & step.active)


def _of_stream(now: VectorObs | VectorStep) -> dict[str, Any]:
    told: dict[str, Any] = {} if now.action_mask is None else {ACTION_MASK: now.action_mask}
    return told if now.active.all() else {**told, "active": now.active}


def _told(mask: Any) -> dict[str, Any]:
    return {} if mask is None else {ACTION_MASK: mask}


def _all_told(masks: Sequence[Any]) -> dict[str, Any]:
    return {} if any(mask is None for mask in masks) else {ACTION_MASK: list(masks)}
