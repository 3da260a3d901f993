"""Policies of trained algorithms, as modules that map features to action distributions."""

import contextlib
import copy
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import AffineTransform, Distribution, TransformedDistribution
from torch.distributions import Categorical as TorchCategorical

from pfrl_like.action_value import ActionValue
from pfrl_like.algos.fitting.spaces import check_built_for
from pfrl_like.algos.random_policy import RandomActions
from pfrl_like.batch import first_leaf, map_nested
from pfrl_like.distributions import Categorical, MaskedCategorical, mode_of
from pfrl_like.errors import NotFittedError
from pfrl_like.learning.acting import Acting, samples_from_policy
from pfrl_like.learning.model_outputs import obs_in_errors
from pfrl_like.nn import ReturnConditionedTransformer
from pfrl_like.nn.empirical_normalization import holding_still, normalizations_of
from pfrl_like.nn.fast_forward import fast_forward
from pfrl_like.ope.episodes import Array, in_chunks
from pfrl_like.policies import DeterministicHead
from pfrl_like.preprocessing.features import rows_of_stack
from pfrl_like.preprocessing.scaler import AffineScaler
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.utils.checks import check_numbers
from pfrl_like.utils.contexts import evaluation_mode


class GreedyPolicy(nn.Module):
    """Policy that selects the greedy actions of a Q-function. With probability `epsilon`, a discrete action is random.

    Args:
        q_function: Module that maps features to an `ActionValue`.
        epsilon: Probability of a random action.

    Raises:
        ValueError: If `epsilon` is not in [0, 1].
        TypeError: If `epsilon` is not a number.
    """

    def __init__(self, q_function: nn.Module, epsilon: float = 0.0) -> None:
        super().__init__()
        check_numbers(0, 1, epsilon=epsilon)
        self.q_function, self.epsilon, self.deterministic = q_function, epsilon, DeterministicHead()

    def forward(self, obs: Any) -> Any:
        """Return a `Categorical`, or the output of a `DeterministicHead` if actions are continuous."""
        value: Any = fast_forward(self.q_function, obs)
        if not hasattr(value, "n_actions"):
            return self.deterministic(value.greedy_actions)
        return EpsilonGreedy(value.greedy_actions, torch.ones_like(value.q_values), self.epsilon, value)


class EpsilonGreedy(Categorical):
    """Distributions of greedy or epsilon-greedy actions.

    Args:
        action: Greedy actions, [N].
        ones: Tensor of ones, [N, n_actions].
        epsilon: Probability of a random action.
        value: `ActionValue` whose greedy actions are `action`, needed for `masked`. None if there is no such value.
    """

    def __init__(self, action: Tensor, ones: Tensor, epsilon: float = 0.0, value: Any = None) -> None:
        super().__init__(_epsilon_greedy_log_probs(action, ones, epsilon))
        self.value, self.epsilon = value, epsilon

    def masked(self, action_mask: Any) -> MaskedCategorical:
        """Return epsilon-greedy distributions over the allowed actions. `action_mask` is as in `Categorical.masked`.

        Raises:
            TypeError: If `value` is None.
        """
        if self.value is None:
            raise TypeError("action_mask: not supported if actions need more than one network, expected None")
        value = self.value.masked(action_mask)
        mask = value.action_mask | ~value.action_mask.any(-1, keepdim=True)
        return MaskedCategorical(_epsilon_greedy_log_probs(value.greedy_actions, mask, self.epsilon), mask)


class NormalizedPolicy(nn.Module):
    """Policy that applies an agent's observation normaliser. The statistics of normalisers are not changed.

    Args:
        policy: Module that maps features to action distributions, or to tuples (distribution, values).
        normalizer: Normaliser that is applied to the features before the policy. None disables normalisation.
    """

    def __init__(self, policy: nn.Module, normalizer: nn.Module | None) -> None:
        super().__init__()
        self.policy, self.normalizer = policy, normalizer

    def forward(self, obs: Any) -> Any:
        """Return the action distributions."""
        with holding_still(self):
            output = fast_forward(self.policy, obs if self.normalizer is None else self.normalizer(obs, update=False))
        return output[0] if isinstance(output, tuple) else output


