"""What a policy gives for observations, and whether its actions are those of data or of an environment."""

import dataclasses
import math
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical, Distribution

from pfrl_like.algos.fitting.spaces import check_built_for
from pfrl_like.distributions import mode_of
from pfrl_like.learning.acting import MISFITS, misfit
from pfrl_like.learning.compatibility.recorded_data import OneObservation
from pfrl_like.ope.fqe_kind import kind_told_by
from pfrl_like.ope.policies import agent_of, certain, features_of, policy_of, reader_of
from pfrl_like.ope.rows import Array, in_parts
from pfrl_like.random_streams.isolated_rng import isolated_rng
from pfrl_like.utils.contexts import evaluating_readers


def distribution_of(policy: nn.Module, agent: Any, obs: Any, argument: str = "algo") -> Distribution:
    """What a policy gives for observations.

    Args:
        policy: What `policy_of` gives.
        agent: Whose features come before it, as `reader_of` has it.
        obs: Observations, [n, ...].
        argument: What errors call the policy.

    Raises:
        ValueError: If it cannot take such observations.
        TypeError: If it gives no distributions.
    """
    try:
        distribution = policy(features_of(agent, obs))
    except MISFITS as error:
        if type(error) not in MISFITS:  # out of memory, not implemented, ...
            raise
        raise misfit(obs, error, argument) from error
    if not isinstance(distribution, Distribution):
        raise TypeError(f"{argument} gives a {type(distribution).__name__}, expected distributions of actions")
    return distribution


def first_distribution(policy: nn.Module, agent: Any, obs: Any) -> Distribution:
    """`distribution_of` for one observation, [1, ...], by which a policy is tried; the random streams stay."""
    with torch.no_grad(), evaluating_readers(policy), isolated_rng():
        return distribution_of(policy, agent, obs)


def check_actions(
    distribution: Distribution,
    discrete_action: bool,
    size: int,
    argument: str = "algo",
    *,
    env: bool = False,
) -> None:
    """Refuse a policy of other actions than those of data or of an environment.

    Args:
        distribution: What it gives for some observations, [n].
        discrete_action: Whether actions are indices.
        size: Numbers of an action, or how many discrete actions there are.
        argument: What errors call the policy.
        env: Whether they are those of an environment, which has to have every action of the policy.

    Raises:
        TypeError: If its actions are of the other kind.
        ValueError: If they are of another size, or fewer discrete ones.
    """
    shape = tuple(distribution.batch_shape + distribution.event_shape)
    categorical = isinstance(distribution, Categorical)
    if (categorical, len(shape) == 1) != (discrete_action, discrete_action):
        kinds = "continuous", "discrete"
        raise TypeError(
            f"{argument} gives {kinds[not discrete_action]} actions, of shape {shape}, but those of "
            f"{'the environment' if env else 'the data'} are {kinds[discrete_action]}"
        )
    has = distribution.probs.shape[-1] if isinstance(distribution, Categorical) else math.prod(shape[1:])
    if has < size or (has > size and (env or not discrete_action)):
        what = "discrete actions" if discrete_action else "numbers in an action"
        raise ValueError(f"{argument} has {has} {what}, but {'the environment has' if env else 'the data have'} {size}")


def check_fits(algo: Any, discrete_action: bool, observation_shape: Any, action_size: int) -> None:
    """Refuse data of other shapes, or of another kind of actions, than an algorithm says that it has.

    Args:
        algo: As of `policy_of`.
        discrete_action: Whether actions of the data are indices.
        observation_shape: Shape of an observation of the data, frames not stacked.
        action_size: Numbers of an action of the data, or how many discrete actions occur.

    Raises:
        TypeError: If actions are of the other kind.
        ValueError: If shapes differ.
    """
    told = kind_told_by(algo)
    if told is not None and told != discrete_action:
        kinds = "continuous", "discrete"
        raise TypeError(f"algo gives {kinds[told]} actions, but those of the data are {kinds[discrete_action]}")
    known = getattr(algo, "observation_shape_", None), getattr(algo, "action_size_", None)
    check_built_for(algo, *known, observation_shape, action_size)


