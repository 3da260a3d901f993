"""`benchmarks/missing_scores.py`: which seeds are missing, in which order they run, and what becomes of each."""

import importlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
pytest.importorskip("fcntl")
NO_SETS: Mapping[str, str | None] = {"hopper-medium": None, "halfcheetah-medium": None, "pendulum": "a"}


@pytest.fixture
def missing(script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    module = script("missing_scores")
    monkeypatch.setattr(module, "INTERVAL", 0.01)
    monkeypatch.setattr(module, "is_measuring", lambda: False)
    sleep = time.sleep
    monkeypatch.setattr(module.time, "sleep", lambda seconds: sleep(min(seconds, 0.01)))
    return module


@pytest.fixture
def place(missing: Any, tmp_path: Path) -> Any:
    names = ("folder", "tree", "scores.jsonl", "offline.jsonl", "trials.jsonl", "presets.jsonl", "python")
    place = missing.Place(*(tmp_path / name for name in names))
    place.folder.mkdir()
    return place


def score_line(scores: Any, task: str, agent: str, seed: int, **told: Any) -> dict[str, Any]:
    fingerprint = scores.fingerprint(task, agent)
    line = {"task": task, "agent": agent, "seed": seed, "settings": fingerprint, "seconds": 100.0}
    return line | ({"score": 1.0, "returns": [1.0]} if "error" not in told else {}) | told


def pair_line(offline: Any, library: str, seed: int, **told: Any) -> dict[str, Any]:
    job = offline.Job("pendulum", "CQL", library, seed)._asdict()
    return job | {"settings": offline.fingerprint("CQL", {}), "seconds": 100.0, "data": "a", "score": 1.0} | told


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_every_row_gets_its_third_seed_before_any_row_its_tenth(script: Any, tmp_path: Path) -> None:
    items = script("score_queue").queue(*[tmp_path / "none"] * 3, NO_SETS)
    seeds = [item.seed for item in items if item.kind == "scores" and item.trial is None]
    assert max(seeds) == 9 and 2 in seeds
    assert seeds.index(9) > max(position for position, seed in enumerate(seeds) if seed == 2)


def test_rows_of_a_stage_get_a_seed_each_in_turn(script: Any, tmp_path: Path) -> None:
    items = script("score_queue").queue(*[tmp_path / "none"] * 3, {})
    assert [(item.row[1], item.seed) for item in items if item.group == "halfcheetah"][:4] == [
        ("TD3", 0), ("SoftActorCritic", 0), ("TD3", 1), ("SoftActorCritic", 1)
    ]  # fmt: skip


def test_a_seed_that_failed_is_not_missing_and_has_no_score(script: Any, tmp_path: Path, capsys: Any) -> None:
    scores, queue = script("scores"), script("score_queue")
    lines = [score_line(scores, "hopper", "TD3", 0), score_line(scores, "hopper", "TD3", 1, error="ValueError: NaN")]
    path = write(tmp_path / "scores.jsonl", lines)
    assert [item.seed for item, _ in queue.missing_scores(path) if item.row == ("hopper", "TD3")] == [2]
    scores.print_table(scores.read_results(path))
    assert "| hopper | TD3 | 200,000 | 1 of 3, 1 failed | 1.0 [1.0, 1.0] |" in capsys.readouterr().out


def test_a_line_that_is_marked_as_invalid_does_not_count(script: Any, tmp_path: Path) -> None:
    scores, offline = script("scores"), script("offline_scores")
    line, marked = score_line(scores, "hopper", "TD3", 0), score_line(scores, "hopper", "TD3", 1, invalid="a fault")
    assert scores.read_results(write(tmp_path / "scores.jsonl", [line, marked])) == [line]
    line, marked = pair_line(offline, "d3rlpy", 0), pair_line(offline, "d3rlpy", 1, invalid="a fault")
    assert offline.finished(write(tmp_path / "offline.jsonl", [line, marked]), {}) == [line]


def test_no_half_of_a_pair_is_trained_if_the_other_failed(script: Any) -> None:
    offline = script("offline_scores")
    failed = pair_line(offline, "d3rlpy", 0, error="ValueError: NaN")
    jobs = offline.missing([failed, pair_line(offline, "d3rlpy", 1)], {"pendulum": "a"}, range(3))
    halves = [(job.library, job.seed) for job in jobs if job.algorithm == "CQL"]
    assert halves == [("pfrl_like", 1), ("pfrl_like", 2), ("d3rlpy", 2)]
    assert offline.pairs([failed, pair_line(offline, "pfrl_like", 0)]) == {}


def test_a_trial_comes_first_and_is_run_once(script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = script("score_queue")
    trials = (queue.Trial("longer", ("hopper", "TD3"), {"steps": 400_000}, (0, 7)),)
    monkeypatch.setattr(queue, "TRIALS", trials)
    lines = write(tmp_path / "scores.jsonl", [score_line(script("scores"), "hopper", "TD3", 0)])
    first, second, third, *_ = queue.queue(lines, tmp_path / "none", tmp_path / "none", {})
    assert (first.seed, second.seed, first.trial, third.trial) == (0, 7, trials[0], None)
    assert first.seconds == 200  # twice as long
    path = write(tmp_path / "trials.jsonl", [{"trial": "longer", "row": ["hopper", "TD3"], "seed": 0}])
    assert [item.seed for item in queue.queue(lines, tmp_path / "none", path, {}) if item.trial in trials] == [7]


def test_presets_come_first_with_the_library_of_this_tree(missing: Any, place: Any) -> None:
    first, *others = place.queue()
    assert first.kind == "presets" and place.results_of(first) == place.preset_results
    assert place.library_of(first) == (Path(sys.executable), ROOT)
    newer = [item for item in others if item.kind == "presets" or not missing.NEWER.isdisjoint(item.row)]
    assert {place.library_of(item) for item in newer} == {(Path(sys.executable), ROOT)}
    (other,) = {place.library_of(item) for item in others if item not in newer}
    assert other == (place.python, place.tree)
    done = {"seed": first.seed} | first.job.metadata()
    write(place.preset_results, [done | {"error": "SIGSEGV"}])
    assert place.queue()[0] == others[0]


def test_a_preset_that_crashes_is_recorded(missing: Any, place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    item = place.queue()[0]
    monkeypatch.setattr(missing, "start", started("kill -SEGV $$"))
    line = missing.train(item, place, 0, lambda: False)
    assert line.items() >= item.job.metadata().items()
    assert line["error"] == "SIGSEGV" and line["commit"] != missing.COMMIT


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system has no /proc")
def test_seconds_of_the_processor_are_those_of_all_processes_and_parts(missing: Any, tmp_path: Path) -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ntime.sleep(60)"
    nested = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {busy!r}])"
    path = tmp_path / "spent.json"
    path.write_text(json.dumps({"seconds": 100.0, "cpu_seconds": 90.0}))
    spent = missing.Spent(path)
    assert spent.total() == {"seconds": 100.0, "cpu_seconds": 90.0}  # of earlier parts
    child = subprocess.Popen([sys.executable, "-c", nested], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert (
            child.stdout is not None and child.stdout.readline()
        )  # the child's child has worked, and is not waited for
        for _ in range(2):
            spent.look(child.pid)  # a second look adds nothing
        assert 90.3 <= spent.total()["cpu_seconds"] < 95.0
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def test_the_environment_ends_with_the_command(
    missing: Any, place: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    python = place.tree / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho broken; test -e wait && exec sleep 60; exit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(missing.subprocess, "run", lambda *_, **__: None)  # makes no environment
    with (tmp_path / "lock").open("w") as lock:
        with pytest.raises(SystemExit, match=r"(?s)pip failed, see .*pip.txt.*broken"):
            missing.install(place.tree, place.folder, lock.fileno(), lambda: False)
        (place.tree / "wait").touch()
        with pytest.raises(SystemExit, match="ended while the environment was made"):
            missing.install(place.tree, place.folder, lock.fileno(), lambda: True)
    pid = json.loads((place.folder / "owner.json").read_text())[1]
    assert not missing.signal_group(pid, 0) and not (place.tree / ".venv" / "complete").exists()


def test_a_change_is_merged_into_the_settings(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = script("score_tasks")
    monkeypatch.setattr(tasks, "CHANGES", {})
    monkeypatch.setattr(tasks, "TASKS", dict(tasks.TASKS))
    before = tasks.settings_of("pendulum-100k", "TRPO")
    tasks.change("pendulum-100k", "TRPO", {"steps": 5, "lr": 0.5, "agent": {"vf_epochs": 3}})
    assert tasks.settings_of("pendulum-100k", "TRPO") == {
        **before, "lr": 0.5, "agent": {**before["agent"], "vf_epochs": 3}
    }  # fmt: skip
    assert tasks.TASKS["pendulum-100k"].steps == 5


def test_seconds_are_those_recorded_or_scaled_by_steps(script: Any) -> None:
    scores, queue = script("scores"), script("score_queue")
    lines = [score_line(scores, "hopper", "TD3", seed, seconds=seconds) for seed, seconds in enumerate((100, 300, 200))]
    assert queue.score_seconds(lines, "hopper", "TD3") == 200  # the median
    assert queue.score_seconds(lines, "walker2d", "TD3") == 100  # half as many steps
    lines[0] |= {"cpu_seconds": 250.0}
    assert queue.score_seconds(lines, "hopper", "TD3") == 250


def test_a_training_stands_still_while_something_is_measured(missing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    states: list[bool] = []  # True for a process that is stopped
    answers = [False, True, True, False, False]

    def is_stopped() -> bool:
        return Path(f"/proc/{child.pid}/stat").read_text().split()[2] == "T"

    def is_measuring() -> bool:
        before = bool(states) and answers[len(states) - 1]
        deadline = time.monotonic() + 10
        while is_stopped() != before and time.monotonic() < deadline:  # a signal takes effect a little later
            time.sleep(0.01)
        states.append(is_stopped())
        return answers[len(states) - 1]

    if not Path("/proc/self/stat").exists():
        pytest.skip("the state of a process is read from /proc")
    monkeypatch.setattr(missing, "is_measuring", is_measuring)
    spent = missing.Spent(Path("/dev/null/none"))
    monkeypatch.setattr(spent, "write", lambda: None)
    assert not missing.supervise(child, spent, lambda: len(states) == 5)
    assert states == [False, False, True, True, False]
    assert child.returncode == -signal.SIGTERM


def started(command: str) -> Callable[..., Any]:
    def start(item: Any, place: Any, folder: Path, lock: int) -> subprocess.Popen[bytes]:
        (folder / "output.txt").write_text("what it said")
        return subprocess.Popen(["sh", "-c", command], start_new_session=True)

    return start


def test_a_training_that_crashes_is_recorded(missing: Any, place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    item = missing.Item("scores", ("hopper", "TD3"), 2, 1.0, True)
    monkeypatch.setattr(missing, "start", started("kill -SEGV $$"))
    line = missing.train(item, place, 0, lambda: False)
    assert (line["task"], line["agent"], line["seed"], line["error"]) == ("hopper", "TD3", 2, "SIGSEGV")
    assert line["commit"] == missing.COMMIT and line["settings"] == missing.fingerprint(item)


@pytest.mark.parametrize("command", ["exit 1", "kill -KILL $$", "kill -TERM $$"])
def test_a_training_that_never_ran_or_was_killed_is_not_recorded(
    missing: Any, place: Any, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(missing, "start", started(command))
    with pytest.raises(SystemExit, match="hopper TD3, seed 2"):
        missing.train(missing.Item("scores", ("hopper", "TD3"), 2, 1.0, True), place, 0, lambda: False)


def test_one_command_at_a_time_uses_a_folder(missing: Any, place: Any) -> None:
    descriptor = missing.lock_folder(place.folder)
    with pytest.raises(SystemExit, match=f"process {os.getpid()} runs in"):
        missing.lock_folder(place.folder)
    os.close(descriptor)
    os.close(missing.lock_folder(place.folder))


def test_the_stopped_training_of_a_dead_command_is_ended(missing: Any, place: Any) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    descriptor = missing.lock_folder(place.folder)
    child = subprocess.Popen(["sleep", "60"], start_new_session=True, pass_fds=[descriptor])
    os.close(descriptor)
    child.send_signal(signal.SIGSTOP)
    (place.folder / "owner.json").write_text(json.dumps([dead.pid, child.pid]))
    os.close(missing.lock_folder(place.folder))
    assert child.wait() == -signal.SIGTERM


def test_a_line_is_committed_alone(missing: Any, tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        return missing.git(tmp_path, "-c", "user.name=n", "-c", "user.email=e", *arguments)

    missing.git(tmp_path, "init", "-q")
    for name, value in (("user.name", "n"), ("user.email", "e")):
        git("config", name, value)
    path = write(tmp_path / "scores.jsonl", [{"seed": 0}])
    git("add", "scores.jsonl")
    git("commit", "-qm", "first")
    (tmp_path / "other").touch()
    git("add", "other")
    missing.append_line({"seed": 1}, path, "Scores: hopper TD3, seed 1: 3.0", True)
    assert git("show", "--name-only", "--format=%s").split("\n\n") == [
        "Scores: hopper TD3, seed 1: 3.0",
        "scores.jsonl",
    ]
    assert git("status", "--porcelain") == "A  other"
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"seed": 0}, {"seed": 1}]


def test_what_cannot_resume_is_not_begun_without_time_for_it(missing: Any, place: Any, monkeypatch: Any) -> None:
    place.peer_python.touch()
    items = [
        missing.Item("offline", ("pendulum", "CQL", "d3rlpy"), 0, 7_200.0, False),
        missing.Item("offline", ("pendulum", "CQL", "pfrl_like"), 0, 7_200.0, True),
    ]
    begun: list[Any] = []
    monkeypatch.setattr(missing, "make_tree", lambda *_: None)
    monkeypatch.setattr(missing, "check_tree", lambda *_: None)
    monkeypatch.setattr(missing.signal, "signal", lambda *_: None)
    monkeypatch.setattr(missing.Place, "queue", lambda _: [item for item in items if item not in begun])
    monkeypatch.setattr(missing, "train", lambda item, *_: begun.append(item))
    missing.run(place, ROOT, 1.0, False)
    assert begun == items[1:]


STEPS = {("pendulum", "SoftActorCritic"): 1_500, ("cartpole", "DQN"): 3_000, ("cartpole-100k", "PPO"): 4_000}


def environment(library: Path, benchmarks: Path) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{library}{os.pathsep}{benchmarks}"}


def scored(library: Path, benchmarks: Path, task: str, agent: str) -> list[float]:
    """Returns of a seed by `scores.py`."""
    program = (
        "import dataclasses, json, scores\n"
        f"scores.TASKS[{task!r}] = dataclasses.replace(scores.TASKS[{task!r}], steps={STEPS[task, agent]})\n"
        f"print(json.dumps(scores.run(({task!r}, {agent!r}, 1))['returns']))"
    )
    command = [sys.executable, "-c", program]
    options: dict[str, Any] = {"env": environment(library, benchmarks), "cwd": library}  # which "-c" looks into first
    done = subprocess.run(command, **options, capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout.splitlines()[-1]))


def in_background(library: Path, folder: Path, task: str, agent: str, seconds: float | None = None) -> dict[str, Any]:
    """The line of a seed by `score_case.py`, or nothing if it was ended before."""
    command = [
        sys.executable, BENCHMARKS / "score_case.py", "scores", task, agent, "--seed", "1", "--folder", folder,
        "--changes", json.dumps({"steps": STEPS[task, agent]}), "--checkpoint-freq", "500",
    ]  # fmt: skip
    options: dict[str, Any] = {"env": environment(library, BENCHMARKS), "start_new_session": True}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options) as child:
        assert child.stdout is not None and child.stdin is not None
        if seconds is not None:
            child.stdout.readline()  # a tenth is done
            time.sleep(seconds)
            child.stdin.close()  # as if the command had died
        child.stdout.read()
        child.wait()
    return dict(json.loads((folder / "line.json").read_text())) if (folder / "line.json").exists() else {}


@pytest.fixture(scope="module")
def old_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sys.path.insert(0, str(BENCHMARKS))
    commit = importlib.import_module("missing_scores").COMMIT
    sys.path.remove(str(BENCHMARKS))
    done = subprocess.run(["git", "-C", ROOT, "archive", commit, "pfrl_like", "benchmarks"], capture_output=True)
    if done.returncode:
        pytest.skip(f"commit {commit:.7} is not here")
    tree = tmp_path_factory.mktemp("old")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(tree, filter="data")
    return tree


@pytest.mark.slow
@pytest.mark.parametrize(("task", "agent"), STEPS)
def test_a_seed_gives_the_same_numbers_as_at_the_commit_of_the_results(
    old_tree: Path, tmp_path: Path, task: str, agent: str
) -> None:
    expected = scored(old_tree, old_tree / "benchmarks", task, agent)
    assert len({*expected}) > 1  # it tells runs apart
    assert scored(ROOT, BENCHMARKS, task, agent) == expected
    assert in_background(old_tree, tmp_path, task, agent)["returns"] == expected


@pytest.mark.slow
@pytest.mark.parametrize(("task", "agent"), STEPS)
def test_a_seed_that_was_stopped_gives_the_same_numbers(tmp_path: Path, task: str, agent: str) -> None:
    expected = scored(ROOT, BENCHMARKS, task, agent)
    assert in_background(ROOT, tmp_path, task, agent, seconds=0.0) == {}
    line = in_background(ROOT, tmp_path, task, agent)
    assert line["returns"] == expected and [each["resume"] for each in line["resumed"]] == ["exact"]
