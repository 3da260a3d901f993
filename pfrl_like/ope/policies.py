"""What a trained algorithm does, as a policy: a module from features to distributions of actions."""

import copy
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from pfrl_like.action_value import ActionValue
from pfrl_like.agents.acting import ActingMixin
from pfrl_like.agents.policy_acting import PolicyActingMixin, samples_its_policy
from pfrl_like.agents.recorded_data import OneObservation
from pfrl_like.algos.sampling import sampled as sampled
from pfrl_like.batch import map_nested
from pfrl_like.distributions import Categorical, MaskedCategorical
from pfrl_like.errors import NotFittedError
from pfrl_like.nn import ReturnConditionedTransformer
from pfrl_like.nn.empirical_normalization import holding_still, normalizations_of
from pfrl_like.policies import DeterministicHead
from pfrl_like.utils.contexts import evaluating_readers
from pfrl_like.utils.direct_call import call


class GreedyPolicy(nn.Module):
    """The greedy actions of a Q-function, as distributions; with `epsilon` random ones of discrete actions among them.

    Args:
        q_function: Module from features to an `ActionValue`.
        epsilon: Probability of a random action.
    """

    def __init__(self, q_function: nn.Module, epsilon: float = 0.0) -> None:
        super().__init__()
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


class ActingPolicy(nn.Module):
    """The actions of an algorithm that chooses in a way of its own, as distributions that are certain of them.

    Args:
        algo: An agent with `batch_act` and `eval_mode`, or anything with `predict`, of raw observations.
        n_actions: How many discrete actions there are; None of continuous ones.
    """

    def __init__(self, algo: Any, n_actions: int | None) -> None:
        super().__init__()
        self.ask, self.n_actions, self.certain = _question(algo), n_actions, DeterministicHead()

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
        super().__init__(_near_certainty(action, torch.ones(len(action), n_actions, device=action.device)))

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


def certain(action: Tensor, n_actions: int, epsilon: float = 0.0) -> Categorical:
    """Distributions of discrete actions, [N], that are certain of them but for `epsilon`."""
    return Categorical(_near_certainty(action, torch.ones(len(action), n_actions, device=action.device), epsilon))


def _near_certainty(action: Tensor, mask: Tensor, epsilon: float = 0.0) -> Tensor:
    """Logarithms of probabilities, [N, n_actions]: the mask's actions share `epsilon`, one has the rest."""
    one_hot = nn.functional.one_hot(action.long(), mask.shape[-1])
    return ((1 - epsilon) * one_hot + epsilon * mask / mask.sum(-1, keepdim=True)).log()


def agent_of(algo: Any) -> Any:
    """The agent of an estimator, which has to be built; an agent, or what else acts, itself.

    Raises:
        NotFittedError: If an estimator is not built yet.
    """
    if not hasattr(algo, "create_impl"):
        return algo
    if algo.impl is None:
        raise NotFittedError(f"algo is a {type(algo).__name__} that is not built yet: fit it, or call create_impl")
    return algo.impl


def policy_of(algo: Any, n_actions: int | None) -> nn.Module:
    """What an algorithm does, as a module that shares its parameters and changes nothing in it.

    Args:
        algo: An agent, an estimator, anything with `predict`, or a module that gives distributions.
        n_actions: How many discrete actions there are; None of continuous ones.

    Raises:
        TypeError: If it cannot act, or acts by more than the state.
        NotFittedError: If it is not built yet.
    """
    if isinstance(algo, nn.Module):
        return _still(algo)
    agent = agent_of(algo)
    if getattr(agent, "recurrent", False):
        raise TypeError(f"algo is a recurrent {type(agent).__name__}: evaluate it with agents.FittedQEvaluation")
    if isinstance(getattr(agent, "policy", None), ReturnConditionedTransformer):
        raise TypeError(f"algo is a {type(agent).__name__}, whose actions depend on more than the state")
    policy = agent.policy if _acts_by_policy(agent) else _policy_of_model(agent)
    if policy is None:
        return ActingPolicy(agent, n_actions)
    return _still(policy, getattr(agent, "obs_normalizer", None))


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


def first_distribution(policy: nn.Module, agent: Any, obs: Any) -> Distribution:
    """What a policy gives for one observation.

    Args:
        policy: What `policy_of` gives.
        agent: Whose features come before it, as `reader_of` has it.
        obs: Observations, [1, ...].

    Raises:
        TypeError: If it gives no distributions.
    """
    with torch.no_grad(), evaluating_readers(policy):
        distribution = policy(features_of(agent, obs))
    if not isinstance(distribution, Distribution):
        raise TypeError(f"algo gives a {type(distribution).__name__}, expected distributions of actions")
    return distribution


def n_actions_of(algo: Any, shown: int, observation: OneObservation | None) -> int:
    """How many discrete actions there are: those that data show, or more if the algorithm knows of more.

    Args:
        algo: As of `policy_of`.
        shown: How many there are in the data.
        observation: What an agent or a module is asked about; None for nothing.
    """
    known = getattr(algo, "action_size_", None)
    if known is None and observation is not None:
        if isinstance(algo, nn.Module):
            given: Any = first_distribution(policy_of(algo, None), None, observation.sample()[None])
        else:
            given = agent.probe(observation) if hasattr(agent := agent_of(algo), "probe") else None
        given = given[0] if isinstance(given, tuple) else given
        known = given.logits.shape[-1] if isinstance(given, Categorical) else getattr(given, "n_actions", 0)
    return max(shown, known or 0)


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


def _question(algo: Any) -> Any:
    if hasattr(algo, "predict"):
        return algo.predict
    if not hasattr(algo, "batch_act") or not hasattr(algo, "eval_mode"):
        raise TypeError(f"algo is a {type(algo).__name__}, expected an agent, an estimator or something with predict")

    def ask(obs: Any) -> Any:
        with algo.eval_mode():
            return algo.batch_act([*obs])

    return ask
