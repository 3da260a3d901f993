"""Conservative Offline Model-Based Policy Optimization (Yu et al. 2021, arXiv:2102.08363)."""

import torch
from torch import Tensor

from pfrl_like.agents.offline.cql import CQL
from pfrl_like.batch import Batch

#: Name of a column of `Batch.extra`, [N], bool: True in rows that a model of the environment generated.
IMAGINED = "imagined"


def model_based_gap(values: Tensor, log_density: Tensor, data_value: Tensor, imagined: Tensor) -> Tensor:
    """Return the values of sampled actions in imagined states minus the values of recorded actions in recorded states.

    The mean over the rows is E_imagined[log sum exp(Q(s, a) - log density(a))] - E_recorded[Q(s, a)] (arXiv:2102.08363,
    eq. 2, with the actions of appendix B). If no row is imagined or no row is recorded, both means are over all rows.

    Args:
        values: Q(s, a) of the sampled actions, [M, N].
        log_density: Log-densities of the sampled actions under the distributions from which they were sampled, [M, N].
        data_value: Q(s, a) of the action in each row, [N].
        imagined: True in imagined rows, [N], bool.

    Returns:
        The gap of each row, [N].
    """
    soft_maximum = torch.logsumexp(values - log_density, 0)
    return _mean_factors(imagined) * soft_maximum - _mean_factors(~imagined) * data_value


def _mean_factors(rows: Tensor) -> Tensor:
    """Return factors, [N], such that the mean of factor * x over all rows is the mean of x over the selected rows.

    If no row is selected, the factors are 1.
    """
    fraction = rows.float().mean()
    return torch.where(fraction > 0, rows / fraction, 1.0)


class COMBO(CQL):
    """CQL on recorded and imagined data: lowers values in imagined states, raises values of recorded actions.

    `batch.extra["imagined"]` marks the imagined rows; `pfrl_like.dynamics.ModelRollouts` sets this column. If a batch
    has no such column, for example in online training, an update computes the same parameters as an update of `CQL`.

    Args:
        policy: Module from observations to distributions of actions, for example one that ends in a
            `SquashedGaussianHead`.
        q_func1: First critic, called as `q_func1((obs, action))`; it returns a tensor [N, 1] or an `ActionValue` with
            one action.
        q_func2: Second critic. None if `q_func1` is a `QFunctionEnsemble` of all critics.
        policy_optimizer: Optimiser of the policy.
        q_func1_optimizer: Optimiser of the first critic.
        q_func2_optimizer: Optimiser of the second critic; None if `q_func1` is a `QFunctionEnsemble`.
        replay_buffer: Replay buffer that stores the transitions; an episodic replay buffer if `recurrent` is True.
        gamma: Discount factor per step.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of transitions per update; number of sequences if `recurrent` is True.
        update_interval: Number of steps between updates.
        phi: Feature extractor applied to each observation before the network. The replay buffer stores raw
            observations.
        soft_update_tau: Weight of the online parameters in the soft update of the target networks, in (0, 1]. The soft
            update runs after each update.
        max_grad_norm: Maximum L2 norm of the gradient of each optimiser's parameters; None disables clipping.
        logger: Logger for rejected updates (non-finite loss or gradient).
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        burnin_action_func: Function that returns one training action. The agent calls the function until the first
            update of the policy. If None, the policy selects all training actions. An actor in another process calls
            the function until the actor receives the parameters of an updated policy. If actions are masked, the
            function must accept the keyword `action_mask`, [n_actions].
        initial_temperature: Initial temperature, positive. If `entropy_target` is None, the temperature stays constant
            and may be 0.
        entropy_target: Target entropy, usually minus the number of action dimensions. The temperature is learnt to keep
            the policy's entropy near the target. None keeps the temperature constant.
        temperature_optimizer_lr: Learning rate of the Adam optimiser of the temperature; None uses Adam's default.
        act_deterministically: True to select the mode of the policy in evaluation, False to sample.
        further_q_funcs: Additional critics. The target uses the minimum over all critics.
        further_q_func_optimizers: Optimisers of the additional critics.
        n_times_update: Number of updates every `update_interval` steps.
        policy_update_delay: Number of critic updates per update of the policy and the temperature.
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        recurrent: True to train a recurrent policy on sequences; critics may be recurrent as well. The replay buffer
            stores only the policy's recurrent state. Critics start each sequence from their initial recurrent state.
        episodic_update_len: Maximum length of the sequences in recurrent updates, in steps; None uses whole episodes.
        device: Device as a string or `torch.device`, instead of `gpu`.
        num_steps: Number of steps n of the n-step returns in recurrent updates. If n > 1, an `ActionValue` that a
            network returns must support indexing by rows, `value[rows]`. For updates that are not recurrent, set
            `num_steps` of the replay buffer instead.
        compile: True to compile the update. Requires Adam, AdamW, RMSprop or SGD, and `recurrent=False`. The update is
            compiled when it runs for the second time. The compilation takes about 30 s and is logged (level INFO).
        conservative_weight: Weight of the conservative gap: the values of sampled actions minus the values of the
            actions in the data.
        alpha_threshold: Target value of the weighted gap, `conservative_weight` * gap. The loss contains alpha times
            the weighted gap. alpha is a Lagrange multiplier, learnt to reach the target. None keeps alpha constant.
        initial_alpha: Initial alpha, positive. If `alpha_threshold` is None, alpha stays constant and may be 0.
        alpha_optimizer_lr: Learning rate of the Adam optimiser of alpha; None uses Adam's default.
        n_action_samples: Number of actions per row sampled from each of three distributions: the policy in the state,
            the policy in the next state, and the uniform distribution.
        soft_q_backup: True to add the entropy in the next state to the critics' targets, as Soft Actor-Critic does. The
            policy's loss always contains the entropy.
        multipliers_first: False to update a Lagrange multiplier after the step on the loss that it weights; True to
            update it before, as in d3rlpy 2.8: the loss `temperature * log_prob - Q` then contains the new temperature.
        multiplier_optimizers: Functions from the parameters of a Lagrange multiplier to their optimiser, keyed by the
            name of the multiplier. Adam updates the others.
        next_value: Function called as (policy, target critics, batch), which returns the value of the next states if
            `soft_q_backup` is False: min_i Q_i'(s', a') of a sample a' of the policy if None; `mode_next_value`, of the
            policy's mode, in d3rlpy 2.8, or `max_next_value`, the maximum over sampled actions, its `max_q_backup`.
        max_alpha: Maximum of a learnt alpha: min(exp(log_alpha), max_alpha). None sets no maximum; 1e6 in d3rlpy 2.8.

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    def _gap(self, values: Tensor, log_density: Tensor, data_value: Tensor, batch: Batch) -> Tensor:
        """Return `model_based_gap`, [N], or the gap of `CQL` if the batch does not mark imagined rows."""
        if batch.extra is None or IMAGINED not in batch.extra:
            return super()._gap(values, log_density, data_value, batch)
        return model_based_gap(values, log_density, data_value, batch.extra[IMAGINED])
