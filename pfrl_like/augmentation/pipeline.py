"""Augmentations by name, and several of them in turn."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from torch import Tensor

from pfrl_like.augmentation import image, vector
from pfrl_like.augmentation.augmentation import Augmentation, RandomNumbers
from pfrl_like.utils.described import build

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
