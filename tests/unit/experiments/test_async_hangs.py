"""A process that hangs is ended, named, and keeps neither the run nor the agent."""

import multiprocessing
import os
import threading
import time

import pytest
import torch
from async_parts import make_a3c, parameters
from time_parts import PATIENCE

from pfrl_like.errors import AsyncTrainingError
from pfrl_like.experiments import async_source, train_agent_async
from pfrl_like.testing import Chain

WAYS = ["step", "make_env", "reset"]
BY_WAY = pytest.mark.parametrize("way", [*WAYS[:2], pytest.param("reset", marks=pytest.mark.slow)])


class Walk:
    """A hook by which time passes with the steps of one process, which is thus not silent for longer than two of them.

    Between two times that it lets pass, a step that was begun after the first has ended: another one has begun.

    Args:
        own_time: What passes.
        seconds: How much, for two steps at least.
    """

    def __init__(self, own_time, seconds):
        self.own_time, self.seconds = own_time, seconds
        self.begun, self.seen = multiprocessing.RawValue("Q"), multiprocessing.RawValue("Q")

    @property
    def is_ahead(self):
        return self.begun.value >= self.seen.value + 2

    def step(self):
        self.begun.value += 1

    def __call__(self, clock):
        if self.is_ahead:
            self.own_time.pass_by(self.seconds)
            self.seen.value = self.begun.value


def wait_for(folder, pattern):
    while not [*folder.glob(pattern)]:
        time.sleep(0.01)


def hang_for_ever(folder):
    (folder / f"hanging-{os.getpid()}").touch()
    while True:
        time.sleep(60)


class Hanging(Chain):
    """Hangs in its tenth step, or in its third reset; others make their 40th step, or raise in it, once one hangs."""

    def __init__(self, way, folder, walk=None):
        super().__init__(4, time_limit=7)
        self.way, self.folder, self.walk, self.steps, self.resets = way, folder, walk, 0, 0

    def reset(self, **options):
        self.resets += 1
        if self.way == "reset" and self.resets == 3:
            hang_for_ever(self.folder)
        return super().reset(**options)

    def step(self, action):
        self.steps += 1
        if self.way == "step" and self.steps == 10:
            hang_for_ever(self.folder)
        if self.steps >= 40:
            wait_for(self.folder, "hanging-*")
            if self.way == "raise":
                raise ZeroDivisionError("in the middle of it")
            if self.walk is not None:
                self.walk.step()
        return super().step(action)


class MakeEnv:
    """Environments that fail in some way, by process; the others are made when the one that is to hang is."""

    def __init__(self, folder, *ways, walk=None):
        self.folder, self.ways, self.walk = folder, ways, walk

    def __call__(self, process_idx, test):
        way = None if test else self.ways[process_idx]
        if way in WAYS:
            (self.folder / "begun").touch()
        wait_for(self.folder, "begun")
        if way == "make_env":
            hang_for_ever(self.folder)
        return Hanging(way, self.folder, self.walk)


def run(outdir, agent, make_env, processes=2, **options):
    arguments = {"steps": 400, "eval_interval": None, "start_method": "fork", "grace": 1.0, **options}
    return train_agent_async(outdir, processes, make_env, agent=agent, **arguments)


def check_saved(outdir, ending="except"):
    """The agent that was saved has learnt."""
    (saved,) = outdir.glob(f"*_{ending}")
    other = make_a3c()
    before = parameters(other)
    other.load(saved)
    assert not torch.equal(parameters(other), before)


@pytest.mark.slow
@BY_WAY
def test_a_process_that_hangs_while_training_goes_on_ends_it(tmp_path, way, own_time):
    walk = Walk(own_time, 0.1)
    with pytest.raises(
        AsyncTrainingError,
        match=r"process 1 has made no step for 0.5 s \(step_timeout, which .*\): the process was killed",
    ) as caught:
        run(
            tmp_path, make_a3c(), MakeEnv(tmp_path, None, way, walk=walk), steps=10**8, step_timeout=0.5,
            grace=PATIENCE, hooks=[walk],
        )  # fmt: skip
    assert list(caught.value.reasons) == [1]
    assert "in hang_for_ever" in caught.value.tracebacks[1]
    check_saved(tmp_path)


