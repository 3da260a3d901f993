"""What every estimator does, whatever it is built of."""

import copy
import json
import warnings
from pathlib import Path
from typing import Any

import estimator_parts
import gymnasium
import numpy as np
import pytest
import torch
from estimator_parts import ALL, QUIET, SAMPLING, built, fitted, images, make, predicted, vectors

from pfrl_like import algos, load_learnable, metrics
from pfrl_like.agents.offline.awr import td_lambda_returns
from pfrl_like.algos.fitting.base import ESTIMATORS
from pfrl_like.algos.fitting.saving import write_model
from pfrl_like.dataset import MDPDataset
from pfrl_like.dataset.selection import batch_of
from pfrl_like.dynamics import MOPO
from pfrl_like.errors import CheckpointError, NonFiniteError, NotFittedError
from pfrl_like.utils import checks, set_random_seed

VALUED = [name for name in ALL if issubclass(ESTIMATORS[name], algos.fitting.networks.QLearning)]
OBS = np.random.default_rng(1).normal(size=(7, 4))
#: Scorers of both kinds of actions.
SCORERS = (
    metrics.average_value_estimation_scorer, metrics.discounted_sum_of_advantage_scorer,
    metrics.initial_state_value_estimation_scorer, metrics.td_error_scorer, metrics.value_estimation_std_scorer,
)  # fmt: skip


@pytest.mark.parametrize("name", VALUED)
def test_values_are_those_of_the_critics(name: str) -> None:
    made = fitted(name, n_critics=3)
    actions = predicted(made, OBS)
    mean, std = made.predict_value(OBS, actions, with_std=True)
    assert mean.shape == std.shape == (7,)
    assert np.array_equal(made.predict_value(list(OBS), actions), mean)
    obs, acts = torch.as_tensor(OBS, dtype=torch.float32), torch.as_tensor(actions)
    with torch.no_grad():
        values = made.impl.values_of_pairs(obs, acts)
    assert np.allclose(values.mean(0), mean) and np.allclose(values.std(0, correction=0), std)
    assert (std > 0).all()


def test_files_keep_clip_delta_and_those_without_it_have_squared_errors() -> None:
    made = fitted("DQN", clip_delta=True)
    made.save_model("model.pt")
    Path("params.json").write_text(json.dumps(made._json_params()))
    for again in (algos.DQN.from_json("params.json"), load_learnable("model.pt"), made.__sklearn_clone__()):
        assert again.clip_delta is True
    earlier = made._json_params()
    del earlier["clip_delta"]  # as files had it before there was this hyperparameter
    Path("earlier.json").write_text(json.dumps(earlier))
    write_model("earlier.pt", made.impl.state_dict(), earlier)
    for again in (algos.DQN.from_json("earlier.json"), load_learnable("earlier.pt")):
        assert again.clip_delta is False and again.impl.clip_delta is False


@pytest.mark.parametrize("n_frames", [1, 2])
def test_a_minibatch_of_arrays_brings_its_future_along(n_frames: int) -> None:
    data = images(False)
    arrays = data.sample(12, n_frames)
    rows = [transition.row for transition in arrays]
    index = np.searchsorted(data.table.steps, rows)
    one = batch_of(arrays, 0.5, "cpu", False, continuation=np.inf)
    other = data.batch(index, 0.5, n_frames=n_frames, continuation=np.inf)
    for lambd in (0.7, 1.0):
        returns = [td_lambda_returns(lambda obs: obs.float().mean((1, 2, 3)), batch, lambd) for batch in (one, other)]
        assert torch.allclose(*returns)


@pytest.mark.parametrize("name", ["BC", "DiscreteBC"])
def test_imitators_refuse_values_and_samples(name: str) -> None:
    made = fitted(name)
    with pytest.raises(NotImplementedError, match="no values"):
        made.predict_value(OBS, predicted(made, OBS))
    with pytest.raises(NotImplementedError, match="use predict"):
        made.sample_action(OBS)


def test_bcq_draws_its_predictions_and_has_no_other_samples() -> None:
    made = fitted("BCQ")
    assert not np.array_equal(made.predict(OBS), made.predict(OBS))
    with pytest.raises(NotImplementedError, match="already samples actions in predict"):
        made.sample_action(OBS)


