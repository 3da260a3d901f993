"""The interface of scalers, the base class of affine scalers, and the statistics to which scalers are fitted."""

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfrl_like.errors import NotFittedError
from pfrl_like.utils.checks import check_finite, check_numbers
from pfrl_like.utils.plain_values import Configurable

Array = NDArray[np.float64]


class Scaler(Configurable):
    """Invertible map of observations, actions or rewards that uses only torch operations.

    PyTorch can trace, compile and export a policy that contains a scaler. `column` names the array of an episode that
    the scaler scales: "observations", "actions" or "rewards".
    """

    column: ClassVar[str] = "observations"

    @property
    @abstractmethod
    def fitted(self) -> bool:
        """True if the scaler has the statistics that `transform` needs."""

    @abstractmethod
    def fit(self, episodes: Any) -> Self:
        """Compute the statistics of the data, and store them in the scaler.

        Args:
            episodes: Episodes, a dataset, or an array of rows [N, ...].

        Returns:
            The scaler itself.

        Raises:
            TypeError: If the data have a different type, or contain values that are not numbers.
            ValueError: If there are no rows, or rows have different shapes.
            NonFiniteError: If a value is NaN or infinite.
        """

    @abstractmethod
    def transform(self, x: Tensor) -> Tensor:
        """Scale a batch.

        Args:
            x: Values, [..., *row shape]. Integers are converted to the default floating-point dtype. Images may consist
                of several frames, stacked along the channel axis, if the scaler is fitted to single frames.

        Returns:
            Scaled values of the same shape, floating point.

        Raises:
            NotFittedError: If the scaler is not fitted.
            ValueError: If the rows have the wrong shape.
        """

    @abstractmethod
    def reverse_transform(self, x: Tensor) -> Tensor:
        """Return the values that `transform` scales to `x`. Arguments and errors are the same as in `transform`."""


