"""Rainbow (noisy nets, distributions, prioritised three-step replay) with masked actions, on several environments."""

import torch
from parts import Walk, adam, pfrl, report, train
from torch import nn


class MaskedRainbow(pfrl.agents.CategoricalDoubleDQN):
    calls = 0

    def batch_act(self, batch_obs):
        self.calls += 1
        with torch.no_grad(), pfrl.utils.evaluating(self.model):
            batch_av = self._evaluate_model_and_update_recurrent_states(batch_obs)
            q_values = batch_av.q_values.clone()
        q_values[:, 0] = -float("inf")
        actions = q_values.argmax(dim=1).cpu().numpy()
        if self.training:
            self.batch_last_obs = list(batch_obs)
            self.batch_last_action = list(actions)
        return actions


class MaskedWalk(Walk):
    def step(self, action):
        assert action != 0
        return super().step(action)


q_func = pfrl.q_functions.DistributionalFCStateQFunctionWithDiscreteAction(4, 3, 11, 0, 10, 16, 1)
pfrl.nn.to_factorized_noisy(q_func, sigma_scale=0.5)
buffer = pfrl.replay_buffers.PrioritizedReplayBuffer(
    1000, alpha=0.5, beta0=0.4, betasteps=200, num_steps=3, normalize_by_max="memory"
)
agent = MaskedRainbow(
    q_func,
    adam(q_func, eps=1e-4),
    buffer,
    gamma=0.9,
    explorer=pfrl.explorers.Greedy(),
    replay_start_size=60,
    minibatch_size=8,
    update_interval=2,
    target_update_interval=40,
    batch_accumulator="mean",
)
envs = [MaskedWalk(length=6 + i) for i in range(3)]
env = pfrl.envs.SerialVectorEnv(envs)
eval_env = pfrl.envs.SerialVectorEnv([MaskedWalk(length=5) for _ in range(3)])
train(agent, env, steps=300, eval_interval=100, eval_n_episodes=4, eval_env=eval_env)
report(
    agent,
    "out",
    stored=len(buffer),
    updates=agent.optim_t,
    calls_of_training=sum(each.n_steps for each in envs) // 3,
    noisy=sum(isinstance(each, pfrl.nn.FactorizedNoisyLinear) for each in q_func.modules()),
    linear=sum(type(each) is nn.Linear for each in q_func.modules()),
    steps=[each.n_steps for each in envs],
)
