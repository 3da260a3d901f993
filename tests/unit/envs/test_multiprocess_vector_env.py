"""MultiprocessVectorEnv equals SerialVectorEnv, and its workers neither hang nor stay behind."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium
import gymnasium.spaces as spaces
import numpy as np
import pytest
from time_parts import PATIENCE, is_alive

from pfrl_like.envs import MultiprocessVectorEnv, SerialVectorEnv
from pfrl_like.envs.abc import ABC
from pfrl_like.errors import EnvError, WorkerError
from pfrl_like.processes import supervisor
from pfrl_like.random_streams.streams import Streams

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test module
pytestmark = pytest.mark.usefixtures("no_haste")

METHODS = multiprocessing.get_all_start_methods()
QUICK_METHODS = [method for method in METHODS if method != "spawn"]  # which imports everything for every worker


class Scripted:
    """Observations come from a list; some actions do harm."""

    action_space = spaces.Discrete(5)
    time = None

    def __init__(self, observations, space=None):
        self.observations, self.observation_space = observations, space
        self.t = 0

    def reset(self):
        self.t = 0
        return self.observations[0]

    def step(self, action):
        self.t += 1
        if action == 1:
            raise ValueError("the env's own reason")
        if action == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if action == 3:
            self.time.hang()
        if action == 4:
            return 1, 2, 3
        return self.observations[self.t], 0.5, False, {"pid": os.getpid()}


@pytest.mark.representatives(1)
@pytest.mark.parametrize(
    "method", [pytest.param(method, marks=[] if method in QUICK_METHODS else pytest.mark.slow) for method in METHODS]
)
def test_equals_the_serial_one_under_every_start_method(method):
    factories = [lambda: gymnasium.make("CartPole-v1")] * 2
    serial, parallel = SerialVectorEnv([f() for f in factories]), MultiprocessVectorEnv(factories, method)
    for env in (serial, parallel):
        env.seed([3, 4])
    a, b = serial.reset(), parallel.reset()
    assert np.array_equal(a[0], b[0]) and a[1] == b[1]
    for _ in range(3):
        for x, y in zip(serial.step([0, 1]), parallel.step(np.array([0, 1])), strict=True):
            assert np.array_equal(x, y)
    a, b = serial.reset([True, False]), parallel.reset([True, False])
    assert np.array_equal(a[0], b[0]) and np.array_equal(serial.last_obs, parallel.last_obs)
    parallel.close()


BOX = spaces.Box(0, 255, (2, 3), np.uint8)
IMAGES = [np.full((2, 3), t, np.uint8) for t in range(3)]
OBSERVATIONS = {
    "array": (BOX, IMAGES),
    "array of another dtype than the space says": (BOX, [image.astype(np.int64) for image in IMAGES]),
    "array of another shape than the space says": (BOX, [np.zeros(t, np.uint8) for t in range(3)]),
    "dict": (spaces.Dict(a=BOX, b=spaces.Discrete(3)), [{"a": image, "b": t} for t, image in enumerate(IMAGES)]),
    "ordered dict": (spaces.Dict(a=BOX), [OrderedDict(a=image) for image in IMAGES]),
    "dict with a key that the space has not": (spaces.Dict(a=BOX), [{"a": image, "c": 1} for image in IMAGES]),
    "tuple": (spaces.Tuple([spaces.Dict(x=BOX), BOX]), [({"x": image + 1}, image) for image in IMAGES]),
    "integer": (spaces.Discrete(3), [0, 1, 2]),
    "text": (spaces.Text(3), ["a", "b", "c"]),
    "array, space unknown": (None, IMAGES),
    "lists": (BOX, [image.tolist() for image in IMAGES]),
}


@pytest.fixture
def make():
    """Makes environments that have been reset, and that are closed in the end."""
    made = []

    def make(observations=IMAGES, space=BOX, n=2, kind=Scripted, **options):
        options.setdefault("start_method", "fork")
        made.append(MultiprocessVectorEnv([lambda: kind(observations, space)] * n, **options))
        made[-1].reset()
        return made[-1]

    yield make
    for env in made:
        env.close()


@pytest.mark.representatives(6)
@pytest.mark.parametrize("shared_memory", [True, False])
@pytest.mark.parametrize("name", OBSERVATIONS)
def test_every_observation_arrives_as_it_was(make, name, shared_memory):
    space, observations = OBSERVATIONS[name]
    env = make(observations, space, shared_memory=shared_memory)
    came = [env.reset(), env.step([0, 0])[0], env.step([0, 0])[0]]
    for obs, expected in zip(came, observations, strict=True):
        assert [repr(one) for one in obs] == [repr(expected)] * 2  # in structure, type and dtype, too


def test_observations_are_not_overwritten_by_later_ones(make):
    env = make()
    first = env.reset()
    env.step([0, 0])
    assert first[0].max() == 0
    first[1][:] = 9
    assert env.reset([True, True])[1].max() == 1


def test_no_name_of_shared_memory_stays_while_the_envs_run(make):
    own = f"pl_{os.getpid()}_*"
    before = set(Path("/dev/shm").glob(own))
    make()
    assert not set(Path("/dev/shm").glob(own)) - before


def test_without_shared_memory_on_the_machine_the_pipe_serves(make, monkeypatch):
    def refuse(layout):
        raise OSError("No space left on device")

    monkeypatch.setattr("pfrl_like.envs.env_workers.SharedArrays", refuse)
    with pytest.warns(UserWarning, match="No space left"):
        env = make()
    assert env.reset()[0].max() == 0


@pytest.mark.parametrize("method", QUICK_METHODS)
def test_env_that_raises_ends_the_step_with_its_traceback(make, method):
    env = make(start_method=method)
    pids = [info["pid"] for info in env.step([0, 0])[3]]
    with pytest.raises(WorkerError, match="worker 1 raised ValueError: the env's own reason") as caught:
        env.step([0, 1])
    assert caught.value.index == 1
    assert "in step" in caught.value.traceback_text and "Traceback" in str(caught.value)
    assert not any(is_alive(pid) for pid in pids)
    for call in (env.reset, env.saved_state):  # it is closed, and says why
        with pytest.raises(WorkerError, match="the env's own reason"):
            call()


@pytest.mark.parametrize("method", QUICK_METHODS)
def test_killed_worker_ends_the_step_at_once(make, method, monkeypatch):
    monkeypatch.setattr(supervisor, "_CHECK_INTERVAL", 10 * PATIENCE)  # nobody looks at it without being told
    env = make(start_method=method)
    pids = [info["pid"] for info in env.step([0, 0])[3]]
    with pytest.raises(WorkerError, match=r"worker 0 was killed by signal 9 \(SIGKILL\)") as caught:
        env.step([2, 0])
    (note,) = caught.value.__notes__
    assert note == 'MultiprocessVectorEnv(..., on_worker_failure="restart") replaces workers that fail'
    assert not any(is_alive(pid) for pid in pids)


@pytest.fixture
def hanging_takes_time(own_time, monkeypatch):
    """Time passes while an environment hangs, and else stands still: no other worker is too late."""
    monkeypatch.setattr(Scripted, "time", own_time)


@pytest.mark.usefixtures("hanging_takes_time")
def test_step_that_takes_too_long_is_ended(make):
    env = make(step_timeout=1.0)
    told = "worker 0 has not answered in time: the command was 'step', and step_timeout is 1 s"
    with pytest.raises(WorkerError, match=told) as caught:
        env.step([3, 0])
    assert "in hang" in caught.value.traceback_text


def test_env_that_is_not_made_in_time_is_an_error_of_the_constructor(own_time):
    told = "worker 0 has not answered in time: step_timeout is 1 s, which also limits the start of a worker"
    with pytest.raises(WorkerError, match=told) as caught:
        MultiprocessVectorEnv([own_time.hang, ABC], "fork", step_timeout=1.0)
    assert "in hang" in caught.value.traceback_text
    assert not multiprocessing.active_children()


HARM = {"raises": 1, "is killed": 2, "hangs": 3}


@pytest.mark.representatives(2)
@pytest.mark.parametrize("shared_memory", [True, False])
@pytest.mark.parametrize("harm", HARM)
@pytest.mark.usefixtures("hanging_takes_time")
def test_worker_that_fails_is_replaced_and_its_episode_cut_off(make, harm, shared_memory, caplog):
    env = make(step_timeout=1.0, on_worker_failure="restart", shared_memory=shared_memory)
    env.step([0, 0])
    obs, rewards, dones, infos = env.step([HARM[harm], 0])
    assert [int(one.max()) for one in obs] == [1, 2]  # its last one again
    assert (rewards, dones) == ((0.0, 0.5), (False, False))
    assert infos[0]["needs_reset"]
    assert infos[0]["worker_restarted"] in caplog.text
    assert [int(one.max()) for one in env.reset([False, True])] == [0, 2]
    env.reset()
    obs, rewards, dones, infos = env.step([0, 0])
    assert [int(one.max()) for one in obs] == [1, 1]
    assert not any("worker_restarted" in info for info in infos)
    env.close()
    assert not multiprocessing.active_children()


def test_after_so_many_failures_they_are_raised(make):
    env = make(on_worker_failure="restart", max_restarts=2)
    for _ in range(2):
        assert "worker_restarted" in env.step([1, 0])[3][0]
        env.reset()
    with pytest.raises(WorkerError, match="worker 0 raised ValueError: the env's own reason") as caught:
        env.step([1, 0])
    assert "2 workers have been replaced" in caught.value.__notes__[0]
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("shared_memory", [True, False])
def test_failures_that_are_seen_while_another_worker_is_replaced_are_counted_once(make, shared_memory, monkeypatch):
    monkeypatch.setattr(supervisor, "_CHECK_INTERVAL", 0.0)  # as if each took long to begin
    env = make(n=3, on_worker_failure="restart", max_restarts=3, shared_memory=shared_memory)
    for process in env._workers.processes:
        process.kill()
        process.join()
    assert ["worker_restarted" in info for info in env.step([0, 0, 0])[3]] == [True] * 3
    assert env._workers.n_restarted == 3
    env.reset()
    assert [int(one.max()) for one in env.step([0, 0, 0])[0]] == [1, 1, 1]


def test_worker_that_fails_in_a_reset_is_replaced_in_it(make, tmp_path):
    class Env(Scripted):
        def reset(self):
            if not (tmp_path / "once").exists():
                (tmp_path / "once").touch()
                raise ValueError("once")
            return super().reset()

    env = make(kind=Env, n=1, on_worker_failure="restart", max_restarts=1)
    assert env.reset()[0].max() == 0
    assert env.step([0])[3][0].keys() == {"pid"}


class Fatal(gymnasium.Wrapper):
    """Ends its process in the third step of the first life of env 0."""

    def __init__(self, folder, index):
        super().__init__(gymnasium.make("CartPole-v1"))
        self.mark, self.index, self.steps = folder / "died", index, 0

    def step(self, action):
        self.steps += 1
        if self.index == 0 and self.steps == 3 and not self.mark.exists():
            self.mark.touch()
            os._exit(1)
        return self.env.step(action)


@pytest.mark.parametrize("method", QUICK_METHODS)
def test_what_a_new_worker_does_follows_the_seed(tmp_path, method):
    runs = []
    state = np.random.get_state()
    for _ in range(2):
        np.random.seed(1)
        (tmp_path / "died").unlink(missing_ok=True)
        factories = [lambda i=i: Fatal(tmp_path, i) for i in range(2)]
        env = MultiprocessVectorEnv(factories, method, on_worker_failure="restart")
        env.seed([3, 4])
        came = [env.reset()[0]]
        for _ in range(5):
            obs, _, terminated, truncated, infos = env.step([0, 1])
            ended = np.logical_or(terminated, truncated)
            came.append(obs if not ended.any() else env.reset(~ended)[0])
        runs.append(np.array(came))
        assert env._workers.n_restarted == 1
        env.close()
    np.random.set_state(state)
    assert np.array_equal(*runs)
    assert (tmp_path / "died").exists()


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"on_worker_failure": "ignore"}, ValueError, "on_worker_failure is 'ignore'"),
        ({"max_restarts": -1}, ValueError, "max_restarts is -1"),
        ({"step_timeout": 0}, ValueError, "step_timeout is 0, expected a positive number of seconds, or None"),
        ({"step_timeout": "1"}, TypeError, "step_timeout is '1'"),
    ],
)
def test_wrong_options_are_refused(make, options, error, text):
    with pytest.raises(error, match=text):
        make(**options)


def test_wrong_step_result_is_named(make):
    env = make()
    with pytest.raises(EnvError, match=r"returned \[3\] values"):
        env.step([4, 4])


def test_env_that_cannot_be_made_is_an_error_of_the_constructor():
    before = multiprocessing.active_children()
    with pytest.raises(WorkerError, match="worker 1 raised ZeroDivisionError"):
        MultiprocessVectorEnv([ABC, lambda: 1 / 0], "fork")
    assert multiprocessing.active_children() == before


def test_function_that_cannot_be_sent_is_named():
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r'env_fns\[1\].*start_method="fork"'):
        MultiprocessVectorEnv([ABC, lambda: lock])


def test_info_that_cannot_be_sent_is_an_error_of_its_worker(make):
    class Env(Scripted):
        def step(self, action):
            return self.observations[0], 0.0, False, {"function": lambda: 0}

    env = make(kind=Env, n=1)
    with pytest.raises(WorkerError, match="worker 0 raised .*pickle"):
        env.step([0])


def test_close_runs_the_envs_own_close_and_may_be_called_twice(make, tmp_path):
    class Env(Scripted):
        def close(self):
            (tmp_path / "closed").touch()

    before = multiprocessing.active_children()
    env = make(kind=Env, n=1)
    assert not env.closed
    env.close()
    env.close()
    assert env.closed
    with pytest.raises(EnvError, match="has been closed"):
        env.reset()
    assert (tmp_path / "closed").exists()
    assert multiprocessing.active_children() == before


SCRIPT = """
import os
from pfrl_like.envs import MultiprocessVectorEnv
from pfrl_like.envs.abc import ABC
if __name__ == "__main__":
    env = MultiprocessVectorEnv([ABC, ABC], "fork")
    env.reset()
    print(os.getpid(), *(process.pid for process in env._workers.processes))
    raise SystemExit(0)
