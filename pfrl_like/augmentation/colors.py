"""Colours as red, green and blue, and as hue, saturation and value, all in [0, 1].

(Smith 1978, doi:10.1145/965139.807361)
"""

import torch
from torch import Tensor

WHITE = 1.0


def jitter(x: Tensor, brightness: Tensor, contrast: Tensor, saturation: Tensor, hue: Tensor) -> Tensor:
    """Change the contrast, then hue, saturation and value of colour images.

    Args:
        x: Images, [N, 3 * frames, H, W], floating point in [0, 1].
        brightness: Factors of the value, [N].
        contrast: Factors of the distance from each channel's mean, [N].
        saturation: Factors of the saturation, [N].
        hue: What is added to the hue, in turns, [N].

    Returns:
        Same shape, in [0, 1].
    """
    frames = torch.unflatten(x, 1, (-1, 3))
    brightness, contrast, saturation, hue = (
        factor.reshape(-1, 1, 1, 1) for factor in (brightness, contrast, saturation, hue)
    )
    mean = frames.mean((3, 4), keepdim=True)
    stretched = ((frames - mean) * contrast.unsqueeze(4) + mean).clamp(0, WHITE)
    h, s, v = hue_saturation_value(stretched).unbind(2)
    changed = torch.stack([h + hue, (s * saturation).clamp(0, 1), (v * brightness).clamp(0, WHITE)], 2)
    return red_green_blue(changed).flatten(1, 2)


def hue_saturation_value(rgb: Tensor) -> Tensor:
    """From colours [..., 3, H, W] to the same shape; the hue in turns from 0 to 1, and 0 for grey."""
    value, strongest = rgb.max(-3, keepdim=True)
    range_ = value - rgb.amin(-3, keepdim=True)
    saturation = range_ / torch.where(value > 0, value, 1)
    # With the strongest channel k, the hue is 2 * k plus what the next channel is ahead of the one after, in sixths.
    ahead = rgb.roll(-1, -3) - rgb.roll(-2, -3)
    hue = ahead.gather(-3, strongest) / torch.where(range_ > 0, range_, 1) + 2 * strongest
    return torch.cat([(hue / 6) % 1, saturation, value], -3)


def red_green_blue(hsv: Tensor) -> Tensor:
    """The reverse; any real number is a hue, for it counts modulo 1."""
    hue, saturation, value = hsv.chunk(3, -3)
    sixths = torch.tensor([5.0, 3.0, 1.0], dtype=hsv.dtype, device=hsv.device).reshape(3, 1, 1)
    place = (sixths + 6 * hue) % 6
    return value * (1 - saturation * torch.minimum(place, 4 - place).clamp(0, 1))
