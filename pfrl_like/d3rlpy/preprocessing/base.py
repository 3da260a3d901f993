"""The base class of scalers: a config that holds a scaler of `pfrl_like.preprocessing`, which does the arithmetic."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from pfrl_like.d3rlpy.serializable import Config
from pfrl_like.d3rlpy.types import NDArray
from pfrl_like.errors import NotFittedError
from pfrl_like.preprocessing import Scaler as LibraryScaler

_BOUNDS = ("minimum", "maximum")


@dataclasses.dataclass
class Scaler(Config):
    """Base class of scalers.

    A subclass names the scaler of this library that it holds, and those of its fields that are fitted to data. A scaler
    of a user overrides `transform`, `reverse_transform` and their NumPy versions instead.
    """

    #: Class of the scaler that does the arithmetic. Its arguments are the fields, but `eps` is added to `std`.
    library: ClassVar[type[LibraryScaler]]
    #: Fields that are fitted to data. They are None before.
    statistics: ClassVar[tuple[str, ...]] = ()
    #: What the scaler scales: "observation", "action" or "reward".
    column: ClassVar[str]

    def __post_init__(self) -> None:
        for name in self.statistics:
            if isinstance(getattr(self, name), list | tuple):
                setattr(self, name, np.asarray(getattr(self, name)))

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        vars(self).pop("library_scaler", None)

    @property
    def built(self) -> bool:
        """True if the scaler has all its statistics."""
        return all(getattr(self, name) is not None for name in self.statistics)

    def fit_with_transition_picker(self, episodes: Sequence[Any], transition_picker: Any) -> None:
        """Fit the scaler to all transitions of episodes.

        Args:
            episodes: Episodes of a dataset of the layer.
            transition_picker: Function of an episode and an index that returns a transition.
        """
        if self.statistics:
            self.fit_rows(picked_rows(episodes, transition_picker, self.column))

    def fit_with_trajectory_slicer(self, episodes: Sequence[Any], trajectory_slicer: Any) -> None:
        """Fit the scaler to all steps of episodes.

        Args:
            episodes: Episodes of a dataset of the layer.
            trajectory_slicer: Function of an episode, the index of the last step, and a number of steps. It returns the
                trajectory of these steps.
        """
        if self.statistics:
            self.fit_rows(sliced_rows(episodes, trajectory_slicer, self.column))

    def fit_with_env(self, env: Any) -> None:
        """Fit the scaler to the bounds of the environment's space.

        Args:
            env: The environment.

        Raises:
            NotImplementedError: If the statistics are not bounds.
            TypeError: If the space is not a Box.
            NonFiniteError: If a bound is infinite.
        """
        if not self.statistics:
            return
        if self.statistics != _BOUNDS:
            raise NotImplementedError(f"{type(self).__name__} cannot be fitted to an environment: fit it to a dataset")
        space = getattr(env, f"{self.column}_space")
        if not (hasattr(space, "low") and hasattr(space, "high")):
            raise TypeError(f"{self.column}_space is {space}, expected a Box, which has bounds")
        self.fit_rows([np.stack([space.low, space.high])])

    def fit_rows(self, rows: Iterable[NDArray]) -> None:
        """Fit the scaler to arrays of rows, one array [T, ...] for each episode. Bounds have the dtype of the rows.

        Raises:
            ValueError: If there are no rows, or rows have different shapes.
            NonFiniteError: If a value is NaN or infinite.
        """
        rows = iter(rows)
        first = list(itertools.islice(rows, 1))
        floats = (each.astype(np.result_type(each, np.float32)) for each in itertools.chain(first, rows))
        fitted = self.library().fit(floats)
        dtype = np.result_type(first[0], 1.0) if self.statistics == _BOUNDS else np.dtype(np.float64)
        for name in self.statistics:
            statistic = getattr(fitted, name)
            setattr(self, name, statistic.astype(dtype) if np.ndim(statistic) else float(statistic))

    @functools.cached_property
    def library_scaler(self) -> LibraryScaler:
        """The scaler that does the arithmetic. A change of a field discards it.

        Raises:
            NotFittedError: If the scaler has no statistics.
        """
        if not self.built:
            fields = " and ".join(self.statistics)
            raise NotFittedError(f"{type(self).__name__} is not fitted: call fit of the algorithm, or pass {fields}")
        params = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        if "eps" in params:
            params["std"] = params["std"] + params.pop("eps")
        return self.library(**params)

    def transform(self, x: Tensor) -> Tensor:
        """Return scaled values of the same shape, floating point.

        Args:
            x: Values, [..., *row shape].

        Raises:
            NotFittedError: If the scaler has no statistics.
        """
        return self.library_scaler.transform(x)

    def reverse_transform(self, x: Tensor) -> Tensor:
        """Return the values that `transform` scales to `x`. Arguments and errors are the same as in `transform`."""
        return self.library_scaler.reverse_transform(x)

    def transform_numpy(self, x: NDArray) -> NDArray:
        """Return `transform` of an array, computed in float64."""
        return self._on_array(self.transform, x)

    def reverse_transform_numpy(self, x: NDArray) -> NDArray:
        """Return `reverse_transform` of an array, computed in float64."""
        return self._on_array(self.reverse_transform, x)

    def _on_array(self, function: Callable[[Tensor], Tensor], x: NDArray) -> NDArray:
        arrays = [value for name in self.statistics if isinstance(value := getattr(self, name), np.ndarray)]
        result = function(torch.as_tensor(np.asarray(x, np.float64))).numpy()
        return result.astype(np.result_type(x, 1.0, *arrays))


def picked_rows(episodes: Sequence[Any], transition_picker: Any, column: str) -> Iterator[Any]:
    """Yield the values of a field of the transitions, [T, ...], for each episode that has transitions."""
    for episode in episodes:
        if indices := range(episode.transition_count):
            yield _stacked([getattr(transition_picker(episode, index), column) for index in indices])


def sliced_rows(episodes: Sequence[Any], trajectory_slicer: Any, column: str) -> Iterator[Any]:
    """Yield the values of a field of the steps, [T, ...], for each episode."""
    for episode in episodes:
        size = episode.size()
        yield getattr(trajectory_slicer(episode, size - 1, size), f"{column}s")


def _stacked(rows: Sequence[Any]) -> Any:
    """Return one array, or one array for each part of tuple observations."""
    if isinstance(rows[0], list | tuple):
        return [np.stack(part) for part in zip(*rows, strict=True)]
    return np.stack(rows)
