from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pfrl_like.d3rlpy import ActionSpace
from pfrl_like.d3rlpy.algos import (
    GreedyTransformerActionSampler,
    IdentityTransformerActionSampler,
    SoftmaxTransformerActionSampler,
    StatefulTransformerWrapper,
    TransformerInput,
)
from pfrl_like.errors import NotFittedError


class Transformer:
    """Its k-th output is [k, -k]; it records its inputs."""

    config = SimpleNamespace(context_size=2, max_timestep=3)
    action_size = 2

    def __init__(self, action_space: ActionSpace = ActionSpace.CONTINUOUS) -> None:
        self.impl, self.inputs, self.get_action_type = object(), [], lambda: action_space

    def predict(self, inpt: TransformerInput) -> Any:
        self.inputs.append(inpt)
        return np.array([len(self.inputs), -len(self.inputs)], np.float32)


def test_the_context_is_that_of_d3rlpy() -> None:
    algo = Transformer()
    wrapper = StatefulTransformerWrapper(algo, 10.0, IdentityTransformerActionSampler())
    for observation, reward in [(1, 0.0), (2, 1.0), (3, 2.0), (4, 4.0)]:
        wrapper.predict(np.array([observation], np.float32), reward)
    first, second, _, last = algo.inputs
    assert (first.length, first.actions.tolist(), first.returns_to_go.tolist()) == (1, [[0, 0]], [[10]])
    assert (second.actions.tolist(), second.rewards.tolist()) == ([[1, -1], [0, 0]], [[0], [1]])
    assert (last.observations.tolist(), last.actions.tolist()) == ([[3], [4]], [[3, -3], [0, 0]])
    assert (last.rewards.tolist(), last.returns_to_go.tolist()) == ([[2], [4]], [[7], [3]])
    assert last.timesteps.tolist() == [3, 3]  # max_timestep


def test_an_episode_starts_without_context() -> None:
    algo = Transformer(ActionSpace.DISCRETE)
    wrapper = StatefulTransformerWrapper(algo, 10.0, GreedyTransformerActionSampler())
    assert wrapper.predict(np.array([1.0]), 0.0) == 0 and wrapper.algo is algo
    wrapper.predict(np.array([2.0]), 5.0)
    wrapper.reset()
    wrapper.predict(np.array([9.0]), 0.0)
    last = algo.inputs[-1]
    assert (last.observations.tolist(), last.actions.tolist(), last.returns_to_go.tolist()) == ([[9]], [0], [[10]])


def test_tuples_of_observations_are_stacked_by_part() -> None:
    algo = Transformer()
    wrapper = StatefulTransformerWrapper(algo, 1.0, IdentityTransformerActionSampler())
    for _ in range(2):
        wrapper.predict((np.zeros(3), np.zeros((1, 4))), 0.0)
    assert [each.shape for each in algo.inputs[-1].observations] == [(2, 3), (2, 1, 4)]


def test_softmax_actions_are_those_of_d3rlpy() -> None:
    np.random.seed(0)
    sample = SoftmaxTransformerActionSampler(0.5)
    assert [sample(np.array([0.1, 0.5, -0.2])) for _ in range(10)] == [1, 1, 1, 1, 1, 1, 1, 2, 2, 1]


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="temperature is 0"):
        SoftmaxTransformerActionSampler(0)
    with pytest.raises(ValueError, match="have .* steps"):
        TransformerInput(np.zeros((2, 1)), np.zeros(2), np.zeros((2, 1)), np.zeros((1, 1)), np.zeros(2))
    algo = Transformer()
    algo.impl = None
    with pytest.raises(NotFittedError, match="algo is not built"):
        StatefulTransformerWrapper(algo, 1.0, GreedyTransformerActionSampler())
