"""The queue that a directory keeps."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pfrl_like.collections.persistent_collections import PersistentRandomAccessQueue
from pfrl_like.errors import CheckpointError


def queue_of(directory: Path, maxlen: int | None = 3, items: Any = (), **options: Any) -> PersistentRandomAccessQueue:
    queue = PersistentRandomAccessQueue(directory, maxlen, **options)
    queue.extend(items)
    queue.close()
    return queue


def test_a_later_queue_holds_the_newest_items(tmp_path: Path) -> None:
    queue_of(tmp_path / "queue", items=[0, 1])
    assert list(queue_of(tmp_path / "queue", items=[2, 3])) == [1, 2, 3]
    assert list(queue_of(tmp_path / "queue", maxlen=None)) == [0, 1, 2, 3]


def test_writers_that_choose_one_number_keep_the_items_of_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("pfrl_like.collections.persistent_collections._journals", lambda folder: [])
        for item in "ab":
            queue_of(tmp_path, items=[item])
    assert sorted(queue_of(tmp_path)) == ["a", "b"]


def test_transitions_come_back_as_they_were(tmp_path: Path) -> None:
    step = {"state": np.float32([[1, 2]]), "action": 1, "reward": 0.5, "next_state": None, "flags": (True, "a", b"b")}
    queue_of(tmp_path, items=[[step, step]])
    [[first, second]] = queue_of(tmp_path)
    assert first["state"].tolist() == [[1, 2]] and first["state"].dtype == np.float32
    assert {**second, "state": None} == {**step, "state": None}


def test_items_are_stored_when_append_returns(tmp_path: Path) -> None:
    queue = PersistentRandomAccessQueue(str(tmp_path), 2)
    queue.append("a")  # and is not closed
    assert list(PersistentRandomAccessQueue(str(tmp_path), 2)) == ["a"]


def test_it_is_used_like_a_queue(tmp_path: Path) -> None:
    queue = queue_of(tmp_path, items="abc")
    assert (queue.popleft(), len(queue), queue[-1], queue.maxlen, list(queue)) == ("a", 2, "c", 3, ["b", "c"])
    assert sorted(queue.sample(2, np.random.default_rng(0))) == ["b", "c"]
    assert repr(queue) == f"PersistentRandomAccessQueue({str(tmp_path)!r}, 2 items, maxlen=3)"
    with pytest.raises(NotImplementedError, match="the files only grow"):
        queue[0] = "x"


def test_the_items_of_ancestors_come_first_and_are_not_copied(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    queue_of(tmp_path / "first", items=[0, 1])
    queue_of(tmp_path / "second", items=[2], ancestor=tmp_path / "first")
    with caplog.at_level(logging.INFO):
        third = queue_of(tmp_path / "third", 4, ancestor=tmp_path / "second", items=[3], logger=logging.getLogger())
    assert list(third) == [0, 1, 2, 3]
    assert f"{tmp_path}/third: 3 items are loaded" in caplog.text
    assert list(queue_of(tmp_path / "third")) == [3]  # unless the ancestor is passed again
    assert "maxlen" not in (tmp_path / "third/queue.json").read_text()
    assert list(queue_of(tmp_path / "fourth", maxlen=1, ancestor=tmp_path / "second")) == [2]


def test_what_cannot_be_stored_is_refused_and_not_added(tmp_path: Path) -> None:
    queue = PersistentRandomAccessQueue(tmp_path, None)
    with pytest.raises(TypeError, match="set cannot be saved"):
        queue.append({1})
    assert len(queue) == 0


def test_a_torn_last_record_is_left_out(tmp_path: Path) -> None:
    queue = PersistentRandomAccessQueue(tmp_path, None)
    queue.extend("ab")
    [path] = tmp_path.glob("items.*.journal")
    path.write_bytes(path.read_bytes()[:-3])
    assert list(PersistentRandomAccessQueue(tmp_path, None)) == ["a"]


def test_a_full_file_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pfrl_like.storage.journal._LARGEST", 150)
    queue_of(tmp_path, items="abcd")
    assert len([*tmp_path.glob("items.*.journal")]) > 1
    assert list(queue_of(tmp_path, maxlen=None)) == [*"abcd"]
    with pytest.raises(CheckpointError, match="cannot hold an item of"):
        queue_of(tmp_path, items=["x" * 200])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("meta.pkl", b"", "contains a queue that PFRL saved as pickles"),
        ("queue.json", b'{"format": "other"}', "is no queue: its format is 'other'"),
        ("queue.json", b"other", "not valid JSON|JSON"),
    ],
)
def test_other_directories_are_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    for options in ({"directory": tmp_path}, {"directory": tmp_path / "new", "ancestor": tmp_path}):
        with pytest.raises(CheckpointError, match=message):
            queue_of(**options)  # type: ignore[arg-type]


def test_the_length_is_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="maxlen is 0, expected an integer from 1 on"):
        PersistentRandomAccessQueue(tmp_path / "queue", 0)
    assert not (tmp_path / "queue").exists()
