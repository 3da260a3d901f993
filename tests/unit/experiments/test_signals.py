"""SIGINT and SIGTERM end a run with its agent saved, the status that a shell expects, and no process left."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from experiment_fakes import Bare, Counting, Recorder
from run_parts import record
from signal_parts import status_after_sigterm
from time_parts import PATIENCE

from pfrl_like.errors import CheckpointError
from pfrl_like.experiments import train_agent, train_agent_with_evaluation
from pfrl_like.experiments.signals import Terminated
from pfrl_like.processes import Portable, Workers
from pfrl_like.runs.run_files import directory_lock

SIGNALS = [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)]
BY_SIGNAL = pytest.mark.parametrize("signum, error", SIGNALS)


def handlers():
    return [signal.getsignal(signum) for signum, _ in SIGNALS]


def raise_at(t, signum):
    """A hook that sends a signal to this process at a step."""
    return lambda env, agent, now: now == t and signal.raise_signal(signum)


@BY_SIGNAL
def test_the_tick_is_finished_and_the_agent_saved_once(agent, tmp_path, signum, error):
    before = handlers()
    seen = []
    with pytest.raises(error):
        train_agent(
            agent, Counting(), 100, tmp_path,
            step_hooks=[raise_at(5, signum)], hooks=[lambda clock: seen.append(clock.t)],
        )  # fmt: skip
    assert seen == [1, 2, 3, 4, 5]
    assert len(agent.observed) == 5
    assert agent.saved == [str(tmp_path / "5_except")]
    cause = "Ctrl-C (SIGINT)" if error is KeyboardInterrupt else "SIGTERM"
    outcome = f"interrupted at step 5 by {cause}; only the agent is saved, as 5_except"
    assert (record(tmp_path)["t"], record(tmp_path)["outcome"]) == (5, outcome)
    assert outcome in (tmp_path / "report.html").read_text()
    assert handlers() == before


def test_the_outcome_of_an_agent_that_cannot_be_saved_says_that_nothing_is_saved(tmp_path):
    with pytest.raises(KeyboardInterrupt) as caught:
        train_agent(Bare(), Counting(), 100, tmp_path, 10, step_hooks=[raise_at(5, signal.SIGINT)])
    assert record(tmp_path)["outcome"] == "interrupted at step 5 by Ctrl-C (SIGINT); nothing is saved"
    assert not any("resume=True" in note for note in caught.value.__notes__)


def test_the_outcome_of_a_failed_save_names_no_way_to_continue(agent, tmp_path):
    def fail(dirname):
        raise CheckpointError(dirname, "cannot be written: no space is left")

    agent.save = fail
    with pytest.raises(KeyboardInterrupt):
        train_agent(agent, Counting(), 100, tmp_path, 10, step_hooks=[raise_at(5, signal.SIGINT)])
    assert record(tmp_path)["outcome"].endswith("; nothing is saved")
    assert "5_except" in record(tmp_path)["not_saved"]


@pytest.mark.representatives(1)
@BY_SIGNAL
def test_a_tick_that_does_not_end_is_broken_off(agent, tmp_path, monkeypatch, signum, error):
    monkeypatch.setattr("pfrl_like.experiments.signals.PATIENCE", 1.0)
    slept = []

    def hang(env, agent, t):
        signal.raise_signal(signum)
        time.sleep(10 * PATIENCE)
        slept.append(t)

    with pytest.raises(error):
        train_agent(agent, Counting(), 100, tmp_path, step_hooks=[hang])
    assert slept == []
    assert agent.saved == [str(tmp_path / "1_except")]


@pytest.mark.parametrize(
    ("at", "times", "saved"), [(2, 2, "2_except"), (6, 1, "6_finish")], ids=["twice at once", "in the last step"]
)
def test_a_signal_counts_once_and_does_not_undo_the_end(agent, tmp_path, at, times, saved):
    with pytest.raises(Terminated) as caught:
        train_agent(agent, Counting(), 6, tmp_path, step_hooks=[raise_at(at, signal.SIGTERM)] * times)
    assert agent.saved == [str(tmp_path / saved)]
    assert (caught.value.code, str(caught.value)) == (143, "SIGTERM")


def test_an_interruption_brings_no_evaluation_before_its_time(agent, tmp_path):
    with pytest.raises(Terminated):
        train_agent_with_evaluation(
            agent, Counting(length=10), 100, None, 1, 5, tmp_path, eval_env=Counting(),
            step_hooks=[raise_at(7, signal.SIGTERM)],
        )  # fmt: skip
    assert len((tmp_path / "scores.txt").read_text().splitlines()) == 1


def test_a_signal_while_the_agent_is_saved_waits(tmp_path):
    class Slow(Recorder):
        def save(self, dirname):
            signal.raise_signal(signal.SIGTERM)
            super().save(dirname)

    agent = Slow()
    with pytest.raises(Terminated):
        train_agent(agent, Counting(), 6, tmp_path)
    assert agent.saved == [str(tmp_path / "6_finish")]


def test_what_fails_because_of_a_signal_is_told_as_its_cause(agent, tmp_path):
    def fail(env, agent, t):
        signal.raise_signal(signal.SIGTERM)
        raise BrokenPipeError("a worker of another library has got the signal, too")

    with pytest.raises(Terminated) as caught:
        train_agent(agent, Counting(), 6, tmp_path, step_hooks=[fail])
    assert isinstance(caught.value.__cause__, BrokenPipeError)
    assert agent.saved == [str(tmp_path / "1_except")]


def test_handlers_of_the_user_stay(agent, tmp_path):
    came = []
    before = signal.signal(signal.SIGTERM, lambda *_: came.append(len(agent.observed)))
    try:
        train_agent(agent, Counting(), 6, tmp_path, step_hooks=[raise_at(3, signal.SIGTERM)])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert came == [3]
    assert agent.saved == [str(tmp_path / "6_finish")]


def test_training_in_a_thread_leaves_the_handlers_alone(agent, tmp_path):
    during = []
    hooks = [lambda env, agent, t: during.append(handlers())]
    with ThreadPoolExecutor() as other:
        other.submit(train_agent, agent, Counting(), 6, tmp_path, step_hooks=hooks).result()
    assert during == [handlers()] * 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_copy_dies_of_sigterm(agent, tmp_path):
    statuses = []
    train_agent(agent, Counting(), 1, tmp_path, step_hooks=[lambda *_: statuses.append(status_after_sigterm())])
    assert statuses == [-signal.SIGTERM]


SCRIPT = """
import sys, time
from experiment_fakes import Counting, Recorder
from pfrl_like.envs import MultiprocessVectorEnv
from pfrl_like.experiments import train_agent_batch

