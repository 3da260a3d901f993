"""A run that stops in the middle, saves agent, snapshot and buffer, and goes on in new objects at its step."""

from parts import Walk, dqn, equal, files, pfrl, report, scores, train


def make():
    buffer = pfrl.replay_buffers.ReplayBuffer(100, num_steps=2)
    explorer = pfrl.explorers.LinearDecayEpsilonGreedy(1.0, 0.1, 100, Walk.action_space.sample)
    return dqn(pfrl.agents.DoubleDQN, buffer, explorer, minibatch_size=16, target_update_interval=20)


first, env = make(), Walk(9)
common = dict(eval_interval=35, eval_n_episodes=1)
train(first, env, steps=70, outdir="first", checkpoint_freq=30, successful_score=1000, **common)
first.save("agent")
first.save_snapshot("snapshot")
first.replay_buffer.save("agent/replay.pkl")
second = make()
second.load("first/70_finish")
second.replay_buffer.load("agent/replay.pkl")
loaded = all(equal(first.model, second.model.parameters()))
train(second, env, steps=140, outdir="second", step_offset=70, **common)
third = make()
third.load_snapshot("snapshot")
report(
    third,
    loaded=loaded,
    stored=[len(first.replay_buffer), len(second.replay_buffer)],
    t=[first.t, second.t, third.t],
    updates=[first.optim_t, second.optim_t, third.optim_t],
    cumulative=[first.cumulative_steps, third.cumulative_steps],
    scores=[scores("first"), scores("second")],
    agent_files=files("agent"),
    files=[files("first"), files("second")],
    snapshot_files=files("snapshot"),
)
