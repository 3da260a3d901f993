"""Augmentations of images, [N, C, H, W].

Stacked frames of one image are changed equally. The functions are deterministic. The classes call the functions with
random numbers (Kostrikov et al. 2020, arXiv:2004.13649; Laskin et al. 2020, arXiv:2004.14990).
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from pfrl_like.augmentation.augmentation import (
    Augmentation,
    RandomNumbers,
    check_images,
    check_range,
    in_floating_point,
    normal,
    per_row,
    uniform,
)
from pfrl_like.utils.checks import check_counts, check_numbers

#: Maximum of floating-point pixels in `ColorJitter`.
WHITE = 1.0


def jitter(x: Tensor, brightness: Tensor, contrast: Tensor, saturation: Tensor, hue: Tensor) -> Tensor:
    """Change first the contrast, then the hue, saturation and value of colour images.

    Args:
        x: Images, [N, 3 * frames, H, W], floating point in [0, 1].
        brightness: Factors by which the value is multiplied, [N].
        contrast: Factors by which the difference to each channel's mean is multiplied, [N].
        saturation: Factors by which the saturation is multiplied, [N].
        hue: Numbers added to the hue, in turns (1 is the full colour circle), [N].

    Returns:
        Images of the same shape, in [0, 1].
    """
    frames = torch.unflatten(x, 1, (-1, 3))
    columns = (factor.reshape(-1, 1, 1, 1) for factor in (brightness, contrast, saturation, hue))
    brightness, contrast, saturation, hue = columns
    mean = frames.mean((3, 4), keepdim=True)
    contrasted = ((frames - mean) * contrast.unsqueeze(4) + mean).clamp(0, WHITE)
    h, s, v = hue_saturation_value(contrasted).unbind(2)
    changed = torch.stack([h + hue, (s * saturation).clamp(0, 1), (v * brightness).clamp(0, WHITE)], 2)
    return red_green_blue(changed).flatten(1, 2)


def hue_saturation_value(rgb: Tensor) -> Tensor:
    """Convert RGB colours [..., 3, H, W] to hue (in turns, from 0 to 1; 0 for grey), saturation and value."""
    value, max_channel = rgb.max(-3, keepdim=True)
    range_ = value - rgb.amin(-3, keepdim=True)
    saturation = range_ / torch.where(value > 0, value, 1)
    # If k is the channel of the maximum, the hue in sixths is 2 * k + (channel k + 1 - channel k + 2) / range.
    differences = rgb.roll(-1, -3) - rgb.roll(-2, -3)
    hue = differences.gather(-3, max_channel) / torch.where(range_ > 0, range_, 1) + 2 * max_channel
    return torch.cat([(hue / 6) % 1, saturation, value], -3)


def red_green_blue(hsv: Tensor) -> Tensor:
    """Convert hue, saturation and value to RGB colours; the hue may be any real number and is taken modulo 1."""
    hue, saturation, value = hsv.chunk(3, -3)
    sixths = torch.tensor([5.0, 3.0, 1.0], dtype=hsv.dtype, device=hsv.device).reshape(3, 1, 1)
    distance = (sixths + 6 * hue) % 6
    return value * (1 - saturation * torch.minimum(distance, 4 - distance).clamp(0, 1))


def shift(x: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Shift images by whole pixels; pixels without a source get the value of the nearest edge pixel.

    Args:
        x: Images, [N, C, H, W].
        down: Number of pixels by which each image moves down, [N], int64; negative to move up.
        right: Number of pixels by which each image moves to the right, [N], int64; negative to move left.
    """
    rows = (torch.arange(x.shape[2], device=x.device) - down[:, None]).clamp(0, x.shape[2] - 1)
    columns = (torch.arange(x.shape[3], device=x.device) - right[:, None]).clamp(0, x.shape[3] - 1)
    return x.gather(2, rows[:, None, :, None].expand_as(x)).gather(3, columns[:, None, None, :].expand_as(x))


