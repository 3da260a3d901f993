"""Conservative Q-learning on recorded episodes of CartPole, with evaluators and a log of its own."""

import sys

import d3rlpy
import gymnasium
import numpy as np
from d3rlpy.logging import FileAdapterFactory
from d3rlpy.metrics import AverageValueEstimationEvaluator, EnvironmentEvaluator, TDErrorEvaluator

seed = int(sys.argv[1])
d3rlpy.seed(seed)
rng = np.random.default_rng(seed)
env = gymnasium.make("CartPole-v1")

# Episodes of a controller that balances the pole, and errs in some steps
rows = {"observations": [], "actions": [], "rewards": [], "terminals": [], "timeouts": []}
for episode in range(40):
    obs, _ = env.reset(seed=1000 * seed + episode)
    ended = False
    while not ended:
        action = int(obs[2] + 0.1 * obs[3] > 0) if rng.random() > 0.2 else int(rng.integers(2))
        next_obs, reward, terminated, truncated, _ = env.step(action)
        for name, value in zip(rows, (obs, action, reward, terminated, truncated), strict=True):
            rows[name].append(value)
        obs, ended = next_obs, terminated or truncated
dataset = d3rlpy.dataset.MDPDataset(**{name: np.array(values) for name, values in rows.items()})

cql = d3rlpy.algos.DiscreteCQLConfig(
    batch_size=64, learning_rate=1e-3, target_update_interval=100, alpha=1.0,
    encoder_factory=d3rlpy.models.VectorEncoderFactory(hidden_units=[64, 64]),
).create(device=False)  # fmt: skip
evaluation_env = gymnasium.make("CartPole-v1")
d3rlpy.envs.seed_env(evaluation_env, seed)
results = cql.fit(
    dataset, n_steps=1500, n_steps_per_epoch=500, experiment_name="cartpole",
    logger_adapter=FileAdapterFactory(root_dir="logs"), show_progress=False,
    evaluators={
        "td_error": TDErrorEvaluator(episodes=dataset.episodes[:5]),
        "average_value": AverageValueEstimationEvaluator(),
        "environment": EnvironmentEvaluator(evaluation_env, n_trials=10),
    },
)  # fmt: skip

observations = dataset.episodes[0].observations
actions = cql.predict(observations)
# A test reads this
result = {
    "arrays": {"actions": actions, "values": cql.predict_value(observations, actions)},
    "metrics": results[-1][1],
    "returns": [results[-1][1]["environment"]],
}
