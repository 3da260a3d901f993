"""Methods of estimators that users override: they are called, or a warning names them."""

import functools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from estimator_parts import ALL, QUIET, SMALL, SMALL_FILTERS, assert_same_parameters, images, make, vectors

from pfrl_like import algos, ope
from pfrl_like.algos.fitting.base import ESTIMATORS
from pfrl_like.algos.fitting.epochs import NOT_CALLED
from pfrl_like.dataset import MDPDataset, TransitionMiniBatch
from pfrl_like.dynamics import MOPO
from pfrl_like.explorers import ConstantEpsilonGreedy
from pfrl_like.loggers import NoopAdapterFactory
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.replay_buffers import PrioritizedReplayBuffer, ReplayBuffer
from pfrl_like.utils import set_random_seed


@pytest.fixture(autouse=True)
def known_estimators() -> Iterator[None]:
    """The classes that tests define are forgotten."""
    before = dict(ESTIMATORS)
    yield
    ESTIMATORS.clear()
    ESTIMATORS.update(before)


class Counting:
    """A mix-in that counts its calls."""

    calls = 0

    def update(self, epoch: int, total_step: int, batch: Any) -> Any:
        self.calls += 1
        return super().update(epoch, total_step, batch)  # type: ignore[misc]


def seeded(use: Any) -> Any:
    with isolated_rng():
        set_random_seed(0)
        return use()


def fitted(made: Any, episodes: Any = None, **options: Any) -> Any:
    episodes = vectors(made.discrete_action) if episodes is None else episodes
    return seeded(lambda: made.fit(episodes, **{"n_epochs": 2, **QUIET, **options}))


@pytest.mark.representatives(2)
@pytest.mark.parametrize("name", [*ALL, "MOPO"])
def test_an_override_that_only_calls_super_learns_the_same(name: str) -> None:
    kind: Any = type("Counted", (Counting, ESTIMATORS[name]), {})
    options = {key: value for key, value in make(name).get_params().items() if key not in {"impl", "dynamics"}}
    counted, plain = fitted(kind(**options)), fitted(make(name))
    assert_same_parameters(counted, plain)
    assert counted.calls == 14  # of 120 transitions in minibatches of 16


class Halved(algos.TD3):
    """Learns from half of the rewards."""

    def update(self, epoch: int, total_step: int, batch: TransitionMiniBatch) -> Any:
        assert isinstance(batch, TransitionMiniBatch) and batch.observations.shape == (16, 4)
        batch.next_rewards[:] /= 2
        return super().update(epoch, total_step, batch)


def test_what_an_override_does_with_a_minibatch_is_learnt_from() -> None:
    n = np.arange(120)
    rewards = n % 7 / 4
    halves, wholes = (
        MDPDataset.from_arrays(
            vectors(False, n=120).observations[: len(n)], np.zeros((120, 2), np.float32), each, n % 20 == 19
        )
        for each in (rewards / 2, rewards)
    )  # fmt: skip
    assert_same_parameters(fitted(Halved(**SMALL), wholes), fitted(algos.TD3(**SMALL), halves))


def own(update: Any) -> Any:
    """A DQN whose updates are those of a function of it, the number of the step and the minibatch."""
    return type("Own", (algos.DQN,), {"update": lambda self, epoch, total_step, batch: update(self, total_step, batch)})


def learn(made: Any, step: int, batch: Any) -> list[float]:
    return algos.DQN.update(made, 0, step, batch)


def test_losses_of_an_override_are_averaged_and_logged() -> None:
    def metrics(update: Any) -> Any:
        return seeded(lambda: list(own(update)(**SMALL).fitter(vectors(True), 1, **QUIET)))[0][1]

    loss = metrics(learn)["value_loss"]
    named = metrics(lambda made, step, batch: {"value_loss": 2 * learn(made, step, batch)[0], "step": float(step)})
    assert named == {"value_loss": pytest.approx(2 * loss), "step": 3.0}
    assert metrics(lambda *args: [2 * loss for loss in learn(*args)]) == {"value_loss": pytest.approx(2 * loss)}
    assert np.isnan(metrics(lambda *args: None)["value_loss"])


