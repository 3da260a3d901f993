"""Discrete CQL on CartPole, with a loop over the epochs that `fitter` yields."""

import d3rlpy

d3rlpy.seed(1)
dataset, env = d3rlpy.datasets.get_dataset("cartpole-replay")
assert dataset.is_action_discrete() and dataset.get_action_size() == 2

cql = d3rlpy.algos.DiscreteCQL(learning_rate=6.25e-5, batch_size=32, target_update_interval=10, alpha=1.0)
matches = []
for epoch, metrics in cql.fitter(
    dataset.episodes[:4],
    n_steps=6,
    n_steps_per_epoch=3,
    eval_episodes=dataset.episodes[4:6],
    scorers={
        "match": d3rlpy.metrics.scorer.discrete_action_match_scorer,
        "initial": d3rlpy.metrics.scorer.initial_state_value_estimation_scorer,
        "opc": d3rlpy.metrics.scorer.soft_opc_scorer(10),
    },
    save_metrics=False,
    verbose=False,
    show_progress=False,
):
    matches.append(metrics["match"])
    cql.save_model(f"model_{epoch}.pt")
assert len(matches) == 2 and 0 <= min(matches) <= max(matches) <= 1

observations, actions = dataset.observations[:5], dataset.actions[:5]
assert cql.predict(observations).shape == (5,)
values, stds = cql.predict_value(observations, actions, with_std=True)
assert values.shape == stds.shape == (5,)
assert cql.impl.q_function is not None
