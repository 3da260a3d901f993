"""What losses ask of distributions can be compiled without a break."""

from typing import Any

import pytest
import torch
from torch import nn

from pfrl_like import policies
from pfrl_like.distributions import log_prob_and_entropy, masked, mode_of, rsample_with_log_prob

pytestmark = pytest.mark.slow
X = torch.linspace(-2, 2, 24).reshape(4, 6)
MASK = torch.tensor([True, False, True, True, False, True])


def continuous(head: nn.Module, x: torch.Tensor) -> Any:
    distribution = head(x)
    sample = distribution.rsample()
    both = rsample_with_log_prob(distribution), log_prob_and_entropy(distribution, X[:, :3].tanh())
    return distribution.log_prob(sample), both, mode_of(distribution)


def discrete(head: nn.Module, x: torch.Tensor) -> Any:
    distribution = masked(head(x), MASK)
    return log_prob_and_entropy(distribution, torch.zeros_like(mode_of(distribution))), distribution.sample()


@pytest.mark.parametrize(
    ("function", "head"),
    [
        (continuous, policies.GaussianHeadWithDiagonalCovariance()),
        (continuous, policies.SquashedGaussianHead()),
        (discrete, policies.SoftmaxCategoricalHead()),
        (discrete, policies.MultiCategoricalHead([2, 4])),
    ],
)
def test_a_head_and_what_is_asked_of_it_are_one_graph(function: Any, head: nn.Module) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    results = []
    for each in (compiled, function):
        torch.manual_seed(0)
        results.append(each(head, X))
    torch.testing.assert_close(*results)
