"""Small networks of every kind that agents are made of, by name; each is made plain or recurrent."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from pfrl_like import policies, q_functions
from pfrl_like.action_value import DistributionalDiscreteActionValue
from pfrl_like.nn import ConcatObsAndAction, Lambda, RecurrentSequential

OBS, N_ACTIONS, HIDDEN = 5, 2, 8
BOX = spaces.Box(-1.0, 1.0, (N_ACTIONS,), np.float32)
#: Quantiles, atoms, and fractions that are drawn.
N_QUANTILES, ATOMS = 6, (7, 0.0, 12.0)
COUNTS = {"quantile_thresholds_N": 6, "quantile_thresholds_N_prime": 5, "quantile_thresholds_K": 4}


class DistributionalHead(nn.Module):
    """Turns rows of numbers into return distributions over 7 atoms from 0 to 12."""

    def __init__(self, n_actions: int) -> None:
        super().__init__()
        self.n_actions = n_actions
        self.register_buffer("z_values", torch.linspace(*ATOMS[1:], ATOMS[0]))

    def forward(self, x: torch.Tensor) -> DistributionalDiscreteActionValue:
        return DistributionalDiscreteActionValue(x.view(-1, self.n_actions, ATOMS[0]).softmax(2), self.z_values)


def in_a_row(recurrent: bool, *layers: nn.Module) -> nn.Module:
    """Layers one after the other."""
    return RecurrentSequential(*layers) if recurrent else nn.Sequential(*layers)


def features(recurrent: bool, n_inputs: int = OBS) -> list[nn.Module]:
    """Layers from inputs to `HIDDEN` numbers."""
    return [nn.Linear(n_inputs, HIDDEN), nn.Tanh(), *([nn.LSTM(HIDDEN, HIDDEN)] if recurrent else [])]


def quantile_head(n_actions: int) -> nn.Module:
    return q_functions.QuantileSingleModelStateQFunctionWithDiscreteAction(nn.Unflatten(1, (N_QUANTILES, n_actions)))


def embedding() -> nn.Module:
    return nn.Sequential(q_functions.CosineBasisLinear(4, HIDDEN), nn.ReLU())


# Q-functions of the state

#: Last layers, from `HIDDEN` numbers to the values of some actions.
VALUES: dict[str, Callable[[int], list[nn.Module]]] = {
    "expected": lambda n: [nn.Linear(HIDDEN, n), q_functions.DiscreteActionValueHead()],
    "streams": lambda n: [
        q_functions.DuelingStreams(nn.Linear(HIDDEN, n), nn.Linear(HIDDEN, 1)),
        q_functions.DiscreteActionValueHead(),
    ],
    "distributional": lambda n: [nn.Linear(HIDDEN, ATOMS[0] * n), DistributionalHead(n)],
    "quantile": lambda n: [nn.Linear(HIDDEN, N_QUANTILES * n), quantile_head(n)],
    "implicit": lambda n: [
        q_functions.ImplicitQuantileQFunction(nn.Identity(), embedding(), nn.Linear(HIDDEN, n), **COUNTS)
    ],
    "proposed": lambda n: [
        q_functions.FullyParametrizedQFunction(nn.Identity(), embedding(), nn.Linear(HIDDEN, n), nn.Linear(HIDDEN, 4))
    ],
    "quadratic": lambda n: [q_functions.FCQuadraticStateQFunction(HIDDEN, n, HIDDEN, 1, BOX)],
    "dueling": lambda n: [Lambda(as_frames), smaller(q_functions.DuelingDQN(n, 1))],
    "distributional dueling": lambda n: [
        Lambda(as_frames),
        smaller(q_functions.DistributionalDuelingDQN(n, *ATOMS, 1)),
    ],
    "ensemble": lambda n: [q_functions.QFunctionEnsemble(nn.Linear(HIDDEN, n) for _ in range(2))],
}
#: Whole networks of these kinds that are no rows of layers.
WHOLE: dict[tuple[str, bool], Callable[[int, int], nn.Module]] = {
    ("expected", False): lambda obs, n: q_functions.FCStateQFunctionWithDiscreteAction(obs, n, 16, 1),
    ("distributional", False): lambda obs, n: q_functions.DistributionalFCStateQFunctionWithDiscreteAction(
        obs, n, *ATOMS, 16, 1
    ),
    ("quantile", False): lambda obs, n: q_functions.QuantileFCStateQFunctionWithDiscreteAction(
        obs, n, N_QUANTILES, 16, 1
    ),
    ("implicit", False): lambda obs, n: q_functions.ImplicitQuantileQFunction(
        nn.Sequential(*features(False, obs)), embedding(), nn.Linear(HIDDEN, n), **COUNTS
    ),
    ("proposed", False): lambda obs, n: q_functions.FullyParametrizedQFunction(
        nn.Sequential(*features(False, obs)), embedding(), nn.Linear(HIDDEN, n), nn.Linear(HIDDEN, 4)
    ),
    ("implicit", True): lambda obs, n: q_functions.RecurrentImplicitQuantileQFunction(
        RecurrentSequential(*features(True, obs)), embedding(), nn.Linear(HIDDEN, n), **COUNTS
    ),
}


def as_frames(x: torch.Tensor) -> torch.Tensor:
    """Rows of numbers as pictures, for convolutions."""
    return x.repeat(1, 84 * 84 // HIDDEN).view(-1, 1, 84, 84)


def smaller(network: nn.Module) -> nn.Module:
    """A dueling network with few numbers where it has most, between the convolutions and the two streams."""
    n_features = 3136
    if hasattr(network, "main_stream"):
        network.main_stream, n_features = nn.Linear(n_features, 2 * HIDDEN), HIDDEN
    for name in ("a_stream", "v_stream"):
        stream = getattr(network, name)
        setattr(network, name, nn.Linear(n_features, getattr(stream, "output", stream).out_features))
    return network


def make_q_function(kind: str, recurrent: bool = False, obs_size: int = OBS, n_actions: int = N_ACTIONS) -> nn.Module:
    """A Q-function of the state."""
    if (kind, recurrent) in WHOLE:
        return WHOLE[kind, recurrent](obs_size, n_actions)
    return in_a_row(recurrent, *features(recurrent, obs_size), *VALUES[kind](n_actions))


# Critics: Q-functions of state and action

#: Observations, actions, hidden numbers, hidden layers.
SIZES = (OBS, N_ACTIONS, HIDDEN, 1)
#: Classes of critics, which give numbers or what the name says.
CRITICS: dict[str, Callable[[], nn.Module]] = {
    "numbers": lambda: q_functions.FCSAQFunction(*SIZES),
    "numbers, normalised": lambda: q_functions.FCBNSAQFunction(*SIZES),
    "numbers, late action": lambda: q_functions.FCLateActionSAQFunction(*SIZES),
    "numbers, late action, normalised": lambda: q_functions.FCBNLateActionSAQFunction(*SIZES),
    "numbers, dropout": lambda: q_functions.DropoutFCSAQFunction(*SIZES),
    "numbers, any model": lambda: q_functions.SingleModelStateActionQFunction(Pair()),
    "quantile": lambda: q_functions.QuantileFCSAQFunction(OBS, N_ACTIONS, N_QUANTILES, HIDDEN, 1),
    "distributional": lambda: q_functions.DistributionalFCSAQFunction(OBS, N_ACTIONS, *ATOMS, HIDDEN, 1),
    "implicit": lambda: q_functions.ImplicitQuantileFCSAQFunction(*SIZES, n_cosines=4, **COUNTS),
    "proposed": lambda: q_functions.FullyParametrizedFCSAQFunction(OBS, N_ACTIONS, 4, HIDDEN, 1, n_cosines=4),
}
#: Recurrent ones; the others learn beside a recurrent policy as they are.
RECURRENT_CRITICS: dict[str, Callable[[], nn.Module]] = {
    "numbers": lambda: q_functions.FCLSTMSAQFunction(*SIZES),
    **{kind: lambda kind=kind: in_a_row(True, ConcatObsAndAction(), *features(True, OBS + N_ACTIONS), *VALUES[kind](1))
       for kind in ("quantile", "distributional", "implicit", "proposed")},
}  # fmt: skip


class Pair(nn.Module):
    """A model of observation and action as two arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.obs, self.action = nn.Linear(OBS, 1), nn.Linear(N_ACTIONS, 1)

    def forward(self, obs: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        return self.obs(obs) + self.action(action)


def make_critic(kind: str, recurrent: bool = False) -> nn.Module:
    """A Q-function of state and action."""
    return (RECURRENT_CRITICS if recurrent and kind in RECURRENT_CRITICS else CRITICS)[kind]()


# Policies

NVEC = (2, 3)
#: How many numbers each head takes, the head, and the actions that it gives.
HEADS: dict[str, tuple[int, Callable[[], nn.Module], spaces.Space[Any]]] = {
    "deterministic": (N_ACTIONS, policies.DeterministicHead, BOX),
    "Gaussian": (2 * N_ACTIONS, policies.GaussianHeadWithDiagonalCovariance, BOX),
    "Gaussian, fixed": (N_ACTIONS, lambda: policies.GaussianHeadWithFixedCovariance(0.3), BOX),
    "Gaussian, learnt": (N_ACTIONS, lambda: policies.GaussianHeadWithStateIndependentCovariance(N_ACTIONS), BOX),
    "squashed": (2 * N_ACTIONS, policies.SquashedGaussianHead, BOX),
    "softmax": (N_ACTIONS, policies.SoftmaxCategoricalHead, spaces.Discrete(N_ACTIONS)),
    "several softmax": (sum(NVEC), lambda: policies.MultiCategoricalHead(NVEC), spaces.MultiDiscrete(NVEC)),
}


def policy_layers(head: str) -> list[nn.Module]:
    """Layers from `HIDDEN` numbers to a distribution of actions."""
    size, make_head, _ = HEADS[head]
    return [nn.Linear(HIDDEN, size), make_head()]


def make_policy(head: str, recurrent: bool = False) -> nn.Module:
    """A policy."""
    first = [nn.GRU(OBS, HIDDEN)] if recurrent else features(False)  # another memory than that of critics
    return in_a_row(recurrent, *first, *policy_layers(head))


def make_value(recurrent: bool = False) -> nn.Module:
    """A value function of the state."""
    return in_a_row(recurrent, *features(recurrent), nn.Linear(HIDDEN, 1))
