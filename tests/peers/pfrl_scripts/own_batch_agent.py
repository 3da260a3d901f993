"""A batch agent of the user's own (a policy gradient without a baseline), on a vector environment with hooks."""

import numpy as np
import torch
from parts import Walk, counts, pfrl, report, train
from torch import nn


class OwnBatchAgent(pfrl.agent.AttributeSavingMixin, pfrl.agent.BatchAgent):
    saved_attributes = ("model", "optimizer")

    def __init__(self, model, optimizer, batch_states=pfrl.utils.batch_states, phi=lambda x: x):
        super().__init__()
        self.model, self.optimizer, self.batch_states, self.phi = model, optimizer, batch_states, phi
        self.device = torch.device("cpu")
        self.n_updates, self.counts, self.log_probs, self.returns = 0, [0, 0, 0], [], []

    def batch_act(self, batch_obs):
        self.counts[0] += len(batch_obs)
        distrib = self.model(self.batch_states(batch_obs, self.device, self.phi))
        action = distrib.sample()
        if self.training:
            self.log_probs.append(distrib.log_prob(action).sum())
        return action.numpy()

    def batch_observe(self, batch_obs, batch_reward, batch_done, batch_reset):
        self.counts[1] += len(batch_obs)
        self.counts[2] += int(np.sum(batch_done)) + int(np.sum(batch_reset))
        if not self.training:
            return
        self.returns.append(float(np.sum(batch_reward)))
        if len(self.returns) == 5:
            loss = -sum(self.returns) * torch.stack(self.log_probs).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.n_updates += 1
            self.log_probs, self.returns = [], []

    def get_statistics(self):
        return [("n_updates", self.n_updates)]


model = nn.Sequential(nn.Linear(4, 3), pfrl.policies.SoftmaxCategoricalHead())
agent = OwnBatchAgent(model, torch.optim.SGD(model.parameters(), lr=0.01))
envs = [Walk(8), Walk(12)]
env = pfrl.envs.SerialVectorEnv(envs)
steps = []
train(
    agent,
    env,
    steps=100,
    eval_interval=50,
    eval_n_episodes=3,
    max_episode_len=9,
    eval_env=pfrl.envs.SerialVectorEnv([Walk(4), Walk(4)]),
    log_interval=20,
    checkpoint_freq=40,
    step_hooks=[lambda env, agent, step: steps.append(step)],
)
report(agent, "out", updates=agent.n_updates, counts=agent.counts, hooks=steps, env=[counts(each) for each in envs])
