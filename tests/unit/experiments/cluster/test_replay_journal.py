import dataclasses
import os

import cloudpickle
import numpy as np
import pytest
from chunk_parts import FORMS, plain, received, steps_of

from pfrl_like.columns.frame_stacks import FrameStacks
from pfrl_like.distributed.chunk_sender import ChunkSender
from pfrl_like.errors import CheckpointError
from pfrl_like.experiments.cluster import replay_journal
from pfrl_like.experiments.cluster.remote_buffer import ReplayActor
from pfrl_like.experiments.cluster.replay_journal import (
    JournaledBuffer,
    ReplayJournal,
    decode,
    drop_journals,
    encode,
    read_chunks,
)
from pfrl_like.replay_buffers import PersistentReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer, prune

LABEL = {"request": 7, "episodes": [[1.5, 3], [float("inf"), 2]], "env_ids": [0, 1, 2], "is_cut": False}


def chunks(form="vector", n_chunks=4, ticks=5, **options):
    sender, made = ChunkSender(3), []
    for i, step in enumerate(steps_of(form, 2 * n_chunks * ticks, **options), 1):
        sender.append_batch(**step)
        if i % ticks == 0:
            made.append(received(sender.take()))
    return made[:n_chunks]


def content(chunk):
    return plain({field.name: getattr(chunk, field.name) for field in dataclasses.fields(chunk)})


def numbers(folder):
    return sorted(int(name[8:20]) for name in os.listdir(folder) if name.startswith("journal-"))


def requests(folder, number=0):
    return [label["request"] for label, _ in read_chunks(str(folder), number)]


@pytest.mark.parametrize("form", FORMS)
def test_a_chunk_is_read_as_it_was_written(form):
    *_, chunk = chunks(form, masks=True)
    chunk = dataclasses.replace(
        chunk, last_extra={"state": (np.zeros((2, 0)), None)}, cut=np.array([True, False, True])
    )
    label, read = decode(encode(LABEL, chunk))
    assert content(read) == content(chunk)
    assert label == LABEL
    if isinstance(chunk.obs, FrameStacks):
        assert (read.obs.form, read.obs.is_lazy) == (chunk.obs.form, chunk.obs.is_lazy)
        assert read.obs.frames is read.last_obs.frames
        assert len(encode(LABEL, chunk)) < 1.2 * chunk.nbytes


def test_columns_with_missing_values_and_texts_are_read_as_they_were_written():
    chunk = chunks()[0]
    values = np.fromiter([None, "text", {"a": (1, np.ones(2))}] * chunk.reward.size, object)[: chunk.reward.size]
    chunk = dataclasses.replace(chunk, extra={"value": values.reshape(chunk.reward.shape)}, active=None)
    (_, read), expected = decode(encode({}, chunk)), chunk.extra["value"]
    assert plain(read.extra["value"].tolist()) == plain(expected.tolist())
    assert read.active is None


