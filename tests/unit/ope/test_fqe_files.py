"""FQE and DiscreteFQE in files, and what they take over from others."""

import copy
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fqe_parts as parts
import numpy as np
import pytest
import torch
from agent_parts import make_agent
from estimator_parts import QUIET as NOTHING_KEPT

import pfrl_like
from pfrl_like import algos, ope
from pfrl_like.errors import CheckpointError, NotFittedError
from pfrl_like.loggers import FileAdapterFactory
from pfrl_like.preprocessing import StandardScaler

# Files


@pytest.mark.parametrize("kind", ["predict alone", "a discrete estimator", "a continuous estimator"])
def test_what_was_saved_is_loaded_and_goes_on_as_it_would(kind: str, tmp_path: Path) -> None:
    discrete, make_algo = parts.EVALUATED[kind]
    algo = make_algo()
    fqe = parts.fitted(discrete, algo, observation_scaler="standard", n_critics=2)
    fqe.save(tmp_path / "model.d3")
    estimator = hasattr(algo, "create_impl")
    other = pfrl_like.load_learnable(tmp_path / "model.d3", device="cpu", algo=None if estimator else algo)
    assert type(other) is type(fqe) and parts.alike(fqe, other) and other.grad_step == 20
    x = np.random.default_rng(0).normal(size=(5, parts.OBS)).astype(np.float32)
    np.testing.assert_array_equal(other.predict(x), fqe.predict(x))
    for each in (fqe, other):
        np.random.seed(0)
        torch.manual_seed(0)
        each.fit(parts.data(discrete), 15, **parts.QUIET)
    assert parts.alike(fqe, other)


@pytest.mark.parametrize("kind", ["predict alone", "a discrete estimator"])
def test_a_file_tells_that_actions_are_discrete(kind: str, tmp_path: Path) -> None:
    fqe = ope.FQE(parts.EVALUATED[kind][1](), parts.config())
    fqe.fit(parts.data(), 5, **parts.QUIET)
    fqe.save(tmp_path / "model.d3")
    loaded, unbuilt = pfrl_like.load_learnable(tmp_path / "model.d3"), ope.FQE(parts.LeansOn(True), parts.config())
    unbuilt.load_model(tmp_path / "model.d3")
    for each in (loaded, unbuilt):
        assert type(each) is ope.FQE and each.discrete_action and parts.alike(fqe, each)


@pytest.mark.parametrize("discrete", [False, True])
def test_hyperparameters_of_older_files_are_known(discrete: bool, tmp_path: Path) -> None:
    """They had a class and a configuration, and the oldest did not say how many frames and which kind of actions."""
    scaler = StandardScaler(mean=[0.0] * parts.OBS, std=[1.0] * parts.OBS).describe()
    told = {
        "class": "DiscreteFQE" if discrete else "FQE", "observation_shape": [parts.OBS], "action_size": 2, "algo": None,
        "config": dataclasses.asdict(parts.config(gamma=0.5)) | {"observation_scaler": scaler},
    }  # fmt: skip
    (tmp_path / "params.json").write_text(json.dumps(told))
    fqe = ope.FQE.from_json(tmp_path / "params.json")
    assert type(fqe) is (ope.DiscreteFQE if discrete else ope.FQE) and fqe.discrete_action == discrete
    assert (fqe.gamma, fqe.n_frames, fqe.observation_shape) == (0.5, 1, (parts.OBS,)) and fqe.observation_scaler.fitted


def test_without_the_algorithm_values_are_known_and_actions_are_not(tmp_path: Path) -> None:
    fqe = parts.fitted()
    fqe.save(tmp_path / "model.d3")
    other = pfrl_like.load_learnable(tmp_path / "model.d3")
    x = np.zeros((2, parts.OBS))
    np.testing.assert_array_equal(other.predict_value(x, [0, 1]), fqe.predict_value(x, [0, 1]))
    with pytest.raises(NotFittedError, match="pass algo"):
        other.predict(x)


