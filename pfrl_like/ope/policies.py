"""Policies of trained algorithms as modules from features to distributions, and their distributions and densities."""

import copy
import math
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import AffineTransform, Distribution, TransformedDistribution
from torch.distributions import Categorical as TorchCategorical

from pfrl_like.action_value import ActionValue
from pfrl_like.algos.fitting.spaces import check_built_for
from pfrl_like.batch import map_nested
from pfrl_like.distributions import Categorical, MaskedCategorical, mode_of
from pfrl_like.errors import NotFittedError
from pfrl_like.learning.acting import Acting, samples_its_policy
from pfrl_like.learning.model_outputs import taken_by
from pfrl_like.nn import ReturnConditionedTransformer
from pfrl_like.nn.empirical_normalization import holding_still, normalizations_of
from pfrl_like.nn.fast_forward import fast_forward
from pfrl_like.ope.episodes import Array, in_parts
from pfrl_like.policies import DeterministicHead
from pfrl_like.preprocessing.scaler import AffineScaler
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.utils.checks import check_numbers
from pfrl_like.utils.contexts import evaluating_readers


class GreedyPolicy(nn.Module):
    """A policy of a Q-function's greedy actions; discrete actions are random with probability `epsilon`.

    Args:
        q_function: Module from features to an `ActionValue`.
        epsilon: Probability of a random action.

    Raises:
        ValueError: If `epsilon` is not from 0 to 1.
        TypeError: If it is no number.
    """

    def __init__(self, q_function: nn.Module, epsilon: float = 0.0) -> None:
        super().__init__()
        check_numbers(0, 1, epsilon=epsilon)
        self.q_function, self.epsilon, self.certain = q_function, epsilon, DeterministicHead()

    def forward(self, obs: Any) -> Any:
        """A `Categorical`; for continuous actions the output of a `DeterministicHead`."""
        value: ActionValue = fast_forward(self.q_function, obs)
        return GreedyChoice(value, self.epsilon) if hasattr(value, "n_actions") else self.certain(value.greedy_actions)


class GreedyChoice(Categorical):
    """Distributions of epsilon-greedy actions, which can be restricted to the allowed actions.

    Args:
        value: Values of discrete actions.
        epsilon: Probability of a random action.
    """

    def __init__(self, value: Any, epsilon: float) -> None:
        super().__init__(_near_certainty(value.greedy_actions, torch.ones_like(value.q_values), epsilon))
        self.value, self.epsilon = value, epsilon

    def masked(self, action_mask: Any) -> MaskedCategorical:
        """Epsilon-greedy distributions among the allowed actions; argument and errors are those of `Categorical`."""
        value = self.value.masked(action_mask)
        mask = value.action_mask | ~value.action_mask.any(-1, keepdim=True)
        return MaskedCategorical(_near_certainty(value.greedy_actions, mask, self.epsilon), mask)


