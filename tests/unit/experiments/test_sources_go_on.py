"""Runs go on in fresh objects, or a fresh process, with what an uninterrupted run meets."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import gymnasium
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from tape_parts import ENVS, Images, Listener, Noisy, Unsteady, seeded

from pfrl_like.envs import MultiprocessVectorEnv, SerialVectorEnv
from pfrl_like.experiments.sources import SerialSource, VectorSource
from pfrl_like.random_streams.streams import Streams
from pfrl_like.runs.loop import Clock
from pfrl_like.utils import set_random_seed
from pfrl_like.wrappers import VectorFrameStack


def serial(make_env: Any, limit: int | None = None) -> SerialSource:
    set_random_seed(0)
    env = make_env()
    return SerialSource(Listener(env.action_space), env, limit)


def vector(make_vector_env: Any, limit: int | None = None) -> VectorSource:
    set_random_seed(0)
    env = make_vector_env()
    space = getattr(env, "single_action_space", env.action_space)
    space.seed(3)
    return VectorSource(Listener(space), env, limit)


def ticked(source: Any, count: int) -> list[Any]:
    """What the agent hears in so many more steps, and which episodes end."""
    clock, source.agent.heard = Clock(None), []
    return [[*source.tick(clock)] for _ in range(count)] + source.agent.heard


def saved(source: Any) -> str:
    streams = Streams.of(source.agent.action_space).to_plain()
    return json.dumps({"source": source.saved_state(), "streams": streams}, allow_nan=False)


def gone_on(source: Any, text: str, count: int) -> Any:
    """Why it does not go on exactly, and what the agent hears."""
    state = json.loads(text)
    reasons = source.restore_state(state["source"])
    Streams.of(source.agent.action_space).restore(state["streams"])
    return list(reasons), ticked(source, count)


def begun(source: Any, count: int) -> Any:
    """A source that is recorded, after so many steps."""
    source.record()
    ticked(source, count)
    return source


def check_goes_on(make: Callable[[], Any], first: int, count: int) -> None:
    """What is saved after so many steps goes on elsewhere as it does here."""
    whole = begun(make(), first)
    text = saved(whole)
    expected = ticked(whole, count)
    assert gone_on(make(), text, count) == ([], expected)


@pytest.mark.parametrize("first", [5, 31, 200])
@pytest.mark.parametrize("name", ENVS)
def test_a_serial_run_goes_on(name: str, first: int) -> None:
    check_goes_on(lambda: serial(ENVS[name], 11), first, 40)


def test_a_run_goes_on_more_than_once_and_in_the_same_objects() -> None:
    whole = begun(serial(ENVS["global streams"]), 7)
    text = saved(whole)
    expected = [ticked(whole, 7) for _ in range(4)]
    source = serial(ENVS["global streams"])
    for heard in expected:
        assert gone_on(source, text, 7) == ([], heard)
        text = saved(source)


def _stacked() -> Any:
    return VectorFrameStack(SerialVectorEnv([Images(seeded(Noisy(seed=i), i)) for i in range(3)]), 2)


def _sync(mode: AutoresetMode, shared: bool = False) -> Any:
    env = SyncVectorEnv([partial(Noisy, shared, i) for i in range(3)], autoreset_mode=mode)
    env.reset(seed=5)
    return env


VECTORS = {
    "serial": lambda: SerialVectorEnv([seeded(Noisy(seed=i), i) for i in range(3)]),
    "serial, global streams": lambda: SerialVectorEnv([seeded(Noisy(True, i), i) for i in range(3)]),
    "stacked": _stacked,
    **{str(mode): partial(_sync, mode) for mode in AutoresetMode},
    "sync, global streams": partial(_sync, AutoresetMode.NEXT_STEP, True),
    "sync, stacked": lambda: VectorFrameStack(SyncVectorEnv([lambda: Images(seeded(Noisy(), 7)) for _ in range(2)]), 2),
}


@pytest.mark.parametrize("first", [6, 25])
@pytest.mark.parametrize("name", VECTORS)
def test_a_vector_run_goes_on(name: str, first: int) -> None:
    check_goes_on(lambda: vector(VECTORS[name], 9), first, 25)


@pytest.mark.parametrize("shared", [False, True])
def test_a_run_in_several_processes_goes_on(shared: bool) -> None:
    with ExitStack() as stack:

        def make() -> Any:
            source = vector(lambda: MultiprocessVectorEnv([partial(Noisy, shared, i) for i in range(2)], "fork"))
            stack.callback(source.stream.close)
            return source

        check_goes_on(make, 17, 20)


def test_a_run_that_was_saved_before_it_began_begins() -> None:
    for make in (serial(Noisy), vector(VECTORS["serial"])):
        make.record()
        assert make.restore_state(json.loads(json.dumps(make.saved_state()))) == ["no episode was recorded"]
        assert ticked(make, 2)


def _unsteady() -> Any:
    return seeded(Unsteady(), 3)


@pytest.mark.parametrize("make", [lambda: serial(_unsteady), lambda: vector(lambda: SerialVectorEnv([_unsteady()]))])
def test_an_environment_that_comes_elsewhere_is_told_of_and_begins_anew(make: Any) -> None:
    source, other = begun(make(), 4), make()
    [reason], heard = gone_on(other, saved(source), 3)
    assert "did not come to where it was: ValueError('other observations, rewards" in reason
    assert len(heard) == 9
    tape = getattr(other, "env", None) or other.stream.env.envs[0]
    assert tape.env.steps <= 3


def test_another_environment_is_told_of() -> None:
    source = begun(serial(ENVS["random actions"]), 4)
    [reason] = serial(ENVS["own stream"]).restore_state(source.saved_state())
    assert "the environment has 1 layers, expected 3" in reason


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="vector_entry_point"), "CartPoleVectorEnv"),
        (lambda: gymnasium.wrappers.vector.RecordEpisodeStatistics(VECTORS[str(AutoresetMode.NEXT_STEP)]()), "nothing"),
    ],
)
def test_a_vector_environment_of_which_nobody_knows_begins_anew(make: Any, reason: str) -> None:
    source, other = begun(vector(make), 4), vector(make)
    reasons, _ = gone_on(other, saved(source), 3)
    assert any(reason in each for each in reasons)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"episode": {}}, KeyError, "way"),
        ({"episode": {"way": "story"}}, KeyError, "actions"),
        ({"length": "x"}, ValueError, "'x'"),
        ({"running": None}, KeyError, "running"),
    ],
)
def test_a_damaged_state_is_refused(change: dict[str, Any], error: type[Exception], message: str) -> None:
    source = begun(serial(Noisy), 3)
    state = {**source.saved_state(), **change}
    if change == {"running": None}:
        del state["running"]
    with pytest.raises(error, match=message):
        source.restore_state(state)


def test_another_number_of_environments_is_refused() -> None:
    source = begun(vector(VECTORS["serial"]), 2)
    with pytest.raises(ValueError, match="there are 1 environments, expected 3"):
        vector(lambda: SerialVectorEnv([Noisy()])).restore_state(source.saved_state())
