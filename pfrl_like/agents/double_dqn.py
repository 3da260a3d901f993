"""Double DQN (van Hasselt et al. 2015, arXiv:1509.06461)."""

from typing import Any

from torch import Tensor

from pfrl_like.agents.dqn import DQN, action_values
from pfrl_like.batch import Batch
from pfrl_like.utils.contexts import evaluating_readers


def greedy_of_online(q_function: Any, batch: Batch) -> Tensor:
    """argmax_a Q(s', a) of the online network in evaluation mode, [N] (arXiv:1509.06461, eq. 4)."""
    with evaluating_readers(q_function):
        greedy: Tensor = action_values(q_function, batch, next=True).greedy_actions
    return greedy


class DoubleDQN(DQN):
    """DQN in which the online network chooses the next action and the target network evaluates it.

    Args:
        q_function: Module from observations to an `ActionValue`.
        optimizer: Optimiser of the Q-function's parameters.
        replay_buffer: Where transitions are stored and sampled from; an episodic one for `recurrent`.
        gamma: Discount factor per step.
        explorer: Chooses the action in training.
        gpu: CUDA device index; None or negative means the CPU.
        replay_start_size: No update while the buffer holds fewer items.
        minibatch_size: Transitions (recurrent: sequences) per update.
        update_interval: Steps between updates.
        target_update_interval: Steps between updates of the target network; a multiple of `update_interval`.
        clip_delta: Huber loss if True, half the squared error otherwise; without effect on distributional losses.
        phi: Feature extractor applied to each observation on its way to the network; raw observations are stored.
        target_update_method: "hard" copies the parameters, "soft" moves the target's towards them.
        soft_update_tau: How far a soft update moves, in (0, 1].
        n_times_update: Updates at each updating step.
        batch_accumulator: "mean" or "sum" of the losses over the minibatch.
        episodic_update_len: Longest sequence for recurrent updates, in steps; None for whole episodes.
        logger: Logger of refused updates.
        batch_states: Makes a batch of a list of observations, called as (states, device, phi).
        recurrent: The Q-function has the interface of `pfrl_like.nn.Recurrent`, and is trained on sequences.
        max_grad_norm: Largest L2 norm of the gradient; None for no clipping.
        device: Device as text or `torch.device`, instead of `gpu`.
        num_steps: Steps of the returns in recurrent updates, within each sequence; the action value has to be indexable
            then. Otherwise it is the replay buffer that has such an argument.
        burn_in: First steps of each sequence that only bring the recurrent state up to date and are not learnt from.
        compile: Compile the whole update (Adam, AdamW, RMSprop or SGD; not recurrent) and the choice of greedy actions.
            The second update compiles, and the second choice for each number of observations, in about half a minute
            each, and says so in the log (level INFO).
    """

    next_action = staticmethod(greedy_of_online)
