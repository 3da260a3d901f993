"""The N-th system call fails, for every N: what is loaded afterwards is the old state or the new one, complete."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pfrl_like.errors import CheckpointError
from pfrl_like.storage import load_directory, read_arrays, save_directory, write_arrays

CALLS = ["write", "fsync", "replace", "open", "close"]


def save_agent(folder: Path, number: int) -> None:
    files = {"model.pt": b"model %d" % number, "optimizer.pt": lambda file: file.write(b"optimizer %d" % number)}
    aliases = {"model.pt": "model.pt", "inner/optimizer.pt": "optimizer.pt"}
    save_directory(folder, files, {"t": number}, kind="agent", class_name="x", aliases=aliases)


def load_agent(folder: Path) -> int:
    snapshot = load_directory(folder)
    number: int = snapshot.state["t"]
    assert Path(snapshot.open("model.pt")).read_bytes() == b"model %d" % number
    assert Path(snapshot.open("optimizer.pt")).read_bytes() == b"optimizer %d" % number
    return number


def save_buffer(folder: Path, number: int) -> None:
    write_arrays(folder / "buffer", {"n": number}, {"x": np.full(1000, number)})


def load_buffer(folder: Path) -> int:
    header, arrays = read_arrays(folder / "buffer")
    number: int = header["n"]
    assert (arrays["x"] == number).all()
    return number


class FailingCall:
    """An `os` function whose n-th call raises, after doing its work or instead of it."""

    def __init__(self, name: str, n: int, *, works: bool) -> None:
        self.name = name
        self.function: Callable[..., Any] = getattr(os, name)
        self.left = n
        self.works = works

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.left -= 1
        if self.left == 0 and not self.works:
            raise OSError(5, "Input/output error")
        result = self.function(*arguments, **options)
        if self.left == 0:
            if self.name == "open":
                os.close(result)
            raise OSError(5, "Input/output error")
        return result


@pytest.mark.parametrize(
    ("name", "works"),
    # A close that fails has closed all the same.
    [(name, works) for name in CALLS for works in (False, True) if name != "close" or works],
)
@pytest.mark.parametrize(("save", "load"), [(save_agent, load_agent), (save_buffer, load_buffer)])
def test_either_state_is_complete_whichever_call_fails(
    save: Any, load: Any, name: str, works: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 0)
    current, n = 0, 0
    while True:
        n += 1
        with monkeypatch.context() as patch:
            call = FailingCall(name, n, works=works)
            patch.setattr(os, name, call)
            try:
                save(tmp_path, n)
                failed = False
            except CheckpointError as error:
                failed = True
                assert error.path.startswith(str(tmp_path))
        if call.left > 0:
            assert not failed
            break
        loaded = load(tmp_path)
        assert loaded in (current, n)
        current = loaded
        assert not list(tmp_path.rglob(".tmp-*"))
    assert n > 1
    save(tmp_path, 10_000)
    assert load(tmp_path) == 10_000


@pytest.mark.parametrize("name", ["write", "fsync"])
def test_a_first_save_that_fails_leaves_no_state_at_all(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, name, FailingCall(name, 1, works=False))
        with pytest.raises(CheckpointError, match="Input/output error"):
            save_agent(tmp_path / "agent", 1)
    assert not [path for path in (tmp_path / "agent").rglob("*") if path.is_file()]
