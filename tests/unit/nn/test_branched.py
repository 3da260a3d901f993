import torch
from torch import nn

from pfrl_like.nn import Branched, Lambda


def test_every_branch_gets_the_same_arguments() -> None:
    branched = Branched(nn.Identity(), Lambda(lambda x: 2 * x))
    one, two = branched(torch.tensor([3.0]))
    assert (one.item(), two.item()) == (3.0, 6.0)


def test_parameters_have_the_names_they_have_in_pfrl() -> None:
    names = list(Branched(nn.Linear(2, 2), nn.Linear(2, 2)).state_dict())
    assert names == [f"child_modules.{i}.{name}" for i in range(2) for name in ("weight", "bias")]
