"""FQE and DiscreteFQE: built, fitted, saved, and asked for values."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from agent_parts import make_agent
from fqe_parts import (
    BOX,
    DISCRETE,
    EVALUATED,
    OBS,
    QUIET,
    LeansOn,
    actions_of,
    built,
    config,
    data,
    fitted,
    make,
    networks,
    softmax_policy,
    unfitted,
)
from pair_base import Noise
from registry import arguments_of
from torch import nn

from pfrl_like import agents, algos, ope
from pfrl_like.batch import Batch
from pfrl_like.dataset import MDPDataset
from pfrl_like.errors import NonFiniteError, NotFittedError
from pfrl_like.explorers import ConstantEpsilonGreedy, Greedy
from pfrl_like.loggers import FileAdapterFactory, LoggingStrategy
from pfrl_like.metrics import initial_state_value_estimation_scorer, td_error_scorer
from pfrl_like.online import explorers as online_explorers
from pfrl_like.policies import GaussianHeadWithDiagonalCovariance
from pfrl_like.preprocessing import MinMaxActionScaler, MinMaxScaler, StandardRewardScaler
from pfrl_like.replay_buffers import ReplayBuffer


@pytest.mark.parametrize("discrete", [True, False])
def test_fit_gives_the_metrics_of_every_epoch_and_calls_back(discrete: bool) -> None:
    steps, epochs = [], []
    fqe = make(discrete)
    found = fqe.fit(
        data(discrete), 25, 10, evaluators={"size": lambda algo, episodes: len(episodes) + algo.grad_step},
        callback=lambda algo, epoch, step: steps.append((algo, epoch, step)),
        epoch_callback=lambda algo, epoch, step: epochs.append((algo, epoch, step)), **QUIET,
    )  # fmt: skip
    assert [(epoch, metrics["size"]) for epoch, metrics in found] == [(1, 16), (2, 26), (3, 31)]
    assert all(np.isfinite(metrics["loss"]) for _, metrics in found)
    assert fqe.eval_results_ == {"size": [16, 26, 31]}
    assert steps == [(fqe, 1 + i // 10, i + 1) for i in range(25)]
    assert epochs == [(fqe, 1, 10), (fqe, 2, 20), (fqe, 3, 25)]
    assert fqe.grad_step == 25


def test_fit_learns_on_and_fitter_stops_where_it_is_left() -> None:
    fqe, rows = make(), data()
    for epoch, _ in fqe.fitter(rows, 50, 10, **QUIET):
        if epoch == 2:
            break
    before = networks(fqe)
    assert fqe.grad_step == 20
    fqe.fit(rows, 5, **QUIET)
    assert fqe.grad_step == 25 and not all(map(torch.equal, before, networks(fqe)))


@pytest.mark.parametrize("discrete", [True, False])
def test_attributes_tell_what_it_is_made_of(discrete: bool) -> None:
    fqe, other = make(discrete, gamma=0.9), make(discrete)
    assert (fqe.impl, fqe.observation_shape, fqe.action_size, fqe.grad_step) == (None, None, None, 0)
    fqe.build_with_dataset(data(discrete))
    other.build_with_env(Noise(DISCRETE if discrete else BOX))
    kind = agents.DiscreteFittedQEvaluation if discrete else agents.FittedQEvaluation
    assert type(fqe.impl) is kind and fqe.impl.gamma == fqe.gamma == fqe.config.gamma == 0.9
    for each in (fqe, other):
        assert (each.observation_shape, each.action_size, each.batch_size) == ((OBS,), 2, 16)
    assert fqe.get_action_type() is (ope.ActionSpace.DISCRETE if discrete else ope.ActionSpace.CONTINUOUS)
    assert fqe.need_returns_to_go is False and isinstance(fqe.algo, LeansOn)


@pytest.mark.parametrize("discrete", [True, False])
def test_predict_and_values_have_a_row_for_each_observation(discrete: bool) -> None:
    fqe = fitted(discrete, n_critics=3)
    x = np.random.default_rng(1).normal(size=(7, OBS))
    actions = fqe.predict(x)
    np.testing.assert_allclose(actions, LeansOn(discrete).predict(x), rtol=1e-5)
    np.testing.assert_array_equal(fqe.sample_action(x), actions)
    values = fqe.predict_value(x, actions)
    assert values.shape == (7,)
    np.testing.assert_allclose(fqe.predict_state_value(x), values, rtol=1e-5)
    single = [fqe.agent.values_of_pairs(torch.tensor(x).float(), torch.tensor(actions))[i].detach() for i in range(3)]
    np.testing.assert_allclose(torch.stack(single).mean(0), values, rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="action has 6 rows, but x has 7 observations"):
        fqe.predict_value(x, actions[:6])
    for none in (fqe.predict(x[:0]), fqe.sample_action(x[:0])):
        assert none.shape == ((0,) if discrete else (0, 2))
    assert fqe.predict_value(x[:0], actions[:0]).shape == fqe.predict_state_value(x[:0]).shape == (0,)


@pytest.mark.parametrize("q_func_type", ["mean", "qr", "iqn", "fqf"])
def test_the_value_of_a_state_under_a_random_policy_is_the_mean_over_its_actions(q_func_type: str) -> None:
    fqe = unfitted(algo=softmax_policy(), q_func_type=q_func_type, n_critics=2)
    fqe.agent.act_deterministically = False
    x = torch.randn(4, OBS)
    probs = fqe.algo(x).probs.detach().numpy()
    q = np.stack([fqe.predict_value(x, np.full(4, i)) for i in range(2)], 1)
    asked: list[int] = []
    for critic in fqe.agent.critics:
        critic.register_forward_hook(lambda *_: asked.append(1))
    np.testing.assert_allclose(fqe.predict_state_value(x), (probs * q).sum(1), rtol=1e-4, atol=1e-6)
    assert len(asked) == len(fqe.agent.critics)  # once for all actions


@pytest.mark.parametrize(
    ("discrete", "x", "action", "error", "message"),
    [
        (True, np.zeros((2, OBS)), [1.7, 0.2], ValueError, "action has 1.7, expected integers >= 0 and < 2"),
        (True, np.zeros((2, OBS)), [-1, 0], ValueError, "action has -1, expected integers >= 0 and < 2"),
        (True, np.zeros((2, OBS)), [0, 7], ValueError, "action has 7, expected integers >= 0 and < 2"),
        (True, np.zeros((2, OBS)), [0, np.nan], NonFiniteError, "action has nan at index"),
        (False, np.zeros((2, OBS)), [[0, np.nan]] * 2, NonFiniteError, "action has nan at index"),
        (False, np.zeros((2, OBS)), np.zeros((2, 3)), ValueError, r"action has shape \(2, 3\), expected \(n, 2\)"),
        (True, np.zeros((2, 4)), [0, 1], ValueError, r"x has shape \(2, 4\), expected \(n, 5\)"),
        (True, np.full((2, OBS), np.nan), [0, 1], NonFiniteError, "x has nan at index"),
    ],
)
def test_observations_and_actions_that_do_not_fit_are_refused(
    discrete: bool, x: Any, action: Any, error: type[Exception], message: str
) -> None:
    fqe = make(discrete)
    fqe.create_impl((OBS,), 2)
    with pytest.raises(error, match=message):
        fqe.predict_value(x, action)
    for ask in (fqe.predict, fqe.sample_action, fqe.predict_state_value) if message.startswith("x") else ():
        with pytest.raises(error, match=message):
            ask(x)


# What it evaluates


@pytest.mark.parametrize("name", EVALUATED)
def test_what_an_algorithm_does_in_evaluation_is_evaluated_and_stays(name: str) -> None:
    discrete, make_algo = EVALUATED[name]
    algo, x = make_algo(), np.random.default_rng(1).normal(size=(6, OBS)).astype(np.float32)
    expected = actions_of(algo, x)
    fqe = fitted(discrete, algo)
    np.testing.assert_allclose(fqe.predict(x), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(actions_of(algo, x), expected)


def test_an_agents_features_are_the_critics_too() -> None:
    algo = make_agent(phi=lambda obs: -2 * obs)
    fqe = fitted(algo=algo)
    x = np.random.default_rng(0).normal(size=(3, OBS)).astype(np.float32)
    direct = fqe.agent.critics[0](torch.tensor(-2 * x)).q_values[:, 1].detach()
    np.testing.assert_allclose(fqe.predict_value(x, np.ones(3)), direct, rtol=1e-4, atol=1e-6)


# Scalers


def test_scalers_change_what_the_critics_see_and_not_what_the_policy_does() -> None:
    x, action = np.random.default_rng(1).normal(size=(4, OBS)), np.full((4, 2), 0.5)
    plain = fitted(False)
    for name in ("observation_scaler", "action_scaler", "reward_scaler"):
        scaled = fitted(False, **{name: "standard" if name != "action_scaler" else "min_max"})
        assert getattr(scaled, name).fitted and getattr(plain, name) is None
        assert not np.allclose(scaled.predict_value(x, action), plain.predict_value(x, action))
        np.testing.assert_array_equal(scaled.predict(x), plain.predict(x))
    assert scaled.config.reward_scaler == "standard"  # what was chosen stays as it was


def test_scaled_critics_are_those_of_scaled_data() -> None:
    scaler = MinMaxActionScaler(minimum=[0.0, 0.0], maximum=[1.0, 4.0])
    fqe = make(False, action_scaler=scaler, reward_scaler=StandardRewardScaler(mean=1.0, std=2.0))
    fqe.create_impl((OBS,), 2)
    obs, action = torch.randn(3, OBS), torch.rand(3, 2)
    encoder: Any = fqe.agent.critics[0].model[0]
    expected = encoder.encoder((obs, torch.stack([2 * action[:, 0] - 1, action[:, 1] / 2 - 1], 1)))
    torch.testing.assert_close(encoder((obs, action)), expected)
    zeros = torch.zeros(3)
    batch = Batch(obs=obs, action=action, reward=torch.tensor([1.0, 3.0, 5.0]), next_obs=obs, discount=zeros)
    loss = fqe.update(batch)["loss"]
    fresh = make(False, action_scaler=scaler)
    torch.manual_seed(0)
    fresh.create_impl((OBS,), 2)
    assert fresh.update(batch.replace(reward=torch.tensor([0.0, 1.0, 2.0])))["loss"] == pytest.approx(loss)


# Data of all kinds


def in_files(folder: Path) -> dict[str, Any]:
    """Options by which a training is logged in the folder `run`."""
    adapter = FileAdapterFactory(str(folder))
    return {"logger_adapter": adapter, "experiment_name": "run", "with_timestamp": False, "show_progress": False}


@pytest.mark.parametrize(
    ("explorer", "agrees"),
    [(None, True), (Greedy(), True), (ConstantEpsilonGreedy(1.0, lambda: 1), False),
     (online_explorers.LinearDecayEpsilonGreedy(0.0, 0.0, 1), True)],
)  # fmt: skip
def test_collected_actions_are_the_policys_and_the_explorers(explorer: Any, agrees: bool) -> None:
    fqe = make()
    buffer = fqe.collect(Noise(DISCRETE), None, explorer, n_steps=80, show_progress=False)
    assert type(buffer) is ReplayBuffer and len(buffer) == 80
    arrays = MDPDataset.from_buffer(buffer).to_arrays()
    expected = LeansOn(True).predict(arrays["observations"])
    assert (arrays["actions"] == expected).all() == agrees


@pytest.mark.parametrize("deterministic", [True, False])
def test_deterministic_collection_takes_modes(deterministic: bool) -> None:
    fqe = make(algo=softmax_policy())
    buffer = fqe.collect(Noise(DISCRETE), deterministic=deterministic, n_steps=60, show_progress=False)
    rows = MDPDataset.from_buffer(buffer).to_arrays()
    assert (rows["actions"] == fqe.predict(rows["observations"])).all() == deterministic


def test_fit_online_makes_updates_when_they_are_due(tmp_path: Path) -> None:
    fqe, epochs, buffer = make(), [], ReplayBuffer(1_000)
    fqe.fit_online(
        Noise(DISCRETE), buffer, n_steps=100, n_steps_per_epoch=40, update_interval=4, n_updates=2,
        update_start_step=60, random_steps=20, eval_env=Noise(DISCRETE),
        callback=lambda algo, epoch, step: epochs.append((epoch, step)), **in_files(tmp_path),
    )  # fmt: skip
    assert len(buffer) == 100 and epochs == [(1, 40), (2, 80), (3, 100)]
    assert fqe.grad_step == 2 * 10  # after steps 64, 68, ..., 100
    written = {path.name for path in (tmp_path / "run").iterdir()}
    assert written == {
        "params.json", "loss.csv", "evaluation.csv", "rollout_return.csv", "model_1.d3", "model_2.d3", "model_3.d3",
    }  # fmt: skip
    arrays = MDPDataset.from_buffer(buffer).to_arrays()
    agreement = arrays["actions"] == LeansOn(True).predict(arrays["observations"])
    assert agreement[20:].all() and not agreement[:20].all()


# Logs


@pytest.mark.parametrize(("strategy", "lines"), [(LoggingStrategy.EPOCH, 3), (LoggingStrategy.STEPS, 5)])
def test_metrics_are_logged_by_the_strategy(strategy: LoggingStrategy, lines: int, tmp_path: Path) -> None:
    options: dict[str, Any] = {"logging_steps": 5, "logging_strategy": strategy, "evaluators": {"one": lambda *_: 1.0}}
    make().fit(data(), 25, 10, save_interval=2, **options, **in_files(tmp_path))
    folder = tmp_path / "run"
    assert len((folder / "loss.csv").read_text().splitlines()) == 1 + lines
    assert (folder / "one.csv").read_text().splitlines() == ["epoch,step,value", "1,10,1.0", "2,20,1.0", "3,25,1.0"]
    assert {path.name for path in folder.glob("model*")} == {"model_2.d3"}
    assert json.loads((folder / "params.json").read_text())["algorithm"] == "DiscreteFQE"


@pytest.mark.parametrize(("interval", "n"), [(2, 1), (1, 3)])
def test_losses_logged_online_are_those_since_the_last_ones(interval: int, n: int, tmp_path: Path) -> None:
    fqe, losses = make(batch_size=1), []

    def learn(epoch: int, step: int, batch: Batch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        losses.append(float(step))
        return torch.zeros(1), {"loss": torch.tensor(losses[-1])}

    fqe._learn = learn  # type: ignore[method-assign]
    fqe.fit_online(
        Noise(DISCRETE), n_steps=24, n_steps_per_epoch=12, update_interval=interval, n_updates=n, logging_steps=6,
        logging_strategy=LoggingStrategy.STEPS, **in_files(tmp_path),
    )  # fmt: skip
    lines = [line.split(",") for line in (tmp_path / "run" / "loss.csv").read_text().splitlines()[1:]]
    assert [int(step) for _, step, _ in lines] == [6, 12, 18, 24]
    assert [float(value) for _, _, value in lines] == np.reshape(losses, (4, -1)).mean(1).tolist()


DISCRETE_ONES: dict[str, Callable[[], Any]] = {
    "an estimator": lambda: built(algos.DoubleDQN()), "an agent": lambda: make_agent("DoubleDQN"),
    "a policy": softmax_policy, "predict alone": lambda: LeansOn(True),
}  # fmt: skip


@pytest.mark.parametrize("way", ["data", "environment"])
@pytest.mark.parametrize("kind", DISCRETE_ONES)
def test_fqe_serves_discrete_actions_as_discrete_fqe_does(kind: str, way: str) -> None:
    algo = DISCRETE_ONES[kind]()
    fqe, discrete = make(False, algo), make(True, algo)
    assert fqe.discrete_action is (True if kind == "an estimator" else None)
    for each in (fqe, discrete):
        torch.manual_seed(0)
        np.random.seed(0)
        if way == "environment":
            each.build_with_env(Noise(DISCRETE))
        each.fit(data(), 10, **QUIET)
    assert fqe.discrete_action and fqe.get_action_type() is ope.ActionSpace.DISCRETE and type(fqe) is ope.FQE
    x = np.random.default_rng(0).normal(size=(5, OBS)).astype(np.float32)
    assert fqe.predict(x).shape == (5,)
    np.testing.assert_array_equal(fqe.predict_value(x, fqe.predict(x)), discrete.predict_value(x, discrete.predict(x)))
    with pytest.raises(TypeError, match="FQE has discrete actions, but the episodes have continuous actions"):
        fqe.build_with_dataset(data(False))


# Refusals

NOISE = Noise(DISCRETE)


TRANSFORMER = agents.DecisionTransformer(**arguments_of(agents.DecisionTransformer))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: make().predict(np.zeros((1, OBS))), NotFittedError, "not built yet"),
        (lambda: make(False, built(algos.TD3())).fit(data(), 1, **QUIET), TypeError, "FQE has continuous actions, but"),
        (lambda: make(False, action_scaler="min_max").fit(data(), 1, **QUIET), ValueError, "has discrete actions"),
        (lambda: make().fit(data(False), 1, **QUIET), TypeError, "use FQE"),
        (lambda: make().build_with_env(Noise(BOX)), TypeError, "use FQE"),
        (lambda: fitted().build_with_env(Noise(gymnasium.spaces.Discrete(3))), ValueError, "was built for"),
        (lambda: make(action_scaler="min_max"), ValueError, "DiscreteFQE has discrete actions: use None"),
        (lambda: make(observation_scaler="standard").create_impl((OBS,), 2), NotFittedError, "observation_scaler is"),
        (lambda: make(algo=algos.DiscreteBC()).build_with_dataset(data()), NotFittedError, "not built yet"),
        (lambda: make(algo=object()).build_with_dataset(data()), TypeError, "an object with predict"),
        (lambda: make(algo=make_agent(recurrent=True)).build_with_dataset(data()), TypeError, "recurrent"),
        (lambda: make(False, TRANSFORMER).build_with_dataset(data(False)), TypeError, "more than one state"),
        (lambda: make().fit(data(), 0, **QUIET), ValueError, "n_steps"),
        (lambda: make().fit_online(NOISE, eval_env=NOISE), ValueError, "eval_env is env"),
        (lambda: make().fit_online(NOISE, ReplayBuffer(3), n_steps=20, **QUIET), ValueError, "a capacity of 3"),
        (lambda: make().collect(NOISE, data(), n_steps=1), TypeError, "buffer is .*, expected a buffer of pfrl_"),
        (lambda: make().collect(NOISE, explorer=3, n_steps=1), TypeError, "explorer is 3, expected an explorer of"),
        (lambda: make().fit(data(), 1, enable_ddp=True, **QUIET), RuntimeError, "init_process_group"),
        (lambda: make(gamma=2.0), ValueError, r"gamma is 2.0, expected a number from 0 to 1"),
        (lambda: ope.FQE(LeansOn(True), {"gamma": 0.9}), TypeError, r"\(dict\), expected an FQEConfig, or None"),
        (lambda: make().fit(data(), 1, evaluators=[3], **QUIET), TypeError, r"evaluators\[0\] is 3, expected a"),
        (lambda: fitted().save_policy("policy.pt"), TypeError, "expected an agent or an estimator"),
        (lambda: fitted().update(3), TypeError, "batch is int, expected a TransitionMiniBatch or a Batch"),
    ],
)
def test_what_cannot_be_is_refused(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_a_policy_of_gaussians_is_evaluated_by_samples_or_modes() -> None:
    policy = nn.Sequential(nn.Linear(OBS, 4), GaussianHeadWithDiagonalCovariance())
    fqe = unfitted(False, policy)
    x = np.random.default_rng(0).normal(size=(5, OBS)).astype(np.float32)
    assert not np.allclose(fqe.sample_action(x), fqe.predict(x))
    np.testing.assert_allclose(fqe.predict(x), policy(torch.tensor(x)).mean.detach(), rtol=1e-5)


def test_scaled_rewards_are_those_of_single_steps() -> None:
    buffer = ReplayBuffer(None, num_steps=3)
    fqe = make(False, reward_scaler="standard")
    with pytest.raises(ValueError, match="the buffer has num_steps 3"):
        fqe.build_with_dataset(buffer)
    with pytest.raises(ValueError, match="the buffer has num_steps 3"):
        make(False, reward_scaler=StandardRewardScaler(mean=1.0, std=2.0)).fit_online(Noise(BOX), buffer, n_steps=1)


def test_arguments_of_estimators_are_fields_of_the_configuration() -> None:
    made = ope.FQE(
        LeansOn(True), config(gamma=0.5), n_critics=3, encoder_params={"hidden_units": [4]}, q_func_type="qr",
        observation_scaler="min_max", use_gpu=False, bootstrap=True, share_encoder=True, eps=1e-3, batch_size=8,
        n_epochs=2,
    )  # fmt: skip
    metrics = made.fit(
        data().episodes, eval_episodes=data().episodes[:2], scorers={"n": lambda fqe, e: len(e)}, **QUIET
    )
    assert [(epoch, each["n"]) for epoch, each in metrics] == [(1, 2.0), (2, 2.0)]
    assert made.grad_step == 2 * (60 // 8) and made.config.gamma == 0.5 and made.observation_scaler.fitted
    assert len(made.agent.critics) == 3 and made.get_params()["eps"] == 1e-3
    again = made.__sklearn_clone__()
    assert again.get_params() == made.get_params() | {"impl": None} and again.config == made.config
    new = {"gamma": 0.75, "target_update_interval": 7, "batch_size": 5, "n_epochs": 3}
    made.set_params(**new)
    assert {name: getattr(made.config, name) for name in new} == new and made.impl.gamma == 0.75


def test_steps_that_are_missing_and_unknown_arguments_raise_an_error() -> None:
    with pytest.raises(TypeError, match="n_steps is missing, the number of updates: pass n_steps or n_epochs"):
        make().fit(data(), **QUIET)
    with pytest.raises(TypeError, match="'n_critic'; the nearest is 'n_critics'"):
        ope.FQE(LeansOn(True), n_critic=3)
    with pytest.raises(TypeError, match="device is 'cpu' and use_gpu is False: pass only one"):
        ope.FQE(LeansOn(True), device="cpu", use_gpu=False)
    with pytest.raises(TypeError, match="scaler and observation_scaler are names of one argument"):
        ope.FQE(LeansOn(True), scaler="min_max", observation_scaler="standard")


class OfTuples(LeansOn):
    """Leans on the first of two vectors."""

    def predict(self, x: Any) -> Any:
        vector, image = x
        assert vector.shape[1:] == (OBS,) and image.shape[1:] == (1, 8, 8)
        return super().predict(vector)


@pytest.mark.parametrize("discrete", [True, False])
def test_observations_may_be_tuples(discrete: bool, tmp_path: Path) -> None:
    arrays, rng = data(discrete).to_arrays(), np.random.default_rng(1)
    x = arrays["observations"], rng.random((len(arrays["actions"]), 1, 8, 8)).astype(np.float32)
    ends = arrays["terminals"], arrays["timeouts"]
    recorded = MDPDataset.from_arrays(x, arrays["actions"], arrays["rewards"], *ends, discrete_action=discrete)
    params = {"hidden_units": [8], "filters": [(2, 3, 1)], "feature_size": 4}
    made = make(discrete, OfTuples(discrete), encoder_params=params, n_critics=2)
    made.fit(recorded, 5, evaluators=[td_error_scorer, initial_state_value_estimation_scorer], **QUIET)
    assert made.observation_shape == ((OBS,), (1, 8, 8))
    actions = made.predict(x)
    np.testing.assert_allclose(actions, LeansOn(discrete).predict(x[0]), rtol=1e-6)
    values = made.predict_value(x, actions)
    for i in range(2):
        other = tuple(part + 1 if i == j else part for j, part in enumerate(x))
        assert not np.allclose(made.predict_value(other, actions), values)
    assert np.isfinite(made.update(recorded.sample(8))["loss"])
    made.save_model(tmp_path / "model.pt")
    values = made.predict_value(x, actions)
    again = make(discrete, OfTuples(discrete), encoder_params=params, n_critics=2)
    again.load_model(tmp_path / "model.pt")
    np.testing.assert_array_equal(again.predict_value(x, actions), values)
    with pytest.raises(ValueError, match="x is ndarray, expected a tuple of 2 arrays"):
        made.predict(x[0])
    with pytest.raises(ValueError, match="n_frames is 2, but observations are tuples: expected 1"):
        ope.FQE(OfTuples(discrete), n_frames=2).build_with_dataset(recorded)
    with pytest.raises(ValueError, match="scaler is .*, but observations are tuples"):
        make(discrete, OfTuples(discrete), observation_scaler=MinMaxScaler(x[0])).build_with_dataset(recorded)