class FirstOfModel(nn.Module):
    """A policy of a model that outputs distributions together with values.

    Args:
        model: Module from features to a tuple that begins with a distribution.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, obs: Any) -> Any:
        """The distributions."""
        return fast_forward(self.model, obs)[0]


class StillPolicy(nn.Module):
    """A policy with its agent's normaliser of observations, whose moments are not updated by the evaluation.

    Args:
        policy: Module from features to distributions.
        normalizer: Normaliser that is applied to the features first; None for none.
    """

    def __init__(self, policy: nn.Module, normalizer: nn.Module | None) -> None:
        super().__init__()
        self.policy, self.normalizer = policy, normalizer

    def forward(self, obs: Any) -> Any:
        """The distributions."""
        with holding_still(self):
            return fast_forward(self.policy, obs if self.normalizer is None else self.normalizer(obs, update=False))


class RescaledPolicy(nn.Module):
    """A policy of an estimator with an `action_scaler`, with actions scaled back to those of the data.

    Args:
        policy: Module from features to distributions of scaled actions.
        scaler: Fitted affine scaler of actions.
    """

    def __init__(self, policy: nn.Module, scaler: AffineScaler) -> None:
        super().__init__()
        self.policy, self.scaler, self.certain = policy, scaler, DeterministicHead()

    def forward(self, obs: Any) -> Any:
        """The distributions; they have densities if those of scaled actions have."""
        scaled = fast_forward(self.policy, obs)
        mode = mode_of(scaled)
        if not getattr(scaled, "has_density", True):
            return self.certain(self.scaler.reverse_transform(mode))
        ends = torch.zeros_like(mode[0]), torch.ones_like(mode[0])
        low, high = (self.scaler.reverse_transform(end) for end in ends)
        return TransformedDistribution(scaled, [AffineTransform(low, high - low, event_dim=1)], validate_args=False)


class ActingPolicy(nn.Module):
    """The actions of an algorithm as deterministic distributions, for algorithms that do not act by one network alone.

    Args:
        algo: An agent with `batch_act` and `eval_mode`, or anything with `predict`, of raw observations.
        n_actions: Number of discrete actions; None for continuous actions.
        argument: Name of the argument in errors.

    Raises:
        TypeError: If `algo` cannot act.
    """

    def __init__(self, algo: Any, n_actions: int | None, argument: str = "algo") -> None:
        super().__init__()
        self.ask, self.n_actions, self.certain = _question(algo, argument), n_actions, DeterministicHead()

    def forward(self, obs: Tensor) -> Any:
        """A `Categorical`; for continuous actions the output of a `DeterministicHead`."""
        action = torch.as_tensor(np.asarray(self.ask(obs.cpu().numpy())), device=obs.device)
        return self.certain(action.float()) if self.n_actions is None else UnmaskedChoice(action, self.n_actions)


class UnmaskedChoice(Categorical):
    """Deterministic distributions of discrete actions that were chosen without action masks.

    Args:
        action: The actions, [N].
        n_actions: Number of discrete actions.
    """

    def __init__(self, action: Tensor, n_actions: int) -> None:
        super().__init__(_near_certainty(action, torch.ones(len(action), n_actions, device=action.device)))

    def masked(self, action_mask: Any) -> NoReturn:
        """Raise an error: the choice among the allowed actions is unknown.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            "an action_mask came, of which the algorithm that is evaluated is not told, for it chooses in a way of its "
            "own: evaluate one that takes the largest value of a Q-function, or follows a policy"
        )


class NoPolicy(nn.Module):
    """Placeholder for an unknown policy."""

    def forward(self, obs: Any) -> Any:
        """Raise an error: the policy is unknown.

        Raises:
            NotFittedError: Always.
        """
        raise NotFittedError("the algorithm that is evaluated is not known here: give algo, or set it")


def _near_certainty(action: Tensor, mask: Tensor, epsilon: float = 0.0) -> Tensor:
    """Log-probabilities, [N, n_actions]: the actions of the mask share `epsilon`, and `action` gets the rest, too."""
    one_hot = nn.functional.one_hot(action.long(), mask.shape[-1])
    return ((1 - epsilon) * one_hot + epsilon * mask / mask.sum(-1, keepdim=True)).log()


def agent_of(algo: Any, argument: str = "algo") -> Any:
    """The agent of an estimator, which has to be built; an agent or another object that acts is returned itself.

    Args:
        algo: An agent, an estimator, anything with `predict`, or a module that gives distributions.
        argument: Name of the argument in errors.

    Raises:
        NotFittedError: If `algo` is an estimator that is not built yet.
        TypeError: If `algo` is a class.
    """
    if isinstance(algo, type):
        raise TypeError(f"{argument} is the class {algo.__name__}, expected one that is made of it")
    if not hasattr(algo, "create_impl"):
        return algo
    if algo.impl is None:
        raise NotFittedError(f"{argument} is {type(algo).__name__}, not built yet: fit it, or call create_impl")
    return algo.impl


