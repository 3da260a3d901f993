"""PFRL's small modules and functions give PFRL's numbers."""

import json
from typing import Any

import pytest
from peer_libraries import answer, asks
from peers.pfrl_small_modules import RESULTS


@pytest.fixture(scope="module")
def results_of_pfrl(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("peer") / "results.json"
    return json.loads(answer("pfrl", "peers/pfrl_small_modules.py", path).read_text())


def flat(value: Any) -> list[Any]:
    """The numbers and texts in a nested value."""
    if isinstance(value, dict):
        return [each for item in value.items() for each in flat(list(item))]
    return [each for part in value for each in flat(part)] if isinstance(value, list) else [value]


@asks("pfrl")
@pytest.mark.parametrize("name", RESULTS)
def test_results_are_those_of_pfrl(name: str, results_of_pfrl: Any) -> None:
    own = flat(json.loads(json.dumps(RESULTS[name]("pfrl_like"))))
    expected = flat(results_of_pfrl[name])
    assert len(own) == len(expected) > 10
    for mine, theirs in zip(own, expected, strict=True):
        assert mine == (pytest.approx(theirs, abs=1e-5) if isinstance(theirs, float) else theirs)
