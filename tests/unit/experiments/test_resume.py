"""Runs that were stopped go on from their newest checkpoint as if they had not been."""

import contextlib
import shutil
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from epoch_parts import epoch_runner
from resume_parts import noisy_env, small_dqn
from run_parts import Stopped, change_record, contents, names_in, record, resumed, steps_of, stop_at, table
from stopped_runs import digests

from pfrl_like import experiments
from pfrl_like.agents import DQN, DoubleDQN
from pfrl_like.dataset import MDPDataset
from pfrl_like.envs import MultiprocessVectorEnv, SerialVectorEnv
from pfrl_like.errors import CheckpointError
from pfrl_like.experiments.callbacks import Evaluation
from pfrl_like.experiments.resume import Configuration
from pfrl_like.experiments.signals import Terminated
from pfrl_like.explorers import ConstantEpsilonGreedy
from pfrl_like.replay_buffers import PersistentReplayBuffer, PrioritizedReplayBuffer
from pfrl_like.runs.loop import Clock
from pfrl_like.runs.secrets import MASK


class Sum:
    """A hook that remembers something."""

    def __init__(self) -> None:
        self.sum = torch.zeros((), dtype=torch.float64)

    def __call__(self, env: Any, agent: Any, t: int) -> None:
        self.sum += t

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"sum": self.sum}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        self.sum = state["sum"]


def serial(outdir: Path, steps: int = 90, **options: Any) -> Any:
    env = noisy_env(0)
    agent = small_dqn(env)
    _, history = experiments.train_agent_with_evaluation(
        agent, env, steps, None, 2, 20, outdir, checkpoint_freq=25, **{"eval_env": noisy_env(1)} | options,
    )  # fmt: skip
    return agent, history


def several(outdir: Path, steps: int = 90, **options: Any) -> Any:
    env = SerialVectorEnv([noisy_env(seed) for seed in range(3)])
    agent = small_dqn(env.envs[0])
    _, history = experiments.train_agent_batch_with_evaluation(
        agent, env, steps, None, 2, 20, outdir, checkpoint_freq=25, log_interval=30,
        **{"eval_env": noisy_env(4)} | options,
    )  # fmt: skip
    return agent, history


def offline(outdir: Path, steps: int = 90, agent: Any = None, **options: Any) -> Any:
    rng, agent = np.random.default_rng(0), agent or small_dqn(noisy_env(0))
    observations, actions = rng.normal(size=(50, 4)).astype(np.float32), rng.integers(2, size=50)
    dataset = MDPDataset.from_arrays(observations, actions, rng.normal(size=50), np.arange(50) % 10 == 9)
    _, history = experiments.train_agent_offline(
        agent, dataset, steps, outdir, eval_n_episodes=2, eval_interval=20, checkpoint_freq=25,
        log_interval=10, rng=rng, **{"eval_env": noisy_env(1)} | options,
    )  # fmt: skip
    return agent, history


def stopped(outdir: Path, t: int, run: Any = serial, **options: Any) -> None:
    """A run that ends in the midst of it."""
    with pytest.raises(Stopped):
        run(outdir, hooks=[stop_at(t)], **options)


RUNS = pytest.mark.parametrize("run", [serial, several, offline])


def left(outdir: Path, run: Any) -> dict[str, Any]:
    """What a run has left that does not tell of the time."""
    agent, history = run
    parts = {"agent": agent.state_dict(), "buffer": agent.replay_buffer.state_dict(), "history": history}
    tables = [table(outdir / name) for name in ("scores.txt", "metrics.csv")]
    return digests({**parts, "statistics": agent.get_statistics(), "tables": tables})


