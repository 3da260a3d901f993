"""Random changes of observations that leave their meaning, for images and for vectors."""

from pfrl_like.augmentation.augmentation import Augmentation as Augmentation
from pfrl_like.augmentation.batches import BatchAugmentation as BatchAugmentation
from pfrl_like.augmentation.image import ColorJitter as ColorJitter
from pfrl_like.augmentation.image import Cutout as Cutout
from pfrl_like.augmentation.image import HorizontalFlip as HorizontalFlip
from pfrl_like.augmentation.image import Intensity as Intensity
from pfrl_like.augmentation.image import RandomRotation as RandomRotation
from pfrl_like.augmentation.image import RandomShift as RandomShift
from pfrl_like.augmentation.image import VerticalFlip as VerticalFlip
from pfrl_like.augmentation.pipeline import AugmentationPipeline as AugmentationPipeline
from pfrl_like.augmentation.pipeline import make_augmentation as make_augmentation
from pfrl_like.augmentation.vector import MultipleAmplitudeScaling as MultipleAmplitudeScaling
from pfrl_like.augmentation.vector import SingleAmplitudeScaling as SingleAmplitudeScaling