def policy_of(algo: Any, n_actions: int | None, argument: str = "algo") -> nn.Module:
    """The policy of an algorithm as a module that shares its parameters and does not change the algorithm.

    Args:
        algo: An agent, an estimator, anything with `predict`, or a module that gives distributions.
        n_actions: Number of discrete actions; None for continuous actions.
        argument: Name of the argument in errors.

    Raises:
        TypeError: If `algo` cannot act, or its actions depend on more than the state.
        NotFittedError: If `algo` is an estimator that is not built yet.
    """
    if isinstance(algo, nn.Module):
        return _still(algo)
    agent = agent_of(algo, argument)
    if getattr(agent, "recurrent", False):
        raise TypeError(f"{argument} is a recurrent {type(agent).__name__}: evaluate it with agents.FittedQEvaluation")
    if isinstance(getattr(agent, "policy", None), ReturnConditionedTransformer):
        raise TypeError(f"{argument} is {type(agent).__name__}, whose actions depend on more than the state")
    policy = agent.policy if _acts_by_policy(agent) else _policy_of_model(agent)
    scaler = getattr(algo, "action_scaler_", None)
    if policy is None or not isinstance(scaler, AffineScaler | None):
        return ActingPolicy(agent if scaler is None else algo, n_actions, argument)
    still = _still(policy, getattr(agent, "obs_normalizer", None))
    return still if scaler is None else RescaledPolicy(still, scaler)


def reader_of(algo: Any, policy: nn.Module) -> Any:
    """The agent whose `features` are the input of the policy; None if the policy takes raw observations."""
    return None if isinstance(policy, ActingPolicy) else agent_of(algo)


def features_of(agent: Any, obs: Any) -> Any:
    """The input of a policy: the agent's features of observations, on its device; without an agent the observations."""
    device = getattr(agent, "device", "cpu")
    features = agent.features(obs, device) if hasattr(agent, "features") else obs
    return map_nested(lambda leaf: torch.as_tensor(leaf, device=device), features)


def lying_on(device: torch.device, policy: nn.Module) -> nn.Module:
    """The policy itself if it is on the device, or else a copy there; the algorithm's policy is not moved."""
    tensors = [*policy.parameters(), *policy.buffers()]
    return policy if all(tensor.device == device for tensor in tensors) else copy.deepcopy(policy).to(device)


def evaluates_modes(algo: Any) -> bool:
    """True if an algorithm takes the modes of its policy in evaluation, not samples."""
    return bool(getattr(agent_of(algo), "act_deterministically", True))


def _acts_by_policy(agent: Any) -> bool:
    """True if an agent's actions are always samples or modes of its `policy`."""
    takes_modes = getattr(type(agent), "greedy_actions", None) is Acting.greedy_actions
    return samples_its_policy(agent) and (takes_modes or not agent.act_deterministically)


def _policy_of_model(agent: Any) -> nn.Module | None:
    """The policy of an agent's `model`; None if it has no model, or acts by more than it, such as `DiscreteBCQ`."""
    model = getattr(agent, "model", None)
    if not isinstance(model, nn.Module) or getattr(type(agent), "greedy_actions", None) is not Acting.greedy_actions:
        return None
    if agent.value_type is tuple:
        return FirstOfModel(model)
    if issubclass(agent.value_type, torch.distributions.Distribution):
        return model
    return GreedyPolicy(model)


def _still(policy: nn.Module, normalizer: nn.Module | None = None) -> nn.Module:
    """A policy without updates of moments: the policy itself if it has no normaliser, or else a `StillPolicy`."""
    return StillPolicy(policy, normalizer) if normalizer is not None or normalizations_of(policy) else policy


