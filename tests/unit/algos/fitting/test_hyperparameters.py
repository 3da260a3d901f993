"""Each hyperparameter does what its text says."""

import copy
import operator
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from estimator_parts import ALL, QUIET, SEQUENTIAL, SMALL, built, make, predicted, vectors
from torch import nn

from pfrl_like import action_value, algos
from pfrl_like.augmentation import AugmentationPipeline
from pfrl_like.nn import ActivityPenalty
from pfrl_like.preprocessing import MinMaxRewardScaler, MinMaxScaler, StandardScaler

OBS = np.random.default_rng(1).normal(size=(7, 4)).astype(np.float32)


def having(parameter: str) -> list[str]:
    return [name for name in ALL if parameter in algos.fitting.base.ESTIMATORS[name].defaults()]


def test_what_is_shown_is_what_was_changed() -> None:
    made = algos.DQN(gamma=0.5, encoder_params={"hidden_units": np.array([3, 4])}, augmentation=np.array([]))
    assert "gamma=0.5" in repr(made) and "array([3, 4])" in repr(made) and "batch_size" not in repr(made)


def test_texts_of_annotations_are_understood() -> None:
    namespace = {"DQN": algos.DQN}
    text = (
        "from __future__ import annotations\nfrom typing import Any, ClassVar\n"
        "class Further(DQN):\n    further: float = 2.0\n    table: ClassVar[dict[str, Any]] = {}\n"
    )
    exec(text, namespace)  # what a module of the user's may be
    made: Any = namespace["Further"](further=3.0)
    assert made.further == 3.0 and made.defaults().keys() - algos.DQN.defaults().keys() == {"further"}
    del algos.fitting.base.ESTIMATORS["Further"]


#: Optimisers by the hyperparameters that are their learning rates; an agent has one of several names.
OPTIMIZERS = {
    "learning_rate": ("optimizer",), "actor_learning_rate": ("policy_optimizer", "actor_optimizer"),
    "critic_learning_rate": ("q_func1_optimizer", "critic_optimizer", "v_func_optimizer"),
    "temp_learning_rate": ("temperature_optimizer",), "alpha_learning_rate": ("alpha_optimizer",),
    "imitator_learning_rate": ("imitator_optimizer",),
}  # fmt: skip
OF_OPTIMIZERS = {"eps": 0.25, "momentum": 0.7, "actor_weight_decay": 0.3}


@pytest.mark.parametrize("name", ALL)
def test_optimisers_have_rates_of_their_own(name: str) -> None:
    known = algos.fitting.base.ESTIMATORS[name].defaults().keys()
    rates = {rate: 0.01 * i for i, rate in enumerate(OPTIMIZERS, 1) if rate in known}
    others = {option: value for option, value in OF_OPTIMIZERS.items() if option in known}
    made = built(name, **rates, **others, **({"alpha_threshold": 1.0} if name == "COMBO" else {}))
    found = [next(getattr(made.impl, each) for each in OPTIMIZERS[rate] if hasattr(made.impl, each)) for rate in rates]
    assert [each.defaults["lr"] for each in found] == [*rates.values()]
    main = found[: 1 if "learning_rate" in rates else 2]
    for option in {"eps", "momentum"} & others.keys():
        assert {each.defaults[option] for each in main} == {others[option]}
    if "actor_weight_decay" in known:
        assert [each.defaults["weight_decay"] for each in main] == [0.3, 0]
    params = [{id(param) for group in each.param_groups for param in group["params"]} for each in main]
    assert len(set().union(*params)) == sum(map(len, params))


#: Numbers that agents keep, and where.
REACHED = {
    name: name for name in (
        "gamma", "lam", "beta", "max_weight", "action_flexibility", "mmd_sigma", "alpha_threshold", "n_action_samples",
        "n_actor_updates", "n_critic_updates", "batch_size_per_update", "target_update_interval", "actor_beta",
        "critic_beta", "eta", "expectile",
    )
} | {
    "weight_temp": "beta", "initial_temperature": "temperature", "initial_alpha": "alpha",
    "latent_size": "imitator.latent_size",
}  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_numbers_reach_the_agent(name: str) -> None:
    known = algos.fitting.base.ESTIMATORS[name].defaults()
    reached = {each: known[each] for each in known.keys() & REACHED if known[each] is not None}
    given = {each: 2 * value if isinstance(value, int) else value / 2 for each, value in reached.items()}
    made = built(name, **given)
    assert {param: operator.attrgetter(REACHED[param])(made.impl) for param in given} == pytest.approx(given)
    assert made.get_params().items() >= given.items()


