"""What A3C and ACER share: a copy of the model that acts and learns, and shared parameters that its gradients move."""

import copy
import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.agent import AsyncAgent, AttributeSavingMixin, BatchAgent
from pfrl_like.agents.acting import has_mask
from pfrl_like.agents.declared_parts import check_policy
from pfrl_like.agents.memory import RecurrentMemory
from pfrl_like.agents.on_policy_arguments import check_numbers_in, check_parts
from pfrl_like.agents.policy_acting import PolicyActingMixin
from pfrl_like.agents.policy_spaces import check_policy_fits
from pfrl_like.batch import ACTION_MASK, Batch, map_nested
from pfrl_like.errors import NonFiniteError
from pfrl_like.optimizers.gradient_step import GradientStep
from pfrl_like.utils.batch_states import FeatureExtractor, identity
from pfrl_like.utils.checks import check_counts, unequal_lengths
from pfrl_like.utils.contexts import evaluating_readers
from pfrl_like.utils.copy_param import copy_param
from pfrl_like.utils.direct_call import call
from pfrl_like.utils.fixed import Fixed
from pfrl_like.utils.recurrent import (
    forward,
    get_recurrent_state_at,
    max_over_sequences,
    sequence_outputs,
)


@dataclasses.dataclass
class Rollout:
    """Consecutive steps of one environment that have not been learnt from yet.

    Attributes:
        recurrent_state: Of the model before the first of them.
        obs, action, reward, action_mask: A value for each step.
    """

    recurrent_state: Any
    obs: list[Any] = dataclasses.field(default_factory=list)
    action: list[Any] = dataclasses.field(default_factory=list)
    reward: list[float] = dataclasses.field(default_factory=list)
    action_mask: list[Any] = dataclasses.field(default_factory=list)

    def __len__(self) -> int:
        return len(self.reward)


