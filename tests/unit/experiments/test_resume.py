"""Runs that were stopped go on from their newest checkpoint as if they had not been."""

import contextlib
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from epoch_parts import epoch_runner
from resume_parts import Noisy, noisy_env, small_dqn
from run_parts import Stopped, change_record, contents, names_in, record, resumed, steps_of, stop_at, table
from stopped_runs import digests

from pfrl_like.agents import DQN, DoubleDQN
from pfrl_like.dataset import MDPDataset
from pfrl_like.envs import SerialVectorEnv
from pfrl_like.errors import CheckpointError
from pfrl_like.experiments import (
    Evaluator,
    train_agent,
    train_agent_batch,
    train_agent_batch_with_evaluation,
    train_agent_offline,
    train_agent_with_evaluation,
)
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
        self.sum = 0

    def __call__(self, env: Any, agent: Any, t: int) -> None:
        self.sum += t

    def saved_state(self) -> dict[str, int]:
        return {"sum": self.sum}

    def restore_state(self, state: dict[str, int]) -> None:
        self.sum = state["sum"]


def serial(outdir: Path, steps: int = 90, **options: Any) -> Any:
    env = noisy_env(0)
    agent = small_dqn(env)
    _, history = train_agent_with_evaluation(
        agent, env, steps, None, 2, 20, outdir, eval_env=noisy_env(1), checkpoint_freq=25, **options
    )
    return agent, history


def several(outdir: Path, steps: int = 90, **options: Any) -> Any:
    env = SerialVectorEnv([noisy_env(seed) for seed in range(3)])
    agent = small_dqn(env.envs[0])
    _, history = train_agent_batch_with_evaluation(
        agent, env, steps, None, 2, 20, outdir, eval_env=noisy_env(4), checkpoint_freq=25, log_interval=30, **options
    )
    return agent, history


