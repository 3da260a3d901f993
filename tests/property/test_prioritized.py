"""Priorities that are written lazily into a ring, against a plain list."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfrl_like.collections.prioritized import Priorities

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 100)),
        st.tuples(st.just("popleft"), st.integers(1, 100)),
        st.tuples(st.just("update"), st.integers(0, 2**31)),
        st.tuples(st.just("draw"), st.integers(0, 2**31)),
    ),
    max_size=30,
)


def apply(priorities, kind, number):
    """Let a step happen, and return what it draws."""
    rng = np.random.default_rng(number)
    if kind == "append":
        priorities.append(number)
    elif kind == "popleft":
        priorities.popleft(min(number, len(priorities)))
    elif kind == "update" and len(priorities):
        index = rng.integers(priorities.first, priorities.end, 10)
        priorities.update(index, rng.lognormal(0, 3, 10))
    elif kind == "draw":
        return [values.tolist() for values in priorities.draw(min(len(priorities), 7), rng=rng)]
    return None


def rebuilt(priorities):
    layout = json.loads(json.dumps(priorities.layout()))
    return Priorities.from_array(priorities.to_array(), priorities.max_priority, priorities.first, layout)


@given(STEPS)
def test_those_rebuilt_again_and_again_draw_what_those_do_that_went_on(steps):
    going_on, saved = Priorities(size=2), Priorities(size=2)
    for step in [*steps, ("draw", 0)]:
        assert apply(saved, *step) == apply(going_on, *step)
        saved = rebuilt(saved)


@given(STEPS)
def test_queue_agrees_with_a_list(steps):
    priorities, plain, first, largest = Priorities(), [], 0, 1.0
    for kind, number in steps:
        rng = np.random.default_rng(number)
        if kind == "append":
            priorities.append(number)
            plain += [largest] * number
        elif kind == "popleft":
            count = min(number, len(plain))
            priorities.popleft(count)
            del plain[:count]
            first += count
        elif kind == "update" and plain:
            index = rng.integers(max(0, first - 20), first + len(plain), 10)
            values = rng.lognormal(0, 3, 10)
            priorities.update(index, values)
            for i, value in zip(index, values, strict=True):
                if i >= first:
                    plain[i - first] = value
                    largest = max(largest, value)
        elif kind == "draw" and plain:
            index, probability = priorities.draw(min(len(plain), 7), rng=rng)
            assert len(set(index.tolist())) == len(index)
            assert probability == pytest.approx([plain[i - first] / sum(plain) for i in index])
            assert priorities.min_probability() == pytest.approx(min(plain) / sum(plain))
        assert len(priorities) == len(plain)
    assert priorities.to_array().tolist() == plain
    assert priorities.max_priority == largest
