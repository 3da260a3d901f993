"""Every agent with every combination of its parts learns, is saved and acts, or is refused before its first step.

The slow tests run all cases. The others run a part of them, always the same, in which any two parts that fit meet in
some agent, and no agent is missing.
"""

import copy
import heapq
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
from pair_base import BUFFERS, EXPLORERS, Case
from registry import LEARNERS
from torch import nn

from pfrl_like import explorers, policies, q_functions, replay_buffers
from pfrl_like.explorer import Explorer
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.testing.play import difference, play_one
from pfrl_like.utils.checks import check_action

STEPS = 22
#: Parts that take long, which the default run has once each.
HEAVY = ("dueling", "distributional dueling")


# What a case has to do


def try_case(case: Case, folder: Path, on_disk: bool = True) -> None:
    """The agent of a case does all that it should, or is refused; its state goes through files or stays in memory."""
    folder.mkdir(parents=True)
    entry = LEARNERS[case["agent"]]
    if misfits := entry.misfits(case):
        assert_refused(case, folder, misfits)
        return
    agent, env = entry.make(case, folder), entry.env(case)
    assert_learns(agent, env)
    if on_disk:
        agent.save(folder / "saved")
    (folder / "other").mkdir()
    other = entry.make(case, folder / "other")
    if on_disk:
        other.load(folder / "saved")
    else:
        other.load_state_dict(copy.deepcopy(agent.state_dict()))
    assert difference(agent.state_dict(), other.state_dict(), "state") is None
    actions, again = evaluated(agent, env), evaluated(other, env)
    np.testing.assert_array_equal(actions, again)
    for action in actions:
        check_action(env.action_space, action, bounds=False)


def assert_refused(case: Case, folder: Path, arguments: Iterable[str]) -> None:
    """The constructor, or the first observation, raises a sentence that names an argument."""
    entry = LEARNERS[case["agent"]]
    try:
        agent, env = entry.make(case, folder), entry.env(case)
        agent.dry_run(env.observation_space.sample())
    except (TypeError, ValueError) as refusal:
        sentence = str(refusal)
        named = rf"(obs does not fit )?({'|'.join(arguments)})\w*(\[\d+\])?[ ;]"
        assert re.match(named, sentence) and sentence.count(" ") >= 8, sentence
    else:
        raise AssertionError(f"nothing was refused, although {arguments} does not fit")


def assert_learns(agent: Any, env: Any) -> None:
    """Steps in the environment change every module that learns, to finite numbers."""
    agent.dry_run(env.observation_space.sample(), env.action_space)
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
    """Any two parts of a case, and the agent."""
    agent, *parts = case.items()
    return {agent, *itertools.combinations(parts, 2)}


def covering(cases: Iterable[Case], pairs: Callable[[Case], set[Any]] = pairs_of) -> list[Case]:
    """Few cases, always the same, that have all pairs among them: each time the one that brings most new ones."""
    cases = [*cases]
    random.Random(0).shuffle(cases)
    missing = [pairs(case) for case in cases]
    heap = [(-len(new), i) for i, new in enumerate(missing)]
    heapq.heapify(heap)
    seen: set[Any] = set()
    chosen = []
    while heap:
        promised, i = heapq.heappop(heap)
        missing[i] -= seen
        if len(missing[i]) < -promised:  # others have brought some of them since
            heapq.heappush(heap, (-len(missing[i]), i))
        elif missing[i]:
            seen |= missing[i]
            chosen.append(cases[i])
    return chosen


def parts_of_family(case: Case) -> set[Any]:
    """The family of its agent with each of its parts."""
    return {(LEARNERS[case["agent"]].family, part) for part in case.items() if part[0] != "agent"}


