import torch

from pfrl_like.functions.losses import td_target


def test_td_target_adds_the_discounted_value() -> None:
    reward = torch.tensor([1.0, 2.0, -1.0])
    discount = torch.tensor([0.5, 0.0, 0.25])  # one step, terminal, two steps of gamma 0.5
    next_value = torch.tensor([4.0, 100.0, 8.0])
    # 1 + 0.5 * 4 = 3,   2 + 0 * 100 = 2,   -1 + 0.25 * 8 = 1
    assert td_target(reward, discount, next_value).tolist() == [3.0, 2.0, 1.0]