def test_an_override_may_learn_twice_or_not_at_all() -> None:
    never, before = fitted(own(lambda *args: [0.0])(**SMALL)), seeded(lambda: make("DQN"))
    seeded(lambda: before.create_impl((4,), 3))
    assert_same_parameters(never, before)
    twice, once = (
        fitted(kind(**SMALL), n_steps=1) for kind in (own(lambda *args: [learn(*args), learn(*args)][1]), algos.DQN)
    )
    weights = [next(made.impl.model.parameters()) for made in (twice, once)]
    assert not torch.equal(*weights)


def test_an_override_may_take_the_minibatch_alone() -> None:
    class Later(algos.CQL):
        def update(self, batch: Any) -> Any:
            losses = super().update(batch)
            assert losses.keys() == {"critic_loss", "actor_loss"}
            return losses | {"seen": 1.0}

    later = Later(**SMALL)
    (_, metrics), *_ = seeded(lambda: list(later.fitter(vectors(False), 2, **QUIET)))
    assert metrics["seen"] == 1.0
    assert_same_parameters(later, fitted(algos.CQL(**SMALL)))


def test_update_takes_a_minibatch_alone() -> None:
    data = vectors(False)
    alone, whole = (seeded(lambda: make("TD3")) for _ in range(2))
    for each in (alone, whole):
        seeded(lambda each=each: each.create_impl((4,), 2))
    for step in range(3):
        batch = data.sample(16)
        named = seeded(lambda batch=batch: alone.update(batch))
        losses = seeded(lambda batch=batch, step=step: whole.update(0, step, batch))
        assert [*named.values()] == losses and [*named] == ["critic_loss", "actor_loss"][: len(losses)]
    assert_same_parameters(alone, whole)