def erase(x: Tensor, top: Tensor, left: Tensor, height: Tensor, width: Tensor) -> Tensor:
    """Set one rectangle of each image to 0; its top, left, height and width are in pixels, [N]."""
    rows = torch.arange(x.shape[2], device=x.device) - top[:, None]
    columns = torch.arange(x.shape[3], device=x.device) - left[:, None]
    in_rows = (rows >= 0) & (rows < height[:, None])
    in_columns = (columns >= 0) & (columns < width[:, None])
    return x.masked_fill((in_rows[:, :, None] & in_columns[:, None, :])[:, None], 0)


def rotate(x: Tensor, angle: Tensor) -> Tensor:
    """Rotate images about their centre with bilinear interpolation; pixels without a source are 0.

    Args:
        x: Images, [N, C, H, W], float32 or float64.
        angle: Angles in radians, [N]. If the first row is drawn at the top, positive angles rotate counter-clockwise.
    """
    height, width = x.shape[2:]
    cos, sin = angle.cos()[:, None, None], angle.sin()[:, None, None]
    down = (torch.arange(height, dtype=x.dtype, device=x.device) - (height - 1) / 2)[:, None]
    right = torch.arange(width, dtype=x.dtype, device=x.device) - (width - 1) / 2
    source = [(cos * right - sin * down) * (2 / width), (sin * right + cos * down) * (2 / height)]
    return grid_sample(x, torch.stack(source, 3), align_corners=False)


@dataclass(frozen=True)
class RandomShift(Augmentation):
    """Shifts each image vertically and horizontally by random numbers of pixels (arXiv:2004.13649, section 3).

    Pixels without a source get the value of the nearest edge pixel.

    Args:
        shift_size: Maximum shift in pixels, in each direction.

    Raises:
        ValueError, TypeError: If `shift_size` is not an integer of at least 0.
    """

    type_name = "random_shift"
    shift_size: int = 4

    def __post_init__(self) -> None:
        check_counts(0, shift_size=self.shift_size)

    def transform(self, x: Tensor, rng: RandomNumbers = None) -> Tensor:
        check_images(x)
        size = self.shift_size
        return shift(x, *uniform(x, -size, size + 1, rng, (2,)).floor().long().clamp(max=size).unbind(1))


@dataclass(frozen=True)
class Cutout(Augmentation):
    """Sets a random rectangle of some images to 0 (Zhong et al. 2017, arXiv:1708.04896, Algorithm 1).

    The area of the rectangle is sampled uniformly from 2 to 33 % of the image's area. The ratio of height to width is
    sampled uniformly from 0.3 to 3.3. Sides are clipped to the size of the image. The position is sampled uniformly
    from the positions inside the image.

    Args:
        probability: Probability that an image is changed.

    Raises:
        ValueError: If `probability` is not between 0 and 1.
    """

    type_name = "cutout"
    probability: float = 0.5

    def __post_init__(self) -> None:
        check_numbers(0, 1, probability=self.probability)

    def transform(self, x: Tensor, rng: RandomNumbers = None) -> Tensor:
        check_images(x)
        rows, columns = x.shape[2:]
        chosen, area, ratio, down, right = uniform(x, 0, 1, rng, (5,)).unbind(1)
        area = rows * columns * (0.02 + 0.31 * area)
        ratio = 0.3 + 3.0 * ratio
        height = (area * ratio).sqrt().round().clamp(1, rows)
        width = (area / ratio).sqrt().round().clamp(1, columns)
        top, left = (down * (rows - height + 1)).floor(), (right * (columns - width + 1)).floor()
        return erase(x, top, left, height * (chosen < self.probability), width)


@dataclass(frozen=True)
class HorizontalFlip(Augmentation):
    """Flips some images horizontally.

    Args:
        probability: Probability that an image is changed.

    Raises:
        ValueError: If `probability` is not between 0 and 1.
    """

    type_name = "horizontal_flip"
    axis: ClassVar[int] = 3
    probability: float = 0.1

    def __post_init__(self) -> None:
        check_numbers(0, 1, probability=self.probability)

    def transform(self, x: Tensor, rng: RandomNumbers = None) -> Tensor:
        check_images(x)
        chosen = per_row(uniform(x, 0, 1, rng) < self.probability, x)
        return torch.where(chosen, x.flip(self.axis), x)


