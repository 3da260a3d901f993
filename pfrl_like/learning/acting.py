"""Action selection of agents: from observations to actions."""

import contextlib
import copy
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pfrl_like.action_value import ActionValue
from pfrl_like.batch import ACTION_MASK, first_leaf, map_nested
from pfrl_like.distributed.learner_group import LearnerGroup
from pfrl_like.distributions import masked, mode_of, rows_of
from pfrl_like.explorer import select_actions
from pfrl_like.functions.action_masks import as_action_mask
from pfrl_like.learning.acting_copy import export, greedy_copy, observations_seen
from pfrl_like.learning.model_outputs import INPUT_ERRORS, check_one_for_each, input_error, obs_in_errors, wrong_value
from pfrl_like.learning.recurrent_memory import RecurrentMemory
from pfrl_like.nn.empirical_normalization import holding_still, normalizations_of
from pfrl_like.nn.fast_forward import fast_forward
from pfrl_like.optimizers.compiled_region import CompiledFunction
from pfrl_like.optimizers.compiled_step import CompiledStep
from pfrl_like.preprocessing.features import FeatureExtractor
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.utils.checks import check_rewards, unequal_lengths
from pfrl_like.utils.contexts import evaluation_mode
from pfrl_like.utils.env_values import Allowed, required_keyword
from pfrl_like.utils.recurrent import forward


class ValueActionSelector:
    """Action selection with a Q-function: greedy actions in evaluation, the explorer's actions in training."""

    def select(self, agent: Any, obs: Any, action_mask: Any, active: Any) -> Any:
        """Select an action for each of k rows of features. Return an array [k, ...].

        Args:
            agent: The agent.
            obs: Features of k observations.
            action_mask: True for allowed actions, [k, n_actions]. None allows all actions.
            active: False for environments whose action will be ignored, [k]. None if all are active.
        """
        compiled, explorer = agent._compiled_greedy, agent.explorer
        reads_value = agent.training and getattr(explorer, "reads_action_value", True)
        if compiled is None or action_mask is not None or reads_value:
            greedy, value = agent.greedy_actions(obs, action_mask, active)
        else:
            value = types.SimpleNamespace(**{"action_mask": None, **compiled(obs)})
            greedy = value.greedy_actions
        actions = greedy.cpu().numpy()
        return select_actions(explorer, agent.t, actions, value, active) if agent.training else actions

    def greedy(self, agent: Any, obs: Any, action_mask: Any, active: Any) -> tuple[Tensor, Any]:
        """Return the greedy actions, [k, ...], and the action values."""
        value = agent._value(obs, active)
        if action_mask is not None:
            value = value.masked(action_mask)
        return value.greedy_actions, value


class PolicyActionSelector:
    """Action selection with a policy.

    In training, actions are sampled from the policy's distribution, and an explorer may change them. In evaluation, the
    action is the mode of the distribution if the agent's `act_deterministically` is True, otherwise a sample.
    """

    def select(self, agent: Any, obs: Any, action_mask: Any, active: Any) -> Any:
        """Select an action for each of k rows of features. Return an array [k, ...].

        Args:
            agent: The agent.
            obs: Features of k observations.
            action_mask: True for allowed actions, [k, n_actions]. None allows all actions.
            active: False for environments whose action will be ignored, [k]. None if all are active.
        """
        training = agent.training
        if agent.act_deterministically and not training:
            return agent.greedy_actions(obs, action_mask, active)[0].cpu().numpy()
        burning_in = training and agent.burnin_action_func is not None and agent.burning_in
        if burning_in and agent.recurrent_memory is None:
            return burnin_actions(agent, len(first_leaf(obs)), action_mask, active)
        distribution = agent._distribution(obs, action_mask, active)  # updates the memory of a recurrent policy
        if burning_in:
            return burnin_actions(agent, len(first_leaf(obs)), action_mask, active)
        actions = sample_of(distribution, active).cpu().numpy()
        return actions if agent.explorer is None or not training else explore(agent, actions, action_mask, active)

    def greedy(self, agent: Any, obs: Any, action_mask: Any, active: Any) -> tuple[Tensor, Any]:
        """Return the mode of each action distribution, [k, ...], and the distributions."""
        distribution = agent._distribution(obs, action_mask, active)
        return mode_of(distribution), distribution


