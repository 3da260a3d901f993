"""Persistent buffers: opening again, ancestors, locks, limits, damage, agents that go on in a new process."""

import copy
import gc
import logging
import os
import pickle
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from time_parts import PATIENCE

from pfrl_like.errors import CheckpointError
from pfrl_like.replay_buffers import (
    EpisodicReplayBuffer,
    PersistentEpisodicReplayBuffer,
    PersistentReplayBuffer,
    ReplayBuffer,
)
from pfrl_like.storage import journal, read_arrays, write_arrays
from pfrl_like.storage.journal import SYNCED, read_journal
from pfrl_like.storage.log_directory import LogDirectory

ENVIRON = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
BOTH = pytest.mark.parametrize("make", [PersistentReplayBuffer, PersistentEpisodicReplayBuffer])


def fill(buffer: Any, n: int, begin: int = 0, **extra: Any) -> Any:
    for i in range(begin, begin + n):
        obs, next_obs = np.full(3, i, np.float32), np.full(3, i + 1, np.float32)
        buffer.append(obs, i % 3, float(i), next_obs, is_state_terminal=i % 5 == 4, **extra)
    return buffer


def stored(folder: Path, n: int, make: Any = PersistentReplayBuffer, capacity: int = 20) -> None:
    """Let a directory hold so many transitions."""
    with make(folder, capacity) as buffer:
        fill(buffer, n)


def holds(folder: Path, expected: Any, capacity: int = 20) -> bool:
    """True if the rewards in a directory are these."""
    with PersistentReplayBuffer(folder, capacity) as buffer:
        return rewards(buffer) == list(expected)


def rewards(buffer: Any) -> list[float]:
    return [item[0]["reward"] for item in buffer.memory]


def disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def files_open_in(folder: Path) -> list[str]:
    names = [os.path.realpath(entry) for entry in Path("/proc/self/fd").iterdir()]
    return [name for name in names if name.startswith(f"{folder}{os.sep}")]


@BOTH
def test_a_directory_is_free_as_soon_as_nothing_names_its_buffer(tmp_path, make):
    gc.disable()  # PFRL's scripts know no `close`
    try:
        buffer = fill(make(tmp_path / "b", 20), 10)
        del buffer
        assert rewards(make(tmp_path / "b", 20)) == list(range(10))
    finally:
        gc.enable()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted in /proc")
@BOTH
def test_a_buffer_that_nothing_names_leaves_no_file_open(tmp_path, make):
    buffer = fill(make(tmp_path, 20), 10)
    assert files_open_in(tmp_path)
    del buffer
    gc.collect()
    assert not files_open_in(tmp_path)


def test_a_running_episode_ends_if_the_next_step_does_not_fit(tmp_path):
    with PersistentEpisodicReplayBuffer(tmp_path, 20) as buffer:
        fill(buffer, 3)
        assert buffer.n_episodes == 0
    with PersistentEpisodicReplayBuffer(tmp_path, 20) as buffer:
        fill(buffer, 5, 10)
        assert [len(episode) for episode in buffer.episodic_memory] == [3, 5]


@BOTH
def test_a_smaller_capacity_keeps_the_newest_with_a_warning_that_counts_the_others(tmp_path, make):
    stored(tmp_path, 40, make, 50)
    with pytest.warns(UserWarning) as told, make(tmp_path, 10) as buffer:
        assert len(buffer) == 10
        assert make is PersistentEpisodicReplayBuffer or rewards(buffer) == list(range(30, 40))
    (warning,) = told
    assert f"{tmp_path}: the oldest 30 of 40 transitions are removed" in str(warning.message)
    assert "because capacity is 10" in str(warning.message) and warning.filename == __file__


def test_what_left_before_a_kill_is_not_counted(tmp_path):
    killed = PersistentReplayBuffer(tmp_path, 20)
    fill(killed, 45)
    killed._directory.close()  # what is left when a process is killed: no state was written since it was opened
    warned = pytest.warns(UserWarning, match="8 of 20 transitions are removed")
    with warned, PersistentReplayBuffer(tmp_path, 12) as buffer:
        assert rewards(buffer) == list(range(33, 45))


