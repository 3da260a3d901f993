"""The training loop of on-policy agents: collect steps, learn from them, discard them."""

import dataclasses
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.agent import AttributeSavingMixin, BatchAgent
from pfrl_like.batch import ACTION_MASK, Batch, first_leaf, map_nested
from pfrl_like.errors import NonFiniteError
from pfrl_like.gpu import resolve_device
from pfrl_like.learning import statistics
from pfrl_like.learning.acting import Acting, PolicyActionSelector, check_observed
from pfrl_like.learning.acting_copy import rollout_acting_copy
from pfrl_like.learning.chunks import acting_columns, observe_rollout_chunk, send_step
from pfrl_like.learning.compatibility.arguments import check_on_policy_parts
from pfrl_like.learning.compatibility.parts import check_distribution
from pfrl_like.learning.compatibility.spaces import check_policy_fits, raise_for_unknown_action
from pfrl_like.learning.minibatches import batch_of_episodes, episodes_of_batch, joined_episodes, with_advantages
from pfrl_like.learning.model_outputs import allowed, check_outputs
from pfrl_like.learning.overrides.hooks import HookType, resolve_hooks
from pfrl_like.learning.overrides.on_policy import episodes_of_rollout
from pfrl_like.learning.recurrent_memory import RecurrentMemory, batch_first, states_of_memory
from pfrl_like.learning.rollout import Episodes, Rollout, Rows
from pfrl_like.learning.settings import change_features, change_max_norm, settings
from pfrl_like.learning.update_guard import UpdateGuard, diagnose, save, settle, trailed
from pfrl_like.optimizers.compiled_step import Update
from pfrl_like.optimizers.gradient_step import GradientStep
from pfrl_like.preprocessing.features import FeatureExtractor, identity
from pfrl_like.utils.checks import LARGEST_REWARD, check_counts, constructor_only
from pfrl_like.utils.contexts import block_evaluation


