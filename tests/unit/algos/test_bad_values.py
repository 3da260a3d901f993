"""Hyperparameters and data that cannot be: errors that say which, what came and what was expected."""

import inspect
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from estimator_parts import ALL, QUIET, SAMPLING, SMALL_FILTERS, built, images, make, vectors

from pfrl_like import algos
from pfrl_like.algos.fitting.base import ESTIMATORS, Estimator
from pfrl_like.algos.fitting.saving import errors_about_file
from pfrl_like.algos.fitting.unsupported import NoValues
from pfrl_like.batch import Batch
from pfrl_like.dataset import TransitionMiniBatch
from pfrl_like.dynamics import MOPO
from pfrl_like.errors import CheckpointError, NotFittedError

#: Hyperparameters that are numbers of at least 0.
RATES = {
    "actor_learning_rate", "critic_learning_rate", "temp_learning_rate", "alpha_learning_rate", "learning_rate",
    "imitator_learning_rate", "eps", "momentum", "actor_weight_decay", "weight_decay", "regularizing_rate", "tau",
    "target_smoothing_sigma", "target_smoothing_clip", "target_update_interval",
}  # fmt: skip
FLAGS = {"bootstrap", "clip_delta", "share_encoder", "use_batch_norm", "discrete_action"}
COUNTS = {"batch_size", "n_frames", "n_critics", "n_ensembles", "latent_size", "update_actor_interval"}
WRONG: dict[str, Any] = {
    **dict.fromkeys(RATES, (-0.5, float("nan"), float("inf"))), **dict.fromkeys(COUNTS, (0, -1)),
    "rl_start_epoch": [-1], "warmup_steps": [-1], "target_update_interval": (-0.5, float("nan"), float("inf"), 2.9),
}  # fmt: skip


@pytest.mark.representatives(4, "DQN", "PLAS")
@pytest.mark.parametrize("name", [*ALL, MOPO.__name__])
def test_what_cannot_be_is_called_by_its_name(name: str) -> None:
    params = ESTIMATORS[name].defaults().keys()
    assert params & RATES
    for param in params & WRONG.keys():
        for wrong in WRONG[param]:
            with pytest.raises(ValueError, match=rf"^{param} is {wrong}, expected"):
                built(name, **{param: wrong})
        for no_number in ("a", None, True, *[1.5] * (param in COUNTS | {"warmup_steps"})):
            with pytest.raises(TypeError, match=rf"^{param} is {no_number!r} \("):
                built(name, **{param: no_number})
    for param in params & FLAGS:
        built(name, **{param: np.True_})
        for wrong in (1, "yes", None):
            with pytest.raises(TypeError, match=rf"^{param} is {wrong!r} \(.*expected True or False"):
                built(name, **{param: wrong})