def telling(monkeypatch, change):
    """Let states be written whose headers are changed."""
    begin = LogDirectory.begin
    monkeypatch.setattr(LogDirectory, "begin", lambda log, header, *rest: begin(log, change(header), *rest))


def test_an_older_directory_that_does_not_tell_its_capacity_is_restricted_too(tmp_path, monkeypatch):
    telling(monkeypatch, lambda header: {key: header[key] for key in header if key != "capacity"})
    stored(tmp_path, 40, capacity=50)
    with pytest.warns(UserWarning, match="30 of 40 transitions"), PersistentReplayBuffer(tmp_path, 10) as buffer:
        assert rewards(buffer) == list(range(30, 40))


@pytest.mark.filterwarnings("error")
def test_a_warning_that_is_an_error_leaves_the_rows_which_larger_capacities_take_without_one(tmp_path):
    stored(tmp_path, 40, capacity=50)
    with pytest.raises(UserWarning, match="30 of 40"):
        PersistentReplayBuffer(tmp_path, 10)
    for capacity in (None, 40, 50):
        with PersistentReplayBuffer(tmp_path, capacity) as buffer:
            assert len(buffer) == 40


@pytest.mark.parametrize("capacity", [0, -3, True, "many", 2.5])
def test_a_capacity_that_cannot_be_is_damage(tmp_path, monkeypatch, capacity):
    with monkeypatch.context() as patch, PersistentReplayBuffer(tmp_path, 50) as buffer:
        fill(buffer, 5)
        telling(patch, lambda header: header | {"capacity": capacity})
        buffer.close()
    with pytest.raises(CheckpointError, match="is damaged: its capacity is"):
        PersistentReplayBuffer(tmp_path, 50)


def test_recurrent_states_and_masks_come_back(tmp_path):
    state = (torch.full((2, 4), 0.5), torch.full((2, 4), 2.0))
    with PersistentEpisodicReplayBuffer(tmp_path, 20) as buffer:
        fill(buffer, 5, recurrent_state=state, action_mask=np.array([True, False]))
    with PersistentEpisodicReplayBuffer(tmp_path, 20) as buffer:
        fill(buffer, 5, 5, recurrent_state=None)
        batch = buffer.sample_sequences(2)
        steps = buffer.sample_batch(10)
    assert batch.recurrent_state[1].unique().tolist() == [0.0, 2.0]
    masks = {int(i): mask.tolist() for i, mask in zip(steps.index, steps.action_mask, strict=True)}
    assert masks[0] == [True, False] and masks[9] == [True, True]


def test_ancestor_is_copied_and_stays_as_it_was(tmp_path):
    stored(tmp_path / "old", 20)
    before = content(tmp_path / "old")
    with PersistentReplayBuffer(tmp_path / "new", 20, ancestor=tmp_path / "old") as buffer:
        assert rewards(buffer) == list(range(20))
        fill(buffer, 7, 20)
    assert content(tmp_path / "old") == before
    assert holds(tmp_path / "new", range(7, 27))


def test_ancestor_may_be_in_use(tmp_path):
    with PersistentReplayBuffer(tmp_path / "old", 20) as old:
        fill(old, 12)
        with PersistentReplayBuffer(tmp_path / "new", 20, ancestor=tmp_path / "old") as buffer:
            assert rewards(buffer) == list(range(12))
        fill(old, 3, 12)
        assert len(old) == 15


def test_ancestor_excludes_a_filled_directory(tmp_path):
    for name in ("old", "new"):
        PersistentReplayBuffer(tmp_path / name, 20).close()
    with pytest.raises(CheckpointError, match="already contains a buffer; leave ancestor"):
        PersistentReplayBuffer(tmp_path / "new", 20, ancestor=tmp_path / "old")


