"""Files of d3rlpy 1.x and before: estimators predict what d3rlpy's networks do, or say why they cannot be loaded."""

import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from d3rlpy_files import (
    ADAM,
    PIXEL,
    PLAIN,
    VECTOR_PARAMS,
    network,
    output,
    params_of,
    q_functions,
    write_model,
    write_params,
)

from pfrl_like import algos
from pfrl_like.algos.fitting.base import Estimator
from pfrl_like.algos.fitting.hyperparameters import parameters_of
from pfrl_like.dataset import MDPDataset
from pfrl_like.errors import CheckpointError

OBS_SIZE, ACTION_SIZE, N_ACTIONS, ROWS = 3, 2, 4, 5
IMAGE = (4, 10, 10)
ACTOR_CRITIC = ("actor_", "critic_")
#: What `tests/peers/d3rlpy_1_files.py` wrote.
WRITTEN = Path(__file__).parents[3] / "data/peers/d3rlpy_1"


pytestmark = pytest.mark.filterwarnings("error")


def vectors() -> torch.Tensor:
    return torch.randn(ROWS, OBS_SIZE)


def critics(**options: Any) -> dict[str, Any]:
    return {name: q_functions(1, OBS_SIZE + ACTION_SIZE, 2) for name in ("_q_func", "_targ_q_func")}


def cql() -> tuple[dict[str, Any], dict[str, Any]]:
    """Hyperparameters and networks of CQL."""
    params = params_of(
        "CQL", (OBS_SIZE,), ACTION_SIZE, *ACTOR_CRITIC, "temp_", "alpha_", n_critics=2, soft_q_backup=False,
        actor_learning_rate=1e-3,
        scaler={"type": "standard", "params": {"mean": [[1.0, 2.0, 3.0]], "std": [[0.0, 1.0, 2.0]], "eps": 0.001}},
        action_scaler={"type": "min_max", "params": {"minimum": [[-2.0, -4.0]], "maximum": [[2.0, 0.0]]}},
        reward_scaler={"type": "standard", "params": {"mean": 1.0, "std": 3.0, "eps": 0.5, "multiplier": 2.0}},
    )  # fmt: skip
    policies = {
        name: network({"_mu": ACTION_SIZE, "_logstd": ACTION_SIZE}, OBS_SIZE) for name in ("_policy", "_targ_policy")
    }
    weights = {
        "_log_temp": {"_parameter": torch.full((1, 1), -1.0)},
        "_log_alpha": {"_parameter": torch.full((1, 1), 2.0)},
    }
    return params, {**policies, **critics(), **weights}


def loaded(folder: Path, params: dict[str, Any], networks: dict[str, Any], kind: Any = Estimator) -> Any:
    algo = kind.from_json(write_params(folder / "params.json", params))
    algo.load_model(write_model(folder / "model.pt", networks))
    return algo


def test_actors_and_critics_predict_as_in_d3rlpy(tmp_path: Path) -> None:
    params, networks = cql()
    algo, x, actions = loaded(tmp_path, params, networks), vectors(), torch.rand(ROWS, ACTION_SIZE)
    scaled = (x - torch.tensor([1.0, 2.0, 3.0])) / torch.tensor([0.001, 1.001, 2.001])
    mean = output(networks["_policy"], "_mu", scaled).tanh()
    low, high = torch.tensor([-2.0, -4.0]), torch.tensor([2.0, 0.0])
    assert algo.predict(x) == pytest.approx((low + (mean + 1) / 2 * (high - low)).numpy(), abs=1e-5)
    pairs = scaled, (actions - low) / (high - low) * 2 - 1
    values = [output(networks["_q_func"], "_fc", *pairs, prefix=f"_q_funcs.{i}.") for i in range(2)]
    assert algo.predict_value(x, actions) == pytest.approx(torch.stack(values).mean(0).flatten().numpy(), rel=1e-4)
    log_std = output(networks["_policy"], "_logstd", scaled).clamp(-20, 2)
    assert torch.allclose(algo.impl.policy(algo._features(x)).base_dist.stddev, log_std.exp(), rtol=1e-4)
    assert (algo.impl.temperature, algo.impl.alpha) == pytest.approx((np.exp(-1), np.exp(2)))
    target = [*algo.impl.target_critics[1].parameters()][-1]
    assert target == networks["_targ_q_func"]["_q_funcs.1._fc.bias"]
    assert float(algo.reward_scaler_.transform(torch.tensor(4.5))) == pytest.approx(2.0)