"""


def test_script_ends_quietly_and_leaves_nothing_behind():
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=2 * PATIENCE)
    assert (run.returncode, run.stderr) == (0, "")
    own, *workers = run.stdout.split()
    assert not any(is_alive(int(pid)) for pid in workers)
    assert not [*Path("/dev/shm").glob(f"pl_{own}_*")]


@pytest.mark.parametrize("method", [method for method in METHODS if method != "fork"])
def test_a_worker_that_imports_a_script_without_main_guard_starts_no_workers(method, monkeypatch):
    monkeypatch.setattr(multiprocessing.current_process(), "_inheriting", True, raising=False)
    with pytest.raises(RuntimeError, match='a worker is importing it; .* under `if __name__ == "__main__":`'):
        MultiprocessVectorEnv([lambda: Scripted([])] * 2, method)
    assert multiprocessing.active_children() == []


def test_a_seed_that_no_environment_takes_is_refused(make):
    env = make()
    with pytest.raises(WorkerError, match="seed is 1, but"):
        env.seed(1)


class Drawing(Scripted):
    def reset(self):
        return np.random.rand(), random.random()


@pytest.mark.parametrize("method", QUICK_METHODS)
def test_global_streams_of_workers_differ_and_follow_the_parents_seed(method):
    state = np.random.get_state()
    draws = []
    for seed in (1, 1, 2):
        np.random.seed(seed)
        before = np.random.get_state()[1].tolist()
        env = MultiprocessVectorEnv([lambda: Drawing([])] * 2, method)
        assert np.random.get_state()[1].tolist() == before  # and cost the parent no draw
        draws.append(env.reset())
        env.close()
    np.random.set_state(state)
    assert draws[0] == draws[1]
    assert len({*draws[0], *draws[2]}) == 4


def test_what_makes_environments_draws_in_their_processes_alone():
    dice = random.SystemRandom()  # whose state nobody knows

    def make():
        assert 0 <= dice.random() < 1
        return ABC()

    env = MultiprocessVectorEnv([make] * 2, QUICK_METHODS[0])
    try:
        assert Streams.of(env).unknown == []
        assert Streams.of(make).unknown != []
    finally:
        env.close()


# Environments whose processes are stopped: a step is over in time, however much there is to send


class Wide(gymnasium.Env[Any, Any]):
    """Its actions and observations are larger than a pipe takes at once."""

    observation_space = action_space = gymnasium.spaces.Box(-1, 1, (10**6,), np.float64)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros(10**6), {}

    def step(self, action: Any) -> Any:
        return action, 1.0, False, False, {}


ACTIONS = [np.full(10**6, i / 10) for i in range(2)]


def stopped(**options: Any) -> MultiprocessVectorEnv:
    """Two environments, the first of which is stopped."""
    env = MultiprocessVectorEnv([Wide] * 2, "fork", shared_memory=False, **options)
    env.reset()
    obs, *_ = env.step(ACTIONS)
    assert all(np.array_equal(one, action) for one, action in zip(obs, ACTIONS, strict=True))
    os.kill(env._workers.processes[0].pid or 0, signal.SIGSTOP)
    env._workers.timeout = 1.0
    return env


@pytest.mark.slow
@pytest.mark.usefixtures("few_words")
def test_worker_that_takes_no_action_in_time_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    env = stopped(on_worker_failure="restart")
    restart = env._workers.restart

    def restart_patiently(index: int, arguments: Any) -> None:
        env._workers.timeout = PATIENCE  # from now on all have the time that they need
        restart(index, arguments)

    monkeypatch.setattr(env._workers, "restart", restart_patiently)
    _, rewards, _, truncated, infos = env.step(ACTIONS)
    assert rewards == (0.0, 1.0) and truncated == (True, False)
    told = "has not answered in time: the command was 'step', and step_timeout is 1 s"
    assert infos[0]["worker_restarted"] == told
    env.close()


def test_gym_env_runs_in_a_worker():
    pytest.importorskip("gym")

    def make_gym():
        import warnings

        import gym

        warnings.simplefilter("ignore")
        return gym.make("CartPole-v1")

    env = MultiprocessVectorEnv([make_gym], QUICK_METHODS[-1])
    env.seed([0])
    env.reset()
    assert len(env.step([0])) == 5
    env.close()