def _question(algo: Any, argument: str) -> Any:
    if hasattr(algo, "predict"):
        return algo.predict
    if not hasattr(algo, "batch_act") or not hasattr(algo, "eval_mode"):
        expected = "an agent, an estimator or something with predict"
        raise TypeError(f"{argument} is {type(algo).__name__}, expected {expected}")

    def ask(obs: Any) -> Any:
        with algo.eval_mode():
            return algo.batch_act([*obs])

    return ask


def distribution_of(policy: nn.Module, agent: Any, obs: Any, argument: str = "algo") -> Distribution:
    """The distributions of actions that a policy gives for observations.

    Args:
        policy: Policy made by `policy_of`.
        agent: Agent whose features are the input of the policy, or None, as returned by `reader_of`.
        obs: Observations, [n, ...].
        argument: Name of the argument in errors.

    Raises:
        ValueError: If the policy cannot take such observations.
        TypeError: If the policy gives no distributions.
    """
    with taken_by(argument, obs):
        distribution = policy(features_of(agent, obs))
    if not isinstance(distribution, Distribution):
        raise TypeError(f"{argument} gives {type(distribution).__name__}, expected distributions of actions")
    return distribution


def first_distribution(policy: nn.Module, agent: Any, obs: Any) -> Distribution:
    """`distribution_of` for one observation, [1, ...], as a dry run of a policy; random streams stay unchanged."""
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
    """Raise an error if a policy has other actions than the data or an environment.

    Args:
        distribution: Distribution that the policy gives for some observations, [n].
        discrete_action: Whether actions are discrete.
        size: Size of a continuous action, or number of discrete actions.
        argument: Name of the argument in errors.
        env: Whether the actions are those of an environment, which must have all actions of the policy.

    Raises:
        TypeError: If the policy's actions are of the other kind.
        ValueError: If the policy's actions have another size, or it has too few discrete actions, or, for an
            environment, too many.
    """
    shape = tuple(distribution.batch_shape + distribution.event_shape)
    categorical = isinstance(distribution, TorchCategorical)
    if (categorical, len(shape) == 1) != (discrete_action, discrete_action):
        kinds = "continuous", "discrete"
        raise TypeError(
            f"{argument} gives {kinds[not discrete_action]} actions, of shape {shape}, but those of "
            f"{'the environment' if env else 'the data'} are {kinds[discrete_action]}"
        )
    has = distribution.probs.shape[-1] if isinstance(distribution, TorchCategorical) else math.prod(shape[1:])
    if has < size or (has > size and (env or not discrete_action)):
        what = "discrete actions" if discrete_action else "numbers in an action"
        raise ValueError(f"{argument} has {has} {what}, but {'the environment has' if env else 'the data have'} {size}")


def check_fits(algo: Any, discrete_action: bool, observation_shape: Any, action_size: int) -> None:
    """Raise an error if data have other shapes, or another kind of actions, than an algorithm declares.

    Args:
        algo: An agent, an estimator, anything with `predict`, or a module that gives distributions.
        discrete_action: Whether actions of the data are discrete.
        observation_shape: Shape of an observation of the data, frames not stacked.
        action_size: Size of an action of the data, or number of discrete actions that occur, which may be smaller.

    Raises:
        TypeError: If the kinds of actions differ.
        ValueError: If the shapes differ.
    """
    told = kind_told_by(algo)
    if told is not None and told != discrete_action:
        kinds = "continuous", "discrete"
        raise TypeError(f"algo gives {kinds[told]} actions, but those of the data are {kinds[discrete_action]}")
    known = getattr(algo, "observation_shape_", None), getattr(algo, "action_size_", None)
    check_built_for(algo, *known, observation_shape, action_size)


