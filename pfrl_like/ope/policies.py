"""What a trained algorithm does, as a policy: a module from features to distributions of actions."""

import copy
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import AffineTransform, TransformedDistribution

from pfrl_like.action_value import ActionValue
from pfrl_like.batch import map_nested
from pfrl_like.distributions import Categorical, MaskedCategorical, mode_of
from pfrl_like.errors import NotFittedError
from pfrl_like.learning.acting import ActingMixin
from pfrl_like.learning.policy_acting import PolicyActingMixin, samples_its_policy
from pfrl_like.nn import ReturnConditionedTransformer
from pfrl_like.nn.empirical_normalization import holding_still, normalizations_of
from pfrl_like.policies import DeterministicHead
from pfrl_like.preprocessing.scaler import AffineScaler
from pfrl_like.utils.checks import check_numbers
from pfrl_like.utils.direct_call import call


class GreedyPolicy(nn.Module):
    """The greedy actions of a Q-function, as distributions; with `epsilon` random ones of discrete actions among them.

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
        """A `Categorical`, or of continuous actions what a `DeterministicHead` gives."""
        value: ActionValue = call(self.q_function, obs)
        return GreedyChoice(value, self.epsilon) if hasattr(value, "n_actions") else self.certain(value.greedy_actions)


class GreedyChoice(Categorical):
    """Distributions that are certain of the greedy actions of values but for `epsilon`, also among allowed ones alone.

    Args:
        value: Values of discrete actions.
        epsilon: As of `GreedyPolicy`.
    """

    def __init__(self, value: Any, epsilon: float) -> None:
        super().__init__(_near_certainty(value.greedy_actions, torch.ones_like(value.q_values), epsilon))
        self.value, self.epsilon = value, epsilon

    def masked(self, action_mask: Any) -> MaskedCategorical:
        """Certain, but for `epsilon`, of the best of the allowed actions; arguments and errors as of `Categorical`."""
        value = self.value.masked(action_mask)
        mask = value.action_mask | ~value.action_mask.any(-1, keepdim=True)
        return MaskedCategorical(_near_certainty(value.greedy_actions, mask, self.epsilon), mask)


class FirstOfModel(nn.Module):
    """The distributions of a model that gives them together with values.

    Args:
        model: Module from features to a tuple that begins with a distribution.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, obs: Any) -> Any:
        """The distributions."""
        return call(self.model, obs)[0]


class StillPolicy(nn.Module):
    """A policy, behind the normaliser of its agent, that learns no moments of the observations it is asked about.

    Args:
        policy: Module from features to distributions.
        normalizer: What features pass before; None for nothing.
    """

    def __init__(self, policy: nn.Module, normalizer: nn.Module | None) -> None:
        super().__init__()
        self.policy, self.normalizer = policy, normalizer

    def forward(self, obs: Any) -> Any:
        """The distributions."""
        with holding_still(self):
            return call(self.policy, obs if self.normalizer is None else self.normalizer(obs, update=False))


class RescaledPolicy(nn.Module):
    """A policy of an estimator with an `action_scaler`, whose actions are those of the data again.

    Args:
        policy: Module from features to distributions of scaled actions.
        scaler: The scaler, which shifts and divides.
    """

    def __init__(self, policy: nn.Module, scaler: AffineScaler) -> None:
        super().__init__()
        self.policy, self.scaler, self.certain = policy, scaler, DeterministicHead()

    def forward(self, obs: Any) -> Any:
        """The distributions, which have densities if those of scaled actions have."""
        scaled = call(self.policy, obs)
        mode = mode_of(scaled)
        if not getattr(scaled, "has_density", True):
            return self.certain(self.scaler.reverse_transform(mode))
        ends = torch.zeros_like(mode[0]), torch.ones_like(mode[0])
        low, high = (self.scaler.reverse_transform(end) for end in ends)
        return TransformedDistribution(scaled, [AffineTransform(low, high - low, event_dim=1)], validate_args=False)


class ActingPolicy(nn.Module):
    """The actions of an algorithm that chooses in a way of its own, as distributions that are certain of them.

    Args:
        algo: An agent with `batch_act` and `eval_mode`, or anything with `predict`, of raw observations.
        n_actions: How many discrete actions there are; None of continuous ones.
        argument: What errors call the algorithm.

    Raises:
        TypeError: If it cannot act.
    """

    def __init__(self, algo: Any, n_actions: int | None, argument: str = "algo") -> None:
        super().__init__()
        self.ask, self.n_actions, self.certain = _question(algo, argument), n_actions, DeterministicHead()

    def forward(self, obs: Tensor) -> Any:
        """A `Categorical`, or of continuous actions what a `DeterministicHead` gives."""
        action = torch.as_tensor(np.asarray(self.ask(obs.cpu().numpy())), device=obs.device)
        return self.certain(action.float()) if self.n_actions is None else UnmaskedChoice(action, self.n_actions)


