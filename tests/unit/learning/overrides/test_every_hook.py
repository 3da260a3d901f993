"""Every method of the table is called where it is overridden, or refused by name, whichever way it is put there."""

import copy
import functools
import logging
import re
import types
from collections.abc import Callable
from typing import Any

import cloudpickle
import pytest
import torch
from hook_parts import CALLED, REPLAYING, ROWS, WAYS, by_class, live, made, made_for, parameters, spy
from registry import arguments_of

from pfrl_like import agents
from pfrl_like.batch import Batch
from pfrl_like.errors import NonFiniteError
from pfrl_like.learning import Hook
from pfrl_like.testing import Chain
from pfrl_like.testing.play import play_one


def every(hooks: list[Hook]) -> Any:
    return pytest.mark.parametrize("hook", hooks, ids=lambda hook: f"{hook.owner}.{hook.name}")


def is_bound_early(hook: Hook) -> bool:
    """Whether PFRL has bound a method by the time that a user can assign another one."""
    return hook.name == "update" and hook.owner in REPLAYING


@every(ROWS)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_an_override_is_called_or_refused(hook: Hook, way: Callable[..., Any]) -> None:
    base, calls = getattr(agents, hook.owner), list[Any]()
    if hook.outcome == "refused":
        with pytest.raises(TypeError, match=f"overrides {hook.name} of PFRL's {hook.owner}, which this library does"):
            way(base, hook.name, lambda self, *args: None)
        return
    cls = way(base, hook.name, spy(calls, base, hook.name))
    assert hook.name in cls._overridden_hooks
    live(made_for(hook, cls))
    assert calls


def test_a_call_of_a_refused_method_names_another() -> None:
    refused = [hook for hook in ROWS if hook.outcome == "refused"]
    owners = {hook.owner: made_for(hook) for hook in refused}
    for hook in refused:
        with pytest.raises(AttributeError, match=f"has no {hook.name}: see {re.escape(hook.replacement)}"):
            getattr(owners[hook.owner], hook.name)()


@every([hook for hook in ROWS if not is_bound_early(hook)])
def test_an_assignment_to_an_agent_counts_or_is_refused(hook: Hook) -> None:
    base, calls = getattr(agents, hook.owner), list[Any]()
    agent = made_for(hook)
    if hook.outcome == "refused":
        with pytest.raises(TypeError, match=f"overrides {hook.name} of PFRL's"):
            setattr(agent, hook.name, lambda *args: None)
        return
    setattr(agent, hook.name, types.MethodType(spy(calls, base, hook.name), agent))
    live(agent)
    assert calls
    assert made_for(hook)._overridden_hooks == frozenset()
    calls.clear()
    delattr(agent, hook.name)
    live(agent)
    assert not calls and agent._overridden_hooks == frozenset()


@pytest.mark.representatives(6)
@every([hook for hook in CALLED if not is_bound_early(hook)])
def test_copies_keep_the_overrides(hook: Hook) -> None:
    def chosen_by_nobody(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("called")

    agent = made("ACER", replay=False) if hook.owner == "ACER" else made_for(hook)
    setattr(agent, hook.name, types.MethodType(chosen_by_nobody, agent))
    for other in (copy.deepcopy(agent), cloudpickle.loads(cloudpickle.dumps(agent))):
        assert other._overridden_hooks == {hook.name}
        with pytest.raises(AssertionError, match="^called$"):
            live(other)
    if hook.owner in REPLAYING:
        assert agent.acting_copy()._overridden_hooks == {hook.name}


@every([hook for hook in CALLED if hook.name in ("_lossfun", "compute_loss", "_compute_loss", "compute_critic_loss")])
def test_a_loss_that_is_not_finite_is_refused_and_nothing_moves(hook: Hook) -> None:
    base = getattr(agents, hook.owner)
    loss = getattr(base, hook.name)
    agent = made_for(hook, by_class(base, hook.name, lambda *args, **kwargs: loss(*args, **kwargs) * float("nan")))
    before = parameters(agent).clone()
    with pytest.raises(NonFiniteError, match="the loss is nan"):
        live(agent)
    assert torch.equal(parameters(agent), before)
    assert getattr(agent, "_override_batch", None) is None


SPOILT = {"A2C": "update", "REINFORCE": "batch_update", "A3C": "update", "ACER": "update", "TD3": "update_policy"}


@pytest.mark.parametrize(("owner", "name"), SPOILT.items())
def test_own_optimiser_steps_that_leave_nan_are_told(owner: str, name: str, caplog: pytest.LogCaptureFixture) -> None:
    def spoil(self: Any, *args: Any, **kwargs: Any) -> None:
        model = self.policy if owner == "TD3" else getattr(self, "shared_model", self.model)
        next(model.parameters()).data.fill_(float("nan"))

    agent = made_for(Hook(owner, name, "", "called"), by_class(getattr(agents, owner), name, spoil))
    whose = "policy_optimizer" if owner == "TD3" else "parameters of the model"
    said = f"{whose} hold NaN.*optimiser steps that {name} made before cannot be rolled back"
    with caplog.at_level(logging.ERROR), pytest.raises(NonFiniteError, match=said) as caught:
        live(agent)
    assert isinstance(caught.value.batch, Batch)
    assert getattr(agent, "n_updates", 0) == getattr(agent, "optim_t", 0) == 0
    assert len([record for record in caplog.records if "was rejected" in record.message]) == 1


COMPILED = {"DQN": "_compute_loss", "DDPG": "compute_critic_loss", "TD3": "update_q_func", "PPO": "_lossfun"}


@pytest.mark.parametrize(("owner", "name"), [*COMPILED.items(), ("SoftActorCritic", "update_q_func")])
def test_compile_is_refused_by_the_name_of_the_method(owner: str, name: str) -> None:
    base, hook = getattr(agents, owner), Hook(owner, name, "", "called")
    own = by_class(base, name, lambda self, *args, **kwargs: None)
    with pytest.raises(TypeError, match=f"compile is True, but Own overrides {name}"):
        made_for(hook, functools.partial(own, compile=True))
    compiled = made_for(hook, functools.partial(base, compile=True))
    with pytest.raises(TypeError, match=f"{name} is assigned to an agent that was built with compile=True"):
        setattr(compiled, name, lambda *args: None)


def test_discrete_sac_calls_the_temperature_of_sac() -> None:
    calls = list[Any]()
    base = agents.DiscreteSAC
    agent = by_class(base, "update_temperature", spy(calls, base, "update_temperature"))(**arguments_of(base))
    before = float(agent.temperature)
    play_one(agent, Chain(3), 40)
    assert calls and float(agent.temperature) != before
