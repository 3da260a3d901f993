"""Persistent buffers against the slow reference, opened again at any moment, and against damaged files."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_buffer import ReferenceBuffer, ReferenceEpisodicBuffer, feed
from test_replay_buffers import CAPACITY, OBSERVATIONS, STEPS, equal, transitions

from pfrl_like.errors import CheckpointError
from pfrl_like.replay_buffers import PersistentEpisodicReplayBuffer, PersistentReplayBuffer

QUICK = settings(max_examples=15, deadline=None)
pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


def opener(folder: str, capacity: int | None, num_steps: int, episodic: bool, **options: Any) -> Callable[[], Any]:
    if episodic:
        return lambda: PersistentEpisodicReplayBuffer(folder, capacity, **options)
    return lambda: PersistentReplayBuffer(folder, capacity, num_steps=num_steps, **options)


def abandon(buffer: Any) -> None:
    """What is left when a process is killed: the files as they are, and no lock."""
    buffer._directory.close()


@QUICK
@given(
    STEPS,
    CAPACITY,
    st.sampled_from([1, 3]),
    st.booleans(),
    st.sampled_from(list(OBSERVATIONS)),
    st.sets(st.integers(0, 39), max_size=3),
    st.booleans(),
    st.sampled_from([1, 5, 1000]),
)
def test_items_are_those_of_the_reference_however_often_it_is_opened(
    steps, capacity, num_steps, episodic, kind, openings, clean, often
):
    reference = ReferenceEpisodicBuffer(capacity) if episodic else ReferenceBuffer(capacity, num_steps)
    with tempfile.TemporaryDirectory() as folder:
        open_again = opener(folder, capacity, num_steps, episodic, journal_length=often, sync_every=often)
        buffer = open_again()
        for i, step in enumerate(transitions(steps, kind)):
            feed(buffer, [step])
            feed(reference, [step])
            assert equal(list(buffer.memory), reference.items)
            if i in openings and not any(reference.waiting.values()):
                # A running episode goes on only where the next step begins with the observation that it waits for;
                # what happens to one that does not is tested by itself.
                buffer.close() if clean else abandon(buffer)
                buffer = open_again()
                assert equal(list(buffer.memory), reference.items)
        before = list(buffer.memory), {env: run.waiting[:] for env, run in buffer._columns.running.items()}
        abandon(buffer)
        again = open_again()
        assert equal(list(again.memory), before[0])
        assert {env: len(run.waiting) for env, run in again._columns.running.items()} == {
            env: len(waiting) for env, waiting in before[1].items()
        }
        again.close()


def written(folder: Path, kind: str, episodic: bool) -> list[list[Any]]:
    """Fill a directory with steps and return the items that it held after each of them."""
    buffer = opener(str(folder), 6, 1, episodic, sync_every=7, journal_length=30)()
    held = [list(buffer.memory)]
    for i in range(45):
        observation = OBSERVATIONS[kind]
        extra = {"note": np.full(2, i, np.float32)}
        buffer.append(observation(i), i % 3, float(i), observation(i + 1), is_state_terminal=i % 4 == 3, **extra)
        held.append(list(buffer.memory))
    abandon(buffer)
    return held


@pytest.fixture(scope="module", params=[("vector", False), ("stack", False), ("nest", True)], ids=str)
def example(request, tmp_path_factory) -> tuple[Path, list[list[Any]], bool]:
    kind, episodic = request.param
    folder = tmp_path_factory.mktemp("example")
    return folder, written(folder, kind, episodic), episodic


@pytest.mark.representatives(1)
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.floats(0, 1, exclude_max=True), st.integers(1, 255), st.sampled_from(["flip", "cut"]))
def test_a_damaged_file_gives_right_items_or_an_error(example, which, where, flip, damage):
    source, held, episodic = example
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "copy"
        shutil.copytree(source, folder)
        files = sorted(path for path in folder.iterdir() if path.stat().st_size)
        path = files[which % len(files)]
        content = bytearray(path.read_bytes())
        at = int(where * len(content))
        if damage == "flip":
            content[at] ^= flip
        else:
            del content[at:]
        path.write_bytes(content)
        try:
            buffer = opener(str(folder), 6, 1, episodic)()
        except CheckpointError:
            return
        items = list(buffer.memory)
        buffer.close()
        assert any(equal(items, state) for state in held)


def test_a_journal_cut_at_any_byte_gives_what_was_held_then_or_an_error(example):
    source, held, episodic = example
    (journal,) = source.glob("journal-*")
    content = journal.read_bytes()
    last_sync = content.rindex(b"synced")
    with tempfile.TemporaryDirectory() as parent:
        sizes = []
        for size in range(last_sync + 16, len(content), 29):  # before it, rows may have been used again
            folder = Path(parent) / str(size)
            shutil.copytree(source, folder)
            (folder / journal.name).write_bytes(content[:size])
            buffer = opener(str(folder), 6, 1, episodic)()
            assert any(equal(list(buffer.memory), state) for state in held)
            sizes.append(buffer._next)
            buffer.close()
        assert sizes == sorted(sizes)
