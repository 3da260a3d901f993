"""Agents on a GPU; every test is skipped where there is none."""

import copy
import functools
from typing import Any

import pytest
import torch
from agent_parts import AGENTS, COMBINATIONS, make_agent, make_batch
from argument_effects import Life, parameters_of
from on_policy_parts import ON_POLICY, make_on_policy
from registry import KINDS, arguments_of, obs_size
from torch import nn
from torch.optim import SGD, Adam, AdamW, RMSprop

from pfrl_like.errors import NonFiniteError
from pfrl_like.optimizers import GradientStep
from pfrl_like.optimizers.gradient_step import CHECK_INTERVAL
from pfrl_like.testing import Chain, check_agent
from pfrl_like.testing.play import play_one, play_several

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
CHAIN = Chain(time_limit=7)


def devices(nested: Any) -> set[str]:
    if isinstance(nested, torch.Tensor):
        return {nested.device.type}
    parts = nested.values() if isinstance(nested, dict) else nested if isinstance(nested, list | tuple) else ()
    return set().union(*map(devices, parts))


@pytest.mark.parametrize(("agent", "buffer", "recurrent"), COMBINATIONS)
def test_agent_keeps_the_contracts(agent: str, buffer: str, recurrent: bool) -> None:
    check_agent(functools.partial(make_agent, agent, buffer, recurrent, gpu=0))


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("kind", ON_POLICY)
def test_on_policy_agent_keeps_the_contracts(kind: str, recurrent: bool) -> None:
    check_agent(functools.partial(make_on_policy, kind, recurrent, gpu=0))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "device" in parameters_of(kind)])
def test_every_agent_learns_and_acts_there(kind: Any) -> None:
    life = Life(kind(**arguments_of(kind, device="cuda")), obs_size(kind))
    assert life.n_updates > 0
    modules = [part for part in vars(life.agent).values() if isinstance(part, nn.Module)]
    assert devices([list(module.parameters()) for module in modules]) == {"cuda"}
    assert len(life.in_evaluation()) == 20


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("agent", AGENTS)
def test_updates_are_those_of_the_cpu(agent: str, recurrent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = torch.rand

    def the_same_there(*size: Any, device: Any = "cpu", generator: Any = None, **form: Any) -> torch.Tensor:
        generator = torch.Generator().manual_seed(sum(size)) if generator is None else generator
        return draw(*size, **form, generator=generator).to(device)

    monkeypatch.setattr("pfrl_like.action_value.quantile.torch.rand", the_same_there)  # the quantiles of IQN
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    on_cpu, on_gpu = make_agent(agent, recurrent=recurrent), make_agent(agent, recurrent=recurrent, gpu=0)
    on_gpu.load_state_dict(copy.deepcopy(on_cpu.state_dict()))
    for seed in range(10):
        batch = make_batch(seed)
        if recurrent:
            batch = batch.replace(lengths=torch.tensor([4, 2, 2]))
        expected, actual = on_cpu.update(batch)[0], on_gpu.update(batch)[0]
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize(("here", "there"), [({"gpu": 0}, {}), ({}, {"gpu": 0})], ids=["from GPU", "to GPU"])
def test_an_agent_loads_on_the_other_device(here: Any, there: Any, recurrent: bool, tmp_path: Any) -> None:
    agent, other = make_agent(recurrent=recurrent, **here), make_agent(recurrent=recurrent, **there)
    play_one(agent, CHAIN, 40)
    agent.save(tmp_path)
    other.load(tmp_path)
    torch.testing.assert_close(other.model.state_dict(), agent.model.state_dict(), check_device=False)
    play_several(other, CHAIN, 2, 40)  # optimiser and recurrent states are where they are needed
    assert devices(other.model.state_dict()) == {"cuda" if there else "cpu"}


def test_priorities_reach_the_buffer() -> None:
    agent = make_agent(buffer="prioritized", gpu=0)
    play_one(agent, CHAIN, 40)
    assert len(set(agent.replay_buffer._priorities.to_array().tolist())) > 2  # type: ignore[attr-defined]


OPTIMIZERS = {
    "Adam": functools.partial(Adam, lr=1e-2),
    "Adam, capturable": functools.partial(Adam, lr=1e-2, capturable=True),
    "Adam, fused": functools.partial(Adam, lr=1e-2, fused=True),
    "AdamW, fused": functools.partial(AdamW, lr=1e-2, weight_decay=0.1, fused=True),
    "SGD": functools.partial(SGD, lr=1e-1),
    "SGD, momentum": functools.partial(SGD, lr=1e-2, momentum=0.9),
    "RMSprop": functools.partial(RMSprop, lr=1e-2),
}


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).cuda()


def loss_of(model: nn.Module, seed: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    return (model(torch.randn(5, 3, generator=g).cuda()) - 1.0).square().mean()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_bad_updates_are_skipped_and_reported_in_time(name: str) -> None:
    model, expected = make_model(), make_model()
    optimizer, other = OPTIMIZERS[name](model.parameters()), OPTIMIZERS[name](expected.parameters())
    step = GradientStep(optimizer)
    with pytest.raises(NonFiniteError, match="34 of 100 steps were skipped"):
        for i in range(CHECK_INTERVAL):
            bad = i % 3 == 0
            step(loss_of(model, i) * (torch.nan if bad else 1.0))
            if not bad:
                other.zero_grad()
                loss_of(expected, i).backward()  # type: ignore[no-untyped-call]
                other.step()
        step.settle()
    torch.testing.assert_close(model.state_dict(), expected.state_dict(), rtol=1e-4, atol=1e-5)
    for mine, its in zip(optimizer.state.values(), other.state.values(), strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("optimizer", [Adam, AdamW])
def test_updates_do_not_wait_for_the_gpu(optimizer: Any) -> None:
    agent = make_agent(optimizer=functools.partial(optimizer, lr=1e-2), gpu=0)
    agent.update(make_batch(0).to("cuda"))  # an optimiser's first step makes its state
    batch = make_batch(1).to("cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        agent.update(batch)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", [Adam, AdamW, RMSprop, functools.partial(SGD, momentum=0.9)])
def test_compiled_updates_are_those_of_ordinary_ones(optimizer: Any) -> None:
    options = dict(optimizer=functools.partial(optimizer, lr=1e-2), target_update_interval=100, gpu=0)
    eager, compiled = make_agent(**options), make_agent(compile=True, **options)
    compiled.load_state_dict(copy.deepcopy(eager.state_dict()))
    for seed in range(10):
        expected, actual = (agent.update(make_batch(seed))[0] for agent in (eager, compiled))
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)
