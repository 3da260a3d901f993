"""One seed fixes every global stream."""

import random

import numpy as np
import pytest
import torch

import pfrl_like
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.utils.random_seed import set_random_seed


def draw():
    return random.random(), np.random.rand(), torch.rand(1).item()


@pytest.mark.parametrize("seed", [7, np.int64(7), np.uint8(7)])
def test_same_seed_same_numbers(seed):
    with isolated_rng():
        set_random_seed(7)
        expected = draw()
        draw()
        pfrl_like.seed(seed)
        assert draw() == expected


@pytest.mark.parametrize(("seed", "error"), [(1.0, TypeError), ("1", TypeError), (-1, ValueError), (2**32, ValueError)])
def test_what_is_no_seed_is_refused_and_changes_nothing(seed, error):
    state = random.getstate()
    with pytest.raises(error, match="seed is"):
        set_random_seed(seed)
    assert random.getstate() == state
