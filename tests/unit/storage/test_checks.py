"""Whether a loaded state fits a live object."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.checks import check_like, checked_optimizer_state, nan_state, non_finite_parameter


def adam(steps: int = 2, **options: Any) -> torch.optim.Optimizer:
    model = nn.Linear(2, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, **options)
    for _ in range(steps):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    return optimizer


LINEAR = nn.Linear(2, 3).state_dict()
SIX = {f"{i}.weight": torch.zeros(1) for i in (5, 6, 7, 8, 9, 10)}
THREE = {"x": torch.zeros(3)}
SHAPES = r"x has shape \(4,\) and dtype torch.float32; expected shape \(3,\) and dtype torch.float32"


@pytest.mark.parametrize(
    ("loaded", "live", "message"),
    [
        ({"weight": torch.zeros(3, 2), "gain": torch.zeros(3)}, LINEAR, r"file: .* has no 'bias' and also has 'gain'"),
        ({}, SIX, r"'5\.weight', '6\.weight', '7\.weight', '8\.weight', '9\.weight' and 1 more$"),
        ({"x": torch.zeros(4)}, THREE, SHAPES),
        ({"x": torch.zeros(3).double()}, THREE, r"x has .* torch.float64; expected .* torch.float32"),
        ({"x": 0.5}, THREE, "x is float; expected a tensor"),
        ([], {}, "contains list; expected a state dict"),
        (LINEAR, nn.LazyLinear(3).state_dict(), "live weight has no shape: call the model first"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_state_dict_that_does_not_fit_is_refused(loaded: Any, live: Any, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        check_like(loaded, live, "file")


def test_a_parameter_that_is_not_finite_is_named_but_a_mask_is_none() -> None:
    model = nn.Linear(2, 3)
    model.register_buffer("mask", torch.tensor([-torch.inf]))
    assert non_finite_parameter(model, model.state_dict()) is None
    with torch.no_grad():
        model.bias[1] = torch.inf
    assert non_finite_parameter(model, model.state_dict()) == "bias"


def test_nan_in_an_optimiser_is_named() -> None:
    state = adam().state_dict()
    assert nan_state(state) is None
    state["state"][1]["exp_avg"][0] = torch.nan
    assert nan_state(state) == "state[1]['exp_avg']"


@pytest.mark.parametrize("live_steps", [0, 2], ids=["fresh", "used"])
def test_a_state_of_the_same_optimiser_fits(live_steps: int) -> None:
    state = adam().state_dict()
    fitted = checked_optimizer_state(state, adam(live_steps), "file")
    assert fitted["state"] == state["state"]
    assert fitted["param_groups"][0]["lr"] == 0.01


def test_the_live_choice_of_kernel_is_kept() -> None:
    state = adam().state_dict()
    state["param_groups"][0].update(capturable=True, fused=True, foreach=False)
    fitted = checked_optimizer_state(state, adam(), "file")["param_groups"][0]
    assert (fitted["capturable"], fitted["fused"], fitted["foreach"]) == (False, None, None)


def test_steps_may_be_integers_as_before_pytorch_1_12() -> None:
    state = adam().state_dict()
    for entry in state["state"].values():
        entry["step"] = 2
    for key in ("maximize", "foreach", "capturable", "differentiable", "fused", "decoupled_weight_decay"):
        del state["param_groups"][0][key]
    live = adam(0)
    live.load_state_dict(checked_optimizer_state(state, live, "file"))
    assert next(iter(live.state.values()))["step"] == 2


def test_a_rho_that_adadelta_refuses_is_refused() -> None:
    live = torch.optim.Adadelta(nn.Linear(2, 3).parameters(), rho=1.0)
    state = copy.deepcopy(live.state_dict())
    checked_optimizer_state(state, live, "file")
    state["param_groups"][0]["rho"] = 1.1
    with pytest.raises(CheckpointError, match=r"\['rho'\] is 1.1; expected a number up to 1"):
        checked_optimizer_state(state, live, "file")


@pytest.mark.parametrize("maximize", [True, False])
def test_a_state_that_would_go_the_other_way_is_refused(maximize: bool) -> None:
    state = adam(maximize=maximize).state_dict()
    with pytest.raises(CheckpointError, match=rf"\['maximize'\] is {maximize}; expected {not maximize}"):
        checked_optimizer_state(state, adam(maximize=not maximize), "file")
    del state["param_groups"][0]["maximize"]  # as of old versions of PyTorch
    live = adam(maximize=True)
    live.load_state_dict(checked_optimizer_state(state, live, "file"))
    assert live.param_groups[0]["maximize"] is True


@pytest.mark.parametrize("name, key", [
    ("Adam", "exp_avg_sq"), ("Adamax", "exp_inf"), ("RMSprop", "square_avg"), ("Adadelta", "acc_delta"),
    ("Adagrad", "sum"), ("Rprop", "step_size"),
])  # fmt: skip
def test_negative_second_moments_are_refused(name: str, key: str) -> None:
    model = nn.Linear(2, 3)
    live = getattr(torch.optim, name)(model.parameters(), lr=0.01)
    model(torch.ones(1, 2)).sum().backward()
    live.step()
    state = copy.deepcopy(live.state_dict())
    checked_optimizer_state(state, live, "file")
    state["state"][0][key][0, 0] = -1e-9
    with pytest.raises(CheckpointError, match=rf"state\[0\]\['{key}'\] has negative numbers"):
        checked_optimizer_state(state, live, "file")


def test_second_moments_of_complex_parameters_fit() -> None:
    parameter = nn.Parameter(torch.ones(2, dtype=torch.complex64))
    live = torch.optim.Adam([parameter])
    parameter.abs().sum().backward()
    live.step()
    checked_optimizer_state(live.state_dict(), live, "file")


def test_settings_of_a_schedule_may_be_absent_or_added() -> None:
    state, live = adam().state_dict(), adam()
    live.param_groups[0]["initial_lr"] = 0.5
    checked_optimizer_state(state, live, "file")
    state["param_groups"][0]["initial_lr"] = 0.5
    checked_optimizer_state(state, adam(), "file")


def change(path: tuple[Any, ...], value: Any) -> Any:
    state = copy.deepcopy(adam().state_dict())
    place: Any = state
    for key in path[:-1]:
        place = place[key]
    if value is KeyError:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return state


NEGATIVE = [("lr", -0.1), ("eps", -1e-8), ("betas", (-0.1, 0.9)), ("weight_decay", -1.0)]
TOO_LARGE = [(1.5, 0.9), (0.9, 1.0), tuple(torch.tensor([0.9, 1.5]))]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ([], "expected a dict of 'state' and 'param_groups'"),
        (change(("extra",), 0), "expected a dict of"),
        (change(("state",), []), "'state' is not a dict"),
        (change(("param_groups",), []), "list of 1 'param_groups'"),
        (change(("param_groups", 0), 3), r"param_groups\[0\] has no list 'params'"),
        (change(("param_groups", 0, "params"), [0, "1"]), "has no list 'params'"),
        (change(("param_groups", 0, "params"), [0]), "has 1 'params'; expected 2"),
        (change(("param_groups", 0, "params"), [0, 0]), "a parameter occurs twice"),
        (change(("param_groups", 0, "lr"), "fast"), r"\['lr'\] is 'fast'; expected a value like 0.01"),
        (change(("param_groups", 0, "lr"), True), r"\['lr'\] is True"),
        (change(("param_groups", 0, "lr"), torch.nan), r"\['lr'\] is nan"),
        (change(("param_groups", 0, "betas"), (0.9,)), r"\['betas'\] is \(0.9,\)"),
        (change(("param_groups", 0, "amsgrad"), 1), r"\['amsgrad'\] is 1"),
        *(
            (change(("param_groups", 0, key), value), rf"\['{key}'\] is .*; expected a number >= 0")
            for key, value in NEGATIVE
        ),
        *(
            (change(("param_groups", 0, "betas"), value), r"\['betas'\] is .*; expected numbers below 1")
            for value in TOO_LARGE
        ),
        (change(("param_groups", 0, "eps"), KeyError), "has no 'eps'"),
        (change(("state", 7), {}), r"state\[7\] does not belong to a parameter"),
        (change(("state", 0), []), r"state\[0\] does not belong to a parameter"),
        (change(("state", 0, "exp_avg"), torch.zeros(2, 2)), r"\(2, 2\); expected a tensor of shape \(3, 2\)"),
        (change(("state", 0, "exp_avg"), None), "type NoneType; expected a tensor"),
        (change(("state", 0, "step"), torch.zeros(2)), "is not a finite number"),
        (change(("state", 0, "step"), torch.tensor(torch.inf)), "is not a finite number"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("live_steps", [0, 2], ids=["fresh", "used"])
def test_a_state_that_does_not_fit_is_refused(state: Any, message: str, live_steps: int) -> None:
    with pytest.raises(CheckpointError, match=f"file: is the state of a different optimiser: .*{message}"):
        checked_optimizer_state(state, adam(live_steps), "file")


def test_a_state_of_another_class_of_optimiser_is_refused() -> None:
    sgd = torch.optim.SGD(nn.Linear(2, 3).parameters(), lr=0.1)
    with pytest.raises(CheckpointError, match="has no 'momentum'"):
        checked_optimizer_state(adam().state_dict(), sgd, "file")