def test_params_json_makes_it_anew_and_load_model_brings_what_it_had_learnt(tmp_path: Path) -> None:
    algo = parts.built(algos.DiscreteBC())
    fqe = parts.make(algo=algo, gamma=0.5, reward_scaler="standard")
    fqe.fit(parts.data(), 10, experiment_name="run", with_timestamp=False, show_progress=False,
            logger_adapter=FileAdapterFactory(str(tmp_path)))  # fmt: skip
    other = ope.DiscreteFQE.from_json(tmp_path / "run" / "params.json")
    assert other.gamma == 0.5 and isinstance(other.algo, algos.DiscreteBC) and not parts.alike(fqe, other)
    assert other.reward_scaler.get_params() == fqe.reward_scaler.get_params()
    fqe.save_model(tmp_path / "model.pt")
    other.load_model(tmp_path / "model.pt")
    assert parts.alike(fqe, other) and other.grad_step == 10
    unbuilt = parts.make(reward_scaler="standard")
    unbuilt.load_model(tmp_path / "model.pt")
    assert parts.alike(fqe, unbuilt)


def test_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    fqe = parts.fitted()
    fqe.save(tmp_path / "model.d3")
    other = parts.unfitted(encoder_params={"hidden_units": (9,)})
    before = parts.networks(other)
    with pytest.raises(CheckpointError, match="model.d3"):
        other.load_model(tmp_path / "model.d3")
    assert all(map(torch.equal, before, parts.networks(other)))


# What others have learnt


def test_critics_and_optimisers_are_copied_and_policies_too() -> None:
    first, second = parts.fitted(algo=parts.softmax_policy()), parts.make(algo=parts.softmax_policy())
    second.build_with_dataset(parts.data())
    theirs = second.algo
    kept = [parameter.clone() for parameter in theirs.parameters()]
    second.copy_q_function_from(first)
    assert parts.alike(first, second)
    for own, target in zip(second.agent.critics, second.agent.target_critics, strict=True):
        assert all(map(torch.equal, own.parameters(), target.parameters()))
    second.copy_q_function_optim_from(first)
    states = [each.agent.q_func1_optimizer.state_dict()["state"] for each in (first, second)]
    torch.testing.assert_close(*states)
    second.reset_optimizer_states()
    assert not second.agent.q_func1_optimizer.state
    second.copy_policy_from(first)
    assert all(map(torch.equal, second.agent.policy.parameters(), first.algo.parameters()))
    assert all(map(torch.equal, kept, theirs.parameters()))
    with pytest.raises(ValueError, match="evaluates a fixed policy"):
        second.copy_policy_optim_from(first)


def trained(kind: Any, **options: Any) -> Any:
    made = kind(**{"encoder_params": {"hidden_units": (8,)}, **options})
    return made.fit(parts.data(made.discrete_action), n_steps=2, n_steps_per_epoch=2, **NOTHING_KEPT)


def test_optimisers_of_estimators_are_taken_with_their_states() -> None:
    fqe, estimator = parts.make(), trained(algos.DoubleDQN)
    fqe.build_with_dataset(parts.data())
    fqe.copy_q_function_from(estimator)
    fqe.copy_q_function_optim_from(estimator)
    optimizers = (fqe.agent.q_func1_optimizer, estimator.impl.optimizer)
    torch.testing.assert_close(*(each.state_dict()["state"] for each in optimizers))
    fqe.fit(parts.data(), 2, **parts.QUIET)
    assert all(state["step"] == 4 for state in fqe.agent.q_func1_optimizer.state.values())


OTHER_FORM = "algo has a Q-function with different parameters"


@pytest.mark.parametrize(
    ("make_other", "discrete", "message"),
    [
        (lambda: trained(algos.BC), False, "algo is BC, which has no Q-function"),
        (lambda: trained(algos.DiscreteBC), True, "algo is DiscreteBC, which has no Q-function"),
        (lambda: trained(algos.SAC), False, "algo has 2 Q-functions, expected 1"),
        (lambda: trained(algos.TD3, n_critics=1, encoder_params={"hidden_units": (256,)}), False, OTHER_FORM),
        (lambda: parts.fitted(encoder_params={"hidden_units": (9,)}), True, OTHER_FORM),
        (lambda: parts.fitted(n_critics=2), True, "2 Q-functions, expected 1|with different parameters"),
    ],
    ids=["BC", "DiscreteBC", "SAC", "TD3", "other layers", "two critics"],
)
def test_what_has_no_such_critics_is_refused_and_changes_nothing(make_other: Any, discrete: bool, message: str) -> None:
    fqe, algo = parts.fitted(discrete), make_other()
    optimizer = fqe.agent.q_func1_optimizer
    before = copy.deepcopy([parts.networks(fqe), optimizer.state_dict()])
    for take in (fqe.copy_q_function_from, fqe.copy_q_function_optim_from):
        with pytest.raises(ValueError, match=message):
            take(algo)
    torch.testing.assert_close([parts.networks(fqe), optimizer.state_dict()], before)
    fqe.fit(parts.data(discrete), 2, **parts.QUIET)


