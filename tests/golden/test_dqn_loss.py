"""The losses of DQN and Double DQN, with the arithmetic beside the numbers.

Observations are numbers, and Q(s, a) is a table: s * 1 for action 0 and s * 2 for action 1 in the online network; in
the target network the values that a test gives to the next states.
"""

from typing import Any

import pytest
import torch
from hand_parts import Table

from pfrl_like.agents.double_dqn import greedy_of_online
from pfrl_like.agents.dqn import dqn_loss
from pfrl_like.batch import Batch
from pfrl_like.functions.losses import half_square
from pfrl_like.replay_buffers import PrioritizedReplayBuffer, ReplayBuffer
from pfrl_like.utils.batch_states import batch_of_experiences

ONLINE, TARGET = [1.0, 2.0], [4.0, 3.0]
# Three rows: a step with gamma 0.5; two steps with gamma 0.5 (discount 0.25); a terminal step.
BATCH = Batch(
    obs=torch.tensor([1.0, 2.0, 3.0]),
    action=torch.tensor([0, 1, 1]),
    reward=torch.tensor([1.0, 3.0, 5.0]),
    next_obs=torch.tensor([2.0, 2.0, 50.0]),
    discount=torch.tensor([0.5, 0.25, 0.0]),
)


def losses(batch: Batch = BATCH, **options: Any) -> tuple[float, list[float], list[float], list[float]]:
    """Loss, TD errors, values and the gradient at the online weights."""
    online = Table(ONLINE)
    loss, td_error, value = dqn_loss(online, Table(TARGET), batch, **options)
    loss.backward()  # type: ignore[no-untyped-call]
    assert online.weight.grad is not None
    return loss.item(), td_error.tolist(), value.tolist(), online.weight.grad.tolist()


def test_dqn_bootstraps_from_the_largest_value_of_the_target_network() -> None:
    loss, td_error, value, grad = losses()
    assert value == [1.0, 4.0, 6.0]  # 1 * 1,   2 * 2,   3 * 2
    # targets 1 + 0.5 * max(8, 6) = 5,   3 + 0.25 * max(8, 6) = 5,   5
    assert td_error == [4.0, 1.0, -1.0]
    # huber: 4 - 0.5,   1 / 2,   1 / 2
    assert loss == pytest.approx((3.5 + 0.5 + 0.5) / 3)
    # d loss / d weight[a] = -clip(error, -1, 1) * s / 3 over rows with action a: (-1 * 1) / 3 and (-1 * 2 + 1 * 3) / 3
    assert grad == pytest.approx([-1 / 3, 1 / 3])


def test_double_dqn_takes_the_action_of_the_online_network() -> None:
    # The online network prefers action 1 (2 * 2 against 2 * 1), which the target network values at 2 * 3 = 6:
    # targets 1 + 0.5 * 6 = 4,   3 + 0.25 * 6 = 4.5,   5
    assert losses(next_action=greedy_of_online)[1] == [3.0, 0.5, -1.0]


def test_half_square_does_not_clip() -> None:
    loss, _, _, grad = losses(elementwise=half_square)
    assert loss == pytest.approx((8.0 + 0.5 + 0.5) / 3)  # 4**2 / 2,   1 / 2,   1 / 2
    assert grad == pytest.approx([-4 / 3, (-1 * 2 + 1 * 3) / 3])


def test_sum_does_not_divide_by_the_rows() -> None:
    assert losses(accumulator="sum")[0] == pytest.approx(4.5)


def test_weights_multiply_the_losses_before_the_mean() -> None:
    loss, td_error, _, grad = losses(BATCH.replace(weight=torch.tensor([1.0, 0.5, 0.25])))
    assert loss == pytest.approx((3.5 + 0.25 + 0.125) / 3)  # the mean is over rows, not over weights
    assert grad == pytest.approx([-1 / 3, (-0.5 * 2 + 0.25 * 3) / 3])
    assert td_error == [4.0, 1.0, -1.0]


def test_a_forbidden_next_action_is_not_bootstrapped_from() -> None:
    masks = torch.tensor([[False, True], [True, True], [False, False]])
    # row 0: only action 1, 2 * 3: target 1 + 0.5 * 6 = 4; row 2 is terminal and allows nothing
    assert losses(BATCH.replace(next_action_mask=masks))[1] == [3.0, 1.0, -1.0]


def fill(buffer: Any) -> Any:
    """An episode of four steps with the rewards 1, 2, 4, 8 from state 1 on that is cut off, and a terminated one."""
    for first, terminal in ((1, False), (11, True)):
        for i in range(4):
            state, next_state = (torch.tensor(float(first + i + j)).numpy() for j in (0, 1))
            last = i == 3
            buffer.append(state, 1, float(2**i), next_state, is_state_terminal=terminal and last)
        buffer.stop_current_episode()
    return buffer


@pytest.mark.parametrize("form", ["Batch", "PFRL's lists"])
def test_n_steps_discount_by_their_number(form: str) -> None:
    buffer = fill(ReplayBuffer(100, num_steps=3))
    batch = buffer.sample_batch(8, gamma=0.5) if form == "Batch" else batch_of_experiences(buffer.sample(8), 0.5)
    order = batch.obs.argsort()
    # With gamma 0.5, first the episode that was cut off after state 5 (V'(s) = 4 s):
    # state 1: 1 + 0.5 * 2 + 0.25 * 4 = 3,    discount 0.125, state 4: target 3 + 0.125 * 16 = 5,      value 2
    # state 2: 2 + 0.5 * 4 + 0.25 * 8 = 6,    discount 0.125, state 5: target 6 + 0.125 * 20 = 8.5,    value 4
    # state 3: 4 + 0.5 * 8 = 8,               discount 0.25,  state 5: target 8 + 0.25 * 20 = 13,      value 6
    # state 4: 8,                             discount 0.5,   state 5: target 8 + 0.5 * 20 = 18,       value 8
    # then the one that terminated after state 14:
    # state 11: 3,  discount 0.125, state 14: target 3 + 0.125 * 56 = 10,  value 22;   then 6 - 24, 8 - 26, 8 - 28
    assert batch.reward[order].tolist() == [3.0, 6.0, 8.0, 8.0] * 2
    assert batch.discount[order].tolist() == [0.125, 0.125, 0.25, 0.5, 0.125, 0.0, 0.0, 0.0]
    td_error = losses(batch)[1]
    assert [td_error[i] for i in order] == [3.0, 4.5, 7.0, 10.0, -12.0, -18.0, -18.0, -20.0]


def test_prioritised_replay_weighs_by_the_inverse_probability() -> None:
    buffer = PrioritizedReplayBuffer(100, alpha=1.0, beta0=0.5, betasteps=None, eps=0.0, error_max=None)
    for i in range(2):
        buffer.append(torch.tensor(float(i)).numpy(), 0, 0.0, torch.tensor(0.0).numpy(), is_state_terminal=True)
    batch = buffer.sample_batch(2)
    buffer.update_priorities(batch.index, torch.where(batch.obs == 0, 1.0, 4.0))
    batch = buffer.sample_batch(2)
    # probabilities 1 / 5 and 4 / 5; (N P)**-0.5 = (2 / 5)**-0.5 and (8 / 5)**-0.5; divided by the largest: 1 and 0.5
    assert batch.weight is not None
    assert batch.weight[batch.obs.argsort()].tolist() == pytest.approx([1.0, 0.5])
