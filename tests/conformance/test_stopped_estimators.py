"""Trainings of estimators that are stopped and resumed leave what they leave without a stop.

The default run has a few estimators, the slow one all of them.
"""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from estimator_parts import ALL, SEQUENTIAL, SMALL_FILTERS, make, vectors
from gymnasium import spaces
from stopped_runs import Wander, differences, digests

from pfrl_like import algos, explorers
from pfrl_like.algos.fitting import epochs
from pfrl_like.dynamics import MOPO
from pfrl_like.errors import CheckpointError
from pfrl_like.random_streams.streams import GlobalStreams
from pfrl_like.replay_buffers import EpisodicReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer
from pfrl_like.storage.manifest import LOCK_FILES
from pfrl_like.utils import set_random_seed

OPTIONS: dict[str, Any] = {
    "resume": True, "with_timestamp": False, "verbose": False, "show_progress": False, "tensorboard": False,
}  # fmt: skip


class Stopped(Exception):
    """Ends a training wherever it is."""


def stop(algo: Any, epoch: int, step: int) -> None:
    raise Stopped


def made(name: str) -> Any:
    """An estimator whose schedules change within a few epochs."""
    kind = algos.fitting.base.ESTIMATORS[name]
    schedules = {"target_update_interval": 5, "rl_start_epoch": 1, "warmup_steps": 9}
    return make(name, **{key: value for key, value in schedules.items() if key in kind.defaults()})


def rows(folder: Path) -> list[dict[str, str]]:
    """The metrics, without the seconds."""
    with (folder / "run" / "metrics.csv").open(newline="") as file:
        return [{key: value for key, value in row.items() if key != "elapsed"} for row in csv.DictReader(file)]


def left(algo: Any, folder: Path, buffer: Any = None) -> dict[str, str]:
    """Digests of all that later updates, or readers, may see."""
    agent = algo.impl
    return digests({
        "agent": agent.state_dict(), "t": [getattr(agent, each, None) for each in ("t", "optim_t", "n_updates")],
        "metrics": rows(folder),
        "scores": algo.eval_results_, "streams": GlobalStreams.now().to_plain(),
        "buffer": {} if buffer is None else buffer.state_dict(),
        "models": sorted(path.name for path in (folder / "run").glob("model_*.pt")),
    })  # fmt: skip


# Recorded data


def fit(name: str, folder: Path, seed: int = 0, algo: Any = None, **options: Any) -> dict[str, str]:
    algo = algo or made(name)
    set_random_seed(seed)
    data, scorers = vectors(algo.discrete_action), {"noise": lambda algo, episodes: np.random.random()}
    names = {"logdir": str(folder), "experiment_name": "run", "eval_episodes": data, "scorers": scorers}
    algo.fit(data, **{"n_epochs": 4, **OPTIONS, **names, **options})
    return left(algo, folder)


def within(algo: Any, epoch: int, step: int) -> None:
    if step == 17:
        stop(algo, epoch, step)


def at_the_end(algo: Any, epoch: int, step: int) -> None:
    if epoch == 2:
        stop(algo, epoch, step)


STOPS = {"within an epoch": {"callback": within}, "at its end": {"epoch_callback": at_the_end}}


@pytest.mark.representatives(2)
@pytest.mark.parametrize("stops", STOPS)
@pytest.mark.parametrize("name", ALL)
def test_a_stopped_fit_that_resumes_equals_a_whole_one(name: str, stops: str, tmp_path: Path) -> None:
    whole = fit(name, tmp_path / "whole")
    with pytest.raises(Stopped):
        fit(name, tmp_path / "stopped", **STOPS[stops])
    assert not differences(whole, fit(name, tmp_path / "stopped", seed=1))


@pytest.mark.slow
def test_a_stopped_model_of_an_environment_resumes(tmp_path: Path) -> None:
    options = {"batch_size": 16, "n_ensembles": 2}
    whole = fit("MOPO", tmp_path / "whole", algo=MOPO(**options))
    with pytest.raises(Stopped):
        fit("MOPO", tmp_path / "stopped", algo=MOPO(**options), callback=within)
    assert not differences(whole, fit("MOPO", tmp_path / "stopped", 1, MOPO(**options)))


@pytest.mark.slow
@pytest.mark.parametrize("options", [
    {"n_steps": 24, "n_steps_per_epoch": 5}, {"save_interval": 2}, {"logging_strategy": "steps", "logging_steps": 3},
])  # fmt: skip
def test_a_stopped_fit_of_other_epochs_resumes(options: dict[str, Any], tmp_path: Path) -> None:
    whole = fit("DQN", tmp_path / "whole", **options)
    with pytest.raises(Stopped):
        fit("DQN", tmp_path / "stopped", **options, callback=within)
    assert not differences(whole, fit("DQN", tmp_path / "stopped", seed=1, **options))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["COMBO", "SAC"])