@pytest.mark.parametrize("name", [name for name in ALL if "rl_start_epoch" in ESTIMATORS[name].defaults()])
def test_imitation_may_come_first(name: str) -> None:
    data = vectors(False)
    made = make(name, rl_start_epoch=1)
    seen = dict(made.fitter(data, 2, **QUIET))
    assert np.isnan([seen[0]["critic_loss"], seen[0]["actor_loss"]]).all() and np.isfinite(seen[0]["imitator_loss"])
    assert np.isfinite(list(seen[1].values())).all()
    made = make(name, rl_start_epoch=1)
    made.create_impl((4,), 2)
    learning = [*made.impl.policy.parameters(), *made.impl.critics[0].parameters()]
    before = [param.clone() for param in learning]
    assert len(made.update(0, 0, data.sample(16))) == 1
    assert all(map(torch.equal, before, learning))
    assert len(made.update(1, 1, data.sample(16))) == 3
    assert not any(map(torch.equal, before, learning))


#: Estimators whose policies are distributions with more than one action.
RANDOM = {
    "AWAC", "AWR", "BEAR", "COMBO", "CQL", "CRR", "CalQL", "DiscreteAWR", "DiscreteIQL", "DiscreteSAC", "EDAC", "IQL",
    "SAC", "SACN",
}  # fmt: skip


@pytest.mark.parametrize("name", SAMPLING)
def test_samples_differ_from_predictions_where_policies_are_random(name: str) -> None:
    made = fitted(name)
    same = np.array_equal(made.sample_action(OBS), predicted(made, OBS))
    assert same == (name not in RANDOM)
    assert made.sample_action(OBS).shape == predicted(made, OBS).shape


@pytest.mark.parametrize("name", ["DQN", "SAC"])
def test_an_agent_is_built_from_a_dataset_as_fit_builds_it(name: str) -> None:
    data, options = vectors(ESTIMATORS[name].discrete_action), {"scaler": "min_max"}
    made, other = make(name, **options), make(name, **options)
    set_random_seed(0)
    made.build_with_dataset(data.episodes)
    built = made.impl
    assert made.observation_shape == (4,) and repr(made.scaler_) == repr(other.fit(data, 1, **QUIET).scaler_)
    made.fit(data, 1, **QUIET)
    made.build_with_dataset(data)
    assert made.impl is built
    with pytest.raises(ValueError, match=r"got observations of shape \(1, 16, 16\)"):
        made.build_with_dataset(images(ESTIMATORS[name].discrete_action))


class Spaces(gymnasium.Env[Any, Any]):
    """The spaces of `vectors`."""

    def __init__(self, discrete: bool) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,))
        self.action_space = gymnasium.spaces.Discrete(3) if discrete else gymnasium.spaces.Box(-1.0, 1.0, (2,))


@pytest.mark.parametrize("name", [*ALL, "PPO"])
def test_a_dataset_and_an_environment_build_the_same_networks(name: str) -> None:
    set_random_seed(0)
    expected, from_data, from_env = built(name), make(name), make(name)
    discrete = bool(expected.discrete_action)
    set_random_seed(0)
    from_data.build_with_dataset(vectors(discrete))
    set_random_seed(0)
    from_env.build_with_env(Spaces(discrete))
    for each in (from_data, from_env):
        estimator_parts.assert_same_parameters(each, expected)
        assert (each.observation_shape, each.action_size) == ((4,), expected.action_size)
    with pytest.raises(TypeError, match="discrete"):
        make(name).build_with_dataset(vectors(not discrete))
    with pytest.raises(TypeError, match="Discrete" if discrete else "Box"):
        make(name).build_with_env(Spaces(not discrete))


@pytest.mark.parametrize(
    ("name", "compare"),
    [("IQL", metrics.compare_continuous_action_diff), ("DQN", metrics.compare_discrete_action_match)],
)
def test_scorers_take_an_estimator_that_is_built_and_not_fitted(name: str, compare: Any) -> None:
    made = built(name)
    for scorer in (*SCORERS, compare(built(name)), metrics.soft_opc_scorer(-1e6)):
        assert np.isfinite(scorer(made, vectors(made.discrete_action).episodes))


def test_an_agent_is_built_from_an_environment() -> None:
    made = make("SAC", action_scaler="min_max")
    made.build_with_env("Pendulum-v1")
    assert (made.observation_shape, made.action_size) == ((3,), 1) and made.action_scaler_.maximum == [2.0]
    assert np.isfinite(metrics.evaluate_on_environment("Pendulum-v1", n_trials=1)(made))
    with pytest.raises(TypeError, match="SAC needs an environment whose actions are a Box"):
        made.build_with_env("CartPole-v1")


NESTED = {"x": np.zeros((5, 3))}


def five_steps(observations: Any) -> MDPDataset:
    ends = np.arange(5) == 4
    return MDPDataset(observations, np.zeros(5, int), np.zeros(5), ends, True, reward_convention="next_row")


