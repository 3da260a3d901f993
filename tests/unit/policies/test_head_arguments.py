"""Every argument of every head changes the distribution that it gives."""

import inspect
from typing import Any

import numpy as np
import pytest
import torch
from argument_effects import differ

from pfrl_like import policies
from pfrl_like.policies import (
    GaussianHeadWithDiagonalCovariance,
    GaussianHeadWithFixedCovariance,
    GaussianHeadWithStateIndependentCovariance,
    MultiCategoricalHead,
    SquashedGaussianHead,
)

#: The usual arguments of each head, and another value of each argument.
HEADS: dict[Any, tuple[dict[str, Any], dict[str, Any]]] = {
    GaussianHeadWithStateIndependentCovariance: (
        {"action_size": 4, "var_type": "diagonal", "var_param_init": [0.0, 1.0, 2.0, 3.0]},
        {"action_size": 1, "var_type": "spherical", "var_func": torch.exp, "var_param_init": [3.0, 2.0, 1.0, 0.0]},
    ),
    GaussianHeadWithDiagonalCovariance: ({}, {"var_func": torch.square}),
    GaussianHeadWithFixedCovariance: ({}, {"scale": 0.5}),
    SquashedGaussianHead: ({}, {"min_log_scale": -1.0, "max_log_scale": 0.5}),
    MultiCategoricalHead: ({"nvec": [2, 2]}, {"nvec": [1, 3]}),
}
LOGITS = torch.tensor([[0.1, -0.2, -3.0, 1.5]])


def given(head: Any, arguments: dict[str, Any]) -> Any:
    """The entropy and a sample of what a head gives, or why it cannot be made."""
    torch.manual_seed(0)
    try:
        distribution = head(**arguments)(LOGITS)
    except ValueError as refusal:
        return str(refusal)
    return distribution.entropy(), np.asarray(distribution.sample())


def test_every_argument_of_every_public_head_is_looked_at() -> None:
    public = [each for each in vars(policies).values() if inspect.isclass(each) and "__init__" in vars(each)]
    assert {head: [*inspect.signature(head).parameters] for head in public} == {
        head: [*others] for head, (_, others) in HEADS.items()
    }


@pytest.mark.parametrize(
    ("head", "name"), [(head, name) for head, (_, others) in HEADS.items() for name in others], ids=str
)
def test_argument_has_its_effect(head: Any, name: str) -> None:
    usual, others = HEADS[head]
    assert not differ(given(head, usual), given(head, usual))
    assert differ(given(head, usual), given(head, {**usual, name: others[name]}))
