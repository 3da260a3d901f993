"""Estimators of off-policy evaluation beside loops over episodes and steps, and what must not change them."""

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from pfrl_like import ope
from pfrl_like.ope.importance_sampling import SelfNormalized, least_square_on_simplex

GAMMA = 0.9
Reference = Callable[[list[dict[str, Any]]], float]
pytestmark = pytest.mark.filterwarnings("ignore::pfrl_like.ope.UnreliableEstimateWarning")


def columns(seed: int, n_episodes: int = 12) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, n_episodes)
    size = int(lengths.sum())
    target, behavior = np.log(rng.uniform(0.1, 0.9, (2, size)))
    target[rng.random(size) < 0.05] = -np.inf
    return {
        "reward": rng.normal(size=size), "target_log_prob": target, "behavior_log_prob": behavior, "lengths": lengths,
        "truncated": rng.random(n_episodes) < 0.5, "q": rng.normal(size=size), "v": rng.normal(size=size),
        "last_v": rng.normal(size=n_episodes),
    }  # fmt: skip


def one_by_one(given: dict[str, Any]) -> list[dict[str, Any]]:
    """Each episode with its weights; `v` has the value after the last step."""
    found, start = [], 0
    for i, length in enumerate(given["lengths"]):
        rows = range(start, start + length)
        ratio = [math.exp(given["target_log_prob"][j] - given["behavior_log_prob"][j]) for j in rows]
        found.append({
            "w": [math.prod(ratio[: t + 1]) for t in range(length)],
            "r": [given["reward"][j] for j in rows], "q": [given["q"][j] for j in rows],
            "v": [given["v"][j] for j in rows] + [given["last_v"][i] if given["truncated"][i] else 0.0],
        })  # fmt: skip
        start += length
    return found


def after(values: list[float], t: int) -> float:
    """Zero after the end."""
    return values[t] if t < len(values) else 0.0


def weight(episode: dict[str, Any], t: int) -> float:
    """That of step t, 1 before the first, and the last one after the end."""
    return 1.0 if t < 0 else float(episode["w"][min(t, len(episode["w"]) - 1)])


def averaged(episodes: list[dict[str, Any]], before: int, name: str, sign: float = 1.0) -> float:
    """Discounted sum over steps of the averages of a column."""
    total = 0.0
    for t in range(max(len(each[name]) for each in episodes)):
        mass = sum(weight(each, t - before) for each in episodes)
        shares = [weight(each, t - before) * after(each[name], t) for each in episodes]
        total += sign * GAMMA**t * sum(shares) / mass
    return total


def mean_of(value: Callable[[dict[str, Any]], float]) -> Reference:
    return lambda episodes: sum(map(value, episodes)) / len(episodes)


def discounted(episode: dict[str, Any]) -> float:
    return sum(GAMMA**t * r for t, r in enumerate(episode["r"]))


def recursive(episode: dict[str, Any]) -> float:
    """V_DR(t) = V(s_t) + ratio_t (r_t + gamma V_DR(t + 1) - Q(s_t, a_t)), from the back (arXiv:1511.03722, eq. 10)."""
    value = episode["v"][-1]
    for t in reversed(range(len(episode["r"]))):
        before = weight(episode, t - 1)
        ratio = episode["w"][t] / before if before else 0.0
        value = episode["v"][t] + ratio * (episode["r"][t] + GAMMA * value - episode["q"][t])
    return float(value)


REFERENCES: dict[Callable[..., ope.Estimate], Reference] = {
    ope.importance_sampling: mean_of(lambda each: each["w"][-1] * discounted(each)),
    ope.weighted_importance_sampling: lambda episodes: (
        sum(each["w"][-1] * discounted(each) for each in episodes) / sum(each["w"][-1] for each in episodes)
    ),
    ope.per_decision_importance_sampling: mean_of(
        lambda each: sum(GAMMA**t * w * r for t, (w, r) in enumerate(zip(each["w"], each["r"], strict=True)))
    ),
    ope.weighted_per_decision_importance_sampling: lambda episodes: averaged(episodes, 0, "r"),
    ope.doubly_robust: mean_of(recursive),
    ope.weighted_doubly_robust: lambda episodes: (
        averaged(episodes, 1, "v") + averaged(episodes, 0, "r") + averaged(episodes, 0, "q", -1.0)
    ),
}
SETTINGS = ope.Bootstrap(n_resamples=2)


@pytest.mark.parametrize("estimator", REFERENCES)
@pytest.mark.parametrize("seed", range(5))
def test_estimator_is_the_loop(estimator: Callable[..., ope.Estimate], seed: int) -> None:
    given = columns(seed)
    found = estimator(ope.LoggedEpisodes.from_columns(**given), GAMMA, SETTINGS)
    assert found.value == pytest.approx(REFERENCES[estimator](one_by_one(given)))


