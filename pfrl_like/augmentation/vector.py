"""Augmentations of vectors, [N, ...], by random factors (Laskin et al. 2020, arXiv:2004.14990, section 4.2)."""

from dataclasses import dataclass

from torch import Tensor

from pfrl_like.augmentation import augmentation


@dataclass(frozen=True)
class SingleAmplitudeScaling(augmentation.Augmentation):
    """Multiplies each observation by a random factor, sampled uniformly.

    Args:
        minimum: Minimum factor.
        maximum: Maximum factor.

    Raises:
        ValueError: If a factor is not finite, or `maximum` is less than `minimum`.
    """

    type_name = "single_amplitude_scaling"
    minimum: float = 0.8
    maximum: float = 1.2

    def __post_init__(self) -> None:
        augmentation.check_range("(minimum, maximum)", (self.minimum, self.maximum))

    def transform(self, x: Tensor, rng: augmentation.RandomNumbers = None) -> Tensor:
        augmentation.check_floats(x)
        return x * augmentation.per_row(augmentation.uniform(x, self.minimum, self.maximum, rng), x).to(x.dtype)


@dataclass(frozen=True)
class MultipleAmplitudeScaling(SingleAmplitudeScaling):
    """Multiplies each entry of an observation by another random factor; the parameters are the same."""

    type_name = "multiple_amplitude_scaling"

    def transform(self, x: Tensor, rng: augmentation.RandomNumbers = None) -> Tensor:
        augmentation.check_floats(x)
        return x * augmentation.uniform(x, self.minimum, self.maximum, rng, x.shape[1:]).to(x.dtype)
