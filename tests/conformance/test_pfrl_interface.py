"""Every public name, method and parameter of PFRL is here, at the same place, or is a departure with a reason."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from pfrl_departures import DEPARTURES
from pfrl_interface import FACTS, NAMES, ROOT, differences

PEER = Path(os.environ.get("PFRL_LIKE_PEERS", ROOT / ".peers")) / "pfrl/bin/python"


@pytest.mark.parametrize("module", NAMES)
def test_module_has_pfrls_names_and_parameters(module: str) -> None:
    assert differences(module) == {path for path in DEPARTURES if path.partition(":")[0] == module}


def test_departures_are_of_pfrls_names() -> None:
    assert {path.partition(":")[0] for path in DEPARTURES} <= {*NAMES}


def test_departures_are_in_the_document() -> None:
    names = {re.split("[:.]", path.partition("(")[0].removesuffix(".__init__"))[-1] for path in DEPARTURES}
    assert names <= {*re.findall(r"\w+", (ROOT / "docs/departures.md").read_text(encoding="utf-8"))}


@pytest.mark.peers
@pytest.mark.skipif(not PEER.exists(), reason="PFRL is not installed beside: make peers")
def test_the_facts_are_those_of_pfrl(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    subprocess.run([PEER, ROOT / "tests/support/probe_pfrl.py", path], check=True, capture_output=True)
    assert json.loads(path.read_text(encoding="utf-8")) == FACTS
