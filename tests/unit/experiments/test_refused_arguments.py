"""What is no argument of a runner is refused by its name before anything is moved, made or trained."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agent_parts import make_agent
from async_parts import make_a3c
from epoch_parts import epoch_runner
from experiment_fakes import Counting, Recorder
from resume_parts import noisy_env, small_dqn
from run_parts import contents

from pfrl_like import experiments
from pfrl_like.dataset import MDPDataset
from pfrl_like.envs import SerialVectorEnv
from pfrl_like.experiments import Evaluator, collect_demonstrations, eval_performance


class Dies(Counting):
    """An environment in which nobody takes a step."""

    def step(self, action: Any) -> Any:
        raise AssertionError("training has begun")


def data() -> MDPDataset:
    rows = np.zeros((40, 4), np.float32)
    return MDPDataset.from_arrays(rows, np.zeros(40, np.int64), rows[:, 0], np.arange(40) % 8 == 7)


def function(*_: Any) -> None:
    """Is no list."""


def in_epochs(outdir: Path, **options: Any) -> None:
    epoch_runner(outdir, **options).train(1)


SERIAL = {"agent": Recorder, "env": Dies, "steps": lambda: 5}
SEVERAL = {**SERIAL, "env": lambda: SerialVectorEnv([Dies()])}
EVALUATED = {"eval_n_steps": lambda: None, "eval_n_episodes": lambda: 1, "eval_interval": lambda: 2}
ASYNC = {"make_env": lambda: Dies, "steps": lambda: 5, "start_method": lambda: "fork"}
RUNNERS: dict[Callable[..., Any], dict[str, Callable[[], Any]]] = {
    experiments.train_agent: SERIAL,
    experiments.train_agent_batch: SEVERAL,
    experiments.train_agent_with_evaluation: {**SERIAL, **EVALUATED},
    experiments.train_agent_batch_with_evaluation: {**SEVERAL, **EVALUATED, "eval_env": Dies},
    experiments.train_agent_offline: {
        "agent": lambda: small_dqn(noisy_env(0)), "dataset": data, "steps": lambda: 5, **EVALUATED, "eval_env": Dies,
    },
    experiments.train_agent_async: {"agent": make_a3c, "processes": lambda: 1, **EVALUATED, **ASYNC},
    experiments.train_agent_actor_learner: {"agent": make_agent, "n_actors": lambda: 1, **EVALUATED, **ASYNC},
    in_epochs: {},
}  # fmt: skip
PUT = "expected a list of functions: put it in a list"
REFUSED = {
    "outdir": [
        (None, TypeError, r"outdir is None \(NoneType\), expected the path of a directory"),
        ("", ValueError, "outdir is '', expected the path of a directory"),
        (b"", ValueError, "outdir is b'', expected the path of a directory"),
    ],
    "steps": [
        (-1, ValueError, "steps is -1, expected an integer from 0 on"),
        (1e3, TypeError, r"steps is 1000.0 \(float\), expected an integer"),
    ],
    "step_offset": [
        (-1, ValueError, "step_offset is -1"), (500, ValueError, "step_offset is 500 and steps is 5"),
    ],
    "agent": [(3, TypeError, r"^agent is 3 \(int\), expected"), ("DQN", TypeError, r"agent is .*\(str\), expected")],
    "dataset": [([], TypeError, r"dataset is \[\] \(list\), .* MDPDataset.from_episodes")],
    "make_env": [(3, TypeError, "^make_env is ")],
    "processes": [(0, ValueError, "processes")],
    "stop_event": [(True, TypeError, "^stop_event is ")],
    "exception_event": [(1, TypeError, "^exception_event is ")],
    "random_seeds": [
        ([], ValueError, "random_seeds"), ([-1], ValueError, r"random_seeds\[0\] is -1"),
        ([2**32], ValueError, "random_seeds holds 4294967296"), (3, TypeError, "^random_seeds is "),
        (["a"], TypeError, r"^random_seeds\S* is "),
    ],
    "grace": [
        (0.0, ValueError, "grace is 0.0"), (np.nan, ValueError, "grace is nan"), ("long", TypeError, "^grace is "),
    ],
    "log_interval": [(0, ValueError, "log_interval is 0")],
    "return_window_size": [(0, ValueError, "return_window_size is 0")],
    "env": [(3, TypeError, r"env is 3 \(int\), expected an environment: an object with the methods reset and step")],
    "eval_env": [
        (3, TypeError, r"eval_env is 3 \(int\), expected an environment"),
        (Counting, TypeError, "eval_env is <class"),
    ],
    "evaluator": [(3, TypeError, r"evaluator is 3 \(int\), expected an object with the method evaluate_if_necessary")],
    "logger": [("mine", TypeError, r"logger is 'mine' \(str\), expected a logging.Logger, or None")],
    "progress": [("yes", TypeError, "progress is 'yes'")],
    "successful_score": [("9", TypeError, r"successful_score is '9' \(str\), expected a number, or None")],
    "eval_success_threshold": [("9", TypeError, "eval_success_threshold is '9'")],
    "eval_n_episodes": [
        (1.5, TypeError, r"^eval_n_episodes is 1.5 \(float\)"), (0, ValueError, "n_episodes is 0"),
        (None, ValueError, "eval_n_steps is None and eval_n_episodes is None, expected exactly one of them"),
    ],
    "eval_n_steps": [(3, ValueError, "^eval_n_steps is 3 and eval_n_episodes is 1, expected exactly one of them")],
    "eval_interval": [(0, ValueError, "eval_interval is 0")],
    "eval_max_episode_len": [(2.5, TypeError, "eval_max_episode_len is 2.5")],
    "hooks": [
        (3, TypeError, r"^hooks is 3 \(int\), expected a list of functions$"),
        (function, TypeError, rf"^hooks is <function .*> \(function\), {PUT}$"),
    ],
    "loggers": [
        (3, TypeError, r"^loggers is 3 \(int\), expected a list of loggers of metrics"),
        ([3], TypeError, r"^loggers\[0\] is 3 \(int\), expected an object with the method log"),
    ],
    "evaluation_hooks": [(function, TypeError, rf"^evaluation_hooks is .*{PUT}")],
    "step_hooks": [
        (function, TypeError, rf"^step_hooks is .*{PUT}"),
        ([function, 3], TypeError, r"^step_hooks\[1\] is 3 \(int\), expected a function"),
        ((step for step in [function]), TypeError, "^step_hooks is <generator"),
    ],
    "global_step_hooks": [
        (function, TypeError, rf"^global_step_hooks is .*{PUT}"), (3, TypeError, "^global_step_hooks is "),
        ([print, 3], TypeError, r"^global_step_hooks\[1\] is "),
    ],
    "use_tensorboard": [("no", TypeError, "use_tensorboard is 'no'")],
    "save_best_so_far_agent": [("no", TypeError, "save_best_so_far_agent is 'no'")],
    "eval_during_episode": [("no", TypeError, "eval_during_episode is 'no'")],
    "use_shared_memory": [("no", TypeError, "use_shared_memory is 'no'")],
    "profile": [("no", TypeError, "profile is 'no'")],
    "resume": [("yes", TypeError, r"resume is 'yes' \(str\), expected True or False")],
    "keep_checkpoints": [
        ("2", TypeError, "^keep_checkpoints is '2'"), (0, ValueError, "keep_checkpoints"),
        (1.5, TypeError, "keep_checkpoints"),
    ],
    "keep_snapshots": [("2", TypeError, "^keep_snapshots is '2'")],
    "on_checkpoint_failure": [("ignore", ValueError, "on_checkpoint_failure is 'ignore', expected 'raise' or 'warn'")],
    "on_snapshot_failure": [("ignore", ValueError, "on_snapshot_failure is 'ignore', expected 'raise' or 'warn'")],
    "checkpoint_freq": [(0, ValueError, "checkpoint_freq is 0, expected an integer from 1 on, or None")],
    "max_episode_len": [
        ("9", TypeError, "max_episode_len is '9'"), (0, ValueError, "max_episode_len is 0"),
        (1.5, TypeError, "max_episode_len is 1.5"),
    ],
    "train_max_episode_len": [(0, ValueError, "max_episode_len is 0")],
    "start_method": [("thread", ValueError, "start_method is 'thread', expected one of")],
}  # fmt: skip


def names_of(runner: Callable[..., Any]) -> set[str]:
    """The arguments of a runner, those that it hands on included."""
    names = {*inspect.signature(runner).parameters}
    if runner is experiments.train_agent_actor_learner:
        names |= {*inspect.signature(experiments.train_agent_async).parameters}
        names -= {"processes", "stop_event", "exception_event"}
    if runner is in_epochs:
        names |= {*inspect.signature(experiments.EpochRunner).parameters} - {"env", "eval_env", "eval_n_episodes"}
    return names


CASES = [
    pytest.param(runner, name, *case, id=f"{runner.__name__}-{name}-{i}")
    for runner in RUNNERS
    for name in sorted(names_of(runner) & REFUSED.keys())
    for i, case in enumerate(REFUSED[name])
]


@pytest.mark.parametrize(("runner", "name", "value", "error", "message"), CASES)
def test_nothing_has_happened_to_the_run_before(
    runner: Callable[..., Any], name: str, value: Any, error: type[Exception], message: str, tmp_path: Path
) -> None:
    (tmp_path / "5_finish").mkdir()
    for path in ("run.json", "scores.txt", "metrics.csv", "5_finish/manifest.json"):
        (tmp_path / path).write_text("earlier")
    arguments = {each: make() for each, make in RUNNERS[runner].items() if each != name}
    before = contents(tmp_path)
    with pytest.raises(error, match=message):
        runner(**arguments, **{"outdir": tmp_path, name: value})
    assert contents(tmp_path) == before


def test_every_runner_is_among_them() -> None:
    assert len(CASES) > 100


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Evaluator(Recorder(), Dies(), None, 1.5, 2, "never"), r"^n_episodes is 1.5 \(float\)"),
        (lambda: Evaluator(Recorder(), Dies(), 0, None, 2, "never"), "n_steps is 0"),
        (
            lambda: Evaluator(Recorder(), Dies(), None, 1, 5, None),
            r"outdir is None \(NoneType\), expected the",
        ),
        (
            lambda: collect_demonstrations(Recorder(), Dies(), 5, None, None),
            r"outdir is None \(NoneType\), exp",
        ),
        (
            lambda: Evaluator(Recorder(), 3, None, 1, 2, "never"),
            r"^env is 3 \(int\), expected an environment",
        ),
        (
            lambda: Evaluator(3, Dies(), None, 1, 2, "never"),
            r"^agent is 3 \(int\), expected something with eval_mode",
        ),
        (
            lambda: eval_performance(Dies(), Recorder(), 1, 1),
            "^n_steps is 1 and n_episodes is 1, expected exactly one",
        ),
        (
            lambda: collect_demonstrations(Recorder(), Dies(), 1, 1, "never"),
            "^steps is 1 and episodes is 1, expected",
        ),
        (
            lambda: collect_demonstrations(Recorder(), 3, 1, None, "never"),
            r"^env is 3 \(int\), expected an env",
        ),
    ],
)
def test_evaluators_refuse_the_same(
    call: Callable[[], Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((TypeError, ValueError), match=message):
        call()
    assert not (tmp_path / "never").exists()
