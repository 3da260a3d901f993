"""List the seeds that the tables of scores lack, and run them in the background.

    python benchmarks/missing_scores.py                  # what is missing, in order, with the hours of one core
    python benchmarks/missing_scores.py --run --commit   # until nothing is; resumes what was stopped

SIGTERM and Ctrl-C end it; a file `stop` in its folder does so after the training under way.

One training at a time runs at the lowest priority (`score_case.py`): first the presets of `preset_scores.py`, with the
library of this tree; then all others with that of commit 9ab6f06, in a work tree of its own with an environment of its
own, so that changes under way cannot break them. Tasks and settings are those of this tree.
A training checkpoints after about a minute of a free core, and after SIGTERM, outside the repository; d3rlpy's do not.
A finished seed is a line of the results, and so is one that failed, which is not tried again.

While a measurement holds the lock of `measurement_lock.py`, the training is stopped.
"""

import argparse
import contextlib
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import offline_scores
import preset_scores
import score_case
import score_queue
import scores
from measurement_lock import INTERVAL, is_measuring
from score_queue import Item
from speed import ONE_THREAD, ROOT

try:
    import fcntl
except ImportError:
    sys.exit("missing_scores.py stops and continues processes, which needs Linux or macOS")

COMMIT = "9ab6f06d6b9ed3c14a2d41f2390214679954a9ba"
#: Agents and tasks that need parts which the library of that commit lacks: dueling streams, and selected features.
NEWER = frozenset({"Rainbow", "cartpole-po", "cartpole-po-100k"})
FOLDER = Path("~/.cache/pfrl_like/scores").expanduser()
INSTALL = ("-c", "constraints.txt", "torch==2.13.0", "-e", ".[dev]", "minatar")
#: Of a free core: on one that other programs use for nine tenths of the time it is ten minutes.
SECONDS_BETWEEN_CHECKPOINTS = 60.0
#: Seconds that a training gets to save after SIGTERM, and after which what it has taken is written down.
PATIENCE, HEARTBEAT = 120.0, 2.0
#: That show scores, seen from the folder of the results.
DOCUMENTS = ("../../README.md", "../README.md", "../../pfrl_like/zoo/presets")
#: Of a process that somebody has ended.
ENDED = (*(-each for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL)), 128 + signal.SIGTERM)


class Place(NamedTuple):
    """Where trainings run and results go.

    Attributes:
        folder: Of the work tree, runs and sets.
        tree: The work tree.
        results: Of `scores.py`.
        offline_results: Of `offline_scores.py`.
        trial_results: Of the trials of `score_trials.py`.
        preset_results: Of `preset_scores.py`.
        peer_python: Interpreter that has d3rlpy installed.
    """

    folder: Path
    tree: Path
    results: Path
    offline_results: Path
    trial_results: Path
    preset_results: Path
    peer_python: Path

    @property
    def python(self) -> Path:
        """The interpreter of the work tree."""
        return self.tree / ".venv" / "bin" / "python"

    @property
    def data(self) -> Path:
        """Folder of the sets."""
        return self.folder / "data"

    def queue(self) -> list[Item]:
        """Everything that is missing, in order."""
        contents = offline_scores.contents_of(self.data)
        others = score_queue.queue(self.results, self.offline_results, self.trial_results, contents)
        return [*score_queue.missing_presets(self.preset_results), *others]

    def library_of(self, item: Item) -> tuple[Path, Path]:
        """The interpreter and the tree of the library with which it is trained."""
        is_newer = item.job is not None or not NEWER.isdisjoint(item.row)
        return (Path(sys.executable), ROOT) if is_newer else (self.python, self.tree)

    def run_folder(self, item: Item) -> Path:
        """Folder of the checkpoints and the output. It is deleted when the line is written."""
        name = re.sub(r"\W+", "-", f"{item.kind} {item.name} {item.seed} {fingerprint(item)}")
        return self.folder / "runs" / name

    def results_of(self, item: Item) -> Path:
        """Where its line goes."""
        if item.job is not None:
            return self.preset_results
        if item.trial is not None:
            return self.trial_results
        return self.results if item.kind == "scores" else self.offline_results


