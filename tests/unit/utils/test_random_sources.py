"""Whatever takes an `rng` refuses a seed in its place at once, by name."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pfrl_like import explorers, online
from pfrl_like.dataset import MDPDataset
from pfrl_like.dataset.selection import Selection
from pfrl_like.ope import Bootstrap
from pfrl_like.replay_buffers import EpisodicReplayBuffer, HindsightReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer


def recorded() -> MDPDataset:
    return MDPDataset.from_arrays(np.zeros((8, 2), np.float32), np.arange(8) % 2, np.zeros(8), np.arange(8) % 4 == 3)


TAKERS: dict[str, Callable[[Any], Any]] = {
    "replay buffer": lambda rng: ReplayBuffer(rng=rng),
    "prioritised one": lambda rng: PrioritizedReplayBuffer(rng=rng),
    "episodic one": lambda rng: EpisodicReplayBuffer(rng=rng),
    "hindsight one": lambda rng: HindsightReplayBuffer(10, lambda *_: np.zeros(1), rng=rng),
    "noise": lambda rng: explorers.AdditiveGaussian(0.1, rng=rng),
    "walking noise": lambda rng: explorers.AdditiveOU(rng=rng),
    "probabilities": lambda rng: explorers.Boltzmann(rng=rng),
    "epsilon-greedy": lambda rng: explorers.ConstantEpsilonGreedy(0.1, lambda: 0, rng=rng),
    "noise of d3rlpy's form": lambda rng: online.explorers.NormalNoise(rng=rng),
    "epsilon-greedy of d3rlpy's form": lambda rng: online.explorers.LinearDecayEpsilonGreedy(rng=rng),
    "intervals": lambda rng: Bootstrap(rng=rng),
    "minibatches": lambda rng: recorded().sample_batch(2, rng=rng),
    "sequences": lambda rng: recorded().sample_sequences(2, rng=rng),
    "minibatches of arrays": lambda rng: recorded().sample(2, rng=rng),
    "minibatches of some episodes": lambda rng: Selection(recorded()[:1]).sample_batch(2, rng=rng),
}


@pytest.mark.parametrize("taker", TAKERS)
def test_a_seed_is_no_source_of_randomness(taker: str) -> None:
    with pytest.raises(TypeError, match=r"^rng is 0 \(int\), expected a NumPy generator, such as "):
        TAKERS[taker](0)
    for rng in (None, np.random.default_rng(0), np.random.RandomState(0)):
        TAKERS[taker](rng)
