"""Augmentations: random changes of observations after which the same actions are optimal."""

from pfrl_like.augmentation.augmentation import Augmentation
from pfrl_like.augmentation.image import (
    ColorJitter,
    Cutout,
    HorizontalFlip,
    Intensity,
    RandomRotation,
    RandomShift,
    VerticalFlip,
)
from pfrl_like.augmentation.pipeline import AugmentationPipeline, BatchAugmentation, make_augmentation, pipeline_of
from pfrl_like.augmentation.vector import MultipleAmplitudeScaling, SingleAmplitudeScaling

__all__ = [
    "Augmentation", "AugmentationPipeline", "BatchAugmentation", "ColorJitter", "Cutout", "HorizontalFlip",
    "Intensity", "MultipleAmplitudeScaling", "RandomRotation", "RandomShift", "SingleAmplitudeScaling",
    "VerticalFlip", "make_augmentation", "pipeline_of",
]  # fmt: skip
