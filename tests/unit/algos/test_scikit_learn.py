"""Estimators within scikit-learn's tools, with episodes as samples."""

import copy
import multiprocessing
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from estimator_parts import ALL, QUIET, make, vectors

from pfrl_like import algos
from pfrl_like.augmentation import AugmentationPipeline, ColorJitter, SingleAmplitudeScaling
from pfrl_like.errors import NotFittedError
from pfrl_like.gpu import Device
from pfrl_like.metrics import td_error_scorer
from pfrl_like.ope import FQEConfig, evaluate_offline
from pfrl_like.preprocessing import MinMaxScaler, StandardScaler

sklearn_base = pytest.importorskip("sklearn.base")
model_selection = pytest.importorskip("sklearn.model_selection")
loky = pytest.importorskip("joblib.externals.loky")


@pytest.mark.parametrize("name", ALL)
def test_clones_have_the_same_hyperparameters_and_are_not_built(name: str) -> None:
    made = make(
        name, scaler=MinMaxScaler(vectors(True)), augmentation=[SingleAmplitudeScaling(), "multiple_amplitude_scaling"],
        use_gpu=0,
    )  # fmt: skip
    made.use_gpu = None
    made.fit(vectors(made.discrete_action), n_epochs=1, **QUIET)
    clone = sklearn_base.clone(made)
    assert type(clone) is type(made) and clone.impl is None and made.impl is not None
    assert repr(clone) == repr(made) and "MinMaxScaler" in repr(clone)
    assert clone.get_params().keys() == made.get_params().keys() == made.defaults().keys()


@pytest.mark.parametrize("augmentation", [AugmentationPipeline(["random_shift"]), [ColorJitter()], ("cutout",), []])
def test_clones_of_any_augmentation(augmentation: Any) -> None:
    made = sklearn_base.clone(make("DQN", augmentation=augmentation, scaler=StandardScaler()))
    assert repr(made.get_params()["augmentation"]) == repr(augmentation)
    assert repr(made.augmentation) == repr(AugmentationPipeline(augmentation))


def test_gpus_are_numbers_that_copies_know() -> None:
    for given, kept in ((True, Device(0)), (2, Device(2)), (Device(1), Device(1)), (False, None), (None, None)):
        made = make("DQN", use_gpu=given)
        assert made.use_gpu == kept
        assert sklearn_base.clone(made).use_gpu == kept and copy.deepcopy(made).use_gpu == kept


def test_a_gpu_that_is_not_there_is_refused_when_networks_are_built() -> None:
    made = make("DQN", use_gpu=99)
    with pytest.raises(ValueError, match="cuda:99 was asked for"):
        made.create_impl((4,), 2)


def test_data_is_split_and_scores_are_cross_validated() -> None:
    data = vectors(True)
    train, test = model_selection.train_test_split(data, test_size=0.34)
    assert len(train) == 3 and len(test) == 3 and train[0] in data.episodes
    params = {"n_epochs": 1, **QUIET}
    scores = model_selection.cross_validate(
        make("DQN"), data, cv=3, scoring={"td_error": td_error_scorer}, params=params, error_score="raise"
    )
    assert scores["test_td_error"].shape == (3,) and (scores["test_td_error"] < 0).all()


def test_a_grid_is_searched_and_the_best_refitted() -> None:
    made = make("DQN")
    search = model_selection.GridSearchCV(
        made, {"gamma": [0.5, 0.9, 0.7]}, cv=2, scoring=lambda algo, episodes: algo.impl.gamma, error_score="raise"
    )
    search.fit(vectors(True).episodes, n_epochs=2, **QUIET)
    assert search.best_params_ == {"gamma": 0.9}
    assert search.best_estimator_.impl.optim_t == 14 and made.impl is None
    assert search.predict(np.zeros((2, 4))).shape == (2,)


def test_scalers_by_name_are_searched_and_validated() -> None:
    made, data = make("CQL", action_scaler="min_max", n_epochs=1), vectors(False)
    grid = {"scaler": [None, "standard", MinMaxScaler()], "reward_scaler": ["standard", "return"]}
    search = model_selection.GridSearchCV(made, grid, cv=2, scoring=td_error_scorer, error_score="raise")
    search.fit(data.episodes, **QUIET)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all() and len(search.cv_results_["params"]) == 6
    assert search.best_estimator_.action_scaler.fitted and not made.action_scaler.fitted
    assert repr(search.best_estimator_.get_params()["scaler"]) == repr(search.best_params_["scaler"])
    scores = model_selection.cross_validate(
        search.best_estimator_, data, cv=2, scoring=td_error_scorer, params=QUIET, error_score="raise"
    )
    assert np.isfinite(scores["test_score"]).all()


@pytest.mark.slow
def test_a_grid_is_searched_by_several_processes() -> None:
    search = model_selection.GridSearchCV(
        make("DQN"), {"learning_rate": [1e-4, 1e-3]}, cv=2, scoring=td_error_scorer, refit=False, n_jobs=2,
        error_score="raise",
    )  # fmt: skip
    try:
        search.fit(vectors(True).episodes, n_epochs=1, **QUIET)
    finally:
        loky.get_reusable_executor().shutdown()  # its processes would stay for minutes
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert not multiprocessing.active_children()


def test_whether_it_is_fitted_is_known() -> None:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    made = make("DQN")
    with pytest.raises(NotFittedError):
        check_is_fitted(made)
    made.create_impl((4,), 2)
    check_is_fitted(made)


@pytest.mark.filterwarnings("ignore::pfrl_like.ope.UnreliableEstimateWarning")
@pytest.mark.parametrize("name", ["DQN", "CQL"])
def test_its_own_score_is_what_off_policy_evaluation_expects(name: str) -> None:
    made = make(name)
    data = vectors(made.discrete_action)
    with pytest.raises(NotFittedError, match="not built yet"):
        made.score(data)
    made.fit(data, n_epochs=1, **QUIET)
    torch.manual_seed(0)
    np.random.seed(0)
    estimates = evaluate_offline(made, data, gamma=made.gamma, n_steps=3, deterministic=True)
    assert ("wdr" in estimates) == made.discrete_action
    torch.manual_seed(0)
    np.random.seed(0)
    assert made.score(data, n_steps=3, deterministic=True) == estimates["fqe"].value
    with pytest.raises(AttributeError, match=r"call pfrl_like\.ope\.evaluate_offline\(estimator, "):
        made.evaluate_offline(data)
    other_gamma = make(name, gamma=0.5, impl=made.impl)
    with pytest.raises(ValueError, match=r"gamma is 0\.5, but config has 0\.9"):
        other_gamma.score(data, config=FQEConfig(gamma=0.9))


def test_without_off_policy_evaluation_a_score_says_what_to_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pfrl_like.algos.Estimator.evaluate", None)
    with pytest.raises(RuntimeError, match=r"import pfrl_like\.ope"):
        make("DQN").score(vectors(True))
    early = copy.deepcopy(make("DQN"))
    monkeypatch.undo()
    assert early.evaluate is evaluate_offline  # once it is imported


def test_off_policy_evaluation_comes_with_a_pickled_estimator() -> None:
    assert pickle.loads(pickle.dumps(algos.CQL())).evaluate is evaluate_offline  # in a process that imports nothing