def test_a_stopped_fit_with_a_model_of_the_environment_resumes(name: str, tmp_path: Path) -> None:
    set_random_seed(0)
    quiet = {"save_metrics": False, "verbose": False, "show_progress": False}
    model = MOPO(batch_size=16, n_ensembles=2, n_transitions=6, horizon=2).fit(vectors(False), n_epochs=1, **quiet)
    whole = fit(name, tmp_path / "whole", algo=made(name).set_params(dynamics=model))
    with pytest.raises(Stopped):
        fit(name, tmp_path / "stopped", algo=made(name).set_params(dynamics=model), callback=within)
    again = made(name).set_params(dynamics=model)
    assert not differences(whole, fit(name, tmp_path / "stopped", 1, again))


def test_what_callbacks_set_is_kept(tmp_path: Path) -> None:
    def fall(algo: Any, epoch: int, step: int) -> None:
        algo.set_params(learning_rate=algo.learning_rate / 2, gamma=algo.gamma / 2)

    whole = fit("DQN", tmp_path / "whole", epoch_callback=fall)
    with pytest.raises(Stopped):
        fit("DQN", tmp_path / "stopped", epoch_callback=fall, callback=within)
    algo = made("DQN")
    assert not differences(whole, fit("DQN", tmp_path / "stopped", 1, algo, epoch_callback=fall))
    assert algo.impl.gamma == 0.99 / 16


def test_a_finished_fit_learns_no_more_and_one_of_more_epochs_goes_on(tmp_path: Path) -> None:
    first = fit("DQN", tmp_path, n_epochs=2)
    assert not differences(first, fit("DQN", tmp_path, 1, n_epochs=2))
    assert not differences(fit("DQN", tmp_path / "whole"), fit("DQN", tmp_path, 1))


def test_a_fit_that_resumes_with_other_values_warns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        fit("DQN", tmp_path, n_epochs=1)
    assert not caplog.records
    fit("DQN", tmp_path, algo=made("DQN").set_params(gamma=0.5, scaler="standard"))
    (text,) = [each.getMessage() for each in caplog.records if "other values" in each.getMessage()]
    assert "gamma was 0.99, is 0.5; " in text and "scaler was None, is {'type': 'standard'" in text


def test_two_trainings_do_not_continue_the_same_run(tmp_path: Path) -> None:
    refused = []

    def another(algo: Any, epoch: int, step: int) -> None:
        with pytest.raises(CheckpointError, match="run.* is written by .*; only one may write") as error:
            fit("DQN", tmp_path)
        refused.append(error.value)

    fit("DQN", tmp_path, n_epochs=1, callback=another)
    assert refused
    assert not {*LOCK_FILES} & {path.name for path in (tmp_path / "run").iterdir()}


def test_an_error_before_training_releases_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise OSError("no disk")

    with monkeypatch.context() as patched:
        patched.setattr(epochs, "newest_checkpoint", broken)
        with pytest.raises(OSError, match="no disk") as kept:  # with the frames that hold the lock
            fit("DQN", tmp_path)
    assert fit("DQN", tmp_path, n_epochs=1) and kept.value.__traceback__ is not None


def test_what_does_not_resume_is_refused(tmp_path: Path) -> None:
    for name, value in {"with_timestamp": True, "save_metrics": False, "enable_ddp": True}.items():
        with pytest.raises(ValueError, match=f"{name} is {value}, but resume=True needs .*: pass {name}={not value}"):
            fit("DQN", tmp_path, **{name: value})
    fit("DQN", tmp_path, n_epochs=1)
    with pytest.raises(CheckpointError, match="has no checkpoint to resume from"):
        fit("DoubleDQN", tmp_path, algo=make("DQN", encoder_params={"hidden_units": [5]}))


# An environment


class Stopping(Wander):
    """Raises an error after some steps. Observations may be images of the same numbers."""

    steps_left = 10_000

    def __init__(self, action_space: Any, noise: str, images: bool) -> None:
        super().__init__(action_space, noise=noise)
        self.images = images
        if images:
            self.observation_space = spaces.Box(0, 255, (1, 16, 16), np.uint8)

    def observe(self) -> Any:
        seen = super().observe()
        return np.resize((seen * 40).clip(0, 255), (1, 16, 16)).astype(np.uint8) if self.images else seen

    def step(self, action: Any) -> Any:
        self.steps_left -= 1
        if not self.steps_left:
            raise Stopped
        return super().step(action)


