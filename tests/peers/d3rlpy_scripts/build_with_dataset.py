"""An algorithm that is built before `fit`: scores of the first weights, parameters counted, then training."""

import d3rlpy
from d3rlpy.metrics.scorer import evaluate_on_environment, td_error_scorer

dataset, env = d3rlpy.datasets.get_cartpole()
dqn = d3rlpy.algos.DQN(batch_size=32, scaler="standard")
dqn.build_with_dataset(dataset)
assert dqn.observation_shape == (4,) and dqn.action_size == 2
before = td_error_scorer(dqn, dataset.episodes[:2])
assert evaluate_on_environment(env, n_trials=1)(dqn) > 0
assert sum(weights.numel() for weights in dqn.impl.q_function.parameters()) > 1000

calls = []
dqn.fit(
    dataset.episodes[:3], n_epochs=1, callback=lambda algo, epoch, total_step: calls.append(total_step),
    save_metrics=False, verbose=False, show_progress=False,
)  # fmt: skip
assert calls and td_error_scorer(dqn, dataset.episodes[:2]) != before

online = d3rlpy.algos.DoubleDQN()
online.build_with_env(env)
assert online.predict(dataset.observations[:2]).shape == (2,)