class RescaledPolicy(nn.Module):
    """Policy of an estimator with an `action_scaler`. The policy returns distributions of unscaled actions.

    Args:
        policy: Module that maps features to distributions of scaled actions.
        scaler: Fitted affine scaler of actions.
    """

    def __init__(self, policy: nn.Module, scaler: AffineScaler) -> None:
        super().__init__()
        self.policy, self.scaler, self.deterministic = policy, scaler, DeterministicHead()

    def forward(self, obs: Any) -> Any:
        """Return the distributions of unscaled actions, with densities if the scaled distributions have densities."""
        scaled = fast_forward(self.policy, obs)
        mode = mode_of(scaled)
        if not getattr(scaled, "has_density", True):
            return self.deterministic(self.scaler.reverse_transform(mode))
        ends = torch.zeros_like(mode[0]), torch.ones_like(mode[0])
        low, high = (self.scaler.reverse_transform(end) for end in ends)
        return TransformedDistribution(scaled, [AffineTransform(low, high - low, event_dim=1)], validate_args=False)


class ActingPolicy(nn.Module):
    """Policy with deterministic distributions, for algorithms whose actions need more than one network.

    Args:
        algo: Agent with `batch_act` and `eval_mode`, or object with `predict`. These methods take raw observations.
        n_actions: Number of discrete actions; None for continuous actions.
        argument: Name of the argument in error messages.

    Raises:
        TypeError: If `algo` cannot act.
    """

    def __init__(self, algo: Any, n_actions: int | None, argument: str = "algo") -> None:
        super().__init__()
        if not hasattr(algo, "predict") and not (hasattr(algo, "batch_act") and hasattr(algo, "eval_mode")):
            raise TypeError(f"{argument} is {type(algo).__name__}, expected an agent, or an object with predict")
        self.algo, self.n_actions, self.deterministic = algo, n_actions, DeterministicHead()

    def forward(self, obs: Any) -> Any:
        """Return a `Categorical`, or the output of a `DeterministicHead` if actions are continuous."""
        raw = map_nested(lambda leaf: leaf.cpu().numpy(), obs)
        predicts = hasattr(self.algo, "predict")
        with contextlib.nullcontext() if predicts else self.algo.eval_mode():
            selected = self.algo.predict(raw) if predicts else self.algo.batch_act(rows_of_stack(raw))
        action = torch.as_tensor(np.asarray(selected), device=first_leaf(obs).device)
        if self.n_actions is None:
            return self.deterministic(action.float())
        return EpsilonGreedy(action, torch.ones(len(action), self.n_actions, device=action.device))


class UniformPolicy(nn.Module):
    """Policy that selects discrete actions with equal probabilities.

    Args:
        n_actions: Number of discrete actions.
    """

    def __init__(self, n_actions: int) -> None:
        super().__init__()
        self.n_actions = n_actions

    def forward(self, obs: Any) -> Categorical:
        """Return a `Categorical`."""
        leaf = first_leaf(obs)
        return Categorical(torch.zeros(len(leaf), self.n_actions, device=leaf.device))


class NoPolicy(nn.Module):
    """Placeholder for an unknown policy."""

    def forward(self, obs: Any) -> Any:
        """Raise an error, because the policy is unknown.

        Raises:
            NotFittedError: Always.
        """
        raise NotFittedError("the evaluated algorithm is unknown: pass algo, or set the attribute algo")


def _epsilon_greedy_log_probs(action: Tensor, mask: Tensor, epsilon: float = 0.0) -> Tensor:
    """Return the log-probabilities of epsilon-greedy selection from the actions in `mask`, [N, n_actions]."""
    one_hot = nn.functional.one_hot(action.long(), mask.shape[-1])
    return ((1 - epsilon) * one_hot + epsilon * mask / mask.sum(-1, keepdim=True)).log()


def agent_of(algo: Any, argument: str = "algo") -> Any:
    """Return the built agent of an estimator. Return other objects unchanged.

    Args:
        algo: Agent, estimator, object with `predict`, or module that returns action distributions.
        argument: Name of the argument in error messages.

    Raises:
        NotFittedError: If `algo` is an estimator whose agent is not built yet.
        TypeError: If `algo` is a class.
    """
    if isinstance(algo, type):
        raise TypeError(f"{argument} is the class {algo.__name__}, expected an instance: {algo.__name__}(...)")
    if not hasattr(algo, "create_impl"):
        return algo
    if algo.impl is None:
        raise NotFittedError(f"{argument} is {type(algo).__name__}, not built yet: fit it, or call create_impl")
    return algo.impl


