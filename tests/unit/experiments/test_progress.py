"""The progress bar stays on one line of any terminal, and writes plain lines where there is none."""

import fcntl
import io
import logging
import os
import pty
import re
import struct
import termios
from types import SimpleNamespace
from typing import Any, TextIO

import numpy as np
import pytest
from experiment_fakes import Counting
from resume_parts import small_dqn
from torch import nn

from pfrl_like.dataset import MDPDataset
from pfrl_like.errors import NonFiniteError
from pfrl_like.experiments import train_agent, train_agent_offline
from pfrl_like.experiments.callbacks import WIDTH, Progress, wants_progress
from pfrl_like.nn import RecurrentSequential
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.replay_buffers import EpisodicReplayBuffer, ReplayBuffer
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
def terminal(request):
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


def drawn(terminal: Terminal) -> str:
    """The one line of a drawing."""
    draw(progress_on(terminal.stream), 1)
    (line,) = drawings(terminal.written())
    return line


def columns(*widths: int) -> Any:
    return pytest.mark.parametrize("terminal", [(width,) for width in widths], indirect=True, ids=map(str, widths))


@columns(1, 20, 60, 80, 100, 200)
def test_every_drawing_stays_on_one_line(terminal, request):
    width = os.get_terminal_size(terminal.stream.fileno()).columns
    draw(progress_on(terminal.stream), 5)
    lines = drawings(terminal.written())
    assert len(lines) == 5
    assert all(len(line) < width for line in lines)


STEPS_SO_FAR, TIME = " 12%  1,234,567/10,000,000 steps", "  1:00:00 + 7:06:00 left"
BAR = "██" + "░" * (WIDTH - 2) + " "


@pytest.mark.parametrize(
    ("terminal", "line"),
    [
        ((200,), BAR + STEPS_SO_FAR + "  343/s  return -98765.4  best score -1234.5" + TIME),
        ((80,), STEPS_SO_FAR + "  return -98765.4" + TIME),
        ((60,), STEPS_SO_FAR + TIME),
    ],
    indirect=["terminal"],
    ids=str,
)
def test_bar_and_speed_and_then_returns_give_way_to_steps_and_time(terminal, line):
    assert drawn(terminal) == line


