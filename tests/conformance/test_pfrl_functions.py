"""What scripts import from PFRL's agents, and reach for in them, gives the numbers of PFRL 0.4."""

import json
from pathlib import Path

import numpy as np
import pytest
from peer_libraries import TESTS, answer, asks
from peers.pfrl_functions import CASES

import pfrl_like
from pfrl_like.legacy.names import OLD_NAMES

FACTS = json.loads((TESTS / "data/peers/pfrl_functions.json").read_text())
SOURCE = (TESTS / "peers/pfrl_functions.py").read_text()


@pytest.mark.parametrize("name", CASES)
def test_the_numbers_are_those_of_pfrl(name: str) -> None:
    np.testing.assert_allclose(CASES[name](pfrl_like), FACTS[name], atol=2e-5)


def test_every_old_name_of_agents_is_called() -> None:
    parts_of_others = {"_add_advantage_and_value_target_to_episode", "_add_advantage_and_value_target_to_episodes"}
    parts_of_others |= {"_add_log_prob_and_value_to_episodes", "_add_log_prob_and_value_to_episodes_recurrent"}
    names = {name for path, names in OLD_NAMES.items() if path.startswith("agents.") for name in names}
    assert {name for name in names if f".{name}" not in SOURCE} == parts_of_others


@asks("pfrl")
def test_the_facts_are_what_pfrl_gives(tmp_path: Path) -> None:
    given = json.loads(answer("pfrl", "peers/pfrl_functions.py", tmp_path / "facts.json").read_text())
    assert given.keys() == FACTS.keys()
    for case in given:
        np.testing.assert_allclose(given[case], FACTS[case], atol=1e-5, err_msg=case)
