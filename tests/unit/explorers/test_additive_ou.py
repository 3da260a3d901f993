import json
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pfrl_like.explorers import AdditiveOU

ZERO = np.zeros((3, 2), dtype=np.float32)


def test_process_is_stationary_from_the_start() -> None:
    explorer = AdditiveOU(theta=0.15, sigma=0.3)
    actions = [explorer.select_actions(t, np.zeros((20_000, 1), dtype=np.float32)) for t in range(10)]
    stationary = 0.3 / np.sqrt(2 * 0.15 - 0.15**2)
    np.testing.assert_allclose([actions[0].std(), actions[-1].std()], stationary, rtol=0.02)


def test_environments_have_processes_of_their_own() -> None:
    assert len(np.unique(AdditiveOU().select_actions(0, ZERO))) == 6


def test_process_of_an_inactive_environment_stands_still_without_a_draw() -> None:
    np.random.seed(0)
    waiting = AdditiveOU(sigma=1.0)
    first = waiting.select_actions(0, ZERO)
    second = waiting.select_actions(1, ZERO, active=np.array([True, False, True]))
    third = waiting.select_actions(2, ZERO)
    assert (second[1] == 0).all()
    np.random.seed(0)
    draws = np.random.normal(size=(3, 2))
    np.testing.assert_allclose(first, draws / np.sqrt(0.2775), rtol=1e-6)  # 2 * 0.15 - 0.15**2
    active_draws, last_draws = np.random.normal(size=(2, 2)), np.random.normal(size=(3, 2))
    np.testing.assert_allclose(second[[0, 2]], 0.85 * first[[0, 2]] + active_draws, rtol=1e-5)
    before = np.stack([second[0], first[1], second[2]])
    np.testing.assert_allclose(third, 0.85 * before + last_draws, rtol=1e-5)


def test_environment_that_becomes_active_later_starts_its_process_then() -> None:
    explorer = AdditiveOU(mu=0.5, sigma=0.0)
    first = explorer.select_actions(0, ZERO, active=np.array([True, False, False]))
    second = explorer.select_actions(1, ZERO)
    assert first.tolist() == [[0.5, 0.5], [0.0, 0.0], [0.0, 0.0]]
    assert second.tolist() == [[0.5, 0.5]] * 3


def test_single_and_batched_choices_share_the_process() -> None:
    explorer = AdditiveOU(sigma=0.0, mu=1.0)
    explorer.ou_state, explorer._started = np.zeros(2, dtype=np.float32), np.ones(1, dtype=bool)
    assert explorer.select_actions(0, ZERO[:1]).tolist() == [[np.float32(0.15)] * 2]
    assert explorer.select_action(1, lambda: ZERO[0])[0] == pytest.approx(0.15 + 0.15 * 0.85)
    assert explorer.ou_state.shape == (2,)


def test_another_number_of_environments_starts_anew() -> None:
    explorer = AdditiveOU(mu=0.5, start_with_mu=True)
    explorer.select_actions(0, ZERO)
    explorer.select_actions(1, ZERO)
    assert (explorer.select_actions(2, ZERO[:2]) == 0.5).all()


def test_earlier_actions_do_not_change_with_the_process() -> None:
    explorer = AdditiveOU()
    first = explorer.select_actions(0, ZERO)
    kept = first.copy()
    explorer.select_actions(1, ZERO)
    assert (first == kept).all()
    assert (ZERO == 0).all()


def test_saved_process_goes_on_where_it_was() -> None:
    explorer, other = AdditiveOU(), AdditiveOU()
    explorer.select_actions(0, ZERO, active=np.array([True, True, False]))
    other.load_state_dict(json.loads(json.dumps(explorer.state_dict())))
    np.random.seed(5)
    expected = explorer.select_actions(1, ZERO)
    np.random.seed(5)
    assert (other.select_actions(1, ZERO) == expected).all()


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_saved_generator_of_its_own_goes_on_where_it_was(make: Any) -> None:
    explorer, other = AdditiveOU(rng=make(0)), AdditiveOU(rng=make(1))
    explorer.select_actions(0, ZERO[:, :1])  # an odd number of draws: a RandomState keeps one for the next time
    other.load_state_dict(json.loads(json.dumps(explorer.state_dict())))
    assert (other.select_actions(1, ZERO[:, :1]) == explorer.select_actions(1, ZERO[:, :1])).all()