COPIED: dict[str, Callable[[float], Any]] = {
    "an agent": lambda std: make_agent("DoubleDQN"),
    "an estimator": lambda std: parts.built(algos.TD3()),
    "one of another scaler": lambda std: parts.built(
        algos.SAC(scaler=StandardScaler(mean=np.zeros(parts.OBS), std=[std] * parts.OBS))
    ),
}


@pytest.mark.representatives(2)
@pytest.mark.parametrize("by_fqe", [False, True], ids=["itself", "its FQE"])
@pytest.mark.parametrize("kind", COPIED)
def test_the_copied_policy_is_what_is_exported_and_saved(kind: str, by_fqe: bool, tmp_path: Path) -> None:
    discrete, first, second = kind == "an agent", COPIED[kind](1.0), COPIED[kind](3.0)
    fqe, other = parts.make(discrete, first), parts.make(discrete, second)
    for each in (fqe, other):
        each.build_with_dataset(parts.data(discrete))
    x = np.random.default_rng(0).normal(size=(20, parts.OBS)).astype(np.float32)
    expected, before = parts.actions_of(second, x), parts.actions_of(first, x)
    assert not np.allclose(expected, before)
    fqe.copy_policy_from(other if by_fqe else second)
    assert fqe.algo is not second and np.allclose(fqe.predict(x), expected)
    fqe.save_policy(tmp_path / "policy.pt")
    exported = torch.jit.load(tmp_path / "policy.pt")(torch.tensor(x))
    np.testing.assert_allclose(exported.numpy(), expected, atol=1e-5)
    fqe.save(tmp_path / "model.d3")
    loaded = pfrl_like.load_learnable(tmp_path / "model.d3", algo=fqe.algo if discrete else None)
    np.testing.assert_allclose(loaded.predict(x), expected, atol=1e-6)
    fqe.fit(parts.data(discrete), 2, **parts.QUIET)
    np.testing.assert_array_equal(parts.actions_of(first, x), before)
    np.testing.assert_array_equal(parts.actions_of(second, x), expected)


@pytest.mark.parametrize(("first", "second"), [("TD3", "BCQ"), ("BCQ", "TD3"), ("BEAR", "BEAR")])
def test_what_chooses_in_a_way_of_its_own_is_not_copied(first: str, second: str) -> None:
    fqe = parts.unfitted(False, parts.built(getattr(algos, first)()))
    policy, algo = fqe.agent.policy, fqe.algo
    with pytest.raises(ValueError, match=f"algo: {min(first, second)} acts by more than one"):
        fqe.copy_policy_from(parts.built(getattr(algos, second)()))
    assert fqe.agent.policy is policy and fqe.algo is algo


def test_the_targets_move_when_the_count_is_a_multiple_of_their_interval() -> None:
    fqe = parts.unfitted(target_update_interval=10)
    fqe.set_grad_step(7)
    rng = np.random.default_rng(0)
    moved = []
    for _ in range(14):
        before = [parameter.clone() for parameter in fqe.agent.target_critics[0].parameters()]
        fqe.update(parts.data().sample_batch(16, 0.9, rng=rng))
        moved.append(not all(map(torch.equal, before, fqe.agent.target_critics[0].parameters())))
    assert fqe.grad_step == 21
    assert [i for i, each in enumerate(moved, 7) if each] == [10, 20]


def test_a_copied_policy_is_evaluated_as_it_acts() -> None:
    fqe, sampling = parts.make(False, parts.built(algos.SAC())), parts.built(algos.SAC())
    fqe.build_with_dataset(parts.data(False))
    assert fqe.agent.act_deterministically
    sampling.impl.act_deterministically = False
    fqe.copy_policy_from(sampling)
    assert not fqe.agent.act_deterministically
    fqe.copy_policy_from(parts.built(algos.SAC()))
    assert fqe.agent.act_deterministically


def test_an_agent_that_sees_otherwise_is_not_copied() -> None:
    fqe, other = parts.make(True, make_agent("DoubleDQN")), make_agent("DoubleDQN", phi=lambda obs: np.float32(2) * obs)
    fqe.build_with_dataset(parts.data(True))
    before = [*map(torch.clone, fqe.agent.policy.parameters())]
    with pytest.raises(ValueError, match="algo has another phi"):
        fqe.copy_policy_from(other)
    assert all(map(torch.equal, before, fqe.agent.policy.parameters()))
