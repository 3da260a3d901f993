import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from estimator_parts import QUIET, SMALL, images, vectors

from pfrl_like import algos
from pfrl_like.agents.offline.awr import td_lambda_returns
from pfrl_like.algos.fitting.minibatches import TrainingData
from pfrl_like.dataset import Transition, TransitionMiniBatch
from pfrl_like.dynamics import MOPO
from pfrl_like.errors import NotFittedError
from pfrl_like.utils import set_random_seed

OBS = np.random.default_rng(1).normal(size=(7, 4))
ACTIONS = {True: np.arange(7) % 3, False: np.random.default_rng(2).uniform(-1, 1, (7, 2))}
KINDS = pytest.mark.parametrize("discrete", [False, True], ids=["continuous", "discrete"])


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    np.random.seed(0)


def fitted(discrete: bool = False, n_epochs: int = 1, **options: Any) -> MOPO:
    made = MOPO(**SMALL | {"discrete_action": discrete, "n_ensembles": 2, "n_transitions": 6, "horizon": 3} | options)
    return made.fit(vectors(discrete), n_epochs=n_epochs, **QUIET)


def policy(discrete: bool = False, **options: Any) -> Any:
    kind = algos.DQN if discrete else algos.SAC
    return kind(**SMALL | options).fit(vectors(discrete), n_epochs=1, **QUIET)


def transitions(discrete: bool = False) -> list[Transition]:
    return [transition for episode in vectors(discrete) for transition in episode]


# Predicting


@KINDS
def test_predictions_have_one_row_each(discrete: bool) -> None:
    model, action = fitted(discrete), ACTIONS[discrete]
    next_obs, reward = model.predict(OBS, action)
    assert next_obs.shape == (7, 4) and reward.shape == (7, 1)
    again, _, variance = model.predict(list(OBS), list(action), with_variance=True)
    assert np.array_equal(again, next_obs) and variance.shape == (7, 1) and (variance > 0).all()


@KINDS
def test_what_is_predicted_depends_on_the_action(discrete: bool) -> None:
    model, action = fitted(discrete), ACTIONS[discrete]
    other = (action + 1) % 3 if discrete else -action
    assert (model.predict(OBS, action)[1] != model.predict(OBS, other)[1]).all()


# Learning


@pytest.mark.parametrize(
    ("options", "shows"),
    [
        ({"use_batch_norm": True}, lambda m: "BatchNorm1d" in str(m.impl.network)),
        ({"n_ensembles": 3}, lambda m: len(m.impl.network) == 3),
        ({"learning_rate": 0.5}, lambda m: {group["lr"] for group in m.impl.optimizer.param_groups} == {0.5}),
        ({"eps": 0.5}, lambda m: {group["eps"] for group in m.impl.optimizer.param_groups} == {0.5}),
        ({"weight_decay": 0.5}, lambda m: [g["weight_decay"] for g in m.impl.optimizer.param_groups] == [0.5, 0]),
        ({"augmentation": ["single_amplitude_scaling"]}, lambda m: m.impl.augment is not None),
        ({"scaler": "min_max"}, lambda m: m.impl.scaler is not None and m.impl.scaler.fitted),
    ],
    ids=lambda value: "" if callable(value) else next(iter(value)),
)
def test_hyperparameters_reach_the_model(options: dict[str, Any], shows: Any) -> None:
    set_random_seed(0)
    plain = fitted()
    set_random_seed(0)
    made = fitted(**options)
    assert shows(made) and not shows(plain)
    losses = []
    for model in (made, plain):
        set_random_seed(1)
        losses.append(model.update(0, 0, TransitionMiniBatch(transitions()[:16]))[0])
    assert losses[0] != losses[1]


# Imagining


@KINDS
def test_imagined_transitions_are_linked_and_go_on_from_recorded_ones(discrete: bool) -> None:
    recorded = transitions(discrete)
    made = fitted(discrete).generate(policy(discrete), recorded)
    assert len(made) == 6 * 3 and not any(transition.terminal for transition in made)
    begins = {tuple(transition.observation.tolist()) for transition in recorded}
    for i in range(6):
        episode = made[i::6]
        assert tuple(episode[0].observation.tolist()) in begins and episode[0].reward == 0
        assert episode[0].prev_transition is None and episode[-1].next_transition is None
        for now, after in zip(episode, episode[1:], strict=False):
            assert now.next_transition is after and after.prev_transition is now
            assert np.array_equal(now.next_observation, after.observation)
            assert np.array_equal(now.next_action, after.action) and now.next_reward == after.reward
    batch = TransitionMiniBatch(made)
    assert batch.observations.shape == (18, 4) and batch.actions.shape == ((18,) if discrete else (18, 2))
    assert batch.actions.dtype.kind == ("i" if discrete else "f")


def test_rewards_are_less_by_lam_variances() -> None:
    model, algo, recorded = fitted(), policy(), transitions()

    def generated(lam: float) -> list[Transition]:
        torch.manual_seed(0)
        np.random.seed(0)
        model.lam = lam
        return model.generate(algo, recorded)

    for plain, penalised in zip(generated(0.0), generated(2.0), strict=True):
        assert np.array_equal(plain.observation, penalised.observation)
        variance = model.predict(plain.observation[None], plain.action[None], with_variance=True)[2].item()
        assert plain.next_reward - penalised.next_reward == pytest.approx(2 * variance, rel=1e-3)


@KINDS
def test_actions_are_those_of_the_algorithm(discrete: bool) -> None:
    algo = (algos.DQN if discrete else algos.BC)(**SMALL).fit(vectors(discrete), n_epochs=1, **QUIET)  # neither draws
    made = fitted(discrete).generate(algo, transitions(discrete))
    expected = algo.predict(np.stack([transition.observation for transition in made]))
    assert np.allclose([transition.action for transition in made], expected, atol=1e-6)


