"""Two agents that share their network, optimiser and buffer, and one that only reads the buffer."""

from parts import Walk, adam, epsilon_greedy, equal, files, pfrl, q_network, report

q_func = q_network()
opt = adam(q_func)
buffer = pfrl.replay_buffers.ReplayBuffer(200)


def make(explorer, **options):
    kept = {"replay_start_size": 32, "minibatch_size": 16, "target_update_interval": 16, **options}
    return pfrl.agents.DQN(q_func, opt, buffer, 0.9, explorer, **kept)


careful = make(pfrl.explorers.Greedy())
curious = make(epsilon_greedy(0.5))
reader = make(pfrl.explorers.Greedy(), update_interval=10**9, target_update_interval=10**9)
envs = [Walk(6), Walk(8)]
before = [parameter.clone() for parameter in q_func.parameters()]
for _ in range(4):
    for agent, env in zip((careful, curious), envs, strict=False):
        obs, done = env.reset(), False
        while not done:
            obs, reward, done, _ = env.step(agent.act(obs))
            agent.observe(obs, reward, done, False)
experiences = buffer.sample(16)
reader.update(experiences)
reader.replay_updater.update_if_necessary(7)
reader.sync_target_network()
careful.save("careful")
changed = [not same for same in equal(q_func, before)]
report(
    reader,
    stored=len(buffer),
    updates=[careful.optim_t, curious.optim_t, reader.optim_t],
    t=[careful.t, curious.t, reader.t],
    same=[
        careful.model is curious.model,
        careful.target_model is curious.target_model,
        curious.replay_buffer is buffer,
    ],
    changed=changed,
    steps=[env.n_steps for env in envs],
    files=files("careful"),
)
