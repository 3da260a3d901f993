"""PFRL's loop of one process and its evaluator; rows, calls and saved agents are PFRL's for the same script."""

import logging
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peers.pfrl_small_modules import Counting, Recording
from tensorboard_files import scalars

from pfrl_like.experiments.evaluator import AsyncEvaluator, record_stats, record_tb_stats_loop, write_header
from pfrl_like.experiments.train_agent import ask_and_save_agent_replay_buffer, save_agent_replay_buffer
from pfrl_like.experiments.train_agent_async import kill_all, train_loop
from pfrl_like.replay_buffers import ReplayBuffer

FORK = multiprocessing.get_context("fork")


class Run:
    """A run of `train_loop` with an evaluator of two episodes every three steps."""

    def __init__(self, outdir: Path, steps: int, *, error_at: int = 0, process_idx: int = 0, **options: Any) -> None:
        self.agent, self.events, self.error_at = Recording(), [], error_at  # type: ignore[var-annotated]
        self.evaluator = AsyncEvaluator(None, 2, 3, str(outdir), evaluation_hooks=[self.after_evaluation])
        self.counter, self.episodes = FORK.Value("l", 0), FORK.Value("l", 0)
        self.stop, self.outdir = threading.Event(), outdir
        shared = self.counter, self.episodes, self.stop, threading.Event()
        self.run = lambda: train_loop(
            process_idx, Counting(4), self.agent, steps, str(outdir), *shared, evaluator=self.evaluator,
            eval_env=Counting(3), global_step_hooks=[self.after_step], **options,
        )  # fmt: skip

    def after_step(self, env: Any, agent: Any, t: int) -> None:
        self.events.append(t)
        if t == self.error_at:
            raise KeyError("of the hook")

    def after_evaluation(self, *, step: int, eval_stats: Any, **_: Any) -> None:
        self.events.append((step, eval_stats["mean"]))

    def rows(self) -> list[list[str]]:
        """The rows of the table without the elapsed time."""
        lines = (self.outdir / "scores.txt").read_text().splitlines()
        return [[value for i, value in enumerate(line.split("\t")) if i != 2] for line in lines]


def test_the_loop_evaluates_after_episodes_and_saves_at_the_end(tmp_path: Path) -> None:
    run = Run(tmp_path, 10)
    run.run()
    assert run.events == [1, 2, 3, 4, (4, 6.0), 5, 6, 7, 8, (8, 6.0), 9, 10, (10, 6.0)]
    assert (run.counter.value, run.episodes.value) == (10, 3)
    assert run.agent.saved == ["best", "10_finish"] and run.evaluator.max_score == 6.0
    assert run.agent.observed == [[i, i, i == 4, False] for i in (1, 2, 3, 4, 1, 2, 3, 4, 1, 2)]
    header = ["steps", "episodes", "mean", "median", "stdev", "max", "min", "calls", "resets"]
    scores = ["6.0", "6.0", "0.0", "6.0", "6.0"]
    ends = (["4", "0"], ["20", "2"]), (["8", "1"], ["40", "2"]), (["10", "2"], ["56", "2"])
    assert run.rows() == [header, *([*start, *scores, *end] for start, end in ends)]


def test_long_episodes_are_cut_off(tmp_path: Path) -> None:
    run = Run(tmp_path, 10, max_episode_len=2)
    run.run()
    assert run.events == [1, 2, 3, 4, (4, 6.0), 5, 6, (6, 6.0), 7, 8, 9, 10, (10, 6.0)]
    assert run.agent.observed == [[1, 1, False, False], [2, 2, False, True]] * 5
    assert run.episodes.value == 5


def test_a_score_that_is_reached_ends_all_processes(tmp_path: Path) -> None:
    run = Run(tmp_path, 100, successful_score=5.0)
    run.run()
    assert run.stop.is_set() and run.counter.value == 4 and run.episodes.value == 0
    assert run.agent.saved == ["best", "successful"]


def test_the_event_ends_the_loop_at_the_next_step(tmp_path: Path) -> None:
    run = Run(tmp_path, 100)
    run.stop.set()
    run.run()
    assert run.events == [1] and run.agent.saved == []


@pytest.mark.parametrize(("process_idx", "saved"), [(0, ["best", "5_except"]), (1, ["best"])])
def test_process_0_saves_its_agent_after_an_error(tmp_path: Path, process_idx: int, saved: list[str]) -> None:
    run = Run(tmp_path, 7, error_at=5, process_idx=process_idx)
    with pytest.raises(KeyError, match="of the hook"):
        run.run()
    assert run.agent.saved == saved


