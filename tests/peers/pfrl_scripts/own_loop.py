"""A loop of the user's own: `act` and `observe`, a break in the middle, and evaluations with `eval_mode`."""

import numpy as np
from parts import Walk, adam, pfrl, q_network, report

env, eval_env = Walk(length=12), Walk(length=5)
q_func = q_network()
explorer = pfrl.explorers.LinearDecayEpsilonGreedy(1.0, 0.1, 100, lambda: np.random.randint(3))
agent = pfrl.agents.DoubleDQN(
    q_func,
    adam(q_func),
    pfrl.replay_buffers.ReplayBuffer(capacity=10**6),
    0.95,
    explorer,
    replay_start_size=32,
    update_interval=2,
    target_update_interval=10,
    phi=lambda x: x.astype(np.float32, copy=False),
)
returns, evaluations, sizes = [], [], []
for episode in range(10):
    obs = env.reset()
    total, t = 0, 0
    while True:
        action = agent.act(obs)
        obs, reward, done, _ = env.step(action)
        total += reward
        t += 1
        reset = t == 9 and episode % 2 == 0
        agent.observe(obs, reward, done, reset)
        if done or reset:
            break
    returns.append(total)
    sizes.append(len(agent.replay_buffer))
    if episode % 3 == 2:
        with agent.eval_mode():
            for _ in range(2):
                obs, total, done = eval_env.reset(), 0, False
                while not done:
                    obs, reward, done, _ = eval_env.step(agent.act(obs))
                    total += reward
                    agent.observe(obs, reward, done, False)
                evaluations.append(total)
sample = agent.replay_buffer.sample(5)
report(
    agent,
    returns=returns,
    evaluations=evaluations,
    stored=sizes,
    updates=agent.optim_t,
    t=agent.t,
    epsilon=round(explorer.compute_epsilon(agent.t), 6),
    steps=sorted({len(each) for each in sample}),
    fields=sorted(set(sample[0][0])),
    statistics=[[k, v] for k, v in agent.get_statistics() if k in ("n_updates", "rlen")],
)
