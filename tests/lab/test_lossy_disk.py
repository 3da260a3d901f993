"""After a power cut at any moment of a save, what is loaded is the old state or the new; once it is over, the new."""

import random
import shutil
import warnings
from pathlib import Path

import pytest

pytest.importorskip("h5py")

from lab.lossy_disk import LossyDisk, lay  # noqa: E402
from lab.subjects import BUFFERS, SLOW, WRITERS, Subject  # noqa: E402

from pfrl_like.errors import CheckpointError  # noqa: E402

#: The record of a run is told not to be durable; an evaluation is written as a model is, and buffers are as a buffer.
SUBJECTS = [name for name in WRITERS if name not in ("run", *SLOW, *(f"{kind} buffer" for kind in BUFFERS))]


def states(subject: Subject, disks: list[dict[str, bytes]], folder: Path) -> set[int | None]:
    """The numbers that are loaded from disks; None where nothing is."""
    found: set[int | None] = set()
    for disk in disks:
        shutil.rmtree(folder, ignore_errors=True)
        lay(disk, folder)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that the save before is used
                found.add(subject.read(folder))
        except CheckpointError:
            found.add(None)
    return found


@pytest.mark.parametrize(("draws", "most"), [(1, 8), pytest.param(40, 100_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SUBJECTS)
def test_a_power_cut_leaves_the_old_state_or_the_new_one(name, draws, most, tmp_path):
    subject, rng = WRITERS[name], random.Random(0)
    disk, copy = tmp_path / "disk", tmp_path / "copy"
    disk.mkdir()
    subject.write(disk, 0)
    lossy = LossyDisk(disk)
    with lossy.recording():
        subject.write(disk, 1)
    assert len(lossy.moments) > 3
    disks = list(lossy.disks(rng, draws))
    assert states(subject, [disks[0], disks[-1], *rng.sample(disks, min(most, len(disks)))], copy) == {0, 1}
    lossy.moments = lossy.moments[-1:]
    assert states(subject, list(lossy.disks(rng, draws)), copy) == {1}


def test_a_power_cut_leaves_a_new_directory_whole_or_none(tmp_path):
    subject, rng = WRITERS["agent"], random.Random(0)
    (tmp_path / "disk").mkdir()
    lossy = LossyDisk(tmp_path / "disk")
    with lossy.recording():
        subject.write(tmp_path / "disk", 1)
    disks = list(lossy.disks(rng, 1))
    there = [disk for disk in disks if any(name.startswith("agent/") for name in disk)]
    assert 0 < len(there) < len(disks)
    assert states(subject, there, tmp_path / "copy") == {1}


def test_the_model_loses_what_is_not_synced(tmp_path):
    (tmp_path / "x").write_bytes(b"0000")
    lossy = LossyDisk(tmp_path)
    with lossy.recording():
        (tmp_path / "x").write_bytes(b"11112222")
        (tmp_path / "y").touch()
    disks = list(lossy.disks(random.Random(0), 100))
    assert {disk["x"] for disk in disks} == {b"0000", b"0000\0\0\0\0", b"000022", b"11002222", b"11112222"}
    assert {"y" in disk for disk in disks} == {False, True}