EVERY = [(case, entry.misfits(case)) for entry in LEARNERS.values() for case in entry.every_case()]
FITTING = [case for case, misfits in EVERY if not misfits]
LIGHT = [case for case in FITTING if {*HEAVY}.isdisjoint(case.values())]
#: The default run: pairs of parts that fit, and what is heavy once each.
CHOSEN = covering(LIGHT) + covering(FITTING, lambda case: {part for part in case.items() if part[1] in HEAVY})
#: Agents with each part that does not fit, of which the default run has those that cover every family.
REFUSED = covering(
    (case for case, misfits in EVERY if len(misfits) == 1),
    lambda case: {(case["agent"], part) for part in case.items()},
)
REFUSED_FIRST = covering(REFUSED, parts_of_family)
#: One of each agent, which the default run saves in files: that takes longer than all else in a case.
SAVED = [*{case["agent"]: case for case in CHOSEN}.values()]


def some_cases() -> list[Any]:
    cases = [(case, []) for case in (*CHOSEN, *REFUSED_FIRST)]
    cases += [(case, pytest.mark.slow) for case in REFUSED if case not in REFUSED_FIRST]
    return [pytest.param(case, id=", ".join(map(str, case.values())), marks=marks) for case, marks in cases]


@pytest.mark.parametrize("case", some_cases())
def test_parts_that_fit_work_together_and_others_are_refused(case: Case, tmp_path: Path) -> None:
    try_case(case, tmp_path / "case", on_disk=case in SAVED)


def test_every_two_parts_that_fit_meet_in_the_default_run() -> None:
    assert set().union(*map(pairs_of, LIGHT)) <= set().union(*map(pairs_of, CHOSEN))
    assert {part for case in FITTING for part in case.items()} == {part for case in CHOSEN for part in case.items()}
    assert {*LEARNERS} == {case["agent"] for case in CHOSEN}
    assert len(CHOSEN) < len(FITTING) / 40


# All cases


def all_cases() -> list[Any]:
    """Agents with one of their parts; the others are gone through in one test."""
    return [
        pytest.param(agent, part, value, id=f"{agent}, {value}")
        for agent, entry in LEARNERS.items()
        for part, values in [*entry.parts.items()][:1]
        for value in values
    ]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("agent", "part", "value"), all_cases())
def test_all_parts_together(agent: str, part: str, value: Any, tmp_path: Path) -> None:
    failures = []
    for i, case in enumerate(LEARNERS[agent].every_case()):
        if case[part] != value:
            continue
        torch.manual_seed(0)
        np.random.seed(0)
        try:
            try_case(case, tmp_path / str(i))
        except Exception as failure:  # of each case, so that one does not hide the others
            failures.append(f"{case}: {type(failure).__name__}: {failure}")
    assert not failures, "\n".join(failures)


# Recurrence, and what the tables hold


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("agent", LEARNERS)
def test_recurrent_networks_and_agents_belong_together(agent: str, recurrent: bool, tmp_path: Path) -> None:
    entry = LEARNERS[agent]
    if agent == "CrossQ":
        case = next(entry.fitting()) | {"recurrent": recurrent, "networks": not recurrent}
    else:
        no_form = {**next(entry.fitting()), "recurrent": True, "replay_buffer": "EpisodicReplayBuffer"}
        case = next((case for case in entry.fitting() if case["recurrent"] == recurrent), no_form)
        case["networks"] = not recurrent
    with pytest.raises((TypeError, ValueError), match="recurrent"):
        entry.make(case, tmp_path)


def public(package: Any, base: type) -> set[str]:
    """Names of the public classes of a package that inherit from one."""
    return {name for name, each in vars(package).items() if inspect.isclass(each) and issubclass(each, base)}


def test_the_tables_hold_every_public_part() -> None:
    assert {*EXPLORERS} == public(explorers, Explorer)
    assert {*BUFFERS} == public(replay_buffers, AbstractReplayBuffer)
    assert {type(make()).__name__ for _, make, _ in HEADS.values()} == public(policies, nn.Module)


def test_the_tables_hold_every_public_q_function() -> None:
    networks = [make_q_function(kind, recurrent) for kind in VALUES for recurrent in (False, True)]
    networks += [make() for make in (*CRITICS.values(), *RECURRENT_CRITICS.values())]
    classes = {base.__name__ for network in networks for part in network.modules() for base in type(part).__mro__}
    assert public(q_functions, nn.Module) <= classes
