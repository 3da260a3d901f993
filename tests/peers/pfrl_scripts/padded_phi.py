"""Observations of several lengths, which `phi` pads, and Dict observations, which `batch_states` joins."""

import gym
import numpy as np
import torch
from parts import Walk, actor_critic, adam, categorical_policy, dqn, files, pfrl, report

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


model = actor_critic(categorical_policy())
ppo = pfrl.agents.PPO(model, adam(model), update_interval=30, minibatch_size=15, epochs=1, phi=pad)
pfrl.experiments.train_agent(ppo, Growing(), steps=90, outdir="ppo", max_episode_len=7)
agent = dqn(batch_states=joined)
pfrl.experiments.train_agent(agent, Rooms(), steps=60, outdir="dqn")
with ppo.eval_mode():
    action = ppo.act(np.ones(3, dtype=np.float32))
report(
    ppo,
    updates=[ppo.n_updates, agent.optim_t],
    stored=len(agent.replay_buffer),
    called=[each > 0 for each in calls],
    left=sum(map(len, ppo.memory)),
    action=bool(0 <= action < 3),
    fields=sorted(agent.replay_buffer.sample(1)[0][0]["state"]),
    files=[files("ppo"), files("dqn")],
)
