"""Returns and advantages of rollouts, worked out by hand, and against loops that follow the equations."""

import math

import pytest
import torch
from torch import Tensor

from pfrl_like.functions import gae, lambda_returns, retrace, vtrace

# One column, gamma = 0.5: an episode of two steps that terminates, one of one step that is cut off, and the first two
# steps of a third, which has not ended when the rollout has.
REWARD = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]).unsqueeze(1)
DISCOUNT = torch.tensor([0.5, 0.0, 0.5, 0.5, 0.5]).unsqueeze(1)
VALUE = torch.tensor([10.0, 20.0, 30.0, 40.0, 50.0]).unsqueeze(1)
NEXT_VALUE = torch.tensor([20.0, 99.0, 8.0, 50.0, 60.0]).unsqueeze(1)  # 99: of a terminal state, counts for nothing
CONTINUES = torch.tensor([True, False, False, True, False]).unsqueeze(1)


def test_generalised_advantages() -> None:
    # delta: 1 + 20/2 - 10 = 1; 2 - 20 = -18; 3 + 8/2 - 30 = -23; 4 + 50/2 - 40 = -11; 5 + 60/2 - 50 = -15
    # A: 1 + 0.25 * -18 = -3.5; -18; -23; -11 + 0.25 * -15 = -14.75; -15
    advantage = gae(REWARD, DISCOUNT, VALUE, NEXT_VALUE, CONTINUES, 0.5)
    assert advantage.squeeze(1).tolist() == [-3.5, -18, -23, -14.75, -15]


def test_lambda_returns() -> None:
    # last steps: 2; 3 + 8/2 = 7; 5 + 60/2 = 35. First: 1 + (20/2 + 2/2)/2 = 6.5. Fourth: 4 + (50/2 + 35/2)/2 = 25.25
    returns = lambda_returns(REWARD, DISCOUNT, NEXT_VALUE, CONTINUES, 0.5)
    assert returns.squeeze(1).tolist() == [6.5, 2, 7, 25.25, 35]


def test_lambda_returns_less_the_value_are_the_advantages() -> None:
    returns = lambda_returns(REWARD, DISCOUNT, NEXT_VALUE, CONTINUES, 0.25)
    torch.testing.assert_close(returns - VALUE, gae(REWARD, DISCOUNT, VALUE, NEXT_VALUE, CONTINUES, 0.25))


@pytest.mark.parametrize(("lambd", "returns"), [(0.0, [11, 2, 7, 29, 35]), (1.0, [2, 2, 7, 21.5, 35])])
def test_the_ends_of_lambda_are_one_step_and_all_steps(lambd: float, returns: list[float]) -> None:
    # 0: 1 + 20/2, 2, 3 + 8/2, 4 + 50/2, 5 + 60/2. 1: 1 + 2/2, 2, 7, 4 + 35/2, 35
    assert lambda_returns(REWARD, DISCOUNT, NEXT_VALUE, CONTINUES, lambd).squeeze(1).tolist() == returns


def test_vtrace() -> None:
    # rho and c: 0.5, 1 (of 2), 1, 0.25, 1. rho * delta with the deltas above: 0.5, -18, -23, -2.75, -15
    # v - V: 0.5 + 0.5 * 0.5 * -18 = -4; -18; -23; -2.75 + 0.5 * 0.25 * -15 = -4.625; -15
    # v: 6, 2, 7, 35.375, 35. advantage: 0.5 * (1 + 2/2 - 10) = -4; -18; -23; 0.25 * (4 + 35/2 - 40) = -4.625; -15
    ratio = torch.tensor([0.5, 2.0, 1.0, 0.25, 1.0]).unsqueeze(1)
    target, advantage = vtrace(REWARD, DISCOUNT, VALUE, NEXT_VALUE, ratio, CONTINUES)
    assert target.squeeze(1).tolist() == [6, 2, 7, 35.375, 35]
    assert advantage.squeeze(1).tolist() == [-4, -18, -23, -4.625, -15]


def test_vtrace_clips_errors_and_traces_by_themselves() -> None:
    # rho: 0.5, 2 (bound 3), ...; c: 0.5 * min(0.4, ratio). v - V: 0.5 + 0.5 * 0.2 * -36 = -3.1; 2 * -18 = -36
    ratio = torch.tensor([0.5, 2.0, 1.0, 0.25, 1.0]).unsqueeze(1)
    target, _ = vtrace(REWARD, DISCOUNT, VALUE, NEXT_VALUE, ratio, CONTINUES, lambd=0.5, rho_bar=3.0, c_bar=0.4)
    torch.testing.assert_close(target[:2, 0], torch.tensor([6.9, -16.0]))


def test_vtrace_on_policy_is_the_lambda_return() -> None:
    target, advantage = vtrace(REWARD, DISCOUNT, VALUE, NEXT_VALUE, torch.ones(5, 1), CONTINUES)
    torch.testing.assert_close(target, lambda_returns(REWARD, DISCOUNT, NEXT_VALUE, CONTINUES, 1.0))
    torch.testing.assert_close(advantage, target - VALUE)


def test_retrace() -> None:
    # Q: 1 + (20 + 1 * (2 - 20))/2 = 2; 2; 3 + 8/2 = 7; 4 + (50 + 0.5 * (35 - 50))/2 = 25.25; 5 + 60/2 = 35
    ratio = torch.tensor([0.1, 2.0, 0.2, 0.3, 0.5]).unsqueeze(1)
    assert retrace(REWARD, DISCOUNT, VALUE, NEXT_VALUE, ratio, CONTINUES).squeeze(1).tolist() == [2, 2, 7, 25.25, 35]


