"""Augmentations by name, several of them in turn, and of whole batches."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from pfrl_like.augmentation import image, vector
from pfrl_like.augmentation.augmentation import Augmentation, RandomNumbers
from pfrl_like.batch import Batch, concatenate_batches
from pfrl_like.utils.plain_values import build

#: A function of (batch, rng), as every `Augmentation` is one.
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
    """The augmentation that a user has chosen.

    Args:
        augmentation: A name (one of `AUGMENTATIONS`), what `Augmentation.describe` gave, an augmentation, or any
            function of (batch, rng).

    Raises:
        ValueError: On an unknown name, telling the nearest.
        TypeError: On anything else.
    """
    if callable(augmentation) and not isinstance(augmentation, type):
        return augmentation  # type: ignore[no-any-return]
    return build("the augmentation", augmentation, AUGMENTATIONS, Augmentation)


class AugmentationPipeline:
    """Augmentations that are applied in turn, itself a function of (batch, rng).

    Args:
        augmentations: What `make_augmentation` takes, any number of them, or another pipeline; None for none.

    Raises:
        ValueError: As `make_augmentation`.
        TypeError: As `make_augmentation`.
    """

    def __init__(self, augmentations: Iterable[Any] | None = ()) -> None:
        if augmentations is None:
            augmentations = ()
        if isinstance(augmentations, str | Mapping) or not isinstance(augmentations, Iterable):
            augmentations = [augmentations]
        self.augmentations = tuple(make_augmentation(augmentation) for augmentation in augmentations)

    def transform(self, x: Tensor, rng: RandomNumbers = None) -> Tensor:
        """Change a batch by each augmentation in turn; arguments, result and errors as theirs."""
        for augment in self.augmentations:
            x = augment(x, rng)
        return x

    __call__ = transform

    def describe(self) -> list[dict[str, Any]]:
        """The augmentations as values that JSON has, from which the constructor makes an equal pipeline.

        Raises:
            TypeError: If one is a function of the user's, which has no description.
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
    """A pipeline itself, or the one of what its constructor takes; errors as its constructor's."""
    if isinstance(augmentations, AugmentationPipeline):
        return augmentations
    return AugmentationPipeline(augmentations)


class BatchAugmentation:
    """Gives a minibatch with its observations changed, several times if asked for: the loss is the mean over them.

    What is changed are scaled observations, which are scaled back for networks that begin with the scaler.

    Args:
        augment: Function of (observations, source of random numbers); None leaves them as they are.
        n_copies: How many times each row comes, each time changed in another way (arXiv:2004.13649).
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
