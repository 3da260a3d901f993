"""The table of augmentation names, sequences of augmentations, and the augmentation of minibatches."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from pfrl_like.augmentation import image, vector
from pfrl_like.augmentation.augmentation import Augmentation, RandomNumbers
from pfrl_like.batch import Batch, concatenate_batches
from pfrl_like.utils.plain_values import build

#: Function of (batch, rng) that returns a changed batch, such as an `Augmentation`.
Augment = Callable[[Tensor, RandomNumbers], Tensor]

_PLACES = (image.RandomShift, image.Cutout, image.HorizontalFlip, image.VerticalFlip, image.RandomRotation)
_VALUES = (image.Intensity, image.ColorJitter, vector.SingleAmplitudeScaling, vector.MultipleAmplitudeScaling)
AUGMENTATIONS: Mapping[str, type[Augmentation]] = {each.type_name: each for each in (*_PLACES, *_VALUES)}


def make_augmentation(augmentation: Any) -> Augment:
    """Return the augmentation for an argument of the user.

    Args:
        augmentation: A name (a key of `AUGMENTATIONS`), a result of `Augmentation.describe`, an `Augmentation`, or
            another function of (batch, rng).

    Raises:
        ValueError: If a name is unknown. The message contains the most similar name.
        TypeError: If an argument has a different type.
    """
    if callable(augmentation) and not isinstance(augmentation, type):
        return augmentation  # type: ignore[no-any-return]
    return build("the augmentation", augmentation, AUGMENTATIONS, Augmentation)


class AugmentationPipeline:
    """Sequence of augmentations that is called as a function of (batch, rng).

    Args:
        augmentations: Augmentations in the forms that `make_augmentation` accepts: an iterable of them, a single one,
            or another pipeline. If None, the pipeline is empty and changes nothing.

    Raises:
        ValueError: If a name is unknown. The message contains the most similar name.
        TypeError: If an argument has a different type.
    """

    def __init__(self, augmentations: Iterable[Any] | None = ()) -> None:
        augmentations = () if augmentations is None else augmentations
        if isinstance(augmentations, str | Mapping) or not isinstance(augmentations, Iterable):
            augmentations = [augmentations]
        self.augmentations = tuple(make_augmentation(augmentation) for augmentation in augmentations)

    def append(self, augmentation: Any) -> None:
        """Add an augmentation at the end.

        An estimator that is already built uses the longer pipeline at once, if the pipeline was not empty before.

        Args:
            augmentation: An augmentation in a form that `make_augmentation` accepts.

        Raises:
            ValueError: If a name is unknown. The message contains the most similar name.
            TypeError: If the argument is not an augmentation.
        """
        self.augmentations = (*self.augmentations, make_augmentation(augmentation))

    def transform(self, x: Tensor, rng: RandomNumbers = None) -> Tensor:
        """Apply the augmentations to a batch, one after the other; see `Augmentation.transform` for the arguments."""
        for augment in self.augmentations:
            x = augment(x, rng)
        return x

    __call__ = transform

    def describe(self) -> list[dict[str, Any]]:
        """Return the augmentations as JSON values. The constructor creates an equal pipeline from these values.

        Raises:
            TypeError: If an augmentation is a function of the user, because it has no description.
        """
        for augment in self.augmentations:
            if not isinstance(augment, Augmentation):
                raise TypeError(f"the pipeline contains {augment!r}, expected only Augmentation objects")
        return [augment.describe() for augment in self.augmentations if isinstance(augment, Augmentation)]

    def __iter__(self) -> Iterator[Augment]:
        return iter(self.augmentations)

    def __len__(self) -> int:
        return len(self.augmentations)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.augmentations)!r})"


def pipeline_of(augmentations: Any) -> AugmentationPipeline:
    """Return a pipeline unchanged, or make a pipeline from another argument of its constructor."""
    return augmentations if isinstance(augmentations, AugmentationPipeline) else AugmentationPipeline(augmentations)


class BatchAugmentation:
    """Function of a `Batch` that returns copies of its rows with augmented observations.

    The observations are scaled, augmented, and scaled back, because the networks contain the scaler and scale the
    observations again.

    Args:
        augment: Function of (observations, rng) that returns changed observations.
        n_copies: Number of copies of each row. Each copy is augmented independently (arXiv:2004.13649).
        scaler: Scaler of the observations. If None, observations are not scaled.
    """

    def __init__(self, augment: Augment, n_copies: int = 1, scaler: Any = None) -> None:
        self.augment, self.n_copies, self.scaler = augment, n_copies, scaler

    def __call__(self, batch: Batch) -> Batch:
        pairs = [(self._augmented(batch.obs), self._augmented(batch.next_obs)) for _ in range(self.n_copies)]
        return concatenate_batches([batch.replace(obs=obs, next_obs=next_obs) for obs, next_obs in pairs])

    @torch.no_grad()
    def _augmented(self, obs: Tensor) -> Tensor:
        if self.scaler is None:
            return self.augment(obs, None)
        augmented: Tensor = self.scaler.reverse_transform(self.augment(self.scaler.transform(obs), None))
        return augmented
