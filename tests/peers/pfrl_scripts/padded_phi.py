"""Observations of several lengths, which `phi` pads, and Dict observations, which `batch_states` joins."""

import sys
from importlib import import_module

import gym
import numpy as np
import torch
from parts import Walk, files, keys, q_network, report
from torch import nn

pfrl = import_module(sys.argv[1])
calls = [0, 0]


class Growing(Walk):
    def observation(self):
        return np.arange(1 + self.t % 4, dtype=np.float32)


class Rooms(Walk):
    observation_space = gym.spaces.Dict(
        {"place": gym.spaces.Box(-1, 1, (4,), np.float32), "goal": gym.spaces.Box(-1, 1, (4,), np.float32)}
    )

    def observation(self):
        return {"place": super().observation(), "goal": np.zeros(4, dtype=np.float32)}


def pad(obs):
    calls[0] += 1
    return np.pad(obs, (0, 4 - len(obs)))


def joined(states, device, phi):
    calls[1] += 1
    return torch.as_tensor(np.stack([phi(s)["place"] + phi(s)["goal"] for s in states]), device=device)


def make_ppo(env, **options):
    policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3), pfrl.policies.SoftmaxCategoricalHead())
    model = pfrl.nn.Branched(policy, nn.Linear(4, 1))
    opt = torch.optim.Adam(model.parameters())
    return pfrl.agents.PPO(model, opt, update_interval=30, minibatch_size=15, epochs=1, **options)


ppo, env = make_ppo(None, phi=pad), Growing()
pfrl.experiments.train_agent(ppo, env, steps=90, outdir="ppo", max_episode_len=7)
q_func, rooms = q_network(), Rooms()
dqn = pfrl.agents.DQN(
    q_func,
    torch.optim.Adam(q_func.parameters()),
    pfrl.replay_buffers.ReplayBuffer(200),
    0.9,
    pfrl.explorers.ConstantEpsilonGreedy(0.1, rooms.action_space.sample),
    replay_start_size=32,
    batch_states=joined,
)
pfrl.experiments.train_agent(dqn, rooms, steps=60, outdir="dqn")
with ppo.eval_mode():
    action = ppo.act(np.ones(3, dtype=np.float32))
report(
    updates=[ppo.n_updates, dqn.optim_t],
    stored=len(dqn.replay_buffer),
    called=[each > 0 for each in calls],
    left=sum(map(len, ppo.memory)),
    action=bool(0 <= action < 3),
    fields=sorted(dqn.replay_buffer.sample(1)[0][0]["state"]),
    files=[files("ppo"), files("dqn")],
    keys=keys(ppo.get_statistics()),
)
