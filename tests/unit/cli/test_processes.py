"""Every command in a process of its own, as a user starts it: exit status, output, files, and no traceback."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from cli_parts import INSTALLED, MODULE, ROOT, TRAIN, records, run, started, wait_for
from PIL import Image

from pfrl_like.datasets import get_cartpole
from pfrl_like.runs.run_files import SCORES, column_of

STEPS = "--steps", "60"
BOTH = pytest.mark.parametrize(
    "program",
    [
        pytest.param(MODULE, id="module"),
        pytest.param(INSTALLED, id="installed", marks=pytest.mark.skipif(
            not Path(*INSTALLED).exists(), reason="the program pfrl-like is not installed")),
    ],
)  # fmt: skip


def joined(value: object) -> str:
    """The name of a parameter: the words of a command line, and nothing for texts."""
    return " ".join(value) if isinstance(value, tuple) else ""


def succeeds(folder: Path, *words: str, program: tuple[str, ...] = MODULE) -> str:
    """What a command prints to stdout. Its exit status is 0, and it prints nothing to stderr."""
    status, out, err = run(folder, *words, program=program)
    assert (status, err) == (0, ""), out + err
    return out


def interrupted(process: subprocess.Popen[str]) -> str:
    """What a process prints to stderr after Ctrl-C."""
    process.send_signal(signal.SIGINT)
    err = process.communicate()[1]
    assert process.returncode == 130 and "Traceback" not in err, err
    return err


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the runs `a` and `b`, of the seeds 0 and 1, and the file data.npz."""
    folder = tmp_path_factory.mktemp("runs")
    out = succeeds(folder, *TRAIN, *STEPS, "--set", "lr=1e-3", "--seeds", "2", "--outdir", "results")
    assert [line.split()[0] for line in out.splitlines()[-3:]] == ["seed", "0", "1"]
    for name, outdir in zip("ab", sorted((folder / "results").iterdir(), key=lambda path: path.name[-1]), strict=True):
        outdir.rename(folder / name)
    get_cartpole()[0].dump(folder / "data.npz")
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    """A current directory that has copies of the runs and the data."""
    return Path(shutil.copytree(trained, tmp_path / "folder"))


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize(
    ("words", "pattern"),
    [
        (("evaluate", "a", "--episodes", "2"), r"DQN in CartPole-v1: mean .+, episodes 2 \(a/best\)"),
        (("ope", "a", "--dataset", "cartpole", "--steps", "5", "--estimators", "fqe"), "direct method: "),
        (("report", "."), r"dqn +CartPole-v1 +0 +60 .+  finished, \./a/report\.html\n.+\./b/report\.html"),
        (("list",), "dqn .+DQN: "),
        (("list", "agents"), "dqn .+DQN: "),
        (("list", "presets"), "dqn +CartPole-v1 +tuned: "),
        (("list", "datasets"), "cartpole +CartPole-v1, in this package"),
        (("list", "envs"), "\nCartPole-v1\n"),
        (("diff-runs", "a", "a"), "steps: equal up to step 60"),
        (("train", "--config", "a/run.toml", "--seed", "5"), "score .+ in results/.+-dqn-cartpole-seed5\n"),
        (("fit", "--agent", "discrete_bc", "--dataset", "cartpole", "--steps", "2"), "score .+ in results/"),
        (("fit", "--agent", "discrete_bc", "--dataset", "data.npz", "--env", "CartPole-v1", "--steps", "2"), "score "),
    ],
    ids=joined,
)
def test_a_command_succeeds(words: tuple[str, ...], pattern: str, program: tuple[str, ...], folder: Path) -> None:
    assert re.search(pattern, succeeds(folder, *words, program=program))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "words", "text"),
    [
        (1, ("diff-runs", "a", "b", "--no-rerun"), ""),
        (1, (*TRAIN, *STEPS, "--set", "lr=1e30"), "training failed in results/"),
        (2, (), "COMMAND"),
        (2, ("tran",), "invalid choice: 'tran'"),
        (2, ("train", "--agent", "dqn"), "the option --env is required"),
        (2, ("train", "--agent", "dqn", "--env", "CartPol-v1", "--seeds", "2"), "argument --env: "),
        (2, ("train", "--config", "data.npz"), "argument --config: "),
        (2, ("fit", "--agent", "dqn", "--dataset", "cartpole"), "argument --agent: "),
        (
            2,
            ("fit", "--agent", "discrete_bc", "--dataset", "a/run.toml", "--env", "CartPole-v1"),
            "argument --dataset: ",
        ),
        (2, ("evaluate", "nothing"), "nothing: "),
        (2, ("evaluate", "a", "--env", "Pendulum-v1"), "argument --env: the agent takes "),
        (2, ("watch", "nothing", "--gif", "agent.gif"), "nothing: "),
        (2, ("ope", "a", "--dataset", "pendulum"), "argument --dataset: "),
        (2, ("ope", "a", "--dataset", "cartpole", "--gamma", "2"), "argument --gamma: "),
        (2, ("export", "a", "policy.foo"), "argument FILE: "),
        (2, ("export", "a", "nothing/policy.onnx"), "nothing"),
        (2, ("report", "nothing"), "nothing"),
        (2, ("report", "a/best"), "a/best"),
        (2, ("show", "dqnn", "CartPole-v1"), "argument --agent: "),
        (2, ("show", "dqn"), "the argument ENV is required"),
        (2, ("show",), "the argument AGENT is required"),
        (2, ("list", "x"), "invalid choice: 'x'"),
        (2, ("diff-runs", "a", "nothing"), "nothing"),
        (2, ("replay-crash", "a"), "a"),
        (2, ("completion", "csh"), "invalid choice: 'csh'"),
    ],
    ids=joined,
)
def test_commands_fail_with_status_and_no_traceback(
    status: int, words: tuple[str, ...], text: str, folder: Path
) -> None:
    answer, out, err = run(folder, *words)
    assert answer == status and text in err and "Traceback" not in out + err, out + err


