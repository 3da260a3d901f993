from typing import Any

import numpy as np
import pytest

from pfrl_like.random_streams.streams import get_rng_state, set_rng_state

MAKE = [np.random.default_rng, np.random.RandomState, lambda seed: np.random.Generator(np.random.MT19937(seed))]


@pytest.mark.parametrize("make", MAKE)
def test_generator_goes_on_where_it_was(make: Any) -> None:
    rng, other = make(0), make(1)
    rng.normal()  # a RandomState keeps a second number for the next time
    set_rng_state(other, get_rng_state(rng))
    assert other.normal(size=3).tolist() == rng.normal(size=3).tolist()


def test_the_global_stream_has_no_state_of_its_own() -> None:
    assert get_rng_state(None) is None
    set_rng_state(None, None)


@pytest.mark.parametrize("state", [{}, {"bit_generator": "PCG64"}, 5, get_rng_state(np.random.RandomState(0))])
def test_the_state_of_something_else_is_refused(state: Any) -> None:
    with pytest.raises(ValueError, match="its rng does not fit"):
        set_rng_state(np.random.default_rng(0), state)


@pytest.mark.parametrize(("rng", "state"), [(None, {}), (np.random.default_rng(0), None)])
def test_a_generator_is_not_the_global_stream(rng: Any, state: Any) -> None:
    with pytest.raises(ValueError, match="only one of the two draws from the global stream"):
        set_rng_state(rng, state)