def n_actions_of(algo: Any, shown: int, observation: OneObservation) -> int:
    """How many discrete actions there are: those that data show, or more if the algorithm knows of more.

    Args:
        algo: As of `policy_of`.
        shown: How many there are in the data.
        observation: What an agent or a module is asked about.
    """
    known = getattr(algo, "action_size_", None)
    if known is None:
        if isinstance(algo, nn.Module):
            given: Any = first_distribution(policy_of(algo, None), None, observation.sample()[None])
        else:
            given = agent.probe(observation) if hasattr(agent := agent_of(algo), "probe") else None
        given = given[0] if isinstance(given, tuple) else given
        known = given.logits.shape[-1] if isinstance(given, Categorical) else getattr(given, "n_actions", 0)
    return max(shown, known or 0)


@dataclasses.dataclass(frozen=True, eq=False)
class Tried:
    """A policy that has the actions that are asked for, as one observation has shown.

    Attributes:
        policy: What `policy_of` gives.
        agent: Whose features come before it, as of `reader_of`.
        distribution: What it gives for the observation.
        size: Numbers of an action, or how many discrete actions there are.
    """

    policy: nn.Module
    agent: Any
    distribution: Distribution
    size: int


def tried(algo: Any, observation: OneObservation, discrete_action: bool, size: int, env: bool = False) -> Tried:
    """The policy of an algorithm, which is asked about one observation.

    Args:
        algo: As of `policy_of`.
        observation: One of the data or of the environment, frames stacked.
        discrete_action: Whether their actions are indices.
        size: Numbers of an action, or how many discrete actions there are; of data there may be more, which do not
            occur.
        env: Whether they are those of an environment.

    Raises:
        TypeError: If it cannot act, or has actions of the other kind.
        ValueError: If it does not take the observation, or has actions of another size, or fewer discrete ones.
        NotFittedError: If it is not built yet.
    """
    if discrete_action and not env:
        size = n_actions_of(algo, size, observation)
    policy = policy_of(algo, size if discrete_action else None)
    agent = reader_of(algo, policy)
    distribution = first_distribution(policy, agent, observation.sample()[None])
    check_actions(distribution, discrete_action, size, env=env)
    return Tried(policy, agent, distribution, size)


def log_probs(
    policy: nn.Module, obs: Any, action: Any, agent: Any = None, *, modes: bool = False, argument: str = "policy"
) -> Array:
    """Log-probabilities (densities) of actions under a policy, [n].

    Args:
        policy: Module from features to distributions of actions.
        obs: Observations, [n, ...]; what has a length and gives slices is enough.
        action: Actions, [n, A] or [n].
        agent: Whose `features` and `device` come before the policy; None for none.
        modes: Whether the policy is certain of its modes; for discrete actions.
        argument: What errors call the policy.

    Raises:
        TypeError: If it gives no distributions, or actions of the other kind, or has no densities.
        ValueError: If it cannot take the observations, its actions are of another size, there are not as many of one
            as of the other, or modes of continuous actions are asked for.
    """
    action = np.asarray(action)
    discrete = action.ndim == 1
    if len(action) != len(obs):
        raise ValueError(f"there are {len(obs)} observations in obs and {len(action)} actions, expected as many")
    if modes and not discrete:
        raise ValueError("modes is True, but modes of continuous actions have no probabilities")

    def of_some(obs: Any, action: Array) -> Array:
        distribution: Any = distribution_of(policy, agent, obs, argument)
        size = int(action.max(initial=-1)) + 1 if discrete else math.prod(action.shape[1:])
        check_actions(distribution, discrete, size, argument)
        if not has_density(distribution):
            raise TypeError(f"{argument} gives {type(distribution).__name__}, which has no density")
        if modes:
            distribution = certain(mode_of(distribution), distribution.probs.shape[-1])
        taken = torch.as_tensor(action, device=getattr(agent, "device", "cpu"))
        return np.asarray(distribution.log_prob(taken if discrete else taken.float()).cpu(), np.float64)

    with torch.no_grad(), evaluating_readers(policy):
        return in_parts(of_some, obs, action)


def has_density(distribution: Any) -> bool:
    """Whether a distribution tells how probable an action is, and is not certain of one of continuous ones."""
    return getattr(distribution, "has_density", True)
