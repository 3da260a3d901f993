"""The loop of all agents that learn from replay: store, schedule, sample, update, move the target, keep statistics."""

import collections
import copy
import logging
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.action_value import ActionValue
from pfrl_like.agent import AttributeSavingMixin, BatchAgent
from pfrl_like.agents.memory import RecurrentMemory
from pfrl_like.batch import ACTION_MASK, Batch, map_nested
from pfrl_like.errors import NonFiniteError
from pfrl_like.explorer import Explorer, select_actions
from pfrl_like.functions.returns import n_step_returns
from pfrl_like.optimizers.compiled_region import CompiledFunction
from pfrl_like.optimizers.compiled_step import CompiledStep
from pfrl_like.optimizers.gradient_step import GradientStep
from pfrl_like.replay_buffer import AbstractEpisodicReplayBuffer, AbstractReplayBuffer
from pfrl_like.utils.batch_states import FeatureExtractor
from pfrl_like.utils.burn_in import burn_in
from pfrl_like.utils.contexts import evaluating
from pfrl_like.utils.copy_param import synchronize_parameters
from pfrl_like.utils.device import resolve_device
from pfrl_like.utils.direct_call import call
from pfrl_like.utils.experiences import batch_of_experiences
from pfrl_like.utils.recurrent import forward, is_recurrent, max_over_sequences
from pfrl_like.utils.tensors_as_json import from_plain, to_plain

#: Windows of statistics.
_RECORDS = ("loss_record", "q_record")