class Acting:
    """Base class of agents: action selection.

    An agent whose actions come neither from a Q-function nor from a policy overrides `select_actions` and
    `greedy_actions`.
    """

    #: Object that converts the network's output to actions.
    _selector: ValueActionSelector | PolicyActionSelector = ValueActionSelector()

    #: Attribute names of the modules that select actions. The first module receives the features.
    _acting_attributes: tuple[str, ...] = ("model",)
    #: Name in error messages of the network that selects actions.
    _acting_network_name: str = "q_function"
    #: Class of the network's output. The default `select_actions` reads the attribute `greedy_actions` of the output.
    value_type: type[Any] = ActionValue

    #: Explorer that selects the actions in training. If None, the actions are samples of the policy.
    explorer: Any = None
    #: True to take the mode of the policy's distribution in evaluation, False to sample from the distribution.
    act_deterministically: bool = True
    #: Function that selects the training actions while `burning_in` is True.
    burnin_action_func: Callable[..., Any] | None = None
    #: Arguments `action_mask` and `active` of the running `batch_act` call. The defaults of PFRL's methods read them,
    #: because PFRL's methods do not have these arguments.
    _override_masks: tuple[Any, Any] = (None, None)

    training: bool
    device: torch.device
    features: FeatureExtractor
    recurrent_memory: RecurrentMemory | None = None
    t: int
    batch_last_obs: Any = None
    batch_last_action: Any = None
    #: Names of the methods of PFRL's agent that the class or the agent overrides. `HookType` sets this attribute.
    _overridden_hooks: frozenset[str] = frozenset()
    #: True if a subclass overrides `batch_observe`. As in PFRL, the last observations and actions are then lists of its
    #: own, in which it may write None. `HookType` sets this attribute.
    _has_own_observe: bool = False
    #: Name of the method of PFRL's agent that selects actions for raw observations. A subclass may override this
    #: method.
    _acting_hook: str = ""
    #: Gradient steps, keyed by the name of the optimiser. Empty in an agent that updates its parameters itself and
    #: whose constructor does not call that of this package.
    gradient_steps: Mapping[str, Any] = types.MappingProxyType({})
    #: True after the dry run on an observation.
    _has_dry_run: bool = False
    _last_mask: Any = None
    _compiled: CompiledStep | None = None
    #: True if several processes can learn together, see `distributed.data_parallel`.
    _learns_in_group: bool = True
    #: The processes that make the updates together. None if this process learns alone.
    learner_group: LearnerGroup | None = None
    _compiled_greedy: CompiledFunction | None = None

    def _set_features(self, features: FeatureExtractor) -> None:
        """Set the feature extractor."""
        self.features = features

    @property
    def is_compiled(self) -> bool:
        """True if updates are compiled. The compilation takes place at the second update of a run."""
        return self._compiled is not None

    @property
    def compiled_parts(self) -> tuple[CompiledStep | CompiledFunction, ...]:
        """The compiled functions. They have a state, because the first call of a run with some inputs is uncompiled."""
        return tuple(part for part in (self._compiled, self._compiled_greedy) if part is not None)

    @property
    def acts_from_memory(self) -> bool:
        """True if the agent is recurrent."""
        return self.recurrent_memory is not None

    def batch_act(self, batch_obs: Any, *, action_mask: Any = None, active: Any = None) -> Any:
        """Choose an action for each environment.

        Args:
            batch_obs: k observations.
            action_mask: True where an action is allowed, [k, n_actions]. If None, the masks are read from observations
                that are dicts with the key "action_mask".
            active: False for environments whose action will be ignored, [k].

        Returns:
            k actions.

        Raises:
            ValueError: If the observations have the wrong shape or type for the network. The method never checks
                observations for NaN. If an observation contains NaN, its action is arbitrary. Runners, evaluators and
                the update reject NaN.
        """
        if isinstance(batch_obs, Mapping) or len(batch_obs) == 0:
            got = f"a dict with the keys {sorted(batch_obs)}" if isinstance(batch_obs, Mapping) else "empty"
            raise ValueError(f"obs is {got}, expected a sequence of observations, one for each environment")
        if action_mask is None and has_mask(batch_obs):
            action_mask = np.stack([obs[ACTION_MASK] for obs in batch_obs])
        if self._acting_hook in self._overridden_hooks:
            return act_through_hook(self, batch_obs, action_mask, active)
        try:
            obs = self.features(batch_obs, self.device)
            if self.training and not self._has_dry_run:
                with isolated_rng():
                    self._dry_run_features(map_nested(lambda leaf: leaf[:1], obs))
            module = getattr(self, self._acting_attributes[0])
            learns_moments = self.training or not normalizations_of(module)
            still = contextlib.nullcontext() if learns_moments else holding_still(module)
            with torch.inference_mode(), evaluation_mode(module), still:
                action = self.select_actions(obs, action_mask, active)
        except (ValueError, TypeError, AttributeError) as error:
            if isinstance(batch_obs, list | tuple) and any(map(_is_reset_result, (batch_obs, *batch_obs[:1]))):
                hint = "; did you pass reset()'s (obs, info)?"
                if not self.features.is_identity:  # `phi` may have raised the error, which stays as it is
                    error.add_note(hint.removeprefix("; "))
                    raise
                raise input_error(batch_obs, error.__cause__ or error, self._acting_network_name, hint) from error
            raise
        if self.training:
            _keep_last(self, batch_obs, action, action_mask)
        return action

    def select_actions(self, obs: Any, action_mask: Any, active: Any) -> Any:
        """Select an action for each of k rows of features. Return an array [k, ...].

        Args:
            obs: Features of k observations.
            action_mask: True for allowed actions, [k, n_actions]. None allows all actions.
            active: False for environments whose action will be ignored, [k]. No random numbers are drawn for these
                environments. None if all environments are active.
        """
        return self._selector.select(self, obs, action_mask, active)

    def greedy_actions(self, obs: Any, action_mask: Any = None, active: Any = None) -> tuple[Tensor, Any]:
        """Return the actions of evaluation for a batch of features, [k, ...], and the network's output.

        The method uses only torch operations, because `export` writes this computation to a file.
        """
        return self._selector.greedy(self, obs, action_mask, active)

    @property
    def burning_in(self) -> bool:
        """True until the first update of the policy, if the agent has a burn-in. Always False in this base class."""
        return False

    def _value(self, obs: Any, active: Any = None) -> Any:
        """Return the output of the acting network for features."""
        module = getattr(self, self._acting_attributes[0])
        try:
            if self.recurrent_memory is None:
                value = fast_forward(module, obs)
            else:
                value = self.recurrent_memory.forward(module, obs, self.training, active)
        except INPUT_ERRORS as error:
            if type(error) not in INPUT_ERRORS:  # subclasses of RuntimeError, such as out-of-memory errors
                raise
            raise input_error(obs, error, self._acting_network_name) from error
        if not isinstance(value, self.value_type) and not hasattr(value, "greedy_actions"):
            raise wrong_value(value, self.value_type, self._acting_network_name)
        return value

    def _distribution(self, obs: Any, action_mask: Any, active: Any) -> Any:
        """Return the policy's distribution for a batch of features, restricted to allowed actions."""
        distribution = self._value(obs, active)
        check_one_for_each(distribution, first_leaf(obs).shape[0])
        return distribution if action_mask is None else masked(distribution, action_mask)

    def _greedy_actions(self, obs: Any) -> dict[str, Tensor]:
        greedy, value = self.greedy_actions(obs)
        tensors = {"greedy_actions": greedy, "action_mask": getattr(value, "action_mask", None)}
        return {name: tensor for name, tensor in tensors.items() if tensor is not None}

    def dry_run(self, obs: Any, action_space: Any = None) -> Any:
        """Check with one observation that the agent's modules and the environment match. The observation is not stored.

        Every runner makes this check first, even if the run uses a dataset. Without a runner, the first `act` call in
        training makes the check. The check draws random numbers only if the network does, for example for the
        candidates of BCQ or the fractions of IQN.

        Args:
            obs: The observation.
            action_space: Action space of the environment. None if there is no environment.

        Returns:
            Output of the acting network for the observation.

        Raises:
            TypeError: If the output of a network has the wrong type, or if agent and environment have different kinds
                of actions.
            ValueError: If the observations have the wrong shape for a network, or if the number, shape or first index
                of the agent's actions differs from the action space.
        """
        if "features" not in vars(self):  # a subclass whose constructor does not call ours acts in its own way
            return None
        features, obs = copy.deepcopy((self.features, obs))
        return self._dry_run_features(features([obs], self.device), action_space)

    def _dry_run_features(self, obs: Any, action_space: Any = None) -> Any:
        """Make the checks of `dry_run` with features of one observation, [1, ...]. Return the network's output."""
        self._has_dry_run = True
        output = self.probe(obs)
        self._check_output(output, obs, action_space)
        return output

    def _check_output(self, output: Any, obs: Any, action_space: Any) -> None:
        """Make the checks of `dry_run`. This base method only checks the type of the network's output.

        Args:
            output: Output of the acting network.
            obs: Features of the observation, [1, ...].
            action_space: Action space of the environment. None if there is no environment.
        """
        if not isinstance(output, self.value_type):
            raise wrong_value(output, self.value_type, self._acting_network_name)

    @torch.no_grad()
    def probe(self, obs: Any) -> Any:
        """Return the network's output for features of one observation, [1, ...]. The call does not change the network.

        Raises:
            ValueError: If the features have the wrong shape or type for the network.
        """
        module = getattr(self, self._acting_attributes[0])
        with obs_in_errors(self._acting_network_name, obs), evaluation_mode(module), holding_still(module):
            return forward(module, obs)[0]

    @property
    def acting_modules(self) -> dict[str, nn.Module]:
        """Modules whose parameters and buffers an acting copy needs from the learner, keyed by attribute name."""
        names = (*self._acting_attributes, "obs_normalizer")
        return {name: module for name in names if isinstance(module := getattr(self, name, None), nn.Module)}

    export = export
    _observations_seen = observations_seen

    def greedy_copy(self) -> Any:
        """Return a copy on the CPU that acts like this agent in evaluation and cannot learn.

        The actions of a policy are always the modes of its distributions.
        """
        acting = greedy_copy(self)
        if isinstance(self._selector, PolicyActionSelector):
            acting.act_deterministically = True
        return acting