def test_a_refused_ancestor_leaves_no_files(tmp_path):
    stored(tmp_path / "old", 5, PersistentEpisodicReplayBuffer)
    with pytest.raises(CheckpointError, match="has kind 'episodic replay buffer', expected 'replay buffer'"):
        PersistentReplayBuffer(tmp_path / "new", 20, ancestor=tmp_path / "old")
    assert {path.name for path in (tmp_path / "new").iterdir()} == set()
    PersistentReplayBuffer(tmp_path / "new", 20).close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_process_cannot_write_with_the_buffer_of_its_parent(tmp_path):
    with PersistentReplayBuffer(tmp_path, 20) as buffer:
        fill(buffer, 3)
        child = os.fork()
        if child == 0:
            try:
                fill(buffer, 1, 3)
            except CheckpointError as error:
                os._exit(0 if "has one writer" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(buffer) == 3


def test_a_closed_buffer_is_empty_and_refuses(tmp_path):
    buffer = fill(PersistentEpisodicReplayBuffer(tmp_path, 20), 5)
    buffer.close()
    buffer.close()
    assert (len(buffer), buffer.n_episodes) == (0, 0)
    with pytest.raises(CheckpointError, match="is closed"):
        fill(buffer, 1)
    with pytest.raises(CheckpointError, match="is closed"):
        buffer.sync()


def test_episodes_may_be_drawn_in_proportion_to_their_length(tmp_path):
    rng = np.random.default_rng(0)
    with PersistentEpisodicReplayBuffer(tmp_path, 2_000, by_length=True, rng=rng) as buffer:
        for i in range(1_000):  # one episode of 999 steps, one of 1
            buffer.append(np.zeros(1), 0, 0.0, np.zeros(1), is_state_terminal=i >= 998)
        assert [buffer.sample_sequences(1).lengths.item() for _ in range(5)] == [999] * 5


def test_the_process_may_go_to_another_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with PersistentReplayBuffer("here", 20) as buffer:
        fill(buffer, 3)
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        fill(buffer, 2)
    assert len(PersistentReplayBuffer(tmp_path / "here", 20)) == 5


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_copy_would_be_a_second_writer_and_is_refused(tmp_path, duplicate):
    with PersistentReplayBuffer(tmp_path, 20) as buffer, pytest.raises(TypeError, match="another directory"):
        duplicate(buffer)


# Size


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(17,), (4, 32, 32)])
def test_the_disk_holds_at_most_two_and_a_half_times_the_capacity(tmp_path, shape):
    buffer = PersistentReplayBuffer(tmp_path / "b", 1_000, journal_length=100)
    frames = len(shape) == 3
    rng = np.random.default_rng(0)
    frame = [rng.integers(0, 256, shape[1:], np.uint8) for _ in range(4)] if frames else []
    largest = 0
    for i in range(4_000 if frames else 10_000):
        if frames:
            obs, frame = np.stack(frame), [*frame[1:], rng.integers(0, 256, shape[1:], np.uint8)]
            next_obs = np.stack(frame)
        else:
            obs, next_obs = np.full(shape, i, np.float32), np.full(shape, i + 1, np.float32)
        buffer.append(obs, np.zeros(6, np.float32), 1.0, next_obs, is_state_terminal=False)
        if i % 50 == 0:
            largest = max(largest, disk(tmp_path / "b"))
    buffer.save(tmp_path / "file")
    buffer.close()
    assert largest <= 2.5 * (tmp_path / "file").stat().st_size


def test_journal_length_says_when_the_state_is_written_anew(tmp_path):
    buffer = PersistentReplayBuffer(tmp_path, 1_000, journal_length=20)
    lengths = []
    for i in range(60):
        fill(buffer, 1, i)
        lengths.append(buffer._directory.count)
    assert 15 <= max(lengths) <= 50
    assert lengths[-1] < sum(b > a for a, b in zip(lengths, lengths[1:], strict=False))
    buffer.close()