def log(text: str) -> None:
    print(f"{datetime.datetime.now():%Y-%m-%d %H:%M:%S} {text}", flush=True)


def git(tree: Path, *arguments: str) -> str:
    """Run git; returns its output."""
    return subprocess.run(["git", "-C", tree, *arguments], check=True, capture_output=True, text=True).stdout.strip()


def lock_folder(folder: Path) -> int:
    """Take the folder for this command and the training that it starts; of a dead command the training is ended first.

    Returns:
        A descriptor of the lock, which lasts until all who have it are gone.
    """
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    for attempt in range(int(PATIENCE)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            write_owner(folder, None)
            return descriptor
        except BlockingIOError:
            command, training = json.loads((folder / "owner.json").read_text())
            if is_alive(command):
                sys.exit(f"process {command} runs in {folder} already")
            if attempt == 0 and training is not None:
                log(f"process {command} is dead; its training {training} is ended")
                signal_group(training, signal.SIGTERM, signal.SIGCONT)
            time.sleep(1.0)
    sys.exit(f"training {training} in {folder} does not end")


def write_owner(folder: Path, training: int | None) -> None:
    """Note this process and the group of its training, for `lock_folder` of a later command."""
    write_json(folder / "owner.json", [os.getpid(), training])


def write_json(path: Path, value: Any) -> None:
    """Replace a file as a whole."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(value))
    temporary.replace(path)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def signal_group(group: int, *signals: int) -> bool:
    """Send signals to all processes of a group; False if there are none."""
    try:
        for each in signals:
            os.killpg(group, each)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def install(tree: Path, folder: Path, lock: int, is_over: Callable[[], bool]) -> None:
    """Make the environment of the work tree. pip inherits the lock: a later command ends it, as it ends a training."""
    subprocess.run([sys.executable, "-m", "venv", tree / ".venv"], check=True)
    path = folder / "pip.txt"
    with path.open("wb") as output:
        command = [tree / ".venv" / "bin" / "python", "-m", "pip", "install", "-q", *INSTALL]
        options: dict[str, Any] = {"stdout": output, "stderr": output, "start_new_session": True, "pass_fds": [lock]}
        pip = subprocess.Popen(command, cwd=tree, **options)
    write_owner(folder, pip.pid)
    while pip.poll() is None:
        if is_over():
            signal_group(pip.pid, signal.SIGTERM)
            pip.wait()
            sys.exit("ended while the environment was made; the next run makes it")
        time.sleep(INTERVAL)
    if pip.returncode:
        sys.exit("\n".join([f"pip failed, see {path}", *path.read_text(errors="replace").splitlines()[-15:]]))
    (tree / ".venv" / "complete").touch()


def make_tree(place: Place, repository: Path, lock: int, is_over: Callable[[], bool]) -> None:
    """The work tree with its environment, as far as it is missing, and this tree's benchmarks in it."""
    tree = place.tree
    if not (tree / ".git").exists():
        git(repository, "worktree", "prune")
        git(repository, "worktree", "add", "--force", "--detach", str(tree), COMMIT)
    if not (tree / ".venv" / "complete").exists():
        log(f"an environment is made in {tree}")
        install(tree, place.folder, lock, is_over)
    ours = Path(__file__).parent
    if ours != tree / "benchmarks":
        leave = shutil.ignore_patterns("results", "data", "__pycache__")
        shutil.copytree(ours, tree / "benchmarks", ignore=leave, dirs_exist_ok=True)
        shutil.copytree(ROOT / "pfrl_like" / "zoo", tree / "benchmarks" / "zoo", ignore=leave, dirs_exist_ok=True)


def environment(tree: Path) -> dict[str, str]:
    return {**os.environ, **ONE_THREAD, "PYTHONPATH": str(tree), "SDL_VIDEODRIVER": "dummy", "MPLBACKEND": "Agg"}


def check_tree(place: Place) -> None:
    """Refuse a work tree in which the settings or the library are others than expected, and a peer without d3rlpy."""
    command = [place.python, place.tree / "benchmarks" / "score_case.py", "list"]
    done = subprocess.run(command, env=environment(place.tree), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"these benchmarks do not run with the library of {COMMIT:.7}:\n{done.stderr}")
    there, here = json.loads(done.stdout.splitlines()[-1]), score_case.fingerprints()
    if there["commit"] != COMMIT:
        sys.exit(f"the library in {place.tree} is of commit {there['commit']}, expected {COMMIT}")
    if there["settings"] != here["settings"]:
        sys.exit(f"the settings in {place.tree} are not those of {Path(__file__).parent}")
    if place.peer_python.exists():
        subprocess.run([place.peer_python, "-c", "import d3rlpy"], check=True, capture_output=True)


def fingerprint(item: Item) -> str:
    """Tells runs of other settings apart."""
    if item.job is not None:
        return item.job.fingerprint
    if item.kind == "scores":
        return scores.fingerprint(*item.row)
    return offline_scores.fingerprint(item.row[1], {}) if item.kind == "offline" else "sets"


def changes_of(item: Item) -> dict[str, Any]:
    """Settings that a trial changes, or the best trial of a preset."""
    changed = item.job or item.trial
    return {} if changed is None else dict(changed.changes)


def steps_of(item: Item) -> int:
    """Steps or updates of a training; 0 of one that has checkpoints of its own."""
    if item.job is not None:
        return item.job.steps
    changed = changes_of(item).get("steps") or changes_of(item).get("updates")
    if changed:
        return int(changed)
    if item.kind == "scores":
        return scores.TASKS[item.row[0]].steps
    return int(offline_scores.settings_of(item.row[1])["updates"]) if item.kind == "offline" else 0


def crash_line(item: Item, place: Place, signum: int) -> dict[str, Any]:
    """The line of a training that a signal ended."""
    common = {"seed": item.seed, "settings": fingerprint(item), "commit": COMMIT}
    common["error"] = signal.Signals(signum).name
    if item.job is not None:
        return item.job.metadata() | common | {"commit": scores.provenance()["commit"]}
    if item.kind == "scores":
        return dict(zip(("task", "agent"), item.row, strict=True)) | common
    data = offline_scores.content_of(offline_scores.dataset_of(item.row[0], place.data))
    return dict(zip(("dataset", "algorithm", "library"), item.row, strict=True)) | common | {"data": data}


def start(item: Item, place: Place, folder: Path, lock: int) -> subprocess.Popen[bytes]:
    """The process of a training, in a group of its own."""
    steps = steps_of(item)
    freq = max(1, int(steps * SECONDS_BETWEEN_CHECKPOINTS / max(item.seconds, SECONDS_BETWEEN_CHECKPOINTS)))
    python, tree = place.library_of(item)
    command = [
        python, tree / "benchmarks" / "score_case.py", item.kind, *item.row, "--seed", str(item.seed),
        "--folder", folder, "--checkpoint-freq", str(freq), "--peer-python", place.peer_python, "--data", place.data,
        "--changes", json.dumps(changes_of(item)),
        *(["--trial", item.job.trial] if item.job is not None and item.job.trial is not None else []),
    ]  # fmt: skip
    with (folder / "output.txt").open("ab") as output:
        return subprocess.Popen(
            command, cwd=folder, env=environment(tree), stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True, pass_fds=[lock],
        )  # fmt: skip


class Spent:
    """Seconds and seconds of the processor that a training has taken, over all processes of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.before: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
        self.seconds, self._cpu = 0.0, dict[tuple[int, str], float]()

    def look(self, group: int) -> None:
        """Note what each process of a group has taken so far: `getrusage` misses those whose parent does not wait.

        What a process takes after the last look is lost.
        """
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):  # it has ended
                fields = path.read_bytes().rpartition(b")")[2].split()
                if int(fields[2]) == group:  # ids are reused, not together with the start time
                    key = int(path.parent.name), fields[19].decode()
                    self._cpu[key] = sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    def total(self) -> dict[str, float]:
        """Both so far. `cpu_seconds` exists only on systems with /proc."""
        now = {"seconds": self.seconds} | ({"cpu_seconds": sum(self._cpu.values())} if self._cpu else {})
        return {name: round(self.before.get(name, 0.0) + now.get(name, 0.0), 1) for name in (self.before | now)}

    def write(self) -> None:
        write_json(self.path, self.total())


def supervise(child: subprocess.Popen[bytes], spent: Spent, is_over: Callable[[], bool]) -> bool:
    """Wait for a training, and stop it while something is measured.

    Args:
        child: Its process.
        spent: Counts the time in which it is not stopped.
        is_over: True once it has to end.

    Returns:
        False if it had to.
    """
    stopped, last, written = False, time.monotonic(), time.monotonic()
    while child.poll() is None:
        if is_over():
            spent.look(child.pid)
            signal_group(child.pid, signal.SIGTERM, signal.SIGCONT)
            try:
                child.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                signal_group(child.pid, signal.SIGKILL)
                child.wait()
            spent.write()
            return False
        if is_measuring() != stopped:
            stopped = not stopped
            signal_group(child.pid, signal.SIGSTOP if stopped else signal.SIGCONT)
            log("stopped for a measurement" if stopped else "continued")
        time.sleep(INTERVAL)
        now = time.monotonic()
        spent.seconds += 0.0 if stopped else now - last
        last = now
        if not stopped and now - written > HEARTBEAT:
            spent.look(child.pid)
            spent.write()
            written = now
    return True


def train(item: Item, place: Place, lock: int, is_over: Callable[[], bool]) -> dict[str, Any] | None:
    """Run one training to its end.

    Returns:
        Its line, empty of a set; None if it was stopped.
    """
    folder = place.run_folder(item)
    folder.mkdir(parents=True, exist_ok=True)
    spent = Spent(folder / "spent.json")
    child = start(item, place, folder, lock)
    write_owner(place.folder, child.pid)
    finished = supervise(child, spent, is_over)
    for _ in range(int(PATIENCE)):  # what it has started may still save
        if not signal_group(child.pid, 0):
            break
        time.sleep(1.0)
    spent.write()
    if not finished:
        return None
    if child.returncode in ENDED:
        sys.exit(f"{item.name}, seed {item.seed}: somebody ended it; the next run resumes it")
    output = (folder / "output.txt").read_text(errors="replace").splitlines()[-15:]
    if child.returncode > 0:
        sys.exit("\n".join([f"{item.name}, seed {item.seed}: no training, see {folder}", *output]))
    if child.returncode < 0 and item.kind == "data":
        sys.exit(f"{item.name}: ended by {signal.Signals(-child.returncode).name}")
    if child.returncode < 0:
        line = crash_line(item, place, -child.returncode)
    else:
        line = json.loads((folder / "line.json").read_text())
    if "error" in line:
        log("\n".join([f"{item.name}, seed {item.seed} failed; its output ends so:", *output]))
    shutil.rmtree(folder)
    if item.trial is not None:
        line |= {"trial": item.trial.name, "row": item.row, "changes": changes_of(item)}
    return line | spent.total() if line else {}


def append_line(line: dict[str, Any], path: Path, message: str, commits: bool) -> None:
    """Append a line to the results, and commit it with the documents that show it, if asked.

    Documents that somebody is changing are left as they are.
    """
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
    for _ in range(20 if commits else 0):
        try:
            ours = path.parent == scores.RESULTS.parent
            shown = DOCUMENTS if ours and not git(path.parent, "status", "--porcelain", "--", *DOCUMENTS) else ()
            if shown:
                subprocess.run([sys.executable, ROOT / "benchmarks" / "document_numbers.py", "--write"], check=False)
            git(path.parent, "add", "--", path.name, *shown)
            git(path.parent, "commit", "-q", "-m", message, "--", path.name, *shown)
            return
        except subprocess.CalledProcessError as error:  # another git may be at work
            failure = error.stderr
            time.sleep(3.0)
    if commits:
        log(f"not committed, the next commit takes it along: {failure}")


def run(place: Place, repository: Path, hours: float | None, commits: bool) -> None:
    """Train what is missing until nothing is, the time is over, or a signal comes."""
    place.folder.mkdir(parents=True, exist_ok=True)
    lock = lock_folder(place.folder)
    (place.folder / "stop").unlink(missing_ok=True)
    signals: list[int] = []
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, _: signals.append(number))
    deadline = time.monotonic() + (float("inf") if hours is None else 3_600 * hours)

    def is_over() -> bool:
        return bool(signals) or time.monotonic() > deadline

    make_tree(place, repository, lock, is_over)
    check_tree(place)

    def profits(item: Item) -> bool:
        if item.needs_peer and not place.peer_python.exists():
            return False
        return item.resumes or time.monotonic() + item.seconds < deadline

    while not is_over() and not (place.folder / "stop").exists():
        item = next(filter(profits, place.queue()), None)
        if item is None:
            log("nothing is missing that could be run")
            return
        folder = place.run_folder(item)
        verb = "goes on" if item.resumes and folder.exists() else "begins"
        log(f"{item.name}, seed {item.seed}: {verb}, some {item.seconds / 60:.0f} minutes in all, in {folder}")
        line = train(item, place, lock, is_over)
        if line is None:
            log(f"{item.name}, seed {item.seed}: ended early; the next run resumes it")
        elif item.kind == "data":
            log(f"{item.name}: made")
        else:
            text = f"{item.name}, seed {item.seed}: {line.get('error') or round(line['score'], 1)}"
            append_line(line, place.results_of(item), f"Scores: {text}", commits)
            log(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="store_true", help="run it, and not only list it")
    parser.add_argument("--commit", action="store_true", help="commit every line")
    parser.add_argument("--hours", type=float, help="stop after that; what could not be resumed is not begun then")
    parser.add_argument(
        "--folder",
        type=Path,
        default=FOLDER,
        help="of the work tree, checkpoints and sets; sets that are there are not listed",
    )
    parser.add_argument("--tree", type=Path, help="the work tree; <folder>/tree without it")
    peer = ROOT / ".peers" / "d3rlpy" / "bin" / "python"
    parser.add_argument("--peer-python", type=Path, default=peer, help="interpreter that has d3rlpy installed")
    parser.add_argument("--results", type=Path, default=scores.RESULTS)
    parser.add_argument("--offline-results", type=Path, default=offline_scores.RESULTS)
    parser.add_argument("--trial-results", type=Path, default=scores.RESULTS.with_name("score_trials.jsonl"))
    parser.add_argument("--preset-results", type=Path, default=preset_scores.RESULTS)
    args = parser.parse_args()
    folder = args.folder.absolute()
    tree = (args.tree or folder / "tree").absolute()
    paths = (args.results, args.offline_results, args.trial_results, args.preset_results, args.peer_python)
    place = Place(folder, tree, *(path.absolute() for path in paths))
    items = place.queue()
    print(score_queue.table(items).splitlines()[-1] if args.run else score_queue.table(items))
    if not place.peer_python.exists():
        hours = sum(item.seconds for item in items if item.needs_peer) / 3_600
        reason = f"{place.peer_python} is not there (`make peers`)"
        print(f"pairs with d3rlpy (both halves) and their sets, {hours:.1f} hours of these, do not run: {reason}")
    if args.run:
        run(place, ROOT, args.hours, args.commit)


if __name__ == "__main__":
    main()
