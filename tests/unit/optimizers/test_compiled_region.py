"""Compiled functions give what the function gives, whatever has changed since, and leave nothing behind.

Everything that compiles is a slow test.
"""

import copy
import gc
import logging
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from agent_parts import make_agent, make_batch
from torch import Tensor, nn

from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.explorer import Explorer
from pfrl_like.explorers import Boltzmann, ConstantEpsilonGreedy, Greedy
from pfrl_like.optimizers.compiled_region import CompiledFunction, form

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Owner:
    """Has a model and a function of it."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model: Any = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
        self.alias = self.model
        self.function: Callable[[Tensor], Tensor] = torch.tanh
        self.scale, self.offset = 1.0, torch.zeros(2)

    def compute(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        y = self.scale * self.model(x) + self.offset
        return y, {"other": self.function(y)}


def replace_one_of_two_names(owner: Owner) -> None:
    owner.model = copy.deepcopy(owner.model)
    with torch.no_grad():
        owner.model[0].weight.neg_()


CHANGES: dict[str, Callable[[Owner], Any]] = {
    "model": lambda owner: setattr(owner, "model", nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))),
    "one of two names": replace_one_of_two_names,
    "scale": lambda owner: setattr(owner, "scale", 3.0),
    "offset": lambda owner: setattr(owner, "offset", torch.ones(2)),
    "function": lambda owner: setattr(owner, "function", torch.cos),
    "layer": lambda owner: setattr(owner.model, "2", nn.Linear(3, 2)),
    "weight": lambda owner: setattr(owner.model[0], "weight", nn.Parameter(torch.ones(3, 4))),
    "data": lambda owner: setattr(owner.model[0].weight, "data", torch.full((3, 4), 0.5)),
    "layout": lambda owner: setattr(owner.model[0].weight, "data", torch.arange(12.0).reshape(4, 3).t()),
    "numbers": lambda owner: nn.init.constant_(owner.model[0].weight, -0.5),
    "hook": lambda owner: owner.model[0].register_forward_hook(lambda module, args, output: 2 * output),
}


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_has_changed_since_is_noticed(change: Callable[[Owner], None]) -> None:
    owner = Owner()
    compiled = CompiledFunction(owner.compute, owner, "a test")
    with torch.no_grad():
        for _ in range(4):
            torch.testing.assert_close(compiled(X), owner.compute(X))
        (region,) = compiled._regions.values()
        assert region is not None and region._direct is not None
        change(owner)
        for _ in range(3):
            torch.testing.assert_close(compiled(X), owner.compute(X))


@pytest.mark.slow
def test_the_same_tensor_twice_is_not_taken_for_one_for_ever() -> None:
    owner = Owner()

    def difference(x: Tensor, y: Tensor) -> Tensor:
        out: Tensor = owner.model(x) - owner.model(y)
        return out

    compiled = CompiledFunction(difference, owner, "a test")
    with torch.no_grad():
        for _ in range(3):
            assert compiled(X, X).abs().max() == 0
        torch.testing.assert_close(compiled(X, -X), difference(X, -X))


@pytest.mark.slow
def test_what_cannot_be_compiled_stays_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    owner = Owner()

    def branching(x: Tensor) -> Tensor:
        return x if x.sum().item() > 100 else owner.model(x)

    compiled = CompiledFunction(branching, owner, "a test")
    with torch.no_grad(), caplog.at_level(logging.WARNING, "pfrl_like"):
        for _ in range(3):
            assert torch.equal(compiled(X), branching(X))
    (told,) = (record.getMessage() for record in caplog.records if record.name.startswith("pfrl_like"))
    assert told.startswith("a test cannot be compiled")


def test_other_inputs_than_tensors_run_as_they_are() -> None:
    compiled = CompiledFunction(lambda x: x, Owner(), "a test")
    for value in (None, 1.5, "text", (X, None)):
        assert compiled(value) is value
    with pytest.raises(TypeError, match="value is str, expected tensors"):
        form(("text",))


@pytest.mark.slow
def test_an_agent_and_its_buffer_are_freed() -> None:
    agent: Any = make_agent(compile=True)
    with agent.eval_mode():
        for _ in range(3):
            agent.act(np.zeros(5, np.float32))
    for seed in range(4):
        agent.update(make_batch(seed))
    references = [weakref.ref(agent), weakref.ref(agent.replay_buffer)]
    del agent
    gc.collect()
    assert [reference() for reference in references] == [None, None]


@pytest.mark.slow
def test_written_parameters_are_known_to_be_written() -> None:
    agent: Any = make_agent(compile=True)
    versions = []
    for seed in range(5):
        agent.update(make_batch(seed))
        versions.append(next(agent.model.parameters())._version)
    assert versions == sorted(set(versions))


class MaskingQFunction(nn.Module):
    """Allows only the first action."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> DiscreteActionValue:
        q = self.linear(x)
        return DiscreteActionValue(q, action_mask=q == q[:, :1])


OBS = [np.full(5, i, np.float32) for i in range(2)]


@pytest.mark.slow
def test_acting_gives_the_actions_of_the_ordinary_agent() -> None:
    agents = [make_agent(compile=compile, explorer=Greedy()) for compile in (False, True)]
    agents[1].load_state_dict(copy.deepcopy(agents[0].state_dict()))
    for _ in range(4):
        actions = [agent.batch_act(OBS) for agent in agents]
        np.testing.assert_array_equal(*actions)
        with agents[0].eval_mode(), agents[1].eval_mode():
            np.testing.assert_array_equal(agents[0].batch_act(OBS[:1]), agents[1].batch_act(OBS[:1]))


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_masks_of_the_q_function_are_kept(epsilon: float) -> None:
    explorer = ConstantEpsilonGreedy(epsilon, lambda: 2)
    agent = make_agent(compile=True, q_function=MaskingQFunction(), explorer=explorer)
    for _ in range(4):
        assert agent.batch_act(OBS).tolist() == [0, 0]


@pytest.mark.slow
def test_an_explorer_that_reads_the_values_gets_them() -> None:
    agent = make_agent(compile=True, explorer=Boltzmann(T=0.1))
    for _ in range(3):
        assert set(agent.batch_act(OBS)) <= {0, 1}


def test_who_reads_the_action_value() -> None:
    class Own(Greedy):
        def select_action(self, t: int, greedy_action_func: Callable[[], Any], action_value: Any = None) -> Any:
            return action_value.greedy_actions[0]

    class Mixin:
        def select_action(self, t: int, greedy_action_func: Callable[[], Any], action_value: Any = None) -> Any:
            return action_value.greedy_actions[0]

    class Mixed(Mixin, Greedy):
        pass

    class Named(Greedy):
        pass

    class Batched(Greedy):
        def select_actions(self, t: int, greedy_actions: Any, action_value: Any = None, active: Any = None) -> Any:
            return action_value.greedy_actions

    reads = [cls.reads_action_value for cls in (Explorer, Boltzmann, Own, Mixed, Batched, Greedy, Named)]
    assert reads == [True, True, True, True, True, False, False]
