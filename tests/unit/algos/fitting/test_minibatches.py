"""Minibatches and episodes that do not fit an estimator are refused before anything is learnt."""

import copy
from typing import Any

import numpy as np
import pytest
from estimator_parts import QUIET, make, vectors

from pfrl_like.algos.fitting.minibatches import TrainingData, batch_for
from pfrl_like.dataset import MDPDataset, TransitionMiniBatch
from pfrl_like.dynamics import MOPO
from pfrl_like.testing.play import difference

DISCRETE = ["DQN", "DiscreteBC", "DiscreteAWR", "discrete MOPO"]
CONTINUOUS = ["CQL", "BC", "AWR", "MOPO"]


def data(discrete: bool, size: int, width: int = 4, n: int = 60) -> MDPDataset:
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(n, width)).astype(np.float32)
    actions = np.full(n, size - 1) if discrete else rng.uniform(-1, 1, (n, size)).astype(np.float32)
    terminals = np.arange(n) % 10 == 9
    return MDPDataset.from_arrays(obs, actions, rng.normal(size=n), terminals, discrete_action=discrete)


def built(name: str, size: int) -> Any:
    options = {"discrete_action": name in DISCRETE} if name.endswith("MOPO") else {}
    made = make(name.removeprefix("discrete "), **options)
    made.create_impl((4,), size)
    return made


def minibatches(made: Any, source: MDPDataset) -> list[Any]:
    return [source.sample(16), source.sample_batch(16, 0.9, **getattr(made.impl, "sampling", {}))]


@pytest.mark.parametrize("name", [*DISCRETE, *CONTINUOUS])
def test_minibatches_that_fit_are_learnt_from(name: str) -> None:
    made = built(name, 2)
    for batch in minibatches(made, data(name in DISCRETE, 2)):
        assert np.isfinite(made.update(0, 0, batch)).all()
    assert np.isfinite(made.update(0, 0, batch.replace(action=batch.action.long()))).all()  # vectors of integers, too


@pytest.mark.parametrize("name", [*DISCRETE, *CONTINUOUS])
def test_actions_of_the_other_kind_or_out_of_range_are_not_learnt_from(name: str) -> None:
    discrete = name in DISCRETE
    made = built(name, 2 if discrete else 1)
    before = copy.deepcopy(made.impl.state_dict())
    got = {True: "discrete", False: "continuous"}[not discrete]
    text = "action has 4, expected integers >= 0 and < 2" if discrete else r"action has shape \(16, 5\), expected"
    for batch in minibatches(made, data(not discrete, 1)):
        with pytest.raises(TypeError, match=f"but the batch has {got} actions"):
            made.update(0, 0, batch)
    for batch in minibatches(made, data(discrete, 5)):
        with pytest.raises(ValueError, match=text):
            made.update(0, 0, batch)
    assert not difference(made.impl.state_dict(), before)


def test_what_is_no_minibatch_is_refused() -> None:
    made = built("CQL", 2)
    source = data(False, 2)
    for wrong, name in (([*source.sample(4)], "list"), (None, "NoneType"), (source, "MDPDataset")):
        with pytest.raises(TypeError, match=f"batch is {name}, expected a TransitionMiniBatch or a Batch"):
            made.update(0, 0, wrong)
    batch = source.sample_batch(16, 0.9)
    for changes, text in (
        ({"action": batch.action[:8]}, "batch has 8 actions, expected 16"),
        ({"action": "left"}, "action: got str, expected an array of real numbers"),
        ({"obs": {"image": batch.obs}}, r"of shape {'image': \(16, 4\)}, expected \(n, 4\) with n = 16"),
        ({"obs": batch.obs[:8]}, r"batch has observations of shape \(8, 4\), expected \(n, 4\) with n = 16"),
        ({"next_obs": batch.next_obs[:, :3]}, r"batch has next observations of shape \(16, 3\)"),
        ({"next_obs": None}, r"batch has next observations of shape None, expected \(n, 4\)"),
    ):
        with pytest.raises(ValueError, match=text):
            made.update(0, 0, batch.replace(**changes))


@pytest.mark.parametrize("bad", ["text", [[0, 1, 2, 3], [0]], np.array([[None] * 4]), np.zeros((2, 4), complex)])
def test_what_is_no_array_of_real_numbers_is_refused_by_name(bad: Any) -> None:
    with pytest.raises(ValueError, match="x: got .*, expected an array of real numbers"):
        built("CQL", 2).predict(bad)
    with pytest.raises(ValueError, match="action: got .*, expected an array of real numbers"):
        built("CQL", 2).predict_value(np.zeros((2, 4)), bad)


