"""Lets worker processes, or their parent, fail in the midst of training; counts hangs, orphans and wrong endings.

    python benchmarks/worker_faults.py --trials 50 --results results.jsonl

Each trial is a script of its own. Trials that the results already hold are not made again. Prints a line for every kind
of failure and exits with an error if a script did not end, ended otherwise than with the error that names the process,
left a process behind for half a minute (a fork server that has torch needs a second of computing to end), or took
longer than five seconds (after the time limit, if a worker hangs) until the runner raised its error, the agent saved.
"""

import argparse
import collections
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

RUNNERS = ("vector", "async", "actor-learner")
FAULTS = ("killed", "raising", "exiting", "hanging", "parent killed")
METHODS = ("fork", "forkserver", "spawn")
LIMIT, GONE, STEP_TIMEOUT, PATIENCE = 5.0, 30.0, 20.0, 300.0  # seconds


def trial(runner: str, fault: str, method: str, seed: int, folder: Path) -> None:
    """Train until process 0 does what it is to do; the body of a script."""
    import gymnasium
    import torch

    from pfrl_like import agents, explorers, policies, q_functions, replay_buffers
    from pfrl_like.envs import MultiprocessVectorEnv
    from pfrl_like.experiments import train_agent_actor_learner, train_agent_async, train_agent_batch
    from pfrl_like.nn import Branched

    parent, last = os.getpid(), random.Random(seed).randint(1, 300)

    class Failing(gymnasium.Wrapper):
        steps = 0

        def step(self, action: Any) -> Any:
            self.steps += 1
            if self.steps == last:
                (folder / "fault").write_text(str(time.time()))
                fail(fault, parent)
            return self.env.step(action)

    def make_env(process_idx: int = 0, test: bool = False) -> Any:
        env = gymnasium.make("CartPole-v1")
        return Failing(env) if process_idx == 0 and not test else env

    torch.set_num_threads(1)
    outdir, steps = folder / "run", 10**8
    model = torch.nn.Linear(4, 2)
    q_function = torch.nn.Sequential(model, q_functions.DiscreteActionValueHead())
    dqn = agents.DQN(
        q_function, torch.optim.Adam(q_function.parameters()), replay_buffers.ReplayBuffer(1000), 0.99,
        explorers.ConstantEpsilonGreedy(0.1, lambda: 0), replay_start_size=50,
    )  # fmt: skip
    limits = {"start_method": method, "step_timeout": STEP_TIMEOUT}
    start: Callable[[], Any]
    if runner == "vector":
        env = MultiprocessVectorEnv([lambda i=i: make_env(i) for i in range(2)], **limits)
        start = partial(train_agent_batch, dqn, env, steps, outdir)
    elif runner == "async":
        policy = torch.nn.Sequential(torch.nn.Linear(4, 2), policies.SoftmaxCategoricalHead())
        both = Branched(policy, torch.nn.Linear(4, 1))
        a3c = agents.A3C(both, torch.optim.SGD(both.parameters(), lr=0.01), t_max=5, gamma=0.99)
        start = partial(train_agent_async, outdir, 2, make_env, steps=steps, agent=a3c, eval_interval=None, **limits)
    else:
        start = partial(train_agent_actor_learner, dqn, make_env, steps, outdir, eval_interval=None, **limits)
    try:
        start()
    finally:
        (folder / "end").write_text(str(time.time()))


def fail(fault: str, parent: int) -> NoReturn:
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "raising":
        raise ValueError("as it was told")
    elif fault == "exiting":
        os._exit(0)
    elif fault == "parent killed":
        os.kill(parent, signal.SIGKILL)
    while True:
        time.sleep(1)


def watch(runner: str, fault: str, method: str, seed: int) -> dict[str, Any]:
    """Make a trial; returns what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--one", runner, fault, method, str(seed), folder]
        with (Path(folder) / "errors").open("w+") as errors:
            script = subprocess.Popen(command, stdout=errors, stderr=errors, start_new_session=True)
            try:
                script.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(script.pid, signal.SIGKILL)
                script.wait()
                return {"wrong": "it did not end"}
            left, ended = wait_for_ends(script.pid)
            errors.seek(0)
            told = errors.read()
        failed_at, told_at = Path(folder) / "fault", Path(folder) / "end"
        if not failed_at.exists():
            return {"wrong": f"it ended before its time: {told[-2000:]}"}
        start = float(failed_at.read_text()) + (STEP_TIMEOUT if fault == "hanging" else 0.0)
        seconds = float(told_at.read_text()) - start if told_at.exists() else 0.0
    kill = [os.kill(pid, signal.SIGKILL) for pid in left]
    wrong = "left processes behind" if kill else judge(runner, fault, script.returncode, told)
    return {
        "seconds": seconds,
        "gone": ended - start,
        "wrong": wrong or (f"took {seconds:.1f} s" if seconds > LIMIT else ""),
    }


def judge(runner: str, fault: str, status: int, told: str) -> str:
    """What is wrong with the end of a script; empty if nothing is."""
    if fault == "parent killed":
        return "" if status == -signal.SIGKILL else f"ended with {status}"
    error = "WorkerError: worker 0" if runner == "vector" else "AsyncTrainingError: process 0"
    traceback = {"raising": "as it was told", "hanging": "time.sleep(1)"}.get(fault, "")
    return "" if status == 1 and error in told and traceback in told else f"ended with {status}: {told[-2000:]}"


def wait_for_ends(session: int) -> tuple[list[int], float]:
    """The processes of a session that are still there after some seconds, and the time when the last one had gone."""
    deadline = time.time() + GONE
    while (left := processes_of(session)) and time.time() < deadline:
        time.sleep(0.02)
    return left, time.time()


def processes_of(session: int) -> list[int]:
    """The living processes of a session; those that only wait to be asked how they ended do not count."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has gone meanwhile
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--results", type=Path, default=Path("worker_faults.jsonl"))
    parser.add_argument("--runners", nargs="+", choices=RUNNERS, default=RUNNERS)
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=FAULTS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        runner, fault, method, seed, folder = arguments.one
        trial(runner, fault, method, int(seed), Path(folder))
        return
    text = arguments.results.read_text() if arguments.results.exists() else ""
    results = [json.loads(line) for line in text.splitlines()]
    done = {tuple(result["trial"]) for result in results}
    for one in itertools.product(range(arguments.trials), arguments.runners, arguments.faults, arguments.methods):
        if one not in done:
            seed, *case = one
            results.append({"trial": one, **watch(*case, seed)})
            with arguments.results.open("a") as file:
                print(json.dumps(results[-1]), file=file)
    wrong = [result for result in results if result["wrong"]]
    by_case = collections.defaultdict(list)
    for result in results:
        by_case[tuple(result["trial"][1:])].append(result)
    for case, group in sorted(by_case.items()):
        error, gone = (max(result.get(name, 0.0) for result in group) for name in ("seconds", "gone"))
        print(f"{', '.join(case)}: {len(group)} trials, error after {error:.1f} s, all gone after {gone:.1f} s at most")
    print(f"{len(results)} trials: {len(wrong)} wrong", *wrong, sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
