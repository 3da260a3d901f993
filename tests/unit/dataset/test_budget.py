"""What files may ask for."""

import numpy as np
import pytest
from dataset_parts import next_row

from pfrl_like.dataset import MDPDataset
from pfrl_like.dataset.flat import FLOOR, RATIO, Budget
from pfrl_like.errors import CheckpointError


def test_a_small_file_may_ask_for_the_floor_and_a_large_one_for_so_many_times_its_size() -> None:
    assert Budget(1).left == FLOOR and Budget(FLOOR).left == RATIO * FLOOR and Budget(1, 10).left == 10


def test_what_is_taken_is_no_longer_left() -> None:
    budget = Budget(0, 10)
    budget.spend(7, "a")
    with pytest.raises(ValueError, match="b needs 4 bytes, but the limit max_bytes=10 leaves 3 bytes"):
        budget.spend(4, "b")
    budget.spend(3, "c")


@pytest.mark.parametrize("name", ["data.npz", "data.h5"])
def test_who_trusts_a_file_says_how_much_it_may_take(name: str, tmp_path) -> None:
    rows = np.zeros((5, 100_000), np.float32)
    next_row(rows, rows[:, :1], rows[:, 0], rows[:, 0]).dump(tmp_path / name)
    with pytest.raises(CheckpointError, match=rf"{name}: \S+ needs \d+ bytes, but the limit max_bytes=1000000 leaves"):
        MDPDataset.load(tmp_path / name, max_bytes=1_000_000)
    assert MDPDataset.load(tmp_path / name, max_bytes=3_000_000).observations.shape == (5, 100_000)