@pytest.mark.parametrize("name", having("clip_delta"))
def test_clip_delta_makes_errors_beyond_1_count_linearly(name: str) -> None:
    batch = vectors(True).sample_batch(16, 0.9).replace(reward=torch.full((16,), 10.0), discount=torch.zeros(16))
    losses = []
    for clip_delta in (False, True):
        torch.manual_seed(0)
        error, stats = built(name, clip_delta=clip_delta).impl.update(batch)
        losses.append(stats["loss"])
    assert (error > 1).all()  # where the Huber loss is error - 1/2
    assert torch.allclose(losses[0] - losses[1], (error.square() / 2 - (error - 0.5)).mean())


@pytest.mark.parametrize("name", having("tau"))
def test_tau_is_how_far_targets_move(name: str) -> None:
    made = built(name, tau=0.25, **({"target_update_type": "soft"} if name == "CRR" else {}))
    agent = made.impl
    critic, target = agent.critics[0], agent.target_critics[0]
    with torch.no_grad():
        for param in critic.parameters():
            param.add_(1.0)
    before = [param.clone() for param in target.parameters()]
    agent.sync_target_network()
    for old, new in zip(before, target.parameters(), strict=True):
        assert torch.allclose(new - old, torch.full_like(old, 0.25))


@pytest.mark.parametrize("name", having("update_actor_interval"))
def test_policies_learn_at_their_interval_beginning_with_the_first_update(name: str) -> None:
    made = built(name, update_actor_interval=3)
    data = vectors(False)
    lengths = [len(made.update(0, step, data.sample(16))) for step in range(7)]
    most = len(made.loss_names)
    assert lengths == [most, most - 1, most - 1] * 2 + [most]


@pytest.mark.parametrize("name", having("share_encoder"))
def test_critics_share_an_encoder(name: str) -> None:
    def count(**options: Any) -> int:
        agent = built(name, n_critics=2, **options).impl
        network = next(getattr(agent, each) for each in ("q_func1", "q_func", "model") if hasattr(agent, each))
        return sum(param.numel() for param in network.parameters())

    encoder = 16 * (1 + (4 if algos.fitting.base.ESTIMATORS[name].discrete_action else 6))
    assert count() - count(share_encoder=True) == encoder


@pytest.mark.representatives(3)
@pytest.mark.parametrize("name", having("bootstrap"))
def test_bootstrapped_critics_learn_from_different_rows(name: str) -> None:
    """Critics that begin alike stay alike, unless each learns from rows of its own."""

    def spread(bootstrap: bool) -> float:
        made = built(name, n_critics=2, bootstrap=bootstrap, eps=1.0)
        for ensemble in [part for part in vars(made.impl).values() if hasattr(part, "members")]:
            ensemble.members[1].load_state_dict(ensemble.members[0].state_dict())
        data = vectors(made.discrete_action)
        for step in range(4):
            made.update(0, step, data.sample(16))
        action = np.zeros(7, int) if made.discrete_action else np.zeros((7, 2))
        return float(made.predict_value(OBS, action, with_std=True)[1].max())

    assert spread(False) == pytest.approx(0, abs=1e-6) and spread(True) > 1e-6


Q_FUNCTIONS: dict[str, Any] = {
    "mean": action_value.DiscreteActionValue, "qr": action_value.QuantileDiscreteActionValue,
    "iqn": action_value.ImplicitQuantileActionValue, "fqf": action_value.FullyParametrizedActionValue,
}  # fmt: skip


@pytest.mark.representatives(11)
@pytest.mark.parametrize("q_func_type", Q_FUNCTIONS)
@pytest.mark.parametrize("name", having("q_func_type"))
def test_q_functions_give_what_their_type_says(name: str, q_func_type: str) -> None:
    made = built(name, q_func_type=q_func_type)
    obs, discrete = torch.tensor(OBS), made.discrete_action
    critic = made.impl.critics[0] if hasattr(made.impl, "critics") else made.impl.model
    value = critic(obs if discrete else (obs, torch.zeros(7, 2)))
    assert type(value) is Q_FUNCTIONS[q_func_type]
    made.update(0, 0, vectors(discrete).sample(16))
    actions = np.zeros(7, int) if discrete else np.zeros((7, 2))
    np.testing.assert_array_equal(made.predict_value(OBS, actions), made.predict_value(OBS, actions))
    np.testing.assert_array_equal(predicted(made, OBS), predicted(made, OBS))
    with pytest.raises(ValueError, match="q_func_type is 'mode', expected one of 'mean', 'qr', 'iqn', 'fqf'"):
        built(name, q_func_type="mode")


