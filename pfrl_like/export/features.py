"""Conversion of an agent's preprocessing of observations to torch operations on a batch.

`phi` is any function of one observation, usually with NumPy operations. If `phi` also accepts a batch of tensors, `phi`
itself is exported. Otherwise this module looks for torch operations that have the same results for all tested
observations, and these operations are exported.
"""

import contextlib
import copy
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.batch import ACTION_MASK, first_leaf, map_nested
from pfrl_like.errors import ExportError
from pfrl_like.preprocessing.features import FeatureExtractor, identity, rows_of_stack, varied_stacks
from pfrl_like.utils.batch_states import batch_states

#: Function that takes raw observations, a list of tensors [B, ...], and returns the features for the network.
Preprocessing = Callable[[Sequence[Tensor]], Any]
#: Function that takes raw observations and returns one leaf of the features.
Part = Callable[[Sequence[Tensor]], Tensor]

_CPU = torch.device("cpu")
#: Maximum number of axes that are reordered, and maximum number of entries of an observation that are concatenated.
_MAX_AXES, _MAX_PARTS = 4, 5
#: Number of example observations that are tested. Variations of these observations are tested, too.
_N_TRIALS = 16


def leaves_of(nested: Any) -> list[Any]:
    """Return the leaves of nested dicts and tuples. The leaves of a dict are in the order of its sorted keys."""
    return [leaf for _, leaf in named_leaves_of(nested)]


def named_leaves_of(nested: Any, name: str = "") -> list[tuple[str, Any]]:
    """Return the leaves of nested dicts and tuples, each with the path of its keys, for example "goal/0"."""
    if nested is None:
        return []
    if not isinstance(nested, Mapping | tuple | list):
        return [(name.removeprefix("/"), nested)]
    parts = [(key, nested[key]) for key in sorted(nested)] if isinstance(nested, Mapping) else enumerate(nested)
    return [leaf for key, part in parts for leaf in named_leaves_of(part, f"{name}/{key}")]


def nested_like(form: Any, leaves: Sequence[Any]) -> Any:
    """Return a nested value with the nesting and the order of keys of `form`. `leaves` has the order of `leaves_of`."""
    number = {name: i for i, (name, _) in enumerate(named_leaves_of(form))}

    def nest(part: Any, name: str) -> Any:
        if isinstance(part, Mapping):
            return {key: nest(value, f"{name}/{key}") for key, value in part.items()}
        if isinstance(part, tuple | list):
            return type(part)(nest(value, f"{name}/{i}") for i, value in enumerate(part))
        return None if part is None else leaves[number[name.removeprefix("/")]]

    return nest(form, "")


def find_preprocessing(features: FeatureExtractor, stack: Any) -> Preprocessing:
    """Return torch operations with the same results as `features`.

    Args:
        features: An agent's feature extractor.
        stack: Raw observations: tensors [k, ...] with the nesting of one observation.

    Raises:
        ExportError: If no known operations give the same results.
    """
    if features.is_identity:
        return functools.partial(nested_like, stack)
    trials = [*_trials(features, map_nested(lambda leaf: leaf[:_N_TRIALS], stack))]
    first, targets = trials[0]
    for candidate in (
        functools.partial(nested_like, stack),
        _rewrite([leaves_of(inputs) for inputs, _ in trials], [target for _, target in trials]),
        _traced(features.phi, stack),
    ):
        if candidate is not None and all(_agrees(candidate, *trial) for trial in trials):
            return candidate
    name = getattr(features.phi, "__name__", type(features.phi).__name__)
    what = "batch_states, or phi" if features.batch_states is not _DEFAULT.batch_states else f"phi ({name})"
    raise ExportError(
        f"{what} cannot be exported: it accepts no batch of tensors [B, ...], and it is not a combination of cast, "
        "scale and shift (the same or different ones for each number), reorder axes, reshape, select and concatenate "
        f"parts; it converts {_shapes(first)} to {_shapes(targets)}. Write it with torch operations on a batch, or "
        "move it into the network or into a wrapper of the environment"
    )


_DEFAULT = FeatureExtractor()


def _traced(phi: Callable[[Any], Any], stack: Any) -> Preprocessing | None:
    """Return `phi` as a function of a batch. Return None if a trace of `phi` has wrong results for other tensors."""

    def on_batch(leaves: Sequence[Tensor]) -> Any:
        return phi(nested_like(stack, leaves))

    with contextlib.suppress(Exception):
        leaves = leaves_of(stack)
        few = [leaf[:1] for leaf in leaves]
        traced = torch.jit.trace(lambda *each: tuple(leaves_of(on_batch(each))), tuple(few), check_trace=False)  # type: ignore[no-untyped-call]
        if _same(tuple(traced(*leaves)), tuple(leaves_of(on_batch(leaves)))):
            return on_batch
    return None


