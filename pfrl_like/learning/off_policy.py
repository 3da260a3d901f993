"""The training loop of replay agents: store steps, sample minibatches, update networks and target networks."""

import logging
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.agent import AttributeSavingMixin, BatchAgent
from pfrl_like.batch import Batch
from pfrl_like.errors import NonFiniteError
from pfrl_like.gpu import resolve_device
from pfrl_like.learning import statistics
from pfrl_like.learning.acting import Acting, check_observed
from pfrl_like.learning.acting_copy import acting_copy, setup_actor_learner_training
from pfrl_like.learning.chunks import count_step, observe_replay_chunk
from pfrl_like.learning.compatibility.arguments import check_arguments, check_parts, check_start
from pfrl_like.learning.compatibility.spaces import check_dataset, raise_for_unknown_action
from pfrl_like.learning.critics import Targets, rollback, updates_per_sync
from pfrl_like.learning.minibatches import features_of_batch, row_shape_error, steps_for_data
from pfrl_like.learning.overrides import off_policy as overrides
from pfrl_like.learning.overrides.hooks import HookType, resolve_hooks
from pfrl_like.learning.overrides.replay_updater import replay_updater
from pfrl_like.learning.recurrent_memory import RecurrentMemory, states_of_memory, store_step
from pfrl_like.learning.settings import change_features, change_max_norm, change_optimizer, settings
from pfrl_like.learning.update_guard import UpdateGuard, diagnose, save, settle, trailed
from pfrl_like.optimizers.compiled_region import CompiledFunction
from pfrl_like.optimizers.compiled_step import CompiledStep, Step, Update
from pfrl_like.optimizers.gradient_step import GradientStep, StepsOfUpdate
from pfrl_like.preprocessing.features import FeatureExtractor, identity
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_of_experiences
from pfrl_like.utils.checks import constructor_only
from pfrl_like.utils.contexts import MODE_LOCK, NO_LOCK, block_evaluation
from pfrl_like.utils.copy_param import synchronize_parameters
from pfrl_like.utils.recurrent import max_over_sequences