def policy_of(algo: Any, n_actions: int | None, argument: str = "algo") -> nn.Module:
    """Return the policy of an algorithm as a module that shares the parameters of the algorithm.

    Args:
        algo: Agent, estimator, object with `predict`, or module that returns action distributions.
        n_actions: Number of discrete actions; None for continuous actions.
        argument: Name of the argument in error messages.

    Raises:
        TypeError: If `algo` cannot act, or its actions depend on more than the state.
        NotFittedError: If `algo` is an estimator whose agent is not built yet.
    """
    if isinstance(algo, nn.Module):
        return _frozen(algo)
    agent = agent_of(algo, argument)
    if getattr(agent, "recurrent", False):
        raise TypeError(f"{argument} is a recurrent {type(agent).__name__}: evaluate it with agents.FittedQEvaluation")
    if isinstance(getattr(agent, "policy", None), ReturnConditionedTransformer):
        raise TypeError(f"{argument} is {type(agent).__name__}, whose actions depend on more than one state")
    if isinstance(agent, RandomActions):
        return ActingPolicy(algo, None, argument) if n_actions is None else UniformPolicy(agent.action_size)
    network, scaler = _network_of(agent), getattr(algo, "scaler_of_agent", None)
    if network is None or not isinstance(scaler, AffineScaler | None):
        return ActingPolicy(agent if scaler is None else algo, n_actions, argument)
    still = _frozen(network, getattr(agent, "obs_normalizer", None), agent.value_type)
    return still if scaler is None else RescaledPolicy(still, scaler)


def feature_agent_of(algo: Any, policy: nn.Module) -> Any:
    """Return the agent whose `features` are the input of `policy`. None if `policy` takes raw observations."""
    return None if isinstance(policy, ActingPolicy) else agent_of(algo)


def features_of(agent: Any, obs: Any) -> Any:
    """Return the agent's features of observations, on its device. If `agent` is None, return the observations."""
    device = getattr(agent, "device", "cpu")
    stack = rows_of_stack(obs) if isinstance(obs, tuple) else obs  # an agent takes a tuple as a list of observations
    features = agent.features(stack, device) if hasattr(agent, "features") else obs
    return map_nested(lambda leaf: torch.as_tensor(leaf, device=device), features)


def policy_on_device(device: torch.device, policy: nn.Module) -> nn.Module:
    """Return the policy if it is on the device, else a copy on the device."""
    tensors = [*policy.parameters(), *policy.buffers()]
    return policy if all(tensor.device == device for tensor in tensors) else copy.deepcopy(policy).to(device)


def evaluates_modes(algo: Any) -> bool:
    """Return True if an algorithm selects the modes of its policy in evaluation, False if it samples."""
    return bool(getattr(agent_of(algo), "act_deterministically", True))


def _network_of(agent: Any) -> nn.Module | None:
    """Return the network that determines an agent's actions in evaluation; None if several do, as in `BCQ`."""
    usual = getattr(type(agent), "greedy_actions", None) is Acting.greedy_actions
    if samples_from_policy(agent) and (usual or not agent.act_deterministically):
        return agent.policy  # type: ignore[no-any-return]
    model = getattr(agent, "model", None)
    if not usual or not isinstance(model, nn.Module):
        return None
    return GreedyPolicy(model) if issubclass(agent.value_type, ActionValue) else model


def _frozen(policy: nn.Module, normalizer: nn.Module | None = None, output: type[Any] = Distribution) -> nn.Module:
    """Return the policy if it has no running statistics and returns only distributions, else a `NormalizedPolicy`."""
    is_fixed = normalizer is None and output is not tuple and not normalizations_of(policy)
    return policy if is_fixed else NormalizedPolicy(policy, normalizer)


