"""Conservative Offline Model-Based Policy Optimization (Yu et al. 2021, arXiv:2102.08363)."""

import torch
from torch import Tensor

from pfrl_like.agents.offline.cql import CQL
from pfrl_like.batch import Batch

#: Column of `Batch.extra`: True in rows that a model of the environment imagined, [N], bool.
IMAGINED = "imagined"


def model_based_gap(values: Tensor, log_density: Tensor, data_value: Tensor, imagined: Tensor) -> Tensor:
    """Gap between the values of actions drawn in imagined states and of the data's actions in recorded states.

    The mean over the rows is E_imagined[log sum exp(Q(s, a) - log density(a))] - E_recorded[Q(s, a)]
    (arXiv:2102.08363, eq. 2, with the actions of appendix B). If all rows are of one kind, both means are over all
    rows.

    Args:
        values: Q of the drawn actions, [M, N].
        log_density: Log-densities of the drawn actions under the distributions that they were drawn from, [M, N].
        data_value: Q of the rows' own actions, [N].
        imagined: True in imagined rows, [N], bool.

    Returns:
        The gap of each row, [N].
    """
    drawn = torch.logsumexp(values - log_density, 0)
    return _in_mean(imagined) * drawn - _in_mean(~imagined) * data_value


def _in_mean(which: Tensor) -> Tensor:
    """Factors [N] that turn a mean over all rows into one over the selected rows; 1 if no row is selected."""
    share = which.float().mean()
    return torch.where(share > 0, which / share, 1.0)


class COMBO(CQL):
    """CQL on recorded and imagined data: lowers values in imagined states, and raises those of recorded actions.

    `batch.extra["imagined"]` marks imagined rows, as `pfrl_like.dynamics.ModelRollouts` does. From batches without such
    marks, for instance online, the agent learns as `CQL`.

    Args:
        policy: Module from observations to distributions of actions, such as one that ends in a `SquashedGaussianHead`.
        q_func1: First critic, called as `q_func1((obs, action))`; it gives numbers [N, 1], or an action value of one
            action.
        q_func2: Second critic; None if the first is a `QFunctionEnsemble`, which holds all of them.
        policy_optimizer: Optimiser of the policy.
        q_func1_optimizer: Optimiser of the first critic.
        q_func2_optimizer: Optimiser of the second critic; None if the first is a `QFunctionEnsemble`.
        replay_buffer: Where transitions are stored and sampled from; an episodic one for `recurrent`.
        gamma: Discount factor per step.
        gpu: CUDA device index; None or negative means the CPU.
        replay_start_size: No update while the buffer holds fewer items.
        minibatch_size: Transitions (recurrent: sequences) per update.
        update_interval: Steps between updates.
        phi: Feature extractor applied to each observation on its way to the network; raw observations are stored.
        soft_update_tau: How far the targets move after each update, in (0, 1].
        max_grad_norm: Largest L2 norm of each network's gradient, and of the temperature's; None for no clipping.
        logger: Logger of refused updates.
        batch_states: Makes a batch of a list of observations, called as (states, device, phi).
        burnin_action_func: Gives the actions in training until the policy has learnt once; None leaves them to the
            policy. In actors of other processes until they get the first parameters thereafter. Where actions are
            masked it has to take the keyword `action_mask`, [n_actions].
        initial_temperature: First temperature, positive. Without an `entropy_target` it stays the same, and may be 0.
        entropy_target: Entropy at which the policy is held by learning the temperature; minus the number of dimensions
            of actions is usual. None keeps the temperature.
        temperature_optimizer_lr: Learning rate of the temperature's Adam; None for Adam's own default.
        act_deterministically: In evaluation take the mode of the policy, not a sample.
        further_q_funcs: More critics; targets are the least value of all.
        further_q_func_optimizers: Their optimisers.
        n_times_update: Updates at each updating step.
        policy_update_delay: Updates of the critics for each one of policy and temperature.
        batch_accumulator: "mean" or "sum" of the losses over the minibatch.
        recurrent: The policy, and maybe the critic, is recurrent and trained on sequences. Only the policy's state is
            stored; the critic's is the initial one where a sequence begins.
        episodic_update_len: Longest sequence for recurrent updates, in steps; None for whole episodes.
        device: Device as text or `torch.device`, instead of `gpu`.
        num_steps: Steps of the returns in recurrent updates, within each sequence; the action value has to be indexable
            then. Otherwise it is the replay buffer that has such an argument.
        compile: Compile the whole update (Adam, AdamW, RMSprop or SGD; not recurrent). The second update compiles, in
            about half a minute, and says so in the log (level INFO).
        conservative_weight: Factor of the gap between the values of drawn actions and of the data's actions.
        alpha_threshold: Value at which `conservative_weight` times the gap is held by learning alpha, the weight of the
            term; None keeps alpha constant.
        initial_alpha: First alpha, positive; without an `alpha_threshold` alpha keeps this value, which may be 0.
        alpha_optimizer_lr: Learning rate of alpha's Adam; None for Adam's own default.
        n_action_samples: Actions of each kind drawn for each row: of the policy, of the policy in the next state, and
            uniform.
        soft_q_backup: Add the next state's entropy to the critics' targets, as Soft Actor-Critic does; the policy is
            rewarded for its entropy either way.

    Raises:
        ValueError: On values outside those named here, with the value got.
        TypeError: If the parts do not fit together, or on an unknown keyword.
    """

    def _gap(self, values: Tensor, log_density: Tensor, data_value: Tensor, batch: Batch) -> Tensor:
        """`model_based_gap`; the gap of `CQL` for batches without marks."""
        if batch.extra is None or IMAGINED not in batch.extra:
            return super()._gap(values, log_density, data_value, batch)
        return model_based_gap(values, log_density, data_value, batch.extra[IMAGINED])
