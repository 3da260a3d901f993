"""Two agents that share their network, optimiser and buffer, and one that only reads the buffer."""

import sys
from importlib import import_module

import torch
from parts import Walk, files, keys, q_network, report

pfrl = import_module(sys.argv[1])

q_func = q_network()
opt = torch.optim.Adam(q_func.parameters())
buffer = pfrl.replay_buffers.ReplayBuffer(200)


def make(explorer, **options):
    kept = {"replay_start_size": 32, "minibatch_size": 16, "target_update_interval": 16, **options}
    return pfrl.agents.DQN(q_func, opt, buffer, 0.9, explorer, **kept)


careful = make(pfrl.explorers.Greedy())
curious = make(pfrl.explorers.ConstantEpsilonGreedy(0.5, Walk.action_space.sample))
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
changed = [not torch.equal(a, b) for a, b in zip(before, q_func.parameters(), strict=False)]
report(
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
    keys=keys(reader.get_statistics()),
)
