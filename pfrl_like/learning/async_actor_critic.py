"""The base class of A3C and ACER: several processes act for a few steps, then update a shared model."""

import copy
import logging
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.agent import AttributeSavingMixin, BatchAgent
from pfrl_like.batch import ACTION_MASK, Batch, first_leaf, map_nested
from pfrl_like.errors import NonFiniteError
from pfrl_like.learning.acting import Acting, PolicyActionSelector, check_observed, has_mask
from pfrl_like.learning.compatibility.arguments import check_on_policy_parts
from pfrl_like.learning.compatibility.parts import check_distribution, check_numbers_in
from pfrl_like.learning.compatibility.spaces import check_policy_fits
from pfrl_like.learning.minibatches import steps_for_data
from pfrl_like.learning.model_outputs import check_outputs
from pfrl_like.learning.overrides.async_actor_critic import batch_of_steps, learn_from_steps, update_takes_batch
from pfrl_like.learning.overrides.hooks import HookType, resolve_hooks
from pfrl_like.learning.recurrent_memory import RecurrentMemory, states_of_memory
from pfrl_like.learning.rollout import Steps
from pfrl_like.learning.settings import change_features, settings
from pfrl_like.nn.fast_forward import fast_forward
from pfrl_like.optimizers.gradient_step import GradientStep
from pfrl_like.preprocessing.features import FeatureExtractor, identity
from pfrl_like.utils.checks import check_counts, constructor_only
from pfrl_like.utils.contexts import block_evaluation, evaluation_mode
from pfrl_like.utils.copy_param import copy_grad, copy_param
from pfrl_like.utils.recurrent import forward, get_recurrent_state_at, max_over_sequences

#: Attributes that are not sent to another process. Each process creates them itself.
_PROCESS_ATTRIBUTES = frozenset(["model", "_gradient_step", "_shared_buffers", "_last_distribution"])


