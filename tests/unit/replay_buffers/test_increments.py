"""Saves of a buffer that share a folder: their files, what they cost, what is refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pfrl_like import replay_buffers
from pfrl_like.errors import CheckpointError

DATA = Path(__file__).parents[2] / "data"


def stack(i: int) -> np.ndarray:
    return np.stack([np.full((32, 32), (i + back) % 251, np.uint8) for back in range(4)])


def append(buffer: Any, steps: range, obs: Any = stack) -> None:
    for i in steps:
        buffer.append(obs(i), i % 3, float(i), obs(i + 1), is_state_terminal=i % 100 == 99)


def rewards(buffer: Any) -> list[float]:
    return [item[0]["reward"] for item in buffer.memory]


def restored(folder: Path, reference: Any, **options: Any) -> replay_buffers.ReplayBuffer:
    buffer = replay_buffers.ReplayBuffer(**options)
    buffer.load_increment(folder, reference)
    return buffer


@pytest.fixture
def small_segments(monkeypatch):
    monkeypatch.setattr(replay_buffers.saved, "_LARGEST", 64)


def test_a_save_writes_what_is_new_and_stacked_frames_once(tmp_path, small_segments):
    buffer = replay_buffers.ReplayBuffer(1000)
    append(buffer, range(640))
    first = buffer.save_increment(tmp_path)
    before = {path.name for path in tmp_path.iterdir()}
    append(buffer, range(640, 704))
    second = buffer.save_increment(tmp_path, first)
    new = sum(path.stat().st_size for path in tmp_path.iterdir() if path.name not in before)
    assert 64 * 32 * 32 < new < 1.3 * 64 * 32 * 32 + 10_000
    assert second["segments"][:-1] == first["segments"]
    assert rewards(restored(tmp_path, second)) == rewards(buffer)
    assert rewards(restored(tmp_path, first)) == rewards(buffer)[:640]


@pytest.mark.slow
def test_many_small_saves_leave_few_segments(tmp_path, small_segments):
    buffer, reference = replay_buffers.ReplayBuffer(1000), None
    for i in range(64):
        append(buffer, range(i, i + 1), float)
        reference = buffer.save_increment(tmp_path, reference)
        assert len(reference["segments"]) == bin(i + 1).count("1")
        replay_buffers.prune(tmp_path, [reference])
        assert len(list(tmp_path.iterdir())) == len(reference["segments"]) + 1
    assert rewards(restored(tmp_path, reference)) == rewards(buffer)


def test_a_buffer_remembers_the_saves_of_all_folders_that_are_there(tmp_path, small_segments):
    buffer, last = replay_buffers.ReplayBuffer(), {}
    for i in range(10):
        append(buffer, range(64 * i, 64 * i + 64), float)
        for folder in (tmp_path / "a", tmp_path / "b"):
            reference = buffer.save_increment(folder, last.get(folder))
            assert reference["segments"][:i] == last.get(folder, {"segments": []})["segments"]
            last[folder] = reference
            replay_buffers.prune(folder, [reference])
    assert len(buffer._increments) <= 3


def test_segments_whose_items_have_left_are_not_named_any_more(tmp_path, small_segments):
    buffer, reference = replay_buffers.ReplayBuffer(100), None
    for i in range(10):
        append(buffer, range(64 * i, 64 * i + 64), float)
        reference = buffer.save_increment(tmp_path, reference)
    replay_buffers.prune(tmp_path, [reference])
    assert [segment["first"] for segment in reference["segments"]] == [512, 576]
    assert len(list(tmp_path.iterdir())) == 3
    assert rewards(restored(tmp_path, reference)) == rewards(buffer)
    assert rewards(restored(tmp_path, reference, capacity=7)) == rewards(buffer)[-7:]


def test_a_reference_of_other_content_makes_everything_new(tmp_path):
    buffer, other = replay_buffers.ReplayBuffer(), replay_buffers.ReplayBuffer()
    append(buffer, range(5), float)
    append(other, range(10, 30), float)
    reference = other.save_increment(tmp_path, buffer.save_increment(tmp_path))
    assert rewards(restored(tmp_path, reference)) == rewards(other)
    buffer.load_state_dict(other.state_dict())
    append(buffer, range(30, 31), float)
    assert rewards(restored(tmp_path, buffer.save_increment(tmp_path, reference))) == rewards(buffer)


def test_a_save_elsewhere_or_without_its_files_is_whole(tmp_path):
    buffer = replay_buffers.ReplayBuffer()
    append(buffer, range(5), float)
    reference = buffer.save_increment(tmp_path / "a")
    append(buffer, range(5, 6), float)
    there = buffer.save_increment(tmp_path / "b" / "c", reference)
    assert rewards(restored(tmp_path / "b" / "c", there)) == rewards(buffer)


def test_prune_removes_nothing_else(tmp_path):
    for name in ("notes.txt", "segment-1.bin", ".tmp-segment-0123456789abcdef.bin-1-ab"):
        (tmp_path / name).write_text("x")
    buffer = replay_buffers.ReplayBuffer()
    append(buffer, range(5), float)
    buffer.save_increment(tmp_path)
    replay_buffers.prune(tmp_path, [])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "segment-1.bin"]
    replay_buffers.prune(tmp_path / "absent", [])
    with pytest.raises(CheckpointError):
        replay_buffers.prune(tmp_path, [{"table": {"name": "../notes.txt", "size": 1, "crc32": 1}, "segments": []}])


def test_objects_need_a_pickle(tmp_path):
    buffer, loaded = replay_buffers.ReplayBuffer(), replay_buffers.ReplayBuffer()
    append(buffer, range(5), lambda i: [str(i)] * 2)
    with pytest.raises(CheckpointError, match="pickle"):
        buffer.save_increment(tmp_path)
    reference = buffer.save_increment(tmp_path, allow_pickle=True)
    with pytest.raises(CheckpointError, match="pickle"):
        loaded.load_increment(tmp_path, reference)
    loaded.load_increment(tmp_path, reference, allow_pickle=True)
    assert [item[0]["state"] for item in loaded.memory] == [[str(i)] * 2 for i in range(5)]


# Changes of what has been written


def size_of(reference: Any, before: Any) -> int:
    """Bytes that a save has written beyond an earlier one."""
    names = {entry["name"] for entry in [*before["segments"], before["table"]]}
    return sum(entry["size"] for entry in [*reference["segments"], reference["table"]] if entry["name"] not in names)


def test_changes_are_written_beside_the_segments_which_stay(tmp_path, small_segments):
    buffer = replay_buffers.ReplayBuffer(1000)
    append(buffer, range(640))
    first = buffer.save_increment(tmp_path)
    empty = buffer.save_increment(tmp_path, first)
    for i in range(0, 640, 8):
        buffer.memory[i][0].update(reward=1000.0 + i, action=7)
    second = buffer.save_increment(tmp_path, first)
    assert second["segments"] == first["segments"]
    assert size_of(second, first) < size_of(empty, first) + 80 * 100  # no observations
    loaded = restored(tmp_path, second)
    assert rewards(loaded) == rewards(buffer) and loaded.memory[8][0]["action"] == 7
    assert rewards(restored(tmp_path, first))[:9] == [float(i) for i in range(9)]


def test_segments_of_which_much_has_changed_are_written_anew(tmp_path, small_segments):
    buffer = replay_buffers.ReplayBuffer(1000)
    append(buffer, range(320), float)
    first = buffer.save_increment(tmp_path)
    for item in buffer.memory[64:90]:
        item[0]["reward"] = -1.0
    buffer.memory[200][0]["reward"] = -2.0
    second = buffer.save_increment(tmp_path, first)
    stay = [a == b for a, b in zip(first["segments"], second["segments"], strict=True)]
    assert stay == [True, False, True, True, True]
    assert [segment["first"] for segment in second["segments"]] == [0, 64, 128, 192, 256]
    third = buffer.save_increment(tmp_path, second)
    assert third["segments"] == second["segments"]
    assert rewards(restored(tmp_path, third)) == rewards(buffer)


def test_saves_into_several_folders_have_their_changes_each(tmp_path, small_segments):
    buffer, last = replay_buffers.ReplayBuffer(1000), {}
    append(buffer, range(320), float)
    for i in range(8):
        folder = tmp_path / "ab"[i % 2]
        for item in buffer.memory[64:74]:
            item[0]["reward"] = -float(i)
        buffer.memory[200 + i][0]["reward"] = -1.0
        last[folder] = buffer.save_increment(folder, last.get(folder))
        assert rewards(restored(folder, last[folder])) == rewards(buffer)


def test_an_episode_that_waits_for_nothing_does_so_after_its_step_was_changed(tmp_path):
    buffer = replay_buffers.ReplayBuffer()
    buffer.append(0.0, 0, 0.0, None)
    reference = buffer.save_increment(tmp_path)
    buffer.memory[0][0]["next_state"] = 7.0
    loaded = restored(tmp_path, buffer.save_increment(tmp_path, reference))
    assert [each._columns.continues(0, 7.0) for each in (buffer, loaded)] == [False, False]
    assert loaded.memory[0][0]["next_state"] == 7.0


def test_a_save_from_before_there_were_changes_is_restored(tmp_path):
    saves = shutil.copytree(DATA / "increments_before_edits", tmp_path / "saves")
    reference = json.loads((saves / "reference.json").read_text())
    buffer = restored(saves, reference, capacity=8, num_steps=2)
    assert rewards(buffer) == [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
    assert buffer._columns.continues(0, 11.0)
    buffer.memory[1][0]["reward"] = -1.0
    buffer.append(11.0, 0, 11.0, 12.0)
    again = restored(saves, buffer.save_increment(saves, reference), num_steps=2)
    assert rewards(again) == [-1.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]


DAMAGE = {
    "path": lambda reference, first: first.update(name="../" + first["name"]),
    "number": lambda reference, first: first.update(count=-1),
    "gap": lambda reference, first: reference["segments"].remove(first),
    "more": lambda reference, first: first.update(count=first["count"] + 1),
    "other checksum": lambda reference, first: first.update(crc32=first["crc32"] ^ 1),
    "no table": lambda reference, first: reference.pop("table"),
    "swapped": lambda reference, first: reference.update(table={key: first[key] for key in reference["table"]}),
    "rng": lambda reference, first: reference.update(rng={"bit_generator": "PCG64"}),
    "kind": lambda reference, first: None,
}


@pytest.mark.parametrize("change", DAMAGE)
def test_a_reference_that_does_not_fit_is_refused_and_the_content_stays(change, tmp_path, small_segments):
    buffer = replay_buffers.ReplayBuffer()
    append(buffer, range(100), float)
    reference = json.loads(json.dumps(buffer.save_increment(tmp_path)))
    DAMAGE[change](reference, reference["segments"][0])
    loaded = replay_buffers.EpisodicReplayBuffer() if change == "kind" else replay_buffers.ReplayBuffer()
    append(loaded, range(100, 200), float)
    before = rewards(loaded)
    with pytest.raises(CheckpointError):
        loaded.load_increment(tmp_path, reference)
    assert rewards(loaded) == before


def test_any_damage_to_a_file_is_told_and_the_content_stays(tmp_path, small_segments):
    buffer = replay_buffers.PrioritizedReplayBuffer(num_steps=3)
    append(buffer, range(70), float)
    reference = buffer.save_increment(tmp_path)
    buffer.memory.data[3][0]["reward"] = 50.0
    reference = buffer.save_increment(tmp_path, reference)
    replay_buffers.prune(tmp_path, [reference])
    before = rewards(buffer)
    for path in sorted(tmp_path.iterdir()):
        content = path.read_bytes()
        for at in range(0, len(content), max(1, len(content) // 25)):
            for changed in (content[:at], content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]):
                path.write_bytes(changed)
                with pytest.raises(CheckpointError):
                    buffer.load_increment(tmp_path, reference)
                assert rewards(buffer) == before
        path.unlink()
        with pytest.raises(CheckpointError):
            buffer.load_increment(tmp_path, reference)
        path.write_bytes(content)
    buffer.load_increment(tmp_path, reference)


def vector(i: int) -> np.ndarray:
    return np.full(5000, i, np.float32)


def persistent(folder: Path, capacity: int = 6, **options: Any) -> replay_buffers.PersistentReplayBuffer:
    return replay_buffers.PersistentReplayBuffer(folder / "steps", capacity, sync_every=1, journal_length=9, **options)


@pytest.mark.slow
def test_saves_that_were_moved_can_be_gone_back_to_again_and_again(tmp_path, no_waiting_for_the_disk):
    saves = []
    with persistent(tmp_path) as buffer:
        for begin in (0, 10):
            append(buffer, range(begin, begin + 10), vector)
            saves.append((buffer.save_increment(tmp_path / "saves"), rewards(buffer)))
    (tmp_path / "saves").rename(tmp_path / "moved")
    for reference, held in [saves[1], saves[1], *saves]:
        with persistent(tmp_path) as buffer:
            buffer.load_increment(tmp_path / "moved", reference)
            assert rewards(buffer) == held
            append(buffer, range(20, 200), vector)
            assert len(buffer._directory.saves) == 2


@pytest.mark.slow
def test_rows_of_pruned_saves_are_used_again(tmp_path, no_waiting_for_the_disk):
    with persistent(tmp_path) as buffer:
        sizes = []
        for i in range(40):
            append(buffer, range(20 * i, 20 * i + 20), vector)
            replay_buffers.prune(tmp_path / "saves", [buffer.save_increment(tmp_path / "saves")])
            sizes.append(sum(path.stat().st_size for path in (tmp_path / "steps").glob("columns-*")))
        assert sizes[-1] == sizes[len(sizes) // 2]
        assert len(buffer._directory.saves) <= 2


def test_a_persistent_buffer_refuses_saves_of_other_content(tmp_path):
    with persistent(tmp_path) as buffer:
        append(buffer, range(10), vector)
        reference = buffer.save_increment(tmp_path / "saves")
        buffer.load_state_dict(buffer.state_dict())
        held = rewards(buffer)
        with pytest.raises(CheckpointError, match="another buffer"):
            buffer.load_increment(tmp_path / "saves", reference)
        assert rewards(buffer) == held
        append(buffer, range(10, 12), vector)


def test_going_back_to_rows_that_were_written_over_is_told_and_costs_nothing_stored(tmp_path, no_waiting_for_the_disk):
    buffer = persistent(tmp_path)
    append(buffer, range(10), vector)
    reference = buffer.save_increment(tmp_path / "saves")
    (tmp_path / "saves").rename(tmp_path / "moved")
    buffer.save_increment(tmp_path / "saves")  # sees that the first one is gone
    append(buffer, range(10, 100), vector)
    replay_buffers.prune(tmp_path / "saves", [])
    buffer.save_increment(tmp_path / "saves")
    append(buffer, range(100, 200), vector)
    held = rewards(buffer)
    with pytest.raises(CheckpointError, match="have changed"):
        buffer.load_increment(tmp_path / "moved", reference)
    with pytest.raises(CheckpointError, match="must be opened again"):
        append(buffer, range(1), vector)
    buffer.close()
    with persistent(tmp_path) as buffer:
        assert rewards(buffer) == held
