"""COMBO: where its critics are held down and where up, with numbers worked out by hand."""

import math
from typing import Any

import pytest
import torch
from actor_critic_parts import make_batch
from registry import made as make

from pfrl_like.agents import COMBO, CQL
from pfrl_like.agents.offline.combo import model_based_gap
from pfrl_like.batch import Batch

VALUES = torch.tensor([[3.0, 1.0, 2.0, 5.0], [1.0, 4.0, 2.0, 1.0]]).log()
DENSITY = torch.tensor([[0.5, 2.0, 1.0, 1.0], [0.25, 8.0, 1.0, 0.5]]).log()
DATA = torch.tensor([2.0, -1.0, 4.0, 7.0])
#: log(3 / 0.5 + 1 / 0.25), log(1 / 2 + 4 / 8), log(2 + 2), log(5 + 1 / 0.5)
DRAWN = [math.log(10), 0.0, math.log(4), math.log(7)]


def test_values_of_drawn_actions_count_in_imagined_states_and_those_of_the_data_in_recorded_ones() -> None:
    gap = model_based_gap(VALUES, DENSITY, DATA, torch.tensor([False, True, True, False]))
    torch.testing.assert_close(gap, torch.tensor([-2 * 2.0, 2 * DRAWN[1], 2 * DRAWN[2], -2 * 7.0]))
    assert gap.mean().item() == pytest.approx((DRAWN[1] + DRAWN[2]) / 2 - (2 + 7) / 2)
    one = model_based_gap(VALUES, DENSITY, DATA, torch.tensor([False, False, False, True]))
    assert one.mean().item() == pytest.approx(DRAWN[3] - (2 - 1 + 4) / 3)


@pytest.mark.parametrize("imagined", [False, True])
def test_rows_of_one_kind_stand_for_both(imagined: bool) -> None:
    gap = model_based_gap(VALUES, DENSITY, DATA, torch.full((4,), imagined))
    torch.testing.assert_close(gap, torch.tensor(DRAWN) - DATA)


def batch(marks: list[bool] | None) -> Batch:
    made = make_batch(n=4)
    return made if marks is None else made.replace(extra={"imagined": torch.tensor(marks)})


def learnt(agent: Any, given: Batch) -> torch.Tensor:
    torch.manual_seed(1)
    agent.update(given)
    return torch.nn.utils.parameters_to_vector([*agent.q_func1.parameters(), *agent.policy.parameters()]).detach()


def test_without_marks_it_learns_as_cql() -> None:
    expected = learnt(make(CQL), batch(None))
    assert torch.equal(learnt(make(COMBO), batch(None)), expected)
    assert not torch.allclose(learnt(make(COMBO), batch([False, False, True, True])), expected)


def test_all_rows_count_in_the_critics_errors_and_only_some_in_the_conservative_term() -> None:
    given = batch([False, False, True, True])
    agent, free = (make(COMBO, alpha_threshold=None, initial_alpha=alpha) for alpha in (2.0, 0.0))
    torch.manual_seed(1)
    gaps: list[torch.Tensor] = []
    loss, *_ = [*agent._conservative_losses(given, gaps)][0]
    torch.manual_seed(1)
    plain, *_ = [*free._conservative_losses(given, [])][0]
    weight = given.required("weight")[0]
    torch.testing.assert_close(loss, plain + 2 * (gaps[0] * weight).mean())
    value = agent.q_func1((given.obs, given.action)).squeeze(1)
    torch.testing.assert_close(gaps[0][:2], -2 * value[:2])  # two of four rows are recorded


@pytest.mark.slow
def test_a_compiled_update_is_the_same() -> None:
    given = batch([False, True, True, False])
    plain, compiled = (learnt(make(COMBO, compile=compile), given) for compile in (False, True))
    torch.testing.assert_close(plain, compiled, atol=1e-5, rtol=1e-5)
