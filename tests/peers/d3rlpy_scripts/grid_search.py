"""scikit-learn's tools: cross-validation, grid search, and one GPU for each task."""

from d3rlpy.algos import DQN
from d3rlpy.context import disable_parallel, parallel
from d3rlpy.datasets import get_cartpole
from d3rlpy.gpu import get_gpu_count
from d3rlpy.metrics.scorer import average_value_estimation_scorer, td_error_scorer
from sklearn.model_selection import GridSearchCV, cross_validate

dataset, _ = get_cartpole()
episodes = dataset.episodes[:4]
fit_params = {"n_epochs": 1, "save_metrics": False, "show_progress": False, "verbose": False}
dqn = DQN(batch_size=64, use_gpu=get_gpu_count() > 0)

scoring = {"td_error": td_error_scorer, "value": average_value_estimation_scorer}
scores = cross_validate(dqn, episodes, scoring=scoring, params=fit_params, cv=2)
assert len(scores["test_td_error"]) == len(scores["test_value"]) == 2

search = GridSearchCV(dqn, {"learning_rate": [1e-3, 1e-4]}, scoring=td_error_scorer, refit=False, cv=2)
with parallel(), disable_parallel():
    search.fit(episodes, **fit_params)
assert search.best_params_["learning_rate"] in (1e-3, 1e-4)