@pytest.mark.parametrize(
    ("mistake", "text"),
    [
        (lambda: algos.IQL(temperature=1.0), "no hyperparameter 'temperature'; the nearest is 'weight_temp'"),
        (lambda: algos.IQL(seed=1), "no hyperparameter 'seed'; the hyperparameters are action_scaler, actor_learning_"),
        (lambda: algos.IQL().fit([], n_epoch=1), r"IQL\.fit\(\) got an .* 'n_epoch'; the nearest is 'n_epochs'"),
        (lambda: algos.IQL().fit([], evaluators={}), r"IQL\.fit\(\) got .* 'evaluators'; the nearest is 'scorers'"),
        (lambda: algos.SAC().fit_online(None, n_step=1), r"SAC\.fit_online\(\) got .*; the nearest is 'n_steps'"),
    ],
)
def test_unknown_names_get_the_nearest_or_all(mistake: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        mistake()


def test_what_is_not_built_says_how_to_build_it() -> None:
    for made, text in ((algos.PPO(), "fit_online, build_with_dataset"), (MOPO(), "fit, create_impl or load_model$")):
        with pytest.raises(NotFittedError, match=f"is not built yet: call {text}"):
            made.save_model("model.pt")
    with pytest.raises(NotFittedError, match="scaler is 'standard', .*: call build_with_dataset or fit_scaler first"):
        algos.PPO(scaler="standard").fit_online("Pendulum-v1", **QUIET)


def test_fit_says_in_one_line_that_tensorboard_is_not_installed(
    caplog: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    make("DQN").fit(vectors(True), n_epochs=1, logdir=tmp_path, verbose=False, show_progress=False)
    assert caplog.messages == [
        f"tensorboard is True, but TensorBoard is not installed: metrics are written to {next(tmp_path.iterdir())} only"
    ]


def test_an_update_says_how_many_frames_it_needs() -> None:
    made = make("DQN", encoder_params=SMALL_FILTERS, n_frames=4)
    made.create_impl((1, 16, 16), 3)
    transitions = [transition for episode in images(True) for transition in episode][:8]
    text = r"batch has observations of shape \(8, 2, 16, 16\), expected \(n, 4, 16, 16\), 4 frames stacked"
    with pytest.raises(ValueError, match=text):
        made.update(0, 0, TransitionMiniBatch(transitions, 2))
    assert len(made.update(0, 0, TransitionMiniBatch(transitions, 4))) == 1
    with pytest.raises(ValueError, match=r"expected \(n, 4, 16, 16\)"):
        made.predict(np.zeros((2, 1, 16, 16), np.uint8))
    other: Batch = vectors(True).sample_batch(8, 0.99)
    with pytest.raises(ValueError, match=r"batch has observations of shape \(8, 4\), expected \(n, 4, 16, 16\)"):
        made.update(0, 0, other)


def test_no_augmentation_may_be_said_by_none() -> None:
    made = algos.DQN(augmentation=None, batch_size=16).fit(vectors(True), n_epochs=1, **QUIET)
    assert made.impl.augment is None and made.get_params()["augmentation"] is None
    with pytest.raises(TypeError, match="the augmentation is 5"):
        built("DQN", augmentation=5)


@pytest.mark.parametrize("name", ALL)
def test_of_no_observation_there_is_no_action_and_no_value(name: str) -> None:
    made, none = built(name), np.zeros((0, 4), np.float32)
    actions = made.predict(none)
    one = made.predict(np.zeros((1, 4), np.float32))
    assert actions.shape == (0, *one.shape[1:]) and actions.dtype == one.dtype
    if not isinstance(made, NoValues):
        assert made.predict_value(none, actions).shape == (0,)
    if name in SAMPLING:
        assert made.sample_action(none).shape == actions.shape


@pytest.mark.representatives(2)
@pytest.mark.parametrize("name", ALL)
def test_what_a_file_tells_that_cannot_be_is_damage_of_the_file(name: str, tmp_path: Path) -> None:
    made = make(name).fit(vectors(ESTIMATORS[name].discrete_action), n_epochs=1, **QUIET)
    params = made._json_params()
    path = tmp_path / "params.json"
    path.write_text(json.dumps(params))
    assert Estimator.from_json(path).get_params().keys() == made.get_params().keys()
    refused = set()
    for wrong in ("x", -3.5, [1], {"a": []}):
        for param in sorted(params.keys() - {"use_gpu", "dynamics"}):
            path.write_text(json.dumps(params | {param: wrong}))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    Estimator.from_json(path)
                except CheckpointError as error:
                    assert str(path) in str(error)
                    refused.add(param)
    assert params.keys() - refused <= {"use_gpu", "dynamics"}


def test_an_unknown_hyperparameter_of_a_strict_estimator_raises_an_error_with_the_nearest_name() -> None:
    strict: Any = type("Strict", (algos.DQN,), {"ignores_unknown": False})
    del ESTIMATORS["Strict"]
    assert "kwargs" not in inspect.signature(strict).parameters
    made = strict()
    for use in (strict, made.set_params):
        with pytest.raises(TypeError, match="Strict has no hyperparameter 'gama'; the nearest is 'gamma'$"):
            use(gama=0.5, learning_rate=0.1)
        with pytest.raises(TypeError, match="'q_func_factory', which other versions of d3rlpy have"):
            use(q_func_factory="qr")
    assert made.learning_rate == algos.DQN.learning_rate


def test_a_rate_that_there_are_several_of_is_told_with_all_their_names() -> None:
    rates = "'actor_learning_rate', 'alpha_learning_rate', 'critic_learning_rate', 'temp_learning_rate'"
    with pytest.warns(UserWarning, match=f"has no hyperparameter 'learning_rate', which is ignored: there are {rates}"):
        algos.CQL(learning_rate=1e-3)
    with pytest.warns(UserWarning, match="the nearest is 'gamma'"):
        algos.CQL(gama=0.9)
    with pytest.warns(UserWarning, match="ignored: there is 'learning_rate'$"):
        algos.DiscreteCQL(lr=1e-3)


@pytest.mark.parametrize("name", [*ALL, MOPO.__name__])
def test_one_row_cannot_be_normalised(name: str) -> None:
    with pytest.raises(ValueError, match="use_batch_norm is True, but batch_size 1"):
        built(name, use_batch_norm=True, batch_size=1)
    made = built(name, use_batch_norm=True)
    with pytest.raises(ValueError, match="use_batch_norm is True, but batch_size 1"):
        made.set_params(batch_size=1)
    assert made.batch_size == 16
    if name.endswith("AWR"):
        with pytest.raises(ValueError, match="batch_size 16 and batch_size_per_update 1"):
            built(name, use_batch_norm=True, batch_size_per_update=1)


@pytest.mark.parametrize("inner", ["", "inner"])
def test_a_file_in_the_place_of_the_log_is_refused_before_training(inner: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    made, options = make("DQN"), {"verbose": False, "show_progress": False}
    with pytest.raises(ValueError, match="logdir is '.*file.*', but '.*file' is a file, expected a folder"):
        made.fit(vectors(True), 1, logdir=tmp_path / "file" / inner, **options)
    with pytest.raises(ValueError, match="logdir is '.*', but '.*file' is a file, expected a folder"):
        made.fit(vectors(True), 1, logdir=tmp_path, experiment_name="file", with_timestamp=False, **options)
    with pytest.raises(ValueError, match="logdir is '.*', but '.*file' is a file, expected a folder"):
        made.fit_online("CartPole-v1", logdir=tmp_path / "file" / inner)
    for fit in (lambda: made.fit(vectors(True), 1, logdir=None), lambda: made.fit_online("CartPole-v1", logdir=None)):
        with pytest.raises(TypeError, match="logdir is None, expected a path"):
            fit()
    assert made.impl is None
    made.fit(vectors(True), n_steps=1, logdir=tmp_path / "file", save_metrics=False, **options)
    made.fit(vectors(True), n_steps=1, logdir=tmp_path, experiment_name="file", tensorboard=False, **options)


def test_an_agent_without_an_estimator_is_told_where_it_is() -> None:
    with pytest.raises(AttributeError, match=r"'CrossQ': it is an agent .* pfrl_like.agents.CrossQ"):
        algos.CrossQ  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'$"):
        algos.Nothing  # noqa: B018


def test_an_import_of_a_name_of_d3rlpy_is_told_the_name_here() -> None:
    with pytest.raises(ImportError, match=r"it is an agent without an estimator, pfrl_like.agents.CrossQ$"):
        from pfrl_like.algos import CrossQ  # noqa: F401
    with pytest.raises(ImportError, match=r"'CrossQConfig': it is an agent .* pfrl_like.agents.CrossQ$"):
        from pfrl_like.algos import CrossQConfig  # noqa: F401
    with pytest.raises(ImportError, match=r"'DQNConfig'; the nearest is 'DQN'$"):
        from pfrl_like.algos import DQNConfig  # noqa: F401


def test_what_a_part_says_of_itself_is_told_with_the_file() -> None:
    with pytest.raises(CheckpointError, match="^a: has invalid contents: alpha: is damaged$"), errors_about_file("a"):
        raise CheckpointError("alpha", "is damaged")
    with pytest.raises(CheckpointError, match="^a: is damaged$"), errors_about_file("a"):
        raise CheckpointError("a", "is damaged")