def test_a_run_all_of_whose_processes_hang_ends(tmp_path, own_time):
    def let_time_pass(clock):
        if len([*tmp_path.glob("hanging-*")]) == 2:
            own_time.pass_by(0.1)

    with pytest.raises(AsyncTrainingError) as caught:
        run(
            tmp_path, make_a3c(), MakeEnv(tmp_path, "step", "step"), steps=10**8, step_timeout=0.5,
            hooks=[let_time_pass],
        )  # fmt: skip
    assert sorted(caught.value.reasons) == [0, 1]
    assert all("has made no step for 0.5 s" in reason for reason in caught.value.reasons.values())


class Slow(Chain):
    """Waits in every other step until time has passed."""

    def __init__(self, walk):
        super().__init__(4, time_limit=7)
        self.walk = walk

    def step(self, action):
        self.walk.step()
        while self.walk.is_ahead:
            time.sleep(0.01)
        return super().step(action)


@pytest.mark.slow
def test_a_process_that_goes_on_is_not_ended(tmp_path, own_time):
    walk = Walk(own_time, 0.5)
    run(
        tmp_path, make_a3c(), lambda process_idx, test: Slow(walk), processes=1, steps=20, step_timeout=2.0,
        eval_interval=10, eval_n_steps=10, eval_n_episodes=None, hooks=[walk],
    )  # fmt: skip
    check_saved(tmp_path, "finish")


@pytest.mark.representatives(2)
@BY_WAY
@pytest.mark.parametrize("end", ["stop_event", "a failure", "Ctrl-C"])
def test_whatever_ends_a_run_in_which_a_process_hangs_names_it(tmp_path, way, end, caplog):
    event = threading.Event()

    def finish(clock):
        if clock.t > 60 and end == "stop_event":
            event.set()
        if clock.t > 60 and end == "Ctrl-C":
            raise KeyboardInterrupt

    make_env = MakeEnv(tmp_path, "raise" if end == "a failure" else None, way)
    with pytest.raises(KeyboardInterrupt if end == "Ctrl-C" else AsyncTrainingError) as caught:
        run(tmp_path, make_a3c(), make_env, steps=10**8, stop_event=event, hooks=[finish])
    told = str(caught.value) + caplog.text
    assert "process 1 did not end" in told and "in hang_for_ever" in told
    assert ("process 0 raised ZeroDivisionError: in the middle" in told) == (end == "a failure")
    check_saved(tmp_path)


@pytest.mark.slow
def test_process_0_saves_its_agent_though_it_hangs(tmp_path):
    with pytest.raises(AsyncTrainingError, match="process 0 did not end"):
        run(tmp_path, make_a3c(), MakeEnv(tmp_path, "step", None), use_shared_memory=False)
    check_saved(tmp_path)


@pytest.mark.slow
def test_a_process_that_does_not_let_itself_be_interrupted_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(async_source, "TRACEBACK_SECONDS", 1.0)

    class Stubborn(Hanging):
        def step(self, action):
            while True:
                try:
                    return super().step(action)
                except BaseException:
                    self.steps = 9  # so that it hangs again

    def make_env(process_idx, test):
        return Stubborn("step", tmp_path) if process_idx == 1 else Hanging(None, tmp_path)

    with pytest.raises(AsyncTrainingError, match="process 1 did not end"):
        run(tmp_path, make_a3c(), make_env)
    check_saved(tmp_path)


@pytest.mark.slow
def test_an_evaluation_that_takes_longer_is_waited_for(tmp_path, own_time):
    walk = Walk(own_time, 0.25)

    def make_env(process_idx, test):
        return Slow(walk) if test else Chain(4, time_limit=7)

    run(
        tmp_path, make_a3c(), make_env, processes=1, steps=100,
        eval_interval=100, eval_n_steps=10, eval_n_episodes=None, hooks=[walk],
    )  # fmt: skip
    assert own_time.monotonic() == 5 * 0.25  # longer than the grace
    assert len((tmp_path / "scores.txt").read_text().splitlines()) == 2
    check_saved(tmp_path, "finish")
