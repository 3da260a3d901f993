"""Hyperparameters that are set when the agent is built: they take effect in it, or are refused."""

from typing import Any

import pytest
import torch
from estimator_parts import ALL, FEW, QUIET, SEQUENTIAL, SMALL, WITHOUT_FIT, make, train, vectors

from pfrl_like import algos
from pfrl_like.algos.fitting.base import ESTIMATORS
from pfrl_like.algos.fitting.hyperparameters import parameters_of, settings_of
from pfrl_like.dynamics import MOPO
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.utils import set_random_seed

#: What networks are made of, or begin with.
KEPT = {
    "encoder_params", "initial_alpha", "initial_temperature", "latent_size", "n_critics", "n_ensembles", "n_frames",
    "q_func_type", "scaler", "action_scaler", "reward_scaler", "share_encoder", "use_batch_norm", "use_gpu",
    "discrete_action", "compile",
}  # fmt: skip
#: The same of some estimators alone: a policy without regularisation has no layer for it, one critic no ensemble.
KEPT_BY = {
    "BCQ": {"n_action_samples", "action_flexibility"}, "CRR": {"target_update_type"}, "COMBO": {"alpha_threshold"},
    **dict.fromkeys(["ReBRAC", "TD3", "TD3PlusBC"], {"regularizing_rate"}),
    "PLASWithPerturbation": {"action_flexibility"}, "PPO": {"augmentation", "n_augmentations"},
    **dict.fromkeys(SEQUENTIAL, {"context_size", "n_augmentations", "num_heads", "num_layers"}),
    **dict.fromkeys(["DQN", "DoubleDQN", "DiscreteCQL", "DiscreteBCQ"], {"bootstrap"}),
}  # fmt: skip
OTHER: dict[str, Any] = {
    "batch_size": 17, "use_batch_norm": True, "use_gpu": 0, "scaler": "min_max", "bootstrap": True, "n_frames": 2,
    "augmentation": ["single_amplitude_scaling"], "encoder_params": {"hidden_units": [5]}, "q_func_type": "qr",
    "share_encoder": True, "clip_delta": True, "discrete_action": True, "dynamics": MOPO(), "action_scaler": "min_max",
    "reward_scaler": "standard", "n_epochs": 3, "soft_q_backup": False, "mmd_kernel": "laplacian",
    "advantage_type": "max", "distribution": "normal",
    "compile": True, "weight_type": "binary", "target_update_type": "soft", "alpha_threshold": 3.0,
}  # fmt: skip
#: Estimators of the default run: indices of actions, numbers, imitation, a model of the environment.
EXEMPLARS = {"DQN", "SAC", "BC", "MOPO", "PPO", "RandomPolicy"}


def other(name: str, value: Any) -> Any:
    """Another value of a hyperparameter."""
    return OTHER[name] if name in OTHER else 2 * value + 1 if isinstance(value, int) else 0.5 * value or 0.3


def built(name: str, **options: Any) -> Any:
    with isolated_rng():
        torch.manual_seed(0)
        made = make(name, **options)
        made.create_impl((4,), 3 if made.discrete_action else 2)
        return made


def learnt(made: Any) -> dict[str, torch.Tensor]:
    """The parameters after some updates, which are the same ones every time."""
    with isolated_rng():
        set_random_seed(1)
        train(made)
    return parameters_of(made.impl)


@pytest.mark.representatives(1, "PPO-False", "RandomPolicy-False")
@pytest.mark.parametrize("one_by_one", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in EXEMPLARS else pytest.mark.slow) for name in [*ALL, *WITHOUT_FIT, "MOPO"]],
)
def test_an_agent_learns_by_what_is_set_later_as_if_built_so_or_it_is_refused(name: str, one_by_one: bool) -> None:
    params = {param: value for param, value in built(name).get_params().items() if param not in {"impl", "dynamics"}}
    accepted = {}
    for param, value in params.items():
        made, new = built(name), other(param, value)
        try:
            made.set_params(**{param: new})
        except ValueError as error:
            assert str(error).startswith(f"{param} is ") and repr(made.get_params()[param]) == repr(value)
        else:
            assert made.get_params(deep=False)[param] == new
            accepted[param] = new
    for changes in [{param: new} for param, new in accepted.items()] if one_by_one else [accepted]:
        expected = learnt(built(name, **changes))
        found = learnt(built(name).set_params(**changes))
        assert all(torch.equal(tensor, expected[key]) for key, tensor in found.items()), changes
    assert params.keys() - accepted.keys() == (KEPT | KEPT_BY.get(name, set())) & params.keys()


