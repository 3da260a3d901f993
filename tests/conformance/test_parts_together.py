"""Every agent with every combination of its parts learns, is saved and acts, or its constructor says what to use.

The slow tests run all cases. The others run a part of them, always the same, in which each agent has each part that
fits, and any two parts meet that fit, in some agent.
"""

import copy
import inspect
import itertools
import random
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from network_parts import CRITICS, HEADS, RECURRENT_CRITICS, VALUES, make_q_function
from pair_base import BUFFERS, EXPLORERS, Case, Family
from pair_parts import FAMILIES, FAMILY
from torch import nn

from pfrl_like import agents, explorers, policies, q_functions, replay_buffers
from pfrl_like.agent import Agent
from pfrl_like.explorer import Explorer
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.testing.play import play_one
from pfrl_like.testing.requirement import difference
from pfrl_like.utils.checks import check_action

STEPS = 22
#: Parts that take long, which the default run has once each.
HEAVY = ("dueling", "distributional dueling")
#: Public classes that are no agents that learn.
NO_AGENTS = {
    "OffPolicyAgent",
    "OffPolicyActorCritic",
    "OfflineActorCritic",
    "AdvantageWeightedActorCritic",
    "OnPolicyAgent",
    "StateQFunctionActor",
}


# What a case has to do


def try_case(family: Family, case: Case, folder: Path) -> None:
    """The agent of a case does all that it should, or is refused."""
    folder.mkdir(parents=True)
    misfits = {*family.misfits(case)}
    if misfits:
        assert_refused(family, case, folder, misfits)
        return
    agent, env = family.make(case, folder), family.env(case)
    assert_learns(agent, env)
    agent.save(folder / "saved")
    (folder / "other").mkdir()
    other = family.make(case, folder / "other")
    other.load(folder / "saved")
    assert difference(agent.state_dict(), other.state_dict(), "state") is None
    actions, again = evaluated(agent, env), evaluated(other, env)
    np.testing.assert_array_equal(actions, again)
    for action in actions:
        check_action(env.action_space, action, bounds=False)


def assert_refused(family: Family, case: Case, folder: Path, arguments: Iterable[str]) -> None:
    """The constructor raises a sentence that names an argument."""
    try:
        family.make(case, folder)
    except (TypeError, ValueError) as refusal:
        sentence = str(refusal)
        assert re.match(rf"({'|'.join(arguments)})\w*(\[\d+\])? ", sentence) and sentence.count(" ") >= 8, sentence
    else:
        raise AssertionError(f"nothing was refused, although {arguments} does not fit")


def assert_learns(agent: Any, env: Any) -> None:
    """Steps in the environment change every module that learns, to finite numbers."""
    agent.check_spaces(env.observation_space, env.action_space)
    before = learnt(agent)
    play_one(agent, env, STEPS)
    for name, params in learnt(agent).items():
        assert torch.isfinite(params).all(), f"{name} is not finite"
        assert not torch.equal(params, before[name]), f"{name} has not changed"


def learnt(agent: Any) -> dict[str, torch.Tensor]:
    """The parameters of each module that learns."""
    given = "policy" if getattr(agent, "policy_learns", True) is False else None
    names = [name for name in agent.saved_attributes if not name.startswith("target_") and name != given]
    saved = {name: getattr(agent, name) for name in names}
    modules = {name: module for name, module in saved.items() if isinstance(module, nn.Module)}
    return {name: nn.utils.parameters_to_vector(m.parameters()).detach().clone() for name, m in modules.items()}


def evaluated(agent: Any, env: Any) -> np.ndarray:
    """What an agent does in evaluation."""
    env = copy.deepcopy(env)
    torch.manual_seed(0)
    obs, _ = env.reset(seed=0)
    actions = []
    with agent.eval_mode():
        agent.stop_episode()
        for _ in range(3):
            actions.append(agent.act(obs))
            obs, reward, _, _, _ = env.step(actions[-1])
            agent.observe(obs, reward, False, False)
    return np.array(actions)


# Some of the cases


def pairs_of(case: Case) -> set[Any]:
    """Any two parts of a case, of which one may be its agent."""
    return {*itertools.combinations(case.items(), 2)}


def covering(
    cases: Iterable[Case], pairs: Callable[[Case], set[Any]] = pairs_of, met: Iterable[Any] = ()
) -> list[Case]:
    """Cases, always the same, that have all pairs of parts among them that are asked for and have not met before."""
    cases = sorted(cases, key=str)
    random.Random(0).shuffle(cases)
    groups = {id(case): pairs(case) for case in cases}
    seen = {*met}
    chosen = []
    for least in (8, 5, 3, 2, 1):  # those first that bring much
        for case in cases:
            if len(groups[id(case)] - seen) >= least:
                chosen.append(case)
                seen |= groups[id(case)]
    return chosen