def n_actions_of(algo: Any, shown: int, observation: Any) -> int:
    """Number of discrete actions: that of the data, or that of the algorithm if it is larger.

    Args:
        algo: An agent, an estimator, anything with `predict`, or a module that gives distributions.
        shown: Number of discrete actions in the data.
        observation: Observation for a dry run of an agent or a module, which shows its number of actions.
    """
    known = getattr(algo, "action_size_", None)
    if known is None:
        if isinstance(algo, nn.Module):
            given: Any = first_distribution(policy_of(algo, None), None, observation[None])
        else:
            agent = agent_of(algo)
            given = agent.probe(agent.features([observation], agent.device)) if hasattr(agent, "probe") else None
        given = given[0] if isinstance(given, tuple) else given
        known = given.logits.shape[-1] if isinstance(given, TorchCategorical) else getattr(given, "n_actions", 0)
    return max(shown, known or 0)


class Tried(NamedTuple):
    """A policy whose actions were checked in a dry run with one observation.

    Attributes:
        policy: Policy made by `policy_of`.
        agent: Agent whose features are the input of the policy, or None, as returned by `reader_of`.
        distribution: Distribution that the policy gives for the observation.
        size: Size of a continuous action, or number of discrete actions.
    """

    policy: nn.Module
    agent: Any
    distribution: Distribution
    size: int


def tried(algo: Any, observation: Any, discrete_action: bool, size: int, env: bool = False) -> Tried:
    """The policy of an algorithm, checked in a dry run with one observation.

    Args:
        algo: An agent, an estimator, anything with `predict`, or a module that gives distributions.
        observation: An observation of the data or of the environment, frames stacked.
        discrete_action: Whether actions are discrete.
        size: Size of a continuous action, or number of discrete actions; in data it may be smaller.
        env: Whether the actions are those of an environment, which must have all actions of the policy.

    Raises:
        TypeError: If `algo` cannot act, or has actions of the other kind.
        ValueError: If `algo` does not take the observation, its actions have another size, or it has too few discrete
            actions, or, for an environment, too many.
        NotFittedError: If `algo` is an estimator that is not built yet.
    """
    if discrete_action and not env:
        size = n_actions_of(algo, size, observation)
    policy = policy_of(algo, size if discrete_action else None)
    agent = reader_of(algo, policy)
    distribution = first_distribution(policy, agent, observation[None])
    check_actions(distribution, discrete_action, size, env=env)
    return Tried(policy, agent, distribution, size)


def log_probs(
    policy: nn.Module, obs: Any, action: Any, agent: Any = None, *, modes: bool = False, argument: str = "policy"
) -> Array:
    """Log-probabilities (densities) of actions under a policy, [n].

    Args:
        policy: Module from features to distributions of actions.
        obs: Observations, [n, ...], or an object with a length and slices.
        action: Actions, [n, A] or [n].
        agent: Agent whose `features`, on its `device`, are the input of the policy; None if it takes the observations.
        modes: Whether the policy always takes its modes; for discrete actions only.
        argument: Name of the argument in errors.

    Raises:
        TypeError: If the policy gives no distributions, or actions of the other kind, or has no densities.
        ValueError: If the policy cannot take the observations, its actions have another size, the numbers of
            observations and actions differ, or `modes` is True for continuous actions.
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
            distribution = UnmaskedChoice(mode_of(distribution), distribution.probs.shape[-1])
        taken = torch.as_tensor(action, device=getattr(agent, "device", "cpu"))
        return np.asarray(distribution.log_prob(taken if discrete else taken.float()).cpu(), np.float64)

    with torch.no_grad(), evaluating_readers(policy):
        return in_parts(of_some, obs, action)


def has_density(distribution: Any) -> bool:
    """True if a distribution has probabilities or densities; a deterministic one of continuous actions has none."""
    return getattr(distribution, "has_density", True)


def kind_told_by(*algos: Any) -> bool | None:
    """True if the first agent or estimator that declares its kind of actions has discrete ones; None if none does."""
    for algo in algos:
        if (kind := getattr(algo, "action_kind", None)) is not None:
            return bool(kind[0] == "discrete")
        if (discrete := getattr(algo, "discrete_action", None)) is not None:
            return bool(discrete)
    return None
