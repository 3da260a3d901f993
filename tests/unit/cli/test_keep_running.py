"""A command that is started again when it fails. The programs are small and import nothing."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_parts import started, wait_for

from pfrl_like.cli import main


@pytest.fixture
def keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Keeps a program running, in which `n` is the number of earlier tries; returns the exit status."""
    monkeypatch.chdir(tmp_path)

    def keep(body: str, *options: str) -> int:
        text = f"import os, signal, sys; n = len(os.listdir()); open(f'try-{{n}}', 'x'); {body}"
        return main(["keep-running", "--wait", "0.001", *options, "--", sys.executable, "-S", "-c", text])

    return keep


def tries() -> int:
    return len(os.listdir())


def test_a_program_that_fails_is_started_again_until_it_succeeds(keep: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert keep("n == 0 and sys.exit(1); n == 1 and os.kill(os.getpid(), signal.SIGKILL)") == 0
    assert tries() == 3
    first, second, third = capsys.readouterr().err.splitlines()
    assert "exit status 1 " in first and "1 of at most 10 tries in 60 minutes failed: it starts again in" in first
    assert "ended by SIGKILL " in second and "2 of at most 10" in second
    assert "exit status 0 " in third


@pytest.mark.parametrize(
    ("body", "options", "status", "count"),
    [
        ("sys.exit(2)", (), 2, 1),
        ("sys.exit(4 - n)", ("--final", "3", "--final", "5"), 3, 2),
        ("os.kill(os.getpid(), signal.SIGTERM)", (), 143, 1),
        ("sys.exit(130)", (), 130, 1),
        ("os.kill(os.getpid(), signal.SIGABRT)", ("--tries", "2"), 134, 2),
        ("sys.exit(n < 3)", ("--tries", "2", "--window", "1e-9"), 0, 4),
    ],
)
def test_the_exit_status_is_that_of_the_last_try(
    keep: Any, body: str, options: tuple[str, ...], status: int, count: int
) -> None:
    assert (keep(body, *options), tries()) == (status, count)


def test_a_program_that_does_not_exist_has_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keep-running", "no-such-program"]) == 2
    assert "no-such-program" in capsys.readouterr().err


@pytest.mark.parametrize(("signum", "status"), [(signal.SIGINT, 7), (signal.SIGTERM, 9)])
def test_a_signal_reaches_the_program_which_is_not_started_again(
    tmp_path: Path, signum: signal.Signals, status: int
) -> None:
    text = """import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: sys.exit(7)); signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
open("ready", "x"); time.sleep(600)"""
    with started(tmp_path, "keep-running", "--", sys.executable, "-S", "-c", text) as process:
        wait_for(tmp_path, "ready", process)
        process.send_signal(signum)
        err = process.communicate()[1]
    assert process.returncode == status
    assert f"{signum.name}: the command is not started again" in err


def test_a_signal_ends_the_waiting_between_two_tries(tmp_path: Path) -> None:
    program = sys.executable, "-S", "-c", "raise SystemExit(5)"
    with started(tmp_path, "keep-running", "--wait", "1000", "--", *program) as process:
        assert process.stderr is not None and "it starts again in" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 5