def test_every_part_of_a_record_is_read_up_to_the_incomplete_one(tmp_path):
    journal = ReplayJournal(str(tmp_path))
    sizes = [0]
    for i, chunk in enumerate(chunks()):
        journal.append({"request": i}, chunk)
        (path,) = tmp_path.iterdir()
        sizes.append(path.stat().st_size)
    whole = path.read_bytes()
    for n, (begin, end) in enumerate(zip(sizes, sizes[1:], strict=False)):
        for size in (begin, begin + 5, (begin + end) // 2, end - 1):
            path.write_bytes(whole[:size])
            assert requests(tmp_path) == list(range(n))
    assert not list(read_chunks(str(tmp_path / "missing"), 0))


def test_a_save_needs_its_journal_and_later_ones(tmp_path):
    chunk, begun = chunks()[0], []
    for i in range(4):
        journal = ReplayJournal(str(tmp_path))
        begun.append(journal.number)
        journal.append({"request": i}, chunk)
    assert [requests(tmp_path, number) for number in begun[1:]] == [[1, 2, 3], [2, 3], [3]]
    kept = [{"table": {"name": "table-0000000000000000.bin", "size": 1, "crc32": 1}, "segments": []}]
    prune(tmp_path, [kept[0] | {"journal": number} for number in (begun[3], begun[2])])
    assert numbers(tmp_path) == begun[2:]
    drop_journals(str(tmp_path), begun[2])
    assert not numbers(tmp_path)
    assert ReplayJournal(str(tmp_path), begun[2]).number == begun[2]


def test_a_large_journal_is_continued_in_another_file(tmp_path, monkeypatch):
    monkeypatch.setattr(replay_journal, "_LARGE_FILE", 4000)
    journal = ReplayJournal(str(tmp_path))
    for i, chunk in enumerate(chunks(n_chunks=12)):
        journal.append({"request": i}, chunk)
    assert len(numbers(tmp_path)) > 2
    assert requests(tmp_path) == list(range(12))


def test_objects_that_need_a_pickle_are_refused(tmp_path):
    chunk = chunks()[0]
    chunk = dataclasses.replace(chunk, action=np.full(chunk.reward.shape, object()))
    with pytest.raises(CheckpointError, match="object cannot be saved"):
        ReplayJournal(str(tmp_path)).append({}, chunk)
    record = encode({}, chunks()[0]).replace(b'"<f8"', b'"|O8"')
    with pytest.raises(ValueError, match=r"dtype '\|O8'"):
        decode(record)


# The journal of a replay actor


def replay_actor(buffer):
    actor = ReplayActor(cloudpickle.dumps((buffer,)), seed=3)
    actor.start([])
    return actor


def items(actor):
    return plain([list(map(dict, item)) for item in actor.buffer.memory])


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer])
def test_another_replay_actor_stores_the_chunks_after_a_save_again(tmp_path, kind):
    made, folder, label = chunks("lazy_frames", n_chunks=6), str(tmp_path), {"request": 1}
    actor = replay_actor(kind(1000))
    actor.append_chunk(made[0], range(3), False, label)
    first = {**actor.buffer.save_increment(folder), "journal": actor.begin_journal(folder)}
    actor.append_chunk(made[1], range(3), False, label)
    second = {**actor.buffer.save_increment(folder, first), "journal": actor.begin_journal(folder)}
    actor.append_chunk(made[2], range(3), False, label)
    for reference in (second, first):  # the second one first, as if it were damaged
        other = replay_actor(kind(1000))
        other.buffer.load_increment(folder, reference)
        labels, size = other.restore_journal(folder, reference["journal"], True)
        assert (items(other), size) == (items(actor), actor._size())
        assert len(labels) == (2 if reference is first else 1)
    for each in (actor, other):
        each.append_chunk(made[3], range(3), True, label)
    third = replay_actor(kind(1000))
    third.buffer.load_increment(folder, first)
    labels, _ = third.restore_journal(folder, first["journal"], True)
    assert labels[-1]["is_cut"]


def test_a_run_that_repeats_its_steps_forgets_the_journal(tmp_path):
    made, folder = chunks(n_chunks=3), str(tmp_path)
    actor = replay_actor(ReplayBuffer(1000))
    number = actor.begin_journal(folder)
    actor.append_chunk(made[0], range(3), False, {"request": 1})
    other = replay_actor(ReplayBuffer(1000))
    assert other.restore_journal(folder, number, False) == ([], (0, 0))
    other.append_chunk(made[1], range(3), False, {"request": 2})
    assert requests(tmp_path, number) == [2]


def test_a_persistent_buffer_takes_back_the_chunks_after_its_save_or_forgets_them(tmp_path):
    first, second, third, _ = chunks()
    folder = tmp_path / "saves"
    with PersistentReplayBuffer(tmp_path / "buffer", 100) as buffer:
        buffer.journal = JournaledBuffer(buffer)
        buffer.journal.append_chunk(first, [0, 1, 2], False, {"request": 1})
        reference = buffer.save_increment(folder)
        buffer.journal.append_chunk(second, [0, 1, 2], True, {"request": 2})
        third_cut = dataclasses.replace(third, cut=np.ones(3, np.bool_))
        buffer.append_chunk(third_cut, [0, 1, 2])
        buffer.journal.write(third_cut, [0, 1, 2], False, {"request": 3})
        expected = sorted(buffer.sample_batch(len(buffer)).reward.tolist())
    for keeps, known in ((True, [2, 3]), (True, [2, 3]), (False, []), (True, [])):
        with PersistentReplayBuffer(tmp_path / "buffer", 100) as buffer:
            buffer.journal = JournaledBuffer(buffer)
            buffer.load_increment(folder, reference)
            assert len(buffer) == first.n_steps
            assert [label["request"] for label in buffer.journal.restore_journal(keeps=keeps)] == known
            assert buffer.journal.restore_journal(keeps=True) == []
            stored = sorted(buffer.sample_batch(len(buffer)).reward.tolist())
            assert stored == expected if known else len(stored) == first.n_steps
    assert numbers(folder) == [0, 1]