def test_hyperparameters_are_those_of_d3rlpy(tmp_path: Path) -> None:
    params, _ = cql()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        algo = algos.CQL.from_json(write_params(tmp_path / "params.json", params))
    own = algo.get_params()
    assert (own["gamma"], own["actor_learning_rate"], own["batch_size"], own["eps"]) == (0.9, 1e-3, 32, 1e-8)
    assert own["encoder_params"] == {"hidden_units": [8, 6]} and own["update_actor_interval"] == 1
    assert algo.observation_shape == (OBS_SIZE,) and algo.action_size == ACTION_SIZE


def test_quantiles_of_an_action_are_the_same(tmp_path: Path) -> None:
    q_function = {"type": "qr", "params": {"share_encoder": True, "n_quantiles": 32}}
    params = params_of("DiscreteCQL", (OBS_SIZE,), N_ACTIONS, "", n_critics=1, q_func_factory=q_function)
    networks = {name: q_functions(N_ACTIONS * 32, OBS_SIZE) for name in ("_q_func", "_targ_q_func")}
    algo, x = loaded(tmp_path, params, networks), vectors()
    values = output(networks["_q_func"], "_fc", x, prefix="_q_funcs.0.").view(ROWS, N_ACTIONS, 32).mean(2)
    assert (algo.predict(x) == values.argmax(1).numpy()).all() and algo.clip_delta
    actions = np.arange(ROWS) % N_ACTIONS
    assert algo.predict_value(x, actions) == pytest.approx(values[np.arange(ROWS), actions].numpy(), rel=1e-4, abs=1e-5)


def test_images_of_stacked_frames_are_seen_the_same(tmp_path: Path) -> None:
    pixels = {"type": "pixel", "params": {}}
    params = params_of("DQN", IMAGE, N_ACTIONS, "", n_critics=1, n_frames=2, scaler=pixels)
    networks = {name: q_functions(N_ACTIONS, 0, shape=IMAGE) for name in ("_q_func", "_targ_q_func")}
    algo, x = loaded(tmp_path, params, networks), torch.randint(0, 256, (ROWS, *IMAGE), dtype=torch.uint8)
    assert algo.observation_shape == (2, 10, 10)
    values = output(networks["_q_func"], "_fc", x / 255, prefix="_q_funcs.0.")
    assert algo.predict_value(x, np.zeros(ROWS, int)) == pytest.approx(values[:, 0].numpy(), rel=1e-4)


def test_imitators_act_the_same(tmp_path: Path) -> None:
    x = vectors()
    networks = {"_imitator": network({"_fc": ACTION_SIZE}, OBS_SIZE)}
    params = params_of("BC", (OBS_SIZE,), ACTION_SIZE, "", gamma=1.0)
    del params["q_func_factory"]
    clone = loaded(tmp_path, params, networks)
    assert clone.predict(x) == pytest.approx(output(networks["_imitator"], "_fc", x).tanh().numpy(), abs=1e-6)
    model = network({"_mu": 4, "_logstd": 4}, OBS_SIZE + ACTION_SIZE, encoder="_encoder_encoder")
    model |= network({"_fc": ACTION_SIZE}, OBS_SIZE + 4, encoder="_decoder_encoder")
    residuals = {name: network({"_fc": ACTION_SIZE}, OBS_SIZE + ACTION_SIZE) for name in ("_policy", "_targ_policy")}
    params = params_of("BCQ", (OBS_SIZE,), ACTION_SIZE, *ACTOR_CRITIC, "imitator_", n_critics=2, action_flexibility=0.1)
    algo, latent = loaded(tmp_path, params, {**critics(), **residuals, "_imitator": model}), torch.randn(ROWS, 4)
    decoded = output(model, "_fc", x, latent, encoder="_decoder_encoder").tanh()
    assert torch.allclose(algo.impl.imitator.decoder((x, latent)), decoded, atol=1e-6)
    encoded = [output(model, head, x, decoded, encoder="_encoder_encoder") for head in ("_mu", "_logstd")]
    assert torch.allclose(algo.impl.imitator.encoder((x, decoded)), torch.cat(encoded, 1), rtol=1e-4, atol=1e-5)


