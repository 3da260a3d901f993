import torch
from torch import nn

from pfrl_like.policies import DeterministicHead
from pfrl_like.policy import Policy


def test_head_gives_one_action_a_row() -> None:
    distribution = DeterministicHead()(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert (distribution.batch_shape, distribution.event_shape) == ((2,), (2,))
    assert distribution.sample().tolist() == distribution.mode.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_the_gradient_goes_through_the_action() -> None:
    policy = nn.Sequential(nn.Linear(2, 2), DeterministicHead())
    policy(torch.ones(1, 2)).rsample().sum().backward()
    assert policy[0].weight.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_a_policy_of_ones_own_is_a_callable() -> None:
    class Still(Policy):
        def __call__(self, x: torch.Tensor) -> object:
            return DeterministicHead()(torch.zeros(len(x), 1))

    assert Still()(torch.ones(3, 2)).sample().tolist() == [[0.0]] * 3