@columns(0)
def test_terminal_that_does_not_tell_its_width_has_that_of_the_environment(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    assert 50 < len(drawn(terminal)) < 70


@pytest.mark.parametrize("terminal", [(200, "ascii")], indirect=True)
def test_terminal_without_block_characters_gets_a_bar_of_others(terminal):
    assert drawn(terminal).startswith("##" + "-" * (WIDTH - 2) + "  12%")


@columns(80)
def test_end_has_a_line_of_its_own(terminal):
    progress = progress_on(terminal.stream)
    draw(progress, 1)
    progress.close()
    *_, last, end, nothing = terminal.written().split("\r\n")
    assert len(drawings(last)) == 2
    assert (end, nothing) == ("interrupted at step 1,234,567", "")


PLAIN = re.compile(r" 12%  1,234,567/10,000,000 steps  343/s  return -98765\.4  best score -1234\.5  .+ left")


class NotebookStream(io.StringIO):
    """Has no descriptor, as ipykernel's `OutStream` where it does not watch one."""

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        raise io.UnsupportedOperation("fileno")


def test_notebook_gets_whole_lines_if_asked(monkeypatch):
    stream = NotebookStream()
    monkeypatch.setattr("sys.stderr", stream)
    assert not wants_progress(None)
    draw(progress_on(stream), 1)
    assert PLAIN.fullmatch(stream.getvalue().removesuffix("\n"))


# What a run says when it ends


def dqn(replay_start_size, minibatch_size=2, recurrent=False):
    options = {"replay_start_size": replay_start_size, "minibatch_size": minibatch_size, "recurrent": recurrent}
    q_function = RecurrentSequential(nn.GRU(1, 2), DiscreteActionValueHead()) if recurrent else None
    buffer = EpisodicReplayBuffer(5000) if recurrent else ReplayBuffer(5000)
    return small_dqn(Counting(), q_function=q_function, replay_buffer=buffer, **options)


class TestARunWithoutUpdates:
    def test_it_says_why(self, tmp_path, caplog, capsys):
        train_agent(dqn(5000), Counting(), 10, tmp_path, progress=True)
        text = "no update was made: the buffer holds 10 transitions, replay_start_size is 5,000"
        assert text in caplog.text and text in (tmp_path / "run.log").read_text()
        assert capsys.readouterr().err.endswith(f"finished at step 10\n{text}\n")

    @pytest.mark.parametrize("configured", [False, True])
    def test_on_stderr_too_unless_the_user_has_handlers(self, tmp_path, capsys, monkeypatch, configured):
        monkeypatch.setattr(logging.getLogger(), "handlers", [logging.NullHandler()] * configured)  # pytest has its own
        train_agent(dqn(5000), Counting(), 10, tmp_path)
        assert capsys.readouterr().err.count("no update was made") == (not configured)
        assert not logging.getLogger("pfrl_like").handlers

    def test_a_recurrent_agent_may_lack_episodes(self, tmp_path, caplog):
        train_agent(dqn(4, 4, recurrent=True), Counting(5), 15, tmp_path)
        assert "no update was made: the buffer holds 3 whole episodes, minibatch_size is 4" in caplog.text

    def test_others_say_nothing(self, agent, tmp_path, caplog, capsys):
        train_agent(dqn(5), Counting(), 10, tmp_path / "1", progress=True)
        train_agent(agent, Counting(), 10, tmp_path / "2", progress=True)  # whose updates nobody counts
        train_agent(dqn(50), Counting(), 10, tmp_path / "3", step_offset=10)
        assert "no update" not in caplog.text + capsys.readouterr().err


class TestTheProgressLine:
    @pytest.fixture(autouse=True)
    def every_step(self, monkeypatch):
        monkeypatch.setattr(Progress, "__call__", lambda progress, clock: progress._write(clock, progress.now()))

    def lines(self, capsys):
        return [line.split("left", 1)[1].strip() for line in capsys.readouterr().err.splitlines() if "left" in line]

    def test_it_says_that_a_recurrent_agent_waits_for_whole_episodes(self, tmp_path, capsys):
        train_agent(dqn(3, 3, recurrent=True), Counting(5), 20, tmp_path, progress=True)
        few = "no updates yet: the buffer holds {} whole episodes, minibatch_size is 3"
        assert self.lines(capsys) == [few.format(0)] * 4 + [few.format(1)] * 5 + [few.format(2)] * 5 + [""] * 6

    def test_it_says_so_of_an_agent_whose_statistics_have_other_names(self, tmp_path, capsys):
        agent = dqn(5)
        agent.get_statistics = list
        train_agent(agent, Counting(), 6, tmp_path, progress=True)
        waits = [f"no updates yet: the buffer holds {n} transitions, replay_start_size is 5" for n in range(1, 5)]
        assert self.lines(capsys) == [*waits, "", ""]

    def test_it_says_nothing_where_updates_come_from_recorded_data(self, tmp_path, capsys):
        dataset = MDPDataset.from_arrays(np.zeros((8, 1)), np.zeros(8, int), np.zeros(8), np.arange(8) == 7)
        train_agent_offline(dqn(5000), dataset, 3, tmp_path, progress=True)
        assert self.lines(capsys) == ["", "", ""]


def test_an_error_tells_where_training_was(agent, tmp_path):
    env = Counting(3)

    def spoil(env, agent, t):
        if t == 7:
            env.reward = float("nan")

    with pytest.raises(NonFiniteError, match="reward is nan") as caught:
        train_agent(agent, env, 10, tmp_path, step_hooks=[spoil])
    assert caught.value.__notes__ == ["at step 8 of training, after 2 whole episodes"]