def act_through_hook(agent: Any, batch_obs: Any, action_mask: Any, active: Any) -> Any:
    """Select actions with the acting method that a subclass overrides. In training, the explorer may change them.

    Args:
        agent: The agent. Its attribute `_acting_hook` is the name of the method.
        batch_obs: k observations.
        action_mask: True where an action is allowed, [k, n_actions]. None allows all actions.
        active: False for environments whose action will be ignored, [k].

    Returns:
        k actions.
    """
    name = agent._acting_hook
    options = {"deterministic": agent.act_deterministically} if name == "batch_select_greedy_action" else {}
    agent._override_masks = (action_mask, active)
    try:
        if isinstance(agent._selector, ValueActionSelector):
            actions: Any = _actions_of_values(agent, getattr(agent, name), batch_obs, action_mask, active)
        elif agent.training and agent.burnin_action_func is not None and agent.burning_in:
            actions = burnin_actions(agent, len(batch_obs), action_mask, active)
        else:
            actions = getattr(agent, name)(batch_obs, **({} if agent.training else options))
            if agent.training and agent.explorer is not None:
                actions = explore(agent, np.asarray(actions), action_mask, active)
    finally:
        agent._override_masks = (None, None)
    if agent.training:
        _keep_last(agent, batch_obs, actions, action_mask)
    return actions