def _trials(features: FeatureExtractor, stack: Any) -> Iterator[tuple[Any, Any]]:
    """Yield observations and their features: first `stack`, then variations of it that `phi` accepts."""
    yield stack, _features(features, stack)
    arrays = map_nested(lambda leaf: leaf.numpy(), stack)
    with np.errstate(all="ignore"):
        for other in varied_stacks(arrays):
            with contextlib.suppress(Exception):  # a user's function may reject these observations
                tensors = map_nested(torch.from_numpy, other)
                yield tensors, _features(features, tensors)


def _features(features: FeatureExtractor, stack: Any) -> Any:
    """Return the features that an agent computes for each observation."""
    rows = rows_of_stack(map_nested(lambda leaf: leaf.numpy(), stack))
    first, again = (features(rows, _CPU) for _ in range(2))
    if not _same(first, again):
        raise ExportError("phi returned different features for the same observations, expected a deterministic phi")
    return first


def _agrees(candidate: Preprocessing, stack: Any, target: Any) -> bool:
    with contextlib.suppress(Exception):  # a `phi` with NumPy operations rejects tensors
        return _same(candidate(leaves_of(stack)), target)
    return False


def _same(output: Any, target: Any) -> bool:
    if isinstance(target, Mapping | tuple):
        if type(output) is not type(target) or len(output) != len(target):
            return False
        keys = target.keys() if isinstance(target, Mapping) else range(len(target))
        return all(_same(output[key], target[key]) for key in keys)
    if not isinstance(output, Tensor) or (output.shape, output.dtype) != (target.shape, target.dtype):
        return False
    output, target = output.double(), target.double()
    finite = target[target.isfinite()]
    return _is_close(output, target, finite.abs().max() if len(finite) else torch.zeros(()))


def _is_close(output: Tensor, target: Tensor, largest: Tensor) -> bool:
    """True if numbers are equal within a tolerance, which is relative to the numbers and to their maximum `largest`."""
    unit = torch.where(largest > 0, largest, 1.0)
    return torch.allclose(output / unit, target / unit, rtol=1e-6, atol=1e-7, equal_nan=True)


def _shapes(nested: Any) -> Any:
    return map_nested(lambda leaf: f"{tuple(leaf.shape)} {leaf.dtype}".replace("torch.", ""), nested)


# Search for equivalent torch operations


def _rewrite(inputs: list[list[Tensor]], targets: list[Any]) -> Preprocessing | None:
    """Return torch operations with the same results in all trials. None if no such operations are known."""
    first = targets[0]
    if isinstance(first, Mapping | tuple):
        keys = sorted(first) if isinstance(first, Mapping) else range(len(first))
        parts = [_rewrite(inputs, [target[key] for target in targets]) for key in keys]
        if any(part is None for part in parts):
            return None
        return lambda leaves: nested_like(first, [leaf for part in parts for leaf in leaves_of(part(leaves))])  # type: ignore[misc]
    for part in itertools.chain(_single_part_operations(inputs, targets), _joined_part_operations(inputs, targets)):
        if all(_agrees(part, *trial) for trial in zip(inputs, targets, strict=True)):
            return part
    return None


def _single_part_operations(inputs: list[list[Tensor]], targets: list[Tensor]) -> Iterator[Part]:
    """Yield operations on one leaf of the observation: reorder its axes, reshape, cast, scale and shift it."""
    shape, dtype = targets[0].shape[1:], targets[0].dtype
    for i, leaf in enumerate(inputs[0]):
        if math.prod(leaf.shape[1:]) != math.prod(shape) or leaf.ndim > _MAX_AXES + 1:
            continue
        for order in itertools.permutations(range(1, leaf.ndim)):
            arranged = _arrange(i, (0, *order), shape)
            numbers = torch.cat([arranged(leaves).flatten() for leaves in inputs])
            features = torch.cat([target.flatten() for target in targets])
            yield _compose(arranged, *_scale(numbers.double(), features.double(), dtype), dtype)
            if dtype.is_floating_point and (affine := _affine_map_of_each(arranged, inputs, targets)) is not None:
                yield affine


def _arrange(i: int, order: tuple[int, ...], shape: torch.Size) -> Part:
    def arranged(leaves: Sequence[Tensor]) -> Tensor:
        leaf = leaves[i]
        leaf = leaf if list(order) == sorted(order) else leaf.permute(order)
        return leaf if leaf.shape[1:] == shape else leaf.reshape(-1, *shape)

    return arranged


def _scale(numbers: Tensor, features: Tensor, dtype: torch.dtype) -> tuple[float, float]:
    """Return the divisor and the offset that map the minimum and the maximum of `numbers` to their features."""
    low, high = numbers.argmin(), numbers.argmax()
    if not dtype.is_floating_point or numbers[low] == numbers[high] or features[low] == features[high]:
        return 1.0, 0.0
    divisor = float((numbers[high] - numbers[low]) / (features[high] - features[low]))
    near = round(divisor)
    divisor = float(near) if near and abs(divisor - near) < 1e-5 * abs(near) else divisor
    offset = float(features[low] - numbers[low] / divisor)
    return divisor, 0.0 if abs(offset) < 1e-6 * float(features.abs().max()) else offset