@pytest.mark.parametrize(
    ("options", "data", "error", "text"),
    [
        ({}, [], ValueError, "no transition"),
        ({}, [1], TypeError, r"episodes\[0\] is int"),
        ({"dynamics": 3}, vectors(True), TypeError, "dynamics is 3, expected a model of pfrl_like.dynamics"),
        ({}, five_steps(NESTED), ValueError, "observation_shape is {'x': .*}, expected the shape of one array"),
        ({}, five_steps(np.zeros((5, 3))), ValueError, r"was built for shape \(4,\) and size 3"),
    ],
    ids=["none", "number", "dynamics", "nested", "other shape"],
)
def test_data_that_cannot_be_is_refused(options: Any, data: Any, error: type[Exception], text: str) -> None:
    made = make("DQN", **options)
    if "built" in text:
        made.create_impl((4,), 3)
    with pytest.raises(error, match=text):
        made.fit(data, **QUIET)


def test_infinite_losses_end_training() -> None:
    data = vectors(False)
    made = make("DDPG", critic_learning_rate=1e30)
    with pytest.raises(NonFiniteError):
        made.fit(data, n_epochs=50, **QUIET)


def test_values_of_actions_that_cannot_be_are_refused() -> None:
    discrete, continuous = fitted("DQN"), fitted("SAC")
    for actions, bad in ((np.full(7, 3), 3), (np.full(7, -1), -1), (np.full((7, 1), 0.5), 0.5)):
        with pytest.raises(ValueError, match=f"action has {bad}, expected integers >= 0 and < 3"):
            discrete.predict_value(OBS, actions)
    assert discrete.predict_value(OBS, np.ones((7, 1), np.float32)).shape == (7,)
    for shape in ((7, 3), (7,), ()):
        with pytest.raises(ValueError, match=r"action has shape .*, expected \(n, 2\)"):
            continuous.predict_value(OBS, np.zeros(shape))
    assert continuous.predict_value(OBS[:0], np.zeros((0, 2))).shape == (0,)


def test_epochs_are_yielded_with_their_metrics() -> None:
    made = make("DQN")
    seen = list(made.fitter(vectors(True), 3, scorers={"one": lambda algo, episodes: 1.0}, **QUIET))
    assert [epoch for epoch, _ in seen] == [0, 1, 2]
    assert all(metrics.keys() == {"value_loss", "one"} for _, metrics in seen)
    assert made.eval_results_ == {"one": [1.0] * 3}


@pytest.mark.parametrize(("largest", "told"), [(1.0, 0), (2.0, 1)])
def test_actions_that_policies_cannot_reach_are_told_of(largest: float, told: int, caplog: Any) -> None:
    actions = largest * np.array([[1.0], [-1.0], [0.5], [0.0]], np.float32)
    data = MDPDataset.from_arrays(np.zeros((4, 4), np.float32), actions, np.zeros(4), np.arange(4) == 3)
    make("DDPG", batch_size=4).fit(data, n_epochs=1, **QUIET)
    assert [record.message[:39] for record in caplog.records] == ["actions of the data are as large as 2, "] * told


def test_scores_leave_training_as_it_is() -> None:

    runs = []
    for scorers in ({}, {"draw": lambda algo, episodes: float(torch.rand(()) + np.random.rand())}):
        set_random_seed(0)
        runs.append(make("SAC").fit(vectors(False), n_epochs=2, scorers=scorers, **QUIET).predict(OBS))
    assert np.array_equal(*runs)


@pytest.mark.parametrize("name", ["SAC", "DiscreteAWR"])
def test_samples_of_a_policy_with_batch_normalisation_do_not_depend_on_each_other(name: str) -> None:
    made = fitted(name, use_batch_norm=True)
    before = copy.deepcopy(made.impl.policy.state_dict())
    drawn = []
    for x in (OBS, np.concatenate([OBS[:1], 9 + OBS[1:]])):
        torch.manual_seed(0)
        drawn.append(made.sample_action(x))
    assert np.array_equal(drawn[0][0], drawn[1][0])
    assert all(torch.equal(before[name], value) for name, value in made.impl.policy.state_dict().items())


def test_dynamics_are_told_of_and_have_to_be_given_again(capsys: Any) -> None:
    data = vectors(False)
    dynamics = MOPO(n_ensembles=1, n_transitions=5, horizon=1, encoder_params={"hidden_units": [8]}, lam=0.25)
    made = make("SAC", dynamics=dynamics.fit(data, 1, **QUIET))
    made.fit(data, n_epochs=1, logdir="logs", show_progress=False, tensorboard=False)
    assert "dynamics={'algorithm': 'MOPO'" in capsys.readouterr().out
    (path,) = Path("logs").glob("*/params.json")
    assert json.loads(path.read_text())["dynamics"]["lam"] == 0.25
    with pytest.warns(UserWarning, match=r"MOPO, the dynamics of this SAC, .*set_params\(dynamics=") as warned:
        again = algos.SAC.from_json(path)
    assert again.dynamics is None and warned[0].filename == __file__
    assert again.set_params(dynamics=dynamics).fit(data, n_epochs=1, **QUIET).dynamics is dynamics