class UnmaskedChoice(Categorical):
    """Distributions that are certain of actions which something chose that is not told of masks.

    Args:
        action: The actions, [N].
        n_actions: How many there are.
    """

    def __init__(self, action: Tensor, n_actions: int) -> None:
        super().__init__(_near_certainty(action, _all_allowed(action, n_actions)))

    def masked(self, action_mask: Any) -> NoReturn:
        """Refuse: what it would have done among the allowed actions is not known.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            "an action_mask came, of which the algorithm that is evaluated is not told, for it chooses in a way of its "
            "own: evaluate one that takes the largest value of a Q-function, or follows a policy"
        )


class NoPolicy(nn.Module):
    """Stands where a policy is not known."""

    def forward(self, obs: Any) -> Any:
        """Refuse.

        Raises:
            NotFittedError: Always.
        """
        raise NotFittedError("the algorithm that is evaluated is not known here: give algo, or set it")


def certain(action: Tensor, n_actions: int) -> Categorical:
    """Distributions of discrete actions, [N], that are certain of them."""
    return Categorical(_near_certainty(action, _all_allowed(action, n_actions)))


def _all_allowed(action: Tensor, n_actions: int) -> Tensor:
    return torch.ones(len(action), n_actions, device=action.device)


def _near_certainty(action: Tensor, mask: Tensor, epsilon: float = 0.0) -> Tensor:
    """Logarithms of probabilities, [N, n_actions]: the mask's actions share `epsilon`, one has the rest."""
    one_hot = nn.functional.one_hot(action.long(), mask.shape[-1])
    return ((1 - epsilon) * one_hot + epsilon * mask / mask.sum(-1, keepdim=True)).log()


def agent_of(algo: Any, argument: str = "algo") -> Any:
    """The agent of an estimator, which has to be built; an agent, or what else acts, itself.

    Args:
        algo: As of `policy_of`.
        argument: What errors call it.

    Raises:
        NotFittedError: If an estimator is not built yet.
        TypeError: If it is a class.
    """
    if isinstance(algo, type):
        raise TypeError(f"{argument} is the class {algo.__name__}, expected one that is made of it")
    if not hasattr(algo, "create_impl"):
        return algo
    if algo.impl is None:
        raise NotFittedError(
            f"{argument} is a {type(algo).__name__} that is not built yet: fit it, or call create_impl"
        )
    return algo.impl


def policy_of(algo: Any, n_actions: int | None, argument: str = "algo") -> nn.Module:
    """What an algorithm does, as a module that shares its parameters and changes nothing in it.

    Args:
        algo: An agent, an estimator, anything with `predict`, or a module that gives distributions.
        n_actions: How many discrete actions there are; None of continuous ones.
        argument: What errors call it.

    Raises:
        TypeError: If it cannot act, or acts by more than the state.
        NotFittedError: If it is not built yet.
    """
    if isinstance(algo, nn.Module):
        return _still(algo)
    agent = agent_of(algo, argument)
    if getattr(agent, "recurrent", False):
        raise TypeError(f"{argument} is a recurrent {type(agent).__name__}: evaluate it with agents.FittedQEvaluation")
    if isinstance(getattr(agent, "policy", None), ReturnConditionedTransformer):
        raise TypeError(f"{argument} is a {type(agent).__name__}, whose actions depend on more than the state")
    policy = agent.policy if _acts_by_policy(agent) else _policy_of_model(agent)
    scaler = getattr(algo, "action_scaler_", None)
    if policy is None or not isinstance(scaler, AffineScaler | None):
        return ActingPolicy(agent if scaler is None else algo, n_actions, argument)
    still = _still(policy, getattr(agent, "obs_normalizer", None))
    return still if scaler is None else RescaledPolicy(still, scaler)


def reader_of(algo: Any, policy: nn.Module) -> Any:
    """Whose `features` come before what `policy_of` gives; None of what is asked about raw observations."""
    return None if isinstance(policy, ActingPolicy) else agent_of(algo)


def features_of(agent: Any, obs: Any) -> Any:
    """Observations as a policy takes them: the features of an agent, on its device, or what they are without one."""
    device = getattr(agent, "device", "cpu")
    features = agent.features(obs, device) if hasattr(agent, "features") else obs
    return map_nested(lambda leaf: torch.as_tensor(leaf, device=device), features)


def lying_on(device: torch.device, policy: nn.Module) -> nn.Module:
    """A policy itself if it lies there, or else a copy, so that the algorithm's own one stays where it is."""
    tensors = [*policy.parameters(), *policy.buffers()]
    return policy if all(tensor.device == device for tensor in tensors) else copy.deepcopy(policy).to(device)


def evaluates_modes(algo: Any) -> bool:
    """Whether an algorithm takes the modes of its policy in evaluation, not samples."""
    return bool(getattr(agent_of(algo), "act_deterministically", True))


def _acts_by_policy(agent: Any) -> bool:
    """Whether an agent takes samples or modes of its `policy`, and chooses in no other way."""
    takes_modes = getattr(type(agent), "greedy_actions", None) is PolicyActingMixin.greedy_actions
    return samples_its_policy(agent) and (takes_modes or not agent.act_deterministically)


def _policy_of_model(agent: Any) -> nn.Module | None:
    """What an agent's `model` says; None if there is none, or the agent chooses by more, as `DiscreteBCQ` does."""
    usual = ActingMixin.greedy_actions, PolicyActingMixin.greedy_actions
    model = getattr(agent, "model", None)
    if not isinstance(model, nn.Module) or getattr(type(agent), "greedy_actions", None) not in usual:
        return None
    if agent.value_type is tuple:
        return FirstOfModel(model)
    if issubclass(agent.value_type, torch.distributions.Distribution):
        return model
    return GreedyPolicy(model)


def _still(policy: nn.Module, normalizer: nn.Module | None = None) -> nn.Module:
    """A policy itself if nothing comes before it and nothing in it learns moments."""
    return StillPolicy(policy, normalizer) if normalizer is not None or normalizations_of(policy) else policy


def _question(algo: Any, argument: str) -> Any:
    if hasattr(algo, "predict"):
        return algo.predict
    if not hasattr(algo, "batch_act") or not hasattr(algo, "eval_mode"):
        expected = "an agent, an estimator or something with predict"
        raise TypeError(f"{argument} is a {type(algo).__name__}, expected {expected}")

    def ask(obs: Any) -> Any:
        with algo.eval_mode():
            return algo.batch_act([*obs])

    return ask
