"""`check_estimator`: checks of the contracts that every estimator must meet."""

import copy
import functools
import os
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from pfrl_like.dataset import MDPDataset, TransitionMiniBatch
from pfrl_like.errors import NotFittedError
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.testing.play import difference, require, require_equal, require_error
from pfrl_like.utils.random_seed import set_random_seed

MakeEstimator = Callable[[], Any]

#: Arguments of `fit` for one epoch that writes no files and prints nothing.
QUIET: dict[str, Any] = {"n_epochs": 1, "save_metrics": False, "verbose": False, "show_progress": False}


def check_estimator(make_estimator: MakeEstimator, episodes: Any = None, *, seed: int = 0) -> None:
    """Check that an estimator meets the contracts of `pfrl_like.algos`, for example `check_estimator(YourEstimator)`.

    Each `check_*` function of this module checks one contract.

    Args:
        make_estimator: Function or class that returns a new estimator that is not built yet. The check is fast if
            networks and batches are small.
        episodes: Dataset for `fit`. If None, the check makes a dataset of random observations [4] with three discrete
            actions or continuous actions [2].
        seed: Seed of the global random streams. The function restores the streams at its end.

    Raises:
        AssertionError: If the estimator violates a contract. The message describes the error.
    """
    episodes = example_episodes(make_estimator().discrete_action) if episodes is None else episodes
    with isolated_rng(), tempfile.TemporaryDirectory() as folder:
        for check in CHECKS:
            set_random_seed(seed)
            check(make_estimator, episodes, folder)


def example_episodes(discrete_action: bool) -> MDPDataset:
    """Return a dataset of five random episodes of twelve steps each."""
    rng = np.random.default_rng(0)
    observations = rng.normal(size=(60, 4)).astype(np.float32)
    actions = rng.integers(0, 3, 60) if discrete_action else rng.uniform(-1, 1, (60, 2)).astype(np.float32)
    terminals = np.arange(60) % 12 == 11
    rewards = rng.normal(size=60)
    return MDPDataset.from_arrays(observations, actions, rewards, terminals, discrete_action=discrete_action)


def observations_of(algo: Any, episodes: Any) -> Any:
    """Return the first 5 observations of an episode, [5, ...], with the estimator's number of stacked frames."""
    return TransitionMiniBatch(episodes[0][:5], algo.n_frames).observations


def _fitted(make_estimator: MakeEstimator, episodes: Any, seed: int = 1) -> Any:
    set_random_seed(seed)
    fitted = make_estimator().fit(episodes, **QUIET)
    require(fitted is not None, "fit returned None, expected the estimator itself")
    return fitted


# The checks, one for each contract


def check_the_constructor_only_stores(make_estimator: MakeEstimator, episodes: Any, folder: str) -> None:
    """Check that the constructor stores the values of `get_params` unchanged, as attributes."""
    algo = make_estimator()
    params = algo.get_params(deep=False)
    copied = type(algo)(**params)
    for name, value in params.items():
        stored = copied.get_params(deep=False)[name]
        is_same = stored is value or stored == value
        require(is_same, f"get_params: {name} was {value!r} and is {stored!r} after construction")
        require(hasattr(copied, name), f"{name} is a hyperparameter, but not an attribute")
    require(algo.impl is None, "impl is not None before the estimator was built")


def check_unknown_keywords_are_reported(make_estimator: MakeEstimator, episodes: Any, folder: str) -> None:
    """Check that the warning about an unknown keyword contains it and the most similar known keyword.

    If the class attribute `ignores_unknown` is False, there is a TypeError in place of the warning.
    """
    algo = make_estimator()
    for use in (lambda **kwargs: type(algo)(**kwargs), algo.set_params):
        if not getattr(algo, "ignores_unknown", True):
            message = "the unknown keyword bach_size raised no TypeError"
            require_error(TypeError, message, functools.partial(use, bach_size=3))
            continue
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            configured = use(bach_size=3)
        texts = [str(warning.message) for warning in caught]
        require(any("bach_size" in text and "batch_size" in text for text in texts), f"bach_size: no warning, {texts}")
        require(configured is not None, "set_params returned None, expected the estimator itself")
        require(not hasattr(configured, "bach_size"), "bach_size was stored")


def check_hyperparameters_can_be_set(make_estimator: MakeEstimator, episodes: Any, folder: str) -> None:
    """Check that `set_params` sets attributes, and does not change a deep copy of the estimator."""
    algo = make_estimator()
    other = copy.deepcopy(algo)
    require(algo.set_params(batch_size=7) is algo, "set_params returned a different object")
    sizes = algo.batch_size, algo.get_params()["batch_size"]
    require(sizes == (7, 7), f"batch_size is {sizes[0]} (attribute) and {sizes[1]} (get_params) after it was set to 7")
    require(other.batch_size != 7, "set_params changed a deep copy, which was made before the call")


