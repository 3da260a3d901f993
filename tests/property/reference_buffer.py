"""Replay buffers written the slow and obvious way: lists of dicts, one Python object per transition.

They say what the columnar buffers must give; they were held against PFRL 0.4 itself.
"""

from collections import defaultdict

OPTIONAL = {"next_state": None, "next_action": None, "is_state_terminal": False}


class ReferenceBuffer:
    """Items are windows of one to `num_steps` consecutive transitions; the oldest items leave first."""

    def __init__(self, capacity=None, num_steps=1):
        self.capacity = capacity
        self.num_steps = num_steps
        self.items = []
        self.waiting = defaultdict(list)  # env_id -> transitions that start no item yet

    def __len__(self):
        return len(self.items)

    def append(self, env_id=0, **transition):
        waiting = self.waiting[env_id]
        waiting.append({**OPTIONAL, **transition})
        if waiting[-1]["is_state_terminal"]:
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


class ReferenceEpisodicBuffer:
    """Whole episodes, samplable once they ended; the oldest episodes leave first."""

    def __init__(self, capacity=None):
        self.capacity = capacity
        self.episodes = []
        self.waiting = defaultdict(list)

    @property
    def items(self):
        return [[transition] for episode in self.episodes for transition in episode]

    def __len__(self):
        return sum(len(episode) for episode in self.episodes)

    def append(self, env_id=0, **transition):
        self.waiting[env_id].append({**OPTIONAL, **transition})
        if self.waiting[env_id][-1]["is_state_terminal"]:
            self.stop_current_episode(env_id)

    def stop_current_episode(self, env_id=0):
        if self.waiting[env_id]:
            self.episodes.append(self.waiting.pop(env_id))
        while self.capacity is not None and len(self) > self.capacity:
            self.episodes.pop(0)


def feed(buffer, steps):
    """Append steps, each the arguments of `append` and whether the episode is cut off after it."""
    for arguments, cut in steps:
        buffer.append(**arguments)
        if cut:
            buffer.stop_current_episode(arguments["env_id"])


def reference_target(item, gamma):
    """What a learner needs of a window: (first state, first action, reward sum, last state, discount)."""
    reward = sum(gamma**i * transition["reward"] for i, transition in enumerate(item))
    ended = any(transition["is_state_terminal"] for transition in item)
    return item[0]["state"], item[0]["action"], reward, item[-1]["next_state"], 0.0 if ended else gamma ** len(item)


class ReferenceHindsightBuffer:
    """Steps of finished episodes; says which goals an item may get, and what the item is under one of them."""

    def __init__(self, capacity, num_steps, strategy, reward_fn, terminated_fn):
        self.capacity, self.num_steps, self.strategy = capacity, num_steps, strategy
        self.reward_fn, self.terminated_fn = reward_fn, terminated_fn
        self.items = []  # (episode, number of the step in it), the oldest first
        self.waiting = defaultdict(list)

    def append(self, env_id=0, **transition):
        self.waiting[env_id].append(transition)
        if transition["is_state_terminal"]:
            self.stop_current_episode(env_id)

    def stop_current_episode(self, env_id=0):
        episode = self.waiting.pop(env_id, [])
        for t in range(len(episode)):
            self.items.append((episode, t))
            if self.capacity is not None and len(self.items) > self.capacity:
                self.items.pop(0)

    def goals(self, i):
        """The achieved goals that item i may get."""
        episode, t = self.items[i]
        if self.strategy == "final":
            steps = episode[-1:]
        elif self.strategy == "future":
            steps = episode[t:]
        else:
            steps = [e[s] for e, s in self.items if e is episode]
        return [step["next_state"]["achieved_goal"] for step in steps]

    def own(self, i):
        """Item i as it was stored."""
        episode, t = self.items[i]
        return episode[t : t + self.num_steps]

    def relabelled(self, i, goal):
        """Item i under another goal: up to the step that ends the episode under it."""
        item = []
        for step in self.own(i):
            achieved, desired = step["next_state"]["achieved_goal"], step["state"]["desired_goal"]
            ended_otherwise = step["is_state_terminal"] and not self.terminated_fn(achieved, desired, {})
            changed = dict(step)
            changed["state"] = {**step["state"], "desired_goal": goal}
            changed["next_state"] = {**step["next_state"], "desired_goal": goal}
            changed["reward"] = self.reward_fn(achieved, goal, {})
            changed["is_state_terminal"] = bool(self.terminated_fn(achieved, goal, {}) or ended_otherwise)
            item.append(changed)
            if changed["is_state_terminal"]:
                break
        return item
