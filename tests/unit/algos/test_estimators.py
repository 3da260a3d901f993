"""What every estimator does, whatever it is built of."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from estimator_parts import ALL, QUIET, SMALL_FILTERS, images, make, predicted, vectors

from pfrl_like import algos, load_learnable
from pfrl_like.agents.offline.awr import td_lambda_returns
from pfrl_like.algos.fitting.base import ESTIMATORS
from pfrl_like.algos.fitting.saving import write_model
from pfrl_like.augmentation import AugmentationPipeline
from pfrl_like.batch import Continuation, concatenate_batches
from pfrl_like.dataset import MDPDataset, TransitionMiniBatch
from pfrl_like.dataset.selection import batch_of
from pfrl_like.dynamics import MOPO
from pfrl_like.errors import CheckpointError, NonFiniteError, NotFittedError
from pfrl_like.preprocessing import StandardScaler

VALUED = [name for name in ALL if issubclass(ESTIMATORS[name], algos.fitting.networks.QLearning)]
OBS = np.random.default_rng(1).normal(size=(7, 4))


def fitted(name: str, n_epochs: int = 1, **options: Any) -> Any:
    made = make(name, **options)
    return made.fit(vectors(made.discrete_action), n_epochs=n_epochs, **QUIET)


@pytest.mark.parametrize("name", ALL)
def test_predictions_have_one_row_each(name: str) -> None:
    made = fitted(name)
    actions = predicted(made, OBS)
    assert actions.shape == ((7,) if made.discrete_action else (7, 2))
    assert actions.dtype.kind == ("i" if made.discrete_action else "f")
    assert (np.abs(actions) <= 2).all()
    assert np.array_equal(predicted(made, list(OBS)), actions)


@pytest.mark.parametrize("name", VALUED)
def test_values_are_those_of_the_critics(name: str) -> None:
    made = fitted(name, n_critics=3)
    actions = predicted(made, OBS)
    mean, std = made.predict_value(OBS, actions, with_std=True)
    assert mean.shape == std.shape == (7,)
    assert np.array_equal(made.predict_value(OBS, actions), mean)
    obs, acts = torch.as_tensor(OBS, dtype=torch.float32), torch.as_tensor(actions)
    with torch.no_grad():
        values = made.impl.values_of_pairs(obs, acts)
    assert np.allclose(values.mean(0), mean) and np.allclose(values.std(0, correction=0), std)
    assert (std > 0).all()


@pytest.mark.parametrize("name", ALL)
def test_training_is_the_same_with_the_same_seed_and_goes_on_from_a_model(name: str) -> None:
    def run(*epochs: int) -> Any:
        torch.manual_seed(3)
        np.random.seed(3)
        made = make(name)
        for n in epochs:
            made.fit(vectors(made.discrete_action), n_epochs=n, **QUIET)
        return made

    once, again = run(2), run(2)
    assert np.array_equal(predicted(once, OBS), predicted(again, OBS))
    once.save_model("model.pt")
    other = make(name)
    other.load_model("model.pt")
    assert np.array_equal(predicted(once, OBS), predicted(other, OBS))
    for each in (once, other):
        torch.manual_seed(4)
        np.random.seed(4)
        each.fit(vectors(each.discrete_action), n_epochs=1, **QUIET)
    assert np.array_equal(predicted(once, OBS), predicted(other, OBS))


@pytest.mark.parametrize("name", ALL)
def test_params_json_makes_the_same_estimator(name: str) -> None:
    made = make(name, scaler="standard", augmentation=["single_amplitude_scaling"], n_augmentations=2)
    made.fit(vectors(made.discrete_action), n_epochs=1, logdir="logs", verbose=False, show_progress=False)
    (folder,) = Path("logs").iterdir()
    assert folder.name.startswith(f"{name}_2")
    for base in (type(made), algos.Estimator):
        again: Any = base.from_json(folder / "params.json")
        assert type(again) is type(made)
        again.load_model(next(folder.glob("model_*.pt")))
        assert np.array_equal(predicted(again, OBS), predicted(made, OBS))
        assert again.n_augmentations == 2 and len(again.impl.augment.augment) == 1
        assert isinstance(again.scaler, StandardScaler) and isinstance(again.augmentation, AugmentationPipeline)
        copied = again.__sklearn_clone__()
        assert repr(copied.get_params()) == repr(again.get_params()) and copied.impl is None


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


@pytest.mark.parametrize("name", ALL)
def test_update_gives_a_list_of_losses(name: str) -> None:
    made = make(name)
    data = vectors(made.discrete_action)
    made.create_impl((4,), 3 if made.discrete_action else 2)
    batch = data.sample(16)
    assert isinstance(batch, TransitionMiniBatch)
    losses = made.update(0, 0, batch)
    assert len(losses) == len(made.loss_names) and np.isfinite(losses).all()
    assert made.update(0, 1, data.sample_batch(16, 0.9, **made.impl.sampling))


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


@pytest.mark.parametrize("lambd", [0.5, 1.0])
def test_batches_with_a_future_are_joined(lambd: float) -> None:
    data = vectors(False)
    parts = [data.batch(np.arange(i, i + 10), 0.9, continuation=np.inf) for i in (0, 30)]
    parts.append(data.batch(np.arange(60, 65), 0.9))

    def returns(batch: Any) -> torch.Tensor:
        return td_lambda_returns(lambda obs: obs.sum(1), batch, lambd)

    last = parts[2].replace(
        continuation=Continuation(torch.full((5,), -1), *[torch.zeros(0)] * 2, torch.zeros(0, 4), *[torch.zeros(0)] * 2)
    )
    expected = torch.cat([returns(part) for part in (*parts[:2], last)])
    assert torch.allclose(returns(concatenate_batches(parts)), expected)


def test_values_of_awr_are_those_of_states() -> None:
    made = fitted("AWR")
    values = made.predict_value(OBS)
    assert values.shape == (7,) and np.array_equal(
        values, made.predict_value(OBS, predicted(made, OBS), with_std=False)
    )


def test_a_minibatch_of_arrays_is_paid_with_the_next_reward() -> None:
    data = vectors(True)
    arrays = data.sample(120)
    rows = np.lexsort(arrays.observations.T)
    batch = batch_of(arrays, 0.5, "cpu", True)
    whole = data.batch(np.arange(data.n_steps), 0.5)
    other = np.lexsort(whole.obs.numpy().T)
    for field in ("obs", "action", "reward", "next_obs", "discount"):
        assert torch.equal(getattr(batch, field)[rows], getattr(whole, field)[other]), field


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
    with pytest.raises(NotImplementedError, match="those of predict"):
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


@pytest.mark.parametrize("name", [name for name in ALL if name not in {"BC", "DiscreteBC", "BCQ"}])
def test_samples_differ_from_predictions_where_policies_are_random(name: str) -> None:
    made = fitted(name)
    same = np.array_equal(made.sample_action(OBS), predicted(made, OBS))
    assert same == (name not in {"SAC", "CQL", "AWAC", "AWR", "DiscreteAWR", "BEAR"})
    assert made.sample_action(OBS).shape == predicted(made, OBS).shape


@pytest.mark.parametrize("name", ALL)
def test_what_is_not_built_says_so(name: str) -> None:
    for use in ("predict", "save_model"):
        with pytest.raises(NotFittedError, match=f"{name} is not built yet"):
            getattr(make(name), use)("here")


@pytest.mark.parametrize("name", ["DQN", "SAC"])
def test_data_of_the_other_kind_is_refused(name: str) -> None:
    made = make(name)
    with pytest.raises(TypeError, match=f"{name} has .* actions, but the episodes have"):
        made.fit(vectors(not made.discrete_action), **QUIET)
    assert made.impl is None


def test_data_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="no transition"):
        make("DQN").fit([], **QUIET)
    with pytest.raises(TypeError, match=r"episodes\[0\] is a int"):
        make("DQN").fit([1], **QUIET)
    with pytest.raises(TypeError, match="dynamics is 3, expected one of pfrl_like.dynamics"):
        make("DQN", dynamics=3).fit(vectors(True), **QUIET)
    nested = MDPDataset(
        {"x": np.zeros((5, 3))},
        np.zeros(5, int),
        np.zeros(5),
        np.arange(5) == 4,
        discrete_action=True,
        reward_convention="next_row",
    )
    with pytest.raises(ValueError, match="observation_shape is {'x': .*}, expected the shape of one array"):
        make("DQN").fit(nested, **QUIET)
    built = fitted("DQN")
    other = MDPDataset.from_arrays(np.zeros((5, 3)), np.zeros(5, int), np.zeros(5), np.arange(5) == 4)
    with pytest.raises(ValueError, match=r"was built for \(4,\) and 3"):
        built.fit(other, **QUIET)
    with pytest.raises(ValueError, match=r"x has shape \(7, 3\)"):
        built.predict(OBS[:, :3])
    with pytest.raises(ValueError, match="7 observations in x and 2 actions"):
        built.predict_value(OBS, [0, 1])


def test_infinite_losses_end_training() -> None:
    data = vectors(False)
    made = make("DDPG", critic_learning_rate=1e30)
    with pytest.raises(NonFiniteError):
        made.fit(data, n_epochs=50, **QUIET)


def test_a_model_of_another_algorithm_or_size_is_refused() -> None:
    fitted("DQN").save_model("dqn.pt")
    with pytest.raises(CheckpointError, match="holds a DQN, expected a SAC"):
        make("SAC").load_model("dqn.pt")
    with pytest.raises(CheckpointError):
        make("DQN", encoder_params={"hidden_units": [8]}).load_model("dqn.pt")
    Path("bad.pt").write_bytes(Path("dqn.pt").read_bytes()[:500])
    with pytest.raises(CheckpointError):
        make("DQN").load_model("bad.pt")
    Path("params.json").write_text(json.dumps({"algorithm": "SAC", "observation_shape": [4], "action_size": 2}))
    with pytest.raises(CheckpointError, match="holds the hyperparameters of 'SAC', expected those of DQN"):
        algos.DQN.from_json("params.json")


def test_a_model_that_cannot_be_loaded_leaves_the_estimator_as_it_was() -> None:
    fitted("DQN", scaler="standard").save_model("dqn.pt")
    other = make("DQN", encoder_params={"hidden_units": [8]})
    with pytest.raises(CheckpointError):
        other.load_model("dqn.pt")
    assert other.impl is other.scaler_ is other.observation_shape_ is None
    with pytest.raises(NotFittedError):
        other.predict(OBS)


def test_a_model_brings_its_scaler_along() -> None:
    saved = fitted("DQN", scaler="standard")
    saved.save_model("dqn.pt")
    other = make("DQN", scaler="standard").fit(vectors(True, n=40, seed=1), n_epochs=1, **QUIET)
    agent = other.impl
    other.load_model("dqn.pt")
    assert np.array_equal(other.predict_value(OBS, [0] * 7), saved.predict_value(OBS, [0] * 7))
    rebuilt = other.impl
    assert rebuilt is not agent
    other.load_model("dqn.pt")
    assert other.impl is rebuilt


def test_files_of_something_else_are_refused() -> None:
    for content in (
        {"attributes": {}, "state": torch.zeros(1), "params": "{}"},
        {"attributes": {}, "state": "{}", "params": json.dumps({"algorithm": "DQN"})},
    ):
        torch.save(content, "other.pt")
        with pytest.raises(CheckpointError):
            make("DQN").load_model("other.pt")
    Path("params.json").write_text(json.dumps({"algorithm": "DQN", "action_size": 2}))
    with pytest.raises(CheckpointError, match="which have action_size, observation_shape"):
        algos.DQN.from_json("params.json")


def test_values_of_actions_that_cannot_be_are_refused() -> None:
    discrete, continuous = fitted("DQN"), fitted("SAC")
    for actions, bad in ((np.full(7, 3), 3), (np.full(7, -1), -1), (np.full((7, 1), 0.5), 0.5)):
        with pytest.raises(ValueError, match=f"action has {bad}, expected integers from 0 to below 3"):
            discrete.predict_value(OBS, actions)
    assert discrete.predict_value(OBS, np.ones((7, 1), np.float32)).shape == (7,)
    for shape in ((7, 3), (7,), ()):
        with pytest.raises(ValueError, match=r"action has shape .*, expected \(n, 2\)"):
            continuous.predict_value(OBS, np.zeros(shape))
    assert continuous.predict_value(OBS[:0], np.zeros((0, 2))).shape == (0,)


@pytest.mark.parametrize("name", ["DQN", "TD3", "BC"])
def test_images_are_stacked(name: str) -> None:
    made = make(name, n_frames=3, scaler="pixel", encoder_params=SMALL_FILTERS, augmentation=["random_shift"])
    made.fit(images(made.discrete_action), n_epochs=1, **QUIET)
    assert made.observation_shape_ == (1, 16, 16)
    assert len(made.predict(np.zeros((2, 3, 16, 16), np.uint8))) == 2
    with pytest.raises(ValueError, match=r"expected \(n, 3, 16, 16\)"):
        made.predict(np.zeros((2, 1, 16, 16), np.uint8))


def test_epochs_are_yielded_with_their_metrics() -> None:
    made = make("DQN")
    seen = list(made.fitter(vectors(True), 3, scorers={"one": lambda algo, episodes: 1.0}, **QUIET))
    assert [epoch for epoch, _ in seen] == [0, 1, 2]
    assert all(metrics.keys() == {"value_loss", "one"} for _, metrics in seen)
    assert made.eval_results_ == {"one": [1.0] * 3}


def test_a_number_of_updates_may_be_asked_for() -> None:
    calls: list[tuple[int, int]] = []
    made = make("DQN")
    options: dict[str, Any] = {"n_steps": 25, "n_steps_per_epoch": 10, **QUIET}
    made.fit(vectors(True), callback=lambda algo, epoch, step: calls.append((epoch, step)), **options)
    assert calls == [(i // 10, i + 1) for i in range(25)]
    assert made.impl.optim_t == 25


def test_epochs_may_be_followed() -> None:
    calls: list[tuple[int, int]] = []
    make("DQN").fit(
        vectors(True), n_epochs=2, epoch_callback=lambda algo, epoch, step: calls.append((epoch, step)), **QUIET
    )
    assert calls == [(0, 7), (1, 14)]


@pytest.mark.parametrize(("largest", "told"), [(1.0, 0), (2.0, 1)])
def test_actions_that_policies_cannot_reach_are_told_of(
    largest: float, told: int, caplog: pytest.LogCaptureFixture
) -> None:
    actions = largest * np.array([[1.0], [-1.0], [0.5], [0.0]], np.float32)
    data = MDPDataset.from_arrays(np.zeros((4, 4), np.float32), actions, np.zeros(4), np.arange(4) == 3)
    make("DDPG", batch_size=4).fit(data, n_epochs=1, **QUIET)
    assert [record.message[:39] for record in caplog.records] == ["actions of the data are as large as 2, "] * told


def test_scores_leave_training_as_it_is() -> None:
    def draw(algo: Any, episodes: Any) -> float:
        return float(torch.rand(()) + np.random.rand())

    runs = []
    for scorers in ({}, {"draw": draw}):
        torch.manual_seed(0)
        np.random.seed(0)
        runs.append(make("SAC").fit(vectors(False), n_epochs=2, scorers=scorers, **QUIET).predict(OBS))
    assert np.array_equal(*runs)


@pytest.mark.parametrize("name", ["SAC", "DiscreteAWR"])
def test_samples_of_a_policy_with_batch_normalisation_do_not_depend_on_each_other(name: str) -> None:
    made = make(name, use_batch_norm=True)
    made.fit(vectors(made.discrete_action), n_epochs=1, **QUIET)
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
    with pytest.warns(UserWarning, match=r"learnt with a MOPO as dynamics.*set_params\(dynamics=") as warned:
        again = algos.SAC.from_json(path)
    assert again.dynamics is None and warned[0].filename == __file__
    assert again.set_params(dynamics=dynamics).fit(data, n_epochs=1, **QUIET).dynamics is dynamics


def test_a_function_of_the_users_own_is_named_in_params_json() -> None:
    def same(obs: Any, rng: Any) -> Any:
        return obs

    made = make("DQN", augmentation=[same, "single_amplitude_scaling"])
    made.fit(vectors(True), n_epochs=1, logdir="logs", verbose=False, show_progress=False)
    (path,) = Path("logs").glob("*/params.json")
    assert "same" in json.loads(path.read_text())["augmentation"][0]
    with pytest.raises(ValueError, match="the augmentation is '<function"):
        algos.DQN.from_json(path)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_observations_that_are_no_numbers_are_refused(bad: float) -> None:
    made = make("DQN")
    made.create_impl((4,), 2)
    with pytest.raises(NonFiniteError, match=rf"x has {bad} at index \(0, 2\)"):
        made.predict(np.array([[0.0, 0.0, bad, 0.0]]))