def _keep_last(agent: Any, batch_obs: Any, actions: Any, action_mask: Any) -> None:
    """Set the attributes that `batch_observe` reads."""
    if agent._has_own_observe:
        batch_obs, actions = list(batch_obs), list(actions)
    agent.batch_last_obs, agent.batch_last_action, agent._last_mask = batch_obs, actions, action_mask


def _actions_of_values(agent: Any, values: Any, batch_obs: Any, action_mask: Any, active: Any) -> Any:
    """Return the actions that the explorer, or the greedy policy in evaluation, selects from the result of `values`."""
    with torch.no_grad(), evaluation_mode(agent.model):
        value = values(batch_obs)
        value = value if action_mask is None else value.masked(action_mask)
        greedy = value.greedy_actions.cpu().numpy()
    return select_actions(agent.explorer, agent.t, greedy, value, active) if agent.training else greedy


def explore(agent: Any, actions: Any, action_mask: Any, active: Any) -> Any:
    """Return the actions that the explorer selects, array [k, ...]. `actions` are samples of the policy."""
    return select_actions(agent.explorer, agent.t, actions, _mask_for_explorers(action_mask, actions), active)


def actions_of_policy(agent: Any, batch_obs: Any, deterministic: bool) -> Any:
    """Return the policy's actions for raw observations, array [k, ...].

    This is the default implementation of PFRL's acting methods.

    Args:
        agent: The agent.
        batch_obs: k observations.
        deterministic: True to take the mode of each distribution, False to sample from each distribution.
    """
    action_mask, active = agent._override_masks
    still = contextlib.nullcontext() if agent.training else holding_still(agent.policy)
    with torch.inference_mode(), evaluation_mode(agent.policy), still:
        distribution = agent._distribution(agent.features(batch_obs, agent.device), action_mask, active)
        actions = mode_of(distribution) if deterministic else sample_of(distribution, active)
    return actions.cpu().numpy()