@pytest.mark.parametrize("name", ALL)
def test_networks_have_the_layers_that_were_asked_for(name: str) -> None:
    trains_policy = {"warmup_steps": 0} if name in having("warmup_steps") else {}
    made = built(name, encoder_params={"hidden_units": [11, 7]}, use_batch_norm=True, **trains_policy)
    networks = [value for key, value in vars(made.impl).items() if isinstance(value, nn.Module) and "holder" not in key]
    for network in networks:
        sizes = [part.out_features for part in network.modules() if isinstance(part, nn.Linear)]
        norms = [part for part in network.modules() if isinstance(part, nn.BatchNorm1d)]
        if sizes:
            assert {11, 7} <= set(sizes) and len(norms) >= 2
    before = made.impl.saved_attributes[0]
    made.update(0, 0, vectors(made.discrete_action).sample(16))
    moments = [part.running_mean for part in getattr(made.impl, before).modules() if isinstance(part, nn.BatchNorm1d)]
    assert all(mean.abs().sum() > 0 for mean in moments)


@pytest.mark.parametrize("name", ALL)
def test_scalers_come_before_the_networks(name: str) -> None:
    scaler = StandardScaler(mean=[5.0] * 4, std=[2.0] * 4)
    plain, scaled = built(name), built(name, scaler=scaler)
    scaled.impl.load_state_dict(plain.impl.state_dict())
    assert np.allclose(predicted(scaled, OBS * 2 + 5), predicted(plain, OBS), atol=1e-5)


@pytest.mark.parametrize("name", [name for name in ALL if name not in SEQUENTIAL])
def test_minibatches_are_augmented_as_often_as_asked_for(name: str) -> None:
    seen: list[torch.Tensor] = []

    def double(obs: torch.Tensor, rng: Any) -> torch.Tensor:
        seen.append(obs)
        return 2 * obs

    scaler = StandardScaler(mean=[1.0] * 4, std=[2.0] * 4)
    made = built(name, augmentation=[double], n_augmentations=3, scaler=scaler)
    batch = vectors(made.discrete_action).sample_batch(16, 0.9, **made.impl.sampling)
    augmented = made.impl.augment(batch)
    assert len(augmented) == 48 and len(seen) == 6
    assert torch.allclose(seen[0], (batch.obs - 1) / 2)
    assert torch.allclose(augmented.obs, (2 * batch.obs - 1).repeat(3, 1), atol=1e-5)
    td_error, _ = made.impl.update(batch)
    assert len(td_error) == 16


@pytest.mark.parametrize("name", ["DDPG", "TD3"])
def test_what_tanh_is_applied_to_is_regularised(name: str) -> None:
    made = built(name, reguralizing_rate=0.5)
    assert made.regularizing_rate == made.reguralizing_rate == 0.5
    layer, penalty, *_ = made.impl.policy[1:]
    assert isinstance(layer, nn.Linear) and isinstance(penalty, ActivityPenalty) and penalty.rate == 0.5
    unbuilt = make(name)
    unbuilt.reguralizing_rate = 0.25
    assert unbuilt.regularizing_rate == 0.25 and unbuilt.get_params()["regularizing_rate"] == 0.25


def test_noise_on_target_actions_has_its_size_and_bound() -> None:
    smooth = built("TD3", target_smoothing_sigma=0.1, target_smoothing_clip=0.15).impl.target_policy_smoothing_func
    noise = smooth(torch.zeros(20000, 2))
    assert 0.085 < float(noise.std()) < 0.1 and float(noise.abs().max()) == pytest.approx(0.15)
    assert float(smooth(torch.ones(1000, 2)).max()) == 1.0


def test_a_pass_takes_each_transition_once() -> None:
    seen: list[torch.Tensor] = []
    made = built("DQN", batch_size=24)
    made.impl.augment = lambda batch: seen.append(batch.obs) or batch
    data = vectors(True)
    made.fit(data, n_epochs=2, **QUIET)
    for epoch in (seen[:5], seen[5:]):
        assert len(torch.cat(epoch).unique(dim=0)) == 120
    assert not torch.equal(torch.cat(seen[:5]), torch.cat(seen[5:]))


CHOSEN = {"scaler": "standard", "reward_scaler": "min_max", "augmentation": ["single_amplitude_scaling"]}


