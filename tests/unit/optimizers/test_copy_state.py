"""States that one optimiser takes over from another."""

from typing import Any

import pytest
import torch
from torch import nn

from pfrl_like.optimizers.copy_state import copy_optimizer_states


def stepped(*shapes: tuple[int, ...], kind: Any = torch.optim.Adam, groups: bool = False) -> torch.optim.Optimizer:
    """An optimiser of tensors of such shapes, after one step."""
    params = [nn.Parameter(torch.randn(shape)) for shape in shapes]
    optimizer: torch.optim.Optimizer = kind([{"params": [each]} for each in params] if groups else params, lr=0.5)
    for each in params:
        each.grad = torch.randn_like(each)
    optimizer.step()
    return optimizer


def test_the_states_are_taken_with_their_settings() -> None:
    target, source = stepped((2, 3), (4,)), stepped((2, 3), (4,))
    source.param_groups[0]["lr"] = 0.25
    copy_optimizer_states([target], [source])
    torch.testing.assert_close(target.state_dict(), source.state_dict())
    shared = [{id(state["exp_avg"]) for state in each.state.values()} for each in (target, source)]
    assert not shared[0] & shared[1]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([stepped((3, 2), (4,))], r"algo has .* tensor 0 has shape \(3, 2\), expected \(2, 3\)"),
        ([stepped((2, 3), (4, 1))], r"tensor 1 has shape \(4, 1\), expected \(4,\)"),
        ([stepped((2, 3))], r"of \[1\] tensors, group by group, expected one of \[2\]"),
        ([stepped((2, 3), (4,), groups=True)], r"of \[1, 1\] tensors"),
        ([stepped((2, 3), (4,), kind=torch.optim.RMSprop)], "algo has the optimiser RMSprop, expected Adam"),
        ([], "algo has 0 optimisers, expected 1"),
    ],
    ids=["first shape", "second shape", "fewer", "groups", "class", "none"],
)
def test_states_of_other_tensors_are_refused_and_change_nothing(source: Any, message: str) -> None:
    target = stepped((2, 3), (4,))
    before = [*target.state.values()][0]["exp_avg"].clone()
    with pytest.raises(ValueError, match=message):
        copy_optimizer_states([target], source, "algo")
    torch.testing.assert_close([*target.state.values()][0]["exp_avg"], before)


def test_one_that_is_refused_keeps_the_others_as_they_are() -> None:
    targets, sources = [stepped((2,)), stepped((3,))], [stepped((2,)), stepped((4,))]
    before = [*targets[0].state.values()][0]["exp_avg"].clone()
    with pytest.raises(ValueError, match="expected"):
        copy_optimizer_states(targets, sources)
    torch.testing.assert_close([*targets[0].state.values()][0]["exp_avg"], before)