class AffineScaler(Scaler):
    """Scaler that computes x' = multiplier * (x - offset) / width for each entry. A width of 0 is replaced by 1.

    The scaler stores the statistics in float64, and computes in the dtype of the values. `multiplier` is a class
    attribute or an attribute, 1 by default.

    Args:
        dataset: Data to which the scaler is fitted, in a form that `fit` accepts. If None, the statistics are used.
        **statistics: Statistics in place of a dataset, arrays of equal shape. If all are None, the scaler is not
            fitted.

    Raises:
        ValueError: If a dataset is passed together with statistics, if some of the statistics are None, or if the
            statistics contradict each other.
        NonFiniteError: If a value is NaN or infinite.
    """

    multiplier: float = 1.0

    def __init__(self, dataset: Any = None, **statistics: Any) -> None:
        names = " and ".join(statistics)
        missing = [name for name, value in statistics.items() if value is None]
        self._statistics: dict[str, Array | None] = dict.fromkeys(statistics)
        self._constants: tuple[Tensor, Tensor] | None = None
        self._converted: dict[tuple[torch.device, torch.dtype], tuple[Tensor, Tensor]] = {}
        if dataset is not None:
            if len(missing) < len(statistics):
                raise ValueError(f"{type(self).__name__} takes either a dataset or {names}, not both")
            self.fit(dataset)
        elif not missing:
            self._store(**statistics)
        elif len(missing) < len(statistics):
            raise ValueError(f"{type(self).__name__} needs {names}, but {' and '.join(missing)} is None")

    @property
    def fitted(self) -> bool:
        return self._constants is not None

    def transform(self, x: Tensor) -> Tensor:
        rows, offset, width = self._operands(x)
        return ((rows - offset) / width).reshape_as(x)

    def reverse_transform(self, x: Tensor) -> Tensor:
        rows, offset, width = self._operands(x)
        return (rows * width + offset).reshape_as(x)

    @abstractmethod
    def _offset_and_width(self, *_: Any, **statistics: Any) -> tuple[Array, Array]:
        """Return the offset and the width. `transform` subtracts the offset, and divides by the width.

        Raises:
            ValueError: If the statistics contradict each other.
        """

    def _store(self, **statistics: Any) -> Self:
        arrays = {name: np.asarray(value, np.float64) for name, value in statistics.items()}
        for name, array in arrays.items():
            check_finite(name, array)
        if len({array.shape for array in arrays.values()}) > 1:
            shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
            raise ValueError(f"the statistics have different shapes: {shapes}")
        offset, width = self._offset_and_width(**arrays)
        width = np.where(width == 0, 1.0, width) / self.multiplier
        self._constants = torch.tensor(offset), torch.tensor(width)
        self._statistics = {**arrays}
        self._converted = {}
        return self

    def _params(self) -> dict[str, Any]:
        multiplier = {"multiplier": self.multiplier} if self.column == "rewards" else {}
        return {**self._statistics, **multiplier}

    def _operands(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the batch, the offset and the width in the dtype of the result.

        If the rows are stacked frames, the batch gets an additional axis for the frames.
        """
        dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
        offset, width = self._converted.get((x.device, dtype)) or self._convert(x.device, dtype)
        shape = offset.shape
        if not _is_traced() and not _is_batch_of(shape, x.shape):  # in a trace, sizes would become constants
            raise ValueError(f"x has shape {tuple(x.shape)}, but {self.get_type()} is fitted to rows of {tuple(shape)}")
        x = x.to(dtype) if x.dtype == torch.bool else x
        return torch.unflatten(x, -3, (-1, shape[0])) if len(shape) == 3 else x, offset, width

    def _convert(self, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        if self._constants is None:
            raise NotFittedError(f"{self!r} is not fitted: call fit, or pass statistics to the constructor")
        with torch.inference_mode(False):  # the tensors are cached, and also used outside inference mode
            offset, width = [constant.to(dtype).to(device) for constant in self._constants]
            width = torch.where(width == 0, 1, width)
        if type(width) is Tensor and not _is_traced():  # not if an exporter has replaced the tensors by other objects
            self._converted[device, dtype] = offset, width
        return offset, width

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_converted": {}}


def check_multiplier(multiplier: Any) -> None:
    """Raise an error if a factor is 0 or not finite, so that the scaling has no inverse.

    Raises:
        ValueError: If `multiplier` is 0 or not finite.
        TypeError: If `multiplier` is not a number.
    """
    check_numbers(multiplier=multiplier)
    if multiplier == 0:
        raise ValueError("multiplier is 0, expected a nonzero number")


def _is_batch_of(row: torch.Size, batch: torch.Size) -> bool:
    """Return True if the last axes of a batch have the shape of a row, or of several frames stacked to an image."""
    if len(row) == 3 and len(batch) >= 3 and row[0]:
        return batch[-2:] == row[1:] and batch[-3] % row[0] == 0
    return batch[max(0, len(batch) - len(row)) :] == row


def _is_traced() -> bool:
    """Return True inside `torch.jit.trace`."""
    return bool(torch.jit.is_tracing())  # type: ignore[attr-defined,no-untyped-call]


#: Maximum number of values in a chunk that `pieces` yields. Data may therefore be larger than the memory.
PIECE = 2**20


def extremes(source: Any, column: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return minimum and maximum of each entry, in the shape of one row. `pieces` documents arguments and errors."""
    lows, highs = zip(*((piece.min(axis=0), piece.max(axis=0)) for piece in pieces(source, column)), strict=True)
    return np.min(lows, axis=0).astype(np.float64), np.max(highs, axis=0).astype(np.float64)


def moments(source: Any, column: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and population standard deviation of each entry. `pieces` documents arguments and errors.

    The function subtracts the first row from all rows before it computes the moments. Therefore the standard deviation
    of a constant entry is exactly 0.
    """
    n, first, total, squares = 0, np.float64(0), np.float64(0), np.float64(0)
    for piece in pieces(source, column):
        if n == 0:
            first = piece[0].astype(np.float64)
        distance = piece.astype(np.float64) - first
        n += len(distance)
        total = total + distance.sum(axis=0)
        squares = squares + np.square(distance).sum(axis=0)
    mean = total / n
    return np.asarray(first + mean), np.sqrt(np.maximum(squares / n - np.square(mean), 0.0))


def returns(source: Any) -> list[float]:
    """Return the undiscounted returns of episodes: the sums of their rewards.

    Args:
        source: A dataset, an episode, an array of the rewards of one episode, [n], or an iterable of episodes or of
            these arrays.

    Raises:
        TypeError: If the data have a different type, or values are not numbers.
        ValueError: If there are no rows, or rows have different shapes.
        NonFiniteError: If a value is NaN or infinite. This error is a ValueError, too.
    """
    source = [*source] if isinstance(source, Iterator) else source
    for _ in pieces(source, "rewards"):
        pass  # only to raise the errors of `pieces`
    episodes = [source] if _is_array_of(source, "rewards") else getattr(source, "episodes", source)
    return [
        float(episode.compute_return() if hasattr(episode, "compute_return") else np.sum(_array(episode, "rewards")))
        for episode in episodes
    ]


def pieces(source: Any, column: str) -> Iterator[NDArray[Any]]:
    """Yield the rows of a column in chunks.

    Args:
        source: A dataset (with the attribute `episodes`), an episode (with the column as an attribute), an array or
            tensor of rows [N, ...], or an iterable of episodes or arrays.
        column: Name of an array in an episode: "observations", "actions" or "rewards".

    Raises:
        TypeError: If the data have a different type, if values are not numbers, or if actions are not floating point.
        ValueError: If there are no rows, or rows have different shapes.
        NonFiniteError: If a value is NaN or infinite. This error is a ValueError, too.
    """
    shape, n = None, 0
    for where, rows in _arrays(source, column):
        shape = rows.shape[1:] if shape is None else shape
        if rows.ndim == 0 or rows.shape[1:] != shape:
            raise ValueError(f"{where} have shape {rows.shape}, expected rows of shape {shape}")
        if rows.dtype.kind not in ("f" if column == "actions" else "fiub"):
            raise TypeError(f"{where} have dtype {rows.dtype}, expected {_EXPECTED.get(column, 'numbers')}")
        step = max(1, PIECE // max(1, math.prod(shape)))
        for start in range(0, len(rows), step):
            piece = np.asarray(rows[start : start + step])
            check_finite(f"{where} from row {start} on" if start else where, piece)
            n += len(piece)
            yield piece
    if n == 0:
        raise ValueError(f"the data contain no {column}, expected at least one row to fit a scaler to")


_EXPECTED = {"actions": "floating-point numbers, because discrete actions cannot be scaled"}


def _arrays(source: Any, column: str) -> Iterator[tuple[str, Any]]:
    """Yield each array of rows, with the name of the array in error texts."""
    if _is_array_of(source, column):
        yield column, _array(source, column)
        return
    episodes = getattr(source, "episodes", source)
    if isinstance(episodes, str | bytes | Mapping) or not isinstance(episodes, Iterable):
        raise TypeError(f"cannot fit a scaler to {_type(source)}: expected episodes, a dataset or an array of {column}")
    for index, episode in enumerate(episodes):
        where = f"{column} of episode {index}"
        if not _is_array_of(episode, column):
            raise TypeError(f"episode {index} is {_type(episode)}, expected an object with {column!r}, or an array")
        yield where, _array(episode, column)


def _is_array_of(value: Any, column: str) -> bool:
    """Return True if a value is an array, or an episode that contains an array of this name."""
    return not hasattr(value, "episodes") and (hasattr(value, column) or hasattr(value, "__array__"))


def _array(value: Any, column: str) -> Any:
    """Return the recorded rows in an array of an episode, or the array `value`, without loading memory-mapped files."""
    rows = value.known_values(column) if hasattr(value, "known_values") else getattr(value, column, value)
    if isinstance(rows, Tensor):
        rows = rows.detach().cpu().numpy()
    return rows if isinstance(getattr(rows, "dtype", None), np.dtype) else np.asarray(rows)


def _type(value: Any) -> str:
    return f"an object of type {type(value).__name__}"
