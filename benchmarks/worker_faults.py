"""Lets worker processes, or their parent, fail in the midst of training; counts hangs, orphans and wrong endings.

    python benchmarks/worker_faults.py --trials 50

A fork of this program makes the trials of a case one after another, so that torch is imported, and a fork server
started, once; where the parent is to be killed, a further fork is the parent. Every second worker that hangs does so in
C code that lets no other thread run, and every second one that is killed is so at any moment rather than in a step.

Trials that the results already hold are not made again. Prints a line for every case, then those that went wrong: a
program that did not end; another ending than the error that names the worker, with where it was, and the agent saved;
an error later than five seconds after the fault (after the time limit, if a worker hangs); processes, threads or shared
memory that are still there half a minute later (a fork server that has torch needs a second of computing to end).
"""

import ctypes
import itertools
import json
import os
import select
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import gymnasium
import numpy as np
from measured_once import Line, measured_once, parser_of
from measurement_lock import measuring

SCRIPT = "worker_faults"
RUNNERS = ("vector", "async", "actor-learner")
FAULTS = ("killed", "raising", "exiting", "hanging", "parent killed")
METHODS = ("fork", "forkserver", "spawn")
LIMIT, GONE, PATIENCE = 5.0, 30.0, 240.0  # seconds
STEP_TIMEOUTS = {"fork": 5.0, "forkserver": 5.0, "spawn": 20.0}  # which bounds the start of a worker, too
#: What the error has to say of a worker.
TOLD = {
    "killed": "SIGKILL", "raising": "as it was told", "exiting": "exit code 0", "hanging": "in fail",
}  # fmt: skip


class Case(NamedTuple):
    """What is tried again and again."""

    runner: str
    fault: str
    method: str


