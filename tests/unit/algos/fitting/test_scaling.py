"""Scalers of actions and rewards: what agents learn from is scaled, what users see is not."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from estimator_parts import ALL, QUIET, SAMPLING, SEQUENTIAL, assert_same_parameters, make, predicted, vectors

from pfrl_like import algos, preprocessing
from pfrl_like.algos.fitting.base import ESTIMATORS
from pfrl_like.algos.fitting.unsupported import NoValues
from pfrl_like.dataset import MDPDataset
from pfrl_like.dynamics import MOPO
from pfrl_like.errors import CheckpointError, NonFiniteError, NotFittedError
from pfrl_like.metrics import td_error_scorer
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.utils import set_random_seed

CONTINUOUS = [name for name in ALL if not ESTIMATORS[name].discrete_action]
OBS = np.random.default_rng(1).normal(size=(7, 4)).astype(np.float32)
#: Actions from -1 to 3 and from 10 to 10.5 as -1 to 1; all its numbers are exact in binary.
HALVES = preprocessing.MinMaxActionScaler(minimum=[-1.0, 10.0], maximum=[3.0, 10.5])
CENTER, WIDTH = np.float32([1.0, 10.25]), np.float32([2.0, 0.25])
FAR = gymnasium.spaces.Box(np.float32([-1.0, 10.0]), np.float32([3.0, 10.5]))


def data(discrete: bool, *, far: bool = False, factor: float = 1.0, n: int = 60) -> MDPDataset:
    """Transitions with rewards and actions of few binary digits, the latter in [-1, 1] or `far` from there."""
    rng = np.random.default_rng(0)
    obs, ends = rng.normal(size=(n, 4)).astype(np.float32), np.arange(n) % 20 == 19
    reward = rng.integers(-8, 9, n) / 4 * factor
    action: Any = rng.integers(0, 3, n) if discrete else rng.integers(-16, 17, (n, 2)).astype(np.float32) / 16
    action = action * WIDTH + CENTER if far else action
    return MDPDataset.from_arrays(obs, action, reward, ends, discrete_action=discrete)


def fitted(name: str, episodes: Any, **options: Any) -> Any:
    with isolated_rng():
        set_random_seed(0)
        return make(name, **options).fit(episodes, n_epochs=2, **QUIET)


@pytest.mark.representatives(3)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_an_agent_learns_from_scaled_actions_as_from_data_that_were_scaled_before(name: str) -> None:
    scaled, plain = fitted(name, data(False, far=True), action_scaler=HALVES), fitted(name, data(False))
    assert_same_parameters(scaled, plain)
    actions = predicted(plain, OBS)
    np.testing.assert_allclose(predicted(scaled, OBS), actions * WIDTH + CENTER, rtol=1e-6)
    if name != "AWR" and not issubclass(ESTIMATORS[name], NoValues):
        values = scaled.predict_value(OBS, actions * WIDTH + CENTER), plain.predict_value(OBS, actions)
        np.testing.assert_allclose(*values, rtol=1e-4, atol=1e-5)


@pytest.mark.representatives(4)
@pytest.mark.parametrize("name", [name for name in ALL if name not in SEQUENTIAL])
def test_an_agent_learns_from_scaled_rewards_as_from_data_that_were_scaled_before(name: str) -> None:
    discrete = ESTIMATORS[name].discrete_action
    scaled = fitted(name, data(discrete), reward_scaler=preprocessing.MultiplyRewardScaler(0.5))
    assert_same_parameters(scaled, fitted(name, data(discrete, factor=0.5)))


@pytest.mark.parametrize("name", [name for name in CONTINUOUS if name in SAMPLING])
def test_samples_are_scaled_back(name: str) -> None:
    scaled, plain = (make(name, **options) for options in ({"action_scaler": HALVES}, {}))
    for each in (scaled, plain):
        each.create_impl((4,), 2)
    scaled.impl.load_state_dict(plain.impl.state_dict())
    drawn = []
    for each in (scaled, plain):
        torch.manual_seed(0)
        drawn.append(each.sample_action(OBS))
    np.testing.assert_allclose(drawn[0], drawn[1] * WIDTH + CENTER, rtol=1e-6)


def test_scalers_are_fitted_to_the_data_that_an_agent_is_built_for() -> None:
    made = make("SAC", action_scaler="min_max", reward_scaler="standard").fit(data(False, far=True), n_steps=1, **QUIET)
    assert np.allclose(made.action_scaler.maximum, FAR.high) and np.allclose(made.action_scaler.minimum, FAR.low)
    assert np.isclose(made.reward_scaler.std, np.std([t.next_reward for e in data(False) for t in e]))
    maximum = made.action_scaler.maximum
    made.fit(data(False), n_steps=1, **QUIET)
    assert made.action_scaler.maximum is maximum


@pytest.mark.parametrize("far", [False, True])
def test_scaled_actions_are_within_reach(far: bool, caplog: pytest.LogCaptureFixture) -> None:
    make("BC", action_scaler="min_max" if far else None).fit(data(False, far=far), n_steps=1, **QUIET)
    assert not caplog.records


@pytest.mark.slow
def test_models_bring_their_scalers_along(tmp_path: Path) -> None:
    options = {"action_scaler": "min_max", "reward_scaler": "return", "scaler": "standard"}
    made = fitted("SAC", data(False, far=True), **options)
    made.save_model(tmp_path / "model.pt")
    for other in (make("SAC"), make("SAC", **options), fitted("SAC", data(False), **options)):
        other.load_model(tmp_path / "model.pt")
        np.testing.assert_array_equal(other.predict(OBS), made.predict(OBS))
        for name in options:
            assert repr(getattr(other, name)) == repr(getattr(made, name)) == repr(getattr(made, f"{name}_"))
        agent = other.impl
        other.load_model(tmp_path / "model.pt")
        assert other.impl is agent  # which is made anew for other scalers alone
    plain = fitted("SAC", data(False))
    plain.save_model(tmp_path / "plain.pt")
    made.load_model(tmp_path / "plain.pt")
    assert made.action_scaler is made.reward_scaler is made.scaler is None
    np.testing.assert_array_equal(made.predict(OBS), plain.predict(OBS))


def test_params_json_makes_the_same_scalers(tmp_path: Path) -> None:
    made = make("SAC", action_scaler="min_max", reward_scaler=preprocessing.ClipRewardScaler(-1.0, 1.0))
    made.fit(data(False, far=True), 1, logdir=tmp_path, experiment_name="a", with_timestamp=False, verbose=False)
    again: Any = algos.Estimator.from_json(tmp_path / "a" / "params.json")
    for name in ("action_scaler", "reward_scaler"):
        assert repr(getattr(again, name)) == repr(getattr(made, name))
    assert again.__sklearn_clone__().get_params().keys() == made.get_params().keys()


def test_a_model_of_before_there_were_such_scalers_is_loaded() -> None:
    folder = Path(__file__).parents[3] / "data" / "estimator_sac"
    expected = np.load(folder / "expected.npz")
    made: Any = algos.SAC.from_json(folder / "params.json")
    made.load_model(folder / "model.pt")
    np.testing.assert_allclose(made.predict(expected["obs"]), expected["action"], atol=1e-6)
    np.testing.assert_allclose(made.predict_value(expected["obs"], expected["action"]), expected["value"], atol=1e-6)
    assert repr(made.scaler) == repr(made.scaler_) and made.action_scaler is None and len(made.augmentation) == 1


class Far(gymnasium.Env[Any, Any]):
    """Ten steps; the observation is 0, and actions have to lie in `FAR`."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (4,))
    action_space = FAR

    def reset(self, **options: Any) -> Any:
        self.t = 0
        return np.zeros(4, np.float32), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(np.float32(action)), action
        self.t += 1
        return np.zeros(4, np.float32), 1.0, self.t == 10, False, {}


