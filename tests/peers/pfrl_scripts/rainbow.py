"""Rainbow on stacked frames: a dueling network of distributions, noisy layers, and greedy selection."""

import numpy as np
from parts import Walk, adam, pfrl, report


class Frames(Walk):
    def observation(self):
        return np.full((4, 84, 84), self.t, dtype=np.uint8)


updates = []
q_func = pfrl.q_functions.DistributionalDuelingDQN(3, 51, -10, 10)
pfrl.nn.to_factorized_noisy(q_func, sigma_scale=0.5)
buffer = pfrl.replay_buffers.PrioritizedReplayBuffer(
    10**6, alpha=0.5, beta0=0.4, betasteps=100, num_steps=3, normalize_by_max="memory"
)
agent = pfrl.agents.CategoricalDoubleDQN(
    q_func,
    adam(q_func, lr=6.25e-5, eps=1.5e-4),
    buffer,
    gpu=None,
    gamma=0.99,
    explorer=pfrl.explorers.Greedy(),
    minibatch_size=4,
    replay_start_size=20,
    target_update_interval=20,
    update_interval=4,
    batch_accumulator="mean",
    phi=lambda x: np.asarray(x, dtype=np.float32) / 255,
)
pfrl.experiments.train_agent_with_evaluation(
    agent=agent,
    env=Frames(),
    steps=60,
    eval_n_steps=20,
    eval_n_episodes=None,
    eval_interval=30,
    outdir="out",
    save_best_so_far_agent=True,
    step_hooks=[lambda env, agent, step: updates.append(agent.optim_t)],
)
report(
    agent,
    "out",
    stored=len(buffer),
    updates=updates,
    parameters=sorted(name for name, _ in q_func.named_parameters()),
    beta=round(float(buffer.beta), 6),
)
