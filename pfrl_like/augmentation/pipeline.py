"""The table of augmentation names, sequences of augmentations, and the augmentation of minibatches."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from pfrl_like.augmentation import image, vector
from pfrl_like.augmentation.augmentation import Augmentation, RandomNumbers
from pfrl_like.batch import Batch, concatenate_batches
from pfrl_like.utils.plain_values import build

#: Function of (batch, rng), such as an `Augmentation`.
Augment = Callable[[Tensor, RandomNumbers], Tensor]

AUGMENTATIONS: Mapping[str, type[Augmentation]] = {
    augmentation.type_name: augmentation
    for augmentation in (
        image.RandomShift,
        image.Cutout,
        image.HorizontalFlip,
        image.VerticalFlip,
        image.RandomRotation,
        image.Intensity,
        image.ColorJitter,
        vector.SingleAmplitudeScaling,
        vector.MultipleAmplitudeScaling,
    )
}


def make_augmentation(augmentation: Any) -> Augment:
    """Return the augmentation for an argument of the user.

    Args:
        augmentation: A name (a key of `AUGMENTATIONS`), a result of `Augmentation.describe`, an `Augmentation`, or
            another function of (batch, rng).

    Raises:
        ValueError: If a name is unknown. The message suggests the nearest name.
        TypeError: If an argument has another type.
    """
    if callable(augmentation) and not isinstance(augmentation, type):
        return augmentation  # type: ignore[no-any-return]
    return build("the augmentation", augmentation, AUGMENTATIONS, Augmentation)


class AugmentationPipeline:
    """Sequence of augmentations that is called as a function of (batch, rng).

    Args:
        augmentations: Iterable of arguments of `make_augmentation`, a single such argument, or another pipeline. None
            creates an empty pipeline.

    Raises:
        ValueError: If a name is unknown. The message suggests the nearest name.
        TypeError: If an argument has another type.
    """

    def __init__(self, augmentations: Iterable[Any] | None = ()) -> None:
        if augmentations is None:
            augmentations = ()
        if isinstance(augmentations, str | Mapping) or not isinstance(augmentations, Iterable):
            augmentations = [augmentations]
        self.augmentations = tuple(make_augmentation(augmentation) for augmentation in augmentations)

    def transform(self, x: Tensor, rng: RandomNumbers = None) -> Tensor:
        """Apply the augmentations to a batch one after the other; arguments as in `Augmentation.transform`."""
        for augment in self.augmentations:
            x = augment(x, rng)
        return x

    __call__ = transform

    def describe(self) -> list[dict[str, Any]]:
        """Return the augmentations as JSON values; the constructor creates an equal pipeline from them.

        Raises:
            TypeError: If an augmentation is a function of the user, because it has no description.
        """
        for augment in self.augmentations:
            if not isinstance(augment, Augmentation):
                raise TypeError(f"{augment!r} cannot be described: expected an Augmentation, with parameters")
        return [augment.describe() for augment in self.augmentations if isinstance(augment, Augmentation)]

    def __iter__(self) -> Iterator[Augment]:
        return iter(self.augmentations)

    def __len__(self) -> int:
        return len(self.augmentations)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.augmentations)!r})"


def pipeline_of(augmentations: Any) -> AugmentationPipeline:
    """Return a pipeline unchanged, or create a pipeline from other arguments of its constructor."""
    if isinstance(augmentations, AugmentationPipeline):
        return augmentations
    return AugmentationPipeline(augmentations)


class BatchAugmentation:
    """Function that replaces a minibatch by copies with augmented observations.

    The augmentation is applied to scaled observations. The result is scaled back, because the networks contain the
    scaler. The loss is then the mean over the copies.

    Args:
        augment: Function of (observations, source of random numbers).
        n_copies: Number of copies of each row. Each copy is augmented independently (arXiv:2004.13649).
        scaler: Scaler of the observations, or None.
    """

    def __init__(self, augment: Augment, n_copies: int = 1, scaler: Any = None) -> None:
        self.augment, self.n_copies, self.scaler = augment, n_copies, scaler

    def __call__(self, batch: Batch) -> Batch:
        return concatenate_batches(
            [
                batch.replace(obs=self._changed(batch.obs), next_obs=self._changed(batch.next_obs))
                for _ in range(self.n_copies)
            ]
        )

    @torch.no_grad()
    def _changed(self, obs: Tensor) -> Tensor:
        if self.scaler is None:
            return self.augment(obs, None)
        changed: Tensor = self.scaler.reverse_transform(self.augment(self.scaler.transform(obs), None))
        return changed
