"""The closer look at two runs that differ: an interval of them is trained again."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from run_parts import change_record, contents
from traced_run import run

from pfrl_like.cli import main
from pfrl_like.cli.diagnosis import closer_interval, needs_rerun
from pfrl_like.debug import crash_replay, trace_diff
from pfrl_like.debug.crash_replay import RerunError, rerun_training
from pfrl_like.debug.trace_diff import ENV_STREAM, Difference, compare_with_rerun, explanations, first_differences
from pfrl_like.processes.rerun_request import VARIABLE, RerunRequest
from pfrl_like.replay_buffers import PersistentReplayBuffer


@pytest.fixture
def again(tmp_path, monkeypatch):
    """Does what a program does that is started again: trains up to a step, looking closely; gives where it wrote."""

    def again(name, outdir, since, until, checkpoint="", train=run, **options):
        request = RerunRequest(str(outdir), str(tmp_path / name), "", checkpoint, since, until)
        monkeypatch.setenv(VARIABLE, request.to_text())
        run(outdir.with_name("another"), 5)
        with pytest.raises(SystemExit) as end:
            train(outdir, **options)
        assert end.value.code == 0
        return request.rerun_outdir

    return again


def run_with_files(outdir: Path, replay: Path, **options: Any) -> None:
    with PersistentReplayBuffer(replay, 15) as buffer:
        run(outdir, buffer=buffer, keep_checkpoints=5, **options)


def test_persistent_buffers_of_a_run_that_was_moved_are_found(tmp_path, again):
    outdir, moved = tmp_path / "run", tmp_path / "moved"
    run_with_files(outdir, outdir / "replay")
    outdir.rename(moved)
    source = str(moved / "20_checkpoint")
    now = again("scratch", outdir, 40, 47, source, run_with_files, replay=outdir / "replay")
    assert not compare_with_rerun(str(moved), now).differs and not outdir.exists()


def test_a_persistent_buffer_is_opened_again_where_it_was_diverted_to(tmp_path, monkeypatch):
    def stored(name, steps, **options):
        with PersistentReplayBuffer(tmp_path / name, 15, **options) as buffer:
            for i in range(steps):
                buffer.append([float(i)], 0, 0.0, [float(i + 1)])
            return len(buffer)

    assert (stored("data", 3), stored("more", 2, ancestor=tmp_path / "data")) == (3, 5)
    before = contents(tmp_path)
    monkeypatch.setenv(VARIABLE, RerunRequest(str(tmp_path / "run"), str(tmp_path / "scratch"), until=7).to_text())
    assert [stored("data", 1), stored("data", 1), stored("more", 2, ancestor=tmp_path / "data")] == [4, 5, 5]
    assert contents(tmp_path / "data") | contents(tmp_path / "more") == before


@pytest.mark.slow
def test_tensors_and_random_streams_are_named_at_the_step_at_which_they_part(tmp_path, again):
    outdir = tmp_path / "run"
    one = again("one", outdir, 0, 35)
    other = again("other", outdir, 0, 35, spoil_at=30, draw_at=12)
    found = first_differences(one, other)
    assert (found["tensors"].same, found["tensors"].t) == (30, 31) and ": model." in found["tensors"].text
    assert (found["random streams"].same, found["random streams"].t) == (12, 13)
    assert found["random streams"].text.endswith("): random stream global.python")
    assert found["steps"].t == 31 and "in loss" in found["steps"].text
    unlike = next(parting for name, parting in found.items() if "initial states" in name)
    assert unlike.t == 0 and "action_space" in unlike.text  # which nobody has seeded
    assert ENV_STREAM in unlike.text and ENV_STREAM not in found["random streams"].text


PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, {path!r})
from traced_run import run
run(Path(sys.argv[1]), **{{sys.argv[2]: int(sys.argv[3])}})
raise SystemExit("that was the whole run")
"""


def two_runs(folder: Path, mishap: str, at: int, started_as: Any = None) -> tuple[str, str]:
    """Two runs of a program, of which the second one has a mishap; their directories."""
    (folder / "program.py").write_text(PROGRAM.format(path=str(Path(__file__).parents[2] / "support")))
    for name, when in (("a", 0), ("b", at)):
        run(folder / name, **{mishap: when})
        command = started_as or [sys.executable, "program.py", name, mishap, str(when)]
        change_record(folder / name, started_as=command, directory=str(folder))
    return str(folder / "a"), str(folder / "b")


@pytest.mark.slow
def test_the_command_starts_both_programs_again_to_name_the_step(tmp_path, capfd):
    runs = two_runs(tmp_path, "spoil_at", 10)
    before = contents(tmp_path)
    assert main(["diff-runs", *runs]) == 1
    out, err = capfd.readouterr()
    assert "tensors: at step 20 these differ (equal at step 0): model." in out
    assert "tensors: at step 11 these differ (equal at step 10): model." in out and "not reproducible" not in out
    assert "program.py a spoil_at 0" in err and "program.py b spoil_at 10" in err and contents(tmp_path) == before


def test_a_run_that_does_not_repeat_itself_is_named(tmp_path, again, monkeypatch):
    a, b = tmp_path / "a", tmp_path / "b"
    run(a)
    run(b, spoil_at=10)

    def trained_again(outdir, request):
        mishap = {"reward_at": 15} if outdir == str(b) else {}
        return again(f"scratch/{Path(outdir).name}", Path(outdir), request.since, request.until, **mishap)

    monkeypatch.setattr(trace_diff, "_rerun", trained_again)
    known = trace_diff.first_record(str(a), str(b))
    text, is_reproducible = trace_diff.compare_reruns((str(a), str(b)), str(tmp_path / "scratch"), 0, 20, known)
    assert not is_reproducible and f"{a} does not" not in text
    assert f"{b} is not reproducible: the first difference is at step 11, in loss" in text