def burnin_actions(agent: Any, k: int, action_mask: Any, active: Any) -> list[Any]:
    """Call `burnin_action_func` for each active environment. For an inactive environment, repeat its last action.

    Raises:
        TypeError: If there is an action mask and `burnin_action_func` has no argument `action_mask`.
    """
    choose = agent.burnin_action_func
    masks = [None] * k if action_mask is None else _rows_of(action_mask, k).numpy()
    return [
        choose(**required_keyword(choose, mask)) if active is None or active[i] else agent.batch_last_action[i]
        for i, mask in enumerate(masks)
    ]


def _is_reset_result(obs: Any) -> bool:
    """Return True if `obs` may be the pair (obs, info) that an environment's `reset` returns."""
    if not isinstance(obs, tuple) or len(obs) != 2:
        return False
    info = obs[1]
    return isinstance(info[0] if isinstance(info, list) and info else info, dict)


def has_mask(batch_obs: Any) -> bool:
    """Return True if the observations contain action masks."""
    return isinstance(batch_obs[0], dict) and ACTION_MASK in batch_obs[0]


def _mask_for_explorers(action_mask: Any, actions: Any) -> Allowed | None:
    """Return the mask for explorers. Return None if actions are multi-discrete, because explorers cannot mask them."""
    return None if action_mask is None or actions.ndim > 1 else Allowed(_rows_of(action_mask, len(actions)))


def _rows_of(action_mask: Any, k: int) -> Tensor:
    """Return the mask on the CPU, with a row for each of k environments."""
    return as_action_mask(action_mask, torch.Size((k, np.shape(action_mask)[-1])), torch.device("cpu"))


def samples_from_policy(agent: Any) -> bool:
    """Return True if training actions are samples of the agent's attribute `policy`.

    BCQ, for example, does not sample from `policy`: it acts with other modules.
    """
    return (
        getattr(type(agent), "select_actions", None) is Acting.select_actions
        and isinstance(agent._selector, PolicyActionSelector)
        and agent._acting_hook not in agent._overridden_hooks
        and agent._acting_attributes[0] == "policy"
        and isinstance(agent.policy, nn.Module)
    )


def sample_of(distribution: Any, active: Any = None) -> Tensor:
    """Sample an action for each row, [k, ...]. For inactive rows, no random numbers are drawn and the actions are 0.

    Args:
        distribution: Distribution of batch shape [k].
        active: True for the rows to sample, [k]. None samples all rows.
    """
    if active is None or np.all(active):
        sample: Tensor = distribution.sample()
        return sample
    rows = torch.from_numpy(np.flatnonzero(active))
    return scatter_rows(rows_of(distribution, rows).sample(), rows, len(active))


def scatter_rows(values: Tensor, rows: Tensor, k: int) -> Tensor:
    """Return a tensor with k rows: `values`, [n, ...], at the indices `rows`, [n], and zeros in all other rows."""
    return values.new_zeros(k, *values.shape[1:]).index_copy(0, rows.to(values.device), values)


def check_observed(agent: Any, obs: Any, reward: Any, done: Any, reset: Any, active: Any = None) -> None:
    """Check the arguments of `BatchAgent.batch_observe` against the agent's last actions.

    Raises:
        RuntimeError: In training, if `act` was not called before.
        ValueError: If the arguments have different lengths.
        NonFiniteError: In training, if a reward is NaN, infinite or too large for float32.
        TypeError: In training, if a reward is not a number.
    """
    if not len(obs) == len(reward) == len(done) == len(reset):
        raise unequal_lengths(obs=obs, reward=reward, done=done, reset=reset)
    if active is not None and len(active) != len(obs):
        raise unequal_lengths(obs=obs, active=active)
    if not agent.training:
        return
    if agent.batch_last_obs is None:
        raise RuntimeError("observe was called in training before act: call act first")
    if len(agent.batch_last_action) != len(obs):
        raise unequal_lengths(obs=obs, last_action=agent.batch_last_action)
    check_rewards(reward, active)