def fit_online(
    name: str, folder: Path, seed: int = 0, steps: int = 10_000, hyperparameters: Any = None, images: bool = False,
    **options: Any,
) -> dict[str, str]:  # fmt: skip
    set_random_seed(seed)
    kind = algos.fitting.base.ESTIMATORS[name]
    algo, discrete = made(name).set_params(**hyperparameters or {}), kind.discrete_action
    space = spaces.Discrete(3) if discrete else spaces.Box(-1, 1, (2,), np.float32)
    env, eval_env = (Stopping(space, noise, images) for noise in ("own stream", "global streams"))
    env.reset(seed=0), env.action_space.seed(0), eval_env.reset(seed=1)
    env.steps_left, given = steps, dict[str, Any]()
    if not issubclass(kind, algos.PPO):
        by_priority, episodic = name == "DQN", name == "CalQL"
        buffer = EpisodicReplayBuffer(60) if episodic else ReplayBuffer(60)
        greedy = explorers.LinearDecayEpsilonGreedy(1.0, 0.1, 60, lambda: np.random.randint(3))
        given = {
            "buffer": PrioritizedReplayBuffer(60, num_steps=2) if by_priority else buffer, "random_steps": 5,
            "explorer": greedy if discrete else explorers.AdditiveOU(sigma=0.2), "n_updates_per_epoch": 3,
        }  # fmt: skip
    names = {"logdir": str(folder), "experiment_name": "run", "eval_env": eval_env}
    algo.fit_online(env, **{"n_epochs": 4, "n_steps_per_epoch": 31, **given, **OPTIONS, **names, **options})
    return left(algo, folder, given.get("buffer"))


ONLINE = [*(name for name in ALL if name not in SEQUENTIAL), "PPO"]


def check_online(name: str, folder: Path, stops: dict[str, Any], **options: Any) -> None:
    whole = fit_online(name, folder / "whole", **options)
    with pytest.raises(Stopped):
        fit_online(name, folder / "stopped", **stops, **options)
    assert not differences(whole, fit_online(name, folder / "stopped", seed=1, **options))


@pytest.mark.representatives(2)
@pytest.mark.parametrize("stops", [{"steps": 80}, {"callback": at_the_end}], ids=STOPS)
@pytest.mark.parametrize("name", ONLINE)
def test_a_stopped_training_in_an_environment_resumes(
    name: str, stops: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    check_online(name, tmp_path, stops)
    assert "does not resume exactly" not in caplog.text


def check_compiled(name: str, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Check a compiled training on data, and of DQN, which compiles its acting, and PPO in an environment."""
    if name != "PPO":
        whole = fit(name, folder / "whole", algo=made(name).set_params(compile=True))
        with pytest.raises(Stopped):
            fit(name, folder / "stopped", algo=made(name).set_params(compile=True), callback=within)
        assert not differences(whole, fit(name, folder / "stopped", 1, made(name).set_params(compile=True)))
    if name in ("DQN", "PPO"):
        check_online(name, folder / "online", {"steps": 80}, hyperparameters={"compile": True})
    assert "does not resume exactly" not in caplog.text


@pytest.mark.representatives(0, "DQN", "TD3")
@pytest.mark.parametrize("name", ONLINE)
def test_a_stopped_training_that_would_be_compiled_resumes(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "compile", lambda region, **_: region)
    check_compiled(name, tmp_path, caplog)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["DQN", "TD3"])
def test_a_stopped_compiled_training_resumes(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    check_compiled(name, tmp_path, caplog)


@pytest.mark.slow
@pytest.mark.parametrize("options", [
    {"n_steps": 100, "update_interval": 3, "update_start_step": 20}, {"save_interval": 2}, {"eval_interval": 2},
])  # fmt: skip
def test_a_stopped_training_of_another_schedule_resumes(options: dict[str, Any], tmp_path: Path) -> None:
    check_online("TD3", tmp_path, {"steps": 80}, **options)


@pytest.mark.slow
@pytest.mark.parametrize("options", [
    {"n_frames": 2, "encoder_params": SMALL_FILTERS}, {"action_scaler": "min_max", "reward_scaler": "multiply"},
], ids=["frames", "scalers"])  # fmt: skip
def test_a_stopped_training_with_frames_or_scalers_resumes(options: dict[str, Any], tmp_path: Path) -> None:
    check_online("SAC", tmp_path, {"steps": 80}, hyperparameters=options, images="n_frames" in options)
