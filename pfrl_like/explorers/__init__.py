"""Explorers: for one environment and for a batch of them."""

from pfrl_like.explorers.additive_gaussian import AdditiveGaussian as AdditiveGaussian
from pfrl_like.explorers.additive_ou import AdditiveOU as AdditiveOU
from pfrl_like.explorers.boltzmann import Boltzmann as Boltzmann
from pfrl_like.explorers.epsilon_greedy import ConstantEpsilonGreedy as ConstantEpsilonGreedy
from pfrl_like.explorers.epsilon_greedy import ExponentialDecayEpsilonGreedy as ExponentialDecayEpsilonGreedy
from pfrl_like.explorers.epsilon_greedy import LinearDecayEpsilonGreedy as LinearDecayEpsilonGreedy
from pfrl_like.explorers.greedy import Greedy as Greedy
