"""Replay buffers of the user's own: one from AbstractReplayBuffer, one that overrides `append` and `sample`."""

import random

import torch
from parts import Walk, dqn, files, pfrl, report


class ListBuffer(pfrl.replay_buffer.AbstractReplayBuffer):
    def __init__(self, capacity):
        self._capacity, self.items, self.calls = capacity, [], {"append": 0, "sample": 0, "stop": 0}

    @property
    def capacity(self):
        return self._capacity

    def append(self, state, action, reward, next_state=None, next_action=None, is_state_terminal=False, env_id=0, **kw):
        self.calls["append"] += 1
        fields = dict(state=state, action=action, reward=reward, next_state=next_state, next_action=next_action, **kw)
        self.items.append([dict(fields, is_state_terminal=is_state_terminal)])
        del self.items[: -self._capacity]

    def sample(self, n):
        self.calls["sample"] += 1
        return random.sample(self.items, n)

    def stop_current_episode(self, env_id=0):
        self.calls["stop"] += 1

    def __len__(self):
        return len(self.items)

    def save(self, filename):
        torch.save(len(self.items), filename)

    def load(self, filename):
        pass


class Recent(pfrl.replay_buffers.ReplayBuffer):
    calls = 0

    def append(self, state, action, reward, *args, **kwargs):
        return super().append(state, action, min(reward, 0.5), *args, **kwargs)

    def sample(self, num_experiences):
        self.calls += 1
        assert len(self) >= num_experiences
        return super().sample(num_experiences)


def train(buffer, outdir):
    options = dict(replay_start_size=40, minibatch_size=8, target_update_interval=20)
    agent = dqn(buffer=buffer, n_times_update=2, update_interval=4, **options)
    pfrl.experiments.train_agent(agent, Walk(), steps=105, outdir=outdir)
    return agent


plain, recent = ListBuffer(60), Recent(80)
first, second = train(plain, "plain"), train(recent, "recent")
recent.save("recent.pkl")
again = Recent(80)
again.load("recent.pkl")
report(
    second,
    calls=plain.calls,
    stored=[len(plain), len(recent), len(again)],
    updates=[first.optim_t, second.optim_t],
    samples=recent.calls,
    rewards=sorted({item["reward"] for each in again.sample(20) for item in each}),
    files=[files("plain"), files("recent")],
)