class OffPolicyAgent(AttributeSavingMixin, BatchAgent):
    """Base of agents with a replay buffer and a target network.

    An algorithm adds `target_model`, `loss(batch)` and, if it acts in another way, `select_actions`. The arguments are
    those of `DQN`, which documents them.
    """

    #: Class of what the Q-function has to give.
    value_type: type[Any] = ActionValue
    saved_attributes: tuple[str, ...] = ("model", "target_model", "optimizer")
    target_model: torch.nn.Module

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        replay_buffer: AbstractReplayBuffer,
        gamma: float,
        explorer: Any,
        *,
        gpu: int | None,
        device: torch.device | str | None,
        replay_start_size: int,
        minibatch_size: int,
        update_interval: int,
        target_update_interval: int,
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
        self.device = resolve_device(gpu, device)
        self.gpu = gpu
        self.model = model
        self.optimizer = optimizer
        self.replay_buffer = replay_buffer
        self.gamma = gamma
        self.explorer = explorer
        self.replay_start_size = replay_start_size
        self.minibatch_size = minibatch_size
        self.update_interval = update_interval
        self.target_update_interval = target_update_interval
        self.target_update_method = target_update_method
        self.soft_update_tau = soft_update_tau
        self.n_times_update = n_times_update
        self.batch_accumulator = batch_accumulator
        self.episodic_update_len = episodic_update_len
        self.logger = logger
        self.recurrent = recurrent
        self.max_grad_norm = max_grad_norm
        self.num_steps = num_steps
        self.burn_in = burn_in
        self.phi = phi
        self.batch_states = batch_states
        self._check_parts()
        self._check_arguments()
        model.to(self.device)
        self.features = FeatureExtractor(phi, batch_states)
        self._takes_raw = self.features.is_identity and self.device.type == "cpu" and not burn_in and num_steps == 1
        self.memory = RecurrentMemory(episodic_update_len, self.device) if recurrent else None
        self.gradient_step = GradientStep(optimizer, max_grad_norm)
        if compile and recurrent:
            raise ValueError("compile is True, which recurrent agents do not support: leave it out")
        self._compiled = CompiledStep(self.loss, optimizer, max_grad_norm) if compile else None
        self._compiled_greedy = CompiledFunction(self._greedy_actions, self, "acting") if compile else None

        self.t = 0  # environment steps in training
        self.optim_t = 0  # updates
        self._cumulative_steps = 0
        self._updates_per_move = int(target_update_interval // update_interval * n_times_update)  # of the target
        self._updates_left = self._updates_per_move  # before it has to move
        self.batch_last_obs: Any = None
        self.batch_last_action: Any = None
        self._last_mask: Any = None
        self.loss_record: collections.deque[Tensor] = collections.deque(maxlen=100)
        self.q_record: collections.deque[Tensor] = collections.deque(maxlen=-(-1000 // minibatch_size))

    # How an algorithm differs

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Scalar loss, TD errors [N] and statistics ("loss" and "q" among them) of a minibatch; changes nothing."""
        raise NotImplementedError

    def select_actions(self, obs: Any, action_mask: Any, active: Any) -> Any:
        """Actions for a batch of features: greedy in evaluation, the explorer's in training."""
        if self._compiled_greedy is None or action_mask is not None or (self.training and self._explorer_reads_value):
            value = self._value(obs, active)
            if action_mask is not None:
                value = value.masked(torch.as_tensor(np.asarray(action_mask), dtype=torch.bool, device=self.device))
            greedy = value.greedy_actions
        else:
            value = types.SimpleNamespace(**{"action_mask": None, **self._compiled_greedy(obs)})
            greedy = value.greedy_actions
        actions = greedy.cpu().numpy()
        return select_actions(self.explorer, self.t, actions, value, active) if self.training else actions

    def _value(self, obs: Any, active: Any = None) -> Any:
        try:
            if self.memory is None:
                value = call(self.model, obs)
            else:
                value = self.memory.forward(self.model, obs, self.training, active)
        except (RuntimeError, TypeError) as error:
            if type(error) not in (RuntimeError, TypeError):  # out of memory, not implemented, ...
                raise
            raise _misfit(obs, error) from error
        if not isinstance(value, ActionValue) and not hasattr(value, "greedy_actions"):
            raise wrong_value(value, self.value_type)
        return value

    def _greedy_actions(self, obs: Any) -> dict[str, Tensor]:
        value = self._value(obs)
        found = {"greedy_actions": value.greedy_actions, "action_mask": getattr(value, "action_mask", None)}
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    @property
    def _explorer_reads_value(self) -> bool:
        return getattr(self.explorer, "reads_action_value", True)

    # Acting

    def batch_act(self, batch_obs: Any, *, action_mask: Any = None, active: Any = None) -> Any:
        """Choose an action for each environment.

        Args:
            batch_obs: k observations.
            action_mask: True where an action is allowed, [k, n_actions]; also read from the observations, if they are
                dicts with the key "action_mask".
            active: False for environments whose action will be ignored, [k].

        Returns:
            k actions.

        Raises:
            ValueError: If the observations do not fit the Q-function. NaN in them is not looked for here: runners
                refuse it, and so does the update that learns from it.
        """
        if action_mask is None and _has_mask(batch_obs):
            action_mask = np.stack([obs[ACTION_MASK] for obs in batch_obs])
        try:
            obs = self.features(batch_obs, self.device)
            with torch.inference_mode(), evaluating(self.model):
                action = self.select_actions(obs, action_mask, active)
        except (ValueError, TypeError, AttributeError) as error:
            if isinstance(batch_obs, list | tuple) and any(map(_is_of_reset, (batch_obs, *batch_obs[:1]))):
                raise _misfit(batch_obs, error, "; did you pass reset()'s (obs, info)?") from error
            raise
        if self.training:
            self.batch_last_obs, self.batch_last_action, self._last_mask = batch_obs, action, action_mask
        return action

    # Observing

    def observe(self, obs: Any, reward: float, done: bool, reset: bool, *, action_mask: Any = None) -> None:
        """Take in what the last action led to; see `batch_observe`."""
        mask = None if action_mask is None else [action_mask]
        self.batch_observe([obs], [reward], [done], [reset], action_mask=mask)

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
        """Take in what the last actions led to; in training, store it and learn.

        Args:
            batch_obs: The k observations after the actions; at an episode's end its true last one.
            batch_reward: k rewards.
            batch_done: Whether each observation is terminal, so that nothing is bootstrapped from it.
            batch_reset: Whether each episode is cut off there for another reason.
            action_mask: True where an action is allowed in the new observations, [k, n_actions].
            active: False for environments that took no step, [k].

        Raises:
            RuntimeError: In training, if no action was asked for before.
            ValueError: If the arguments have different lengths.
        """
        if not len(batch_obs) == len(batch_reward) == len(batch_done) == len(batch_reset):
            raise _unequal(obs=batch_obs, reward=batch_reward, done=batch_done, reset=batch_reset)
        ended = None if self.memory is None else np.logical_or(batch_done, batch_reset)
        if self.training:
            if self.batch_last_obs is None:
                raise RuntimeError("observe was called in training before act")
            if len(self.batch_last_action) != len(batch_obs):
                raise _unequal(obs=batch_obs, last_action=self.batch_last_action)
            step = (self.batch_last_obs, self.batch_last_action, batch_reward, batch_obs, batch_done, batch_reset)
            if self.memory is None and self._last_mask is None and action_mask is None and active is None:
                self.replay_buffer.append_batch(*step)
            else:
                self._store(step, ended, action_mask, active)
        if self.memory is not None:
            self.memory.episodes_ended(self.training, ended)
        if not self.training:
            return
        for _ in range(len(batch_obs) if active is None else int(np.count_nonzero(active))):
            self.t += 1
            self._cumulative_steps += 1
            if self.t % self.update_interval == 0 and len(self.replay_buffer) >= self.replay_start_size:
                for _ in range(self.n_times_update):
                    self.update_from_replay()
            if self.t % self.target_update_interval == 0:
                self.sync_target_network()

    def stop_episode(self) -> None:
        """Leave the episodes that run: what comes next belongs to new ones. Runners begin with this.

        The last run may have stopped in mid-episode, which nobody has told the agent.
        """
        if self.memory is not None:
            self.memory.forget(self.training)
        if self.training and self.batch_last_obs is not None:
            for env_id in range(len(self.batch_last_obs)):
                self.replay_buffer.stop_current_episode(env_id)

    def _store(self, step: tuple[Any, ...], ended: Any, next_mask: Any, active: Any) -> None:
        """Append a step that has more columns than the usual ones, or is not made by all environments."""
        columns: dict[str, Any] = {} if self.memory is None else self.memory.columns(ended, active)
        masks = self._last_mask, next_mask
        known = [mask for mask in masks if mask is not None]
        if known and not _has_mask(step[3]):
            everything = np.ones_like(known[0])
            columns[ACTION_MASK], columns["next_action_mask"] = (everything if mask is None else mask for mask in masks)
        env_ids = None
        if active is not None:
            env_ids = np.flatnonzero(active).tolist()
            step = tuple([column[i] for i in env_ids] for column in step)
            columns = {name: [column[i] for i in env_ids] for name, column in columns.items()}
        obs, action, reward, next_obs, done, reset = step
        self.replay_buffer.append_batch(obs, action, reward, next_obs, done, reset, env_ids, **columns)

    # Learning

    def update_from_replay(self) -> None:
        """Sample, learn, and write the priorities back; nothing happens while a recurrent agent lacks episodes."""
        buffer: Any = self.replay_buffer
        device = self.device if self.features.is_identity else torch.device("cpu")
        if self.recurrent:
            if buffer.n_episodes < self.minibatch_size:
                return
            length = None if self.episodic_update_len is None else self.episodic_update_len + self.burn_in
            batch = buffer.sample_sequences(self.minibatch_size, length, self.gamma, device)
        else:
            batch = buffer.sample_batch(self.minibatch_size, self.gamma, device)
        if not buffer.prioritized:
            self.update(batch)
            return
        try:
            td_error, _ = self.update(batch)
            buffer.update_priorities(batch.index, td_error)
        except BaseException:
            buffer.update_priorities(batch.index[:0], [])  # it may wait for errors, which will not come
            raise

    def update(
        self, batch: Batch | Sequence[Any], errors_out: list[float] | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Learn once: the only way to the parameters.

        The target network moves by itself if no step has moved it for as many updates as fit in
        `target_update_interval` steps, so that a caller without environment (a dataset, a learner process) needs
        nothing else.

        Args:
            batch: Transitions or sequences with raw observations; what `sample` and `sample_episodes` give will do.
            errors_out: Cleared and filled with the absolute TD errors, if given.

        Returns:
            TD errors, [N] (of sequences: the largest of each, [B]), and the statistics of the loss.

        Raises:
            NonFiniteError: If the loss or a gradient is NaN or infinite; `batch` of the error is the minibatch.
                Learning goes on as if it had never come. On a GPU it comes up to 100 updates later and without the
                minibatch; the updates that were skipped have been counted.
        """
        order = None
        if not isinstance(batch, Batch):
            batch = batch_of_experiences(batch, self.gamma, sequences=self.recurrent)
            order = batch.index
        if self._updates_left == 0:
            self.sync_target_network()
        ready = batch if self._takes_raw and type(batch.obs) is not dict else self._prepare(batch)
        try:
            if self._compiled is None:
                loss, td_error, stats = self.loss(ready)
                self.gradient_step(loss)
            else:
                td_error, stats = self._compiled(ready)
        except NonFiniteError as error:
            if not self.gradient_step.on_gpu:  # there it is not the batch that was bad, but one of the last hundred
                error.batch = batch
            self.logger.error("update %d was refused: %s", self.optim_t + 1, error)
            raise
        self.optim_t += 1
        self._updates_left -= 1
        self.loss_record.append(stats["loss"])
        self.q_record.append(stats["q"])
        if ready.lengths is not None:
            td_error = max_over_sequences(td_error, ready.lengths)
        if order is not None:
            td_error = td_error[order.argsort()]
        if errors_out is not None:
            errors_out[:] = td_error.abs().tolist()
        return td_error, stats

    def _prepare(self, batch: Batch) -> Batch:
        """Features instead of raw observations, on this agent's device."""
        if type(batch.obs) is dict and ACTION_MASK in batch.obs:  # before phi, which may leave it out
            batch = batch.replace(
                action_mask=batch.obs[ACTION_MASK].bool(), next_action_mask=batch.next_obs[ACTION_MASK].bool()
            )
        if not self.features.is_identity:
            batch = batch.replace(
                obs=self.features.on_batch(batch.obs, self.device),
                next_obs=self.features.on_batch(batch.next_obs, self.device),
            )
        if self.device.type != "cpu":
            batch = batch.to(self.device)
        batch = burn_in(self.model, batch, self.burn_in) if self.burn_in else batch
        if self.num_steps == 1 or batch.lengths is None:
            return batch
        reward, discount, next_row = n_step_returns(batch.reward, batch.discount, batch.lengths, self.num_steps)
        return batch.replace(reward=reward, discount=discount, next_row=next_row)

    def sync_target_network(self) -> None:
        """Move the target network to, or towards, the online network."""
        synchronize_parameters(self.model, self.target_model, self.target_update_method, self.soft_update_tau)
        self._updates_left = self._updates_per_move

    # Statistics, saving, checks

    @property
    def cumulative_steps(self) -> int:
        """Environment steps in training, whatever `t` was set to."""
        return self._cumulative_steps

    def get_statistics(self) -> list[tuple[str, Any]]:
        """Means over the last 1,000 values of Q(s, a) and 100 losses (NaN before the first), and counters."""
        return [
            ("average_q", _mean(self.q_record)),
            ("average_loss", _mean(self.loss_record)),
            ("cumulative_steps", self._cumulative_steps),
            ("n_updates", self.optim_t),
            ("rlen", len(self.replay_buffer)),
        ]

    def saved_state(self) -> dict[str, Any]:
        """What goes on beside the networks: counters, statistics, the explorer and recurrent states."""
        state: dict[str, Any] = {**self._counters()}
        for name in _RECORDS:
            state[name] = to_plain(tuple(getattr(self, name)))
        explorer_state = self.explorer.state_dict() if isinstance(self.explorer, Explorer) else {}
        if explorer_state:
            state["explorer"] = {"class": type(self.explorer).__name__, "state": explorer_state}
        if self.memory is not None:
            state["memory"] = self.memory.state_dict()
        return state

    def restore_state(self, state: dict[str, Any]) -> None:
        """Take up what `saved_state` gave; what `state` lacks stays as it is.

        The state of an explorer of another class is left out, with a warning in the log.

        Raises:
            ValueError: If it is something else; nothing was changed.
        """
        counters = self._counters()
        unknown = state.keys() - {*counters, *_RECORDS, "explorer"} - ({"memory"} if self.memory else set())
        if unknown:
            raise ValueError(f"the state has {sorted(unknown)}, which this {type(self).__name__} has not")
        for name in counters.keys() & state.keys():
            counters[name] = state[name]
            if type(state[name]) is not int or state[name] < 0:
                raise ValueError(f"{name} is {state[name]!r:.80}, expected an integer of at least 0")
        records = {name: from_plain(state[name], self.device) for name in state.keys() & set(_RECORDS)}
        if not all(isinstance(record, tuple) and all(map(torch.is_tensor, record)) for record in records.values()):
            raise ValueError(f"the records {sorted(records)} do not hold tensors only")
        memory = copy.copy(self.memory)
        if memory is not None and "memory" in state:
            memory.load_state_dict(state["memory"])
        self._restore_explorer(state.get("explorer"))
        self.memory = memory
        for name, record in records.items():
            getattr(self, name).clear()
            getattr(self, name).extend(record)
        self.t, self.optim_t = counters["t"], counters["optim_t"]
        self._cumulative_steps, self._updates_left = counters["cumulative_steps"], counters["updates_left"]

    def _restore_explorer(self, saved: Any) -> None:
        if saved is None:
            return
        if not isinstance(saved, dict) or saved.keys() != {"class", "state"}:
            raise ValueError(f"explorer is {saved!r:.80}, expected its class and state")
        name = type(self.explorer).__name__
        if saved["class"] == name:
            self.explorer.load_state_dict(saved["state"])
        else:
            self.logger.warning(
                "the saved explorer is of class %s, this one %s: its state is left out", saved["class"], name
            )

    def _counters(self) -> dict[str, int]:
        return {
            "t": self.t,
            "optim_t": self.optim_t,
            "cumulative_steps": self._cumulative_steps,
            "updates_left": self._updates_left,
        }

    def probe(self, observation_space: Any) -> Any:
        """What the network gives for one observation of the space, None if the space cannot be sampled from.

        Raises:
            ValueError: If the observation does not fit the network.
        """
        if observation_space is None or not hasattr(observation_space, "sample"):
            return None
        obs = self.features([copy.deepcopy(observation_space).sample()], self.device)
        try:
            with torch.no_grad(), evaluating(self.model):
                return forward(self.model, obs)[0]
        except (RuntimeError, TypeError) as error:
            if type(error) not in (RuntimeError, TypeError):
                raise
            raise _misfit(obs, error) from error

    def _check_parts(self) -> None:
        """Refuse what is no such part, and parts that do not fit together."""
        buffer_methods = ("capacity", "append_batch", "sample_batch", "__len__")
        parts = [
            ("q_function", self.model, isinstance(self.model, torch.nn.Module), "a torch.nn.Module"),
            ("optimizer", self.optimizer, isinstance(self.optimizer, torch.optim.Optimizer), "a torch.optim.Optimizer"),
            ("replay_buffer", self.replay_buffer, _has(self.replay_buffer, *buffer_methods),
             "one of pfrl_like.replay_buffers"),
            ("explorer", self.explorer, _has(self.explorer, "select_action"), "one of pfrl_like.explorers"),
            ("phi", self.phi, self.phi is None or callable(self.phi), "a function of one observation, or None"),
            ("batch_states", self.batch_states, callable(self.batch_states), "a function"),
        ]  # fmt: skip
        for name, part, fits, expected in parts:
            if not fits:
                raise TypeError(f"{name} is {part!r:.80} ({type(part).__name__}), expected {expected}")
        kind = type(self.model).__name__
        if self.recurrent and not is_recurrent(self.model):
            raise TypeError(
                f"recurrent is True, but q_function is a {kind}, which keeps no recurrent state: compose it with "
                "pfrl_like.nn.RecurrentSequential, or leave recurrent out"
            )
        if not self.recurrent and is_recurrent(self.model):
            raise TypeError(f"q_function is a {kind}, which keeps a recurrent state, but recurrent is False: say True")
        if self.recurrent and not isinstance(self.replay_buffer, AbstractEpisodicReplayBuffer):
            raise TypeError(
                f"replay_buffer is a {type(self.replay_buffer).__name__}, but a recurrent agent learns from sequences: "
                "use EpisodicReplayBuffer or PrioritizedEpisodicReplayBuffer"
            )
        if (
            not self.recurrent
            and isinstance(self.replay_buffer, AbstractEpisodicReplayBuffer)
            and (self.replay_buffer.prioritized)
        ):
            raise TypeError(
                f"replay_buffer is a {type(self.replay_buffer).__name__}, whose priorities are those of sequences, but "
                "recurrent is False: use PrioritizedReplayBuffer, or EpisodicReplayBuffer"
            )
        held = {id(param) for group in self.optimizer.param_groups for param in group["params"]}
        if held.isdisjoint(map(id, self.model.parameters())):
            raise ValueError(
                "optimizer holds no parameter of q_function, so nothing would learn: make it of q_function.parameters()"
            )

    def _check_arguments(self) -> None:
        for name in ("minibatch_size", "update_interval", "target_update_interval", "n_times_update"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)!r}, expected at least 1")
        start, capacity = self.replay_start_size, self.replay_buffer.capacity
        needs = [
            ("gamma", 0 <= self.gamma <= 1, "a number from 0 to 1"),
            ("replay_start_size", start >= self.minibatch_size, "at least minibatch_size"),
            ("replay_start_size", capacity is None or start <= capacity, "at most the capacity of replay_buffer"),
            ("target_update_interval", self.target_update_interval % self.update_interval == 0,
             "a multiple of update_interval"),
            ("target_update_method", self.target_update_method in ("hard", "soft"), "'hard' or 'soft'"),
            ("soft_update_tau", 0 < self.soft_update_tau <= 1, "a number above 0, at most 1"),
            ("batch_accumulator", self.batch_accumulator in ("mean", "sum"), "'mean' or 'sum'"),
            ("max_grad_norm", self.max_grad_norm is None or self.max_grad_norm > 0, "a positive number or None"),
            ("num_steps", self.num_steps == 1 or (self.num_steps > 1 and self.recurrent),
             "1, or more with recurrent=True; otherwise the replay buffer has num_steps"),
            ("burn_in", self.burn_in >= 0, "a number of steps"),
            ("episodic_update_len", self.episodic_update_len is None or self.episodic_update_len >= 1,
             "at least 1, or None"),
        ]  # fmt: skip
        for name, holds, expected in needs:
            if not holds:
                raise ValueError(f"{name} is {getattr(self, name)!r}, expected {expected}")


def frozen_copy(module: torch.nn.Module) -> torch.nn.Module:
    """A copy in evaluation mode whose parameters take no gradient: a target network."""
    frozen = copy.deepcopy(module).eval().requires_grad_(False)
    for part in frozen.modules():
        if isinstance(part, torch.nn.RNNBase):
            part.flatten_parameters()  # a deep copy scatters the weights
    return frozen


def wrong_value(value: Any, value_type: type) -> TypeError:
    """The error of a Q-function that gives something else than an agent needs."""
    needed, came = value_type.__name__, type(value).__name__
    return TypeError(
        f"q_function gives a {came}, expected one that gives {'an' if needed[0] in 'AEIOU' else 'a'} {needed}"
    )


def _misfit(obs: Any, error: Exception, hint: str = "") -> ValueError:
    """The error of observations, or features, that a Q-function cannot take in."""
    dtypes: list[str] = []

    def describe(leaf: Any) -> str:
        dtypes.append(str(getattr(leaf, "dtype", type(leaf).__name__)).removeprefix("torch."))
        return f"{tuple(getattr(leaf, 'shape', ()))} of {dtypes[-1]}"

    came = map_nested(describe, obs)
    if not hint and any(name == "float64" or "int" in name for name in dtypes):
        hint = "; networks compute in float32: cast with phi, or wrap the environment in CastObservationToFloat32"
    return ValueError(f"obs does not fit q_function; it came as {came}, which gave: {error}{hint}")


def _is_of_reset(obs: Any) -> bool:
    """Whether this may be the (obs, info) of an environment's `reset`."""
    if not isinstance(obs, tuple) or len(obs) != 2:
        return False
    info = obs[1]
    return isinstance(info[0] if isinstance(info, list) and info else info, dict)


def _has(part: Any, *names: str) -> bool:
    return not isinstance(part, type) and all(hasattr(part, name) for name in names)


def _unequal(**columns: Any) -> ValueError:
    lengths = ", ".join(f"{name} {len(column)}" for name, column in columns.items())
    return ValueError(f"one of each is needed for every environment, but the lengths are: {lengths}")


def _has_mask(batch_obs: Any) -> bool:
    return isinstance(batch_obs[0], dict) and ACTION_MASK in batch_obs[0]


def _mean(record: "collections.deque[Tensor]") -> float:
    return float(torch.cat([values.reshape(-1) for values in record]).mean()) if record else float("nan")
