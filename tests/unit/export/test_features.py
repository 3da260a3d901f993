"""What a `phi` becomes in an exported policy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pfrl_like.batch import map_nested
from pfrl_like.errors import ExportError
from pfrl_like.export.features import find_preprocessing, leaves_of
from pfrl_like.preprocessing import StandardScaler
from pfrl_like.preprocessing.features import FeatureExtractor
from pfrl_like.utils.goals import concatenate_goal

#: Of tracers, which `export` silences.
pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (20, 6, 5, 3), dtype=np.uint8)
VECTORS = RNG.normal(size=(20, 4))
GOALS = {"observation": RNG.normal(size=(20, 3)), "achieved_goal": RNG.normal(size=(20, 2)),
         "desired_goal": RNG.normal(size=(20, 2))}  # fmt: skip
#: Of very different sizes, one of which differs little.
SPREAD = (VECTORS * [1e-3, 1.0, 50.0, 1.0] + [0.0, 1.0, -10.0, 1000.0]).astype(np.float32)
MEANS, DEVIATIONS = SPREAD.mean(0), SPREAD.std(0)
SCALER = StandardScaler(VECTORS)
NETWORK = nn.Linear(4, 2, dtype=torch.float64).requires_grad_(False)

#: A phi, and the observations that it is for.
KNOWN: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "nothing": (lambda x: x, VECTORS),
    "nothing, written otherwise": (lambda x: np.asarray(x), VECTORS),
    "cast": (lambda x: x.astype(np.float32), VECTORS),
    "scale": (lambda x: np.asarray(x, np.float32) / 255, IMAGES),
    "scale and shift": (lambda x: (x / 127.5 - 1).astype(np.float32), IMAGES),
    "scale of each": (lambda x: np.asarray(x) * np.array([1.0, 2.0, -8.0, 0.0]), VECTORS),
    "shift of each": (lambda x: np.asarray(x) + np.array([1.0, -2.0, 0.0, 30.0]), VECTORS),
    "standardisation": (lambda x: (x - MEANS) / DEVIATIONS, SPREAD),
    "standardisation of float64": (
        lambda x: ((x - MEANS.astype(float)) / DEVIATIONS).astype(np.float32),
        SPREAD.astype(float),
    ),
    "standardisation of channels": (
        lambda x: ((x / 255 - np.array([0.4, 0.5, 0.6])) / [0.1, 0.2, 0.3]).astype(np.float32).transpose(2, 0, 1),
        IMAGES,
    ),
    "axes": (lambda x: np.ascontiguousarray(x.transpose(2, 0, 1)), IMAGES),
    "axes and scale": (lambda x: x.transpose(2, 0, 1).astype(np.float32) / 255, IMAGES),
    "flat": (lambda x: x.ravel().astype(np.float32), IMAGES),
    "one part": (lambda x: x["observation"].astype(np.float32), GOALS),
    "several parts": (lambda x: {"o": x["observation"] * 2, "g": (x["desired_goal"], x["achieved_goal"])}, GOALS),
    "observation and goal": (concatenate_goal, GOALS),
    "a function of torch": (lambda x: torch.as_tensor(x).clamp(-0.5, 0.5).tanh(), VECTORS),
    "a scaler": (lambda x: SCALER.transform(torch.as_tensor(x)), VECTORS),
    "a module": (nn.Sequential(nn.Hardtanh(), nn.Softsign()), torch.from_numpy(VECTORS)),
}
UNKNOWN: dict[str, Callable[[Any], Any]] = {
    "clip": lambda x: np.clip(x, -2.5, 2.5),  # beyond all of the observations
    "clip of what was standardised": lambda x: np.clip((x - MEANS) / DEVIATIONS, -10, 10),
    "one feature that is on no line": lambda x: np.concatenate([x[:3] * [1.0, 2.0, 3.0], np.tanh(x[3:])]),
    "a small one beside a large one": lambda x: np.concatenate([x[:1] * 1e9, np.tanh(x[1:])]),
    "a table": lambda x: np.eye(4, dtype=np.float32)[int(x[0] > 0)],
    "a network of NumPy": lambda x: np.tanh(x),
}


def tensors(stack: Any) -> Any:
    return map_nested(torch.as_tensor, stack)


def extractor(phi: Callable[[Any], Any]) -> FeatureExtractor:
    if isinstance(phi, nn.Module):
        return FeatureExtractor(phi, lambda obs, device, phi: phi(torch.as_tensor(np.array(obs))))
    return FeatureExtractor(phi)


@pytest.mark.parametrize("name", KNOWN)
def test_a_phi_works_on_tensors_as_it_does_on_observations(name: str) -> None:
    phi, stack = KNOWN[name]
    features = extractor(phi)
    found = find_preprocessing(features, map_nested(lambda leaf: leaf[:10], tensors(stack)))
    rest = map_nested(lambda leaf: leaf[10:], tensors(stack))
    rows = [map_nested(lambda leaf, i=i: np.asarray(leaf[i]), stack) for i in range(10, 20)]
    torch.testing.assert_close(found(leaves_of(rest)), features(rows, "cpu"), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_phi_that_is_none_of_these_is_refused_with_the_way_out(name: str) -> None:
    with pytest.raises(ExportError, match=r"phi \(<lambda>\) cannot be exported.*torch operations"):
        find_preprocessing(FeatureExtractor(UNKNOWN[name]), torch.from_numpy(VECTORS))


def test_a_phi_that_draws_lots_is_refused() -> None:
    with pytest.raises(ExportError, match="returned different features for the same"):
        find_preprocessing(FeatureExtractor(lambda x: x + np.random.normal(size=4)), torch.from_numpy(VECTORS))


def test_batch_states_of_the_users_own_is_compared_too() -> None:
    def halved(obs: Any, device: Any, phi: Any) -> Any:
        return torch.as_tensor(np.array([phi(each) for each in obs])) / 2

    found = find_preprocessing(FeatureExtractor(lambda x: x, halved), torch.from_numpy(VECTORS))
    torch.testing.assert_close(found([torch.from_numpy(VECTORS)]), torch.from_numpy(VECTORS) / 2)
    with pytest.raises(ExportError, match="batch_states, or phi"):
        find_preprocessing(FeatureExtractor(lambda x: np.sin(x), halved), torch.from_numpy(VECTORS))


@pytest.mark.parametrize("n", [1, 2])
def test_a_line_through_two_points_proves_nothing(n: int) -> None:
    known = [*map(bytes, VECTORS[:n])]

    def only_known(x: Any) -> Any:
        assert bytes(x) in known  # and no others
        return np.sin(x)

    with pytest.raises(ExportError, match=r"scale and shift \(the same or different ones for each number\)"):
        find_preprocessing(FeatureExtractor(only_known), torch.from_numpy(VECTORS[:n]))
