"""Estimators within scikit-learn's tools, with episodes as samples."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from estimator_parts import ALL, QUIET, SMALL, WITHOUT_FIT, built, make, predicted, vectors

from pfrl_like import algos
from pfrl_like.augmentation import AugmentationPipeline, ColorJitter
from pfrl_like.dynamics import MOPO
from pfrl_like.errors import NotFittedError
from pfrl_like.gpu import Device
from pfrl_like.ope import FQEConfig, evaluate_offline
from pfrl_like.preprocessing import StandardScaler
from pfrl_like.utils import set_random_seed

sklearn_base = pytest.importorskip("sklearn.base")
model_selection = pytest.importorskip("sklearn.model_selection")
pipeline = pytest.importorskip("sklearn.pipeline")
estimator_checks = pytest.importorskip("sklearn.utils.estimator_checks")
loky = pytest.importorskip("joblib.externals.loky")

#: Arguments of `fit` for the step "algo".
ONCE = {f"algo__{name}": value for name, value in {"n_epochs": 1, **QUIET}.items()}


class First(sklearn_base.TransformerMixin, sklearn_base.BaseEstimator):  # type: ignore[misc]
    """Lets the first episodes pass; observations, of which there are arrays, pass all."""

    def __init__(self, n: int = 2) -> None:
        self.n = n

    def fit(self, episodes: Any, y: Any = None) -> Any:
        self.n_seen_ = len(episodes)
        return self

    def transform(self, episodes: Any) -> Any:
        return episodes if isinstance(episodes, np.ndarray) else episodes[: self.n]


def piped(first: Any = "passthrough", **options: Any) -> Any:
    return pipeline.Pipeline([("first", first), ("algo", make("DQN", **options))])


def test_it_is_the_last_step_of_a_pipeline() -> None:
    whole, two = piped().fit(vectors(True), **ONCE), piped(First()).fit(vectors(True).episodes, **ONCE)
    assert whole[-1].impl.optim_t == 120 // 16 and two[-1].impl.optim_t == 40 // 16
    assert two["first"].n_seen_ == 6
    assert two.predict(np.zeros((3, 4), np.float32)).shape == (3,)


class Brief(algos.DQN):
    """Is judged after few updates."""

    def score(self, episodes: Any, y: Any = None, **options: Any) -> float:
        return super().score(episodes, y, **{"n_steps": 3, "deterministic": True, **options})


@pytest.mark.filterwarnings("ignore::pfrl_like.ope.UnreliableEstimateWarning")
def test_the_score_of_a_pipeline_is_that_of_its_last_step() -> None:
    made = pipeline.Pipeline([("first", First()), ("algo", Brief(**SMALL))]).fit(vectors(True).episodes, **ONCE)
    scores = []
    for score in (made.score, lambda episodes: made[-1].score(episodes[:2])):
        set_random_seed(0)
        scores.append(score(vectors(True).episodes))
    assert np.isfinite(scores[0]) and scores[0] == scores[1]


def test_parts_of_a_pipeline_are_set_and_cloned() -> None:
    made = piped(First()).set_params(algo__gamma=0.5, first__n=1)
    clone = sklearn_base.clone(made.fit(vectors(True).episodes, **ONCE))
    assert clone[-1].gamma == 0.5 and clone[0].n == 1 and clone[-1].impl is None


@pytest.mark.slow
def test_clones_keep_their_model_of_the_environment() -> None:
    options = {"n_ensembles": 2, "n_transitions": 6, "horizon": 2}
    model = MOPO(**SMALL | options).fit(vectors(False), n_epochs=1, **QUIET)
    algo = make("CQL", dynamics=model)
    clone = sklearn_base.clone(algo)
    assert clone.dynamics is not model
    first = [made.dynamics.predict(np.zeros((2, 4)), np.zeros((2, 2)))[0] for made in (clone, algo)]
    assert np.array_equal(*first)
    search = model_selection.GridSearchCV(
        algo, {"dynamics__lam": [0.5, 2.0]}, cv=2, scoring=lambda made, _: made.dynamics.lam, error_score="raise"
    )
    search.fit(vectors(False).episodes, n_epochs=1, **QUIET)
    assert search.best_params_ == {"dynamics__lam": 2.0} and model.lam == 1.0
    assert sklearn_base.clone(model).impl is None


def test_parts_that_are_not_there_are_told_of() -> None:
    with pytest.warns(UserWarning, match="no hyperparameter 'dynamics__lam'"):
        make("CQL").set_params(dynamics__lam=2.0)
    model = MOPO()
    made = make("CQL").set_params(dynamics__lam=2.0, dynamics=model)
    assert made.dynamics is model and model.lam == 2.0


def test_notebooks_show_it() -> None:
    from sklearn.utils import estimator_html_repr

    for made in (make("DQN", gamma=0.5), piped(gamma=0.5)):
        assert "DQN" in estimator_html_repr(made) and "0.5" in estimator_html_repr(made)


@pytest.mark.filterwarnings("ignore::UserWarning")  # values of no sense for use_gpu are refused at once
@pytest.mark.parametrize("check", [
    "estimator_cloneable", "estimator_repr", "estimator_tags_renamed", "get_params_invariance", "mixin_order",
    "no_attributes_set_in_init", "parameters_default_constructible", "set_params", "valid_tag_types",
])  # fmt: skip
@pytest.mark.parametrize("name", [*ALL, *WITHOUT_FIT])
def test_what_scikit_learn_checks_without_arrays(name: str, check: str) -> None:
    getattr(estimator_checks, f"check_{check}")(name, make(name))


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
    set_random_seed(0)
    estimates = evaluate_offline(made, data, gamma=made.gamma, n_steps=3, deterministic=True)
    assert ("wdr" in estimates) == made.discrete_action
    set_random_seed(0)
    assert made.score(data, n_steps=3, deterministic=True) == estimates["fqe"].value
    with pytest.raises(AttributeError, match=r"call pfrl_like\.ope\.evaluate_offline\(estimator, "):
        made.evaluate_offline(data)
    other_gamma = make(name, gamma=0.5, impl=made.impl)
    with pytest.raises(ValueError, match=r"gamma is 0\.5, but gamma of config is 0\.9"):
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


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
@pytest.mark.parametrize("name", WITHOUT_FIT)
def test_those_without_fit_are_copied_when_they_are_built(name: str, copied: Any) -> None:
    made, obs = built(name), np.ones((5, 4), np.float32)
    assert np.array_equal(predicted(copied(made), obs), predicted(made, obs))


@pytest.mark.filterwarnings("ignore::pfrl_like.ope.UnreliableEstimateWarning")
@pytest.mark.parametrize("name", WITHOUT_FIT)
def test_those_without_fit_have_scores(name: str) -> None:
    made = built(name)
    assert np.isfinite(made.score(vectors(made.discrete_action), n_steps=2))