def test_a_loss_that_differs_is_followed_to_the_tensors_that_do():
    loss, reward = (Difference("", 501, 502, needs_tensors=asks, last=5000) for asks in (True, False))
    until_1000, named = Difference("", 0, 1000), Difference("", 501, 502)
    same, nothing = Difference("", 1000), Difference("", 5000)
    expected = [
        (loss, until_1000, True, (0, 1000)),  # a clipped gradient may be the same for two losses
        (loss, Difference("", 1000, 2000), True, (1000, 2000)),
        (loss, Difference("", 0, 3000), True, (0, 1502)),
        (loss, same, True, (1000, 5000)),
        (loss, named, False, (501, 502)),
        (loss, nothing, False, (5000, 5000)),
        (reward, until_1000, False, (0, 502)),
        (reward, Difference("", 200, 400), True, (200, 400)),
        (Difference("", 5000), Difference("", 20, 40), True, (20, 40)),
        (Difference("", 5000), Difference("", -1, 0), False, (0, 1)),
    ]
    for record, tensors, tells_more, interval in expected:
        assert closer_interval(record, tensors) == interval, (record, tensors)
        assert needs_rerun(record, tensors, *interval) is tells_more, (record, tensors)


def test_programs_that_do_not_train_again_are_told_with_their_last_words(tmp_path, capsys):
    started_as = [sys.executable, "-S", "-c", "raise SystemExit('no such data')"]
    assert main(["diff-runs", *two_runs(tmp_path, "spoil_at", 10, started_as)]) == 1
    out = capsys.readouterr().out
    assert "rerun: the rerun failed" in out and "before it trained an agent in" in out and "no such data" in out
    assert "possible causes:" in out
    with pytest.raises(RerunError, match="cannot be started"):
        rerun_training(
            {"started_as": started_as, "directory": str(tmp_path / "gone"), "settings": {}},
            RerunRequest(str(tmp_path / "a"), str(tmp_path / "scratch"), until=1),
        )


def test_a_program_learns_which_checkpoint_to_go_on_from(monkeypatch):
    assert crash_replay.checkpoint() is None
    monkeypatch.setenv(VARIABLE, RerunRequest("run", "scratch", until=7).to_text())
    assert crash_replay.checkpoint() is None
    monkeypatch.setenv(VARIABLE, RerunRequest("run", "scratch", checkpoint="run/5_checkpoint", until=7).to_text())
    assert crash_replay.checkpoint() == "run/5_checkpoint"


def recorded(outdir: Path, arguments: Any = None, /, **told: Any) -> str:
    """A directory with the record of a run, and the arguments of its program."""
    outdir.mkdir()
    (outdir / "run.json").write_text(json.dumps(told))
    if arguments is not None:
        (outdir / "args.txt").write_text(json.dumps(arguments))
    return str(outdir)


def test_what_may_explain_a_difference_is_told_with_the_reason(tmp_path):
    common = {"agent": "DQN", "device": "cuda:0", "versions": {"torch": "2.10", "numpy": "2.3"}}
    for name, threads, lr, hashes in (("a", 1, 0.1, None), ("b", 2, 0.2, "0")):
        outdir = str(tmp_path / name)
        recorded(
            tmp_path / name, {"lr": lr, "outdir": outdir, "steps": 10}, **common, start=name,
            command=["train.py", outdir, "--fast"], hardware={"torch_threads": threads},
            settings={"PYTHONHASHSEED": hashes, "deterministic": False},
        )  # fmt: skip
    found = [*explanations((str(tmp_path / "a"), str(tmp_path / "b")))]
    assert found[:3] == [
        "hardware.torch_threads: 1 and 2 (sums are computed in a different order)",
        "settings.PYTHONHASHSEED: None and '0' (sets of strings have a different order)",
        "arguments.lr: 0.1 and 0.2 (arguments differ)",
    ]
    assert [line.partition(":")[0] for line in found[3:]] == ["device", "settings.deterministic"]


def test_hashes_that_nobody_fixed_are_told_only_where_nothing_else_is_why(tmp_path):
    settings = {"PYTHONHASHSEED": None}
    a, b, c = (recorded(tmp_path / name, settings=settings, seeds={"torch": name == "c"}) for name in "abc")
    named = "settings.PYTHONHASHSEED: not set"
    assert next(explanations((a, b))).startswith(named)
    assert [line[:11] for line in explanations((a, c))] == ["seeds.torch"]
    assert [*explanations((a, c), is_reproducible=False)][1].startswith(named)
    change_record(Path(b), settings={"PYTHONHASHSEED": "0"})
    assert [line[:29] for line in explanations((a, b), is_reproducible=False)] == ["settings.PYTHONHASHSEED: None"]


def test_commands_are_compared_without_the_run_directories_also_after_a_move(tmp_path):
    moved = []
    for name, given in (("a", "runs/a"), ("b", str(tmp_path / "runs" / "b"))):
        command = ["train.py", given, f"--outdir={given}", "--name=a", "--seed=0", "\0", ""]
        places = {"directory": str(tmp_path), "outdir": str(tmp_path / "runs" / name)}
        moved.append(recorded(tmp_path / f"{name}-moved", {"outdir": given, "fast": True}, command=command, **places))
    assert not any(line.startswith(("command", "arguments")) for line in explanations(moved))
    change_record(tmp_path / "b-moved", command=["train.py", "runs/b", "--fast"])
    assert [*explanations(moved)] == [
        r"command: ['train.py', 'DIR', '--outdir=DIR', '--name=a', '--seed=0', '\x00', ''] and "
        "['train.py', 'DIR', '--fast'] (arguments differ)"
    ]
