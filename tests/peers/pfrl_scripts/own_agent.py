"""A tabular agent of the user's own, from Agent and AttributeSavingMixin, which never calls super().__init__."""

import numpy as np
import torch
from parts import Walk, epsilon_greedy, pfrl, report
from torch import nn


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Parameter(torch.zeros(2, 3))


class TabularQ(pfrl.agent.AttributeSavingMixin, pfrl.agent.Agent):
    saved_attributes = ("table", "optimizer")

    def __init__(self, explorer):
        self.table = Table()
        self.optimizer = torch.optim.SGD(self.table.parameters(), lr=0.1)
        self.explorer = explorer
        self.t = self.observed = self.updates = 0
        self.last = None

    def act(self, obs):
        q = self.table.q[int(obs[2])].detach()
        if not self.training:
            return int(q.argmax())
        action = self.explorer.select_action(self.t, lambda: int(q.argmax()))
        self.last = int(obs[2]), int(action)
        return action

    def observe(self, obs, reward, done, reset):
        self.observed += 1
        if not self.training:
            return
        self.t += 1
        with torch.no_grad():
            target = reward + 0.9 * (1 - done) * self.table.q[int(obs[2])].max()
        loss = (self.table.q[self.last] - target) ** 2
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.updates += 1

    def get_statistics(self):
        return [("mean_q", float(self.table.q.mean())), ("updates", self.updates)]


env = Walk()
agent = TabularQ(epsilon_greedy(0.3))
pfrl.experiments.train_agent_with_evaluation(
    agent, env, steps=120, eval_n_steps=20, eval_n_episodes=None, eval_interval=40, outdir="out", checkpoint_freq=60
)
other = TabularQ(pfrl.explorers.Greedy())
other.load("out/120_finish")
with other.eval_mode():
    inside = other.training
    other.act(env.reset())
report(
    agent,
    "out",
    updates=agent.updates,
    observed=agent.observed,
    t=agent.t,
    equal=bool(torch.equal(agent.table.q, other.table.q)),
    inside=inside,
    after=other.training,
    finite=bool(np.isfinite(other.table.q.detach().numpy()).all()),
)
