"""On-policy agents whose PFRL methods are overridden learn what PFRL's learn: an update, parameters equal to 1e-5."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from peers.pfrl_on_policy import CASES, parameters_after

import pfrl_like
import pfrl_like.agents.acer

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests/peers/pfrl_on_policy.py"
FACTS = np.load(ROOT / "tests/data/peers/pfrl_on_policy.npz")
PEER = Path(os.environ.get("PFRL_LIKE_PEERS", ROOT / ".peers")) / "pfrl/bin/python"
EVERY_CASE = pytest.mark.parametrize("case", CASES, ids=["-".join(case).replace(" ", "_") for case in CASES])


@EVERY_CASE
def test_one_update_is_that_of_pfrl(case: tuple[str, str, str]) -> None:
    np.testing.assert_allclose(parameters_after(pfrl_like, *case), FACTS["/".join(case)], atol=1e-5)


@pytest.mark.parametrize("case", [case for case in CASES if case[1] != "none"], ids="-".join)
def test_every_override_changes_what_is_learnt(case: tuple[str, str, str]) -> None:
    agent, _, options = case
    difference = FACTS["/".join(case)] - FACTS[f"{agent}/none/{options}"]
    assert np.abs(difference).max() > 1e-4


@pytest.mark.peers
@pytest.mark.skipif(not PEER.exists(), reason="PFRL is not installed beside: make peers")
def test_the_facts_are_what_pfrl_gives(tmp_path: Path) -> None:
    path = tmp_path / "facts.npz"
    subprocess.run([PEER, SCRIPT, path], check=True, capture_output=True)
    given = np.load(path)
    assert given.files == FACTS.files
    for name in given.files:
        np.testing.assert_allclose(given[name], FACTS[name], atol=1e-6, err_msg=name)