@pytest.mark.slow  # that a signal ends runs by default
@RUNS
def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(run, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    wanted = left(whole, run(whole, resume=True))
    assert resumed(whole) is None
    for t in (37, 83):
        stopped(broken, t, run, resume=True)
    torch.rand(3)
    assert left(broken, run(broken, resume=True)) == wanted
    assert resumed(broken) == {"checkpoint": "75_checkpoint", "t": 75, "resume": "exact", "reasons": []}


def test_a_run_that_goes_on_tells_whether_its_command_is_the_same_by_the_secrets_too(tmp_path, monkeypatch):
    for token, is_same in (("a", None), ("a", True), ("b", False)):
        monkeypatch.setattr(sys, "argv", ["train.py", f"--token={token}"])
        serial(tmp_path, 10, resume=True)
        told = record(tmp_path)
        assert told["command"] == ["train.py", f"--token={MASK}"] and told.get("same_command") is is_same


def test_commands_of_a_record_that_was_not_masked_are_compared_and_masked(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train.py", "--token=planted"])
    serial(tmp_path, 10, resume=True)
    for command, is_same in ((sys.argv, True), (["train.py", "--token=other"], False), (None, False)):
        change_record(tmp_path, command=command, earlier_parts=[], command_digest=None)
        serial(tmp_path, 10, resume=True)
        told = record(tmp_path)
        assert told["same_command"] is is_same
        assert told["earlier_parts"][0]["command"] == (command and ["train.py", f"--token={MASK}"])


@pytest.mark.representatives(1)
@RUNS
def test_a_finished_run_is_not_made_again(run, tmp_path, caplog):
    _, history = run(tmp_path, 40)
    names, trace = names_in(tmp_path), (tmp_path / "trace.jsonl").read_bytes()
    assert run(tmp_path, 40, resume=True)[1] == history and names_in(tmp_path) == names
    assert (tmp_path / "trace.jsonl").read_bytes() == trace
    assert "nothing is left to train: steps is 40, " in caplog.text and "go on exactly" not in caplog.text


@pytest.mark.representatives(1)
@pytest.mark.parametrize("signum, error", [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_a_run_that_a_signal_ended_goes_on_where_it_was(signum, error, tmp_path):
    wanted = left(tmp_path / "whole", serial(tmp_path / "whole"))
    broken = tmp_path / "broken"
    with pytest.raises(error) as caught:
        serial(broken, step_hooks=[lambda env, agent, t: t == 63 and signal.raise_signal(signum)])
    if error is KeyboardInterrupt:  # its traceback ends in the way out
        last = "start the program again, with resume=True: the run continues from its newest checkpoint"
        assert caught.value.__notes__[1:] == [f"in {broken}, the newest complete save is 63_except", last]
    assert left(broken, serial(broken, resume=True)) == wanted
    assert resumed(broken)["checkpoint"] == "63_except"


def test_a_signal_at_a_checkpoint_makes_no_second_one(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        serial(tmp_path, step_hooks=[lambda env, agent, t: t == 25 and signal.raise_signal(signal.SIGINT)])
    assert [path.name for path in tmp_path.glob("25_*")] == ["25_checkpoint"]


def test_hooks_that_remember_something_go_on_too(tmp_path):
    hook = Sum()
    stopped(tmp_path, 60, step_hooks=[hook])
    other = Sum()
    serial(tmp_path, step_hooks=[other], resume=True)
    assert other.sum == sum(range(1, 91))
    serial(tmp_path, 95, resume=True)
    assert "the checkpoint has a state for Sum, which this run does not have" in resumed(tmp_path)["reasons"]


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.slow  # damage of agents of somebody else's is met by default
@pytest.mark.parametrize("pattern", ["75_checkpoint/model-*.pt", "75_checkpoint/run/state-*.json", "75_checkpoint/run"])
def test_the_checkpoint_before_serves_if_the_newest_one_is_damaged(pattern, tmp_path, caplog):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    wanted = left(whole, serial(whole))
    stopped(broken, 80)
    [path] = broken.glob(pattern)
    shutil.rmtree(path) if path.is_dir() else damage(path)
    assert left(broken, serial(broken, resume=True)) == wanted
    assert resumed(broken)["checkpoint"] == "50_checkpoint"
    assert ("a checkpoint is skipped" in caplog.text) != pattern.endswith("run")


@pytest.mark.slow
@pytest.mark.parametrize("last", ["the agent", "the run"])
def test_a_run_that_was_killed_in_its_first_save_begins_anew(last, tmp_path, caplog):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    wanted = left(whole, serial(whole))
    serial(killed, 30)
    for path in [killed / "30_finish", *killed.glob("25_checkpoint/run/*")]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if last == "the agent":
        for path in killed.glob("25_checkpoint/*.*"):
            path.unlink()
    assert left(killed, serial(killed, resume=True)) == wanted
    assert "the run starts at step 0; the files of the earlier run are now in" in caplog.text
    assert "pass resume=True" not in caplog.text


def test_items_of_a_run_that_was_killed_before_its_first_checkpoint_are_told_of(tmp_path, caplog):
    def begin(t, outdir="run"):
        env = noisy_env(0)
        agent = small_dqn(env)
        with PersistentReplayBuffer(tmp_path / "buffer", None) as agent.replay_buffer, pytest.raises(Stopped):
            hooks = [stop_at(t)]
            experiments.train_agent(agent, env, 90, tmp_path / outdir, checkpoint_freq=50, resume=True, hooks=hooks)
        shutil.rmtree(tmp_path / outdir / f"{t}_except")  # as if it had been killed

    begin(30)
    assert "replay_buffer holds" not in caplog.text
    begin(20)
    assert "replay_buffer contains 30 items; it contained 0 when the interrupted run started" in caplog.text
    caplog.clear()
    begin(20, "another run")
    assert "replay_buffer holds" not in caplog.text
    with PersistentReplayBuffer(tmp_path / "buffer", None) as buffer:
        assert len(buffer) == 70


def test_the_checkpoint_of_another_run_is_refused(tmp_path):
    stopped(tmp_path, 30)
    with pytest.raises(CheckpointError, match="does not match this run"):
        several(tmp_path, resume=True)


# What is kept


@pytest.mark.slow
def test_several_checkpoints_due_in_one_tick_are_saved_once(tmp_path):
    env = SerialVectorEnv([noisy_env(seed) for seed in range(3)])
    experiments.train_agent_batch(small_dqn(env.envs[0]), env, 12, tmp_path, checkpoint_freq=1)
    assert {path.name for path in tmp_path.glob("*_checkpoint")} == {f"{t}_checkpoint" for t in range(1, 13)}
    whole = {"9_checkpoint", "12_checkpoint", "12_finish"}
    assert {path.parent.name for path in tmp_path.glob("*/run")} == whole


def test_what_cannot_be_removed_is_told_and_costs_no_checkpoint(tmp_path, monkeypatch, caplog, capsys):
    def fail(*_):
        raise PermissionError("of somebody else")

    monkeypatch.setattr("pfrl_like.experiments.checkpoints.prune", fail)
    serial(tmp_path)
    assert f"obsolete checkpoint files in {tmp_path} could not be removed: of somebody else" in caplog.text
    monkeypatch.undo()
    serial(tmp_path, 110, resume=True, progress=True)
    assert resumed(tmp_path)["checkpoint"] == "90_finish" and (tmp_path / "110_finish").is_dir()
    assert f"resuming from step 90 of {tmp_path}\n" in capsys.readouterr().err


@pytest.mark.parametrize("kept", ["25_checkpoint", None])
def test_nothing_stays_of_what_could_not_be_saved(kept, tmp_path, monkeypatch):
    save = DQN.save

    def fill_disk(self, dirname):
        if kept is None or not dirname.endswith(kept):
            raise CheckpointError(dirname, "cannot be written: no space is left")
        save(self, dirname)

    monkeypatch.setattr(DQN, "save", fill_disk)
    serial(tmp_path, on_checkpoint_failure="warn", keep_checkpoints=1)
    assert [path.name for path in tmp_path.glob("*_*") if path.name[0].isdigit()] == ([kept] if kept else [])
    kinds = [path.name.partition("-")[0] for path in (tmp_path / "checkpoint_buffers").rglob("*")]
    assert sorted(kinds) == ["replay_buffer", *(["segment", "table"] if kept else [])]
    assert not (tmp_path / "best").exists()
    outcome = record(tmp_path)["outcome"]
    assert outcome.startswith("finished; the final checkpoint is not saved: ") and "no space is left" in outcome


@pytest.mark.slow
def test_a_run_that_was_good_enough_is_over(tmp_path):
    agent, history = serial(tmp_path, successful_score=0.0)
    again, same = serial(tmp_path, successful_score=0.0, resume=True)
    assert (again.t, same) == (agent.t, history) and agent.t < 90
    assert serial(tmp_path, successful_score=1e9, resume=True)[0].t == 90


def test_a_score_that_is_no_number_hides_no_good_one():
    scores = iter([float("nan"), 5.0, 1.0])
    evaluator, clock = SimpleNamespace(evaluate_if_necessary=lambda **_: next(scores)), Clock(None)
    evaluation = Evaluation(evaluator, None, 4.0, True)
    stopped = []
    for _ in range(3):
        evaluation(clock)
        stopped.append(clock.stopped)
    assert stopped == [False, True, True] and clock.reason == "score 5.0 >= 4"


def test_an_infinite_score_stops_no_run_without_a_successful_score():
    evaluator, clock = SimpleNamespace(evaluate_if_necessary=lambda **_: float("inf")), Clock(None)
    Evaluation(evaluator, None, None, True)(clock)
    assert not clock.stopped


class Own:
    """An agent of somebody else's, which is saved as others save."""

    def __init__(self) -> None:
        self.steps = 0

    def act(self, obs: Any) -> int:
        return 0

    def observe(self, *told: Any) -> None:
        self.steps += 1

    def save(self, dirname: str) -> None:
        Path(dirname).mkdir(exist_ok=True)
        (Path(dirname) / "steps").write_text(str(self.steps))

    def load(self, dirname: str) -> None:
        self.steps = int((Path(dirname) / "steps").read_text())


@pytest.mark.parametrize("content", ["", pytest.param("7", marks=pytest.mark.slow)])
def test_agents_of_somebody_elses_are_checked_too(content, tmp_path):
    with pytest.raises(Stopped):
        experiments.train_agent(Own(), noisy_env(0), 90, tmp_path, 25, hooks=[stop_at(80)])
    (tmp_path / "75_checkpoint" / "steps").write_text(content)
    agent = Own()
    experiments.train_agent(agent, noisy_env(0), 90, tmp_path, 25, resume=True)
    assert (resumed(tmp_path)["checkpoint"], agent.steps) == ("50_checkpoint", 90)


# Runs that go on otherwise than they were made say so


def take_up(outdir: Path, env_id: str = "CartPole-v1", hooks: Any = (), **options: Any) -> None:
    env = noisy_env(0, env_id)
    experiments.train_agent(small_dqn(env, **options), env, 60, outdir, checkpoint_freq=20, resume=True, hooks=hooks)


@pytest.fixture
def outdir(tmp_path):
    """The directory of a run that was stopped."""
    with pytest.raises(Stopped):
        take_up(tmp_path, hooks=[stop_at(45)])
    return tmp_path


@pytest.mark.parametrize(
    "change, told",
    [
        ({"replay_buffer": PrioritizedReplayBuffer(60, num_steps=3)}, "not contain a buffer that matches this buffer"),
        ({"env_id": "Acrobot-v1"}, r"env.observation_space was 'a box of shape \(4,\)' and is 'a box of shape \(6,\)'"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused_and_nothing_is_moved(change, told, outdir):
    before = contents(outdir)
    with pytest.raises(CheckpointError, match=told) as caught:
        take_up(outdir, **change)
    assert contents(outdir) == before and "ValueError" not in str(caught.value)


@pytest.mark.representatives(1)
@pytest.mark.parametrize(
    "change, reason",
    [
        ({"gamma": 0.5}, "gamma was 0.9 and is 0.5"),
        ({"lr": 1e-5}, "optimizer[0].lr was 0.001 and is 1e-05"),
        ({"replay_buffer": PrioritizedReplayBuffer(20, num_steps=2)}, "replay_buffer.capacity was 60 and is 20"),
        ({"explorer": ConstantEpsilonGreedy(0.1, lambda: 0)}, "explorer.epsilon was 0.5 and is 0.1"),
        ({"kind": DoubleDQN}, "agent was 'DQN' and is 'DoubleDQN'"),
        ({"env_id": "CartPole-v0"}, "env.spec was 'CartPole-v1' and is 'CartPole-v0'"),
        ({}, None),
    ],
)
@pytest.mark.filterwarnings("ignore:.*out of date")
def test_what_was_made_otherwise_is_told(change, reason, outdir, caplog):
    take_up(outdir, **change)
    told = resumed(outdir)
    assert (told["resume"], reason in told["reasons"]) == (("approximate", True) if reason else ("exact", False))
    assert ("the run does not resume exactly" in caplog.text) == (reason is not None)


class Chosen(DQN):
    """With arguments of which one has a default in the class."""

    act_deterministically = True
    training_shown = False

    def __init__(self, act_deterministically: bool) -> None:
        self.act_deterministically = act_deterministically
        self.training_shown, self.width = True, 3


def test_arguments_count_also_where_the_class_has_a_default():
    told = Configuration(Chosen(False), None, None).saved_state()["told"]
    assert told["act_deterministically"] is False and told["width"] == 3 and "training_shown" not in told


def test_the_average_of_the_last_epoch_is_known_again(tmp_path):
    average = epoch_runner(tmp_path).train(1)
    runner = epoch_runner(tmp_path)
    runner.restore()
    assert runner.algorithm.average_return == average and runner.train(1) == average


class Interrupted(gymnasium.Wrapper):  # type: ignore[type-arg]
    """An environment that sends SIGINT twice in the second episode of an evaluation, by its number. None for none.

    The second signal interrupts the step at once.
    """

    def __init__(self, number: int | None) -> None:
        super().__init__(noisy_env(1))
        self.number, self.n_evaluations, self.n_episodes = number, 0, 0

    def clear_statistics(self) -> None:
        """Begin an evaluation."""
        self.n_evaluations, self.n_episodes = self.n_evaluations + 1, 0

    def reset(self, **options: Any) -> Any:
        self.n_episodes += 1
        return super().reset(**options)

    def step(self, action: Any) -> Any:
        result = super().step(action)
        if (self.n_evaluations, self.n_episodes) == (self.number, 2):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        return result


def shared(outdir: Path, steps: int = 90, eval_env: Any = None, **options: Any) -> Any:
    """A run that is evaluated in its training environment."""
    agent = small_dqn(eval_env)
    _, history = experiments.train_agent_with_evaluation(
        agent, eval_env, steps, None, 2, 20, outdir, eval_env=eval_env, checkpoint_freq=25, **options
    )
    return agent, history


@pytest.mark.representatives(1)
@pytest.mark.parametrize("number", [2, 1, 5], ids=["second", "first", "at the last step"])
@pytest.mark.parametrize("run", [serial, several, offline, shared])
def test_an_evaluation_that_a_signal_interrupts_is_repeated_with_equal_numbers(run, number, tmp_path, monkeypatch):
    monkeypatch.setattr("pfrl_like.experiments.signals.ONCE", -1.0)
    calls: dict[str, list[int]] = {"whole": [], "broken": []}
    envs: list[Interrupted] = []

    def go(name: str, number: int | None = None, **options: Any) -> Any:
        envs.append(Interrupted(number))
        hooks = [lambda clock: calls[name].append(clock.t)]
        return left(tmp_path / name, run(tmp_path / name, 100, hooks=hooks, eval_env=envs[-1], **options))

    wanted = go("whole")
    with pytest.raises(KeyboardInterrupt):
        go("broken", min(number, envs[0].n_evaluations))
    assert go("broken", resume=True) == wanted and calls["broken"] == calls["whole"]
    told = resumed(tmp_path / "broken")
    assert told["checkpoint"] == f"{told['t']}_except" and (told["t"] >= 100) == (number == 5)
    assert told["resume"] == "exact" or number == 5  # the last step cuts off the episode, and none follows


class TestRepeatedEvaluation:
    """An interrupted evaluation that a resumed run has repeated has one row, however that run ends."""

    @pytest.fixture
    def broken(self, tmp_path, monkeypatch):
        monkeypatch.setattr("pfrl_like.experiments.signals.ONCE", -1.0)
        outdir = tmp_path / "broken"
        with pytest.raises(KeyboardInterrupt):
            self.go(outdir, 1)
        return outdir

    def go(self, outdir: Path, number: int | None = None, hook: Any = None) -> Any:
        hooks = [] if hook is None else [hook]
        return serial(outdir, 30, eval_env=Interrupted(number), hooks=hooks, resume=True)

    def finishes(self, outdir: Path) -> bool:
        """Finish the run. True if its evaluation has one row and one entry in the history."""
        _, history = self.go(outdir)
        return len(steps_of(outdir / "scores.txt")) == len(history) == 1

    def test_after_another_signal_in_the_evaluation(self, broken):
        with pytest.raises(KeyboardInterrupt):
            self.go(broken, 1)
        assert self.finishes(broken)

    def test_after_another_signal_in_the_same_step(self, broken):
        with pytest.raises(KeyboardInterrupt):
            self.go(broken, hook=lambda clock: signal.raise_signal(signal.SIGINT))
        assert record(broken)["t"] == resumed(broken)["t"]
        assert self.finishes(broken)

    @pytest.mark.parametrize("n_calls", [1, 2], ids=["before the next checkpoint", "in the next step"])
    def test_after_a_kill(self, n_calls, broken, tmp_path):
        killed = tmp_path / "killed"
        seen: list[int] = []

        def copy_as_after_a_kill(clock: Clock) -> None:
            seen.append(clock.t)
            if len(seen) == n_calls:
                shutil.copytree(broken, killed)

        self.go(broken, hook=copy_as_after_a_kill)
        assert steps_of(killed / "scores.txt") == seen[:1]
        assert self.finishes(killed)


def test_an_interrupted_evaluation_in_other_processes_is_not_repeated(tmp_path, monkeypatch):
    processes = contextlib.closing(MultiprocessVectorEnv([lambda: noisy_env(1)], "fork"))
    with pytest.raises(KeyboardInterrupt), processes as env:
        monkeypatch.setattr(MultiprocessVectorEnv, "step", lambda *_: signal.default_int_handler(signal.SIGINT, None))
        serial(tmp_path, eval_env=env)
    assert not [*tmp_path.glob("*_except/run")]