def check_unbuilt_estimators_raise_errors(make_estimator: MakeEstimator, episodes: Any, folder: str) -> None:
    """Check that `predict` and `save_model` raise `NotFittedError` before `fit` has built the estimator."""
    x = observations_of(make_estimator(), episodes)
    for use, argument in (("predict", x), ("save_model", os.path.join(folder, "unbuilt.pt"))):
        message = f"{use} of an estimator that is not built raised no NotFittedError"
        require_error(NotFittedError, message, getattr(make_estimator(), use), argument)


def check_predictions_have_the_right_shape(make_estimator: MakeEstimator, episodes: Any, folder: str) -> None:
    """Check that `predict` and `predict_value` return one action and one value per observation."""
    algo = _fitted(make_estimator, episodes)
    x = observations_of(algo, episodes)
    shape = (len(x),) if algo.discrete_action else (len(x), algo.action_size_)
    kind = "int" if algo.discrete_action else "float"
    for method in (algo.predict, algo.sample_action):
        try:
            actions = method(x)
        except NotImplementedError:
            continue
        name = method.__name__
        require(actions.shape == shape, f"{name} returned the shape {actions.shape}, expected {shape}")
        require(actions.dtype.name.startswith(kind), f"{name} returned {actions.dtype}, expected {kind}")
    try:
        value = algo.predict_value(x, algo.predict(x))
    except NotImplementedError:
        return
    require(value.shape == (len(x),), f"predict_value returned the shape {value.shape}, expected {(len(x),)}")
    require(np.isfinite(value).all(), "predict_value returned NaN or infinity")


def check_fitting_is_reproducible(make_estimator: MakeEstimator, episodes: Any, folder: str) -> None:
    """Check that two calls of `fit` with the same seed result in the same parameters."""
    first, second = (_fitted(make_estimator, episodes) for _ in range(2))
    message = "the same seed resulted in different parameters"
    require_equal(first.impl.state_dict(), second.impl.state_dict(), message)


def check_a_loaded_model_equals_the_saved_one(make_estimator: MakeEstimator, episodes: Any, folder: str) -> None:
    """Check that further training of a loaded model and of the saved model results in the same parameters."""
    algo, path = _fitted(make_estimator, episodes), os.path.join(folder, "model.pt")
    algo.save_model(path)
    other = make_estimator()
    other.load_model(path)
    for each in (algo, other):
        set_random_seed(2)
        each.fit(episodes, **QUIET)
    message = "after save_model and load_model, training continued differently"
    require_equal(algo.impl.state_dict(), other.impl.state_dict(), message)


def check_params_json_makes_an_equal_estimator(make_estimator: MakeEstimator, episodes: Any, folder: str) -> None:
    """Check that the files of `fit`, `params.json` and the model, restore the estimator's parameters."""
    set_random_seed(1)
    options = {**QUIET, "save_metrics": True, "logdir": folder, "experiment_name": "run", "with_timestamp": False}
    algo = make_estimator().fit(episodes, tensorboard=False, **options)
    run = os.path.join(folder, "run")
    models = [name for name in os.listdir(run) if name.startswith("model_")]
    require(len(models) == 1, f"fit wrote the models {models} in one epoch, expected one model")
    copied = type(algo).from_json(os.path.join(run, "params.json"))
    copied.load_model(os.path.join(run, models[0]))
    message = "from_json and load_model restored different parameters"
    require_equal(algo.impl.state_dict(), copied.impl.state_dict(), message)


def check_nothing_is_written_without_metrics(make_estimator: MakeEstimator, episodes: Any, folder: str) -> None:
    """Check that `fit(save_metrics=False)` writes no files into the log directory."""
    logdir = os.path.join(folder, "nothing")
    make_estimator().fit(episodes, logdir=logdir, **QUIET)
    require(not os.path.exists(logdir), "fit(save_metrics=False) wrote files")


def check_updates_give_losses(make_estimator: MakeEstimator, episodes: Any, folder: str) -> None:
    """Check that `update(epoch, total_step, batch)` returns a list of finite numbers and changes the agent."""
    algo = _fitted(make_estimator, episodes)
    before = copy.deepcopy(algo.impl.state_dict())
    losses = algo.update(0, 0, episodes.sample(16, algo.n_frames))
    require(isinstance(losses, list) and losses, f"update returned {losses!r}, expected a list of losses")
    require(np.isfinite(losses).all(), f"update returned {losses!r}, expected finite numbers")
    require(difference(before, algo.impl.state_dict()), "update changed no parameter")


CHECKS = [check for name, check in list(globals().items()) if name.startswith("check_") and name != "check_estimator"]