def _compose(arranged: Part, divisor: float, offset: float, dtype: torch.dtype) -> Part:
    def composed(leaves: Sequence[Tensor]) -> Tensor:
        x = arranged(leaves).to(dtype)
        x = x if divisor == 1.0 else x / divisor
        return x if offset == 0.0 else x + offset

    return composed


def _affine_map_of_each(arranged: Part, inputs: list[list[Tensor]], targets: list[Tensor]) -> Part | None:
    """Return operations with a separate scale and shift for each number of the observation.

    Return None if the example observations do not determine the scale and shift of a number. The results are computed
    in double precision, as differences from the feature nearest to zero. This is precise even if the numbers are much
    larger than their differences.
    """
    numbers, features = torch.cat([arranged(leaves) for leaves in inputs]).double(), torch.cat(targets).double()
    low, high, anchor = numbers.argmin(0)[None], numbers.argmax(0)[None], features.abs().argmin(0)[None]
    least, origin, value = numbers.gather(0, low), numbers.gather(0, anchor), features.gather(0, anchor)
    slope = (features.gather(0, high) - features.gather(0, low)) / (numbers.gather(0, high) - least)
    between = (numbers > least) & (numbers < numbers.gather(0, high))
    if not (slope.isfinite() & between.any(0)).all():
        return None
    dtype = targets[0].dtype

    def line(leaves: Sequence[Tensor]) -> Tensor:
        return ((arranged(leaves).double() - origin) * slope + value).to(dtype)

    for leaves, target in zip(inputs, targets, strict=True):
        wanted = target.double()
        if not _is_close(line(leaves).double(), wanted, wanted.abs().amax(0)):  # the maximum of each feature
            return None
    return line


def _joined_part_operations(inputs: list[list[Tensor]], targets: list[Tensor]) -> Iterator[Part]:
    """Yield operations that flatten, cast and concatenate several leaves of the observation."""
    if targets[0].ndim != 2 or len(inputs[0]) > _MAX_PARTS:
        return
    sizes, dtype = [math.prod(leaf.shape[1:]) for leaf in inputs[0]], targets[0].dtype
    for count in range(2, len(sizes) + 1):
        for order in itertools.permutations(range(len(sizes)), count):
            if sum(sizes[i] for i in order) == targets[0].shape[1]:
                yield lambda leaves, order=order: torch.cat(  # type: ignore[misc]
                    [leaves[i].reshape(-1, sizes[i]).to(dtype) for i in order], 1
                )


#: Maximum number of example observations that are used.
MOST = 256
#: If there are fewer example observations than this number, noise is added to their mixtures.
_MIN_UNPERTURBED = 8


def stacked_observations(example_obs: Any) -> Any:
    """Return observations as tensors [k, ...] with the nesting of one observation.

    Args:
        example_obs: A space, a list or tuple of observations, or stacked observations: an array [k, ...] or a dict of
            arrays.

    Raises:
        ExportError: If there are no observations.
        ValueError: If the shapes of observations differ.
        TypeError: If observations cannot be converted to tensors.
    """
    if hasattr(example_obs, "sample") and not isinstance(example_obs, Tensor):
        space = copy.deepcopy(example_obs)  # do not change the random stream of the caller's space
        example_obs = [space.sample() for _ in range(MOST)]
    if isinstance(example_obs, Mapping):
        return map_nested(lambda leaf: torch.as_tensor(np.asarray(leaf))[:MOST], example_obs)
    if len(example_obs) == 0:
        raise ExportError("example_obs is empty, expected at least one observation")
    return map_nested(lambda leaf: leaf.cpu(), batch_states(list(example_obs[:MOST]), "cpu", identity))


def more_observations(stack: Any, n: int, generator: torch.Generator) -> Any:
    """Return `n` observations: the observations of `stack`, followed by random mixtures of two observations.

    Args:
        stack: Tensors [k, ...].
        n: Number of observations.
        generator: Generator of the random numbers.
    """
    k = len(first_leaf(stack))
    one, other = (torch.randint(k, (n,), generator=generator) for _ in range(2))
    one[: min(k, n)] = torch.arange(min(k, n))
    is_own = torch.arange(n) < k

    def mix(leaf: Tensor) -> Tensor:
        a, b = leaf[one], leaf[other]
        first = is_own.reshape(-1, *[1] * (leaf.ndim - 1))
        if not leaf.is_floating_point():
            return torch.where(first | (torch.rand(a.shape, generator=generator) < 0.5), a, b)
        share = torch.rand((n, *[1] * (leaf.ndim - 1)), generator=generator)
        mixed = torch.lerp(a, b, share.to(leaf.dtype))
        if k < _MIN_UNPERTURBED:
            mixed = mixed + 0.1 * (1 + mixed.abs()) * torch.randn(mixed.shape, generator=generator, dtype=leaf.dtype)
        return torch.where(first, a, mixed)

    mixed: Any = map_nested(mix, stack)
    if isinstance(stack, Mapping) and ACTION_MASK in stack:
        mixed[ACTION_MASK] = stack[ACTION_MASK][one]  # a mixture of two masks might allow no action
    return mixed
