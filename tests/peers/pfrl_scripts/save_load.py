"""A run that stops in the middle, saves agent, snapshot and buffer, and goes on in new objects at its step."""

import sys
from importlib import import_module

import torch
from parts import Walk, files, keys, q_network, report, scores

pfrl = import_module(sys.argv[1])


def make():
    q_func = q_network()
    return pfrl.agents.DoubleDQN(
        q_func,
        torch.optim.Adam(q_func.parameters(), lr=1e-3),
        pfrl.replay_buffers.ReplayBuffer(100, num_steps=2),
        0.9,
        pfrl.explorers.LinearDecayEpsilonGreedy(1.0, 0.1, 100, Walk.action_space.sample),
        replay_start_size=32,
        minibatch_size=16,
        target_update_interval=20,
    )


first, env = make(), Walk(9)
pfrl.experiments.train_agent_with_evaluation(
    first,
    env,
    steps=70,
    eval_n_steps=None,
    eval_n_episodes=1,
    eval_interval=35,
    outdir="first",
    checkpoint_freq=30,
    successful_score=1000,
)
first.save("agent")
first.save_snapshot("snapshot")
first.replay_buffer.save("agent/replay.pkl")
second = make()
second.load("first/70_finish")
second.replay_buffer.load("agent/replay.pkl")
loaded = all(torch.equal(a, b) for a, b in zip(first.model.parameters(), second.model.parameters(), strict=False))
pfrl.experiments.train_agent_with_evaluation(
    second, env, steps=140, eval_n_steps=None, eval_n_episodes=1, eval_interval=35, outdir="second", step_offset=70
)
third = make()
third.load_snapshot("snapshot")
report(
    loaded=loaded,
    stored=[len(first.replay_buffer), len(second.replay_buffer)],
    t=[first.t, second.t, third.t],
    updates=[first.optim_t, second.optim_t, third.optim_t],
    cumulative=[first.cumulative_steps, third.cumulative_steps],
    scores=[scores("first"), scores("second")],
    agent_files=files("agent"),
    files=[files("first"), files("second")],
    snapshot_files=files("snapshot"),
    keys=keys(third.get_statistics()),
)
