"""What augmentations do with given draws, against numbers worked out by hand."""

import math

import pytest
import torch
from torch import Tensor

from pfrl_like.augmentation import Intensity, MultipleAmplitudeScaling, SingleAmplitudeScaling
from pfrl_like.augmentation.image import erase, hue_saturation_value, jitter, red_green_blue, rotate, shift

NINE = torch.tensor([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]])


def images(*arrays: Tensor) -> Tensor:
    return torch.stack(arrays).unsqueeze(1)


def test_shift_repeats_the_edge() -> None:
    down_and_left = [[2.0, 3, 3], [2, 3, 3], [5, 6, 6]]
    up = [[7.0, 8, 9], [7, 8, 9], [7, 8, 9]]
    x = images(NINE, NINE)
    assert shift(x, torch.tensor([1, -2]), torch.tensor([-1, 0])).squeeze(1).tolist() == [down_and_left, up]


def test_erase_puts_zero_into_a_rectangle() -> None:
    one, two = torch.tensor([1, 0]), torch.tensor([2, 0])
    # the first: 2 rows from row 1, 1 column from column 2; the second: nothing
    erased = erase(images(NINE, NINE), one, two, height=two, width=one).squeeze(1)
    assert erased.tolist() == [[[1, 2, 3], [4, 5, 0], [7, 8, 0]], NINE.tolist()]


def test_a_quarter_turn_is_counter_clockwise() -> None:
    turned = rotate(images(NINE), torch.tensor([math.pi / 2]))[0, 0]
    torch.testing.assert_close(turned, torch.tensor([[3.0, 6, 9], [2, 5, 8], [1, 4, 7]]))


def test_a_quarter_turn_of_an_oblong_image_keeps_its_pixels_square() -> None:
    x = images(torch.tensor([[0.0, 1, 2, 3, 0], [0, 4, 5, 6, 0], [0, 7, 8, 9, 0]]))
    expected = torch.tensor([[0.0, 3, 6, 9, 0], [0, 2, 5, 8, 0], [0, 1, 4, 7, 0]])
    torch.testing.assert_close(rotate(x, torch.tensor([math.pi / 2]))[0, 0], expected)


def test_an_eighth_of_a_turn_interpolates() -> None:
    # The right neighbour of the centre comes from (cos 45, sin 45) = (0.7071, 0.7071) right of and below the centre,
    # between 5, 6, 8 and 9, which lie on the plane 5 + right + 3 * down: 5 + 4 * 0.7071
    assert rotate(images(NINE), torch.tensor([math.pi / 4]))[0, 0, 1, 2].item() == pytest.approx(5 + 4 * math.sqrt(0.5))


COLOURS = [
    ((1.0, 0.0, 0.0), (0.0, 1.0, 1.0)),
    ((0.0, 1.0, 0.0), (1 / 3, 1.0, 1.0)),
    ((0.0, 0.0, 1.0), (2 / 3, 1.0, 1.0)),
    ((1.0, 1.0, 0.0), (1 / 6, 1.0, 1.0)),
    ((0.5, 0.5, 0.5), (0.0, 0.0, 0.5)),
    ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
    # value 0.8, range 0.6, saturation 0.6 / 0.8; red leads: (0.2 - 0.5) / 0.6 sixths, that is 5.5 / 6
    ((0.8, 0.2, 0.5), (5.5 / 6, 0.75, 0.8)),
    # green leads: 2 + (0.6 - 0.2) / 0.8 sixths
    ((0.2, 1.0, 0.6), (2.5 / 6, 0.8, 1.0)),
]


@pytest.mark.parametrize(("rgb", "hsv"), COLOURS)
def test_colours_and_their_hue_saturation_and_value(rgb: tuple[float, ...], hsv: tuple[float, ...]) -> None:
    x = torch.tensor(rgb).reshape(1, 3, 1, 1)
    assert hue_saturation_value(x).flatten().tolist() == pytest.approx(hsv, abs=1e-6)
    assert red_green_blue(torch.tensor(hsv).reshape(1, 3, 1, 1)).flatten().tolist() == pytest.approx(rgb, abs=1e-6)


def jittered(x: Tensor, **changes: float) -> list[float]:
    numbers = {"brightness": 1, "contrast": 1, "saturation": 1, "hue": 0} | changes
    factors = [torch.tensor([factor]).float() for factor in numbers.values()]
    return [round(value, 5) for value in jitter(x, *factors).flatten().tolist()]


def test_each_number_of_color_jitter() -> None:
    x = torch.tensor([0.8, 0.2, 0.5]).reshape(1, 3, 1, 1)
    assert jittered(x) == [0.8, 0.2, 0.5]
    assert jittered(x, brightness=0.5) == [0.4, 0.1, 0.25]
    assert jittered(x, brightness=2) == [1.0, 0.25, 0.625]  # the value stays at 1
    # saturation 0.75 / 2: value 0.8, least 0.8 * (1 - 0.375) = 0.5, half way between 0.65
    assert jittered(x, saturation=0.5) == [0.8, 0.5, 0.65]
    assert jittered(x, hue=1 / 3) == [0.5, 0.8, 0.2]  # a third of the circle moves the channels on
    # two pixels of means 0.5, 0.5, 0.5; distances are halved
    pair = torch.tensor([[0.9, 0.1], [0.7, 0.3], [0.5, 0.5]]).reshape(1, 3, 1, 2)
    assert jittered(pair, contrast=0.5) == [0.7, 0.3, 0.6, 0.4, 0.5, 0.5]


def test_stacked_frames_are_jittered_alike() -> None:
    x = torch.tensor([0.8, 0.2, 0.5, 0.8, 0.2, 0.5]).reshape(1, 6, 1, 1)
    assert jittered(x, hue=1 / 3) == [0.5, 0.8, 0.2] * 2


def test_intensity_multiplies_by_one_and_a_normal_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "randn", lambda *size, **_: torch.tensor([1.0, -9.0]))
    # 1 + 0.1 * 1 and 1 + 0.1 * -2
    x = torch.full((2, 1, 1, 1), 10.0)
    assert Intensity(0.1).transform(x).flatten().tolist() == pytest.approx([11.0, 8.0])
    # bytes: 250 * 1.1 is cut at 255, 13 * 0.8 = 10.4 is rounded
    x = torch.tensor([250, 13], dtype=torch.uint8).reshape(2, 1, 1, 1)
    assert Intensity(0.1).transform(x).flatten().tolist() == [255, 10]


def test_amplitude_scaling_multiplies(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.tensor([[1.0, 10.0], [2.0, 20.0]])
    monkeypatch.setattr(torch, "rand", lambda *size, **_: torch.tensor([0.0, 0.5]))
    # 0.8 and 0.8 + 0.4 / 2
    assert SingleAmplitudeScaling().transform(x).tolist() == [pytest.approx([0.8, 8]), pytest.approx([2, 20])]
    monkeypatch.setattr(torch, "rand", lambda *size, **_: torch.tensor([[0.0, 0.5], [0.25, 1.0]]))
    assert MultipleAmplitudeScaling().transform(x).tolist() == [pytest.approx([0.8, 10]), pytest.approx([1.8, 24])]