def some_cases() -> list[Any]:
    """Cases for the default run: pairs of parts that fit, what is heavy once each, agents with what does not fit."""
    params: list[Any] = []
    met: set[Any] = set()
    for _, alike in itertools.groupby(FAMILIES, lambda family: family.make):
        family_of = {id(case): family for family in alike for case in family.every_case}
        cases = [case for family in dict.fromkeys(family_of.values()) for case in family.every_case]
        misfits = {id(case): {*family_of[id(case)].misfits(case)} for case in cases}
        fitting = [case for case in cases if not misfits[id(case)]]
        chosen = covering((case for case in fitting if {*HEAVY}.isdisjoint(case.values())), met=met)
        met |= {pair for case in chosen for pair in pairs_of(case)}
        chosen += [case for kind in HEAVY for case in [case for case in fitting if kind in case.values()][:1]]
        chosen += covering(
            (case for case in cases if len(misfits[id(case)]) == 1),
            lambda case: {(name, part) for name, part in pairs_of(case) if name[0] == "agent"},
        )
        params += [pytest.param(family_of[id(case)], case, id=", ".join(map(str, case.values()))) for case in chosen]
    return params


@pytest.mark.parametrize(("family", "case"), some_cases())
def test_parts_that_fit_work_together_and_others_are_refused(family: Family, case: Case, tmp_path: Path) -> None:
    try_case(family, case, tmp_path / "case")


def test_every_two_parts_that_fit_meet_in_the_default_run() -> None:
    fitting = [case for family in FAMILIES for agent in family.kinds for case in family.fitting(agent)]
    chosen = [param.values[1] for param in some_cases() if not [*param.values[0].misfits(param.values[1])]]
    common = [case for case in fitting if {*HEAVY}.isdisjoint(case.values())]
    assert {pair for case in common for pair in pairs_of(case)} <= {pair for case in chosen for pair in pairs_of(case)}
    assert {part for case in fitting for part in case.items()} == {part for case in chosen for part in case.items()}
    assert len(chosen) < len(fitting) / 20


# All cases


def all_cases() -> list[Any]:
    """Agents with one of their parts; the others are gone through in one test."""
    return [
        pytest.param(family, agent, name, value, id=f"{agent}, {value}")
        for family in FAMILIES
        for agent in family.kinds
        for name, values in [*family.parts.items()][:1]
        for value in values
    ]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("family", "agent", "part", "value"), all_cases())
def test_all_parts_together(family: Family, agent: str, part: str, value: Any, tmp_path: Path) -> None:
    failures = []
    for i, case in enumerate(family.cases(agent)):
        if case[part] != value:
            continue
        torch.manual_seed(0)
        np.random.seed(0)
        try:
            try_case(family, case, tmp_path / str(i))
        except Exception as failure:  # of each case, so that one does not hide the others
            failures.append(f"{case}: {type(failure).__name__}: {failure}")
    assert not failures, "\n".join(failures)


# Recurrence, and what the tables hold


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("agent", FAMILY)
def test_recurrent_networks_and_agents_belong_together(agent: str, recurrent: bool, tmp_path: Path) -> None:
    family = FAMILY[agent]
    if agent == "CrossQ":
        case = next(family.fitting(agent)) | {"recurrent": recurrent, "networks": not recurrent}
    else:
        no_form = {**next(family.fitting(agent)), "recurrent": True, "replay_buffer": "EpisodicReplayBuffer"}
        case = next((case for case in family.fitting(agent) if case["recurrent"] == recurrent), no_form)
        case["networks"] = not recurrent
    with pytest.raises((TypeError, ValueError), match="recurrent"):
        family.make(case, tmp_path)


def public(package: Any, base: type) -> set[str]:
    """Names of the public classes of a package that inherit from one."""
    return {name for name, each in vars(package).items() if inspect.isclass(each) and issubclass(each, base)}


def test_the_tables_hold_every_public_part() -> None:
    assert {*FAMILY} == public(agents, Agent) - NO_AGENTS
    assert {*EXPLORERS} == public(explorers, Explorer)
    assert {*BUFFERS} == public(replay_buffers, AbstractReplayBuffer)
    assert {type(make()).__name__ for _, make, _ in HEADS.values()} == public(policies, nn.Module)


def test_the_tables_hold_every_public_q_function() -> None:
    networks = [make_q_function(kind, recurrent) for kind in VALUES for recurrent in (False, True)]
    networks += [make() for make in (*CRITICS.values(), *RECURRENT_CRITICS.values())]
    classes = {base.__name__ for network in networks for part in network.modules() for base in type(part).__mro__}
    assert public(q_functions, nn.Module) <= classes