@constructor_only("recurrent")
@settings(phi=change_features, batch_states=change_features)
class AsyncActorCritic(Acting, AttributeSavingMixin, BatchAgent, metaclass=HookType):
    """Base class of agents that several processes train without a lock (arXiv:1602.01783, algorithm S3).

    Every process acts with a copy of the shared model for at most `t_max` steps, or until the episode ends. The process
    computes the gradient of `loss` on its copy, applies the gradient to the shared parameters with the shared state of
    the optimiser, and copies the parameters back. With several environments, the agent learns from the steps of each
    environment separately.

    An algorithm defines `loss(batch)`. The agent computes on the CPU.

    Args:
        model: Module from observations to a tuple whose first item is a distribution of actions. The agent acts with a
            copy of the model.
        optimizer: Optimiser of the model's parameters. The processes share the optimiser's state.
        t_max: Maximum number of steps between updates. The agent also updates at the end of each episode.
        gamma: Discount factor per step.
        phi: Feature extractor applied to each observation.
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        recurrent: True if the model has the interface of `pfrl_like.nn.Recurrent`.
        max_grad_norm: Maximum L2 norm of the gradient; None disables clipping.
        act_deterministically: True to select the most probable action in evaluation, False to sample.
        logger: Logger for rejected updates (non-finite loss or gradient).
        decays: Decay rates of the running means, keyed by the name of the statistic.
    """

    process_idx: int | None = None
    _learns_in_group = False  # its processes share the parameters
    saved_attributes: tuple[str, ...] = ("model", "optimizer")

    optimizer: torch.optim.Optimizer
    max_grad_norm: Any
    train_recurrent_states = states_of_memory("train_state")
    test_recurrent_states = states_of_memory("test_state")
    _gradient_step: GradientStep | None = None
    _shared_buffers: Sequence[tuple[Tensor, Tensor]] = ()

    _selector = PolicyActionSelector()
    _acting_network_name = "model"
    _acting_attributes = ("model",)
    value_type: type[Any] = tuple

    #: Classes of the items that follow the distribution in the model's output tuple.
    _further_outputs: tuple[type[Any], ...] = (Tensor,)

    #: Names of statistics with one value per row. The attribute `average_<name>` is the running mean of the statistic.
    _averaged: tuple[str, ...] = ("value", "entropy")
    #: Names of additional numeric attributes that are saved.
    _saved_numbers: tuple[str, ...] = ()
    #: Description of the model's output in error messages.
    _model_parts = "(distribution, values)"

    #: Number of replay updates after each on-policy update.
    n_times_replay: int = 0
    #: True to skip the on-policy updates.
    disable_online_update: bool = False

    #: Steps of the subclass's method that is running, for example `update_on_policy`. None if no such method is
    #: running.
    _override_batch: Batch | None = None
    #: Number of gradient steps that ACER's `update` has made since the agent called the subclass's method.
    _override_updates: int = 0
    past_rewards: Mapping[int, float] = types.MappingProxyType({})

    obs_normalizer: None = None

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        t_max: int,
        gamma: float,
        *,
        phi: Callable[[Any], Any] | None,
        batch_states: Callable[..., Any],
        recurrent: bool,
        max_grad_norm: float | None,
        act_deterministically: bool,
        logger: logging.Logger | None,
        decays: dict[str, float],
    ) -> None:
        resolve_hooks(type(self))
        self.device = torch.device("cpu")
        self.t_max, self.gamma, self.max_grad_norm = t_max, gamma, max_grad_norm
        self.act_deterministically, self.recurrent = act_deterministically, recurrent
        self.logger = logger or logging.getLogger(__name__)
        self.phi = identity if phi is None else phi
        self.batch_states = batch_states
        check_on_policy_parts(self, {"model": model}, {"optimizer": optimizer})
        check_counts(t_max=t_max)
        devices = {param.device.type for param in model.parameters()} - {"cpu"}
        if devices:
            raise ValueError(
                f"model is on {devices.pop()}, but {type(self).__name__} computes on the CPU: call model.cpu()"
            )
        self._shared_model, self.optimizer = model, optimizer
        self.model = copy.deepcopy(model)
        self._set_features(FeatureExtractor(self.phi, batch_states))
        self.recurrent_memory = RecurrentMemory(t_max, self.device) if recurrent else None
        self.t = 0  # steps of this process
        self.optim_t = 0  # updates of this process
        for name, decay in decays.items():
            setattr(self, f"average_{name}", 0.0)
            setattr(self, f"average_{name}_decay", decay)
            check_numbers_in(self, **{f"average_{name}_decay": (0, 1)})
        self._steps: dict[int, Steps] = {}  # keyed by environment index
        self._features: Any = None  # features of the observations of the last `act`

    # Methods that an algorithm defines

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Return the scalar loss, the errors of the state values, [N], and statistics.

        `batch` contains consecutive steps of one episode.
        """
        raise NotImplementedError

    def _learn_from(self, batch: Batch) -> None:
        """Learn from a batch after `t_max` steps or at the end of an episode."""
        self.learn(batch)

    def _learn_by_hooks(self, statevar: Any) -> None:
        """Call PFRL's methods, as PFRL does after `t_max` steps. A subclass may override these methods.

        Args:
            statevar: Features of the last observation. None if the observation is terminal.
        """
        batch: Any = self._override_batch if update_takes_batch(self) else statevar
        self.update(batch)

    def _state_value(self, outputs: Any, action_mask: Tensor | None) -> Tensor:
        """Return state values, [N] or [N, 1], computed from the model's outputs."""
        value: Tensor = outputs[-1]
        return value

    def _store(self, step: tuple[Any, ...], next_mask: Any, active: Any) -> None:
        """Store the last step of each environment for replay. The default does nothing.

        Args:
            step: Observations, actions, rewards, next observations, terminal flags and truncation flags of k
                environments.
            next_mask: True where an action is allowed in the next observations, [k, n_actions]. None for no mask.
            active: False for environments that took no step, [k]. None if all environments took a step.
        """

    # Acting

    def select_actions(self, obs: Any, action_mask: Any, active: Any) -> Any:
        """Select actions for a batch of features. In training, store the features for the update."""
        if self.training:
            self._features = obs
        return super().select_actions(obs, action_mask, active)

    def _value(self, obs: Any, active: Any = None) -> Any:
        """Return the distribution of actions for features."""
        outputs = super()._value(obs, active)
        check_outputs(outputs, first_leaf(obs).shape[0], self._acting_network_name, self._model_parts)
        return outputs[0]

    def _check_output(self, outputs: Any, obs: Any, action_space: Any) -> None:
        """Check that the model's outputs have the right types, and that the actions match the action space.

        Also check that log-probabilities of the actions can be computed.
        """
        super()._check_output(outputs, obs, action_space)
        check_outputs(outputs, 1, self._acting_network_name, self._model_parts, self._further_outputs)
        check_distribution(self._acting_network_name, outputs[0], densities=True)
        if action_space is not None:
            check_policy_fits(outputs[0], action_space, self._acting_network_name)

    # Observing

    def batch_observe(
        self,
        batch_obs: Any,
        batch_reward: Sequence[float],
        batch_done: Sequence[bool],
        batch_reset: Sequence[bool],
        *,
        action_mask: Any = None,
        active: Any = None,
    ) -> None:
        """Process the results of the last actions. In training, learn from each environment's steps separately.

        This method checks the rewards, but not the observations. Runners check observations, and the model or the
        update rejects NaN.

        Args:
            batch_obs: The k observations after the actions. At the end of an episode, the final observation, not the
                first observation of the next episode.
            batch_reward: k rewards.
            batch_done: True for terminal observations, [k]. The update does not bootstrap from terminal observations.
            batch_reset: True where the episode is truncated, [k].
            action_mask: True where an action is allowed in the new observations, [k, n_actions]. Pass the same mask to
                the next `act`.
            active: False for environments that took no step, [k].

        Raises:
            RuntimeError: In training, if `act` was not called before.
            ValueError: If the arguments have different lengths.
            NonFiniteError: In training, if a reward is NaN, infinite or too large for float32. Nothing is stored.
            TypeError: In training, if a reward is not a number. Nothing is stored.
        """
        check_observed(self, batch_obs, batch_reward, batch_done, batch_reset, active)
        if self.training:
            step = (self.batch_last_obs, self.batch_last_action, batch_reward, batch_obs, batch_done, batch_reset)
            self._store(step, action_mask, active)
            if action_mask is None and self._last_mask is not None and has_mask(batch_obs):
                action_mask = [obs[ACTION_MASK] for obs in batch_obs]
            for i in range(len(batch_obs)) if active is None else np.flatnonzero(active).tolist():
                steps = self._steps.get(i)
                if steps is None:
                    state = None if self.recurrent_memory is None else self.recurrent_memory.train_previous_state
                    steps = self._steps[i] = Steps(get_recurrent_state_at(state, [i], True))
                obs = map_nested(lambda leaf: leaf[i : i + 1], self._features)  # noqa: B023 - called immediately
                mask = None if self._last_mask is None else self._last_mask[i]
                reward = float(batch_reward[i])
                steps.rows.append((obs, self.batch_last_obs[i], self.batch_last_action[i], reward, mask))
                self.t += 1
                if batch_done[i] or batch_reset[i] or len(steps) >= self.t_max:
                    del self._steps[i]
                    last_obs = self.features([batch_obs[i]], self.device)
                    last_mask = None if action_mask is None else action_mask[i]
                    batch = steps.batch(last_obs, last_mask, self.gamma, bool(batch_done[i]))
                    if self._overridden_hooks:
                        learn_from_steps(self, batch, [row[1] for row in steps.rows], i)
                    else:
                        self._learn_from(batch)
        if self.recurrent_memory is not None:
            self.recurrent_memory.episodes_ended(self.training, np.logical_or(batch_done, batch_reset))

    def stop_episode(self) -> None:
        """Discard the running episodes: the next observations start new episodes.

        Runners call this method before their first step, because the previous run may have stopped within an episode.
        """
        self._steps.clear()
        if self.recurrent_memory is not None:
            self.recurrent_memory.forget(self.training)

    # Learning

    def update(self, batch: Batch, errors_out: list[float] | None = None) -> tuple[Tensor, dict[str, Tensor]]:
        """Learn once from consecutive steps of one episode. No other method changes the parameters.

        A subclass may override this method with one of two signatures. The agent calls the subclass's method after
        `t_max` steps and at the end of an episode.

        - `update(batch, ...)` gets the steps as a `Batch` of features.
        - `update(statevar)`, as in PFRL's A3C, gets the features of the last observation, tensors [1, ...], or None if
          the observation is terminal. The agent stores the steps in attributes: `past_obs`, `past_action` and
          `past_rewards` are dicts with the keys `t_start`, ..., `t - 1`. `past_recurrent_state` contains only the
          recurrent state at `t_start`. `train_recurrent_states` is the recurrent state after the last step.

        Args:
            batch: Steps in time order, with raw observations. A subclass's `update(statevar)` may also pass `statevar`
                to `super().update`.
            errors_out: List that is cleared and filled with the absolute errors. If None, no errors are stored.

        Returns:
            Errors of the state values, [N], and the statistics of the loss. For a sequence, only the largest error is
            returned, [1].

        Raises:
            ValueError: If the batch contains several sequences.
            NonFiniteError: If the loss or a gradient is NaN or infinite. No parameter is changed. The attribute `batch`
                of the error contains the steps.
        """
        in_override = self._override_batch is not None
        if in_override:
            batch = batch_of_steps(self, batch)
        if batch.lengths is not None and len(batch.lengths) != 1:
            raise ValueError(f"batch has {len(batch.lengths)} sequences, expected the steps of one episode")
        features = batch
        if not self.features.is_identity and not in_override:  # `_override_batch` already has features
            obs, next_obs = (self.features.on_batch(each, self.device) for each in (batch.obs, batch.next_obs))
            features = batch.replace(obs=obs, next_obs=next_obs)
        try:
            with block_evaluation(self.model):
                error, stats = self.learn(features)
        except NonFiniteError as rejection:
            rejection.batch = batch
            raise
        if in_override:
            copy_grad(self._shared_model, self.model)  # as PFRL does
        if batch.lengths is not None:
            error = max_over_sequences(error, batch.lengths)
        if errors_out is not None:
            errors_out[:] = error.abs().tolist()
        return error, stats

    def learn(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Update the parameters with a batch whose observations are features."""
        if isinstance(batch, int):
            raise steps_for_data(batch)
        loss, error, stats = self.loss(batch)
        try:
            self._step_shared(loss)
        except NonFiniteError as rejection:
            rejection.batch = batch
            self.logger.error("update %d was rejected: %s", self.optim_t + 1, rejection)
            raise
        self.optim_t += 1
        for name in self._averaged:
            if name in stats:
                setattr(self, f"average_{name}", self._running_mean(name, stats[name]))
        return error, stats

    def _last_value(self, batch: Batch) -> Tensor:
        """Return the value of the state after the last row, [1], without gradient; 0 if this state is terminal."""
        if not batch.discount[-1]:
            return torch.zeros(1)
        last = map_nested(lambda leaf: leaf[-1:], batch.next_obs)
        mask = None if batch.next_action_mask is None else batch.next_action_mask[-1:]
        with torch.no_grad(), evaluation_mode(self.model):
            if self.recurrent:
                _, state = forward(self.model, batch.obs, batch.recurrent_state, batch.lengths)
                outputs, _ = forward(self.model, last, state)
            else:
                outputs = fast_forward(self.model, last)
            return self._state_value(outputs, mask).reshape(1)

    def _running_mean(self, name: str, values: Tensor) -> float:
        mean: float = getattr(self, f"average_{name}")
        decay: float = getattr(self, f"average_{name}_decay")
        for value in values.tolist():
            mean += (1 - decay) * (value - mean)
        return mean

    # Statistics and files

    def get_statistics(self) -> list[tuple[str, Any]]:
        """Return the running means. They include only steps from which this process has learned."""
        return [(f"average_{name}", getattr(self, f"average_{name}")) for name in self._averaged]

    def saved_state(self) -> dict[str, Any]:
        """Return counters, running means, recurrent states, and the steps since the last update."""
        state: dict[str, Any] = self._numbers()
        if self.recurrent_memory is not None:
            state["memory"] = self.recurrent_memory.state_dict()
        if self._steps:
            with_raw_obs = bool(self._overridden_hooks)
            state["steps"] = {str(i): steps.state_dict(with_raw_obs) for i, steps in self._steps.items()}
        return state

    def restore_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `saved_state`.

        If an entry is missing in `state`, the corresponding attribute does not change. Exception: the steps since the
        last update are always replaced. If `state` has no steps, they are removed.

        Raises:
            ValueError: If `state` has an unknown entry, or a value of the wrong type. The agent is not changed.
        """
        state = dict(state)
        steps = {int(i): Steps.from_state(each) for i, each in state.pop("steps", {}).items()}
        memory = copy.copy(self.recurrent_memory)
        if memory is not None and "memory" in state:
            memory.load_state_dict(state.pop("memory"))
        numbers = self._numbers()
        for name, value in state.items():
            if name not in numbers:
                raise ValueError(f"unknown entry {name!r} in the state of this {type(self).__name__}")
            if type(value) not in (int, type(numbers[name])):
                raise ValueError(f"{name} is {value!r:.80}, expected a number such as {numbers[name]!r}")
        vars(self).update(state)
        self.recurrent_memory, self._steps = memory, steps

    def _numbers(self) -> dict[str, Any]:
        names = ("t", "optim_t", *(f"average_{name}" for name in self._averaged), *self._saved_numbers)
        return {name: getattr(self, name) for name in names}

    # The shared model (arXiv:1602.01783, algorithm S3)

    @property
    def shared_attributes(self) -> tuple[str, ...]:
        """Names of the attributes that processes share: the model and the optimiser."""
        return ("shared_model", "optimizer")

    @property
    def shared_model(self) -> torch.nn.Module:
        """Model that all processes share. An assignment also copies the parameters to the model that acts."""
        return self._shared_model

    @shared_model.setter
    def shared_model(self, model: torch.nn.Module) -> None:
        self._shared_model = model
        self._gradient_step = None
        copy_param(self.model, model)

    def sync_parameters(self) -> None:
        """Copy the shared parameters to the model that acts."""
        copy_param(self.model, self._shared_model)

    def assert_shared_memory(self) -> None:
        """Check that the processes share all parameters and that each process acts with its own copy.

        Raises:
            AssertionError: If some, but not all, tensors of the shared model and its optimiser are in shared memory, or
                if a tensor of the acting copy is in shared memory. No error is raised if no tensor is in shared memory,
                because the agent then trains in one process.
        """
        states = self.optimizer.state_dict()["state"].values()
        shared = [*self._shared_model.state_dict().values()]
        shared += [value for state in states for value in state.values() if isinstance(value, Tensor)]
        if any(value.is_shared() for value in shared):
            assert all(value.is_shared() for value in shared), "shared_model or optimizer is not all in shared memory"
        assert not any(value.is_shared() for value in self.model.state_dict().values()), "model is in shared memory"

    def _step_shared(self, loss: Tensor) -> None:
        """Update the shared parameters with the gradients of the acting copy, then copy the parameters back.

        Raises:
            NonFiniteError: If the loss or the gradient is NaN or infinite. No parameter is changed.
        """
        step = self._gradient_step
        if step is None or step.optimizer is not self.optimizer or step.max_grad_norm != self.max_grad_norm:
            shared, acting = self._shared_model, self.model
            params = [param for group in self.optimizer.param_groups for param in group["params"]]
            copies: dict[Tensor, Tensor] = {
                param: param for param in params
            }  # for the model's parameters, the next line sets the copy
            copies |= dict(zip(shared.parameters(), acting.parameters(), strict=True))
            self._shared_buffers = list(zip(shared.buffers(), acting.buffers(), strict=True))
            step = self._gradient_step = GradientStep(self.optimizer, self.max_grad_norm, copies=copies)
        step(loss)
        for buffer, acting_buffer in self._shared_buffers:
            buffer.copy_(acting_buffer)  # for example running moments
        self.sync_parameters()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the acting copy, because pickling would move the copy's tensors to shared memory."""
        return {name: value for name, value in vars(self).items() if name not in _PROCESS_ATTRIBUTES}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.model = copy.deepcopy(self._shared_model)

    def load(self, dirname: Any) -> None:
        """Load a directory written by `save` or by PFRL, and copy the parameters to the shared model.

        Raises:
            CheckpointError: If the directory does not contain a complete saved agent of this class. The agent does not
                change.
        """
        super().load(dirname)
        copy_param(self._shared_model, self.model)

    def load_state_dict(self, state_dict: Any) -> None:
        """Load the result of `state_dict`, and copy the parameters to the shared model.

        Raises:
            CheckpointError: If the dict does not match this agent. The agent does not change.
        """
        super().load_state_dict(state_dict)
        copy_param(self._shared_model, self.model)