class Told:
    """Explorer that takes the action that it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def select_action(self, t: int, greedy_action_func: Any, action_value: Any = None) -> Any:
        self.told.append((t, greedy_action_func()))
        return self.told[-1][1]


@pytest.mark.representatives(3)
@pytest.mark.parametrize("name", [name for name in CONTINUOUS if name not in SEQUENTIAL])
def test_environments_and_buffers_see_actions_of_the_environment(name: str, caplog: pytest.LogCaptureFixture) -> None:
    made, buffer = make(name, action_scaler="min_max", reward_scaler="multiply"), ReplayBuffer(100)
    seen: list[Any] = []
    made.fit_online(Far(), buffer, n_steps=2, **QUIET)
    augment = made.impl.augment
    made.impl.augment = lambda batch: seen.append(augment(batch).action) or augment(batch)
    made.fit_online(Far(), buffer, n_steps=20, random_steps=5, eval_env=Far(), **QUIET)
    assert repr(made.action_scaler) == repr(preprocessing.MinMaxActionScaler(maximum=FAR.high, minimum=FAR.low))
    assert all(FAR.contains(np.float32(item[0]["action"])) for item in buffer.memory)
    assert seen and all(float(action.abs().max()) <= 1.0 for action in seen)
    assert not caplog.records  # of bounds that differ


def test_explorers_are_told_actions_of_the_environment() -> None:
    made, explorer = make("TD3", action_scaler="min_max"), Told()
    made.fit_online(Far(), explorer=explorer, n_steps=12, **QUIET)
    assert [t for t, _ in explorer.told] == list(range(12)) and all(FAR.contains(action) for _, action in explorer.told)


def test_an_environment_tells_extremes_alone() -> None:
    for scaler in ("standard", preprocessing.StandardActionScaler()):
        with pytest.raises(NotFittedError, match="action_scaler is .*, which is not fitted"):
            make("SAC", action_scaler=scaler).fit_online(Far(), **QUIET)
    with pytest.raises(NotFittedError, match="reward_scaler is 'standard', which is not fitted"):
        make("SAC", reward_scaler="standard").fit_online(Far(), **QUIET)
    endless = Far()
    endless.action_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
    with pytest.raises(NonFiniteError, match="actions has -inf"):
        make("SAC", action_scaler="min_max").fit_online(endless, **QUIET)


def test_sums_of_rewards_are_not_scaled() -> None:
    with pytest.raises(ValueError, match="num_steps 3, but a reward_scaler"):
        make("SAC", reward_scaler="multiply").fit_online(Far(), ReplayBuffer(100, num_steps=3), **QUIET)


@pytest.mark.parametrize("name", [name for name in ALL if name not in CONTINUOUS])
def test_discrete_actions_are_not_scaled(name: str) -> None:
    made = make(name, action_scaler="min_max")
    for use in (lambda: made.fit(vectors(True), **QUIET), lambda: made.create_impl((4,), 3)):
        with pytest.raises(ValueError, match=f"action_scaler is .*, but {name} has discrete actions: use None"):
            use()


@pytest.mark.parametrize("option", [{"action_scaler": "min_max"}, {"reward_scaler": "standard"}])
def test_a_model_of_an_environment_is_not_scaled(option: Any) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(option))} is .*, but MOPO predicts unscaled values"):
        MOPO(**option).fit(data(False), **QUIET)


def test_an_agent_that_was_handed_in_has_no_other_scalers() -> None:
    agent = fitted("SAC", data(False)).impl
    for use in (lambda made: made.fit(data(False), **QUIET), lambda made: made.fit_online(Far(), **QUIET)):
        with pytest.raises(ValueError, match="reward_scaler is .*, but the agent passed as impl"):
            use(make("SAC", impl=agent, reward_scaler="multiply"))


def test_a_scaler_that_does_not_fit_a_file_makes_loading_fail(tmp_path: Path) -> None:
    made = fitted("SAC", data(False, far=True), action_scaler="min_max")
    made.save_model(tmp_path / "model.pt")
    other = make("SAC", encoder_params={"hidden_units": [3]}, reward_scaler="multiply")
    with pytest.raises(CheckpointError):
        other.load_model(tmp_path / "model.pt")
    assert other.impl is other.action_scaler is other.action_scaler_ is other.observation_shape_ is None
    assert isinstance(other.reward_scaler, preprocessing.MultiplyRewardScaler) and other.reward_scaler_ is None


@pytest.mark.slow
def test_networks_that_learnt_by_other_scalers_are_warned_of() -> None:
    given = fitted("SAC", data(False, far=True), action_scaler="min_max", reward_scaler="standard")
    other = fitted("SAC", data(False))
    with pytest.warns(UserWarning, match="was trained with the action_scaler MinMax") as caught:
        other.copy_policy_from(given)
    assert len(caught) == 1  # a policy sees no rewards
    with pytest.warns(UserWarning, match="was trained with the reward_scaler Standard") as caught:
        other.copy_q_function_from(given)
    assert len(caught) == 2


def test_td_errors_are_those_of_scaled_rewards() -> None:
    scaler = preprocessing.StandardRewardScaler(mean=0.0, std=2.0)
    scaled = fitted("SAC", data(False), reward_scaler=scaler)
    plain = make("SAC", impl=scaled.impl)
    plain.observation_shape_, plain.action_size_ = (4,), 2
    episodes, halved = data(False), data(False, factor=0.5)
    assert td_error_scorer(scaled, episodes) == pytest.approx(td_error_scorer(plain, halved))
    assert td_error_scorer(plain, episodes) != pytest.approx(td_error_scorer(plain, halved))