def test_the_size_is_told_once_before_it_is_taken(tmp_path):
    logger = logging.getLogger("told")
    logger.setLevel(logging.INFO)
    told: list[str] = []
    logger.addFilter(lambda record: told.append(record.getMessage()) or True)
    buffer = PersistentReplayBuffer(tmp_path, 1_000_000, logger=logger)
    assert not told
    fill(buffer, 3)
    # 1,000,000 * (1.25 * 12 bytes of an observation + 160) = 175 MB
    assert told == [f"{tmp_path}: 1000000 transitions will take about 175.0 MB"]
    buffer.close()


def test_a_disk_that_is_too_small_is_refused_at_the_first_step(tmp_path):
    buffer = PersistentReplayBuffer(tmp_path, 10**15)
    with pytest.raises(CheckpointError, match="free disk space or use a smaller capacity"):
        fill(buffer, 1)
    assert len(buffer) == 0


def test_a_disk_that_fills_up_stops_the_buffer_and_keeps_what_was_stored(tmp_path, monkeypatch):
    buffer = fill(PersistentReplayBuffer(tmp_path, 20), 5)

    def full(*arguments: Any) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("pfrl_like.storage.journal.os.write", full)
        with pytest.raises(CheckpointError, match="No space left"):
            fill(buffer, 1, 5)
    with pytest.raises(CheckpointError, match="cannot store any more after an earlier error: .*No space left"):
        fill(buffer, 1, 5)
    buffer.close()
    assert holds(tmp_path, range(5))


WAITING = {
    "save_increment": lambda buffer, folder: buffer.save_increment(folder),
    "state_dict": lambda buffer, folder: buffer.state_dict(),
    "sync": lambda buffer, folder: buffer.sync(),
}


@pytest.mark.parametrize("kind", ["journal", "columns"])
@pytest.mark.parametrize("waiting", WAITING.values(), ids=WAITING)
def test_what_the_disk_has_not_taken_is_not_said_to_be_on_it_later(tmp_path, monkeypatch, kind, waiting):
    place = tmp_path / "steps"
    buffer = PersistentReplayBuffer(place, 20, sync_every=10**6, sync_seconds=1e9)
    fill(buffer, 5)
    fsync, failed = os.fsync, []

    def fails_once(descriptor: int) -> None:
        status = os.fstat(descriptor)
        if not failed and any(os.path.samestat(status, path.stat()) for path in place.glob(f"{kind}-*")):
            failed.append(descriptor)
            raise OSError(5, "Input/output error")
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", fails_once)
    with pytest.raises(CheckpointError, match="Input/output error"):
        waiting(buffer, tmp_path / "saves")
    for again in (lambda: fill(buffer, 1, 5), buffer.sync, lambda: waiting(buffer, tmp_path / "saves")):
        with pytest.raises(CheckpointError, match="cannot store any more after an earlier error: .*Input/output error"):
            again()
    (path,) = place.glob("journal-*")
    buffer.close()
    assert read_journal(str(path))[0].count(SYNCED) == 1  # where it began
    with PersistentReplayBuffer(place, 20) as buffer:
        assert rewards(buffer) == list(range(5))
        fill(buffer, 1, 5)


def test_a_journal_is_never_longer_than_what_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "_LARGEST", 1500)
    buffer = PersistentReplayBuffer(tmp_path, 100, journal_length=10**6, sync_every=3, sync_seconds=1e9)
    generations = set()
    for i in range(120):
        fill(buffer, 1, i)
        for _ in range(i % 7):
            buffer.sync()
        (now,) = tmp_path.glob("journal-*")
        generations.add(now.name)
        assert now.stat().st_size <= 1500
    many = np.arange(360, dtype=np.float32).reshape(120, 3)  # whose records are more than a journal takes
    stops = np.zeros(120, bool)
    buffer.append_batch(many, stops.astype(int), many[:, 0], many + 1, stops, stops, env_ids=range(120))
    held = rewards(buffer)
    assert len(generations) > 5 and len(held) == 100
    buffer._directory.close()  # what is left when a process is killed
    with PersistentReplayBuffer(tmp_path, 100) as buffer:
        assert rewards(buffer) == held


