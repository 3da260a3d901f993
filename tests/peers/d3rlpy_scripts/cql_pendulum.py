"""CQL on Pendulum, as in the tutorial of 1.x: scorers, an evaluation in the environment, metrics in a folder."""

from d3rlpy.algos import CQL
from d3rlpy.datasets import get_pendulum
from d3rlpy.metrics.scorer import (
    average_value_estimation_scorer,
    continuous_action_diff_scorer,
    discounted_sum_of_advantage_scorer,
    evaluate_on_environment,
    td_error_scorer,
)
from sklearn.model_selection import train_test_split

dataset, env = get_pendulum()
train_episodes, test_episodes = train_test_split(dataset.episodes[:8], test_size=0.25, random_state=0)

cql = CQL(
    actor_learning_rate=1e-3, critic_learning_rate=1e-3, temp_learning_rate=1e-3, alpha_learning_rate=1e-3,
    batch_size=32, n_critics=2, action_scaler="min_max", use_gpu=False,
)  # fmt: skip
cql.fit(
    train_episodes,
    eval_episodes=test_episodes,
    n_steps=3,
    n_steps_per_epoch=3,
    scorers={
        "environment": evaluate_on_environment(env, n_trials=1),
        "td_error": td_error_scorer,
        "value": average_value_estimation_scorer,
        "advantage": discounted_sum_of_advantage_scorer,
        "action_diff": continuous_action_diff_scorer,
    },
    logdir="logs",
    tensorboard_dir="tensorboard",
    experiment_name="cql",
    with_timestamp=False,
    verbose=False,
    show_progress=False,
)
assert {name: len(scores) for name, scores in cql.eval_results_.items()} == dict.fromkeys(cql.eval_results_, 1)
assert cql.predict(test_episodes[0].observations[:2]).shape == (2, 1)
