import copy
import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pfrl_like import augmentation as own
from pfrl_like.augmentation.pipeline import AUGMENTATIONS

#: Augmentations of images that change every one of them, or nearly.
OF_IMAGES = [
    own.RandomShift(2),
    own.Cutout(1.0),
    own.HorizontalFlip(1.0),
    own.VerticalFlip(1.0),
    own.RandomRotation(30.0),
    own.Intensity(),
    own.ColorJitter(),
]
OF_VECTORS = [own.SingleAmplitudeScaling(), own.MultipleAmplitudeScaling()]
DTYPES = [torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.float64]


def images(dtype: torch.dtype = torch.float32, n: int = 4) -> Tensor:
    x = torch.rand(n, 6, 9, 7)
    return (x * 255).to(dtype) if dtype == torch.uint8 else x.to(dtype)


def batch_for(augment: Any) -> Tensor:
    return torch.rand(4, 5) if augment in OF_VECTORS else images()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("augment", OF_IMAGES, ids=repr)
def test_images_keep_shape_and_dtype(augment: Any, dtype: torch.dtype) -> None:
    for n in (4, 0):
        x = images(dtype, n)
        before = x.clone()
        changed = augment.transform(x)
        assert (changed.shape, changed.dtype) == (x.shape, x.dtype)
        assert torch.equal(x, before)
        assert n == 0 or not torch.equal(changed, x)


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("augment", OF_VECTORS, ids=repr)
@pytest.mark.parametrize("shape", [(4, 3), (0, 3), (4, 2, 3), (4,)])
def test_vectors_keep_shape_and_dtype(augment: Any, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x = torch.ones(shape, dtype=dtype)
    changed = augment(x)
    assert (changed.shape, changed.dtype) == (x.shape, x.dtype)
    assert bool(((changed >= 0.79) & (changed <= 1.21)).all())


@pytest.mark.parametrize("augment", [*OF_IMAGES, *OF_VECTORS], ids=repr)
def test_the_same_seed_gives_the_same(augment: Any) -> None:
    x = batch_for(augment)
    given = [augment(x, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert torch.equal(given[0], given[1])
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first, second = augment(x), augment(x)
    assert not torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(1)
    assert torch.equal(augment(x), first)
    if not isinstance(augment, own.HorizontalFlip):  # flips every image
        assert not torch.equal(given[0], given[2])
        assert not torch.equal(first, second)


@pytest.mark.parametrize("augment", [*OF_IMAGES, *OF_VECTORS], ids=repr)
def test_a_generator_leaves_the_global_stream(augment: Any) -> None:
    x, state = batch_for(augment), torch.get_rng_state()
    augment(x, torch.Generator())
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("augment", [*OF_IMAGES, *OF_VECTORS], ids=repr)
def test_gradients_pass(augment: Any) -> None:
    x = batch_for(augment).requires_grad_()
    augment(x).sum().backward()
    assert x.grad is not None and bool(torch.isfinite(x.grad).all()) and bool((x.grad != 0).any())


@pytest.mark.parametrize("augment", [own.RandomShift(9), own.RandomRotation(170.0), own.Intensity(1.0)], ids=repr)
def test_every_image_is_changed_in_its_own_way(augment: Any) -> None:
    x = images(n=1).expand(8, -1, -1, -1)
    changed = augment(x)
    assert len({image.numpy().tobytes() for image in changed}) > 4


@pytest.mark.parametrize("augment", [own.Cutout, own.HorizontalFlip, own.VerticalFlip])
@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_the_share_of_changed_images_is_the_probability(augment: Any, probability: float) -> None:
    x = torch.rand(4000, 1, 4, 4) + 0.1
    share = (augment(probability)(x) != x).flatten(1).any(1).float().mean().item()
    # five standard deviations of a share of 4000
    assert abs(share - probability) <= 5 * math.sqrt(probability * (1 - probability) / 4000)


def test_every_shift_up_to_the_largest_occurs() -> None:
    x = torch.zeros(2000, 1, 9, 9)
    x[:, :, 4, 4] = 1  # the pixel in the middle tells where it went
    places = {tuple(place) for place in own.RandomShift(2)(x).nonzero()[:, 2:].tolist()}
    assert places == {(row, column) for row in range(2, 7) for column in range(2, 7)}


def test_a_cut_out_has_the_area_and_the_sides_it_says() -> None:
    erased = own.Cutout(1.0)(torch.ones(500, 2, 40, 40)) == 0
    assert torch.equal(erased[:, 0], erased[:, 1])
    height, width = erased[:, 0].any(2).sum(1), erased[:, 0].any(1).sum(1)
    area = erased[:, 0].sum((1, 2))
    assert torch.equal(area, height * width)
    # rounding of a side of 3 or more by a half, and sides cut at 40
    assert area.min() >= 0.014 * 1600 and area.max() <= 0.36 * 1600
    assert bool((height / width < 3.3 * 1.2).all()) and bool((height / width > 0.3 / 1.2).all())
    assert area.float().mean().item() / 1600 == pytest.approx(0.175, abs=0.025)


def test_color_jitter_stays_within_bounds() -> None:
    strong = own.ColorJitter((0, 9), (0, 9), (0, 9))
    x = strong(images())
    assert x.min() >= 0 and x.max() <= 1


@pytest.mark.parametrize("augment", OF_IMAGES, ids=repr)
@pytest.mark.parametrize(
    ("x", "error"), [(torch.zeros(2, 3), ValueError), (torch.zeros(1, 3, 4, 4, dtype=torch.int64), TypeError)]
)
def test_what_is_no_batch_of_images_is_refused(augment: Any, x: Tensor, error: type[Exception]) -> None:
    with pytest.raises(error, match="x has"):
        augment(x)


def test_other_misfits_are_refused() -> None:
    with pytest.raises(ValueError, match="three channels"):
        own.ColorJitter()(torch.zeros(1, 4, 2, 2))
    for augment in OF_VECTORS:
        with pytest.raises(TypeError, match="floating point"):
            augment(torch.zeros(2, 3, dtype=torch.uint8))


@pytest.mark.parametrize(
    ("make", "error", "name"),
    [
        (lambda: own.RandomShift(-1), ValueError, "shift_size"),
        (lambda: own.RandomShift(1.5), TypeError, "shift_size"),  # type: ignore[arg-type]
        (lambda: own.Cutout(1.1), ValueError, "probability"),
        (lambda: own.VerticalFlip("0.1"), TypeError, "probability"),  # type: ignore[arg-type]
        (lambda: own.HorizontalFlip(-0.1), ValueError, "probability"),
        (lambda: own.RandomRotation(math.nan), ValueError, "degree"),
        (lambda: own.Intensity(-1), ValueError, "scale"),
        (lambda: own.ColorJitter(contrast=(1.0, 0.5)), ValueError, "contrast"),
        (lambda: own.ColorJitter(saturation=(-1.0, 0.5)), ValueError, "saturation"),
        (lambda: own.ColorJitter(hue=0.5), TypeError, "hue"),  # type: ignore[arg-type]
        (lambda: own.SingleAmplitudeScaling(1.2, 0.8), ValueError, "maximum"),
        (lambda: own.MultipleAmplitudeScaling(0.8, math.inf), ValueError, "maximum"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(make: Any, error: type[Exception], name: str) -> None:
    with pytest.raises(error, match=name):
        make()


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_an_augmentation_comes_back_from_json(name: str) -> None:
    augment: Any = own.make_augmentation(name)
    assert augment.get_type() == name
    again = own.make_augmentation(json.loads(json.dumps(augment.describe())))
    assert again == augment == type(augment)(**augment.get_params(deep=True))
    assert copy.deepcopy(augment) == augment


def test_an_unknown_name_is_told_the_nearest() -> None:
    with pytest.raises(ValueError, match="'random_shfit'.*nearest is 'random_shift'"):
        own.AugmentationPipeline(["random_shfit"])


@pytest.mark.parametrize("augmentation", [3, None, own.RandomShift])
def test_what_is_no_augmentation_is_refused(augmentation: Any) -> None:
    with pytest.raises(TypeError, match="the augmentation is"):
        own.AugmentationPipeline([augmentation])


def test_a_pipeline_applies_named_and_hand_made_ones_in_turn() -> None:
    def plus_one(x: Tensor, rng: torch.Generator | None) -> Tensor:
        return x + 1

    x = torch.ones(2, 3)
    twice = own.SingleAmplitudeScaling(2.0, 2.0)
    assert own.AugmentationPipeline([plus_one, twice]).transform(x).tolist() == [[4.0] * 3] * 2
    assert own.AugmentationPipeline([twice, plus_one])(x).tolist() == [[3.0] * 3] * 2
    pipeline = own.AugmentationPipeline([own.RandomShift(shift_size=10), "intensity"])
    assert list(pipeline) == [own.RandomShift(10), own.Intensity()]
    assert list(own.AugmentationPipeline(pipeline)) == list(pipeline)
    assert list(own.AugmentationPipeline("cutout")) == [own.Cutout()]
    assert own.AugmentationPipeline()(x) is x and len(own.AugmentationPipeline()) == 0


def test_the_parts_of_a_pipeline_share_the_generator() -> None:
    x, pipeline = images(), own.AugmentationPipeline(["random_shift", "intensity"])
    one, two = (torch.Generator().manual_seed(3) for _ in range(2))
    assert torch.equal(pipeline(x, one), own.Intensity()(own.RandomShift()(x, two), two))


def test_a_pipeline_comes_back_from_json() -> None:
    pipeline = own.AugmentationPipeline([own.RandomShift(shift_size=10), "color_jitter"])
    again = own.AugmentationPipeline(json.loads(json.dumps(pipeline.describe())))
    assert list(again) == list(pipeline) and repr(again) == repr(pipeline)
    with pytest.raises(TypeError, match="the pipeline contains .*, expected only Augmentation objects"):
        own.AugmentationPipeline([np.negative]).describe()


def test_a_pipeline_can_be_extended() -> None:
    pipeline = own.AugmentationPipeline(["random_shift"])
    pipeline.append("intensity")
    assert [*map(type, pipeline)] == [own.RandomShift, own.Intensity]
    with pytest.raises(ValueError, match="intensity"):
        pipeline.append("intensitty")
