"""Demonstrations of a trained agent, in a buffer and its file, and a second agent that learns from them."""

from pathlib import Path

from parts import Walk, counts, dqn, epsilon_greedy, files, pfrl, report

expert, env = dqn(explorer=epsilon_greedy(0.3), target_update_interval=10), Walk(7)
pfrl.experiments.train_agent(expert, env, steps=60, outdir="expert")
Path("demos").mkdir()
learner, transitions = dqn(explorer=pfrl.explorers.Greedy(), target_update_interval=10), 0
with expert.eval_mode():
    for _ in range(6):
        obs, done = env.reset(), False
        while not done:
            action = expert.act(obs)
            new_obs, reward, done, _ = env.step(action)
            expert.observe(new_obs, reward, done, False)
            learner.replay_buffer.append(obs, action, reward, new_obs, is_state_terminal=done)
            obs, transitions = new_obs, transitions + 1
        learner.replay_buffer.stop_current_episode()
learner.replay_buffer.save("demos/replay.pkl")
for step in range(25):
    learner.update(learner.replay_buffer.sample(16))
    if step % 10 == 9:
        learner.sync_target_network()
learner.save("learner")
report(
    learner,
    stored=[len(expert.replay_buffer), len(learner.replay_buffer)],
    transitions=transitions,
    updates=learner.optim_t,
    terminals=sum(bool(item["is_state_terminal"]) for each in learner.replay_buffer.memory for item in each),
    env=counts(env),
    files=[files("demos"), files("learner")],
)