def tell(env, agent, t):
    if t == 10:
        print(*(process.pid for process in env._workers.processes), flush=True)
    time.sleep(0.01)

if __name__ == "__main__":
    env = MultiprocessVectorEnv([Counting, Counting], "fork")
    train_agent_batch(Recorder(), env, 10**6, sys.argv[1], step_hooks=[tell])
"""


@pytest.mark.representatives(1)
@pytest.mark.skipif(os.name == "nt", reason="needs signals of POSIX")
@pytest.mark.parametrize(
    ("signum", "status", "to_group"),
    [
        (signal.SIGINT, -signal.SIGINT, True),  # Ctrl-C
        (signal.SIGTERM, 143, False),
        pytest.param(signal.SIGINT, -signal.SIGINT, False, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, 143, True, marks=pytest.mark.slow),
    ],
)
def test_a_script_ends_with_the_status_of_its_signal_and_without_children(tmp_path, signum, status, to_group):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    paths = os.pathsep.join(filter(None, sys.path))
    (tmp_path / "experiment_fakes.py").symlink_to(sys.modules["experiment_fakes"].__file__)
    run = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "run")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": paths}, start_new_session=True,
    )  # fmt: skip
    workers = [int(pid) for pid in run.stdout.readline().split()]
    (os.killpg if to_group else os.kill)(run.pid, signum)
    _, errors = run.communicate(timeout=PATIENCE)
    assert run.returncode == status, errors
    assert len(workers) == 2
    for pid in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    outcome = record(tmp_path / "run")["outcome"]
    assert f"by {'Ctrl-C (SIGINT)' if signum == signal.SIGINT else 'SIGTERM'}; only" in outcome


def owners(outdir, count=1):
    """What so many children say that own a directory one after the other, and keep it."""

    def own(channel, index):
        channel.recv()
        try:
            with directory_lock(str(outdir)):
                channel.send("held")
                channel.recv()
        except CheckpointError as error:
            channel.send(str(error))

    workers, said = Workers(Portable(own), [()] * count, start_method="spawn"), []
    for index in range(count):
        workers.send(index, "go")
        said += workers.receive([index])
    workers.close()
    return said


class TestOneWriter:
    @pytest.mark.slow
    def test_another_process_is_named(self, agent, tmp_path):
        (tmp_path / "scores.txt").write_text("of the run that goes on")
        code = "import sys; from pfrl_like.runs.run_files import directory_lock\nwith directory_lock(sys.argv[1]):\n"
        code += " print('held', flush=True)\n import time; time.sleep(6000)"
        other = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, text=True)
        try:
            assert other.stdout.readline() == "held\n"
            for call in (
                lambda: train_agent(agent, Counting(), 6, tmp_path),
                lambda: train_agent_with_evaluation(agent, Counting(), 6, None, 1, 3, tmp_path, eval_env=Counting()),
            ):
                with pytest.raises(CheckpointError, match=f"is written by process {other.pid} on .* since 20"):
                    call()
        finally:
            other.kill()
            other.communicate()
        assert (tmp_path / "scores.txt").read_text() == "of the run that goes on"
        train_agent(agent, Counting(), 6, tmp_path)  # the lock died with its owner
        assert {"LOCK", "owner.json"}.isdisjoint(path.name for path in tmp_path.iterdir())

    def test_another_thread_is_refused_and_the_same_is_not(self, agent, tmp_path):
        with directory_lock(str(tmp_path)):
            with ThreadPoolExecutor() as other, pytest.raises(CheckpointError, match=f"process {os.getpid()}"):
                other.submit(train_agent, agent, Counting(), 1, tmp_path).result()
            train_agent_with_evaluation(agent, Counting(), 1, None, 1, 1, tmp_path, eval_env=Counting())

    @pytest.mark.slow
    def test_a_child_writes_for_its_parent(self, tmp_path):
        with directory_lock(str(tmp_path)):
            assert owners(tmp_path) == ["held"]

    @pytest.mark.slow
    def test_a_child_does_not_write_for_a_process_of_its_parents_number_that_was_killed(self, tmp_path):
        with directory_lock(str(tmp_path)):
            told = (tmp_path / "owner.json").read_text()
        (tmp_path / "owner.json").write_text(told)  # what it leaves if it is killed
        first, second = owners(tmp_path, 2)
        assert first == "held" and "only one may write" in second

    @pytest.mark.slow
    def test_an_earlier_process_of_the_number_of_the_parent_is_not_the_parent(self, tmp_path):
        with directory_lock(str(tmp_path)):
            path = tmp_path / "owner.json"
            path.write_text(json.dumps(json.loads(path.read_text()) | {"started": 1}))
            assert "only one may write" in owners(tmp_path)[0]

    def test_a_file_system_without_locks_is_warned_of(self, agent, tmp_path, caplog):
        (tmp_path / "LOCK").mkdir()  # which cannot be opened for writing
        train_agent(agent, Counting(), 3, tmp_path)
        assert "cannot be locked" in caplog.text
        assert agent.saved == [str(tmp_path / "3_finish")]