def distribution_of(policy: nn.Module, agent: Any, obs: Any, argument: str = "algo") -> Distribution:
    """Return the action distributions of a policy for observations.

    Args:
        policy: Policy returned by `policy_of`.
        agent: Result of `feature_agent_of`: the agent whose features are the input of the policy, or None.
        obs: Observations, [n, ...].
        argument: Name of the argument in error messages.

    Raises:
        ValueError: If the policy does not accept the observations.
        TypeError: If the policy does not return distributions.
    """
    with obs_in_errors(argument, obs):
        distribution = policy(features_of(agent, obs))
    if not isinstance(distribution, Distribution):
        raise TypeError(f"{argument} returns {type(distribution).__name__}, expected distributions of actions")
    return distribution


def check_actions(
    distribution: Distribution, discrete_action: bool, size: int, argument: str = "algo", *, env: bool = False
) -> None:
    """Raise an error if the actions of a policy do not match the data or the environment.

    Args:
        distribution: Distributions that the policy returned for some observations, [n].
        discrete_action: True if actions of the data or the environment are discrete.
        size: Size of a continuous action, or number of discrete actions.
        argument: Name of the argument in error messages.
        env: True for an environment, False for data. An environment must have as many discrete actions as the policy.
            Data may contain fewer.

    Raises:
        TypeError: If only one of policy and data (or environment) has discrete actions.
        ValueError: If the policy's actions have the wrong size, or the policy has too few discrete actions. For an
            environment, the error is also raised if the policy has too many discrete actions.
    """
    shape = tuple(distribution.batch_shape + distribution.event_shape)
    categorical = isinstance(distribution, TorchCategorical)
    if (categorical, len(shape) == 1) != (discrete_action, discrete_action):
        kinds = "continuous", "discrete"
        what = f"the actions of {'the environment' if env else 'the data'} are {kinds[discrete_action]}"
        raise TypeError(f"{argument} has {kinds[not discrete_action]} actions of shape {shape}, but {what}")
    has = distribution.probs.shape[-1] if isinstance(distribution, TorchCategorical) else math.prod(shape[1:])
    if has < size or (has > size and (env or not discrete_action)):
        what = "discrete actions" if discrete_action else "action dimensions"
        raise ValueError(f"{argument} has {has} {what}, but {'the environment has' if env else 'the data have'} {size}")


def check_fits(algo: Any, discrete_action: bool, observation_shape: Any, action_size: int) -> None:
    """Raise an error if the shapes of the data, or the type of their actions, differ from those an algorithm declares.

    Args:
        algo: Agent, estimator, object with `predict`, or module that returns action distributions.
        discrete_action: True if actions of the data are discrete.
        observation_shape: Shape of an observation of the data without stacked frames.
        action_size: Size of an action of the data, or number of discrete actions in the data. Data may contain fewer
            discrete actions than the algorithm has.

    Raises:
        TypeError: If only one of data and algorithm has discrete actions.
        ValueError: If the shapes differ.
    """
    declared = declared_action_kind(algo)
    if declared is not None and declared != discrete_action:
        kinds = "continuous", "discrete"
        raise TypeError(f"algo has {kinds[declared]} actions, but the actions of the data are {kinds[discrete_action]}")
    known = getattr(algo, "observation_shape_", None), getattr(algo, "action_size_", None)
    check_built_for(algo, *known, observation_shape, action_size)


def n_actions_of(algo: Any, observation: Any) -> int:
    """Return the number of discrete actions of an agent or an estimator; 0 if it is unknown.

    Args:
        algo: Agent, estimator, object with `predict`, or module that returns action distributions.
        observation: Observation for a dry run of an agent whose number of actions is not declared.
    """
    known, agent = getattr(algo, "action_size_", None), agent_of(algo)
    if known is None and hasattr(agent, "probe"):
        output = agent.probe(agent.features([observation], agent.device))
        output = output[0] if isinstance(output, tuple) else output
        known = output.logits.shape[-1] if isinstance(output, TorchCategorical) else getattr(output, "n_actions", 0)
    return known or 0


