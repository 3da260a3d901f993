"""Every public name, method and parameter of PFRL is here, at the same place, or is a departure with a reason."""

import json
import re
from pathlib import Path

import pytest
from peer_libraries import answer, asks
from pfrl_departures import DEPARTURES
from pfrl_interface import FACTS, NAMES, ROOT, differences


@pytest.mark.parametrize("module", NAMES)
def test_module_has_pfrls_names_and_parameters(module: str) -> None:
    assert differences(module) == {path for path in DEPARTURES if path.partition(":")[0] == module}


def test_departures_are_of_pfrls_names() -> None:
    assert {path.partition(":")[0] for path in DEPARTURES} <= {*NAMES}


def test_departures_are_in_the_document() -> None:
    names = {re.split("[:.]", path.partition("(")[0].removesuffix(".__init__"))[-1] for path in DEPARTURES}
    assert names <= {*re.findall(r"\w+", (ROOT / "docs/departures.md").read_text(encoding="utf-8"))}


@asks("pfrl")
def test_the_facts_are_those_of_pfrl(tmp_path: Path) -> None:
    path = answer("pfrl", "support/probe_pfrl.py", tmp_path / "facts.json")
    assert json.loads(path.read_text(encoding="utf-8")) == FACTS