@constructor_only("recurrent")
@settings(phi=change_features, batch_states=change_features, max_grad_norm=change_max_norm)
class OnPolicyAgent(Acting, AttributeSavingMixin, BatchAgent, metaclass=HookType):
    """Base class of agents that learn only from steps of their current policy.

    An algorithm adds its modules and optimisers as attributes and defines `learn(episodes)`. If `value_type` is `tuple`
    (the default), the model returns the tuple (distribution of actions, values [B, 1]). Otherwise the model returns an
    object of the class `value_type`.

    Args:
        modules: Trained modules, keyed by the name of the constructor argument, which error messages use. The agent
            moves them to the device.
        optimizers: Optimisers of the modules, keyed by the name of the constructor argument. `gradient_steps` has a
            `GradientStep` for each optimiser.
        rollout_size: Number of steps, summed over all environments, between updates. None if a subclass overrides
            `is_due`.
        windows: Number of values in each running mean, keyed by the name of the statistic. The attribute
            `<name>_record` contains the newest values.
        gpu: CUDA device index. None or a negative index means the CPU.
        device: Device as a string or `torch.device`, instead of `gpu`.
        gamma: Discount factor per step.
        phi: Feature extractor applied once to each observation, when the agent selects the action.
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        act_deterministically: True to select the most probable action in evaluation, False to sample.
        max_grad_norm: Maximum L2 norm of the gradient; None disables clipping.
        logger: Logger for rejected updates (non-finite loss or gradient).
        recurrent: True to train the model on sequences. The model must have the interface of `pfrl_like.nn.Recurrent`.
        obs_normalizer: Normaliser of features. In an update, its statistics are updated with the collected features,
            after the advantages are computed and before the gradient steps. None disables normalisation.
    """

    _selector = PolicyActionSelector()
    saved_attributes: tuple[str, ...] = ("model", "optimizer")
    _acting_attributes: tuple[str, ...] = ("model",)
    _acting_network_name = "model"
    value_type: type[Any] = tuple

    #: Names of numeric attributes that are saved. NaN means that an attribute has no value yet.
    _saved_numbers: tuple[str, ...] = ()

    train_recurrent_states = states_of_memory("train_state")
    train_prev_recurrent_states = states_of_memory("train_previous_state")
    test_recurrent_states = states_of_memory("test_state")

    model: Any
    obs_normalizer: Any
    #: Last values of the entropy and of the state value, in agents that record these statistics.
    entropy_record: deque[float]
    value_record: deque[float]

    #: Collector of the steps of an acting copy, in the place of the rollout: a `ChunkSender`. None in other agents.
    step_collector: Any = None
    #: Columns that acting records and the rollout keeps, among "log_prob" (of the acting policy) and "value". They are
    #: in `Episodes.steps` of an update. If empty, the update computes them with its own model.
    _acting_columns: tuple[str, ...] = ()
    _last_acting_columns: Mapping[str, Tensor]  # all these columns of the last step, each [k]

    #: Minibatch of the subclass's method that is running, for example `_lossfun`. None if no such method is running.
    _override_batch: Batch | None = None
    #: Episodes of the subclass's `update` that is running. None if no such method is running.
    _override_episodes: Episodes | None = None

    def __init__(
        self,
        modules: Mapping[str, torch.nn.Module],
        optimizers: Mapping[str, torch.optim.Optimizer],
        *,
        rollout_size: int | None,
        windows: Mapping[str, int],
        gpu: int | None,
        device: torch.device | str | None,
        gamma: float,
        phi: Callable[[Any], Any] | None,
        batch_states: Callable[..., Any],
        act_deterministically: bool,
        max_grad_norm: float | None,
        logger: logging.Logger,
        recurrent: bool = False,
        obs_normalizer: torch.nn.Module | None = None,
    ) -> None:
        resolve_hooks(type(self))
        self.device = resolve_device(gpu, device)
        self.gpu, self.gamma = gpu, gamma
        self.phi = identity if phi is None else phi
        self.batch_states, self.act_deterministically = batch_states, act_deterministically
        self.max_grad_norm, self.logger, self.recurrent = max_grad_norm, logger, recurrent
        self.obs_normalizer = obs_normalizer
        check_on_policy_parts(self, modules, optimizers)
        check_counts(1, False, **{f"{name}_stats_window": size for name, size in windows.items()})
        for module in (*modules.values(), obs_normalizer):
            if module is not None:
                module.to(self.device)
        self._set_features(FeatureExtractor(self.phi, batch_states))
        self.recurrent_memory = RecurrentMemory(None, self.device) if recurrent else None
        self.gradient_steps = {name: GradientStep(each, max_grad_norm) for name, each in optimizers.items()}
        self.guard = UpdateGuard(self.device)
        self._rollout_size = rollout_size
        self._rollout = Rollout() if rollout_size is None else Rollout(rollout_size)
        self._features: Any = None  # features of the observations of the last `act`
        self._last_outputs: Any = None  # outputs of the model for these features
        self._next_obs: list[Any] = []  # the last observation of each environment
        self._bootstrap_inputs = self._make_bootstrap_inputs  # `restore_state` assigns another function
        self.t = self._cumulative_steps = 0  # environment steps in training
        self.n_updates = 0
        self._records = statistics.make_records(self, windows)

    # Methods that an algorithm defines

    def is_due(self) -> bool:
        """Return True if enough steps are collected for an update."""
        return self._rollout_size is not None and len(self._rollout) >= self._rollout_size

    def waiting_for(self) -> str | None:
        """Return a text that says how many steps the next update needs. None if their number is not fixed."""
        if self._rollout_size is None or len(self._rollout) >= self._rollout_size:
            return None
        return f"the agent holds {len(self._rollout):,} of the {self._rollout_size:,} steps of an update"

    @property
    def steps_until_update(self) -> int | None:
        """Number of steps that the next update still needs. None if their number is not fixed."""
        return None if self._rollout_size is None else max(0, self._rollout_size - len(self._rollout))

    @property
    def corrects_lag(self) -> bool:
        """True if the update corrects for steps of older policies. It then needs their log-probabilities."""
        return "log_prob" in self._acting_columns

    def learn(self, episodes: Episodes) -> Update:
        """Learn from episodes of features. Return the TD errors or advantages of the steps, [N], and statistics."""
        raise NotImplementedError

    # Acting

    def select_actions(self, obs: Any, action_mask: Any, active: Any) -> Any:
        """Select actions for a batch of features. In training, store the features for the update."""
        actions = super().select_actions(obs, action_mask, active)
        if self.training:
            self._features = obs
            distribution, value = self._last_outputs
            active_rows = slice(None) if active is None else torch.from_numpy(np.flatnonzero(active)).to(self.device)
            if self.step_collector is None:
                self._record_acting(allowed(distribution, action_mask), value, active_rows)
        return actions

    def _value(self, obs: Any, active: Any = None) -> Any:
        """Return the distribution of actions for features."""
        output = super()._value(self._normalized(obs), active)
        if self.value_type is tuple:
            check_outputs(output, first_leaf(obs).shape[0], self._acting_network_name)
        outputs = output if self.value_type is tuple else (output, None)
        if self.training:  # evaluation may run in other threads, so it stores nothing
            self._last_outputs = outputs
        return outputs[0]

    def _record_acting(self, distribution: Any, value: Any, active_rows: Any) -> None:
        """Add the entropies and values of some rows to the records. `active_rows` is the index of these rows."""
        if self._records:
            statistics.add_values(
                self, self._records, {"entropy": distribution.entropy()[active_rows], "value": value[active_rows]}
            )

    def _normalized(self, obs: Any) -> Any:
        """Return the input of the model: the features, normalised if there is a normaliser."""
        return obs if self.obs_normalizer is None else self.obs_normalizer(obs, update=False)

    def _check_output(self, output: Any, obs: Any, action_space: Any) -> None:
        """Check that the model's outputs have the right types, and that the actions match the action space.

        Also check that log-probabilities of the actions can be computed.
        """
        super()._check_output(output, obs, action_space)
        if self.value_type is tuple:
            check_outputs(output, 1, self._acting_network_name)
        distribution = output[0] if self.value_type is tuple else output
        check_distribution(self._acting_network_name, distribution, densities=True)
        if action_space is not None:
            check_policy_fits(distribution, action_space, self._acting_network_name)

    # Observing

    def observe(self, obs: Any, reward: float, done: bool, reset: bool, *, action_mask: Any = None) -> None:
        """Process the result of the last action; see `batch_observe`."""
        self.batch_observe([obs], [reward], [done], [reset])

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
        """Process the results of the last actions. In training, store the steps, and learn if `is_due` returns True.

        This method checks the rewards, but not the observations. Runners check observations, and the model or the
        update rejects NaN.

        Args:
            batch_obs: The k observations after the actions. At the end of an episode, the final observation, not the
                first observation of the next episode.
            batch_reward: k rewards.
            batch_done: True for terminal observations, [k]. The update does not bootstrap from terminal observations.
            batch_reset: True where the episode is truncated, [k].
            action_mask: True where an action is allowed in the new observations, [k, n_actions]. This agent ignores
                the argument. Pass the mask to the next `batch_act` call.
            active: False for environments that took no step, [k].

        Raises:
            RuntimeError: In training, if `act` was not called before.
            ValueError: If the arguments have different lengths.
            NonFiniteError: In training, if a reward is NaN, infinite or too large for float32. Nothing is stored.
            TypeError: In training, if a reward is not a number. Nothing is stored.
        """
        k = len(batch_obs)
        if (
            not k == len(batch_reward) == len(batch_done) == len(batch_reset)
            or active is not None
            or not self.training
            or self.batch_last_obs is None
            or len(self.batch_last_action) != k
            or [r for r in batch_reward if type(r) is not float or not -LARGEST_REWARD <= r <= LARGEST_REWARD]
        ):  # `check_observed` is slow; call it only if one of these cheap checks fails
            check_observed(self, batch_obs, batch_reward, batch_done, batch_reset, active)
        terminated, truncated = np.asarray(batch_done, np.bool_), np.asarray(batch_reset, np.bool_)
        ended = terminated | truncated
        if self.training:
            self._store(batch_obs, np.asarray(batch_reward, np.float32), terminated, ended, active)
        if self.recurrent_memory is not None:
            self.recurrent_memory.episodes_ended(self.training, ended)
        if self.training and self.is_due():
            self.update_from_rollout()

    def stop_episode(self) -> None:
        """Truncate the running episodes: the next observations start new episodes.

        Runners call this method before their first step, because the previous run may have stopped within an episode.
        """
        if self.training and self.step_collector is not None and self.batch_last_obs is not None:
            for env_id in range(len(self.batch_last_obs)):
                self.step_collector.stop_current_episode(env_id)
        if self.training and len(self._rollout):
            self._end_running()
        if self.recurrent_memory is not None:
            self.recurrent_memory.forget(self.training)

    def _end_running(self, among: Rows | None = None) -> None:
        """Truncate the running episodes, or only those of the environments `among`."""
        env_ids, rows = self._rollout.running()
        if among is not None:
            env_ids, rows = (each[np.isin(env_ids, among)] for each in (env_ids, rows))
        self._rollout.end(rows)
        self._truncate(env_ids, rows)

    def _store(self, next_obs: Any, reward: Any, terminated: Any, ended: Any, active: Any) -> None:
        """Store the step of each active environment, and the final observations of truncated episodes."""
        if self.step_collector is not None or self._acting_columns:
            distribution, value = self._last_outputs  # an explorer or a subclass may have changed the actions
            distribution = allowed(distribution, self._last_mask)
            self._last_acting_columns = acting_columns(distribution, value, self.batch_last_action)
        if self.step_collector is not None:
            send_step(self, next_obs, reward, terminated, ended, active)
            return
        k = len(reward)
        columns = {
            **{name: self._last_acting_columns[name] for name in self._acting_columns},
            "obs": self._features,
            "action": torch.as_tensor(np.asarray(self.batch_last_action)),
            "reward": torch.from_numpy(reward),
            "terminated": torch.from_numpy(terminated),
        }
        if self._last_mask is not None:
            columns[ACTION_MASK] = torch.as_tensor(np.asarray(self._last_mask), dtype=torch.bool)
        if (memory := self.recurrent_memory) is not None:
            columns["state"] = batch_first(memory.train_previous_state, memory.train_state)
        env_ids = np.arange(k)
        if len(self._next_obs) != k:
            self._next_obs = [None] * k
        if active is not None and not np.all(active):
            env_ids = np.flatnonzero(active)
            rows = torch.from_numpy(env_ids)
            columns = {name: map_nested(lambda leaf: leaf[rows.to(leaf.device)], v) for name, v in columns.items()}
            terminated, ended = terminated[env_ids], ended[env_ids]
            for i in env_ids:
                self._next_obs[i] = next_obs[i]
        else:
            self._next_obs = next_obs
        added = self._rollout.append(env_ids, ended, **columns)
        truncated_rows = ended & ~terminated
        self._bootstrap_inputs = self._make_bootstrap_inputs
        if truncated_rows.any():
            self._truncate(env_ids[truncated_rows], added[truncated_rows])
        self.t += len(env_ids)
        self._cumulative_steps += len(env_ids)

    def _truncate(self, env_ids: Rows, rows: Rows) -> None:
        """Store the bootstrap inputs of the truncated episodes of `env_ids`. `rows` are the episodes' last steps."""
        if len(rows):
            self._rollout.add_bootstrap_inputs(rows, *self._bootstrap_inputs(env_ids))

    def _make_bootstrap_inputs(self, env_ids: Rows) -> tuple[Any, Any]:
        """Return the features of environments' last observations, and the recurrent states before them."""
        obs = self.features([self._next_obs[i] for i in env_ids], self.device)
        if self.recurrent_memory is None:
            return obs, None
        state = batch_first(self.recurrent_memory.train_state, self.recurrent_memory.train_state)
        return obs, map_nested(lambda leaf: leaf[torch.from_numpy(env_ids).to(leaf.device)], state)

    observe_chunk = observe_rollout_chunk
    acting_copy = rollout_acting_copy

    # Learning

    def update_from_rollout(self) -> None:
        """Learn from all collected steps, and remove them from the rollout."""
        self._learn_once(self._rollout.take(self.gamma, self.device, self._bootstrap_inputs))

    def update(self, batch: Batch | None = None, errors_out: list[float] | None = None) -> Update:
        """Learn once from a batch of steps, in the same way as from a rollout.

        Args:
            batch: Transitions or sequences with raw observations. A missing column `log_prob`, `value`, `advantage` or
                `returns` is computed. For a sequence, all steps of the sequence are used. A subclass of `A2C` whose
                `update()` has no argument may pass None to `super().update`. The agent then learns from the collected
                steps.
            errors_out: List that is cleared and filled with the absolute advantages. If None, no advantages are stored.

        Returns:
            Advantages of the rows, [N], and the statistics of the losses.

        Raises:
            ValueError: If the batch contains an action that the model does not have. The message contains the row.
            NonFiniteError: If a reward, a value, a loss or a gradient is NaN or infinite. The attribute `batch` of the
                error is the batch. Rewards, state values and advantages are checked before any parameter changes. On a
                GPU, the error of a loss or gradient is raised later and has no batch.
        """
        if batch is None:
            return self.learn(episodes_of_rollout(self))
        episodes, order = episodes_of_batch(self, batch)
        if self._override_episodes is None:
            error, stats = self._learn_once(episodes, batch)
        else:
            error, stats = self.learn(episodes)
        error = torch.empty_like(error).index_copy(0, order.to(error.device), error)
        if errors_out is not None:
            errors_out[:] = error.abs().tolist()
        return error, stats

    def _learn_once(self, episodes: Episodes, batch: Batch | None = None) -> Update:
        group = self.learner_group
        if group is not None and not group.is_updating:
            joined, rows = joined_episodes(group, episodes)
            with group.update():
                error, stats = self._learn_once(joined)
            return error[rows], stats
        self.guard.before()
        try:
            with block_evaluation(*(getattr(self, name) for name in self.saved_attributes)):
                error, stats = self.learn(episodes)
        except NonFiniteError as failure:
            batch = batch_of_episodes(episodes) if batch is None else batch
            self.guard.reject(self, failure, batch, self.n_updates + 1)
            raise
        except RuntimeError as failure:
            if batch is not None:
                raise_for_unknown_action(batch, failure)
            raise
        statistics.add_values(self, self._records, stats)
        return error, stats

    # Progress

    cumulative_steps = property(statistics.cumulative_steps)

    def _window_means(self) -> list[tuple[str, float]]:
        """Return the means of the records, as ("average_name", mean)."""
        return statistics.means(self, self._records)

    saved_state = statistics.saved_rollout
    restore_state = statistics.restore_rollout
    _move_average = statistics.move_average

    trailed = property(trailed)
    settle = settle
    save = save
    diagnose = diagnose

    def rollback(self, updates: int) -> None:
        """Decrease `n_updates` by `updates`.

        This is the number of updates that the GPU skipped because the loss or gradient was NaN or infinite.
        """
        self.n_updates -= updates

    _with_advantages = with_advantages

    def normalized_anew(self, episodes: Episodes, steps: Batch) -> Episodes:
        """Update the normaliser with `steps.obs`, then normalise them. Return the episodes with these steps."""
        if self.obs_normalizer is not None:
            self.obs_normalizer.experience(steps.obs)
        return dataclasses.replace(episodes, steps=steps.replace(obs=self._normalized(steps.obs)))