def offline(outdir: Path, steps: int = 90, agent: Any = None, **options: Any) -> Any:
    rng, agent = np.random.default_rng(0), agent or small_dqn(noisy_env(0))
    observations, actions = rng.normal(size=(50, 4)).astype(np.float32), rng.integers(2, size=50)
    dataset = MDPDataset.from_arrays(observations, actions, rng.normal(size=50), np.arange(50) % 10 == 9)
    _, history = train_agent_offline(
        agent, dataset, steps, outdir, eval_env=noisy_env(1), eval_n_episodes=2, eval_interval=20, checkpoint_freq=25,
        log_interval=10, rng=rng, **options,
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


@pytest.mark.representatives(1)
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


@pytest.mark.slow
def test_changes_of_what_is_stored_go_on_too(tmp_path, monkeypatch):
    def change(env, agent, t):
        """Changes the newest steps, and some that were saved before."""
        memory = agent.replay_buffer.memory
        for i in (-1, *np.random.randint(len(memory), size=2)) if len(memory) > 5 else ():
            memory[i][0].update(reward=float(t), action=0, state=memory[-1][0]["state"])

    monkeypatch.setattr("pfrl_like.replay_buffers.saved._LARGEST", 4)  # small segments, whose changes come as patches
    monkeypatch.setattr("pfrl_like.replay_buffers.saved._WORN", 1)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    wanted = left(whole, serial(whole, step_hooks=[change]))
    stopped(broken, 83, step_hooks=[change])
    assert left(broken, serial(broken, step_hooks=[change], resume=True)) == wanted


@pytest.mark.representatives(1)
@RUNS
def test_a_finished_run_is_not_made_again(run, tmp_path, caplog):
    _, history = run(tmp_path, 40)
    names = names_in(tmp_path)
    assert run(tmp_path, 40, resume=True)[1] == history and names_in(tmp_path) == names
    assert "nothing is left to train: steps is 40, " in caplog.text and "go on exactly" not in caplog.text


@pytest.mark.slow
@RUNS
def test_a_finished_run_may_be_made_longer(run, tmp_path, capsys):
    run(tmp_path, 40)
    _, history = run(tmp_path, 90, resume=True, progress=True)
    assert f"resuming from step {resumed(tmp_path)['t']} of {tmp_path}\n" in capsys.readouterr().err
    assert resumed(tmp_path)["checkpoint"] in ("40_finish", "42_finish")
    assert [step // 20 for step in steps_of(tmp_path / "scores.txt")][-1] == 4 and len(history) >= 3


@pytest.mark.representatives(1)
@pytest.mark.parametrize("signum, error", [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_a_run_that_a_signal_ended_goes_on_where_it_was(signum, error, tmp_path):
    wanted = left(tmp_path / "whole", serial(tmp_path / "whole"))
    broken = tmp_path / "broken"
    with pytest.raises(error) as caught:
        serial(broken, step_hooks=[lambda env, agent, t: t == 63 and signal.raise_signal(signum)])
    if error is KeyboardInterrupt:  # its traceback ends in the way out
        last = "start the program again, with resume=True: the run continues from its newest checkpoint"
        assert caught.value.__notes__[1:] == [f"in {broken}, the newest that is saved is 63_except", last]
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
    assert "Sum, of which the state was saved, is not there" in resumed(tmp_path)["reasons"]


@pytest.mark.slow
def test_an_evaluator_may_be_made_when_the_step_is_known(tmp_path):
    def make_evaluator(t):
        starts.append(t)
        return Evaluator(agent, noisy_env(1), None, 1, 20, tmp_path, step_offset=t)

    starts = []
    for last in (60, 1000):
        env = noisy_env(0)
        agent = small_dqn(env)
        with contextlib.suppress(Stopped):
            train_agent(agent, env, 90, tmp_path, 25, evaluator=make_evaluator, hooks=[stop_at(last)], resume=True)
    assert starts == [0, 50]
    assert [step // 20 for step in steps_of(tmp_path / "scores.txt")] == [1, 2, 3, 4]


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.representatives(1)
@pytest.mark.parametrize("pattern", ["75_checkpoint/model-*.pt", "75_checkpoint/run/state-*.json", "75_checkpoint/run"])
def test_the_checkpoint_before_serves_if_the_newest_one_is_damaged(pattern, tmp_path, caplog):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    wanted = left(whole, serial(whole))
    stopped(broken, 80)
    [path] = broken.glob(pattern)
    shutil.rmtree(path) if path.is_dir() else damage(path)
    assert left(broken, serial(broken, resume=True)) == wanted
    assert resumed(broken)["checkpoint"] == "50_checkpoint"
    assert ("a checkpoint is passed over" in caplog.text) != pattern.endswith("run")


@pytest.mark.slow
def test_a_damaged_buffer_is_noticed(tmp_path):
    stopped(tmp_path, 80)
    for path in tmp_path.glob("checkpoint_buffers/replay_buffer/*"):
        damage(path)
    with pytest.raises(CheckpointError, match="no checkpoint to resume from") as caught:
        serial(tmp_path, resume=True)
    assert "is damaged" in str(caught.value)
    assert (tmp_path / "scores.txt").exists() and not list(tmp_path.glob("earlier-*"))


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
    assert "so that the run begins anew; what it had left is now in" in caplog.text
    assert "give resume=True" not in caplog.text


def test_items_of_a_run_that_was_killed_before_its_first_checkpoint_are_told_of(tmp_path, caplog):
    def begin(t, outdir="run"):
        env = noisy_env(0)
        agent = small_dqn(env)
        with PersistentReplayBuffer(tmp_path / "buffer", None) as agent.replay_buffer, pytest.raises(Stopped):
            train_agent(agent, env, 90, tmp_path / outdir, checkpoint_freq=50, resume=True, hooks=[stop_at(t)])
        shutil.rmtree(tmp_path / outdir / f"{t}_except")  # as if it had been killed

    begin(30)
    assert "replay_buffer holds" not in caplog.text
    begin(20)
    assert "replay_buffer holds 30 items, of which there were 0 when the run began that was broken off" in caplog.text
    caplog.clear()
    begin(20, "another run")
    assert "replay_buffer holds" not in caplog.text
    with PersistentReplayBuffer(tmp_path / "buffer", None) as buffer:
        assert len(buffer) == 70


def test_the_checkpoint_of_another_run_is_refused(tmp_path):
    stopped(tmp_path, 30)
    with pytest.raises(CheckpointError, match="does not fit this run"):
        several(tmp_path, resume=True)


@pytest.mark.slow
def test_an_environment_that_comes_elsewhere_is_told_of(tmp_path, monkeypatch, caplog):
    stopped(tmp_path, 60)
    step = Noisy.step
    monkeypatch.setattr(Noisy, "step", lambda self, action: step(self, 1 - action))
    serial(tmp_path, resume=True)
    assert resumed(tmp_path)["resume"] == "approximate"
    assert "the run does not resume exactly" in caplog.text
    assert "the run does not resume exactly" in (tmp_path / "run.log").read_text()


# What is kept


@pytest.mark.slow
def test_all_agents_are_kept_and_of_two_what_else_they_need(tmp_path):
    serial(tmp_path, 110)
    assert {path.name for path in tmp_path.glob("*_*/run")} == {"run"}
    assert sorted(path.parent.name for path in tmp_path.glob("*/run")) == ["100_checkpoint", "110_finish"]
    assert len(list(tmp_path.glob("*_checkpoint"))) == 4
    needed = {
        entry["name"]
        for path in tmp_path.glob("*/run/state-*.json")
        for reference in json.loads(path.read_text())["buffers"].values()
        for entry in (reference["table"], *reference["segments"])
    }
    assert {path.name for path in tmp_path.glob("checkpoint_buffers/replay_buffer/*")} == needed


@pytest.mark.slow
@pytest.mark.parametrize("keep, kept", [(1, ["110_finish"]), (3, ["100_checkpoint", "110_finish", "75_checkpoint"])])
def test_so_many_checkpoints_are_kept_and_the_best_agent(keep, kept, tmp_path):
    serial(tmp_path, 110, keep_checkpoints=keep)
    assert sorted(path.name for path in tmp_path.glob("*_*") if path.name[0].isdigit()) == kept
    assert sorted(path.parent.name for path in tmp_path.glob("*/run")) == kept
    assert (tmp_path / "best").is_dir()


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="a file takes the place of a directory")
@pytest.mark.parametrize("choice", ["raise", "warn"])
def test_a_checkpoint_that_cannot_be_written_ends_training_or_does_not(choice, tmp_path, caplog):
    def fill_disk(env, agent, t):
        if t == 40:
            (tmp_path / "50_checkpoint").write_text("in the way")

    if choice == "raise":
        with pytest.raises(CheckpointError, match="50_checkpoint"):
            serial(tmp_path, step_hooks=[fill_disk], on_checkpoint_failure=choice)
    else:
        serial(tmp_path, step_hooks=[fill_disk], on_checkpoint_failure=choice)
        assert "50_checkpoint could not be saved: " in caplog.text
        assert (tmp_path / "75_checkpoint" / "run").is_dir()
    assert (tmp_path / "25_checkpoint" / "run").is_dir() == (choice == "raise")


@pytest.mark.slow
def test_an_agent_that_was_saved_over_that_of_a_checkpoint_is_not_taken_for_it(tmp_path):
    stopped(tmp_path, 80)
    small_dqn(noisy_env(0)).save(str(tmp_path / "75_checkpoint"))
    serial(tmp_path, resume=True)
    assert resumed(tmp_path)["checkpoint"] == "50_checkpoint"


@pytest.mark.slow
def test_several_checkpoints_due_in_one_tick_are_saved_once(tmp_path):
    env = SerialVectorEnv([noisy_env(seed) for seed in range(3)])
    train_agent_batch(small_dqn(env.envs[0]), env, 12, tmp_path, checkpoint_freq=1)
    assert {path.name for path in tmp_path.glob("*_checkpoint")} == {f"{t}_checkpoint" for t in range(1, 13)}
    whole = {"9_checkpoint", "12_checkpoint", "12_finish"}
    assert {path.parent.name for path in tmp_path.glob("*/run")} == whole


def test_what_cannot_be_removed_is_told_and_costs_no_checkpoint(tmp_path, monkeypatch, caplog):
    def fail(*_):
        raise PermissionError("of somebody else")

    monkeypatch.setattr("pfrl_like.experiments.checkpoints.prune", fail)
    serial(tmp_path)
    assert "75_checkpoint, what nobody needs any more is not removed: of somebody else" in caplog.text
    monkeypatch.undo()
    serial(tmp_path, 110, resume=True)
    assert resumed(tmp_path)["checkpoint"] == "90_finish"


@pytest.mark.slow
def test_an_error_in_the_first_step_spoils_no_checkpoint(tmp_path):
    with pytest.raises(Terminated):
        serial(tmp_path, hooks=[lambda clock: clock.interrupt(signal.SIGTERM) if clock.t == 50 else None])

    def fail(env, agent, t):
        raise Stopped

    with pytest.raises(Stopped):
        serial(tmp_path, resume=True, step_hooks=[fail])
    (tmp_path / "51_except").rename(tmp_path / "50_except-2")  # as if it had come before the step was counted
    serial(tmp_path, resume=True)
    assert resumed(tmp_path)["t"] == 50


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
    assert outcome.startswith("finished; the end is not saved: ") and "no space is left" in outcome


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


@pytest.mark.parametrize("content", ["", "7"])
def test_agents_of_somebody_elses_are_checked_too(content, tmp_path):
    with pytest.raises(Stopped):
        train_agent(Own(), noisy_env(0), 90, tmp_path, 25, hooks=[stop_at(80)])
    (tmp_path / "75_checkpoint" / "steps").write_text(content)
    agent = Own()
    train_agent(agent, noisy_env(0), 90, tmp_path, 25, resume=True)
    assert (resumed(tmp_path)["checkpoint"], agent.steps) == ("50_checkpoint", 90)


@pytest.mark.slow
def test_a_run_that_was_killed_after_its_last_save_has_a_whole_trace(tmp_path):
    serial(tmp_path, 40)
    path = tmp_path / "trace.jsonl"
    wanted = path.read_bytes()
    lines = wanted.splitlines(keepends=True)
    for kept in (lines, lines[:-1]):
        path.write_bytes(b"".join(kept))
        serial(tmp_path, 40, resume=True)
        assert path.read_bytes() == wanted


# Runs that go on otherwise than they were made say so


def take_up(outdir: Path, env_id: str = "CartPole-v1", hooks: Any = (), **options: Any) -> None:
    env = noisy_env(0, env_id)
    train_agent(small_dqn(env, **options), env, 60, outdir, checkpoint_freq=20, resume=True, hooks=hooks)


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


@pytest.mark.representatives(2)
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
def test_what_was_made_otherwise_is_told(change, reason, outdir):
    take_up(outdir, **change)
    told = resumed(outdir)
    assert (told["resume"], reason in told["reasons"]) == (("approximate", True) if reason else ("exact", False))


def offline_then_online(outdir: Path, hooks: Any = ()) -> list[Any]:
    env = noisy_env(0)
    agent, _ = offline(outdir / "offline", 30, small_dqn(env), resume=True)
    train_agent(agent, env, 60, outdir / "online", checkpoint_freq=20, resume=True, hooks=hooks)
    return [each.tolist() for each in agent.model.parameters()]


@pytest.mark.slow
def test_what_an_agent_went_through_before_is_not_how_it_was_made(tmp_path, caplog):
    wanted = offline_then_online(tmp_path / "whole")
    with pytest.raises(Stopped):
        offline_then_online(tmp_path / "parts", [stop_at(45)])
    assert offline_then_online(tmp_path / "parts") == wanted and "go on exactly" not in caplog.text
    assert (resumed(tmp_path / "parts" / "online")["reasons"]) == []


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


@pytest.mark.slow
def test_epochs_that_end_within_a_path_go_on_as_if_the_run_had_not_been_stopped(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    average = epoch_runner(whole).train(4, 17)
    with pytest.raises(Stopped):
        epoch_runner(broken, hooks=[stop_at(130)]).train(4, 17)
    assert epoch_runner(broken).train(4, 17, resume=True) == average
    assert resumed(broken) == {"checkpoint": "102_checkpoint", "t": 102, "resume": "exact", "reasons": []}
    for name in ("epochs.csv", "metrics.csv", "scores.txt"):
        assert table(broken / name) == table(whole / name)