# Syncing


@pytest.mark.parametrize("options, expected", [({"sync_every": 4}, 3), ({"sync_seconds": 0.0}, 11), ({}, 0)])
def test_rows_are_synced_as_often_as_asked_for(tmp_path, monkeypatch, options, expected):
    buffer = PersistentReplayBuffer(tmp_path, 20, **({"sync_seconds": 1e9} | options))
    fill(buffer, 1)
    synced: list[None] = []
    sync = buffer._directory.sync
    monkeypatch.setattr(buffer._directory, "sync", lambda: (synced.append(None), sync()))
    buffer.append_batch([np.zeros(3, np.float32)], [0], [0.0], [np.ones(3, np.float32)], [False], [False])
    for i in range(10):
        here, there = np.full(3, i + 1, np.float32), np.full(3, i + 2, np.float32)
        buffer.append(here, 0, 0.0, there)
    assert len(synced) == expected
    buffer.state_dict()
    assert len(synced) == expected + 1
    buffer.close()


# What is refused


def test_what_is_no_array_is_refused(tmp_path):
    buffer = PersistentReplayBuffer(tmp_path, 20)
    with pytest.raises(ValueError, match="obs: got str, which is not an array of numbers; .*use ReplayBuffer"):
        buffer.append("text", 0, 0.0, "more")
    with pytest.raises(ValueError, match="action: got str"):
        buffer.append(1.0, "left", 0.0, 2.0)
    with pytest.raises(ValueError, match="note: got dict|note: got str"):
        buffer.append(1.0, 0, 0.0, 2.0, note="seen")
    with pytest.raises(ValueError, match="env_id: got 0.5, expected an integer, a string or a tuple"):
        buffer.append(1.0, 0, 0.0, 2.0, env_id=0.5)
    assert len(buffer) == 0
    buffer.append_batch([1.0, 2.0], [0, 1], [0.0, 0.0], [2.0, 3.0], [False, False], [False, True], ["a", ("b", 1)])
    with pytest.raises(ValueError, match="obs: got ndarray of shape"):
        buffer.append(np.zeros(3), 0, 0.0, np.zeros(3))
    assert len(buffer) == 2
    buffer.close()