class Failing(gymnasium.Wrapper):
    """Fails at a step, and says when in a file."""

    def __init__(self, env: Any, case: Case, seed: int, parent: int, file: Path) -> None:
        super().__init__(env)
        self.case, self.seed, self.parent, self.file = case, seed, parent, file
        self.drawn = np.random.default_rng(seed)
        self.left = int(self.drawn.integers(1, 200))

    def step(self, action: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            self.fail()
        return self.env.step(action)

    def fail(self) -> None:
        kill = partial(self.kill, os.getpid())
        if self.case.fault == "killed" and self.seed % 2:
            threading.Timer(self.drawn.uniform(0, 0.02), kill).start()
            return
        if self.case.fault == "killed":
            kill()
        if self.case.fault == "parent killed":
            self.kill(self.parent)
        self.note()
        if self.case.fault == "raising":
            raise ValueError("as it was told")
        if self.case.fault == "exiting":
            os._exit(0)
        hang(in_c=bool(self.seed % 2))

    def kill(self, pid: int) -> None:
        self.note()
        os.kill(pid, signal.SIGKILL)

    def note(self) -> None:
        """Say when, whole or not at all: whoever does so may be killed in the midst of it."""
        written = self.file.with_suffix(f".{os.getpid()}")
        written.write_text(str(time.time()))
        written.replace(self.file)


def hang(in_c: bool) -> NoReturn:
    """Wait for ever, in C where neither signals nor other threads are attended to."""
    mutex = ctypes.create_string_buffer(64)
    while True:
        if in_c:
            ctypes.PyDLL(None).pthread_mutex_lock(mutex)  # for the second time it waits for itself
        else:
            time.sleep(1)


def import_all() -> Any:
    """What training needs: not imported by the workers of a vector environment, which do without torch."""
    import torch
    import torch._dynamo  # which optimisers load when they are first used

    import pfrl_like.agents
    import pfrl_like.experiments  # noqa: F401

    torch.set_num_threads(1)
    return torch


def training(case: Case, seed: int, folder: Path) -> Callable[[], Any]:
    """Training without end in which worker 0 fails; the body of a trial."""
    from pfrl_like import agents, explorers, policies, q_functions, replay_buffers
    from pfrl_like.envs import MultiprocessVectorEnv
    from pfrl_like.experiments import train_agent_actor_learner, train_agent_async, train_agent_batch
    from pfrl_like.nn import Branched

    torch = import_all()
    parent = os.getpid()

    def make_env(process_idx: int = 0, test: bool = False) -> Any:
        env = gymnasium.make("CartPole-v1")
        return Failing(env, case, seed, parent, folder / "fault") if process_idx == 0 else env

    outdir, steps = folder / "run", 10**8
    timeout = STEP_TIMEOUTS[case.method] if case.fault == "hanging" else PATIENCE
    limits: dict[str, Any] = {"start_method": case.method, "step_timeout": timeout}
    if case.runner == "async":
        policy = torch.nn.Sequential(torch.nn.Linear(4, 2), policies.SoftmaxCategoricalHead())
        both = Branched(policy, torch.nn.Linear(4, 1))
        a3c = agents.A3C(both, torch.optim.SGD(both.parameters(), lr=0.01), t_max=5, gamma=0.99)
        return partial(train_agent_async, outdir, 2, make_env, steps=steps, agent=a3c, eval_interval=None, **limits)
    q_function = torch.nn.Sequential(torch.nn.Linear(4, 2), q_functions.DiscreteActionValueHead())
    dqn = agents.DQN(
        q_function, torch.optim.Adam(q_function.parameters()), replay_buffers.ReplayBuffer(1000), 0.99,
        explorers.ConstantEpsilonGreedy(0.1, lambda: 0), replay_start_size=50,
    )  # fmt: skip
    if case.runner == "actor-learner":
        return partial(train_agent_actor_learner, dqn, make_env, steps, outdir, eval_interval=None, **limits)
    return lambda: train_agent_batch(
        dqn, MultiprocessVectorEnv([partial(make_env, i) for i in range(2)], **limits), steps, outdir
    )


def trial(case: Case, seed: int) -> Line:
    """What comes of one failure, in this process or in one that is forked off."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tried, owner = (tried_in_a_fork if case.fault == "parent killed" else tried_here)(case, seed, folder)
        ended = time.time()
        left = what_is_left(owner)
        file = folder / "fault"
        start = float(file.read_text()) if file.exists() else ended
        saved = case.fault == "parent killed" or any(folder.glob("run/*_except"))
    if case.fault == "hanging":
        start += STEP_TIMEOUTS[case.method]
    took = ended - start
    late = [f"the error came after {took:.1f} s"] if took > LIMIT else []
    unsaved = [] if saved else ["the agent was not saved"]
    return {
        "ended_after": round(took, 2),
        "gone_after": round(time.time() - start, 2),
        "late": bool(late),
        "left": left,
        "wrong": [*tried, *late, *unsaved, *left],
    }


def tried_here(case: Case, seed: int, folder: Path) -> tuple[list[str], int]:
    """Train in this process; returns what is wrong with the error, and this process."""
    from pfrl_like.errors import AsyncTrainingError, WorkerError

    try:
        training(case, seed, folder)()
    except (WorkerError, AsyncTrainingError) as error:
        is_named = error.index == 0 if isinstance(error, WorkerError) else next(iter(error.reasons)) == 0
        told = str(error)
        return [] if is_named and TOLD[case.fault] in told else [told], os.getpid()
    except BaseException:
        return [traceback.format_exc()], os.getpid()
    return ["there was no error"], os.getpid()


def tried_in_a_fork(case: Case, seed: int, folder: Path) -> tuple[list[str], int]:
    """Train in a fork, which is killed; returns what is wrong with its end, and that process."""
    parent = os.fork()
    if parent == 0:
        try:
            os.setpgid(0, 0)
            training(case, seed, folder)()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(parent, 0)[1])
    return [] if code == -signal.SIGKILL else [f"ended with {code}"], parent


def what_is_left(owner: int) -> list[str]:
    """The processes (which are killed), threads and shared memory of one that are still there after some seconds."""
    deadline = time.time() + GONE
    while (left := (strangers(owner), memory_and_threads(owner))) != ([], []) and time.time() < deadline:
        time.sleep(0.02)
    for pid in left[0]:
        os.kill(pid, signal.SIGKILL)
    return [*(f"process {pid}" for pid in left[0]), *left[1]]


def strangers(owner: int) -> list[int]:
    """The processes of the group that a process leads; a living one has itself, and Python's servers."""
    own: set[int | None] = {owner}
    if owner == os.getpid():
        own |= {forkserver._forkserver._forkserver_pid, resource_tracker._resource_tracker._pid}  # type: ignore[attr-defined]
    return [pid for pid in processes_of(owner) if pid not in own]


def memory_and_threads(owner: int) -> list[str]:
    threads = threading.enumerate()[1:] if owner == os.getpid() else []
    return [*map(str, Path("/dev/shm").glob(f"pl_{owner}_*")), *map(str, threads)]


def processes_of(group: int) -> list[int]:
    """The processes of a group; those that only wait to be asked how they ended count if this process leads it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has gone meanwhile
            continue
        if int(fields[2]) == group and (fields[0] != "Z" or group == os.getpid()):
            found.append(int(path.parent.name))
    return found


class Program:
    """A fork of this process that makes the trials of a case, seen from outside."""

    def __init__(self, case: Case) -> None:
        self.case = case
        seeds, self.to_seeds = os.pipe()
        self.answers, to_answers = os.pipe()
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - gone with the program
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setpgid(0, 0)
                os.dup2(self.errors.fileno(), 2)
                os.close(self.to_seeds)
                os.close(self.answers)
                serve(case, seeds, to_answers)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        os.close(seeds)
        os.close(to_answers)

    def answer(self, seed: int) -> bytes | None:
        """What it says of a trial: nothing if it ends, None if it does neither in time."""
        os.write(self.to_seeds, seed.to_bytes(8, "little"))
        ready, _, _ = select.select([self.answers], [], [], PATIENCE)
        return os.read(self.answers, 1 << 16) if ready else None

    def end(self) -> str:
        """Kill it, with all its processes; returns the last that it said."""
        for pid in processes_of(self.pid):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.to_seeds)
        os.close(self.answers)
        with self.errors:
            self.errors.seek(0)
            return self.errors.read()[-3000:]


def serve(case: Case, seeds: int, answers: int) -> None:
    """Make a trial for every seed that comes."""
    while seed := os.read(seeds, 8):
        os.write(answers, json.dumps(trial(case, int.from_bytes(seed, "little"))).encode())


class Programs:
    """The program of the case that was asked for last."""

    def __init__(self) -> None:
        self.program: Program | None = None

    def measure(self, line: Line) -> Line:
        case = Case(*(line[name] for name in Case._fields))
        if self.program is not None and self.program.case != case:
            self.close()
        self.program = self.program or Program(case)
        load = round(os.getloadavg()[0], 1)
        answer = self.program.answer(line["trial"])
        if answer:
            return {"load": load, **json.loads(answer)}
        hangs = answer is None
        return {"load": load, "hangs": hangs, "wrong": [f"the program {'hangs' if hangs else 'ended'}: {self.close()}"]}

    def close(self) -> str:
        program, self.program = self.program, None
        return "" if program is None else program.end()


def summary(lines: list[Line]) -> str:
    wrong = [line for line in lines if line["wrong"]]
    told = [f"{len(lines):3} trials, {len(wrong)} wrong"]
    told += [f"{name} {sum(bool(line.get(name)) for line in lines)}" for name in ("hangs", "late", "left")]
    for name in ("ended_after", "gone_after", "load"):
        numbers = [line.get(name, 0.0) for line in lines]
        told.append(f"{name} {np.median(numbers):.1f} (at most {max(numbers):.1f})")
    return ", ".join(told)


def table(lines: list[Line]) -> list[str]:
    """By runner and start method the trials of each fault, and the longest time to the error or to the end of all."""
    rows = ["| runner | start method | " + " | ".join(FAULTS) + " |", "| --- " * 7 + "|"]
    for runner, method in itertools.product(RUNNERS, METHODS):
        cells = []
        for fault in FAULTS:
            until = "gone_after" if fault == "parent killed" else "ended_after"
            seconds = [
                line[until] for line in lines if Case(runner, fault, method) == tuple(line[n] for n in Case._fields)
            ]
            cells.append(f"{len(seconds)}: {max(seconds):.1f} s")
        rows.append(f"| {runner} | {method} | {' | '.join(cells)} |")
    return rows


@measuring()
def main() -> None:
    parser = parser_of(__doc__, "trust")
    parser.add_argument("--trials", type=int, default=50, help="of each case")
    parser.add_argument("--runners", nargs="+", choices=RUNNERS, default=RUNNERS)
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=FAULTS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    options = parser.parse_args()
    import_all()  # before any fork
    cases = itertools.product(options.runners, options.faults, options.methods, range(options.trials))
    programs = Programs()
    lines = measured_once(
        options,
        ({"script": SCRIPT, **dict(zip((*Case._fields, "trial"), case, strict=True))} for case in cases),
        programs.measure,
    )
    programs.close()
    lines = [line for line in lines if line.get("script") == SCRIPT]
    for case in Counter(Case(*(line[name] for name in Case._fields)) for line in lines):
        print(", ".join(case), summary([line for line in lines if case == tuple(line[n] for n in Case._fields)]))
    wrong = [line for line in lines if line["wrong"]]
    print(summary(lines) if lines else "no trials", *wrong, sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
