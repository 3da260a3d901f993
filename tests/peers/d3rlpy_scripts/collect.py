"""Data that an explorer collects, which become a dataset, a file, and training data."""

import d3rlpy

_, env = d3rlpy.datasets.get_cartpole()
_, eval_env = d3rlpy.datasets.get_cartpole()
dqn = d3rlpy.algos.DQN(batch_size=16)
dqn.build_with_env(env)
explorer = d3rlpy.online.explorers.ConstantEpsilonGreedy(0.5)
buffer = d3rlpy.online.buffers.ReplayBuffer(maxlen=100, env=env)
dqn.collect(env, buffer=buffer, explorer=explorer, n_steps=60, show_progress=False)
assert buffer.size() == len(buffer.transitions) == 60
dqn.fit_online(
    env, buffer, explorer, eval_env=eval_env, n_steps=10, n_steps_per_epoch=10, save_metrics=False, verbose=False,
    show_progress=False,
)  # fmt: skip

dataset = buffer.to_mdp_dataset()
dataset.dump("collected.h5")
dataset = d3rlpy.dataset.MDPDataset.load("collected.h5")
assert sum(len(episode) for episode in dataset.episodes) == 70

bc = d3rlpy.algos.DiscreteBC(n_epochs=1, batch_size=16)
bc.fit(dataset, save_metrics=False, verbose=False, show_progress=False)
collected = bc.collect(env, n_steps=20, deterministic=True, show_progress=False)
assert isinstance(collected, d3rlpy.online.buffers.Buffer) and len(collected) == 20
