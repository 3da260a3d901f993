"""Deep Q-Network (Mnih et al. 2015, doi:10.1038/nature14236), also with distributional Q-functions."""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from pfrl_like.action_value import ActionValue
from pfrl_like.batch import Batch
from pfrl_like.explorer import Explorer
from pfrl_like.functions.losses import compute_value_loss as compute_value_loss
from pfrl_like.functions.losses import compute_weighted_value_loss as compute_weighted_value_loss
from pfrl_like.functions.losses import half_square, huber, td_target, weighted_mean
from pfrl_like.learning.compatibility.arguments import keywords_for
from pfrl_like.learning.compatibility.parts import check_explorer, check_takes_state, kind_of_actions
from pfrl_like.learning.compatibility.spaces import check_kind, check_size
from pfrl_like.learning.model_outputs import output_of, wrong_value
from pfrl_like.learning.off_policy import OffPolicyAgent
from pfrl_like.learning.overrides.experiences import to_batch
from pfrl_like.learning.overrides.off_policy import loss_of_override, overridden_target, within_hook
from pfrl_like.nn.fast_forward import fast_forward
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states
from pfrl_like.utils.copy_param import frozen_copy
from pfrl_like.utils.env_values import space_kind
from pfrl_like.utils.old_names import old_names

NextAction = Callable[[Any, Batch], Tensor]
Target = Callable[[Any, Any, Tensor, Batch], Tensor]
Penalty = Callable[[Any, Batch], Tensor]
#: Recommended Q-functions, keyed by the kind of the action space.
_ADVICE = {
    "box": "use a Q-function that gives a QuadraticActionValue, such as FCQuadraticStateQFunction",
    "discrete": "use a Q-function that gives a DiscreteActionValue",
}


def action_values(q_function: Any, batch: Batch, *, next: bool = False) -> Any:
    """Return Q(s, .) of every row, or Q(s', .) if `next` is True. A masked action is never the greedy action."""
    obs, mask = (batch.next_obs, batch.next_action_mask) if next else (batch.obs, batch.action_mask)
    value = fast_forward(q_function, obs) if batch.lengths is None else output_of(q_function, batch, next=next)
    value = value if mask is None else value.masked(mask)
    return value[batch.next_row] if next and batch.next_row is not None else value


