"""`GradientStep` gives the numbers of `optimizer.step()`, whatever the user does with the optimiser meanwhile."""

import contextlib
import copy
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from as_on_gpu import AsOnGPU
from optimizer_parts import OPTIMIZERS
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from pfrl_like.errors import NonFiniteError
from pfrl_like.optimizers import GradientStep, gradient_step
from pfrl_like.optimizers.gradient_step import CHECK_INTERVAL, StepsOfUpdate

STEPS = 20


def make_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))


def losses(model: nn.Module) -> list[Callable[[], Tensor]]:
    torch.manual_seed(1)
    return [lambda x=torch.randn(5, 3): (model(x) - 1.0).square().mean() for _ in range(STEPS)]  # type: ignore[misc]  # noqa: B008


def train(
    step: Callable[[Tensor], Any], model: nn.Module, meanwhile: Callable[[int], None] = lambda i: None
) -> list[Tensor]:
    """The parameters after 20 steps."""
    for i, loss in enumerate(losses(model)):
        meanwhile(i)
        step(loss())
    return [param.detach() for param in model.parameters()]


def plain_step(optimizer: Optimizer, max_grad_norm: float | None = None) -> Callable[[Tensor], None]:
    """What everybody writes."""

    def step(loss: Tensor) -> None:
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if max_grad_norm is not None:
            params = [param for group in optimizer.param_groups for param in group["params"]]
            nn.utils.clip_grad_norm_(params, max_grad_norm)
        optimizer.step()

    return step


def compare(
    make: Callable[[nn.Module], Optimizer],
    meanwhile: Callable[[nn.Module, Optimizer, int], None] = lambda model, optimizer, i: None,
    max_grad_norm: float | None = None,
    kind: type[GradientStep] = GradientStep,
) -> tuple[nn.Module, Optimizer]:
    """Hold 20 gradient steps against 20 plain steps; returns the model and optimiser of the former."""
    model, expected = make_model(), make_model()
    optimizer, plain = make(model), make(expected)
    actual = train(kind(optimizer, max_grad_norm), model, lambda i: meanwhile(model, optimizer, i))
    wanted = train(plain_step(plain, max_grad_norm), expected, lambda i: meanwhile(expected, plain, i))
    torch.testing.assert_close(actual, wanted, rtol=1e-5, atol=1e-6)
    return model, optimizer


def of(name: str) -> Callable[[nn.Module], Optimizer]:
    return lambda model: OPTIMIZERS[name](model.parameters())


@pytest.fixture(params=[torch.float32, torch.float64], ids=str)
def dtype(request: pytest.FixtureRequest) -> Iterator[torch.dtype]:
    """That of new parameters."""
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(torch.float32)


