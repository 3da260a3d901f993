"""Twin Delayed Deep Deterministic Policy Gradient (Fujimoto et al. 2018, arXiv:1802.09477)."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from pfrl_like.agents.ddpg import ddpg_policy_loss
from pfrl_like.batch import Batch
from pfrl_like.explorer import Explorer
from pfrl_like.functions.losses import square
from pfrl_like.learning.acting import actions_of_policy
from pfrl_like.learning.actor_critic import STATISTICS_OF_CRITICS, OffPolicyActorCritic
from pfrl_like.learning.compatibility.arguments import critics_and_optimizers, keywords_for
from pfrl_like.learning.compatibility.spaces import Bounds
from pfrl_like.learning.critics import Targets, distribution_of, min_next_value
from pfrl_like.learning.overrides.experiences import ColumnsOfBatch
from pfrl_like.learning.settings import change_optimizer, settings
from pfrl_like.optimizers.compiled_step import Step
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states
from pfrl_like.utils.checks import alias, check_function
from pfrl_like.utils.old_names import old_names


def default_target_policy_smoothing_func(batch_action: Tensor) -> Tensor:
    """Add Gaussian noise to actions and clip the result to [-1, 1] (arXiv:1802.09477, eq. 14, section 6.1).

    The noise has standard deviation 0.2 and is clipped to [-0.5, 0.5].
    """
    noise = torch.clamp(0.2 * torch.randn_like(batch_action), -0.5, 0.5)
    return torch.clamp(batch_action + noise, -1, 1)


def td3_next_value(
    target_policy: Any, target_critics: Sequence[Any], batch: Batch, smoothing: Callable[[Tensor], Tensor]
) -> Any:
    """Return min_i Q_i'(s', a') (arXiv:1802.09477, algorithm 1). The index i runs over the target critics.

    The action a' is the target policy's action with noise; see `td3_next_action`.

    Args:
        target_policy: Target network of the policy.
        target_critics: Target networks of the critics.
        batch: Transitions or sequences.
        smoothing: Function that adds noise to a batch of actions.

    Returns:
        An `ActionValue` with one action for each row.
    """
    return min_next_value(target_critics, batch, td3_next_action(target_policy, batch, smoothing))


def td3_next_action(target_policy: Any, batch: Batch, smoothing: Callable[[Tensor], Tensor]) -> Tensor:
    """Sample actions of the target policy in the next states and add noise; return the noisy actions, [N, ...].

    Raises:
        ValueError: If `smoothing` does not return actions of the same shape.
    """
    action = distribution_of(target_policy, batch, next=True).sample()
    next_action: Tensor = smoothing(action)
    if getattr(next_action, "shape", None) != action.shape:
        result = tuple(getattr(next_action, "shape", ())) or next_action
        raise ValueError(f"target_policy_smoothing_func gave {result!r:.80}, expected shape {tuple(action.shape)}")
    return next_action


@settings(policy_optimizer=change_optimizer, q_func1_optimizer=change_optimizer, q_func2_optimizer=change_optimizer)
class TD3(OffPolicyActorCritic):
    """Twin Delayed Deep Deterministic Policy Gradient. The policy's loss uses only the first critic.

    Args:
        policy: Module from observations to distributions of actions, for example one that ends in a
            `DeterministicHead`.
        q_func1: First critic, called as `q_func1((obs, action))`; it returns a tensor [N, 1] or an `ActionValue` with
            one action.
        q_func2: Second critic. None if `q_func1` is a `QFunctionEnsemble` of all critics.
        policy_optimizer: Optimiser of the policy.
        q_func1_optimizer: Optimiser of the first critic.
        q_func2_optimizer: Optimiser of the second critic; None if `q_func1` is a `QFunctionEnsemble`.
        replay_buffer: Replay buffer that stores the transitions; an episodic replay buffer if `recurrent` is True.
        gamma: Discount factor per step.
        explorer: Explorer that selects the training action, given an action sampled from the policy.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of transitions per update; number of sequences if `recurrent` is True.
        update_interval: Number of steps between updates.
        phi: Feature extractor applied to each observation before the network. The replay buffer stores raw
            observations.
        soft_update_tau: Weight of the online parameters in the soft update of the target networks, in (0, 1]. The soft
            update runs after each update of the policy.
        n_times_update: Number of updates every `update_interval` steps.
        max_grad_norm: Maximum L2 norm of the gradient of each optimiser's parameters; None disables clipping.
        logger: Logger for rejected updates (non-finite loss or gradient).
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        burnin_action_func: Function that returns one training action. The agent calls the function until the first
            update of the policy. If None, the policy selects all training actions. An actor in another process calls
            the function until the actor receives the parameters of an updated policy. If actions are masked, the
            function must accept the keyword `action_mask`, [n_actions].
        policy_update_delay: Number of critic updates per update of the policy and the target networks.
        target_policy_smoothing_func: Function that adds noise to a batch of actions of the target policy and returns
            the noisy actions.
        further_q_funcs: Additional critics. The target uses the minimum over all critics.
        further_q_func_optimizers: Optimisers of the additional critics.
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        recurrent: True to train a recurrent policy on sequences; critics may be recurrent as well. The replay buffer
            stores only the policy's recurrent state. Critics start each sequence from their initial recurrent state.
        episodic_update_len: Maximum length of the sequences in recurrent updates, in steps; None uses whole episodes.
        act_deterministically: True to select the mode of the policy in evaluation, False to sample.
        device: Device as a string or `torch.device`, instead of `gpu`.
        num_steps: Number of steps n of the n-step returns in recurrent updates. If n > 1, an `ActionValue` that a
            network returns must support indexing by rows, `value[rows]`. For updates that are not recurrent, set
            `num_steps` of the replay buffer instead.
        compile: True to compile the update. Requires Adam, AdamW, RMSprop or SGD, and `recurrent=False`. The update is
            compiled when it runs for the second time. The compilation takes about 30 s and is logged (level INFO).

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    #: Names of the statistics that have one value per update.
    averaged_updates = ("policy_loss",)
    _saved_counters = {**OffPolicyActorCritic._saved_counters, "q_func_n_updates": "q_func_n_updates"}
    #: Names of the statistics that `get_statistics` returns.
    reported = (*STATISTICS_OF_CRITICS, "average_policy_loss", "policy_n_updates", "q_func_n_updates")
    _elementwise = staticmethod(square)
    _targets = Targets(schedule="with policy")
    _hooks_of_update = frozenset(["update_q_func", "update_policy"])
    _acting_hook = "batch_select_onpolicy_action"
    # Number of critic updates minus number of agent updates. A subclass that overrides methods of PFRL may update the
    # critics several times per agent update, or not at all.
    _critic_update_difference = 0

    q_func1: Any

    def __init__(
        self,
        policy: nn.Module,
        q_func1: nn.Module,
        q_func2: nn.Module | None,
        policy_optimizer: torch.optim.Optimizer,
        q_func1_optimizer: torch.optim.Optimizer,
        q_func2_optimizer: torch.optim.Optimizer | None,
        replay_buffer: AbstractReplayBuffer,
        gamma: float,
        explorer: Explorer,
        gpu: int | None = None,
        replay_start_size: int = 10000,
        minibatch_size: int = 100,
        update_interval: int = 1,
        phi: Callable[[Any], Any] | None = None,
        soft_update_tau: float = 5e-3,
        n_times_update: int = 1,
        max_grad_norm: float | None = None,
        logger: logging.Logger | None = None,
        batch_states: Callable[..., Any] = default_batch_states,
        burnin_action_func: Callable[[], Any] | None = None,
        policy_update_delay: int = 2,
        target_policy_smoothing_func: Callable[[Tensor], Tensor] = default_target_policy_smoothing_func,
        *,
        further_q_funcs: Sequence[nn.Module] = (),
        further_q_func_optimizers: Sequence[torch.optim.Optimizer] = (),
        batch_accumulator: str = "mean",
        recurrent: bool = False,
        episodic_update_len: int | None = None,
        act_deterministically: bool = False,
        device: torch.device | str | None = None,
        num_steps: int = 1,
        compile: bool = False,
    ) -> None:
        check_function(target_policy_smoothing_func=target_policy_smoothing_func)
        critics, optimizers = critics_and_optimizers(locals())
        super().__init__(
            policy, critics, {"policy_optimizer": policy_optimizer, **optimizers}, replay_buffer, gamma, explorer,
            target_update_interval=None, target_update_method="soft", **keywords_for(OffPolicyActorCritic, locals()),
        )  # fmt: skip
        self.target_policy_smoothing_func = target_policy_smoothing_func

    def bootstrap(self, batch: Batch) -> tuple[Any, Tensor]:
        """Return the value of the next states (`td3_next_value` of the target networks), and the rewards, [N]."""
        smoothing = self.target_policy_smoothing_func
        return td3_next_value(self.target_policy, self.target_critics, batch, smoothing), batch.reward

    def policy_step(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Minimise `policy_loss` and return statistics."""
        loss = self.policy_loss(batch)
        step("policy_optimizer", loss)
        return {"policy_loss": loss.detach()}

    def policy_loss(self, batch: Batch) -> Tensor:
        """Return the scalar loss of the policy, `ddpg_policy_loss` with the first critic."""
        return ddpg_policy_loss(self.policy, self.critics[0], batch, self.batch_accumulator)[0]

    def _bounds_of_actions(self, distribution: Distribution) -> dict[str, Bounds | None]:
        """Return the action bounds of policy, explorer and target smoothing, keyed by name. None means unknown bounds.

        Args:
            distribution: Output of the policy for any observation.
        """
        is_default = self.target_policy_smoothing_func is default_target_policy_smoothing_func
        bounds = (-1.0, 1.0) if is_default else None
        return {**super()._bounds_of_actions(distribution), "target_policy_smoothing_func": bounds}

    def update_q_func(self, batch: Any) -> None:
        """Make a gradient step on the loss of each critic.

        Args:
            batch: Minibatch of features: the result of `batch_experiences`, or a `Batch`.

        Raises:
            NonFiniteError: If a loss or a gradient is NaN or infinite.
        """
        self._default_critic_update(batch)
        self.q_func_n_updates += 1

    def update_policy(self, batch: Any) -> None:
        """Make a gradient step on the policy's loss.

        Args:
            batch: Minibatch of features: the result of `batch_experiences`, or a `Batch`.

        Raises:
            NonFiniteError: If a loss or a gradient is NaN or infinite.
        """
        self._default_policy_update(batch)

    def batch_select_onpolicy_action(self, batch_obs: Sequence[Any]) -> list[Any]:
        """Return an action sampled from the policy for each of k raw observations."""
        return list(actions_of_policy(self, batch_obs, deterministic=False))

    def _update_through_hooks(self, batch: ColumnsOfBatch) -> None:
        """Make one update in the order of PFRL's `update`.

        Each update trains the critics. Every `policy_update_delay` updates, the policy and the targets are updated,
        too. `delays_first_update` selects these updates.
        """
        self.update_q_func(batch)
        if (self.q_func_n_updates - 1 + self.delays_first_update) % self.policy_update_delay == 0:
            self.update_policy(batch)
            self.sync_target_network()
        self._critic_update_difference -= 1  # `update_q_func` and the caller both count this critic update

    def _count_update(self) -> None:
        """Count an update of the agent. `update_q_func` counts the updates of the critics."""
        super()._count_update()
        self._critic_update_difference -= 1

    def extra_statistics(self) -> dict[str, Any]:
        """Return the number of policy updates and the number of critic updates, keyed by the name of the statistic."""
        return {"policy_n_updates": self.policy_n_updates, "q_func_n_updates": self.q_func_n_updates}

    policy_n_updates = alias("n_policy_updates", "Number of updates of the policy.")

    @property
    def q_func_n_updates(self) -> int:
        """Number of updates of the critics."""
        return self.optim_t + self._critic_update_difference

    @q_func_n_updates.setter
    def q_func_n_updates(self, count: int) -> None:
        self._critic_update_difference = count - self.optim_t


__getattr__ = old_names(__name__)
