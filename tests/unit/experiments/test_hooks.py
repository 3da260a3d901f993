"""Stock hooks: schedules, ends and checkpoints by the clock of the wall, patience."""

import inspect
from types import SimpleNamespace

import pytest
import torch
from async_parts import make_a3c
from epoch_parts import epoch_runner
from experiment_fakes import Counting, Recorder
from resume_parts import noisy_env, small_dqn
from run_parts import Stopped, names_in, record, resumed, stop_at, table
from time_parts import OwnTime

from pfrl_like.agents import DQN
from pfrl_like.envs import SerialVectorEnv
from pfrl_like.experiments import (
    LinearInterpolationHook,
    OptunaPrunerHook,
    RecordVideoEvery,
    SaveEvery,
    ScheduleHook,
    StopAfter,
    StopWithoutImprovement,
    train_agent,
    train_agent_async,
    train_agent_batch,
    train_agent_with_evaluation,
)
from pfrl_like.testing import Chain


@pytest.fixture
def own_time(monkeypatch):
    own = OwnTime()
    monkeypatch.setattr("pfrl_like.experiments.hooks.time", own)
    return own


def values_of(hook, name="x", steps=7):
    agent = SimpleNamespace(x=None, optimizer=None)
    return [hook(None, agent, step) or getattr(agent, name) for step in range(1, steps)]


def test_a_schedule_has_the_numbers_of_linear_interpolation():
    linear = LinearInterpolationHook(5, 0.3, 1e-7, lambda env, agent, value: setattr(agent, "x", value))
    assert values_of(ScheduleHook(5, 0.3, 1e-7, "x")) == values_of(linear)
    assert values_of(ScheduleHook(3.5, 5.0, 0.0, "x")) == [5.0, 3.0, 1.0, 0.0, 0.0, 0.0]


def test_a_curve_bends_a_schedule():
    assert values_of(ScheduleHook(5, 2.0, 0.0, "x", curve=lambda progress: progress**2))[2:] == [1.5, 0.875, 0.0, 0.0]


def test_a_schedule_may_hold_its_first_value() -> None:
    assert values_of(ScheduleHook(5, 2.0, 0.0, "x", hold=0.5)) == [2.0, 2.0, 2.0, 1.0, 0.0, 0.0]
    for hold, curve in ((1.0, None), (-0.1, None), (0.5, abs)):
        with pytest.raises(ValueError, match="hold is"):
            ScheduleHook(5, 2.0, 0.0, "x", hold=hold, curve=curve)


def test_a_pattern_sets_the_attribute_of_all_parts_that_match() -> None:
    agent = SimpleNamespace(a_part=SimpleNamespace(x=0.0), b_part=SimpleNamespace(x=0.0), c=SimpleNamespace(x=0.0))
    ScheduleHook(3, 0.5, 0.5, "*_part.x")(None, agent, 1)
    assert (agent.a_part.x, agent.b_part.x, agent.c.x) == (0.5, 0.5, 0.0)
    with pytest.raises(ValueError, match="no attribute of SimpleNamespace matches"):
        ScheduleHook(3, 0.5, 0.5, "*_critic.x")(None, agent, 1)


def test_a_scheduled_learning_rate_keeps_the_factors_of_the_groups():
    params = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    optimizer = torch.optim.Adam([{"params": params[:1]}, {"params": params[1:], "lr_factor": 0.5}], lr=1.0)
    ScheduleHook(3, 0.2, 0.4, "optimizer.lr")(None, SimpleNamespace(optimizer=optimizer), 2)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.3, 0.15])


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("explorer.epsilom", "ConstantEpsilonGreedy has no attribute 'epsilom'; the nearest is 'epsilon'"),
        ("explorers.epsilon", "DQN has no attribute 'explorers'; the nearest is 'explorer'"),
        ("optimizer.lrs", "Adam has no attribute 'lrs'; the nearest is 'lr'"),
    ],
)
def test_an_attribute_that_the_agent_lacks_is_named(attribute, message):
    with pytest.raises(ValueError, match=f"attribute is '{attribute}', but {message}"):
        ScheduleHook(3, 0.2, 0.4, attribute)(None, small_dqn(noisy_env(0)), 2)


class Watched(DQN):
    """Its discount is scheduled, though no checkpoint has it."""

    def observe(self, *args, **kwargs):
        self.gammas = [*getattr(self, "gammas", []), self.gamma]
        super().observe(*args, **kwargs)


def scheduled(outdir, **options):
    env = noisy_env(0)
    agent = small_dqn(env, Watched)
    hook = ScheduleHook(50, 0.9, 0.5, "gamma")
    options.setdefault("hooks", [])
    train_agent(agent, env, 40, outdir, step_hooks=[hook], resume=True, **options)
    return agent


@pytest.mark.slow
def test_a_schedule_goes_on_where_a_run_resumes(tmp_path):
    whole = scheduled(tmp_path / "whole")
    with pytest.raises(Stopped):
        scheduled(tmp_path / "stopped", checkpoint_freq=20, hooks=[stop_at(30)])
    assert scheduled(tmp_path / "stopped").gammas == whole.gammas[20:]
    assert table(tmp_path / "whole/metrics.csv") == table(tmp_path / "stopped/metrics.csv")


def timed(outdir, own_time, hook, *hooks, **options):
    env = noisy_env(0)
    hooks = [hook, *hooks, lambda clock: own_time.pass_by(30)]
    train_agent(small_dqn(env), env, 30, outdir, hooks=hooks, resume=True, **options)


