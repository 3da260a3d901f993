import copy
from typing import Any

import pytest
import torch
from agent_parts import make_agent, make_batch

from pfrl_like.optimizers import GradientStep, RMSpropEpsInsideSqrt


def parameter(*numbers: float) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor(numbers))


def steps(gradients: list[float], **options: Any) -> float:
    """Where a parameter that begins at 0 is after steps with these gradients."""
    param = parameter(0.0)
    optimizer = RMSpropEpsInsideSqrt([param], lr=1.0, **options)
    for gradient in gradients:
        param.grad = torch.tensor([gradient])
        optimizer.step()
    return param.item()


def test_epsilon_is_inside_the_root() -> None:
    # variance 0.25 * 4^2 = 4, root sqrt(4 + 5) = 3
    assert steps([4.0], alpha=0.75, eps=5.0) == pytest.approx(-4 / 3)


def test_the_centred_variance_is_taken() -> None:
    # mean square 0.5 * 4 = 2, mean 0.5 * 2 = 1, variance 2 - 1^2 = 1, root sqrt(1 + 3) = 2
    assert steps([2.0], alpha=0.5, eps=3.0, centered=True) == pytest.approx(-2 / 2)


def test_momentum_adds_up_the_steps() -> None:
    # alpha = 0: variance g^2, root sqrt(g^2 + 0); steps 1 and 0.5 * 1 + 1
    assert steps([2.0, 2.0], alpha=0.0, eps=0.0, momentum=0.5) == pytest.approx(-2.5)


def test_decay_pulls_towards_zero_and_maximize_ascends() -> None:
    param = parameter(10.0)
    optimizer = RMSpropEpsInsideSqrt([param], lr=1.0, alpha=0.0, eps=0.0, weight_decay=0.1)
    param.grad = torch.zeros(1)
    optimizer.step()  # gradient 0.1 * 10, root 1
    assert param.item() == pytest.approx(9.0)
    assert steps([4.0], alpha=0.75, eps=5.0, maximize=True) == pytest.approx(4 / 3)


def test_parameters_without_gradient_stay_and_a_closure_is_called() -> None:
    moved, still = parameter(1.0), parameter(1.0)
    optimizer = RMSpropEpsInsideSqrt([moved, still])

    def closure() -> torch.Tensor:
        loss = (moved * moved).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 1.0
    assert moved.item() < 1.0
    assert still.item() == 1.0
    assert not optimizer.state[still]


def test_state_is_saved_and_loaded() -> None:
    params = [parameter(1.0, 2.0) for _ in range(2)]
    optimizers = [RMSpropEpsInsideSqrt([p], lr=0.1, centered=True, momentum=0.5) for p in params]
    for param, optimizer in zip(params, optimizers, strict=True):
        param.grad = torch.ones(2)
        optimizer.step()
    optimizers[1].load_state_dict(copy.deepcopy(optimizers[0].state_dict()))
    for param, optimizer in zip(params, optimizers, strict=True):
        param.grad = torch.ones(2)
        optimizer.step()
    assert torch.equal(*params)
    assert optimizers[1].state[params[1]]["step"] == 2


@pytest.mark.parametrize("name", ["lr", "alpha", "eps", "momentum", "weight_decay"])
def test_negative_numbers_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="Invalid"):
        RMSpropEpsInsideSqrt([parameter(1.0)], **{name: -1.0})


def test_gradient_step_takes_the_optimizers_own_step() -> None:
    params = [parameter(1.0, 2.0) for _ in range(2)]
    by_step, by_hand = (RMSpropEpsInsideSqrt([p], lr=0.1, eps=1e-2) for p in params)
    gradient_step = GradientStep(by_step)
    for _ in range(3):
        gradient_step((params[0] ** 2).sum())
        params[1].grad = 2 * params[1].detach()
        by_hand.step()
    torch.testing.assert_close(*params)


def test_an_agent_learns_with_it() -> None:
    agent = make_agent(
        optimizer=lambda params: RMSpropEpsInsideSqrt(params, lr=1e-2, eps=1e-4, centered=True),
        target_update_interval=1_000,
    )
    losses = [agent.update(make_batch(0))[1]["loss"].item() for _ in range(60)]
    assert losses[-1] < losses[0] / 2
