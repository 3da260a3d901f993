"""Searches hyperparameters of discrete CQL by scikit-learn's cross-validation, with episodes as samples.

    python examples/offline/grid_search.py

Needs scikit-learn: the extra `offline`.
Time: about half a minute on one core.
"""

import common
from sklearn.model_selection import GridSearchCV

from pfrl_like import algos, datasets, metrics

args = common.start(common.make_parser(__doc__, steps=300))
dataset, env = datasets.get_cartpole()
env.reset(seed=args.seed)
search = GridSearchCV(
    algos.DiscreteCQL(batch_size=64, target_update_interval=100, encoder_params={"hidden_units": [64]}),
    param_grid={"learning_rate": [1e-4, 1e-3], "gamma": [0.9, 0.99]},
    scoring={"TD error": metrics.td_error_scorer, "match": metrics.discrete_action_match_scorer},
    refit="match",
    cv=2,
)
search.fit(
    dataset.episodes,
    n_steps=args.steps,
    n_steps_per_epoch=args.steps,
    save_metrics=False,
    verbose=False,
    show_progress=False,
    tensorboard=False,
)
for params, error, match in zip(
    search.cv_results_["params"],
    search.cv_results_["mean_test_TD error"],
    search.cv_results_["mean_test_match"],
    strict=True,
):
    print(f"{params}: TD error {error:.3f}, recorded actions matched {match:.3f}")
score = metrics.evaluate_on_environment(env, n_trials=args.eval_n_runs)(search.best_estimator_)
print(f"taken: {search.best_params_}; its mean return: {score:.1f}")
