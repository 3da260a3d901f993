from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.explorer import Explorer, select_actions
from pfrl_like.explorers import ConstantEpsilonGreedy, LinearDecayEpsilonGreedy


class OneUp(Explorer):
    """The action after the greedy one; notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def select_action(self, t: int, greedy_action_func: Callable[[], Any], action_value: Any = None) -> Any:
        self.asked.append((t, None if action_value is None else action_value.q_values.tolist()))
        return greedy_action_func() + 1


VALUE = DiscreteActionValue(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))


def five(self: Any, t: int, greedy_action_func: Callable[[], Any], action_value: Any = None) -> Any:
    return 5


def test_select_action_alone_serves_a_batch() -> None:
    assert select_actions(OneUp(), 0, np.array([1, 5, 7])).tolist() == [2, 6, 8]
    no_base: Any = type("NoBase", (), {"select_action": five})()
    assert select_actions(no_base, 0, np.array([1, 5, 7])).tolist() == [5, 5, 5]


def test_a_forbidden_action_of_select_action_is_refused() -> None:
    value = VALUE.masked(torch.tensor([[True, False], [False, True], [False, False]]))
    assert select_actions(OneUp(), 0, np.array([-1, 0, 0]), value).tolist() == [0, 1, 1]  # nothing allowed: all is
    with pytest.raises(ValueError, match=r"OneUp.select_action returned 1, expected .*allows, one of \[0\]"):
        select_actions(OneUp(), 0, np.array([0, 0, 0]), value)


def test_own_select_action_counts_in_a_batch_though_a_base_has_a_batched_one() -> None:
    own = type("Own", (ConstantEpsilonGreedy,), {"select_action": five})
    mixed = type("Mixed", (type("Mixin", (), {"select_action": five}), ConstantEpsilonGreedy), {})
    for kind in (own, mixed, type("Child", (mixed,), {})):
        assert select_actions(kind(0.0, lambda: 0), 0, np.zeros(3)).tolist() == [5, 5, 5]


def test_select_actions_of_a_mix_in_counts_though_a_base_has_a_single_one() -> None:
    mixin = type("Mixin", (), {"select_actions": lambda self, t, greedy, value=None, active=None: greedy + 1})
    own = type("Own", (mixin, OneUp), {})
    assert select_actions(own(), 0, np.zeros(3)).tolist() == [1, 1, 1] and not own().asked


def test_select_action_that_is_assigned_counts_in_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    explorer = ConstantEpsilonGreedy(0.0, lambda: 0)
    explorer.select_action = lambda *args, **kwargs: 5  # type: ignore[method-assign]
    assert select_actions(explorer, 0, np.zeros(3)).tolist() == [5, 5, 5]
    child = type("Child", (ConstantEpsilonGreedy,), {})(0.0, lambda: 0)
    with monkeypatch.context() as patched:
        patched.setattr(ConstantEpsilonGreedy, "select_action", five)
        assert select_actions(child, 0, np.zeros(3)).tolist() == [5, 5, 5]
    assert select_actions(child, 0, np.zeros(3)).tolist() == [0, 0, 0]


def test_an_overridden_compute_epsilon_counts_in_a_batch() -> None:
    own = type("Own", (LinearDecayEpsilonGreedy,), {"compute_epsilon": lambda self, t: float(t)})
    explorer = own(1.0, 0.5, 10, lambda: 7)
    assert [select_actions(explorer, t, np.zeros(2)).tolist() for t in (0, 1)] == [[0, 0], [7, 7]]


def test_each_environment_is_asked_with_its_own_value() -> None:
    explorer = OneUp()
    select_actions(explorer, 7, np.zeros(3), VALUE)
    assert explorer.asked == [(7, [[1.0, 2.0]]), (7, [[3.0, 4.0]]), (7, [[5.0, 6.0]])]


def test_inactive_environment_is_not_asked_and_gets_the_greedy_action() -> None:
    explorer = OneUp()
    actions = select_actions(explorer, 0, np.array([1, 5, 7]), VALUE, np.array([True, False, True]))
    assert actions.tolist() == [2, 5, 8]
    assert len(explorer.asked) == 2


def test_continuous_actions_keep_their_shape() -> None:
    assert select_actions(OneUp(), 0, np.zeros((3, 2))).tolist() == [[1.0, 1.0]] * 3


def test_explorer_without_state_has_an_empty_one() -> None:
    OneUp().load_state_dict(OneUp().state_dict())
    with pytest.raises(ValueError, match=r"state has \['x'\], expected an empty state for OneUp"):
        OneUp().load_state_dict({"x": 1})
