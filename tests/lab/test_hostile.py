"""The corpus of hostile files: every one is refused by every loader that meets it, and none makes anything happen."""

import re
import sys

import pytest

pytest.importorskip("h5py")

from lab.children import forked  # noqa: E402
from lab.watched import watched  # noqa: E402

#: Whose damaged files count as absent: a new run, or a dataset of no images, needs nothing that they tell, and a run
#: goes on from another checkpoint.
LENIENT = ("run: ", "minari: set-v0/data/metadata.json: json", "epochs: ")
#: What has no checksums of its own, so that damage may change what is read.
UNCHECKED = ("hdf5: ", "minari: ", "images: ", "params: ", "run: ", "epochs: ")


def allowed(name: str) -> set[str]:
    """How a case may end."""
    if re.search(r": (cut|flip) at ", name):
        return {"refused", "was read", *(["was read as another state"] if name.startswith(UNCHECKED) else [])}
    return {"refused", "was read"} if name.startswith(LENIENT) else {"refused"}


@pytest.mark.timeout(1200)
@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux tells it")
@pytest.mark.parametrize(("every", "least"), [(40, 30), pytest.param(1, 2000, marks=pytest.mark.slow)])
def test_every_hostile_file_is_refused_within_a_second_and_bounded_memory(every, least, tmp_path):
    report = forked(watched, tmp_path, every)
    outcomes = report["outcomes"]
    assert len(outcomes) > least
    assert {name: told["end"] for name, told in outcomes.items() if told["end"] not in allowed(name)} == {}
    assert {name: told["seen"] for name, told in outcomes.items() if told["seen"]} == {}
    assert {name: told["seconds"] for name, told in outcomes.items() if told["seconds"] > 1} == {}  # of the processor
    assert {name: told["memory"] for name, told in outcomes.items() if told["memory"] > 64 << 10} == {}  # KiB
    assert report["escaped"] == []