@pytest.mark.parametrize(
    ("name", "is_fitted", "error", "text"),
    [
        ("CalQL", True, ValueError, "dynamics is MOPO.*CalQL needs the rewards to the end of recorded episodes"),
        ("ReBRAC", True, ValueError, "dynamics is MOPO.*ReBRAC needs the recorded next actions"),
        ("SAC", False, NotFittedError, "dynamics is MOPO.*which is not fitted: call the method fit of this model"),
    ],
)
def test_dynamics_that_cannot_be_used_are_refused_before_training(
    name: str, is_fitted: bool, error: Any, text: str
) -> None:
    dynamics = MOPO(n_ensembles=1, encoder_params={"hidden_units": [8]})
    if is_fitted:
        dynamics.build_with_dataset(vectors(False))
    made = make(name, dynamics=dynamics)
    with pytest.raises(error, match=text):
        made.fit(vectors(False), n_epochs=1, **QUIET)
    assert made.impl is None


def test_fit_tells_who_learns_without_a_part_of_the_method(caplog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_WARNED", set())
    fitted("COMBO")
    assert "COMBO without dynamics learns as CQL" in caplog.text
    text = r"PLAS has made 7 updates. The first warmup_steps \(500\) updates do not train the policy"
    with pytest.warns(UserWarning, match=text):
        made = fitted("PLAS", warmup_steps=500)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made.fit(vectors(False), n_epochs=1, **QUIET)


def test_a_function_of_the_users_own_is_named_in_params_json() -> None:
    def same(obs: Any, rng: Any) -> Any:
        return obs

    made = make("DQN", augmentation=[same, "single_amplitude_scaling"])
    made.fit(vectors(True), n_epochs=1, logdir="logs", verbose=False, show_progress=False)
    (path,) = Path("logs").glob("*/params.json")
    assert "same" in json.loads(path.read_text())["augmentation"][0]
    with pytest.raises(ValueError, match="the augmentation is '<function"):
        algos.DQN.from_json(path)


def test_a_number_of_updates_may_be_asked_for_and_epochs_followed() -> None:
    calls: dict[str, list[tuple[int, int]]] = {"callback": [], "epoch_callback": []}
    made = make("DQN")
    options = {name: lambda algo, *now, name=name: calls[name].append(now) for name in calls}
    made.fit(vectors(True), n_steps=25, n_steps_per_epoch=10, **options, **QUIET)
    assert calls == {"callback": [(i // 10, i + 1) for i in range(25)], "epoch_callback": [(0, 10), (1, 20), (2, 25)]}
    assert made.impl.optim_t == 25


@pytest.mark.parametrize(
    "content",
    [
        {"attributes": {}, "state": torch.zeros(1), "params": "{}"},
        {"attributes": {}, "state": "{}", "params": json.dumps({"algorithm": "DQN"})},
    ],
)
def test_files_of_something_else_are_refused(content: Any) -> None:
    torch.save(content, "other.pt")
    with pytest.raises(CheckpointError):
        make("DQN").load_model("other.pt")


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"algorithm": "SAC", "observation_shape": [4]}, "of 'SAC', expected hyperparameters of DQN"),
        ({"algorithm": "DQN"}, "expected action_size, observation_shape"),
    ],
)
def test_hyperparameters_of_something_else_are_refused(params: Any, text: str) -> None:
    Path("params.json").write_text(json.dumps(params | {"action_size": 2}))
    with pytest.raises(CheckpointError, match=text):
        algos.DQN.from_json("params.json")


@pytest.mark.parametrize("name", ["AWR", "DiscreteAWR"])
def test_values_of_awr_are_those_of_states(name: str) -> None:
    made = make(name)
    made.create_impl((4,), 2)
    values, actions = made.predict_value(OBS), np.zeros((7, 2), np.float32)
    for given in (made.predict_value(OBS, actions, True), made.predict_value(OBS, action=actions, with_std=True)):
        np.testing.assert_array_equal(given, [values, np.zeros(7)])
    with pytest.raises(TypeError, match="with_sdt"):
        made.predict_value(OBS, actions, with_sdt=True)