def dry_run_policy(
    algo: Any, observation: Any, discrete_action: bool, size: int, env: bool = False
) -> tuple[nn.Module, Any, Distribution, int]:
    """Check the policy of an algorithm in a dry run with one observation, and return the policy and its output.

    Args:
        algo: Agent, estimator, object with `predict`, or module that returns action distributions.
        observation: Observation of the data or the environment, with stacked frames.
        discrete_action: True if actions of the data or the environment are discrete.
        size: Size of a continuous action, or number of discrete actions. Data may contain fewer discrete actions.
        env: True for an environment, False for data. An environment must have as many discrete actions as the policy.
            Data may contain fewer.

    Returns:
        (policy, agent, distribution, size). The features of `agent` are the input of the policy; `agent` is None if the
        policy takes raw observations. `distribution` is the policy's output for the observation. `size` is the size of
        a continuous action, or the number of discrete actions.

    Raises:
        TypeError: If `algo` cannot act. If only one of `algo` and data (or environment) has discrete actions.
        ValueError: If `algo` does not accept the observation, its actions have the wrong size, or it has too few
            discrete actions. For an environment, the error is also raised if `algo` has too many discrete actions.
        NotFittedError: If `algo` is an estimator whose agent is not built yet.
    """
    if discrete_action and not env:
        size = max(size, n_actions_of(algo, observation))
    policy = policy_of(algo, size if discrete_action else None)
    agent = feature_agent_of(algo, policy)
    with torch.no_grad(), evaluation_mode(policy), isolated_rng():
        distribution = distribution_of(policy, agent, map_nested(lambda leaf: np.asarray(leaf)[None], observation))
    if discrete_action and not env and isinstance(distribution, TorchCategorical):
        size = max(size, distribution.probs.shape[-1])  # data may not contain all actions
    check_actions(distribution, discrete_action, size, env=env)
    return policy, agent, distribution, size


def log_probs(
    policy: nn.Module, obs: Any, action: Any, agent: Any = None, *, modes: bool = False, argument: str = "policy"
) -> Array:
    """Return log-probabilities (or log-densities) of actions under a policy, [n].

    Args:
        policy: Module that maps features to action distributions.
        obs: Observations, [n, ...], or an object that supports `len` and slicing.
        action: Actions, [n, A] or [n].
        agent: Agent whose `features` are the input of the policy. None if the policy takes the observations.
        modes: True for the log-probabilities under a policy that always selects the mode of `policy`. It requires
            discrete actions.
        argument: Name of the argument in error messages.

    Raises:
        TypeError: If the policy does not return distributions, or returns distributions without `log_prob`. If only one
            of policy and data has discrete actions.
        ValueError: If the policy does not accept the observations, its actions have the wrong size, the numbers of
            observations and actions differ, or `modes` is True and actions are continuous.
    """
    action = np.asarray(action)
    discrete = action.ndim == 1
    if len(action) != len(obs):
        raise ValueError(f"action has {len(action)} rows, but obs has {len(obs)} observations: expected equal numbers")
    if modes and not discrete:
        raise ValueError("modes is True, but the mode of a continuous policy has no density: expected False")

    def log_probs_of_chunk(obs: Any, action: Array) -> Array:
        distribution: Any = distribution_of(policy, agent, obs, argument)
        size = int(action.max(initial=-1)) + 1 if discrete else math.prod(action.shape[1:])
        check_actions(distribution, discrete, size, argument)
        if not has_density(distribution):
            raise TypeError(f"{argument} returns {type(distribution).__name__}, which has no density")
        if modes:
            distribution = EpsilonGreedy(mode_of(distribution), torch.ones_like(distribution.probs))
        actions = torch.as_tensor(action, device=getattr(agent, "device", "cpu"))
        return np.asarray(distribution.log_prob(actions if discrete else actions.float()).cpu(), np.float64)

    with torch.no_grad(), evaluation_mode(policy):
        return in_chunks(log_probs_of_chunk, obs, action)


def has_density(distribution: Any) -> bool:
    """Return True if a distribution has probabilities or densities, unlike deterministic continuous actions."""
    return getattr(distribution, "has_density", True)


def declared_action_kind(*algos: Any) -> bool | None:
    """Return True or False as the first algorithm declares it: True for discrete actions. None if none declares it."""
    for algo in algos:
        kind, discrete = getattr(algo, "action_kind", None), getattr(algo, "discrete_action", None)
        if kind is not None or discrete is not None:
            return bool(discrete) if kind is None else bool(kind[0] == "discrete")
    return None