def test_of_several_all_are_set_or_none() -> None:
    made = built("DQN")
    with pytest.raises(ValueError, match="n_critics is 3, but the agent was built with 1, and n_critics cannot"):
        made.set_params(gamma=0.5, n_critics=3, learning_rate=0.1)
    assert made.gamma == made.impl.gamma == 0.99 and made.impl.optimizer.param_groups[0]["lr"] == made.learning_rate
    made.set_params(gamma=0.5, learning_rate=0.1)
    assert made.impl.gamma == 0.5 and made.impl.optimizer.param_groups[0]["lr"] == 0.1


@pytest.mark.parametrize("name", ALL)
def test_learning_rates_change_after_updates(name: str) -> None:
    made = built(name, **({"alpha_threshold": 1.0} if name == "COMBO" else {}))
    made.update(vectors(made.discrete_action).sample(16))
    rates = [param for param in made.defaults() if param.endswith("learning_rate")]
    for number, rate in enumerate(rates, 2):
        assert 0.01 * number in rates_of(made.set_params(**{rate: 0.01 * number}))


def rates_of(made: Any) -> set[float]:
    return {setting.value for path, setting in settings_of(made.impl).items() if path.endswith(".lr")}


def test_what_is_learnt_and_counted_stays() -> None:
    made = built("SAC")
    learnt(made)
    agent, before = made.impl, {name: tensor.clone() for name, tensor in parameters_of(made.impl).items()}
    state, count = torch.random.get_rng_state(), agent.optim_t
    made.set_params(gamma=0.5, critic_learning_rate=0.1, update_actor_interval=1)
    assert made.impl is agent and agent.optim_t == count and torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(tensor, before[name]) for name, tensor in parameters_of(agent).items())
    assert all(agent.q_func1_optimizer.state.values())


def test_learning_rates_fall_while_fitting() -> None:
    made, rates = built("DQN"), []

    def fall(algo: Any, epoch: int, step: int) -> None:
        rates.append(algo.impl.optimizer.param_groups[0]["lr"])
        algo.set_params(learning_rate=algo.learning_rate / 2)

    made.fit(vectors(True), n_epochs=3, epoch_callback=fall, **QUIET)
    assert rates == pytest.approx([6.25e-5, 6.25e-5 / 2, 6.25e-5 / 4])


def test_attributes_take_effect_with_the_next_fit() -> None:
    made = built("DQN")
    made.gamma = 0.5
    made.fit(vectors(True), n_epochs=1, **QUIET)
    assert made.impl.gamma == 0.5
    made.n_critics = 2
    with pytest.raises(ValueError, match="n_critics is 2, but the agent was built with 1"):
        made.fit(vectors(True), n_epochs=1, **QUIET)


def test_a_loaded_model_is_tuned_on(tmp_path: Any) -> None:
    built("CQL").save_model(tmp_path / "model.pt")
    made = ESTIMATORS["CQL"](**SMALL, n_action_samples=FEW["n_action_samples"])
    made.load_model(tmp_path / "model.pt")
    assert made.set_params(alpha_threshold=3.0).impl.alpha_threshold == 3.0


def test_an_agent_that_was_handed_in_keeps_its_own() -> None:
    made = algos.DQN(impl=built("DQN").impl, **SMALL)
    with pytest.raises(ValueError, match=r"gamma is 0\.5"):
        made.set_params(gamma=0.5)
    assert made.set_params(batch_size=8).batch_size == 8