class AsyncActorCritic(PolicyActingMixin, AttributeSavingMixin, BatchAgent, AsyncAgent):
    """Base of agents that several processes train without a lock (arXiv:1602.01783, algorithm S3).

    Every process acts with a copy of the shared model, at most `t_max` steps or to the end of an episode, computes the
    gradient of `loss` on this copy, lets it move the shared parameters with the shared state of the optimiser, and
    copies them. In several environments at once, each has steps of its own to learn from, one after the other.

    An algorithm defines `loss(batch)`. It computes on the CPU.

    Args:
        model: Module from observations to a tuple that begins with distributions of actions; a copy of it acts.
        optimizer: Optimiser of its parameters. This and the others are as in `A3C`.

    Attributes:
        shared_model: The model that was given; `model` is the copy.
    """

    process_idx: int | None = None
    saved_attributes: tuple[str, ...] = ("model", "optimizer")
    acting_argument = "model"
    acting_attributes = ("model",)
    value_type: type[Any] = tuple

    #: What the model gives beside distributions.
    further_outputs: tuple[type[Any], ...] = (Tensor,)

    #: Statistics with a value for each row whose running mean is the attribute `average_` and the name.
    averaged: tuple[str, ...] = ("value", "entropy")

    _gradient_step: GradientStep | None = None
    _shared_buffers: Sequence[tuple[Tensor, Tensor]] = ()

    phi: Any = Fixed()
    batch_states: Any = Fixed()
    recurrent: Any = Fixed()
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
        self.device = torch.device("cpu")
        self.t_max = t_max
        self.gamma = gamma
        self.max_grad_norm = max_grad_norm
        self.act_deterministically = act_deterministically
        self.recurrent = recurrent
        self.logger = logger or logging.getLogger(__name__)
        self.phi = identity if phi is None else phi
        self.batch_states = batch_states
        check_parts(self, {"model": model}, {"optimizer": optimizer})
        check_policy(self, {"model": model}, self.further_outputs)
        check_counts(t_max=t_max)
        devices = {param.device.type for param in model.parameters()} - {"cpu"}
        if devices:
            raise ValueError(
                f"model is on {devices.pop()}, but {type(self).__name__} computes on the CPU: move it there"
            )
        self._shared_model = model
        self.optimizer = optimizer
        self.model = copy.deepcopy(model)
        self.features = FeatureExtractor(self.phi, batch_states)
        self.memory = RecurrentMemory(t_max, self.device) if recurrent else None
        self.t = 0  # steps of this process
        self.optim_t = 0  # its updates
        for name, decay in decays.items():
            setattr(self, f"average_{name}", 0.0)
            setattr(self, f"average_{name}_decay", decay)
            check_numbers_in(self, **{f"average_{name}_decay": (0, 1)})
        self._rollouts: dict[int, Rollout] = {}

    # How an algorithm differs

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Scalar loss, errors of the values [N] and statistics of consecutive steps of one episode."""
        raise NotImplementedError

    def learn_from(self, batch: Batch) -> None:
        """What follows after `t_max` steps, or an episode's end: one update."""
        self.learn(batch)

    def state_value(self, outputs: Any, action_mask: Tensor | None) -> Tensor:
        """Values of states, [N] or [N, 1], among what the model gives for them."""
        value: Tensor = outputs[-1]
        return value

    def store(self, step: tuple[Any, ...], next_mask: Any, active: Any) -> None:
        """Keep the last step of all environments for longer than until the next update; arguments: `store_step`."""

    # Sharing

    @property
    def shared_attributes(self) -> tuple[str, ...]:
        """The model and the optimiser."""
        return ("shared_model", "optimizer")

    @property
    def shared_model(self) -> torch.nn.Module:
        """The model that all processes share; the copy follows when it is replaced."""
        return self._shared_model

    @shared_model.setter
    def shared_model(self, model: torch.nn.Module) -> None:
        self._shared_model = model
        self._gradient_step = None
        copy_param(self.model, model)

    def sync_parameters(self) -> None:
        """Copy the shared parameters to the model that acts."""
        copy_param(self.model, self._shared_model)

    def __getstate__(self) -> dict[str, Any]:
        """All but the copy: tensors that are sent to another process are moved into memory that is shared with it."""
        return {name: value for name, value in vars(self).items() if name not in _OF_ONE_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.model = copy.deepcopy(self._shared_model)

    # Acting

    def _value(self, obs: Any, active: Any = None) -> Any:
        return super()._value(obs, active)[0]

    def check_spaces(self, observation_space: Any, action_space: Any) -> None:
        """Refuse an environment whose actions the policy cannot choose, or whose observations do not fit the model.

        Raises:
            TypeError: If actions are of another kind.
            ValueError: If their number differs, or observations do not fit.
        """
        outputs = self.probe(observation_space)
        if outputs is not None and action_space is not None:
            check_policy_fits(outputs[0], action_space, self.acting_argument)

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
        """Take in what the last actions led to; in training, learn from the steps of each environment by themselves.

        Args:
            batch_obs: The k observations after the actions; at an episode's end its true last one.
            batch_reward: k rewards.
            batch_done: Whether each observation is terminal, so that nothing is bootstrapped from it.
            batch_reset: Whether each episode is cut off there for another reason.
            action_mask: True where an action is allowed in the new observations, [k, n_actions]; `act` gets it again.
            active: False for environments that took no step, [k].

        Raises:
            RuntimeError: In training, if no action was asked for before.
            ValueError: If the arguments have different lengths.
        """
        if not len(batch_obs) == len(batch_reward) == len(batch_done) == len(batch_reset):
            raise unequal_lengths(obs=batch_obs, reward=batch_reward, done=batch_done, reset=batch_reset)
        if self.training:
            if self.batch_last_obs is None:
                raise RuntimeError("observe was called in training before act")
            step = (self.batch_last_obs, self.batch_last_action, batch_reward, batch_obs, batch_done, batch_reset)
            self.store(step, action_mask, active)
            if action_mask is None and self._last_mask is not None and has_mask(batch_obs):
                action_mask = [obs[ACTION_MASK] for obs in batch_obs]
            for i in range(len(batch_obs)) if active is None else np.flatnonzero(active).tolist():
                rollout = self._with_last_step(i, float(batch_reward[i]))
                if batch_done[i] or batch_reset[i] or len(rollout) >= self.t_max:
                    del self._rollouts[i]
                    mask = None if action_mask is None else action_mask[i]
                    self.learn_from(self._batch(rollout, batch_obs[i], mask, bool(batch_done[i])))
        if self.memory is not None:
            self.memory.episodes_ended(self.training, np.logical_or(batch_done, batch_reset))

    def _with_last_step(self, i: int, reward: float) -> Rollout:
        """The steps of environment i, to the last one."""
        rollout = self._rollouts.get(i)
        if rollout is None:
            state = None if self.memory is None else self.memory.train_previous_state
            rollout = self._rollouts[i] = Rollout(get_recurrent_state_at(state, [i], True))
        rollout.obs.append(self.batch_last_obs[i])
        rollout.action.append(self.batch_last_action[i])
        rollout.reward.append(reward)
        if self._last_mask is not None:
            rollout.action_mask.append(self._last_mask[i])
        self.t += 1
        return rollout

    def stop_episode(self) -> None:
        """Leave the episodes that run: what comes next belongs to new ones. Runners begin with this."""
        self._rollouts.clear()
        if self.memory is not None:
            self.memory.forget(self.training)

    def _batch(self, rollout: Rollout, last_obs: Any, last_mask: Any, done: bool) -> Batch:
        """The rollout with features in place of observations, and what came after it."""
        features = self.features([*rollout.obs, last_obs], self.device)
        discount = torch.full((len(rollout),), self.gamma)
        if done:
            discount[-1] = 0.0
        masks = None
        if rollout.action_mask:
            first = rollout.action_mask[0]
            last_mask = np.ones_like(first) if last_mask is None else last_mask
            masks = torch.from_numpy(np.array([*rollout.action_mask, last_mask], bool))
        return Batch(
            obs=map_nested(lambda leaf: leaf[:-1], features),
            action=torch.from_numpy(np.array(rollout.action)),
            reward=torch.tensor(rollout.reward),
            next_obs=map_nested(lambda leaf: leaf[1:], features),
            discount=discount,
            action_mask=None if masks is None else masks[:-1],
            next_action_mask=None if masks is None else masks[1:],
            recurrent_state=rollout.recurrent_state,
            lengths=torch.tensor([len(rollout)]),
        )

    # Learning

    def update(self, batch: Batch, errors_out: list[float] | None = None) -> tuple[Tensor, dict[str, Tensor]]:
        """Learn once, from consecutive steps of one episode: the only way to the parameters.

        Args:
            batch: The steps in their order, with raw observations.
            errors_out: Cleared and filled with the absolute errors, if given.

        Returns:
            Errors of the values, [N] (of a sequence: the largest, [1]), and the statistics of the loss.

        Raises:
            ValueError: If the batch holds several sequences.
            NonFiniteError: If the loss or a gradient is NaN or infinite; nothing was changed. `batch` of the error
                holds the steps.
        """
        if batch.lengths is not None and len(batch.lengths) != 1:
            raise ValueError(f"batch holds {len(batch.lengths)} sequences, expected the steps of one episode")
        ready = batch
        if not self.features.is_identity:
            obs, next_obs = (self.features.on_batch(each, self.device) for each in (batch.obs, batch.next_obs))
            ready = batch.replace(obs=obs, next_obs=next_obs)
        try:
            error, stats = self.learn(ready)
        except NonFiniteError as refusal:
            refusal.batch = batch
            raise
        if batch.lengths is not None:
            error = max_over_sequences(error, batch.lengths)
        if errors_out is not None:
            errors_out[:] = error.abs().tolist()
        return error, stats

    def learn(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """`update` with features in place of observations."""
        step = self._gradient_step
        if step is None or step.optimizer is not self.optimizer or step.max_grad_norm != self.max_grad_norm:
            step = self._make_gradient_step()
        loss, error, stats = self.loss(batch)
        try:
            step(loss)
        except NonFiniteError as refusal:
            refusal.batch = batch
            self.logger.error("update %d was refused: %s", self.optim_t + 1, refusal)
            raise
        for shared, own in self._shared_buffers:
            shared.copy_(own)  # such as running moments
        self.optim_t += 1
        self.sync_parameters()
        for name in self.averaged:
            if name in stats:
                setattr(self, f"average_{name}", self._running_mean(name, stats[name]))
        return error, stats

    def outputs(self, batch: Batch, model: torch.nn.Module | None = None) -> Any:
        """What the model, or another one like it, gives for every row."""
        model = self.model if model is None else model
        if batch.lengths is None or not self.recurrent:
            return call(model, batch.obs)
        return sequence_outputs(model, batch.obs, batch.recurrent_state, batch.lengths)

    def last_value(self, batch: Batch) -> Tensor:
        """Value of the state after the last row, [1], without a gradient; 0 if that is terminal."""
        if not batch.discount[-1]:
            return torch.zeros(1)
        last = map_nested(lambda leaf: leaf[-1:], batch.next_obs)
        mask = None if batch.next_action_mask is None else batch.next_action_mask[-1:]
        with torch.no_grad(), evaluating_readers(self.model):
            if self.recurrent:
                _, state = forward(self.model, batch.obs, batch.recurrent_state, batch.lengths)
                outputs, _ = forward(self.model, last, state)
            else:
                outputs = call(self.model, last)
            return self.state_value(outputs, mask).reshape(1)

    def _make_gradient_step(self) -> GradientStep:
        shared, own = self._shared_model, self.model
        copies: dict[Tensor, Tensor] = dict(zip(shared.parameters(), own.parameters(), strict=True))
        self._shared_buffers = list(zip(shared.buffers(), own.buffers(), strict=True))
        self._gradient_step = GradientStep(self.optimizer, self.max_grad_norm, copies=copies)
        return self._gradient_step

    def _running_mean(self, name: str, values: Tensor) -> float:
        mean: float = getattr(self, f"average_{name}")
        decay: float = getattr(self, f"average_{name}_decay")
        for value in values.tolist():
            mean += (1 - decay) * (value - mean)
        return mean

    # Statistics and files

    def get_statistics(self) -> list[tuple[str, Any]]:
        """Running means over the rows that this process has learnt from."""
        return [(f"average_{name}", getattr(self, f"average_{name}")) for name in self.averaged]

    def saved_state(self) -> dict[str, Any]:
        """Counters and running means; steps that have not been learnt from are not saved."""
        return {"t": self.t, "optim_t": self.optim_t, **dict(self.get_statistics())}

    def restore_state(self, state: dict[str, Any]) -> None:
        """Take up what `saved_state` gave; what `state` lacks stays as it is.

        Raises:
            ValueError: If it is something else; nothing was changed.
        """
        known = self.saved_state()
        for name, value in state.items():
            if name not in known:
                raise ValueError(f"the state has {name}, which this {type(self).__name__} has not")
            if type(value) not in (int, type(known[name])):
                raise ValueError(f"{name} is {value!r:.80}, expected a number as {known[name]!r}")
        vars(self).update(state)

    def load(self, dirname: Any) -> None:
        """Load what `save`, or PFRL, has saved, into the shared parameters, too; see `AttributeSavingMixin`."""
        super().load(dirname)
        self.share_loaded()

    def load_state_dict(self, state_dict: Any) -> None:
        """Load what `state_dict` gave, into the shared parameters, too; see `AttributeSavingMixin`."""
        super().load_state_dict(state_dict)
        self.share_loaded()

    def share_loaded(self) -> None:
        """Copy the parameters of the model that acts to those that are shared."""
        copy_param(self._shared_model, self.model)


#: What is made anew where an agent arrives.
_OF_ONE_PROCESS = frozenset(["model", "_gradient_step", "_shared_buffers", "_last_distribution"])