def test_a_run_stops_after_a_time_that_counts_on_when_it_resumes(own_time, tmp_path):
    with pytest.raises(Stopped):
        timed(tmp_path, own_time, StopAfter(hours=1), stop_at(8), checkpoint_freq=5)
    own_time.pass_by(10**6)  # between the two parts
    timed(tmp_path, own_time, StopAfter(seconds=24, minutes=3, hours=0.01))  # 240 seconds
    assert record(tmp_path)["outcome"] == "stopped: 240 seconds have passed"
    assert record(tmp_path)["t"] == 9 and resumed(tmp_path)["t"] == 5


def test_a_checkpoint_is_saved_when_its_time_has_come(own_time, tmp_path):
    hook = SaveEvery(seconds=1, minutes=1, hours=0.01)  # 97 seconds
    with pytest.raises(Stopped):
        timed(tmp_path, own_time, hook, stop_at(11))
    assert {name for name in names_in(tmp_path) if name.endswith("_checkpoint")} == {"5_checkpoint", "9_checkpoint"}
    timed(tmp_path, own_time, hook)
    assert (resumed(tmp_path)["t"], resumed(tmp_path)["resume"]) == (9, "exact")


def test_a_run_stops_when_it_no_longer_improves(tmp_path):
    env, hook = Counting(3), StopWithoutImprovement(patience=2)
    with pytest.raises(Stopped):
        evaluated(tmp_path, env, hook, hooks=[stop_at(8)], checkpoint_freq=7)
    assert (hook.best, hook.n_since_best) == (3.0, 1)
    hook = StopWithoutImprovement(patience=2)
    evaluated(tmp_path, env, hook, resume=True)
    assert record(tmp_path)["outcome"] == "stopped: the mean return has not exceeded 3.0 in 2 evaluations"
    assert record(tmp_path)["t"] == 9


def evaluated(outdir, env, hook, **options):
    eval_env, agent = Counting(3), small_dqn(Counting(3))
    return train_agent_with_evaluation(
        agent, env, 99, None, 1, 3, outdir, eval_env=eval_env, evaluation_hooks=[hook], **options
    )


def test_processes_end_when_a_hook_of_the_clock_or_an_evaluation_stops_them(tmp_path, caplog):
    options = {"start_method": "fork", "steps": 10**7, "eval_n_episodes": 1, "agent": make_a3c()}
    make_env = lambda index, test: Chain(4)  # noqa: E731
    train_agent_async(tmp_path / "a", 2, make_env, eval_interval=None, hooks=[StopAfter(seconds=0.01)], **options)
    hooks = [StopWithoutImprovement(3)]
    train_agent_async(tmp_path / "b", 2, make_env, eval_interval=5, evaluation_hooks=hooks, **options)
    outcomes = [record(tmp_path / name)["outcome"] for name in "ab"]
    assert outcomes[0] == "stopped: 0.01 seconds have passed" and "has not exceeded" in outcomes[1]
    assert not [each for each in caplog.records if "killed" in each.getMessage()]


def test_hooks_in_the_wrong_place_are_named(tmp_path):
    agent, env = Recorder(), Counting()
    for runner, arguments, message in (
        (train_agent, {"hooks": [ScheduleHook(2, 1, 0, "t")]}, r"hooks\[0\] is .*ScheduleHook.*step_hooks and evaluat"),
        (train_agent, {"step_hooks": [StopAfter(hours=1)]}, r"step_hooks\[0\] is .*StopAfter.*of \(env, agent"),
        (train_agent_batch, {"hooks": [StopWithoutImprovement(2)]}, r"hooks\[0\] is .*StopWithoutImprovement"),
    ):
        with pytest.raises(TypeError, match=message):
            runner(agent, SerialVectorEnv([env]) if runner is train_agent_batch else env, 4, tmp_path, **arguments)
    hooks = [SaveEvery(minutes=1)]
    with pytest.raises(ValueError, match="hooks has a SaveEvery, which EpochRunner does not support: pass snapshot_"):
        epoch_runner(tmp_path, hooks=hooks)
    with pytest.raises(ValueError, match="hooks is .*SaveEvery.*requires use_shared_memory=True"):
        train_agent_async(tmp_path, 1, Chain, make_agent=lambda i: agent, use_shared_memory=False, hooks=hooks)
    with pytest.raises(ValueError, match="seconds, minutes and hours are 0"):
        StopAfter()


@pytest.mark.parametrize(("steps", "warns"), [(8, True), (10, False)])
def test_a_run_too_short_for_an_update_is_warned_of_before_it(steps, warns, tmp_path, caplog):
    train_agent(small_dqn(noisy_env(0), replay_start_size=9), noisy_env(0), steps, tmp_path)
    assert ("no update will be made" in caplog.text) == warns


@pytest.mark.parametrize(
    ("argument", "hook"),
    [
        ("step_hooks", LinearInterpolationHook), ("step_hooks", ScheduleHook), ("step_hooks", RecordVideoEvery),
        ("hooks", StopAfter), ("hooks", SaveEvery),
        ("evaluation_hooks", StopWithoutImprovement), ("evaluation_hooks", OptunaPrunerHook),
    ],
)  # fmt: skip
def test_the_docstring_of_a_stock_hook_shows_the_argument_that_takes_it(argument, hook):
    assert f"in `{argument}`" in hook.__doc__ and f", {argument}=[{hook.__name__}(" in hook.__doc__
    assert argument in inspect.signature(train_agent_with_evaluation).parameters