@pytest.mark.parametrize("where", ["instance", "class", "wrapped", "partial"])
def test_an_assigned_update_is_called(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    own = algos.DQN.update

    def update(self: Any, epoch: int, total_step: int, batch: Any) -> Any:
        calls.append(total_step)
        return own(self, epoch, total_step, batch)

    made = make("DQN")
    if where == "instance":
        made.update = update.__get__(made)
    elif where == "partial":
        made.update = functools.partial(update, made)
    else:
        monkeypatch.setattr(algos.DQN, "update", functools.wraps(own)(update) if where == "wrapped" else update)
    fitted(made)
    assert calls == list(range(14))


@pytest.mark.parametrize("buffer", [ReplayBuffer, PrioritizedReplayBuffer])
def test_an_override_is_called_online(buffer: Any) -> None:
    kind: Any = type("Counted", (Counting, algos.DQN), {})

    def learnt(made: Any) -> tuple[Any, Any]:
        memory = buffer(200)
        made.fit_online("CartPole-v1", memory, n_steps=40, n_steps_per_epoch=20, **QUIET)
        return made, memory

    (counted, one), (plain, other) = (seeded(lambda kind=kind: learnt(kind(**SMALL))) for kind in (kind, algos.DQN))
    assert_same_parameters(counted, plain)
    assert counted.calls == 25 == plain.impl.optim_t
    if buffer is PrioritizedReplayBuffer:
        samples = [seeded(lambda memory=memory: memory.sample_batch(16, 0.9).weight) for memory in (one, other)]
        assert torch.equal(*samples)


def looking(seen: list[TransitionMiniBatch]) -> Any:
    """A DQN that shows its minibatches."""
    return own(lambda made, step, batch: seen.append(batch) or learn(made, step, batch))


def test_priorities_stay_where_an_override_learns_in_another_way() -> None:
    seen: list[TransitionMiniBatch] = []
    memory = PrioritizedReplayBuffer(200)
    kind = own(lambda made, step, batch: seen.append(batch))
    kind(**SMALL).fit_online("CartPole-v1", memory, n_steps=30, **QUIET)
    assert len(set(memory.sample_batch(16, 0.9).weight.tolist())) == 1
    for batch in seen:
        assert np.isnan(batch.rewards).all() and (batch.next_actions == -1).all()  # nobody has told them


def test_an_override_sees_imagined_transitions_and_stacked_frames() -> None:
    seen: list[TransitionMiniBatch] = []
    dynamics = fitted(MOPO(**SMALL, discrete_action=True, n_transitions=20, horizon=3), vectors(True))
    fitted(looking(seen)(**SMALL, dynamics=dynamics), n_epochs=1)
    rows = np.concatenate([batch.observations for batch in seen])
    recorded = {row.tobytes() for row in vectors(True).observations}
    assert len(rows) == 16 * 11  # of 120 recorded ones and 60 imagined ones, of which 20 begin in recorded states
    assert 16 * 11 - 40 <= sum(row.tobytes() in recorded for row in rows) < 16 * 11
    seen.clear()
    fitted(looking(seen)(batch_size=16, n_frames=2, encoder_params=SMALL_FILTERS), images(True), n_epochs=1)
    assert seen[0].observations.shape == (16, 2, 16, 16)


def test_imagined_transitions_are_shown_in_the_convention_of_the_recorded_ones() -> None:
    seen: list[TransitionMiniBatch] = []
    arrays = vectors(True).to_arrays()
    columns = [arrays[name] for name in ("observations", "actions", "rewards", "terminals")]
    recorded = MDPDataset(*columns, discrete_action=True, reward_convention="same_row")
    dynamics = fitted(MOPO(**SMALL, discrete_action=True, n_transitions=20, horizon=3), recorded)
    fitted(looking(seen)(**SMALL, dynamics=dynamics), recorded, n_epochs=1)
    assert {batch.reward_convention for batch in seen} == {"same_row"}
    for batch in seen:
        np.testing.assert_allclose(batch.rewards, batch.action_rewards)
        paid = [transition.action_reward for transition in batch.transitions]
        np.testing.assert_allclose(batch.rewards[:, 0], paid, rtol=1e-6)


def test_an_override_that_cannot_be_called_is_refused() -> None:
    class Two(algos.DQN):
        def update(self, epoch: int, batch: Any) -> Any:
            return []

    with pytest.raises(TypeError, match=r"update of Two takes \(epoch.*expected \(epoch, total_step, batch\) or \(bat"):
        fitted(Two(**SMALL))
    for given, error, text in (([1.0, 2.0], ValueError, "returned 2 losses"), (object(), TypeError, "list or a dict")):
        made = make("DQN")
        made.update = lambda epoch, total_step, batch, given=given: given
        with pytest.raises(error, match=text):
            fitted(made)


def warned(use: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        use()
    return [str(each.message) for each in caught if "which this library never calls" in str(each.message)]


def online(made: Any, **options: Any) -> Any:
    return seeded(lambda: made.fit_online("CartPole-v1", n_steps=10, **QUIET, **options))


@pytest.mark.representatives(10)
@pytest.mark.parametrize("name", sorted(NOT_CALLED))
def test_a_method_that_nothing_calls_is_warned_of_by_name(name: str) -> None:
    kind: Any = type("Own", (type("Mixed", (), {name: lambda self, *args: None}), algos.DQN), {})
    (text,) = warned(lambda: fitted(kind(**SMALL), n_steps=1))
    assert text.startswith(f"Own defines {name}, which this library never calls: ")
    assert not warned(lambda: fitted(kind(**SMALL), n_steps=1))  # once a process


def test_online_training_warns_of_it_too() -> None:
    made = make("DQN")
    made._update = lambda batch: None
    assert warned(lambda: online(made)) == [
        "DQN defines _update, which this library never calls: "
        "override update(epoch, total_step, batch), or update(batch)"
    ]
    assert not warned(lambda: fitted(algos.BC(**SMALL), n_steps=1))


@pytest.mark.parametrize("explores", [False, True])
def test_overridden_actions_are_taken_online(explores: bool) -> None:
    class Ones(algos.DQN):
        def predict(self, x: Any) -> Any:  # type: ignore[override]
            return np.ones(len(x), int)

    memory = ReplayBuffer(100)
    online(Ones(**SMALL), buffer=memory, explorer=ConstantEpsilonGreedy(0.0, lambda: 0) if explores else None)
    assert [item[0]["action"] for item in memory.memory] == [1] * 10


def test_fitted_q_evaluation_calls_an_overridden_update() -> None:
    class Counted(ope.FQE):
        calls = 0

        def update(self, batch: Any) -> Any:
            self.calls += 1
            return super().update(batch) | {"calls": float(self.calls)}

    algo, config = fitted(make("DQN")), ope.FQEConfig(batch_size=16)
    found = []
    for kind in (Counted, ope.FQE):
        fqe = kind(algo, config)
        options = {"n_steps": 3, "logger_adapter": NoopAdapterFactory(), "show_progress": False}
        found.append((fqe, seeded(lambda fqe=fqe, options=options: fqe.fit(vectors(True), **options))[0][1]))
    (counted, metrics), (plain, other) = found
    assert metrics == {"loss": pytest.approx(other["loss"]), "calls": 2.0}
    assert_same_parameters(counted, plain)
