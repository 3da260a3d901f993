"""The parser of the command line, its help, and completion in shells."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from cli_parts import run

from pfrl_like.cli import main
from pfrl_like.cli.parser import commands_of, completion_script, make_parser
from pfrl_like.ope.importance_sampling import BY_WEIGHTS

COMMANDS = [*commands_of(make_parser())]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    out = capsys.readouterr().out
    assert end.value.code == 0 and f"examples:\n  python -m pfrl_like {command}" in out


def test_every_example_can_be_parsed() -> None:
    for name, command in commands_of(make_parser()).items():
        for line in (command.epilog or "").splitlines()[1:]:
            words = shlex.split(line.split(">")[0].strip())[3:]
            assert make_parser().parse_args(words).command == name


def test_help_names_all_estimators() -> None:
    text = next(each.help for each in commands_of(make_parser())["ope"]._actions if each.dest == "estimators") or ""
    assert {*re.findall(r"\w+", text.removeprefix("some of ").partition(";")[0])} == {"fqe", *BY_WEIGHTS}


def test_the_help_of_the_program_has_examples_of_first_steps(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "examples:\n  python -m pfrl_like list agents\n" in capsys.readouterr().out
    for line in (make_parser().epilog or "").splitlines()[1:]:
        make_parser().parse_args(shlex.split(line)[3:])


def test_help_and_completion_import_no_torch(tmp_path: Path) -> None:
    text = "import sys; from pfrl_like.cli import main; main(['completion', 'fish']); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", text], check=True, capture_output=True)
    status, out, err = run(tmp_path, "--help")
    assert (status, err) == (0, "") and all(command in out for command in COMMANDS)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("tran",),
        ("train", "--step", "3"),
        ("train", "--steps", "0"),
        ("train", "--stop-at-score", "high"),
        ("train", "--stop-at-score", "nan"),
        ("train", "--stop-after", "0"),
        ("list", "x"),
    ],
)
def test_an_invalid_command_line_has_status_2(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2 and "error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "completed"),
    [("pfrl-like ev", "evaluate"), ("pfrl-like watch --g", "--gif"), ("pfrl-like list pre", "presets")],
)
def test_bash_completes_commands_options_and_values(typed: str, completed: str) -> None:
    words = typed.split(" ")
    script = completion_script("bash", commands_of(make_parser()))
    script += f"\nCOMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _pfrl_like; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [completed]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_all_commands_and_options(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in [*COMMANDS, "dataset", "no-rerun"])