@pytest.mark.parametrize("shape", [None, 4, (0,), (-1,), (3, 0, 16), "4"])
def test_what_is_no_shape_of_observations_is_refused_by_name(shape: Any) -> None:
    with pytest.raises(ValueError, match="observation_shape is .*, expected the shape of one array"):
        make("CQL").create_impl(shape, 2)


def test_discrete_actions_have_no_width() -> None:
    with pytest.raises(ValueError, match=r"action has shape \(2, 2\), expected \(n,\) or \(n, 1\)"):
        built("DQN", 2).predict_value(np.zeros((4, 4)), np.zeros((2, 2), int))


def test_episodes_that_scorers_cannot_ask_about_are_refused_before_training() -> None:
    def score(algo: Any, episodes: Any) -> float:
        return 0.0

    mixed = [*vectors(False).episodes, *data(False, 2, width=5).episodes]
    for wrong, error, text in (
        (data(True, 3), TypeError, "but eval_episodes have discrete actions"),
        (data(False, 3).episodes, ValueError, "eval_episodes: got .* actions of size 3"),
        (mixed, ValueError, r"eval_episodes: got observations of shape \(5,\)"),
    ):
        made = make("CQL")
        with pytest.raises(error, match=text):
            made.fit(vectors(False), 1, eval_episodes=wrong, scorers={"score": score}, **QUIET)
        assert made.impl.optim_t == 0
    for fine in (vectors(False), None, "the scorer's own matter"):
        make("CQL").fit(vectors(False), n_steps=1, eval_episodes=fine, scorers={"score": score}, **QUIET)


def test_rows_that_a_model_generated_are_marked() -> None:
    recorded = vectors(False)
    model = MOPO(n_transitions=20, horizon=3, encoder_params={"hidden_units": [8]}).fit(recorded, 1, **QUIET)
    made = make("COMBO", dynamics=model)
    made.build_with_dataset(recorded)
    source = TrainingData(recorded, 100, 1)
    source.begin_epoch(made)
    batch = source.next_batch(made.impl)
    minibatch = source.transitions_of(batch, made)
    known = {action.tobytes() for action in recorded.actions}
    for each in (batch, batch_for(made.impl, minibatch, False)):
        marks = [action.tobytes() not in known for action in each.action.numpy()]
        assert each.extra["imagined"].tolist() == marks and 0 < sum(marks) < 100
    assert np.isfinite(made.update(0, 0, minibatch)).all()


def test_awr_gets_the_later_steps_of_generated_episodes() -> None:
    recorded = vectors(False)
    model = MOPO(n_transitions=2, horizon=3, encoder_params={"hidden_units": [8]})
    model.build_with_dataset(recorded)
    made = make("AWR", dynamics=model)
    made.build_with_dataset(recorded)
    transitions = model.generate(made, recorded[0].transitions)
    batch = batch_for(made.impl, TransitionMiniBatch(transitions[:2]), False)
    later = np.ravel([[transitions[2 + i].next_reward, transitions[4 + i].next_reward] for i in range(2)])
    assert sorted(batch.continuation.reward.tolist()) == pytest.approx(sorted(later))


def test_next_actions_of_a_minibatch_of_arrays_are_those_of_the_dataset() -> None:
    recorded, made = vectors(False, n=40, length=10), make("ReBRAC")
    made.build_with_dataset(recorded)
    transitions = [transition for episode in recorded for transition in episode]
    arrays = batch_for(made.impl, TransitionMiniBatch(transitions), False)
    batch = recorded.batch(np.arange(len(transitions)), 0.99, next_actions=True)
    np.testing.assert_array_equal(arrays.next_action, batch.next_action)
    assert arrays.next_action.isnan().any(1).sum() == 4  # of the last transitions


def test_there_is_no_next_action_after_a_window_that_ends_with_its_episode() -> None:
    transitions, made = [*vectors(False, n=40, length=10)[0]], make("ReBRAC")
    made.build_with_dataset(vectors(False))
    batch = batch_for(made.impl, TransitionMiniBatch(transitions, n_steps=3), False)
    assert batch.next_action.isnan().any(1).nonzero().flatten().tolist() == [*range(len(transitions))[-3:]]
