"""DQN learns CartPole online, with a buffer that forgets and an explorer that calms down."""

import argparse

import d3rlpy
import gymnasium as gym
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("seed", type=int)
parser.add_argument("--gpu", action="store_true")
args = parser.parse_args()

env = gym.make("CartPole-v1")
eval_env = gym.make("CartPole-v1")
d3rlpy.seed(args.seed)
d3rlpy.envs.seed_env(env, args.seed)
d3rlpy.envs.seed_env(eval_env, args.seed)

dqn = d3rlpy.algos.DQNConfig(
    batch_size=32, learning_rate=2.5e-3, gamma=0.97, target_update_interval=50,
    encoder_factory=d3rlpy.models.VectorEncoderFactory(hidden_units=[64, 64]),
).create(device=args.gpu)  # fmt: skip

buffer = d3rlpy.dataset.create_fifo_replay_buffer(limit=1500, env=env)
explorer = d3rlpy.algos.LinearDecayEpsilonGreedy(start_epsilon=1.0, end_epsilon=0.05, duration=1000)
seen = []
dqn.fit_online(
    env, buffer, explorer, n_steps=3000, n_steps_per_epoch=1000, update_interval=1, update_start_step=200,
    eval_env=eval_env, eval_n_trials=3, show_progress=False,
    callback=lambda algo, epoch, total_step: seen.append((epoch, total_step)),
)  # fmt: skip

score = d3rlpy.metrics.evaluate_qlearning_with_environment(dqn, eval_env, n_trials=10)
observations = np.array([env.reset()[0] for _ in range(3)])
actions = dqn.predict(observations)
batch = buffer.sample_transition_batch(8)
dqn.save_model("dqn.pt")
# A test reads this
result = {
    "arrays": {
        "actions": actions, "explored": explorer.sample(dqn, observations, 3000),
        "values": dqn.predict_value(observations, actions), "batch observations": batch.observations,
        "batch actions": batch.actions, "batch rewards": batch.rewards, "batch terminals": batch.terminals,
        "batch intervals": batch.intervals,
    },
    "values": {
        "calls": np.array(seen[:: len(seen) // 10]),
        "epsilon": np.array([explorer.compute_epsilon(step) for step in (0, 500, 1000, 3000)]),
        "grad steps": np.array(dqn.grad_step), "full": np.array(buffer.transition_count <= 1500),
    },
    "returns": [score],
}  # fmt: skip