@pytest.mark.representatives(38)
@pytest.mark.parametrize("kind", [GradientStep, AsOnGPU])
@pytest.mark.parametrize(("max_grad_norm", "few"), [(None, 100_000), (0.1, 100_000), (0.1, 0)])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_twenty_steps_are_those_of_the_optimizer(
    name: str, max_grad_norm: float | None, few: int, kind: type[GradientStep], dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(gradient_step, "MAX_CONCATENATED", few)
    model, _ = compare(of(name), max_grad_norm=max_grad_norm, kind=kind)
    assert {param.dtype for param in model.parameters()} == {dtype}


def lower_the_rate(optimizer: Optimizer, i: int) -> None:
    for group in optimizer.param_groups:
        group["lr"] = group["lr"] * 0.9


def change_numbers(optimizer: Optimizer, i: int) -> None:
    if i == 10:
        group = optimizer.param_groups[0]
        group.update({"weight_decay": 0.2, **({"betas": (0.5, 0.9)} if "betas" in group else {})})


def clear_the_state(optimizer: Optimizer, i: int) -> None:
    if i == 10:
        optimizer.state.clear()


def load_a_state(optimizer: Any, i: int) -> None:
    if i == 5:
        optimizer.kept = copy.deepcopy(optimizer.state_dict())
    elif i == 10:
        optimizer.load_state_dict(optimizer.kept)


@pytest.mark.representatives(25)
@pytest.mark.parametrize("change", [lower_the_rate, change_numbers, clear_the_state, load_a_state])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_optimizer_may_change_between_steps(name: str, change: Callable[[Optimizer, int], None]) -> None:
    compare(of(name), lambda model, optimizer, i: change(optimizer, i))


@pytest.mark.parametrize("name", ["Adam", "SGD"])
def test_a_group_may_be_added_between_steps(name: str) -> None:
    def meanwhile(model: nn.Module, optimizer: Optimizer, i: int) -> None:
        if i == 10:
            optimizer.add_param_group({"params": model[2].parameters()})  # type: ignore[index]

    compare(lambda model: OPTIMIZERS[name](model[0].parameters()), meanwhile)  # type: ignore[index]


def test_a_scheduler_works_and_does_not_warn(recwarn: pytest.WarningsRecorder) -> None:
    model = make_model()
    optimizer = Adam(model.parameters(), lr=1.0)
    step = GradientStep(optimizer)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    for loss in losses(model)[:3]:
        step(loss())
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.125
    assert not recwarn.list


@pytest.mark.parametrize("begin", [0, 5])
def test_hooks_of_the_optimizer_are_called(begin: int) -> None:
    calls = []

    def meanwhile(model: nn.Module, optimizer: Optimizer, i: int) -> None:
        if i == begin:
            optimizer.register_step_post_hook(lambda *_: calls.append(1))

    compare(of("Adam"), meanwhile)
    assert len(calls) == 2 * (STEPS - begin)  # of both that are compared


@pytest.mark.parametrize(("at_first", "later"), [(False, False), (False, True), (True, False)])
@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD, momentum"])
def test_weights_may_be_frozen_and_thawed_between_steps(name: str, at_first: bool, later: bool) -> None:
    def make(model: nn.Module) -> Optimizer:
        next(model.parameters()).requires_grad_(at_first)
        return of(name)(model)

    def meanwhile(model: nn.Module, optimizer: Optimizer, i: int) -> None:
        if i == 10:
            next(model.parameters()).requires_grad_(later)

    model, _ = compare(make, meanwhile)
    assert torch.equal(next(model.parameters()), next(make_model().parameters())) == (not at_first and not later)


def test_tied_weights_move_once() -> None:
    def make(model: Any) -> Optimizer:
        model[2] = nn.Linear(8, 3, bias=False)
        model[2].weight = nn.Parameter(model[0].weight.detach().T.clone())
        model.append(nn.Linear(3, 8, bias=False))
        model[3].weight = model[0].weight
        return Adam(model.parameters(), lr=1e-2)

    model, _ = compare(make)
    assert model[3].weight is model[0].weight  # type: ignore[index]


def test_a_parameter_without_gradient_is_left_alone() -> None:
    compare(lambda model: Adam([*model.parameters(), nn.Parameter(torch.ones(3))], lr=1e-2))


def test_parameters_stay_the_users_own_objects_and_gradients_until_the_next_step() -> None:
    model = make_model()
    before = [(id(param), param.data_ptr()) for param in model.parameters()]
    train(GradientStep(Adam(model.parameters())), model)
    assert [(id(param), param.data_ptr()) for param in model.parameters()] == before
    assert all(param.grad is not None for param in model.parameters())


def test_the_gradient_of_a_loss_in_double_precision_is_exact() -> None:
    param = nn.Parameter(torch.tensor([1.0, 2.0]))
    GradientStep(SGD([param], lr=0.5))(param.double().pow(2).sum())
    assert param.tolist() == [0.0, 0.0]  # p - 0.5 * 2 p


def test_a_loss_that_is_no_scalar_is_refused() -> None:
    param = nn.Parameter(torch.ones(2))
    with pytest.raises(RuntimeError, match="(?i)scalar|shape"):
        GradientStep(SGD([param], lr=0.5))(param * 2)
    assert param.tolist() == [1.0, 1.0]


def test_single_and_double_precision_may_be_mixed() -> None:
    single, double = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2, dtype=torch.float64))
    step = GradientStep(SGD([single, double], lr=0.5))
    for _ in range(2):
        step(single.sum() + double.sum().float())
    assert single.tolist() == double.tolist() == [0.0, 0.0]


def test_a_copy_moves_its_own_parameters() -> None:
    model = make_model()
    step = GradientStep(Adam(model.parameters(), lr=1e-2))
    for loss in losses(model)[:3]:
        step(loss())
    before = [param.detach().clone() for param in model.parameters()]
    other_model, other_step = copy.deepcopy((model, step))
    for loss in losses(other_model)[:3]:
        other_step(loss())
    torch.testing.assert_close([param.detach() for param in model.parameters()], before, rtol=0, atol=0)
    assert not torch.equal(next(other_model.parameters()), before[0])


@pytest.mark.parametrize("n_steps", [0, 3])
@pytest.mark.parametrize("max_grad_norm", [None, 1.0])
@pytest.mark.parametrize("name", ["Adam", "SGD, momentum", "RMSprop"])
@pytest.mark.parametrize(
    ("factor", "what"), [(torch.nan, "the loss is nan"), (torch.inf, "the loss is inf"), (None, "gradient")]
)
def test_what_is_not_finite_is_refused_and_nothing_changes(
    factor: float | None, what: str, name: str, max_grad_norm: float | None, n_steps: int
) -> None:
    model = make_model()
    optimizer = of(name)(model)
    step, good = GradientStep(optimizer, max_grad_norm), losses(model)
    for loss in good[:n_steps]:
        step(loss())
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    # The square root has an infinite derivative at 0 and a finite value.
    bad = model[2].bias[:1].sub(model[2].bias[:1]).sqrt().sum() if factor is None else good[0]() * factor
    with pytest.raises(NonFiniteError, match=what):
        step(bad)
    torch.testing.assert_close((model.state_dict(), optimizer.state_dict()), before, rtol=0, atol=0)
    step(good[4]())  # and learning goes on
    assert not torch.equal(model[0].weight, before[0]["0.weight"])


