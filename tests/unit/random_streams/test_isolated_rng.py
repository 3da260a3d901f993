"""What happens in the block leaves no trace in the random streams."""

import random

import gymnasium
import gymnasium.spaces as spaces
import numpy as np
import pytest
import torch

from pfrl_like.random_streams.streams import isolated_rng


def draw(*some_spaces):
    return random.random(), np.random.rand(), torch.rand(1).item(), *(space.sample() for space in some_spaces)


def drawn_twice(during, *sources, of=()):
    """Numbers drawn after a block with `during` in it, and the same without the block."""
    with isolated_rng(*sources):
        expected = draw(*of)
    with isolated_rng(*sources):
        during()
    with isolated_rng(*sources):
        return draw(*of), expected


def test_global_streams_go_on_as_if_nothing_had_been_drawn():
    came, expected = drawn_twice(draw)
    assert came == expected


def test_streams_are_restored_after_an_error():
    with isolated_rng():
        expected = draw()
    with pytest.raises(KeyError), isolated_rng():
        draw()
        raise KeyError
    assert draw() == expected


@pytest.mark.parametrize("during", [lambda space: space.sample(), lambda space: space.seed(5)])
def test_stream_of_a_space_is_restored(during):
    space = spaces.Discrete(10**9)
    came, expected = drawn_twice(lambda: during(space), space, of=[space])
    assert came == expected


def test_streams_of_nested_spaces_are_restored():
    inner = spaces.Discrete(10**9)
    space = spaces.Tuple([spaces.Dict(a=inner)])
    came, expected = drawn_twice(space.sample, space, of=[inner])
    assert came == expected


def test_an_env_stands_for_its_action_space():
    env = gymnasium.make("Pendulum-v1")
    came, expected = drawn_twice(env.action_space.sample, env, None, of=[env.action_space])
    assert came == expected


def test_a_vector_env_stands_for_both_its_action_spaces():
    env = gymnasium.make_vec("Pendulum-v1", 2, vectorization_mode="sync")
    both = [env.action_space, env.single_action_space]
    came, expected = drawn_twice(lambda: draw(*both), env, of=both)
    assert [np.asarray(number).tolist() for number in came] == [np.asarray(number).tolist() for number in expected]


def test_stream_of_a_gym_space_is_restored():
    space = pytest.importorskip("gym.spaces").Discrete(10**9)
    came, expected = drawn_twice(lambda: (space.sample(), space.seed(3)), space, of=[space])
    assert came == expected


def test_a_space_with_an_old_random_state_is_restored():
    class Old:
        np_random = np.random.RandomState(0)

        def sample(self):
            return self.np_random.rand()

    space = Old()
    came, expected = drawn_twice(space.sample, space, of=[space])
    assert came == expected
