"""Explorers. An explorer selects an agent's actions in training."""

from pfrl_like.explorers.additive_gaussian import AdditiveGaussian
from pfrl_like.explorers.additive_ou import AdditiveOU
from pfrl_like.explorers.boltzmann import Boltzmann
from pfrl_like.explorers.epsilon_greedy import (
    ConstantEpsilonGreedy,
    ExponentialDecayEpsilonGreedy,
    LinearDecayEpsilonGreedy,
)
from pfrl_like.explorers.greedy import Greedy

__all__ = [
    "AdditiveGaussian", "AdditiveOU", "Boltzmann", "ConstantEpsilonGreedy", "ExponentialDecayEpsilonGreedy",
    "Greedy", "LinearDecayEpsilonGreedy",
]  # fmt: skip