@pytest.mark.representatives(4)
@pytest.mark.parametrize("name", [name for name in ALL if name not in SEQUENTIAL])
def test_what_is_given_by_name_is_an_attribute_as_an_object(name: str) -> None:
    made = make(name, **CHOSEN)
    assert type(made.scaler) is StandardScaler and type(made.reward_scaler) is MinMaxRewardScaler
    assert repr(made.augmentation) == repr(AugmentationPipeline(CHOSEN["augmentation"]))
    scaler = made.scaler
    assert not scaler.fitted and made.scaler is scaler
    made.fit(vectors(made.discrete_action), n_epochs=1, **QUIET)
    assert made.scaler is made.scaler_ and made.scaler.fitted and not scaler.fitted
    assert made.reward_scaler is made.reward_scaler_ and made.reward_scaler.fitted
    for params in (made.get_params(), made.get_params(deep=False), made.__sklearn_clone__().get_params()):
        assert params.items() >= CHOSEN.items()


def test_objects_that_are_given_are_kept() -> None:
    scaler, pipeline = MinMaxScaler(), AugmentationPipeline(["multiple_amplitude_scaling"])
    made = make("DQN", scaler=scaler, augmentation=pipeline)
    assert made.scaler is scaler and made.augmentation is pipeline
    params = made.get_params(deep=False)
    assert params["scaler"] is scaler and params["augmentation"] is pipeline
    made.fit(vectors(True), n_epochs=1, **QUIET)
    assert made.scaler.fitted and made.get_params(deep=False)["scaler"] is scaler and not scaler.fitted


def test_a_scaler_that_its_user_has_fitted_stays() -> None:
    rows = np.float32([[0, 0, 0, 0], [2, 4, 6, 8]])
    made = make("DQN", scaler="standard")
    made.scaler.fit(rows)
    made.fit(vectors(True), n_epochs=1, **QUIET)
    assert made.scaler.mean.tolist() == [1, 2, 3, 4]
    made.fit_scaler(rows * 2)  # what was given, by name, is fitted again
    assert made.scaler.mean.tolist() == [2, 4, 6, 8]


def test_what_is_assigned_is_read_and_given_to_clones() -> None:
    made = make("DQN", scaler="standard").fit(vectors(True), n_epochs=1, **QUIET)
    made.scaler = "min_max"
    assert type(made.scaler) is MinMaxScaler and made.get_params()["scaler"] == "min_max"
    with pytest.raises(ValueError, match="scaler is 'min_max', but the agent was built with 'standard'"):
        made.fit(vectors(True), n_epochs=1, **QUIET)
    with pytest.raises(ValueError, match="augmentation"):
        made.set_params(scaler="standard", augmentation=["nothing"])
    assert made.get_params()["scaler"] == "min_max" and type(made.scaler) is MinMaxScaler


@pytest.mark.parametrize("copies", [copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_copies_keep_what_was_given_and_what_was_made_of_it(copies: Any) -> None:
    made = make("DQN", **CHOSEN).fit(vectors(True), n_epochs=1, **QUIET)
    again = copies(made)
    assert again.get_params().items() >= CHOSEN.items()
    assert repr(again.scaler) == repr(made.scaler) and again.scaler is again.scaler_ is not made.scaler


def test_a_subclass_chooses_by_name() -> None:
    class Scaled(algos.DQN):
        scaler = "standard"

    del algos.fitting.base.ESTIMATORS["Scaled"]
    made = Scaled(**SMALL)
    assert type(made.scaler) is StandardScaler and Scaled.defaults()["scaler"] == "standard"
    assert made.fit(vectors(True), n_epochs=1, **QUIET).scaler.fitted


def test_the_constructor_tells_how_many_epochs_fit_has() -> None:
    made, data = make("DQN", n_epochs=2), vectors(True)

    def n_epochs(*args: Any, **options: Any) -> int:
        epochs: list[int] = []
        made.fit(data, *args, epoch_callback=lambda algo, epoch, step: epochs.append(epoch), **options, **QUIET)
        return len(epochs)

    assert (n_epochs(), n_epochs(None), n_epochs(1), n_epochs(n_epochs=3), n_epochs(None, 1)) == (2, 2, 1, 3, 1)
    assert (len(list(made.fitter(data, **QUIET))), len(list(made.fitter(data, 1, **QUIET)))) == (2, 1)
    assert made.__sklearn_clone__().n_epochs == 2 and made.set_params(n_epochs=3).n_epochs == 3
    with pytest.raises(ValueError, match="n_epochs is 0"):
        make("DQN", n_epochs=0).create_impl((4,), 3)
    with pytest.raises(TypeError, match=r"n_epochs is \[0\.5\]"):
        n_epochs([0.5])
