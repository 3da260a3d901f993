"""Every estimator keeps the contracts of `check_estimator`."""

import json
from typing import Any

import pytest
import torch
from estimator_parts import (
    ALL,
    QUIET,
    SEQUENTIAL,
    SMALL,
    SMALL_FILTERS,
    WITHOUT_FIT,
    Bounded,
    built,
    images,
    make,
    vectors,
)

from pfrl_like import load_learnable
from pfrl_like.algos.fitting.hyperparameters import parameters_of
from pfrl_like.ope import FQE
from pfrl_like.testing import check_estimator
from pfrl_like.testing import estimator_checks as estimators
from pfrl_like.utils import set_random_seed


@pytest.mark.representatives(4)
@pytest.mark.parametrize("name", ALL)
def test_estimator_keeps_the_contracts(name: str) -> None:
    check_estimator(lambda: make(name))


@pytest.mark.parametrize("check", [
    estimators.check_the_constructor_only_stores, estimators.check_unknown_keywords_are_reported,
    estimators.check_hyperparameters_can_be_set, estimators.check_unbuilt_estimators_raise_errors,
])  # fmt: skip
@pytest.mark.parametrize("name", WITHOUT_FIT)
def test_those_without_fit_keep_the_contracts_that_need_none(name: str, check: Any, tmp_path: Any) -> None:
    check(lambda: make(name), estimators.example_episodes(make(name).discrete_action), str(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"scaler": "standard", "augmentation": ["single_amplitude_scaling"], "n_augmentations": 2},
        {"n_critics": 3, "bootstrap": True, "share_encoder": True, "use_batch_norm": True},
        {"q_func_type": "qr"},
        {"q_func_type": "iqn"},
        {"q_func_type": "fqf"},
    ],
    ids=["scaled", "ensemble", "qr", "iqn", "fqf"],
)
@pytest.mark.parametrize("name", ["DQN", "TD3"])
def test_estimator_of_any_parts_keeps_them(name: str, options: dict[str, Any]) -> None:
    check_estimator(lambda: make(name, **options))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["DiscreteCQL", "SAC"])
def test_estimator_of_images_keeps_them(name: str) -> None:
    def build() -> Any:
        return make(
            name, n_frames=2, scaler="pixel", augmentation=["random_shift", "intensity"], encoder_params=SMALL_FILTERS
        )

    check_estimator(build, images(build().discrete_action))


COMPILED = [*(name for name in ALL if name not in SEQUENTIAL), "PPO", "FQE"]


def updated(name: str, **options: Any) -> Any:
    """An estimator after eight updates, or as many rollouts."""
    set_random_seed(0)
    if name == "FQE":
        evaluation = FQE(built("DQN"), **SMALL, **options)
        evaluation.fit(vectors(True), n_steps=8, n_steps_per_epoch=4, **QUIET)
        return evaluation
    made = make(name, **options)
    if name == "PPO":
        return made.fit_online(Bounded(), n_steps=60, n_steps_per_epoch=30, **QUIET)
    return made.fit(vectors(made.discrete_action), n_steps=8, n_steps_per_epoch=4, **QUIET)


def assert_compiled_equals_eager(name: str) -> None:
    eager, compiled = (updated(name, compile=compile) for compile in (False, True))
    assert compiled.impl._compiled._regions
    torch.testing.assert_close(parameters_of(compiled.impl), parameters_of(eager.impl), rtol=1e-4, atol=1e-5)


@pytest.mark.representatives(3)
@pytest.mark.parametrize("name", COMPILED)
def test_updates_that_would_be_compiled_equal_ordinary_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda region, **_: region)
    assert_compiled_equals_eager(name)


@pytest.mark.parametrize("name", [*SEQUENTIAL, *(name for name in WITHOUT_FIT if name != "PPO")])
def test_what_cannot_be_compiled_is_refused_before_it_learns(name: str) -> None:
    made = make(name, compile=True)
    with pytest.raises(ValueError, match=f"compile is True, but {name} "):
        made.build_with_dataset(vectors(made.discrete_action))
    with pytest.raises(ValueError, match=f"compile is True, but {name} "):
        made.create_impl((4,), 2)
    assert made.impl is None


def test_compile_is_a_hyperparameter_like_others(tmp_path: Any) -> None:
    algo = make("DQN", compile=True)
    algo.create_impl((4,), 3)
    assert algo.impl.is_compiled and algo.__sklearn_clone__().compile
    algo.save(tmp_path / "model.d3")
    assert load_learnable(tmp_path / "model.d3").impl.is_compiled
    (tmp_path / "params.json").write_text(json.dumps(algo._json_params()))
    assert type(algo).from_json(tmp_path / "params.json").impl.is_compiled
    older = {name: value for name, value in algo._json_params().items() if name != "compile"}
    (tmp_path / "params.json").write_text(json.dumps(older))
    assert not type(algo).from_json(tmp_path / "params.json").impl.is_compiled
    with pytest.raises(TypeError, match="compile is 3"):
        make("DQN", compile=3).create_impl((4,), 3)
    evaluation = FQE(algo, compile=True, **SMALL)
    evaluation.build_with_dataset(vectors(True))
    assert evaluation.config.compile and evaluation.impl.is_compiled


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_updates_equal_ordinary_ones(name: str) -> None:
    assert_compiled_equals_eager(name)
