"""TD3 in an environment, with noise, and minibatches of three steps."""

import d3rlpy

_, env = d3rlpy.datasets.get_pendulum()
td3 = d3rlpy.algos.TD3(
    actor_learning_rate=3e-4, critic_learning_rate=3e-4, batch_size=16, target_smoothing_sigma=0.2,
    target_smoothing_clip=0.5, update_actor_interval=2, tau=0.005, gamma=0.99,
)  # fmt: skip
buffer = d3rlpy.online.buffers.ReplayBuffer(maxlen=1000, env=env)
explorer = d3rlpy.online.explorers.NormalNoise(mean=0.0, std=0.1)
td3.fit_online(
    env, buffer, explorer, n_steps=40, n_steps_per_epoch=20, update_interval=2,
    update_start_step=20, save_metrics=False, verbose=False, show_progress=False,
)  # fmt: skip
assert len(buffer) == 40
batch = buffer.sample(batch_size=8, n_steps=3, gamma=0.99)
assert batch.observations.shape == (8, 3) and batch.n_steps.max() <= 3