def dqn_loss(
    q_function: Any,
    target_q_function: Any,
    batch: Batch,
    *,
    next_action: NextAction | None = None,
    elementwise: Callable[[Tensor], Tensor] = huber,
    accumulator: str = "mean",
    value_type: type[Any] = ActionValue,
    target: Target | None = None,
    penalty: Penalty | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the loss of Q-learning.

    The type of the Q-function's output determines the loss of a row: the Huber loss for one value per action, the cross
    entropy for a categorical distribution, or the quantile Huber loss for quantiles.

    Args:
        q_function: Online network.
        target_q_function: Target network.
        batch: Transitions or sequences.
        next_action: Function called as `next_action(q_function, batch)`. It returns the actions in the next states
            whose values the targets contain, [N]. If None, the greedy actions of the target network are used.
        elementwise: Function that returns the loss of each TD error. Distributional action values ignore it.
        accumulator: "mean" or "sum" over the rows.
        value_type: Type of action value that the Q-function must return.
        target: Function called as `target(value, next_value, bootstrap, batch)`. `value` and `next_value` are the
            target network's outputs for s and s'. `bootstrap` contains the values of the next states, [N]. The function
            returns the targets of Q(s, a), [N]. If None, the targets of Q-learning are used.
        penalty: Function called as `penalty(value, batch)`, where `value` is Q(s, .). It returns an additional loss for
            each row, [N]. If None, no loss is added.

    Returns:
        The scalar loss (weighted if the batch has weights), the detached TD errors, [N], and the detached Q(s, a), [N].

    Raises:
        TypeError: If the Q-function does not return a `value_type`.
    """
    q = action_values(q_function, batch)
    if not isinstance(q, value_type):
        raise wrong_value(q, value_type)
    with torch.no_grad():
        next_q = action_values(target_q_function, batch, next=True)
        action = None if next_action is None else next_action(q_function, batch)
        if target is not None:
            bootstrap = next_q.max if action is None else next_q.evaluate_actions(action)
            targets = target(action_values(target_q_function, batch), next_q, bootstrap, batch)
    if target is None:
        loss, td_error, value = q.td_loss(batch.action, batch.reward, batch.discount, next_q, action, elementwise)
    else:
        loss, td_error, value = q.target_loss(batch.action, targets, elementwise)
    if penalty is not None:
        loss = loss + penalty(q, batch)
    return weighted_mean(loss, batch.weight, accumulator), td_error, value


class DQN(OffPolicyAgent):
    """Deep Q-Network agent, for any Q-function that returns an `ActionValue` with the method `td_loss`.

    Args:
        q_function: Module from observations to an `ActionValue`.
        optimizer: Optimiser of the Q-function's parameters.
        replay_buffer: Replay buffer that stores the transitions; an episodic replay buffer if `recurrent` is True.
        gamma: Discount factor per step.
        explorer: Explorer that selects the training action.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of transitions per update; number of sequences if `recurrent` is True.
        update_interval: Number of steps between updates.
        target_update_interval: Number of steps between updates of the target network; must be a multiple of
            `update_interval`.
        clip_delta: Loss of a Q-function that is not distributional: True for the Huber loss, False for half the squared
            error.
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
        device: Device as a string or `torch.device`, instead of `gpu`.
        num_steps: Number of steps n of the n-step returns in recurrent updates. If n > 1, an `ActionValue` that a
            network returns must support indexing by rows, `value[rows]`. For updates that are not recurrent, set
            `num_steps` of the replay buffer instead.
        burn_in: Number of initial steps of each sequence that only warm up the recurrent state. The loss ignores these
            steps.
        compile: True to compile the update and the selection of greedy actions. Requires Adam, AdamW, RMSprop or SGD,
            and `recurrent=False`. The update is compiled when it runs for the second time. The selection is compiled
            separately for each batch size, when the batch size occurs for the second time. Each compilation takes about
            30 s and is logged (level INFO).

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    #: Argument `next_action` of `dqn_loss`. If None, the greedy actions of the target network are used.
    next_action: NextAction | None = None
    #: Argument `target` of `dqn_loss`. If None, the targets of Q-learning are used.
    target: Target | None = None
    #: Argument `penalty` of `dqn_loss`. If None, no loss is added.
    penalty: Penalty | None = None

    _acting_hook = "_evaluate_model_and_update_recurrent_states"

    loss_record: deque[float]
    q_record: deque[float]

    def __init__(
        self,
        q_function: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        replay_buffer: AbstractReplayBuffer,
        gamma: float,
        explorer: Explorer,
        gpu: int | None = None,
        replay_start_size: int = 50000,
        minibatch_size: int = 32,
        update_interval: int = 1,
        target_update_interval: int = 10000,
        clip_delta: bool = True,
        phi: Callable[[Any], Any] | None = None,
        target_update_method: str = "hard",
        soft_update_tau: float = 1e-2,
        n_times_update: int = 1,
        batch_accumulator: str = "mean",
        episodic_update_len: int | None = None,
        logger: logging.Logger | None = None,
        batch_states: Callable[..., Any] = default_batch_states,
        recurrent: bool = False,
        max_grad_norm: float | None = None,
        *,
        device: torch.device | str | None = None,
        num_steps: int = 1,
        burn_in: int = 0,
        compile: bool = False,
    ) -> None:
        extra_modules = self.extra_modules()
        super().__init__(
            {"q_function": q_function, **extra_modules}, {"optimizer": optimizer}, replay_buffer, gamma, explorer,
            **keywords_for(OffPolicyAgent, locals()),
        )  # fmt: skip
        self.clip_delta = clip_delta
        self.model, self.target_model, self.optimizer = q_function, frozen_copy(q_function), optimizer
        for name, module in extra_modules.items():
            setattr(self, name, module)

    def extra_modules(self) -> Mapping[str, torch.nn.Module]:
        """Return modules that a subclass trains in addition to the Q-function, keyed by attribute name."""
        return {}

    def _check_modules(self, modules: Mapping[str, torch.nn.Module]) -> None:
        """Check that the Q-function does not take the action as input.

        Raises:
            TypeError: If the Q-function takes the action as input. The message names the argument.
        """
        check_takes_state("q_function", modules["q_function"])

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Compute `dqn_loss`, or the loss of PFRL's method `_compute_loss` if a subclass overrides that method."""
        target = self.target
        if self._overridden_hooks:
            if "_compute_loss" in self._overridden_hooks and self._override_batch is None:
                return loss_of_override(self, batch)
            if "_compute_target_values" in self._overridden_hooks:
                target = overridden_target(self)
        loss, td_error, value = dqn_loss(
            self.model, self.target_model, batch,
            next_action=self.next_action, elementwise=huber if self.clip_delta else half_square,
            accumulator=self.batch_accumulator, value_type=self.value_type, target=target,
            penalty=self.penalty,
        )  # fmt: skip
        return loss, td_error, {"loss": loss.detach(), "q": value}

    def _compute_loss(self, exp_batch: Any, errors_out: list[float] | None = None) -> Tensor:
        """Return the loss, a scalar.

        Args:
            exp_batch: Minibatch of features: the result of `batch_experiences`, or a `Batch`.
            errors_out: If not None, the list is cleared and filled with the absolute TD errors.
        """
        batch = to_batch(exp_batch)
        with within_hook(self, batch):
            loss, td_error, stats = self.loss(batch)
        if errors_out is not None:
            errors_out[:] = td_error.abs().tolist()
        self._record({"q": stats["q"]})
        return loss

    def _compute_target_values(self, exp_batch: Any) -> Tensor:
        """Return the targets of Q(s, a), [N].

        Args:
            exp_batch: Minibatch of features: the result of `batch_experiences`, or a `Batch`.
        """
        batch = to_batch(exp_batch)
        next_q = action_values(self.target_model, batch, next=True)
        action = None if self.next_action is None else self.next_action(self.model, batch)
        bootstrap = next_q.max if action is None else next_q.evaluate_actions(action)
        if self.target is not None:
            return self.target(action_values(self.target_model, batch), next_q, bootstrap, batch)
        return td_target(batch.reward, batch.discount, bootstrap)

    def update_from_episodes(self, episodes: Sequence[Any], errors_out: list[float] | None = None) -> None:
        """Make one update of a recurrent agent from sequences.

        Args:
            episodes: Sequences of transitions, the result of the replay buffer's `sample_episodes`.
            errors_out: If not None, the list is cleared and filled with the largest absolute TD error of each episode.
        """
        self.update(episodes, errors_out)

    def _evaluate_model_and_update_recurrent_states(self, batch_obs: Sequence[Any]) -> Any:
        """Return Q(s, .) of k raw observations, for methods `batch_act` that select actions themselves.

        The call advances the recurrent states of a recurrent agent by one step, of training or of evaluation. Call it
        in `torch.no_grad()` and `evaluating(agent.model)`. In training, `batch_act` must then set the attributes
        `batch_last_obs` and `batch_last_action`, which `batch_observe` stores.

        Args:
            batch_obs: k raw observations.

        Returns:
            An `ActionValue` of k rows.

        Raises:
            ValueError: If the observations have the wrong shape or type for the Q-function.
        """
        return self._value(self.features(batch_obs, self.device), self._override_masks[1])

    def values_of_pairs(self, obs: Any, action: Tensor) -> Tensor:
        """Return Q(s, a) of each ensemble member, [n_members, N]; a Q-function that is no ensemble has one member."""
        value = fast_forward(self.model, obs)
        return torch.stack([each.evaluate_actions(action) for each in getattr(value, "members", [value])])

    def _check_recorded_actions(self, dataset: Any, output: Any) -> None:
        """Check that the kind and the size of the recorded actions match the Q-function."""
        if isinstance(output, self.value_type):
            n_actions = getattr(output, "n_actions", None)
            others = "an agent with a policy" if n_actions else "a Q-function that gives a DiscreteActionValue"
            check_kind(self, dataset, n_actions is not None, others)
            if n_actions is not None:
                check_size(self, dataset, n_actions)

    def _check_output(self, value: Any, obs: Any, action_space: Any) -> None:
        """Check that the output of the Q-function is a `value_type`, and that its actions fit the action space.

        Also check that the explorer can select actions of this kind.
        """
        super()._check_output(value, obs, action_space)
        check_explorer(self.explorer, kind_of_actions(value), self._acting_network_name)
        if action_space is None:
            return
        kind, n_actions = space_kind(action_space), getattr(value, "n_actions", None)
        name, expected = ("continuous", "box") if n_actions is None else ("discrete", "discrete")
        if kind != expected:
            advice = "map the actions to integers in a wrapper whose action space is Discrete"
            raise TypeError(
                f"q_function gives {type(value).__name__}, which has {name} actions, but the environment has "
                f"{action_space}: {_ADVICE.get(kind, advice)}"
            )
        if n_actions is None:
            return
        if n_actions != action_space.n:
            got = f"q_function gives the values of {n_actions} actions"
            raise ValueError(f"{got}, the environment has {action_space.n}")
        start = getattr(action_space, "start", 0)
        if start != 0:
            raise ValueError(
                f"the environment has {action_space}, whose first action is {start}, but the agent's is 0: wrap the "
                f"environment in gymnasium.wrappers.TransformAction(env, lambda action: action + {start}, "
                f"gymnasium.spaces.Discrete({n_actions}))"
            )

    q_function = property(attrgetter("model"), doc="The Q-function.")


__getattr__ = old_names(__name__)
