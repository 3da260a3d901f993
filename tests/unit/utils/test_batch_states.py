import warnings
from typing import Any

import numpy as np
import pytest
import torch

from pfrl_like.preprocessing.features import FeatureExtractor
from pfrl_like.utils.batch_states import batch_states

CPU = torch.device("cpu")
DTYPES = [np.float32, np.float64, np.uint8, np.int64, np.bool_]


def same(obs: Any) -> Any:
    return obs


class Lazy:
    """Frames that are put together when asked."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array([1, 2], np.uint8)


@pytest.mark.parametrize(
    ("states", "dtype", "expected"),
    [
        *(([np.array([0, 1], dtype), np.array([1, 1], dtype)], dtype, [[0, 1], [1, 1]]) for dtype in DTYPES),
        ([3, 4], np.int64, [3, 4]),
        ([torch.ones(2), torch.zeros(2)], np.float32, [[1.0, 1.0], [0.0, 0.0]]),
        ([Lazy(), Lazy()], np.uint8, [[1, 2], [1, 2]]),
    ],
)
def test_observations_are_stacked_with_their_dtype(states: Any, dtype: Any, expected: Any) -> None:
    batch = batch_states(states, CPU, same)
    assert (batch.numpy().dtype, batch.tolist()) == (dtype, expected)


def test_nested_observations_keep_their_nesting() -> None:
    states = [{"a": np.array([i]), "b": (np.array([i, i]), i)} for i in range(2)]
    batch = batch_states(states, CPU, same)
    assert batch["a"].tolist() == [[0], [1]]
    assert isinstance(batch["b"], tuple)
    assert [part.tolist() for part in batch["b"]] == [[[0, 0], [1, 1]], [0, 1]]


@pytest.mark.parametrize(
    "batch_of", [lambda obs: batch_states([obs], CPU, same), lambda obs: FeatureExtractor()(obs[None], CPU)]
)
def test_batch_is_a_copy(batch_of: Any) -> None:
    obs = np.zeros(2)
    batch = batch_of(obs)
    obs[0] = 5
    assert batch.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize(
    ("states", "error", "message"),
    [
        ([], ValueError, "states is empty"),
        ([np.zeros(2), np.zeros(3)], ValueError, r"states must have one shape, got \(2,\), \(3,\)"),
        ([torch.zeros(2), torch.zeros(3)], ValueError, "states must have one shape"),
        (["left"], TypeError, "states has features of type str, expected numbers"),
        ([object()], TypeError, "features of type object"),
    ],
)
def test_what_cannot_be_stacked_is_refused(states: list[Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        batch_states(states, CPU, same)


class Calls:
    """Notes the shape of each argument, in a list outside of the object."""

    def __init__(self, function: Any, shapes: list[Any]) -> None:
        self.function = function
        self.shapes = shapes

    def __deepcopy__(self, memo: Any) -> "Calls":
        return Calls(self.function, [])

    def __call__(self, obs: Any) -> Any:
        self.shapes.append(np.shape(obs))
        return self.function(obs)


def watched(phi: Any) -> tuple[FeatureExtractor, list[Any]]:
    """Features of a phi, and the shapes that it gets."""
    shapes: list[Any] = []
    return FeatureExtractor(Calls(phi, shapes)), shapes


STACK = torch.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize("phi", [None, same, lambda x: x, lambda anything: anything])
def test_phi_that_does_nothing_is_seen_from_its_code(phi: Any) -> None:
    features = FeatureExtractor(phi)
    assert features.is_identity
    assert features.on_batch(STACK, CPU) is STACK


@pytest.mark.parametrize("phi", [lambda x: x + 0, lambda x, y=None: x, lambda x: (x,), Calls(same, [])])
def test_other_phi_are_not_taken_for_doing_nothing(phi: Any) -> None:
    assert not FeatureExtractor(phi).is_identity


def test_list_of_observations_goes_through_phi_one_by_one() -> None:
    features, shapes = watched(lambda x: x * 2)
    assert features([np.array([1.0]), np.array([2.0])], CPU).tolist() == [[2.0], [4.0]]
    assert shapes == [(1,), (1,)]


def test_stacked_observations_are_taken_as_they_come() -> None:
    assert FeatureExtractor()(np.eye(2), CPU).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    nested = FeatureExtractor()({"a": np.eye(2)}, CPU)
    assert nested["a"].tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_stack_may_be_a_tensor() -> None:
    stack = STACK.clone().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        features = FeatureExtractor()(stack, CPU)
    assert features.tolist() == STACK.tolist() and not features.requires_grad
    features += 1
    assert stack.tolist() == STACK.tolist()


def test_phi_that_works_on_stacks_is_applied_to_the_stack() -> None:
    features, shapes = watched(lambda x: np.asarray(x, dtype=np.float32) / 255)
    expected = STACK / 255
    torch.testing.assert_close(features.on_batch(STACK, CPU), expected, atol=0, rtol=0)
    torch.testing.assert_close(features.on_batch(STACK, CPU), expected, atol=0, rtol=0)
    assert shapes == [(3, 2), (3, 2)]


@pytest.mark.parametrize(
    "phi",
    [
        lambda x: x / x.max() if x.max() else x,  # other values
        lambda x: x.reshape(-1, 1),  # another shape
        lambda x: [float(x[0]), float(x[1])],  # fails on a stack
        lambda x: x.astype(np.float16 if x.ndim > 1 else np.float32),  # another dtype
        lambda x: x[::-1],  # turns rows around instead of columns
    ],
)
def test_phi_that_differs_on_stacks_is_applied_row_by_row(phi: Any) -> None:
    features, shapes = watched(phi)
    expected = batch_states(list(STACK.numpy()), CPU, phi)
    for _ in range(2):
        torch.testing.assert_close(features.on_batch(STACK, CPU), expected, atol=0, rtol=0)
    assert shapes == [(2,)] * 6


def test_phi_that_is_random_is_applied_row_by_row_and_the_trial_draws_nothing() -> None:
    features, shapes = watched(lambda x: x + np.random.rand())
    np.random.seed(0)
    draws = torch.from_numpy(np.random.rand(3, 1))
    np.random.seed(0)
    torch.testing.assert_close(features.on_batch(STACK.double(), CPU), STACK.double() + draws)
    assert shapes == [(2,)] * 3


def test_equal_rows_decide_nothing() -> None:
    features, shapes = watched(lambda x: x / x.max())
    features.on_batch(torch.ones(2, 2), CPU)
    batch = features.on_batch(torch.tensor([[1.0, 2.0], [1.0, 4.0]]), CPU)
    assert batch.tolist() == [[0.5, 1.0], [0.25, 1.0]]


@pytest.mark.parametrize(
    "phi",
    [
        lambda x: x / x.max(),
        lambda x: x - x.mean(),
        lambda x: x / len(x),
        lambda x: x[:5],
        lambda x: x if x.max() <= 1 else x / 255,
        lambda x: x if x.min() >= 0 else -x,
    ],
)
@pytest.mark.parametrize("dtype", DTYPES[:-1])
def test_phi_that_looks_at_the_whole_stack_is_found_out_on_rows_that_do_not_show_it(phi: Any, dtype: Any) -> None:
    one_hot = torch.from_numpy(np.eye(5, dtype=dtype))  # as many rows as numbers in a row, the same in each
    features = FeatureExtractor(phi)
    features.on_batch(one_hot, CPU)
    later = one_hot.repeat(2, 1) * torch.arange(10, dtype=one_hot.dtype).unsqueeze(1)
    if dtype in (np.float32, np.float64):
        later[0] = -1
    later[0, 0] = 1  # so that there is a maximum to divide by
    expected = batch_states(list(later.numpy()), CPU, phi)
    torch.testing.assert_close(features.on_batch(later, CPU), expected, atol=0, rtol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "phi", [lambda x: np.asarray(x, np.float32) / 255, lambda x: np.log(x + np.float32(1.0)), lambda x: x[..., 1:] * 1]
)
def test_phi_of_single_numbers_is_applied_to_the_stack(phi: Any, dtype: Any) -> None:
    features, shapes = watched(phi)
    features.on_batch(torch.from_numpy(np.eye(5, dtype=dtype)), CPU)
    assert shapes == [(5, 5)]


def test_phi_that_refuses_other_numbers_is_tried_on_those_it_takes() -> None:
    features, shapes = watched(lambda x: np.eye(4)[x])
    features.on_batch(torch.arange(4), CPU)
    assert shapes == [(4,)]


def test_trial_leaves_no_trace_in_an_object_with_a_state() -> None:
    class Counts:
        """Counts its calls."""

        calls = 0

        def __call__(self, obs: Any) -> Any:
            self.calls += 1
            return obs * 1

    phi = Counts()
    FeatureExtractor(phi).on_batch(STACK, CPU)
    assert phi.calls == 1


def test_own_batch_states_always_gets_the_list() -> None:
    received: list[Any] = []

    def own(states: Any, device: Any, phi: Any) -> Any:
        received.append([state.tolist() for state in states])
        return batch_states(states, device, phi) + 1

    features = FeatureExtractor(same, own)
    assert not features.is_identity
    assert features.on_batch(STACK, CPU).tolist() == (STACK + 1).tolist()
    assert features([np.array([7.0])], CPU).tolist() == [[8.0]]
    assert received == [STACK.tolist(), [[7.0]]]


def test_nested_minibatch_goes_through_phi_with_its_nesting() -> None:
    stack = {"a": STACK, "b": (STACK, STACK)}
    features = FeatureExtractor(lambda obs: obs["b"][1] * 2.0)
    for _ in range(2):
        assert features.on_batch(stack, CPU).tolist() == (2 * STACK).tolist()


def test_minibatch_of_objects_goes_through_phi_one_by_one() -> None:
    features = FeatureExtractor(lambda text: np.array([len(text)]))
    assert features.on_batch(np.array(["ab", "c"], dtype=object), CPU).tolist() == [[2], [1]]
    for objects in (["ab", "c"], [[3, 4], [5]]):
        assert features.on_batch(objects, CPU).tolist() == [[2], [1]]


def test_objects_may_stand_beside_arrays_in_a_minibatch() -> None:
    features = FeatureExtractor(lambda obs: obs["array"] + len(obs["pair"][0]))
    stack = {"array": STACK[:2], "pair": (["ab", "c"], STACK[:2])}
    assert features.on_batch(stack, CPU).tolist() == [(STACK[0] + 2).tolist(), (STACK[1] + 1).tolist()]
