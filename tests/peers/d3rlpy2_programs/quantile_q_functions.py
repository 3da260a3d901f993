"""Q-functions of quantiles in DQN, Double DQN and discrete CQL, on CartPole data of a random policy."""

import sys

import d3rlpy
import gymnasium as gym
import numpy as np
from d3rlpy.algos import DiscreteCQLConfig, DoubleDQNConfig, DQNConfig
from d3rlpy.models.encoders import VectorEncoderFactory
from d3rlpy.models.q_functions import IQNQFunctionFactory, MeanQFunctionFactory, QRQFunctionFactory

seed = int(sys.argv[1])
d3rlpy.seed(seed)
env, eval_env = gym.make("CartPole-v1"), gym.make("CartPole-v1")
d3rlpy.envs.seed_env(env, seed)
d3rlpy.envs.seed_env(eval_env, seed)
dataset = d3rlpy.algos.DiscreteRandomPolicyConfig().create().collect(env, n_steps=1200, show_progress=False)

shared = dict(batch_size=64, learning_rate=1e-3, encoder_factory=VectorEncoderFactory([32, 32]))
configs = {
    "dqn_qr": DQNConfig(q_func_factory=QRQFunctionFactory(n_quantiles=16), target_update_interval=50, **shared),
    "dqn_iqn": DQNConfig(
        q_func_factory=IQNQFunctionFactory(n_quantiles=16, n_greedy_quantiles=8, embed_size=32), n_critics=2, **shared
    ),
    "double_dqn_qr": DoubleDQNConfig(q_func_factory=QRQFunctionFactory(), target_update_interval=50, **shared),
    "cql_iqn": DiscreteCQLConfig(q_func_factory=IQNQFunctionFactory(n_quantiles=16), alpha=0.5, **shared),
    "cql_mean": DiscreteCQLConfig(q_func_factory=MeanQFunctionFactory(share_encoder=True), n_critics=2, **shared),
}

observations = dataset.episodes[0].observations[:6]
arrays, metrics, returns = {}, {}, []
for name, config in configs.items():
    algo = config.create()
    history = algo.fit(
        dataset,
        n_steps=900,
        n_steps_per_epoch=450,
        experiment_name=name,
        with_timestamp=False,
        show_progress=False,
        save_interval=2,
        evaluators={
            "td_error": d3rlpy.metrics.TDErrorEvaluator(),
            "value": d3rlpy.metrics.AverageValueEstimationEvaluator(),
        },
    )
    arrays[f"{name}_predict"] = algo.predict(observations)
    arrays[f"{name}_value"] = algo.predict_value(observations, np.zeros(6, dtype=np.int64))
    metrics.update({f"{name}_{metric}": value for metric, value in history[-1][1].items()})
    returns.append(d3rlpy.metrics.evaluate_qlearning_with_environment(algo, eval_env, n_trials=10))

# A test reads this
result = {"arrays": arrays, "metrics": metrics, "returns": [float(np.mean(returns))]}