def test_retrace_without_ratios_corrects_fully() -> None:
    # Q_opc: 1 + (20 + 2 - 20)/2 = 2; 2; 7; 4 + (50 + 35 - 50)/2 = 21.5; 35
    assert retrace(REWARD, DISCOUNT, VALUE, NEXT_VALUE, None, CONTINUES).squeeze(1).tolist() == [2, 2, 7, 21.5, 35]


def test_retrace_with_another_bound_and_a_lambda() -> None:
    # 1 + (20 + 0.5 * 2 * (2 - 20))/2 = 2
    ratio = torch.tensor([0.1, 2.0, 0.2, 0.3, 0.5]).unsqueeze(1)
    returns = retrace(REWARD, DISCOUNT, VALUE, NEXT_VALUE, ratio, CONTINUES, lambd=0.5, rho_bar=math.inf)
    assert returns[0].item() == 2


def test_one_column_will_do() -> None:
    column = (REWARD[:, 0], DISCOUNT[:, 0], VALUE[:, 0], NEXT_VALUE[:, 0])
    assert gae(*column, CONTINUES[:, 0], 0.5).tolist() == [-3.5, -18, -23, -14.75, -15]
    assert retrace(*column, None, CONTINUES[:, 0]).tolist() == [2, 2, 7, 21.5, 35]


def test_gradients_flow_into_every_number() -> None:
    numbers = [x.clone().double().requires_grad_() for x in (REWARD, DISCOUNT, VALUE, NEXT_VALUE)]
    assert torch.autograd.gradcheck(lambda *x: gae(*x, CONTINUES, 0.5), numbers)


def test_the_last_row_never_goes_on() -> None:
    on = torch.ones(5, 1, dtype=torch.bool)
    off = torch.tensor([True, True, True, True, False]).unsqueeze(1)
    one = torch.ones(5, 1)
    for continues in (on, off):
        assert lambda_returns(REWARD, DISCOUNT, NEXT_VALUE, continues, 0.5)[-1] == 35
        assert gae(REWARD, DISCOUNT, VALUE, NEXT_VALUE, continues, 0.5)[-1] == -15
        assert vtrace(REWARD, DISCOUNT, VALUE, NEXT_VALUE, one, continues)[0][-1] == 35
        assert retrace(REWARD, DISCOUNT, VALUE, NEXT_VALUE, one, continues)[-1] == 35


def test_shapes_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match=r"next_value has shape \(4, 1\), expected \(5, 1\)"):
        gae(REWARD, DISCOUNT, VALUE, NEXT_VALUE[1:], CONTINUES, 0.5)
    with pytest.raises(ValueError, match="ratio has shape"):
        retrace(REWARD, DISCOUNT, VALUE, NEXT_VALUE, torch.ones(5), CONTINUES)


def loop(column: dict[str, Tensor], lambd: float) -> dict[str, list[float]]:
    """The equations of one column, from its last row up."""
    c = {name: x.tolist() for name, x in column.items()}
    found: dict[str, list[float]] = {"gae": [], "lambda": [], "vtrace": [], "advantage": [], "retrace": []}
    for t in reversed(range(len(c["reward"]))):
        reward, discount, value, next_value = (c[name][t] for name in ("reward", "discount", "value", "next_value"))
        rho, delta = min(1.0, c["ratio"][t]), reward + discount * next_value - value
        if t + 1 < len(c["reward"]) and c["continues"][t]:
            after = {name: numbers[0] for name, numbers in found.items()}
            next_rho = min(1.0, c["ratio"][t + 1])
            mixed = (1 - lambd) * next_value + lambd * after["lambda"]
            new = {
                "gae": delta + discount * lambd * after["gae"],
                "lambda": reward + discount * mixed,
                "vtrace": value + rho * delta + discount * lambd * rho * (after["vtrace"] - c["value"][t + 1]),
                "advantage": rho * (reward + discount * after["vtrace"] - value),
                "retrace": reward + discount * (next_value + lambd * next_rho * (after["retrace"] - c["value"][t + 1])),
            }
        else:
            one_step = reward + discount * next_value
            new = {"gae": delta, "lambda": one_step, "vtrace": value + rho * delta, "advantage": rho * delta}
            new["retrace"] = one_step
        found = {name: [new[name], *numbers] for name, numbers in found.items()}
    return found


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 64, 100])
@pytest.mark.parametrize("lambd", [0.0, 0.95, 1.0])
def test_all_agree_with_the_loop_over_rows(steps: int, lambd: float) -> None:
    g = torch.Generator().manual_seed(steps)
    numbers = torch.randn(3, steps, 4, generator=g, dtype=torch.float64)
    terminated, truncated = torch.rand(2, steps, 4, generator=g) < 0.2  # either, both, none
    data = dict(zip(("reward", "value", "next_value"), numbers, strict=True))
    data["discount"] = torch.where(terminated, 0.0, 0.99).double()
    data["continues"] = ~(terminated | truncated)
    data["ratio"] = torch.rand(steps, 4, generator=g, dtype=torch.float64) * 2
    common = (data["reward"], data["discount"])
    values = (data["value"], data["next_value"])
    target, advantage = vtrace(*common, *values, data["ratio"], data["continues"], lambd=lambd)
    found = {
        "gae": gae(*common, *values, data["continues"], lambd),
        "lambda": lambda_returns(*common, data["next_value"], data["continues"], lambd),
        "vtrace": target,
        "advantage": advantage,
        "retrace": retrace(*common, *values, data["ratio"], data["continues"], lambd=lambd),
    }
    for i in range(4):
        expected = loop({name: x[:, i] for name, x in data.items()}, lambd)
        for name, x in found.items():
            torch.testing.assert_close(x[:, i], torch.tensor(expected[name], dtype=torch.float64), rtol=0, atol=1e-9)