@pytest.mark.slow
@BOTH
def test_watch_and_export_write_files(folder: Path, program: tuple[str, ...]) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    assert "in agent.gif" in succeeds(folder, "watch", "a", "--gif", "agent.gif", program=program)
    assert Image.open(folder / "agent.gif").n_frames > 1
    for name in ("policy.onnx", "policy.pt"):
        assert "output action: int64 [batch]" in succeeds(folder, "export", "a", name, program=program)
    obs = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    (actions,) = onnxruntime.InferenceSession(folder / "policy.onnx").run(["action"], {"input_0": obs})
    assert actions.tolist() == torch.jit.load(folder / "policy.pt")(torch.as_tensor(obs)).tolist()


@pytest.mark.slow
@BOTH
def test_the_output_of_show_is_a_script_that_trains_as_the_command(folder: Path, program: tuple[str, ...]) -> None:
    (folder / "script.py").write_text(succeeds(folder, "show", "--config", "a/run.toml", program=program))
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "script.py"], cwd=folder, env=environ, check=True, capture_output=True)
    (outdir,) = (folder / "results").iterdir()
    assert column_of(str(outdir), SCORES, "mean") == column_of(str(folder / "a"), SCORES, "mean")


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("seeds", ["1", "2"])
def test_interrupted_training_continues(tmp_path: Path, seeds: str, program: tuple[str, ...]) -> None:
    command = *TRAIN, "--steps", "3000", "--seeds", seeds
    with started(tmp_path, *command, program=program) as process:
        wait_for(tmp_path, "results/*/*_checkpoint", process)
        err = interrupted(process)
    assert seeds == "2" or "the same command continues the run in results/" in err
    assert "resuming results/" in succeeds(tmp_path, *command, program=program)
    finished = records(tmp_path / "results")
    assert [(each["outcome"], each["t"]) for each in finished] == [("finished", 3000)] * int(seeds)


@pytest.mark.slow
@BOTH
def test_an_interrupted_evaluation_has_status_130(folder: Path, program: tuple[str, ...]) -> None:
    with started(folder, "evaluate", "a", "--episodes", "1000000", program=program) as process:
        while "libtorch" not in Path(f"/proc/{process.pid}/maps").read_text():  # the command has begun
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        assert interrupted(process).endswith(": interrupted\n")


@pytest.mark.slow
@BOTH
def test_a_rejected_update_is_repeated(tmp_path: Path, program: tuple[str, ...]) -> None:
    assert run(tmp_path, *TRAIN, *STEPS, "--set", "lr=1e30", program=program)[0] == 1
    (crash,) = tmp_path.glob("results/*/crash-*")
    status, out, err = run(tmp_path, "replay-crash", str(crash), program=program)
    assert status == 0 and "repeated: the loss is " in out and "Traceback" not in err, out + err


#: Starts zsh on a terminal, types words and a tab, and prints the line that results.
ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'source ./script; complete_line() { zle complete-word; print -r -- $BUFFER > line; mv line answer }'
zpty -w shell "zle -N complete_line; bindkey '^I' complete_line"
zpty -w -n shell $1$'\t'
until [[ -s answer ]] { zpty -r -t shell > /dev/null; sleep 0.01 }
cat answer
"""
#: Commands that print the completion of the words in $1, for each shell.
SHELLS = {
    "bash": ("bash", "--norc", "-c", "source ./script; COMP_WORDS=($1); COMP_CWORD=$((${#COMP_WORDS[@]} - 1));"
             "complete -p pfrl-like > /dev/null && _pfrl_like; echo ${COMPREPLY[@]}", "bash"),
    "fish": ("fish", "--no-config", "-c", "source ./script; complete -C $argv[1]"),
    "zsh": ("zsh", "-f", "-c", ZSH, "zsh"),
}  # fmt: skip


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_commands_and_options(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(succeeds(tmp_path, "completion", shell))
    environ = {**os.environ, "HOME": str(tmp_path), "ZDOTDIR": str(tmp_path)}
    for typed, last in (("pfrl-like tr", "train"), ("pfrl-like watch --g", "--gif"), ("pfrl-like list pre", "presets")):
        command = [*SHELLS[shell], typed]
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr, done.stdout.split()[-1:]) == (0, "", [last]), done
        (tmp_path / "answer").unlink(missing_ok=True)