def of_every_length(episodes: list[dict[str, Any]], counts: Any) -> Any:
    """The estimates that follow the weights for 0, 1, ... steps, and the model from there on, [T + 1]."""

    def average(t: int, before: int, value: Callable[[dict[str, Any]], float]) -> float:
        share = [count * weight(each, t - before) for count, each in zip(counts, episodes, strict=True)]
        return GAMMA**t * sum(w * value(each) for w, each in zip(share, episodes, strict=True)) / sum(share)

    def of_length(j: int) -> float:
        of_states = sum(average(t, 1, lambda each, t=t: after(each["v"], t)) for t in range(j + 1))
        of_errors = sum(average(t, 0, lambda each, t=t: after(each["r"], t) - after(each["q"], t)) for t in range(j))
        return of_states + of_errors

    return np.array([of_length(j) for j in range(max(len(each["r"]) for each in episodes) + 1)])


@pytest.mark.parametrize("seed", range(3))
def test_magic_mixes_all_lengths(seed: int) -> None:
    """Variances and biases by numerical slopes (arXiv:1604.00923, section 7)."""
    given = columns(seed)
    episodes = one_by_one(given)
    n, once = len(episodes), np.ones(len(episodes))
    found = of_every_length(episodes, once)
    moved = [[of_every_length(episodes, once + step * row) for step in (1e-5, -1e-5)] for row in np.eye(n)]
    slopes = n * np.array([(more - less) / 2e-5 for more, less in moved])
    spread = slopes.T @ slopes / (n * (n - 1))
    away = found - found[-1]
    bias = np.maximum(np.abs(away) - NormalDist().inv_cdf(0.95) * np.sqrt(spread[-1, -1]), 0) * np.sign(away)
    shares = least_square_on_simplex(spread + np.outer(bias, bias))
    assert len(shares) == 6
    mixed = ope.magic(ope.LoggedEpisodes.from_columns(**given), GAMMA, SETTINGS)
    assert mixed.value == pytest.approx(shares @ found, rel=1e-5)
    whole = ope.weighted_doubly_robust(ope.LoggedEpisodes.from_columns(**given), GAMMA, SETTINGS)
    assert whole.value == pytest.approx(found[-1]) and whole.standard_error == mixed.standard_error


@pytest.mark.parametrize("shift", [-2000.0, 2000.0])
@pytest.mark.parametrize("estimator", [ope.weighted_importance_sampling, ope.weighted_per_decision_importance_sampling])
def test_weighted_estimates_do_not_depend_on_a_common_factor_however_large(
    estimator: Callable[..., ope.Estimate], shift: float
) -> None:
    given = columns(0)
    moved = dict(given, target_log_prob=given["target_log_prob"].copy())
    moved["target_log_prob"][np.cumsum(given["lengths"]) - given["lengths"]] += shift
    first, second = (estimator(ope.LoggedEpisodes.from_columns(**each), GAMMA, SETTINGS) for each in (given, moved))
    assert second.value == pytest.approx(first.value)
    assert second.effective_sample_size == pytest.approx(first.effective_sample_size)


def test_plain_weights_beyond_floating_point_give_infinity_and_weighted_ones_a_number() -> None:
    n = 3_000
    episodes = ope.LoggedEpisodes.from_columns(np.ones(2 * n), np.full(2 * n, -0.1), np.full(2 * n, -1.0), [n, n])
    assert ope.importance_sampling(episodes, GAMMA, SETTINGS).value == np.inf
    assert ope.weighted_importance_sampling(episodes, GAMMA, SETTINGS).value == pytest.approx(1 / (1 - GAMMA))


@pytest.mark.parametrize("seed", range(3))
def test_influence_is_the_slope_in_an_episodes_count(seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = SelfNormalized(rng.uniform(size=(6, 4)), rng.normal(size=(6, 4)), rng.normal(size=(3, 4)))
    counts = rng.integers(1, 4, size=6).astype(np.float64)
    values, influence = numbers(counts[None])
    for i in range(6):
        more, _ = numbers((counts + 1e-6 * np.eye(6)[i])[None])
        np.testing.assert_allclose((more - values)[0] / 1e-6 * counts.sum(), influence[0, i], rtol=1e-4, atol=1e-5)


def test_a_perfect_model_leaves_nothing_to_the_weights() -> None:
    # Rewards are all 1 in episodes of 3 steps, so that Q = V is what is left.
    left = np.tile([1 + GAMMA + GAMMA**2, 1 + GAMMA, 1.0], 20)
    rng = np.random.default_rng(0)
    target, behavior = np.log(rng.uniform(0.1, 0.9, (2, 60)))
    episodes = ope.LoggedEpisodes.from_columns(np.ones(60), target, behavior, [3] * 20, q=left, v=left)
    for estimator in (ope.doubly_robust, ope.weighted_doubly_robust, ope.magic):
        found = estimator(episodes, GAMMA)
        np.testing.assert_allclose([found.value, *found.interval], left[0])