def test_an_optimizer_of_nothing_is_refused() -> None:
    model = make_model().requires_grad_(False)
    with pytest.raises(ValueError, match="no parameter that requires a gradient"):
        GradientStep(Adam(model.parameters()))


class TestWithoutWaiting:
    """On a GPU bad updates are skipped by the kernel and reported later."""

    @pytest.mark.representatives(7)
    @pytest.mark.parametrize("name", OPTIMIZERS)
    @pytest.mark.parametrize("max_grad_norm", [None, pytest.param(0.1, marks=pytest.mark.slow)])
    def test_bad_updates_are_skipped_and_reported_in_time(self, name: str, max_grad_norm: float | None) -> None:
        model, expected = make_model(), make_model()
        optimizer, other = of(name)(model), of(name)(expected)
        step, plain = AsOnGPU(optimizer, max_grad_norm), plain_step(other, max_grad_norm)
        losses_of, others = 5 * losses(model), 5 * losses(expected)
        with pytest.raises(NonFiniteError, match="34 of 100 steps were skipped"):
            for i in range(CHECK_INTERVAL):
                bad = i % 3 == 0  # the first and the last one among them
                step(losses_of[i]() * (torch.nan if bad else 1.0))
                if not bad:
                    plain(others[i]())
            step(losses_of[0]())  # told before this one is made
        torch.testing.assert_close(model.state_dict(), expected.state_dict(), rtol=1e-4, atol=1e-5)
        for mine, its in zip(optimizer.state.values(), other.state.values(), strict=True):
            torch.testing.assert_close(mine, its, rtol=1e-4, atol=1e-5)

    def test_who_asks_is_told_at_once_and_once(self) -> None:
        model = make_model()
        step = AsOnGPU(Adam(model.parameters()))
        for i, loss in enumerate(losses(model)):
            step(loss() * (torch.nan if i in (3, 4, 19) else 1.0))
        with pytest.raises(NonFiniteError, match="3 of 20 steps were skipped") as info:
            step.settle()
        assert info.value.skipped == 3
        step.settle()

    def test_a_step_after_a_skipped_one_of_the_same_update_is_skipped_and_not_counted(self) -> None:
        first, second = make_model(), make_model()
        steps = {"first": AsOnGPU(Adam(first.parameters())), "second": AsOnGPU(Adam(second.parameters()))}
        before = copy.deepcopy(second.state_dict())
        for factor in (torch.nan, 1.0):
            update = StepsOfUpdate(steps)
            update("first", losses(first)[0]() * factor)
            update("second", losses(second)[0]())
            assert update.refused is not None and update.refused.item() == (factor != 1.0)
            assert torch.equal(second[0].weight, before["0.weight"]) == (factor != 1.0)
        steps["second"].settle()
        with pytest.raises(NonFiniteError, match="1 of 2 steps"):
            steps["first"].settle()


@pytest.mark.parametrize("before", [False, True])
def test_averages_too_small_to_be_normal_become_zero_in_the_step_alone(before: bool) -> None:
    if not torch.set_flush_denormal(before):
        pytest.skip("this processor cannot")
    try:
        model = make_model()
        optimizer = Adam(model.parameters())
        step = GradientStep(optimizer)
        for loss in losses(model)[:2]:
            step(loss())
        for state in optimizer.state.values():
            state["exp_avg"].fill_(1.2e-38)
        step(0.0 * losses(model)[0]())
        assert all((state["exp_avg"] == 0).all() for state in optimizer.state.values())
        assert (torch.full((), 1e-39).mul(1.0).item() == 0) == before
    finally:
        torch.set_flush_denormal(False)


def test_losses_are_in_the_trail_in_order_those_of_a_gpu_once_it_is_waited_for() -> None:
    def trail_of(kind: type[GradientStep], *factors: float) -> int:
        param = torch.ones(2, requires_grad=True)
        step = kind(SGD([param], lr=0.0))
        for factor in factors:
            step(factor * param.sum())
            assert bool(step.trail) == (kind is GradientStep)
        with contextlib.suppress(NonFiniteError):
            step.settle()
        return step.trail

    for kind in (GradientStep, AsOnGPU):
        assert 0 != trail_of(kind, 1.0, 2.0) == trail_of(kind, 1.0, 2.0) != trail_of(kind, 2.0, 1.0)
    bad = math.nan, 1.0
    assert trail_of(AsOnGPU, *bad) == trail_of(AsOnGPU, *bad) != trail_of(AsOnGPU, 1.0)