@constructor_only("recurrent", "num_steps", "burn_in")
@settings(phi=change_features, batch_states=change_features, optimizer=change_optimizer, max_grad_norm=change_max_norm)
class OffPolicyAgent(Acting, AttributeSavingMixin, BatchAgent, metaclass=HookType):
    """Base class of agents with a replay buffer and target networks.

    An algorithm adds its modules and optimisers as attributes. It defines `loss(batch)`, or `learn(batch)` if there
    are several losses or optimisers. It may override `select_actions`.

    Args:
        modules: Trained modules, keyed by the name of the constructor argument, which error messages use. The agent
            moves them to the device.
        optimizers: Optimisers of the modules, keyed by the name of the constructor argument. `gradient_steps` has a
            `GradientStep` for each optimiser.
        replay_buffer: Replay buffer that stores the transitions; an episodic replay buffer if `recurrent` is True.
        gamma: Discount factor per step.
        explorer: Explorer that selects the training action.
        gpu: CUDA device index. None or a negative index means the CPU.
        device: Device as a string or `torch.device`, instead of `gpu`.
        replay_start_size: Minimum `len(replay_buffer)` for an update.
        minibatch_size: Number of transitions per update; number of sequences if `recurrent` is True.
        update_interval: Number of steps between updates.
        target_update_interval: Number of steps between updates of the target network; must be a multiple of
            `update_interval`. None if the agent updates its target networks itself.
        phi: Feature extractor applied to each observation before the network. The replay buffer stores raw
            observations.
        target_update_method: "hard" copies the online parameters to the target network. "soft" moves each target
            parameter by the fraction `soft_update_tau` of its distance to the online parameter.
        soft_update_tau: Weight of the online parameters in a soft update, in (0, 1].
        n_times_update: Number of updates every `update_interval` steps.
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        episodic_update_len: Maximum length of the sequences in recurrent updates, in steps; None uses whole episodes.
        logger: Logger for rejected updates (non-finite loss or gradient).
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        recurrent: True to train the Q-function on sequences. The Q-function must have the interface of
            `pfrl_like.nn.Recurrent`.
        max_grad_norm: Maximum L2 norm of the gradient; None disables clipping.
        num_steps: Number of steps n of the n-step returns in recurrent updates. If n > 1, an `ActionValue` that a
            network returns must support indexing by rows, `value[rows]`. For updates that are not recurrent, set
            `num_steps` of the replay buffer instead.
        burn_in: Number of steps at the beginning of each sequence that only warm up the recurrent state. The loss
            ignores these steps.
        compile: True to compile the update and the selection of greedy actions. Requires Adam, AdamW, RMSprop or SGD,
            and `recurrent=False`. The update is compiled when it runs for the second time. The selection is compiled
            for each batch size, when this size occurs for the second time. Each compilation takes about 30 s and is
            logged (level INFO).
    """

    saved_attributes: tuple[str, ...] = ("model", "target_model", "optimizer")
    #: Names of the modules with a target network. The target network of `name` is the attribute `target_<name>`.
    _target_attributes: tuple[str, ...] = ("model",)
    #: Specification of the target networks, and of the times at which they are updated.
    _targets: Targets = Targets()
    #: True for offline agents. They learn from recorded data. Their replay buffer may stay empty.
    _is_offline: bool = False
    #: True if the losses use the next observations.
    bootstraps: bool = True
    #: True if a network processes states and next states in one batch. Batch normalisation then uses the statistics of
    #: both.
    joins_next_states: bool = False
    _ignores_mode: bool | None = None  # True if no network has layers such as dropout; None if unknown
    #: True if the agent can learn from sequences with recurrent networks.
    _may_be_recurrent: bool = True
    #: True if the agent learns from sequences. It is always True if `recurrent` is True.
    learns_from_sequences: bool = False
    #: Additional arguments of `sample_batch` and `sample_sequences`, for columns that only some losses need.
    sampling: Mapping[str, Any] = types.MappingProxyType({})

    #: Names of statistics of the losses with one value per row, [N]. The attribute `<name>_record` contains the last
    #: 1,000 values of the statistic, and `get_statistics` returns their mean as "average_<name>". A user may replace
    #: the record with a deque or list.
    averaged_rows: tuple[str, ...] = ("q",)
    #: Names of statistics of the losses with one value per update. Their records contain the last 100 values.
    averaged_updates: tuple[str, ...] = ("loss",)
    #: Attribute names of the saved counters, keyed by the counter's name in the saved state.
    _saved_counters: Mapping[str, str] = types.MappingProxyType(
        {"t": "t", "optim_t": "optim_t", "cumulative_steps": "_cumulative_steps", "updates_left": "_updates_left"}
    )
    _records: Mapping[str, str] = types.MappingProxyType({})  # attribute names of the records, keyed by statistic
    _unrestored: tuple[str, ...] = ()  # reasons why the last loaded state is only partly restored

    #: Function that changes the minibatch of features before each update, for example for data augmentation. It may
    #: return several versions of each of the N rows: the first N rows of the result are then the first version, the
    #: next N rows the second version. If None, the minibatch is not changed.
    augment: Callable[[Batch], Batch] | None = None

    #: Updates that make the steps of every k-th update: the policy's steps, and the updates of target networks (k is
    #: `policy_update_delay`, or U in `update`). True: updates k, 2k, ... False: updates 1, k + 1, 2k + 1, ..., as in
    #: d3rlpy 2.8; only calls of `update` then count, and a target network is updated at the end of `update`. Assign it
    #: before the first update.
    delays_first_update: bool = True

    #: Minibatch of the subclass's method that is running, for example `_compute_loss`. None if no such method is
    #: running.
    _override_batch: Batch | None = None
    _updates_left: int = sys.maxsize  # until the next update of the target networks
    #: Object that makes the updates in place of the agent, assigned to `replay_updater`. None if the agent makes them.
    _own_updater: Any = None
    replay_updater = replay_updater
    train_recurrent_states = states_of_memory("train_state")
    train_prev_recurrent_states = states_of_memory("train_previous_state")
    test_recurrent_states = states_of_memory("test_state")

    def __init__(
        self,
        modules: Mapping[str, torch.nn.Module],
        optimizers: Mapping[str, torch.optim.Optimizer],
        replay_buffer: AbstractReplayBuffer,
        gamma: float,
        explorer: Any,
        *,
        gpu: int | None,
        device: torch.device | str | None,
        replay_start_size: int,
        minibatch_size: int,
        update_interval: int,
        target_update_interval: int | None,
        phi: Callable[[Any], Any] | None,
        target_update_method: str,
        soft_update_tau: float,
        n_times_update: int,
        batch_accumulator: str,
        episodic_update_len: int | None,
        logger: logging.Logger,
        batch_states: Callable[..., Any],
        recurrent: bool,
        max_grad_norm: float | None,
        num_steps: int,
        burn_in: int,
        compile: bool,
    ) -> None:
        resolve_hooks(type(self))
        self.device = resolve_device(gpu, device)
        self.gpu, self.replay_buffer, self.gamma = gpu, replay_buffer, gamma
        self.explorer, self.replay_start_size, self.minibatch_size = explorer, replay_start_size, minibatch_size
        self.update_interval, self.target_update_interval = update_interval, target_update_interval
        self.target_update_method, self.soft_update_tau = target_update_method, soft_update_tau
        self.n_times_update, self.batch_accumulator = n_times_update, batch_accumulator
        self.episodic_update_len, self.logger, self.recurrent = episodic_update_len, logger, recurrent
        self.learns_from_sequences = self.learns_from_sequences or recurrent
        self.max_grad_norm, self.num_steps, self.burn_in = max_grad_norm, num_steps, burn_in
        self.phi = identity if phi is None else phi
        self.batch_states = batch_states
        check_parts(self, modules, optimizers)
        check_arguments(self)
        self._check_modules(modules)
        for module in modules.values():
            module.to(self.device)
        self._set_features(FeatureExtractor(self.phi, batch_states))
        self.recurrent_memory = RecurrentMemory(episodic_update_len, self.device) if recurrent else None
        several = len(optimizers) > 1
        self.gradient_steps = {name: GradientStep(each, max_grad_norm, several) for name, each in optimizers.items()}
        overrides.check_not_compiled(self, compile)
        has_learn = type(self).learn is not OffPolicyAgent.learn
        if compile and has_learn and type(self).update_step is OffPolicyAgent.update_step:
            name = type(self).__name__
            raise ValueError(f"compile is True, but {name} defines learn(batch) and not update_step(batch, step)")
        self._compiled = CompiledStep(self.update_step, optimizers, max_grad_norm) if compile else None
        self._compiled_greedy = CompiledFunction(self._greedy_actions, self, "acting") if compile else None

        self.guard = UpdateGuard(self.device, modules.values())
        #: Gradient steps of the last update. On a GPU, their attribute `refused` is 1 if the GPU skipped the update.
        self._last_steps: GradientStep | StepsOfUpdate = next(iter(self.gradient_steps.values()))
        self.t = self._cumulative_steps = 0  # environment steps in training
        self.optim_t = 0  # updates
        self._updates_left = self._updates_per_sync()
        self._clear_records()

    def _set_features(self, features: FeatureExtractor) -> None:
        """Set the feature extractor."""
        super()._set_features(features)
        on_cpu = self.device.type == "cpu"
        self._takes_raw = features.is_identity and on_cpu and not self.burn_in and self.num_steps == 1

    # Methods that an algorithm defines

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Return the scalar loss, the TD errors, [N], and statistics of a minibatch.

        This method does not change the agent. The names of the statistics are listed in `averaged_rows` and
        `averaged_updates`.
        """
        raise NotImplementedError

    def _check_modules(self, modules: Mapping[str, torch.nn.Module]) -> None:
        """Check the classes of the modules, keyed by argument name. `dry_run` checks their inputs and outputs."""

    def _check_output(self, output: Any, obs: Any, action_space: Any) -> None:
        """Make the checks of `dry_run`.

        In training, also check that the capacity of the buffer is at least `replay_start_size`.
        """
        if self.training and action_space is not None:
            check_start(self)
        super()._check_output(output, obs, action_space)

    def update_step(self, batch: Batch, step: Step) -> Update:
        """Make all gradient steps of one update. Return the TD errors, [N], and statistics.

        If the argument `compile` is True, this method is compiled.

        Args:
            batch: Minibatch whose observations are features (after `phi`).
            step: Function that makes a gradient step, called as (name of the optimiser's attribute, loss).
        """
        loss, td_error, stats = self.loss(batch)
        step("optimizer", loss)
        return td_error, stats

    # Observing

    def observe(self, obs: Any, reward: float, done: bool, reset: bool, *, action_mask: Any = None) -> None:
        """Process the result of the last action; see `batch_observe`."""
        masks = {} if action_mask is None else {"action_mask": [action_mask]}  # not an argument of PFRL's batch_observe
        self.batch_observe([obs], [reward], [done], [reset], **masks)

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
        """Process the results of the last actions. In training, store the steps and learn.

        The replay buffer checks the rewards. This method does not check the observations: runners check them, and the
        update rejects a NaN loss.

        Args:
            batch_obs: The k observations after the actions. At the end of an episode, the final observation, not the
                first observation of the next episode.
            batch_reward: k rewards.
            batch_done: True for terminal observations, [k]. The update does not bootstrap from terminal observations.
            batch_reset: True where the episode is truncated, [k].
            action_mask: True where an action is allowed in the new observations, [k, n_actions].
            active: False for environments that took no step, [k].

        Raises:
            RuntimeError: In training, if `act` was not called before.
            ValueError: If the arguments have different lengths.
        """
        k = len(batch_obs)
        if (
            not k == len(batch_reward) == len(batch_done) == len(batch_reset)
            or (active is not None and len(active) != k)
            or (self.training and (self.batch_last_obs is None or len(self.batch_last_action) != k))
        ):  # `check_observed` is slow; call it only if one of these cheap checks fails
            check_observed(self, batch_obs, batch_reward, batch_done, batch_reset, active)
        ended = None if self.recurrent_memory is None else np.logical_or(batch_done, batch_reset)
        if self.training:
            step = (self.batch_last_obs, self.batch_last_action, batch_reward, batch_obs, batch_done, batch_reset)
            if self.recurrent_memory is None and self._last_mask is None and action_mask is None and active is None:
                self.replay_buffer.append_batch(*step)
            else:
                store_step(self, step, ended, action_mask, active)
        if self.recurrent_memory is not None:
            self.recurrent_memory.episodes_ended(self.training, ended)
        if not self.training:
            return
        group = self.learner_group
        for _ in range(k if active is None else int(np.count_nonzero(active))):
            self.t += 1
            self._cumulative_steps += 1
            if self._own_updater is not None:
                self._own_updater.update_if_necessary(self.t)
            elif self.t % self.update_interval == 0 and (
                len(self.replay_buffer) >= self.replay_start_size if group is None else group.starts(self)
            ):
                for _ in range(self.n_times_update):
                    self.update_from_replay()
            interval = self.target_update_interval
            if interval is not None and self.t % interval == 0 and self.delays_first_update:
                self.sync_target_network()

    def stop_episode(self) -> None:
        """Discard the running episodes: the next observations start new episodes.

        Runners call this method before their first step, because the previous run may have stopped within an episode.
        """
        if self.recurrent_memory is not None:
            self.recurrent_memory.forget(self.training)
        if self.training and self.batch_last_obs is not None:
            for env_id in range(len(self.batch_last_obs)):
                self.replay_buffer.stop_current_episode(env_id)

    # Learning

    def update_from_replay(self) -> None:
        """Sample a minibatch, make an update, and update the priorities of the sampled items.

        If the agent learns from sequences, the method does nothing until the buffer has `minibatch_size` episodes.
        """
        buffer: Any = self.replay_buffer
        group = self.learner_group
        device = self.device if self.features.is_identity else torch.device("cpu")
        if self.learns_from_sequences and buffer.n_episodes < self.minibatch_size:
            return
        if (self._overridden_hooks or "update" in self.__dict__) and overrides.takes_experiences(self):
            overrides.update_by_experiences(self)
            return
        if self.learns_from_sequences:
            sizes = self.minibatch_size, self.sequence_length
            batch = buffer.sample_sequences(*sizes, self.gamma, device, **self.sampling)
        elif group is None:
            batch = buffer.sample_batch(self.minibatch_size, self.gamma, device, **self.sampling)
        else:
            batch = group.sample_for(self, buffer, device)
        if not buffer.prioritized:
            self.update(batch)
            return
        try:
            td_error, _ = self.update(batch)
            buffer.update_priorities(*((batch.index, td_error) if group is None else group.priorities(batch, td_error)))
        except BaseException:
            buffer.update_priorities(batch.index[:0], [])  # otherwise the buffer would wait for the errors
            raise

    @property
    def sequence_length(self) -> int | None:
        """Maximum number of steps of a training sequence, including burn-in. None if a sequence is a whole episode."""
        return None if self.episodic_update_len is None else self.episodic_update_len + self.burn_in

    def update(self, experiences: Batch | Sequence[Any], errors_out: list[float] | None = None) -> Update:
        """Learn once from a minibatch. No other method changes the parameters.

        If no environment steps are counted (training on a dataset or in a learner process), this method also updates
        the target networks. It does so before an update of the parameters, every U updates. U is the number of updates
        that the agent makes in `target_update_interval` steps, rounded up.

        Args:
            experiences: Transitions or sequences with raw observations, or the result of `sample` or `sample_episodes`.
            errors_out: List that is cleared and filled with the absolute TD errors. If None, no errors are stored; if
                `experiences` is then a sample of a prioritised buffer in lists, the errors are written to the buffer,
                as in PFRL.

        Returns:
            TD errors, [N], and the statistics of the loss. For sequences, only the largest error of each sequence is
            returned, [B].

        Raises:
            ValueError: If the rewards, the discounts or the weights do not contain one number per row.
            NonFiniteError: If the loss or a gradient is NaN or infinite. The attribute `batch` of the error is the
                minibatch. The update is rolled back and learning can continue. If an update makes several gradient
                steps, for example for the critics and then for the policy, earlier steps of the same update are not
                rolled back. The message names these steps. On a GPU the update is skipped. The error is then raised up
                to 100 updates later, or by `settle`, and has no minibatch.
        """
        batch, order, is_list = experiences, None, not isinstance(experiences, Batch)
        if not isinstance(batch, Batch):
            batch = batch_of_experiences(batch, self.gamma, sequences=self.learns_from_sequences)
            order = batch.index
        rows = batch.reward.shape
        if len(rows) != 1 or batch.discount.shape != rows or (batch.weight is not None and batch.weight.shape != rows):
            raise row_shape_error(batch)
        group = self.learner_group
        if group is not None and not group.is_updating:
            with group.update(batch):
                return OffPolicyAgent.update(self, experiences, errors_out)
        if self._updates_left == 0:
            self.sync_target_network()
        features = batch if self._takes_raw and type(batch.obs) is not dict else self._prepare(batch)
        if self.augment is not None:
            features = self.augment(features)
        guard = self.guard
        if guard.is_watching:
            guard.before()
        try:
            with self._update_context() if self._ignores_mode is None else NO_LOCK if self._ignores_mode else MODE_LOCK:
                if self._compiled is not None or type(self).learn is not OffPolicyAgent.learn or "learn" in vars(self):
                    td_error, stats = self.learn(features)
                else:  # same as the default `learn`; inlined for speed
                    loss, td_error, stats = self.loss(features)
                    self.gradient_steps["optimizer"](loss)
                    guard.restore_moments(self._last_steps.refused)
        except NonFiniteError as error:
            guard.reject(self, error, batch, self.optim_t + 1)
            raise
        except RuntimeError as error:
            raise_for_unknown_action(batch, error)
            raise
        if guard.probes_left:
            guard.after()
        self.optim_t += 1
        self._updates_left -= 1
        interval = None if self.delays_first_update else self.target_update_interval
        if interval is not None and (self.optim_t - 1) % self._updates_per_sync() == 0:
            self.sync_target_network()
        statistics.add_values(self, self._records, stats)
        if len(td_error) > len(batch.reward):
            td_error = td_error.abs().view(-1, len(batch.reward)).mean(0)  # mean over the versions of each row
        if features.lengths is not None:
            td_error = max_over_sequences(td_error, features.lengths)
        if order is not None:
            td_error = td_error[order.argsort()]
        if is_list and batch.weight is not None and errors_out is None:
            overrides.write_errors(self, td_error)
        if errors_out is not None:
            errors_out[:] = td_error.abs().tolist()
        return td_error, stats

    def _update_context(self) -> AbstractContextManager[Any]:
        """Return the context manager for an update. Set `_ignores_mode` to True if later updates do not need it.

        If a network behaves differently in evaluation, for example because of dropout, the context prevents evaluation
        in other threads.
        """
        context = block_evaluation(*(getattr(self, name) for name in self.saved_attributes))
        self._ignores_mode = context is NO_LOCK
        return context

    def _count_update(self) -> None:
        """Add 1 to `optim_t`. The agent calls this method if a subclass's `update` has not increased `optim_t`."""
        self.optim_t += 1

    def learn(self, batch: Batch) -> Update:
        """Make one gradient step on `loss`, as part of `update`. A subclass may override this method.

        Args:
            batch: Minibatch whose observations are features on the agent's device.

        Returns:
            TD errors, [N], and statistics.
        """
        if isinstance(batch, int):
            raise steps_for_data(batch)
        if self._compiled is not None:
            overrides.check_not_compiled(self, True)  # methods of the class may have been replaced later
            return self._compiled(batch)
        td_error, stats = self.update_step(batch, lambda name, loss: self.gradient_steps[name](loss))
        self.guard.restore_moments(self._last_steps.refused)
        return td_error, stats

    def _record(self, stats: Mapping[str, Tensor]) -> None:
        """Append the statistics of a loss to their records."""
        statistics.add_values(self, self._records, stats)

    def _td_errors(self, batch: Batch | Sequence[Any]) -> Tensor:
        """Return the TD errors of a minibatch under the current networks, [N].

        For sequences, return the largest error of each sequence, [B]. The method does not learn and does not change the
        random generators.

        Args:
            batch: Transitions or sequences with raw observations, or the result of `sample` or `sample_episodes`.
        """
        order = None
        if not isinstance(batch, Batch):
            batch = batch_of_experiences(batch, self.gamma, sequences=self.learns_from_sequences)
            order = batch.index
        td_error = self._td_errors_of(self._prepare(batch))
        if batch.lengths is not None:
            td_error = max_over_sequences(td_error, batch.lengths)
        return td_error if order is None else td_error[order.argsort()]

    def _td_errors_of(self, batch: Batch) -> Tensor:
        """Return the TD errors of a minibatch of features, [N]."""
        with isolated_rng(), overrides.within_hook(self, batch):
            return self.loss(batch)[1]

    def sync_target_network(self) -> None:
        """Update the target networks, with the method `target_update_method`."""
        for name in self._target_attributes:
            src, dst = getattr(self, name), getattr(self, f"target_{name}")
            synchronize_parameters(src, dst, self.target_update_method, self.soft_update_tau, self._last_steps.refused)
        self._updates_left = self._updates_per_sync()

    _updates_per_sync = updates_per_sync
    rollback = rollback

    # Progress

    cumulative_steps = property(statistics.cumulative_steps)
    get_statistics = statistics.replay_statistics
    _clear_records = statistics.clear_records

    count_step = count_step
    observe_chunk = observe_replay_chunk
    _prepare = features_of_batch
    saved_state = statistics.saved_progress
    restore_state = statistics.restore_progress
    waiting_for = statistics.waiting_for
    unsaved = statistics.unsaved_explorer

    # Rejected updates

    trailed = property(trailed)
    settle = settle
    save = save
    diagnose = diagnose

    # Actors in other processes

    acting_copy = acting_copy
    setup_actor_learner_training = setup_actor_learner_training

    # Recorded data

    check_dataset = check_dataset

    def _check_recorded_actions(self, dataset: Any, output: Any) -> None:
        """Check that the actions of a dataset match the agent's actions.

        Args:
            dataset: The dataset.
            output: Output of the acting network for one observation. None if unknown.
        """

    # Saving

    save_snapshot = statistics.save_snapshot
    load_snapshot = statistics.load_snapshot
