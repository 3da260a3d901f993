"""Replay buffers written the slow and obvious way: lists of dicts, one Python object per transition.

They say what the columnar buffers must give; they were held against PFRL 0.4 itself, which alone joins a transition to
one that led elsewhere.
"""

from collections import defaultdict

import numpy as np


class Waiting:
    """Transitions of the running episode of each environment that start no item yet, and how an episode may end."""

    def __init__(self):
        self.waiting = defaultdict(list)

    def _end_if_broken_off(self, state, env_id):
        """A transition that begins elsewhere than the last one led to begins another episode."""
        if self.waiting[env_id] and not equal(self.waiting[env_id][-1]["next_state"], state):
            self.stop_current_episode(env_id)


class ReferenceBuffer(Waiting):
    """Items are windows of one to `num_steps` consecutive transitions; the oldest items leave first."""

    def __init__(self, capacity=None, num_steps=1):
        super().__init__()
        self.capacity = capacity
        self.num_steps = num_steps
        self.items = []

    def __len__(self):
        return len(self.items)

    def append(
        self, state, action, reward, next_state=None, next_action=None, is_state_terminal=False, env_id=0, **extra
    ):
        self._end_if_broken_off(state, env_id)
        waiting = self.waiting[env_id]
        waiting.append(
            dict(
                state=state,
                action=action,
                reward=reward,
                next_state=next_state,
                next_action=next_action,
                is_state_terminal=is_state_terminal,
                **extra,
            )
        )
        if is_state_terminal:
            self.stop_current_episode(env_id)
        elif len(waiting) == self.num_steps:
            self._add(list(waiting))
            waiting.pop(0)

    def stop_current_episode(self, env_id=0):
        waiting = self.waiting[env_id]
        while waiting:
            self._add(list(waiting))
            waiting.pop(0)

    def _add(self, item):
        self.items.append(item)
        if self.capacity is not None and len(self.items) > self.capacity:
            self.items.pop(0)


class ReferenceEpisodicBuffer(Waiting):
    """Whole episodes, samplable once they ended; the oldest episodes leave first."""

    def __init__(self, capacity=None):
        super().__init__()
        self.capacity = capacity
        self.episodes = []

    @property
    def items(self):
        return [[transition] for episode in self.episodes for transition in episode]

    def __len__(self):
        return sum(len(episode) for episode in self.episodes)

    def append(
        self, state, action, reward, next_state=None, next_action=None, is_state_terminal=False, env_id=0, **extra
    ):
        self._end_if_broken_off(state, env_id)
        self.waiting[env_id].append(
            dict(
                state=state,
                action=action,
                reward=reward,
                next_state=next_state,
                next_action=next_action,
                is_state_terminal=is_state_terminal,
                **extra,
            )
        )
        if is_state_terminal:
            self.stop_current_episode(env_id)

    def stop_current_episode(self, env_id=0):
        if self.waiting[env_id]:
            self.episodes.append(self.waiting.pop(env_id))
        while self.capacity is not None and len(self) > self.capacity:
            self.episodes.pop(0)


def reference_target(item, gamma):
    """What a learner needs of a window: (first state, first action, reward sum, last state, discount)."""
    reward = sum(gamma**i * transition["reward"] for i, transition in enumerate(item))
    ended = any(transition["is_state_terminal"] for transition in item)
    return item[0]["state"], item[0]["action"], reward, item[-1]["next_state"], 0.0 if ended else gamma ** len(item)


def equal(a, b):
    """Whether two nested values are the same, dtypes included."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    if a is None or b is None:
        return a is b
    return np.asarray(a).dtype == np.asarray(b).dtype and np.array_equal(a, b)
