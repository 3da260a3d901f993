"""Agents whose PFRL methods are overridden learn what PFRL's learn: an update, parameters equal to 1e-5."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peer_libraries import TESTS, answer, asks
from peers import pfrl_off_policy, pfrl_on_policy

import pfrl_like
import pfrl_like.agents.acer

PEERS = {"off_policy": pfrl_off_policy, "on_policy": pfrl_on_policy}
FACTS = {name: np.load(TESTS / f"data/peers/pfrl_{name}.npz") for name in PEERS}
CASES: list[tuple[str, Any]] = [(name, case) for name, module in PEERS.items() for case in module.CASES]
OVERRIDES = [
    (name, (agent, override, rest))
    for name, (agent, override, rest) in CASES
    if override != "none" and (name, (agent, "none", rest)) in CASES
]


def each(cases: list[tuple[str, Any]]) -> Any:
    return pytest.mark.parametrize(("name", "case"), cases, ids=["-".join((name, *case)) for name, case in cases])


@pytest.mark.representatives(87)
@each(CASES)
def test_one_update_is_that_of_pfrl(name: str, case: Any) -> None:
    learnt = PEERS[name].parameters_after(pfrl_like, *case)
    np.testing.assert_allclose(learnt, FACTS[name]["/".join(case)], atol=1e-5)


@each(OVERRIDES)
def test_every_override_changes_what_is_learnt(name: str, case: Any) -> None:
    agent, _, rest = case
    difference = FACTS[name]["/".join(case)] - FACTS[name][f"{agent}/none/{rest}"]
    assert np.abs(difference).max() > 1e-4


@asks("pfrl")
@pytest.mark.parametrize("name", PEERS)
def test_the_facts_are_what_pfrl_gives(name: str, tmp_path: Path) -> None:
    given = np.load(answer("pfrl", f"peers/pfrl_{name}.py", tmp_path / "facts.npz"))
    assert given.files == FACTS[name].files
    for case in given.files:
        np.testing.assert_allclose(given[case], FACTS[name][case], atol=1e-6, err_msg=case)