class Watched(MOPO):
    """Keeps after how many updates it was called, and what it has imagined last."""

    made: list[Transition]

    def generate(self, algo: Any, transitions: Any) -> list[Transition]:
        calls.append(algo.impl.optim_t)
        self.made = super().generate(algo, transitions)
        return self.made


calls: list[int] = []


@KINDS
def test_an_algorithm_learns_from_new_transitions_at_the_start_of_every_epoch(discrete: bool) -> None:
    model = Watched(**fitted(discrete, n_transitions=40, lam=1e6).get_params())
    model.fit(vectors(discrete), n_epochs=1, **QUIET)
    calls.clear()
    rewards: list[float] = []
    algo = (algos.DQN if discrete else algos.CQL)(**SMALL | {"dynamics": model})
    algo.create_impl((4,), 3 if discrete else 2)
    algo.impl.augment = lambda batch: (rewards.extend(batch.reward.tolist()), batch)[1]
    algo.fit(vectors(discrete), n_epochs=3, **QUIET)
    per_epoch = (len(transitions()) + 40 * 3) // 16
    assert calls == [0, per_epoch, 2 * per_epoch]
    # each pass has every transition once, save for the rest of the last minibatch; only imagined rewards are so small
    assert len(rewards) == 3 * per_epoch * 16
    assert sum(reward < -1000 for reward in rewards) == pytest.approx(3 * 40 * 3, abs=3 * 16)


@KINDS
def test_returns_of_imagined_transitions_reach_to_the_end_of_what_was_imagined(discrete: bool) -> None:
    model = Watched(**fitted(discrete).get_params()).fit(vectors(discrete), n_epochs=1, **QUIET)
    algo: Any = (algos.DiscreteAWR if discrete else algos.AWR)(**SMALL | {"dynamics": model})
    algo.create_impl((4,), 3 if discrete else 2)
    data = TrainingData(vectors(discrete), 120 + 6 * 3, 1)
    data.begin_epoch(algo)
    batch = data.next_batch(algo.impl)
    returns = dict(zip(map(tuple, batch.obs.tolist()), td_lambda_returns(algo.impl.v_func, batch, 0.5), strict=True))

    def expected(step: Transition) -> float:
        value, after = algo.predict_value(step.next_observation[None]).item(), step.next_transition
        return step.next_reward + 0.99 * (value if after is None else 0.5 * value + 0.5 * expected(after))

    steps = [step for step in model.made if step.prev_transition is not None]  # others begin where recorded ones do
    assert len(steps) == 6 * 2
    for step in steps:
        assert returns[tuple(step.observation.tolist())] == pytest.approx(expected(step), rel=1e-4)


# Saving


def test_a_loaded_model_predicts_the_same_and_can_be_tuned() -> None:
    model = fitted(scaler="standard")
    model.fit(vectors(False), n_epochs=1, experiment_name="mopo", with_timestamp=False, tensorboard=False)
    loaded = MOPO.from_json("d3rlpy_logs/mopo/params.json")
    [path] = Path("d3rlpy_logs/mopo").glob("model_*.pt")
    loaded.load_model(path)
    assert np.array_equal(loaded.predict(OBS, ACTIONS[False])[0], model.predict(OBS, ACTIONS[False])[0])
    loaded.n_transitions, loaded.horizon, loaded.lam = 4, 2, 0.0
    assert len(loaded.generate(policy(), transitions())) == 8
    assert copy.deepcopy(loaded.get_params())["n_transitions"] == 4


# Bad input


@pytest.mark.parametrize(
    ("mistake", "error", "message"),
    [
        (lambda: MOPO().fit(images(False), n_epochs=1, **QUIET), ValueError, "vectors only"),
        (lambda: MOPO().fit(vectors(True), n_epochs=1, **QUIET), TypeError, "discrete"),
        (lambda: MOPO(dynamics=fitted()).create_impl((4,), 2), ValueError, "dynamics"),
        (lambda: MOPO().predict(OBS, ACTIONS[False]), NotFittedError, "MOPO"),
        (lambda: MOPO().generate(policy(), transitions()), NotFittedError, "MOPO"),
        (lambda: fitted().predict(OBS, ACTIONS[False][:3]), ValueError, "action has 3 rows, but x has 7 observations"),
        (lambda: fitted().generate(policy(True), transitions(True)), TypeError, "is False, but DQN has other actions"),
    ],
)
def test_what_does_not_fit_is_refused(mistake: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        mistake()


def test_nothing_is_predicted_of_nothing() -> None:
    shapes = [part.shape for part in fitted().predict(OBS[:0], ACTIONS[False][:0], with_variance=True)]
    assert shapes == [(0, OBS.shape[1]), (0, 1), (0, 1)]


def test_a_model_knows_no_values_and_does_not_act() -> None:
    model = fitted()
    for method, arguments in (
        ("predict_value", (OBS, ACTIONS[False])), ("sample_action", (OBS,)), ("fit_online", (None,)),
        ("save_policy", ("policy.pt",)),
    ):  # fmt: skip
        with pytest.raises(NotImplementedError, match="MOPO is a model of an environment"):
            getattr(model, method)(*arguments)


@pytest.mark.parametrize(("name", "value"), [("n_transitions", 0), ("horizon", 0), ("lam", -1.0), ("lam", np.nan)])
def test_numbers_out_of_range_are_refused(name: str, value: float) -> None:
    model = fitted()
    setattr(model, name, value)
    with pytest.raises(ValueError, match=name):
        model.generate(policy(), transitions())