@dataclass(frozen=True)
class VerticalFlip(HorizontalFlip):
    """Flips some images vertically; parameters and errors are the same as in `HorizontalFlip`."""

    type_name = "vertical_flip"
    axis = 2


@dataclass(frozen=True)
class RandomRotation(Augmentation):
    """Rotates each image about its centre; corners without a source are 0.

    Args:
        degree: Maximum angle in degrees. The angle is sampled uniformly from -degree to degree.

    Raises:
        ValueError: If `degree` is negative or not finite.
    """

    type_name = "random_rotation"
    degree: float = 5.0

    def __post_init__(self) -> None:
        check_numbers(0, degree=self.degree)

    def transform(self, x: Tensor, rng: RandomNumbers = None) -> Tensor:
        check_images(x)
        angle = uniform(x, -math.radians(self.degree), math.radians(self.degree), rng)
        return in_floating_point(lambda images: rotate(images, angle), x)


@dataclass(frozen=True)
class Intensity(Augmentation):
    """Multiplies each image by 1 + scale * n, where n is a standard normal number, clipped to [-2, 2].

    n is sampled for each image (arXiv:2004.13649, appendix). The pixels of uint8 images are then rounded and clipped to
    the range from 0 to 255.

    Args:
        scale: Standard deviation of the multiplier before clipping.

    Raises:
        ValueError: If `scale` is negative or not finite.
    """

    type_name = "intensity"
    scale: float = 0.1

    def __post_init__(self) -> None:
        check_numbers(0, scale=self.scale)

    def transform(self, x: Tensor, rng: RandomNumbers = None) -> Tensor:
        check_images(x)
        multiplier = per_row(1 + self.scale * normal(x, rng).clamp(-2, 2), x)
        return in_floating_point(lambda images: images * multiplier, x)


@dataclass(frozen=True)
class ColorJitter(Augmentation):
    """Changes contrast, hue, saturation and brightness of each colour image (arXiv:2004.14990, section 4.1).

    First, the difference to the mean of each channel is multiplied (contrast). Then a number is added to the hue, and
    saturation and value are multiplied. Factors and added numbers are sampled uniformly. The pixels of floating-point
    images must be in [0, 1]. The pixels of the result are in the same range as the pixels of the argument.

    Args:
        brightness: Range (low, high) of the factor by which the value is multiplied.
        contrast: Range (low, high) of the factor by which the difference to the mean is multiplied.
        saturation: Range (low, high) of the factor by which the saturation is multiplied.
        hue: Range (low, high) of the number added to the hue, in turns (1 is the full colour circle).

    Raises:
        ValueError: If a range is invalid, or a factor is negative.
    """

    type_name = "color_jitter"
    brightness: tuple[float, float] = (0.6, 1.4)
    contrast: tuple[float, float] = (0.6, 1.4)
    saturation: tuple[float, float] = (0.6, 1.4)
    hue: tuple[float, float] = (-0.5, 0.5)

    def __post_init__(self) -> None:
        for name, value in self.get_params().items():
            check_range(name, value, -math.inf if name == "hue" else 0)
            object.__setattr__(self, name, tuple(value))  # a range read from JSON is a list

    def transform(self, x: Tensor, rng: RandomNumbers = None) -> Tensor:
        """Apply an independent random change to each image; see `Augmentation.transform` for arguments and result.

        Raises:
            ValueError: If the number of channels is not a multiple of three.
        """
        check_images(x)
        if x.shape[1] % 3:
            raise ValueError(f"x has shape {tuple(x.shape)}, expected three channels for each colour frame")
        ranges = (self.brightness, self.contrast, self.saturation, self.hue)
        factors = [uniform(x, low, high, rng) for low, high in ranges]
        return in_floating_point(lambda images: jitter(images, *factors), x, WHITE)