@pytest.mark.parametrize(
    "options",
    [{"sync_every": 0}, {"sync_seconds": -1.0}, {"sync_seconds": float("nan")}, {"journal_length": 0}, {"group": 1}],
)
def test_arguments_out_of_range_are_refused(tmp_path, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        PersistentReplayBuffer(tmp_path / "b", 20, **options)


def test_a_file_is_no_directory(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match="cannot be created"):
        PersistentReplayBuffer(tmp_path / "file", 20)


def test_a_directory_of_another_number_of_steps_is_refused(tmp_path):
    PersistentReplayBuffer(tmp_path, 20).close()
    with pytest.raises(CheckpointError, match="has num_steps 1, expected 3"):
        PersistentReplayBuffer(tmp_path, 20, num_steps=3)


def test_a_read_only_directory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("filelock.FileLock.acquire", lambda lock: (_ for _ in ()).throw(PermissionError(13, "denied")))
    with pytest.raises(CheckpointError, match="cannot be locked: denied"):
        PersistentReplayBuffer(tmp_path, 20)


def test_values_without_their_meta_file_are_refused(tmp_path):
    stored(tmp_path, 5)
    (tmp_path / "meta.json").unlink()
    with pytest.raises(CheckpointError, match=r"but no meta\.json"):
        PersistentReplayBuffer(tmp_path, 20)


def announce(folder, **leaf):
    """Let the state say another thing of the observations."""
    (state,) = folder.glob("state-*.bin")
    header, arrays = read_arrays(state)
    header["columns"]["obs"]["leaves"][0].update(leaf)
    write_arrays(state, header, arrays)


@pytest.mark.parametrize(
    "leaf",
    [
        {"shape": [1 << 20]}, {"shape": [1 << 40]}, {"shape": [1] * 70}, {"shape": [10**30] * 9}, {"dtype": "|S0"},
        {"kind": "frames", "depth": 1 << 20, "axis": 0, "frame_shape": [3]},
        {"kind": "frames", "depth": 2, "axis": 0, "frame_shape": [3]},
        {"kind": "frames", "depth": -1, "axis": 7, "frame_shape": [3]},
    ],
    ids=str,
)  # fmt: skip
def test_files_do_not_grow_to_what_a_damaged_state_tells(tmp_path, leaf):
    stored(tmp_path, 3)
    announce(tmp_path, **leaf)
    before = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    with pytest.raises(CheckpointError, match=str(tmp_path)):
        PersistentReplayBuffer(tmp_path, 20)
    assert {path.name: path.stat().st_size for path in tmp_path.iterdir()} | before == before


def test_a_lost_end_of_the_journal_is_told(tmp_path, caplog):
    fill(PersistentReplayBuffer(tmp_path, 20), 8)._directory.close()
    (journal,) = tmp_path.glob("journal-*")
    journal.write_bytes(journal.read_bytes()[:-3])
    assert holds(tmp_path, range(7))
    # A record that is cut off in the middle is not even counted; one whose values are wrong is.
    fill(PersistentReplayBuffer(tmp_path, 20), 1, 7)._directory.close()
    (values,) = tmp_path.glob("columns-*")
    stored = values.read_bytes()
    values.write_bytes(stored.replace(np.full(3, 8, np.float32).tobytes(), np.full(3, -8, np.float32).tobytes()))
    assert holds(tmp_path, range(7))
    assert "records are incomplete and are ignored" in caplog.text


# Files of the ordinary form


@BOTH
def test_save_writes_a_file_for_the_buffer_in_memory(tmp_path, make):
    with make(tmp_path / "b", 20) as buffer:
        fill(buffer, 30).save(tmp_path / "file")
    plain = EpisodicReplayBuffer(20) if make is PersistentEpisodicReplayBuffer else ReplayBuffer(20)
    plain.load(tmp_path / "file")
    assert rewards(plain) == list(range(10, 30))


@BOTH
def test_load_replaces_the_directory(tmp_path, make):
    plain = EpisodicReplayBuffer(20) if make is PersistentEpisodicReplayBuffer else ReplayBuffer(20)
    fill(plain, 10, 100).save(tmp_path / "file")
    with make(tmp_path / "b", 20) as buffer:
        fill(buffer, 15).load(tmp_path / "file")
        assert rewards(buffer) == list(range(100, 110))
        with pytest.raises(CheckpointError):
            buffer.load(__file__)
        fill(buffer, 5, 110)
    with make(tmp_path / "b", 20) as buffer:
        assert rewards(buffer) == list(range(100, 115))
    assert len(list((tmp_path / "b").glob("columns-*"))) == 1


def test_a_file_of_pfrl_fills_the_directory(tmp_path):
    source = Path(__file__).parents[2] / "data" / "pfrl_0_4_replay_buffer.pkl"
    plain = ReplayBuffer(100)
    plain.load(str(source), allow_pickle=True)
    with PersistentReplayBuffer(tmp_path, 100) as buffer:
        buffer.load(str(source), allow_pickle=True)
        assert rewards(buffer) == rewards(plain)
    with PersistentReplayBuffer(tmp_path, 100) as buffer:
        assert rewards(buffer) == rewards(plain)


# In company


RANKS = """
    import sys
    import numpy as np, torch.distributed as dist
    from pfrl_like.replay_buffers import PersistentReplayBuffer
    rank, folder = int(sys.argv[1]), sys.argv[2]
    dist.init_process_group("gloo", init_method="file://" + folder + ".init", rank=rank, world_size=2)
    for name, ancestor in (("first", None), ("second", folder + "/first")):
        with PersistentReplayBuffer(folder + "/" + name, 50, distributed=True, ancestor=ancestor) as buffer:
            for i in range(10):
                buffer.append(np.full(3, 100 * rank + i, np.float32), 0, 100.0 * rank + i, np.zeros(3, np.float32))
            print(len(buffer), {int(reward) // 100 for reward in buffer.sample_batch(len(buffer)).reward})
    groups = [dist.new_group([i]) for i in range(2)]
    with PersistentReplayBuffer(folder + "/alone-" + str(rank), 50, distributed=True, group=groups[rank]) as buffer:
        print(buffer.dirname.rpartition("/")[2])
    try:
        PersistentReplayBuffer(folder + "/other", 50, distributed=True, group=groups[1 - rank])
    except ValueError as error:
        print(error)
    dist.barrier()
"""


@pytest.fixture
def group_of_one(tmp_path):
    init = f"file://{tmp_path / 'init'}"
    torch.distributed.init_process_group("gloo", init_method=init, rank=0, world_size=1)
    yield torch.distributed.group.WORLD
    torch.distributed.destroy_process_group()


@pytest.mark.slow
@pytest.mark.skipif(not torch.distributed.is_available(), reason="needs torch.distributed")
def test_each_process_of_a_group_has_a_part_of_its_own(tmp_path):
    script, folder = textwrap.dedent(RANKS), str(tmp_path / "shared")
    own = [[sys.executable, "-c", script, str(rank), folder] for rank in range(2)]
    running = [subprocess.Popen(arguments, env=ENVIRON, stdout=subprocess.PIPE, text=True) for arguments in own]
    told = [process.communicate(timeout=2 * PATIENCE)[0].splitlines() for process in running]
    of_groups = ["rank-0-of-1", "group: this process does not belong to the group"]
    assert told == [["10 {0}", "20 {0}", *of_groups], ["10 {1}", "20 {1}", *of_groups]]
    assert {path.name for path in (tmp_path / "shared" / "first").iterdir()} == {"rank-0-of-2", "rank-1-of-2"}


def test_a_group_of_another_size_is_refused(tmp_path, group_of_one):
    (tmp_path / "rank-1-of-2").mkdir()
    with pytest.raises(CheckpointError, match="divided among 2 processes, but the group has 1; start 2 processes"):
        PersistentReplayBuffer(tmp_path, 50, distributed=True, group=group_of_one)
    with pytest.raises(CheckpointError, match="divided among 2 processes; open it with distributed=True"):
        PersistentReplayBuffer(tmp_path, 50)


def test_all_processes_may_begin_with_one_ancestor(tmp_path, group_of_one):
    stored(tmp_path / "old", 5)
    with PersistentReplayBuffer(tmp_path / "new", 20, distributed=True, ancestor=tmp_path / "old") as buffer:
        assert len(buffer) == 5
    with pytest.raises(CheckpointError, match="is the buffer of a single process"):
        PersistentReplayBuffer(tmp_path / "old", 20, distributed=True)


def test_distributed_needs_a_group(tmp_path):
    with pytest.raises(ValueError, match=r"torch.distributed is not running; .*torchrun.*init_process_group"):
        PersistentEpisodicReplayBuffer(tmp_path, 20, distributed=True)


def test_a_copied_directory_is_a_buffer_of_its_own(tmp_path):
    stored(tmp_path / "a", 5)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with PersistentReplayBuffer(tmp_path / "a", 20) as one, PersistentReplayBuffer(tmp_path / "b", 20) as other:
        fill(one, 1, 5)
        assert (len(one), len(other)) == (6, 5)


@BOTH
def test_a_buffer_that_is_handed_over_is_opened_with_the_same_arguments(tmp_path, make):
    buffer = fill(make(tmp_path / "b", 20, sync_every=7), 10)
    opens = pickle.loads(pickle.dumps(buffer.hand_over()))
    with pytest.raises(CheckpointError, match="is closed"):
        fill(buffer, 1)
    with opens() as other:
        assert (rewards(other), other.capacity, other.sync_every) == (list(range(10)), 20, 7)