def test_what_only_training_uses_is_ignored_with_a_warning(tmp_path: Path) -> None:
    params, networks = cql()
    sgd = {"optim_cls": "SGD", "momentum": 0.9}
    changed = params | {"n_steps": 3, "critic_optim_factory": sgd, "temp_optim_factory": {**ADAM, "eps": 1e-4}}
    with pytest.warns(UserWarning, match=r"'SGD', .*n_steps=3, temp_optim_factory={'eps': 0.0001}: .*training differs"):
        algo = loaded(tmp_path, changed, networks)
    x = vectors()
    assert (algo.predict(x) == loaded(tmp_path, params, networks).predict(x)).all()


def encoder(**changes: Any) -> dict[str, Any]:
    return {"critic_encoder_factory": {"type": "vector", "params": {**VECTOR_PARAMS, **changes}}}


REFUSED: list[tuple[dict[str, Any], str]] = [
    (encoder(activation="tanh"), "critic_encoder_factory has activation='tanh', expected 'relu'"),
    (encoder(use_batch_norm=True), "has use_batch_norm=True"),
    (encoder(dropout_rate=0.5), "has dropout_rate=0.5"),
    (encoder(hidden_units=[8]), "critic_encoder_factory has .*but another encoder has"),
    ({"critic_encoder_factory": {"type": "dense", "params": PLAIN}}, "is 'dense', which has no equivalent"),
    ({"critic_encoder_factory": PIXEL}, "is 'pixel'"),
    ({"policy_type": "stochastic"}, "policy_type is 'stochastic'"),
    ({"q_func_factory": {"type": "qr", "params": {"n_quantiles": 200}}}, "n_quantiles=200, expected 32"),
    ({"scaler": {"type": "mine", "params": {}}}, "'mine'"),
    ({"observation_shape": []}, r"observation_shape is \[\], expected the shape of one array"),
    ({"observation_shape": "abc"}, "observation_shape is 'abc', expected the shape"),
    ({"action_size": "x"}, "action_size is 'x'"),
    ({"n_frames": None}, "n_frames is None"),
    ({"critic_encoder_factory": "default"}, "critic_encoder_factory is 'default', expected an object"),
    (encoder(hidden_units=[[1, 2], [3]]), "critic_encoder_factory hidden_units: got list, expected an array"),
    ({"q_func_factory": {"type": "qr", "params": {}}}, "n_quantiles=None, expected 32"),
    ({"q_func_factory": None}, "q_func_factory is None, expected an object with 'type' and 'params'"),
    ({"critic_optim_factory": "Adam"}, "critic_optim_factory is 'Adam', expected an object"),
    ({"scaler": "standard"}, "scaler is 'standard', expected an object"),
    ({"scaler": {"type": "standard", "params": {"mean": [0, 0, 0], "std": "x"}}}, "scaler std: got str"),
    ({"scaler": {"type": "standard", "params": {"mean": [0, 0]}}}, r"mean of shape \(2,\), expected \(3,\)"),
    ({"observation_shape": [4, 9, 9], "n_frames": 0}, "n_frames is 0"),
]


