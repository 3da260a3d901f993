"""The loop of all agents that learn from replay: store, schedule, sample, update, move the target, keep statistics."""

import collections
import copy
import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.agent import AttributeSavingMixin, BatchAgent
from pfrl_like.agents.memory import RecurrentMemory
from pfrl_like.batch import Batch
from pfrl_like.errors import NonFiniteError
from pfrl_like.explorer import select_actions
from pfrl_like.optimizers.compiled_step import CompiledStep
from pfrl_like.optimizers.gradient_step import GradientStep
from pfrl_like.replay_buffer import AbstractEpisodicReplayBuffer, AbstractReplayBuffer
from pfrl_like.utils.batch_states import FeatureExtractor
from pfrl_like.utils.burn_in import burn_in
from pfrl_like.utils.contexts import evaluating
from pfrl_like.utils.copy_param import synchronize_parameters
from pfrl_like.utils.device import resolve_device
from pfrl_like.utils.experiences import batch_of_experiences
from pfrl_like.utils.recurrent import forward, max_over_sequences

ACTION_MASK = "action_mask"


class OffPolicyAgent(AttributeSavingMixin, BatchAgent):
    """Base of agents with a replay buffer and a target network.

    An algorithm adds `target_model`, `loss(batch)` and, if it acts in another way, `select_actions`. The arguments are
    those of `DQN`, which documents them.
    """

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
        burn_in: int,
        compile: bool,
    ) -> None:
        self.device = resolve_device(gpu, device)
        self.gpu = gpu
        self.model = model.to(self.device)
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
        self.burn_in = burn_in
        self.phi = phi
        self.batch_states = batch_states
        self._check_arguments()
        self.features = FeatureExtractor(phi, batch_states)
        self._takes_raw = self.features.is_identity and self.device.type == "cpu" and not burn_in
        self.memory = RecurrentMemory(episodic_update_len) if recurrent else None
        self.gradient_step = GradientStep(optimizer, max_grad_norm)
        if compile and recurrent:
            raise ValueError("compile is True, which recurrent agents do not support: leave it out")
        self._compiled = CompiledStep(self.loss, optimizer, max_grad_norm) if compile else None

        self.t = 0  # environment steps in training
        self.optim_t = 0  # updates
        self._cumulative_steps = 0
        self._updates_left = target_update_interval // update_interval * n_times_update  # before the target has to move
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
        memory = self.memory
        value = self.model(obs) if memory is None else memory.forward(self.model, obs, self.training, active)
        if action_mask is not None:
            value = value.masked(torch.as_tensor(np.asarray(action_mask), dtype=torch.bool, device=self.device))
        greedy = value.greedy_actions.cpu().numpy()
        if not self.training:
            return greedy
        return select_actions(self.explorer, self.t, greedy, value, active)

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
        """
        action_mask = mask_of(batch_obs, action_mask)
        obs = self.features(batch_obs, self.device)
        with torch.inference_mode(), evaluating(self.model):
            action = self.select_actions(obs, action_mask, active)
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
        """
        ended = [bool(done or reset) for done, reset in zip(batch_done, batch_reset, strict=True)]
        if self.training:
            if self.batch_last_obs is None:
                raise RuntimeError("observe was called in training before act")
            step = (self.batch_last_obs, self.batch_last_action, batch_reward, batch_obs, batch_done, batch_reset)
            if self.memory is None and self._last_mask is None and action_mask is None and active is None:
                self.replay_buffer.append_batch(*step)
            else:
                self._store(step, ended, action_mask, active)
        if self.memory is not None:
            self.memory.episodes_ended(self.training, ended)
        if not self.training:
            return
        for _ in range(len(ended) if active is None else int(np.count_nonzero(active))):
            self.t += 1
            self._cumulative_steps += 1
            if self.t % self.update_interval == 0 and len(self.replay_buffer) >= self.replay_start_size:
                for _ in range(self.n_times_update):
                    self.update_from_replay()
            if self.t % self.target_update_interval == 0:
                self.sync_target_network()

    def _store(self, step: tuple[Any, ...], ended: list[bool], next_mask: Any, active: Any) -> None:
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
        td_error, _ = self.update(batch)
        if buffer.prioritized:
            buffer.update_priorities(batch.index, td_error)

    def update(
        self, batch: Batch | Sequence[Any], errors_out: list[float] | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Learn once: the only way to the parameters.

        The target network moves by itself if no step has moved it for as many updates as fit in
        `target_update_interval` steps, so that a caller without environment (a dataset, a learner process) needs
        nothing else.

        Args:
            batch: Transitions or sequences with raw observations; PFRL's list of lists of dicts will do.
            errors_out: Cleared and filled with the absolute TD errors, if given.

        Returns:
            TD errors, [N] (of sequences: the largest of each, [B]), and the statistics of the loss.

        Raises:
            NonFiniteError: If the loss or a gradient is NaN or infinite; `batch` of the error is the minibatch.
                Learning goes on as if it had never come.
        """
        if not isinstance(batch, Batch):
            batch = batch_of_experiences(batch, self.gamma, sequences=self.recurrent)
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
            error.batch = batch
            self.logger.error("update %d was refused: %s", self.optim_t + 1, error)
            raise
        self.optim_t += 1
        self._updates_left -= 1
        self.loss_record.append(stats["loss"])
        self.q_record.append(stats["q"])
        if ready.lengths is not None:
            td_error = max_over_sequences(td_error, ready.lengths)
        if errors_out is not None:
            errors_out[:] = td_error.abs().tolist()
        return td_error, stats

    def _prepare(self, batch: Batch) -> Batch:
        """Features instead of raw observations, on this agent's device."""
        if not self.features.is_identity:
            batch = batch.replace(
                obs=self.features.on_batch(batch.obs, self.device),
                next_obs=self.features.on_batch(batch.next_obs, self.device),
            )
        if self.device.type != "cpu":
            batch = batch.to(self.device)
        if type(batch.obs) is dict and ACTION_MASK in batch.obs:
            batch = batch.replace(
                action_mask=batch.obs[ACTION_MASK].bool(), next_action_mask=batch.next_obs[ACTION_MASK].bool()
            )
        return burn_in(self.model, batch, self.burn_in) if self.burn_in else batch

    def sync_target_network(self) -> None:
        """Move the target network to, or towards, the online network."""
        synchronize_parameters(self.model, self.target_model, self.target_update_method, self.soft_update_tau)
        self._updates_left = self.target_update_interval // self.update_interval * self.n_times_update

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
        """Counters that go into the saved directory beside the networks."""
        return {
            "t": self.t,
            "optim_t": self.optim_t,
            "cumulative_steps": self._cumulative_steps,
            "updates_left": self._updates_left,
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        """Take up the counters that `saved_state` gave."""
        self.t = state.get("t", self.t)
        self.optim_t = state.get("optim_t", self.optim_t)
        self._cumulative_steps = state.get("cumulative_steps", self._cumulative_steps)
        self._updates_left = state.get("updates_left", self._updates_left)

    def probe(self, observation_space: Any) -> Any:
        """What the network gives for one observation of the space, None if the space cannot be sampled from."""
        if observation_space is None or not hasattr(observation_space, "sample"):
            return None
        obs = self.features([copy.deepcopy(observation_space).sample()], self.device)
        with torch.no_grad(), evaluating(self.model):
            return forward(self.model, obs)[0]

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
            ("burn_in", self.burn_in >= 0, "a number of steps"),
            ("episodic_update_len", self.episodic_update_len is None or self.episodic_update_len >= 1,
             "at least 1, or None"),
        ]  # fmt: skip
        for name, holds, expected in needs:
            if not holds:
                raise ValueError(f"{name} is {getattr(self, name)!r}, expected {expected}")
        if self.recurrent and not isinstance(self.replay_buffer, AbstractEpisodicReplayBuffer):
            raise TypeError(
                f"replay_buffer is a {type(self.replay_buffer).__name__}, but a recurrent agent learns from sequences: "
                "use EpisodicReplayBuffer or PrioritizedEpisodicReplayBuffer"
            )


def frozen_copy(module: torch.nn.Module) -> torch.nn.Module:
    """A copy in evaluation mode whose parameters take no gradient: a target network."""
    frozen = copy.deepcopy(module).eval().requires_grad_(False)
    for part in frozen.modules():
        if isinstance(part, torch.nn.RNNBase):
            part.flatten_parameters()  # a deep copy scatters the weights
    return frozen


def mask_of(batch_obs: Any, action_mask: Any) -> Any:
    """The given mask, or the one inside dict observations, [k, n_actions]; None if there is neither."""
    if action_mask is None and _has_mask(batch_obs):
        return np.stack([obs[ACTION_MASK] for obs in batch_obs])
    return action_mask


def _has_mask(batch_obs: Any) -> bool:
    return isinstance(batch_obs[0], dict) and ACTION_MASK in batch_obs[0]


def _mean(record: "collections.deque[Tensor]") -> float:
    return float(torch.cat([values.reshape(-1) for values in record]).mean()) if record else float("nan")
