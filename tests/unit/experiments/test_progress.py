"""The progress bar stays on one line of any terminal, and writes plain lines where there is none."""

import fcntl
import io
import os
import pty
import re
import struct
import termios
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

import pytest

from pfrl_like.experiments.callbacks import WIDTH, Progress, wants_progress
from pfrl_like.runs.loop import Clock, Episode

STEPS = 10_000_000


class Terminal:
    """A pseudo-terminal of so many columns, and what was written to it."""

    def __init__(self, columns: int, encoding: str = "utf-8") -> None:
        self.master, slave = pty.openpty()
        self.stream: TextIO = io.TextIOWrapper(io.FileIO(slave, "w"), encoding, errors="backslashreplace")
        self.resize(columns)

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self.stream.fileno(), termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))

    def written(self) -> str:
        self.stream.write("<end>")
        self.stream.flush()
        text = b""
        while not text.endswith(b"<end>"):
            text += os.read(self.master, 1 << 16)
        return text.decode().removesuffix("<end>")

    def close(self) -> None:
        self.stream.close()
        os.close(self.master)


@pytest.fixture
def terminal(request: pytest.FixtureRequest) -> Iterator[Terminal]:
    terminal = Terminal(*request.param)
    yield terminal
    terminal.close()


def progress_on(stream: TextIO) -> Progress:
    """One whose lines are long."""
    seconds = iter(range(0, 10**6, 3_600))
    return Progress(STEPS, evaluator=SimpleNamespace(max_score=-1234.5), stream=stream, clock=lambda: next(seconds))


def draw(progress: Progress, times: int) -> None:
    clock = Clock(STEPS)
    for _ in range(times):
        clock.t += 1_234_567
        clock.ended = [Episode(-98765.4, 10)]
        progress(clock)


def drawings(text: str) -> list[str]:
    """The lines as they stand on the terminal one after the other, in the same place."""
    assert "\n" not in text
    first, *lines = text.split("\r")
    assert first == ""
    assert all(line.endswith("\x1b[K") for line in lines)
    return [line.removesuffix("\x1b[K") for line in lines]


def columns(*widths: int) -> Any:
    return pytest.mark.parametrize("terminal", [(width,) for width in widths], indirect=True, ids=map(str, widths))


@columns(1, 20, 60, 80, 100, 200)
def test_every_drawing_stays_on_one_line(terminal: Terminal, request: pytest.FixtureRequest) -> None:
    width = os.get_terminal_size(terminal.stream.fileno()).columns
    draw(progress_on(terminal.stream), 5)
    lines = drawings(terminal.written())
    assert len(lines) == 5
    assert all(len(line) < width for line in lines)


@columns(200)
def test_wide_terminal_shows_everything(terminal: Terminal) -> None:
    draw(progress_on(terminal.stream), 1)
    (line,) = drawings(terminal.written())
    assert line == (
        "██" + "░" * (WIDTH - 2) + "  12%  1,234,567/10,000,000 steps  343/s  return -98765.4  best score -1234.5"
        "  1:00:00 + 7:06:00 left"
    )


@columns(80)
def test_bar_and_speed_give_way_to_returns_and_time(terminal: Terminal) -> None:
    draw(progress_on(terminal.stream), 1)
    (line,) = drawings(terminal.written())
    assert line == " 12%  1,234,567/10,000,000 steps  return -98765.4  1:00:00 + 7:06:00 left"


@columns(60)
def test_narrow_terminal_shows_steps_and_time(terminal: Terminal) -> None:
    draw(progress_on(terminal.stream), 1)
    (line,) = drawings(terminal.written())
    assert line == " 12%  1,234,567/10,000,000 steps  1:00:00 + 7:06:00 left"


@columns(200)
def test_terminal_may_be_made_narrower(terminal: Terminal) -> None:
    progress = progress_on(terminal.stream)
    draw(progress, 1)
    terminal.resize(60)
    draw(progress, 1)
    wide, narrow = drawings(terminal.written())
    assert len(wide) > 100 and len(narrow) < 60


@columns(0)
def test_terminal_that_does_not_tell_its_width_has_that_of_the_environment(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    draw(progress_on(terminal.stream), 1)
    (line,) = drawings(terminal.written())
    assert 50 < len(line) < 70


@pytest.mark.parametrize("terminal", [(200, "ascii")], indirect=True)
def test_terminal_without_block_characters_gets_a_bar_of_others(terminal: Terminal) -> None:
    draw(progress_on(terminal.stream), 1)
    (line,) = drawings(terminal.written())
    assert line.startswith("##" + "-" * (WIDTH - 2) + "  12%")


@columns(80)
def test_end_has_a_line_of_its_own(terminal: Terminal) -> None:
    progress = progress_on(terminal.stream)
    draw(progress, 1)
    progress.close()
    *_, last, end, nothing = terminal.written().split("\r\n")
    assert len(drawings(last)) == 2
    assert (end, nothing) == ("broken off at step 1,234,567", "")


PLAIN = re.compile(r" 12%  1,234,567/10,000,000 steps  343/s  return -98765\.4  best score -1234\.5  .+ left")


def test_file_gets_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    path = tmp_path / "log.txt"
    with path.open("w") as stream:
        draw(progress_on(stream), 2)
    first, second = path.read_text().splitlines()
    assert PLAIN.fullmatch(first) and second.startswith(" 25%")


class NotebookStream(io.StringIO):
    """Has no descriptor, as ipykernel's `OutStream` where it does not watch one."""

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        raise io.UnsupportedOperation("fileno")


def test_notebook_gets_whole_lines_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = NotebookStream()
    monkeypatch.setattr("sys.stderr", stream)
    assert not wants_progress(None)
    draw(progress_on(stream), 1)
    assert PLAIN.fullmatch(stream.getvalue().removesuffix("\n"))
