"""Recorded transitions side by side."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pfrl_like import ope
from pfrl_like.dataset import MDPDataset
from pfrl_like.dataset.selection import Selection
from pfrl_like.dataset.table import Table
from pfrl_like.dataset.transition import observations_of
from pfrl_like.ope.episodes import Rows
from pfrl_like.policies import SoftmaxCategoricalHead

SIDE, N_FRAMES, PART = 8, 3, 32


def films(seed: int, observations: Any = None, n: int = 60, **options: Any) -> MDPDataset:
    """Images in episodes of 7 steps, every second of which was cut off."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (n, 1, SIDE, SIDE), dtype=np.uint8) if observations is None else observations
    last = np.arange(n) % 7 == 6
    terminals = last & (np.arange(n) % 14 == 6)
    return MDPDataset.from_arrays(
        images, rng.integers(0, 3, n), rng.normal(size=n), terminals, last & ~terminals, discrete_action=True, **options
    )


@pytest.mark.parametrize("n_frames", [1, N_FRAMES])
@pytest.mark.parametrize("sources", ["one dataset", "several"])
def test_rows_are_those_of_a_loop_over_transitions(n_frames: int, sources: str) -> None:
    first, second = films(0), films(1)
    chosen = [*first.episodes[3:5], first.episodes[0], *(second.episodes[1:3] if sources == "several" else ())]
    rows = Rows.of(Selection(chosen), n_frames)
    transitions = [transition for episode in chosen for transition in episode]

    def stacked(transition: Any) -> Any:
        frames: list[Any] = []
        at = transition
        while at is not None and len(frames) < n_frames:
            frames.insert(0, at.observation)
            at = at.prev_transition
        return np.concatenate([*[np.zeros((1, SIDE, SIDE), np.uint8)] * (n_frames - len(frames)), *frames])

    np.testing.assert_array_equal(rows.obs[:], [stacked(each) for each in transitions])
    np.testing.assert_array_equal(rows.obs[5:9], rows.obs[:][5:9])
    np.testing.assert_array_equal(rows.action, [each.action for each in transitions])
    np.testing.assert_array_equal(rows.reward, [each.next_reward for each in transitions])
    assert rows.lengths.tolist() == [len(each) for each in chosen] and len(rows.obs) == len(transitions)
    assert rows.truncated.tolist() == [not each.terminated for each in chosen]
    ends = [episode[len(episode) - 1].next_observation for episode in chosen]
    np.testing.assert_array_equal(rows.last_obs[:][:, -1:], ends)
    before = [stacked(episode[len(episode) - 1])[1:] for episode in chosen]
    np.testing.assert_array_equal(rows.last_obs[:][:, :-1], before)


def test_log_probabilities_are_there_if_all_episodes_have_them() -> None:
    told = films(0, log_probs=-np.arange(1.0, 61.0))
    episodes = [told.episodes[2], told.episodes[0]]
    recorded = Rows.of(Selection(episodes), 1).log_prob
    assert recorded is not None
    np.testing.assert_array_equal(recorded, np.concatenate([each.log_probs[:-1] for each in episodes]))
    assert Rows.of(Selection([*episodes, films(1).episodes[0]]), 1).log_prob is None


class Watching(nn.Module):
    """A policy of two actions alike that keeps how many rows it was asked about at once."""

    n_frames = N_FRAMES

    def __init__(self) -> None:
        super().__init__()
        self.head, self.asked = SoftmaxCategoricalHead(), []

    def forward(self, obs: torch.Tensor) -> Any:
        assert obs.shape[1:] == (N_FRAMES, SIDE, SIDE)
        self.asked.append(len(obs))
        return self.head(torch.zeros(len(obs), 3))


def test_observations_larger_than_memory_are_gathered_part_by_part(tmp_path: Path, monkeypatch: Any) -> None:
    """Those of a file, stacked for the policy: never more than a part of them at once, and each of them once."""
    n = 40 * PART
    np.save(tmp_path / "images.npy", np.zeros((n, 1, SIDE, SIDE), np.uint8))
    data = films(0, np.load(tmp_path / "images.npy", mmap_mode="r"), n)
    gathered: list[int] = []

    def counted(table: Table, rows: Any, *args: Any, **options: Any) -> Any:
        gathered.append(len(rows))
        return observations_of(table, rows, *args, **options)

    monkeypatch.setattr("pfrl_like.ope.episodes.observations_of", counted)
    monkeypatch.setattr("pfrl_like.ope.episodes._ROWS", PART)
    policy = Watching()
    found = ope.evaluate_offline(policy, data, behavior=np.full(len(Selection(data)), -1.0), estimators=["wis"])
    assert found["wis"].n_episodes == len(data.episodes)
    assert max(gathered) == max(policy.asked) == PART
    looked_at_first = 3  # observations that are looked at before, one each
    assert sum(gathered) <= len(Selection(data)) + looked_at_first
    asked_first = 1  # how many actions it has, and of which kind they are
    assert sum(policy.asked) == len(Selection(data)) + asked_first
