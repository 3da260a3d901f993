"""Random numbers that a policy draws although it acts greedily: given from outside, or held fixed."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from pfrl_like.errors import ExportError

#: What is done about them: "fixed" leaves nothing random, "input" asks for them.
NoiseMode = Literal["fixed", "input"]

_UNIFORM = frozenset((torch.rand, torch.rand_like))
_NORMAL = frozenset((torch.randn, torch.randn_like))


@dataclasses.dataclass(frozen=True)
class Draw:
    """One call that draws numbers.

    Attributes:
        uniform: Whether they are uniform in [0, 1); otherwise they are normal.
        per_row: How many rows of them belong to one observation; 0 for numbers that all observations share.
        shape: Shape of one row, or of all of them if they are shared.
        dtype: Their dtype.
    """

    uniform: bool
    per_row: int
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def input_shape(self) -> tuple[int | str, ...]:
        """Shape of the input that gives them; an observation has one row of it."""
        if not self.per_row:
            return self.shape
        return ("batch", *([self.per_row] if self.per_row > 1 else []), *self.shape)

    def as_drawn(self, given: Tensor) -> Tensor:
        """The input in the shape in which they are drawn."""
        return given.flatten(0, 1) if self.per_row > 1 else given

    def fixed(self) -> Tensor:
        """Numbers in their place, for one observation, with a batch axis of 1 unless they are shared.

        Uniform ones are evenly spaced along the last axis, as the fractions of quantiles are; shared normal ones, the
        noise of weights, are 0; other normal ones have been drawn once and for all.
        """
        shape = tuple(1 if size == "batch" else int(size) for size in self.input_shape)
        if self.uniform:
            steps = torch.arange(shape[-1] if shape else 1, dtype=self.dtype)
            return ((steps + 0.5) / len(steps)).expand(shape).clone()
        if not self.per_row:
            return torch.zeros(shape, dtype=self.dtype)
        return torch.randn(shape, dtype=self.dtype, generator=torch.Generator().manual_seed(0))

    def sample(self, batch: int, generator: torch.Generator) -> Tensor:
        """Numbers such as are drawn, in the shape of the input."""
        draw = torch.rand if self.uniform else torch.randn
        shape = [batch if size == "batch" else int(size) for size in self.input_shape]
        return draw(shape, dtype=self.dtype, generator=generator)


class GivenDraws(TorchFunctionMode):
    """Within it what is drawn is given.

    Args:
        numbers: For each call that draws, in order, in the shape in which they are drawn.
    """

    def __init__(self, numbers: Sequence[Tensor]) -> None:
        super().__init__()
        self._numbers = iter(numbers)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """What a function of torch gives."""
        return next(self._numbers) if func in _UNIFORM or func in _NORMAL else func(*args, **(kwargs or {}))


class RecordedDraws(TorchFunctionMode):
    """Within it what is drawn is written down, and leaves no trace in the random stream.

    Attributes:
        drawn: Whether each call drew uniform numbers, and the numbers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.drawn: list[tuple[bool, Tensor]] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """What a function of torch gives."""
        if func not in _UNIFORM and func not in _NORMAL:
            return func(*args, **(kwargs or {}))
        before = torch.get_rng_state()
        numbers = func(*args, **(kwargs or {}))
        torch.set_rng_state(before)
        self.drawn.append((func in _UNIFORM, numbers))
        return numbers


def draws_of(act: Callable[[int], Any]) -> list[Draw]:
    """What is drawn for each observation, found out by acting.

    Args:
        act: Acts greedily on so many observations.

    Raises:
        ExportError: If that cannot be said.
    """
    few, more = (_recorded(act, batch) for batch in (2, 3))
    if [uniform for uniform, _ in few] != [uniform for uniform, _ in more]:
        raise ExportError("the policy draws random numbers more or less often, depending on the number of observations")
    return [_draw(uniform, a, b) for (uniform, a), (_, b) in zip(few, more, strict=True)]


def _recorded(act: Callable[[int], Any], batch: int) -> list[tuple[bool, Tensor]]:
    before = torch.get_rng_state()
    with RecordedDraws() as records:
        act(batch)
    drawn: list[tuple[bool, Tensor]] = records.drawn
    if not torch.equal(before, torch.get_rng_state()):
        torch.set_rng_state(before)
        raise ExportError(
            "the policy draws random numbers when it acts greedily, and by other functions than torch.rand, "
            "torch.rand_like, torch.randn and torch.randn_like, whose numbers could be given to the exported one"
        )
    return drawn


def _draw(uniform: bool, few: Tensor, more: Tensor) -> Draw:
    if few.shape == more.shape:
        return Draw(uniform, 0, tuple(few.shape), few.dtype)
    per_row = more.shape[0] - few.shape[0]
    if few.shape[1:] != more.shape[1:] or (len(few), len(more)) != (2 * per_row, 3 * per_row):
        raise ExportError(
            f"the policy draws random numbers of shape {tuple(few.shape)} for 2 observations and {tuple(more.shape)} "
            "for 3, expected the first axis to grow with the observations, and no other"
        )
    return Draw(uniform, per_row, tuple(few.shape[1:]), few.dtype)