@pytest.mark.slow
def test_processes_share_the_clock_and_the_best_score_of_an_evaluator(tmp_path: Path) -> None:
    evaluator = AsyncEvaluator(None, 1, 5, str(tmp_path))

    def evaluate(t: int) -> None:
        evaluator.evaluate_if_necessary(t, 0, Counting(3), Recording())

    for t in (4, 5, 6, 10):
        process = FORK.Process(target=evaluate, args=(t,))
        process.start()
        process.join()
        assert process.exitcode == 0
    assert [line.split("\t")[0] for line in (tmp_path / "scores.txt").read_text().splitlines()] == ["steps", "5", "10"]
    assert evaluator.max_score == 6.0


def test_the_table_of_scores_has_pfrls_columns(tmp_path: Path) -> None:
    write_header(tmp_path, Recording(), object())
    record_stats(tmp_path, [10, 1, 0.5, 2.0])
    expected = "steps\tepisodes\telapsed\tmean\tmedian\tstdev\tmax\tmin\tcalls\n10\t1\t0.5\t2.0\n"
    assert (tmp_path / "scores.txt").read_text() == expected


@pytest.mark.slow
def test_evaluations_are_shown_by_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    run, stop = Run(tmp_path, 8), threading.Event()
    run.evaluator.start_tensorboard_writer(tmp_path / "events", stop)
    run.run()
    time.sleep(0.2)  # the queue hands its items over in another thread
    stop.set()
    run.evaluator.join_tensorboard_writer()
    shown = scalars(tmp_path / "events")
    assert shown["eval/mean"] == shown["extras/meanplusstdev"] == [(4, 6.0), (8, 6.0)]
    assert shown["agent/calls"] == [(4, 20.0), (8, 40.0)] and shown["env/resets"] == [(4, 2.0), (8, 2.0)]


@pytest.mark.slow
def test_the_loop_writes_what_is_left_after_the_event(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    queue: Any = multiprocessing.get_context("fork").SimpleQueue()
    stats = dict.fromkeys(("mean", "median", "max", "min"), 3.0) | {"stdev": 1.0}
    queue.put([[], stats, [], 5])
    stop = threading.Event()
    stop.set()
    record_tb_stats_loop(tmp_path, queue, stop)
    assert scalars(tmp_path)["extras/meanminusstdev"] == [(5, 2.0)]


@pytest.mark.parametrize(("n_steps", "n_episodes"), [(None, None), (1, 1)])
def test_steps_or_episodes_are_given(tmp_path: Path, n_steps: int | None, n_episodes: int | None) -> None:
    with pytest.raises(ValueError, match="n_steps"):
        AsyncEvaluator(n_steps, n_episodes, 3, str(tmp_path))


def test_all_processes_of_the_group_end() -> None:
    def end() -> None:
        os.setpgrp()
        child = FORK.Process(target=threading.Event().wait)
        child.start()
        sender.send(child.pid)
        kill_all()

    receiver, sender = FORK.Pipe(duplex=False)
    process = FORK.Process(target=end)
    process.start()
    child = receiver.recv()
    process.join()
    assert process.exitcode == -signal.SIGTERM
    sender.close()
    with pytest.raises(EOFError):
        receiver.recv()  # returns when the child, which also has the other end, has ended
    assert child > 0


class WithBuffer:
    def __init__(self) -> None:
        self.replay_buffer = ReplayBuffer(10)
        self.replay_buffer.append(np.zeros(1), 0, 1.0, np.ones(1), is_state_terminal=True)


def test_a_replay_buffer_is_saved_under_pfrls_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        save_agent_replay_buffer(WithBuffer(), 7, str(tmp_path), suffix="_finish")
    assert str(tmp_path / "7_finish.replay.pkl") in caplog.text
    loaded = ReplayBuffer(10)
    loaded.load(str(tmp_path / "7_finish.replay.pkl"))
    assert len(loaded) == 1


@pytest.mark.parametrize(("answer", "saved"), [("y", ["7.replay.pkl"]), ("n", [])])
def test_the_user_decides_whether_a_replay_buffer_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, saved: list[str]
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("builtins.input", lambda prompt: asked.append(prompt) or answer)
    ask_and_save_agent_replay_buffer(WithBuffer(), 7, str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == saved
    assert asked == ["Replay buffer has 1 transitions. Do you save them to a file? [y/N]: "]
    ask_and_save_agent_replay_buffer(object(), 7, str(tmp_path))
    assert len(asked) == 1