def test_process_that_has_not_started_can_be_saved() -> None:
    explorer = AdditiveOU()
    explorer.load_state_dict(AdditiveOU().state_dict())
    assert explorer.ou_state is None


def test_state_of_another_explorer_is_refused() -> None:
    with pytest.raises(ValueError, match="expected the state of an AdditiveOU"):
        AdditiveOU().load_state_dict({})


def test_noise_is_logged_at_debug_level(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("noise")
    explorer = AdditiveOU(mu=0.5, start_with_mu=True, logger=logger)
    with caplog.at_level(logging.DEBUG, "noise"):
        explorer.select_action(3, lambda: ZERO[0])
    assert caplog.messages == ["t:3 noise:[[0.5 0.5]]"]


def test_a_process_without_a_stationary_state_starts_with_mu() -> None:
    with pytest.raises(ValueError, match="theta is 0.0, expected a number between 0 and 2, or start_with_mu=True"):
        AdditiveOU(theta=0.0)


def evolve_of_pfrl(explorer: AdditiveOU) -> None:
    """The body of PFRL 0.4's method."""
    noise = np.random.normal(size=explorer.ou_state.shape, loc=0, scale=explorer.sigma)
    explorer.ou_state += explorer.theta * (explorer.mu - explorer.ou_state) + noise


def halving(explorer: AdditiveOU) -> None:
    seen.append(np.shape(explorer.ou_state))
    explorer.ou_state = explorer.ou_state / 2


seen: list[Any] = []


def by_class(monkeypatch: pytest.MonkeyPatch) -> AdditiveOU:
    return type("Own", (AdditiveOU,), {"evolve": halving})(start_with_mu=True, mu=1.0)


def by_mixin(monkeypatch: pytest.MonkeyPatch) -> AdditiveOU:
    return type("Own", (type("Mixin", (), {"evolve": halving}), AdditiveOU), {})(start_with_mu=True, mu=1.0)


def by_assignment_to_the_class(monkeypatch: pytest.MonkeyPatch) -> AdditiveOU:
    monkeypatch.setattr(AdditiveOU, "evolve", halving)
    return AdditiveOU(start_with_mu=True, mu=1.0)


def by_assignment(monkeypatch: pytest.MonkeyPatch) -> AdditiveOU:
    explorer = AdditiveOU(start_with_mu=True, mu=1.0)
    explorer.evolve = lambda: halving(explorer)  # type: ignore[method-assign]
    return explorer


@pytest.mark.parametrize("way", [by_class, by_mixin, by_assignment_to_the_class, by_assignment])
def test_an_overridden_evolve_moves_each_process_by_itself(way: Callable[[Any], AdditiveOU], monkeypatch: Any) -> None:
    seen.clear()
    explorer = way(monkeypatch)
    first = explorer.select_actions(0, ZERO, active=np.array([True, True, False]))
    second = explorer.select_actions(1, ZERO)
    third = explorer.select_actions(2, ZERO, active=np.array([False, True, True]))
    assert first[:, 0].tolist() == [1.0, 1.0, 0.0]
    assert second[:, 0].tolist() == [0.5, 0.5, 1.0]  # the third process begins
    assert third[:, 0].tolist() == [0.0, 0.25, 0.5]
    assert seen == [(2,)] * 4
    single = way(monkeypatch)
    assert [float(single.select_action(t, lambda: np.float32(0))) for t in range(3)] == [1.0, 0.5, 0.25]


@pytest.mark.parametrize("k", [1, 3])
def test_pfrls_body_and_the_own_one_move_the_processes_alike(k: int) -> None:
    class Upper(AdditiveOU):
        def evolve(self) -> None:
            super().evolve()

    greedy = np.zeros((k, 2), dtype=np.float32)
    given = []
    for cls in (AdditiveOU, Upper, type("Own", (AdditiveOU,), {"evolve": evolve_of_pfrl})):
        np.random.seed(0)
        explorer = cls()
        given.append([explorer.select_actions(t, greedy) for t in range(5)])
    np.testing.assert_allclose(given[1], given[0], rtol=1e-6)
    np.testing.assert_allclose(given[2], given[0], rtol=1e-6)