@pytest.mark.parametrize("changes, reason", REFUSED)
def test_hyperparameters_of_other_networks_are_refused(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    path = write_params(tmp_path / "params.json", cql()[0] | changes)
    with pytest.raises(CheckpointError, match=f"of d3rlpy.*{reason}|{reason}"):
        Estimator.from_json(path)


def test_algorithms_that_do_not_exist_are_told_by_name(tmp_path: Path) -> None:
    path = write_params(tmp_path / "params.json", params_of("NFQ", (3,), 2, ""))
    with pytest.raises(CheckpointError, match="hyperparameters of d3rlpy's 'NFQ'"):
        Estimator.from_json(path)


def without(networks: dict[str, Any], network_name: str, *names: str) -> dict[str, Any]:
    left = {name: value for name, value in networks[network_name].items() if name not in names}
    return networks | {network_name: left}


def test_models_of_other_networks_are_refused_and_change_nothing(tmp_path: Path) -> None:
    params, networks = cql()
    algo = loaded(tmp_path, params, networks)
    before = {name: value.clone() for name, value in parameters_of(algo.impl).items()}
    bias = "_q_funcs.0._encoder._fcs.0.bias"
    weight = "_encoder._fcs.0.weight"
    good = networks["_policy"][weight]

    def with_weight(value: Any) -> dict[str, Any]:
        return networks | {"_policy": networks["_policy"] | {weight: value}}

    spoilt = {
        f"_policy has NaN or infinity in {weight}": with_weight(good * torch.nan),
        "_log_temp has NaN or infinity": networks | {"_log_temp": {"_parameter": torch.full((1, 1), torch.inf)}},
        "_log_alpha has .*, expected '_parameter', a single number": networks | {"_log_alpha": {}},
        "_policy has a torch.complex64": with_weight(good + 0j),
        "_policy has a torch.bool": with_weight(good > 0),
        f"_policy has a torch.int64 of .* as {weight}, expected an array of real floating": with_weight(good.long()),
        "_policy has 'x'": with_weight("x"),
        r"of shape \(8,\), expected \(8, 3\)": with_weight(good[:, 0]),
        "_policy is None, expected tensors": networks | {"_policy": None},
        "_q_func has no _q_funcs.0._encoder._fcs.0.bias": without(networks, "_q_func", bias),
        "'_encoder._bns.0.weight', which": networks
        | {"_policy": networks["_policy"] | {"_encoder._bns.0.weight": torch.ones(8)}},
        r"of shape \(2,\), expected \(8,\)": networks | {"_q_func": networks["_q_func"] | {bias: torch.ones(2)}},
        r"it has the networks .*'_value_func'": networks | {"_value_func": {}},
        "but CQL has .*'_log_alpha'": {name: each for name, each in networks.items() if name != "_log_alpha"},
    }
    for reason, content in spoilt.items():
        with pytest.raises(
            CheckpointError, match=f"is a model of d3rlpy 0.50 to 1.1.1 that cannot be loaded: .*{reason}"
        ):
            algo.load_model(write_model(tmp_path / "model.pt", content))
    assert all(torch.equal(value, before[name]) for name, value in parameters_of(algo.impl).items())


def test_models_need_an_estimator_of_known_shapes(tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.pt", cql()[1])
    with pytest.raises(CheckpointError, match="CQL is not built yet: create it by from_json"):
        algos.CQL().load_model(path)


def test_quantiles_at_drawn_fractions_are_refused(tmp_path: Path) -> None:
    algo = algos.DQN(q_func_type="iqn", encoder_params={"hidden_units": [8, 6]})
    algo.create_impl((OBS_SIZE,), N_ACTIONS)
    path = write_model(
        tmp_path / "model.pt", {name: q_functions(N_ACTIONS, OBS_SIZE) for name in ("_q_func", "_targ_q_func")}
    )
    with pytest.raises(CheckpointError, match="q_func_type is 'iqn'"):
        algo.load_model(path)


def test_files_of_d3rlpy_2_say_so(tmp_path: Path) -> None:
    params = {"observation_shape": [3], "action_size": 2, "config": {"type": "cql", "params": {}}}
    with pytest.raises(CheckpointError, match="hyperparameters of d3rlpy 2"):
        Estimator.from_json(write_params(tmp_path / "params.json", params))
    torch.save({"imitator": {}, "optim": {}}, tmp_path / "model.pt")
    (tmp_path / "model.d3").write_bytes(
        pickle.dumps({"torch": b"PK", "config": json.dumps(params), "version": "2.8.1"}, 4)
    )
    for name in ("model.pt", "model.d3"):
        with pytest.raises(CheckpointError, match="is a model of d3rlpy, but only"):
            algos.CQL().load_model(tmp_path / name)
        with pytest.raises(CheckpointError, match="is a (model of d3rlpy 2|file of torch.save.*), expected a dataset"):
            MDPDataset.load(tmp_path / name)


def test_other_files_are_not_called_those_of_d3rlpy(tmp_path: Path) -> None:
    path = write_params(tmp_path / "params.json", {"config": {"lr": 1}, "x": 1})
    with pytest.raises(CheckpointError, match="has no hyperparameters of an estimator"):
        Estimator.from_json(path)
    for content in ({"policy": {}, "value": {}}, {"policy": {}, "optim": {}}):
        torch.save(content, tmp_path / "model.pt")
        with pytest.raises(CheckpointError, match="is not a model file that save_model wrote"):
            algos.CQL().load_model(tmp_path / "model.pt")
    (tmp_path / "model.pkl").write_bytes(pickle.dumps({"x": torch.zeros(1)}, 4))
    with pytest.raises(CheckpointError, match="is not a state dict saved by torch.save"):
        algos.CQL().load_model(tmp_path / "model.pkl")


def test_perturbed_latent_policies_act_the_same(tmp_path: Path) -> None:
    names = ("_policy", "_targ_policy", "_perturbation", "_targ_perturbation")
    sizes = {"policy": (4, OBS_SIZE), "perturbation": (ACTION_SIZE, OBS_SIZE + ACTION_SIZE)}
    networks = {name: network({"_fc": n_out}, n_in) for name in names for n_out, n_in in [sizes[name.split("_")[-1]]]}
    model = network({"_mu": 4, "_logstd": 4}, OBS_SIZE + ACTION_SIZE, encoder="_encoder_encoder")
    model |= network({"_fc": ACTION_SIZE}, OBS_SIZE + 4, encoder="_decoder_encoder")
    params = params_of("PLASWithPerturbation", (OBS_SIZE,), ACTION_SIZE, *ACTOR_CRITIC, "imitator_", n_critics=2)
    params |= {"action_flexibility": 0.1, "update_actor_interval": 1}
    algo, x = loaded(tmp_path, params, {**networks, **critics(), "_imitator": model}), vectors()
    latent = 2 * output(networks["_policy"], "_fc", x).tanh()
    action = output(model, "_fc", x, latent, encoder="_decoder_encoder").tanh()
    perturbed = action + 0.1 * output(networks["_perturbation"], "_fc", x, action).tanh()
    assert algo.predict(x) == pytest.approx(perturbed.clamp(-1, 1).numpy(), abs=1e-5)


def test_policies_whose_deviation_is_one_parameter_act_the_same(tmp_path: Path) -> None:
    names = ("_policy", "_targ_policy")
    policies = {
        name: network({"_mu": ACTION_SIZE}, OBS_SIZE) | {"_logstd": torch.randn(1, ACTION_SIZE)} for name in names
    }
    networks = {**policies, **critics(), "_value_func": network({"_fc": 1}, OBS_SIZE)}
    params = params_of("IQL", (OBS_SIZE,), ACTION_SIZE, *ACTOR_CRITIC, "value_", n_critics=2, expectile=0.8)
    algo, x = loaded(tmp_path, params, networks), vectors()
    assert algo.expectile == 0.8
    assert algo.predict(x) == pytest.approx(output(networks["_policy"], "_mu", x).tanh().numpy(), abs=1e-6)
    assert torch.equal(algo.impl.policy[-1].scale_param, networks["_policy"]["_logstd"].flatten())
    values = output(networks["_value_func"], "_fc", x)
    assert torch.allclose(algo.impl.v_func(x), values, rtol=1e-4, atol=1e-5)


# Files that d3rlpy 1.1.1 itself wrote


@pytest.fixture(scope="module")
def expected() -> Any:
    with np.load(WRITTEN / "expected.npz") as arrays:
        return dict(arrays)


@pytest.mark.parametrize(("name", "eps"), [("CQL", 1e-5), ("DQN", 1e-8)])
def test_a_model_that_d3rlpy_wrote_predicts_the_same(name: str, eps: float, expected: Any) -> None:
    algo = Estimator.from_json(WRITTEN / name / "params.json")
    algo.load_model(WRITTEN / name / "model_20.pt")
    observations, actions = expected[f"{name}/observations"], expected[f"{name}/actions"]
    np.testing.assert_allclose(algo.predict(observations), expected[f"{name}/predicted"], atol=1e-5)
    np.testing.assert_allclose(algo.predict_value(observations, actions), expected[f"{name}/values"], atol=1e-5)
    assert algo.eps == eps


def test_a_dataset_that_d3rlpy_wrote_has_its_steps(expected: Any) -> None:
    data = MDPDataset.load(WRITTEN / "cql.h5")
    assert [len(episode) for episode in data.episodes] == expected["lengths"].tolist()
    steps = [step for episode in data.episodes for step in episode.transitions]
    for field, ours in (("observation",) * 2, ("action",) * 2, ("reward", "action_reward"), ("terminal",) * 2):
        assert np.array_equal([getattr(step, ours) for step in steps], expected[f"steps/{field}"]), field
