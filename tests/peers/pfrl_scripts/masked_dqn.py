"""A DQN that selects only legal actions, written as users of PFRL do it."""

import numpy as np
import torch
from parts import Walk, counts, dqn, pfrl, report, train


class MaskedWalk(Walk):
    def legal(self):
        return [0, 1] if self.t % 2 else [2]

    def step(self, action):
        assert action in self.legal()
        return super().step(action)


class MaskedDQN(pfrl.agents.DQN):
    def __init__(self, *args, env, **kwargs):
        super().__init__(*args, **kwargs)
        self.env = env
        self.n_random = self.n_greedy = 0

    def batch_act(self, batch_obs):
        with torch.no_grad(), pfrl.utils.evaluating(self.model):
            batch_av = self._evaluate_model_and_update_recurrent_states(batch_obs)
            q_values = batch_av.q_values.detach().cpu().numpy()
        legal = self.env.legal()
        masked = np.full_like(q_values, -np.inf)
        masked[:, legal] = q_values[:, legal]
        batch_argmax = masked.argmax(axis=1)
        if not self.training:
            return batch_argmax
        batch_action = []
        for i in range(len(batch_obs)):
            explores = self.t % 4 == 0
            self.n_random += explores
            self.n_greedy += not explores
            batch_action.append(np.random.choice(legal) if explores else batch_argmax[i])
        self.batch_last_obs = list(batch_obs)
        self.batch_last_action = list(batch_action)
        return batch_action


env = MaskedWalk()
options = dict(replay_start_size=50, target_update_interval=20, env=env)
agent = dqn(MaskedDQN, explorer=pfrl.explorers.Greedy(), **options)
train(agent, env, steps=200, eval_interval=50)
report(
    agent,
    "out",
    stored=len(agent.replay_buffer),
    updates=agent.optim_t,
    random=agent.n_random,
    greedy=agent.n_greedy,
    t=agent.t,
    env=counts(env),
)
