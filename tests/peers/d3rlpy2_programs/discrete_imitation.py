"""Behaviour cloning and batch-constrained Q-learning on episodes of which half are random."""

import sys

import d3rlpy
import gymnasium as gym
import numpy as np
from d3rlpy.dataset import Episode, InfiniteBuffer, ReplayBuffer

seed = int(sys.argv[1])
d3rlpy.seed(seed)
rng = np.random.default_rng(seed)
env = gym.make("CartPole-v1")


def rollout(share_of_random, env_seed):
    """Record an episode of a controller that takes a random action in a share of the steps."""
    observations, actions, rewards = [], [], []
    obs, _ = env.reset(seed=env_seed)
    terminated = truncated = False
    while not (terminated or truncated):
        is_random = rng.random() < share_of_random
        action = rng.integers(2) if is_random else int(obs[2] + 0.3 * obs[3] > 0)
        observations.append(obs)
        actions.append([action])
        obs, reward, terminated, truncated, _ = env.step(int(action))
        rewards.append([reward])
    return Episode(
        observations=np.array(observations),
        actions=np.array(actions),
        rewards=np.array(rewards, dtype=np.float32),
        terminated=terminated,
    )


episodes = [rollout(1.0 if i % 2 else 0.1, 1000 * seed + i) for i in range(40)]
dataset = ReplayBuffer(InfiniteBuffer(), episodes=episodes)
print(dataset.size(), dataset.transition_count)

eval_env = gym.make("CartPole-v1")
evaluator = d3rlpy.metrics.EnvironmentEvaluator(eval_env, n_trials=5)
encoder = d3rlpy.models.VectorEncoderFactory([32, 32])
algos = {
    "bc": d3rlpy.algos.DiscreteBCConfig(batch_size=64, learning_rate=3e-3, beta=0.1, encoder_factory=encoder).create(),
    "bcq": d3rlpy.algos.DiscreteBCQConfig(
        batch_size=32, learning_rate=1e-3, action_flexibility=0.5, target_update_interval=100, encoder_factory=encoder
    ).create(device="cpu:0"),
}
observations = np.concatenate([episode.observations for episode in episodes[:2]])
arrays, metrics, returns = {}, {}, []
for name, algo in algos.items():
    algo.build_with_dataset(dataset)
    results = algo.fit(
        dataset, n_steps=600, n_steps_per_epoch=300, experiment_name=name, with_timestamp=False, save_interval=2,
        show_progress=False,
        evaluators={
            "environment": evaluator, "match": d3rlpy.metrics.DiscreteActionMatchEvaluator(episodes=episodes[:4]),
        },
    )  # fmt: skip
    returns.append(results[-1][1]["environment"])
    arrays[f"{name} actions"] = algo.predict(observations)
    arrays[f"{name} sample"] = algo.sample_action(observations)
    metrics.update({f"{name} {metric}": value for metric, value in results[-1][1].items()})
arrays["values"] = algos["bcq"].predict_value(observations, arrays["bcq actions"])
try:
    algos["bc"].predict_value(observations, arrays["bc actions"])
except NotImplementedError:
    metrics["no value of bc"] = 1.0
# A test reads this
result = {"arrays": arrays, "metrics": metrics, "returns": returns}
