"""Runs go on in fresh objects, or a fresh process, with what an uninterrupted run meets."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from unittest import mock

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from tape_parts import ENVS, Images, Listener, Noisy, Secretive, Sim, Unsteady, seeded

from pfrl_like.envs import MultiprocessVectorEnv, SerialVectorEnv
from pfrl_like.errors import EnvError
from pfrl_like.experiments.evaluator import Evaluator
from pfrl_like.experiments.sources import SerialSource, VectorSource
from pfrl_like.random_streams.streams import Streams
from pfrl_like.runs.loop import Clock
from pfrl_like.testing import Chain
from pfrl_like.utils import set_random_seed
from pfrl_like.wrappers import ContinuingTimeLimit, RandomizeAction, VectorFrameStack


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


@pytest.mark.representatives(8)
@pytest.mark.parametrize("first", [5, 31, 200])
@pytest.mark.parametrize("name", ENVS)
def test_a_serial_run_goes_on(name, first):
    check_goes_on(lambda: serial(ENVS[name], 11), first, 40)


def test_a_run_goes_on_more_than_once_and_in_the_same_objects():
    whole = begun(serial(ENVS["global streams"]), 7)
    text = saved(whole)
    expected = [ticked(whole, 7) for _ in range(4)]
    source = serial(ENVS["global streams"])
    for heard in expected:
        assert gone_on(source, text, 7) == ([], heard)
        text = saved(source)


def _sync(mode: AutoresetMode, shared: bool = False) -> Any:
    env = SyncVectorEnv([partial(Noisy, shared, i) for i in range(3)], autoreset_mode=mode)
    env.reset(seed=5)
    return env


VECTORS = {
    "serial": lambda: SerialVectorEnv([seeded(Noisy(seed=i), i) for i in range(3)]),
    "serial, global streams": lambda: SerialVectorEnv([seeded(Noisy(True, i), i) for i in range(3)]),
    "stacked": lambda: VectorFrameStack(SerialVectorEnv([Images(seeded(Noisy(seed=i), i)) for i in range(3)]), 2),
    **{str(mode): partial(_sync, mode) for mode in AutoresetMode},
    "sync, global streams": partial(_sync, AutoresetMode.NEXT_STEP, True),
    "sync, stacked": lambda: VectorFrameStack(SyncVectorEnv([lambda: Images(seeded(Noisy(), 7)) for _ in range(2)]), 2),
}


@pytest.mark.representatives(4)
@pytest.mark.parametrize("first", [6, 25])
@pytest.mark.parametrize("name", VECTORS)
def test_a_vector_run_goes_on(name, first):
    check_goes_on(lambda: vector(VECTORS[name], 9), first, 25)


def test_a_run_that_was_saved_before_it_began_begins():
    for make in (serial(Noisy), vector(VECTORS["serial"])):
        make.record()
        assert make.restore_state(json.loads(json.dumps(make.saved_state()))) == ["no episode was recorded"]
        assert ticked(make, 2)


def _unsteady() -> Any:
    return seeded(Unsteady(), 3)


@pytest.mark.parametrize("make", [lambda: serial(_unsteady), lambda: vector(lambda: SerialVectorEnv([_unsteady()]))])
def test_an_environment_that_comes_elsewhere_is_told_of_and_begins_anew(make):
    source, other = begun(make(), 4), make()
    [reason], heard = gone_on(other, saved(source), 3)
    assert "did not reach its saved state: ValueError('the same actions led to different observations" in reason
    assert len(heard) == 9
    tape = getattr(other, "env", None) or other.stream.env.envs[0]
    assert tape.env.steps <= 3


def test_another_environment_is_told_of():
    source = begun(serial(ENVS["random actions"]), 4)
    [reason] = serial(ENVS["own stream"]).restore_state(source.saved_state())
    assert "the environment has 0 wrappers, expected 2" in reason


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="vector_entry_point"), "CartPoleVectorEnv"),
        (lambda: gymnasium.wrappers.vector.RecordEpisodeStatistics(_sync(AutoresetMode.NEXT_STEP)), "no saved_state"),
    ],
)
def test_a_vector_environment_of_which_nobody_knows_begins_anew(make, reason):
    source, other = begun(vector(make), 4), vector(make)
    reasons, _ = gone_on(other, saved(source), 3)
    assert any(reason in each for each in reasons)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.update(episode={}), "way"),
        (lambda state: state.update(episode={"way": "story"}), "actions"),
        (lambda state: state.update(length="x"), "'x'"),
        (lambda state: state.pop("running"), "running"),
    ],
)
def test_a_damaged_state_is_refused(change, message):
    source = begun(serial(Noisy), 3)
    state = source.saved_state()
    change(state)
    with pytest.raises((KeyError, ValueError), match=message):
        source.restore_state(state)


def test_another_number_of_environments_is_refused():
    source = begun(vector(VECTORS["serial"]), 2)
    with pytest.raises(ValueError, match="env has 1 environments, but the saved state has 3"):
        vector(lambda: SerialVectorEnv([Noisy()])).restore_state(source.saved_state())


# Evaluators go on in fresh objects: later scores are those of an evaluator that was not stopped


MAKERS = [partial(Noisy, i % 2 == 1, i) for i in range(3)]
OTHERS = [partial(Chain, time_limit=5)] * 3


def in_turn(makers: Sequence[Callable[[], Any]]) -> Any:
    return SerialVectorEnv([make() for make in makers])


def image(seed: int) -> Any:
    return Images(Noisy(seed=seed))


class Forgetful(Sim):
    """Does not take the state that it gives."""

    def set_state(self, state: Any) -> None:
        """Forgets it."""


class Refusing(Secretive):
    """Does not take a state at all."""

    def get_state(self) -> Any:
        return 0


#: In what agents may be evaluated.
EVALUATED: dict[str, Callable[[], Any]] = {
    "one": lambda: RandomizeAction(ContinuingTimeLimit(seeded(Noisy()), 5), 0.5),
    "serial": lambda: in_turn(MAKERS),
    "in processes": lambda: MultiprocessVectorEnv(MAKERS, "fork"),
    "gymnasium": lambda: SyncVectorEnv(MAKERS),
    "stacked, serial": lambda: VectorFrameStack(in_turn([partial(image, i) for i in range(2)]), 2),
    "stacked, in processes": lambda: VectorFrameStack(
        MultiprocessVectorEnv([partial(image, i) for i in range(2)], "fork"), 2
    ),
    "others in processes": lambda: MultiprocessVectorEnv(OTHERS, "fork"),  # which score alike at times
    "gymnasium, in processes": lambda: AsyncVectorEnv(MAKERS, context="fork"),
    "forgetful": lambda: in_turn([lambda: TimeLimit(Forgetful(), 5)] * 2),
    "secretive": lambda: MultiprocessVectorEnv([Secretive] * 2, "fork"),
    "refusing": lambda: MultiprocessVectorEnv([Refusing] * 2, "fork"),
}


def still(num_envs: int) -> Any:
    """An agent that always does the same."""
    agent = mock.MagicMock()
    agent.act.return_value, agent.batch_act.return_value = 1, np.ones(num_envs, np.int64)
    return agent


@pytest.fixture
def evaluator(tmp_path):
    """Makes evaluators, the environments of which are closed in the end."""
    made: list[Any] = []

    def evaluator(name, t=0):
        np.random.seed(t)  # another number for the evaluator's streams
        env, outdir = EVALUATED[name](), tmp_path / str(len(made))
        made.append(env)
        return Evaluator(
            still(getattr(env, "num_envs", 1)), env, None, 4, 10, outdir, step_offset=t, save_best_so_far_agent=False
        )

    yield evaluator
    for env in made:
        getattr(env, "close", lambda: None)()


@pytest.mark.representatives(2)
@pytest.mark.parametrize("name", [*EVALUATED][:-5])
def test_later_scores_are_the_same(name, evaluator):
    whole = evaluator(name)
    whole.evaluate_and_update_max_score(10, 1)
    text = json.dumps(whole.saved_state(), allow_nan=False)
    other = evaluator(name, 10)
    assert not other.restore_state(json.loads(text))
    expected, came = ([each.evaluate_and_update_max_score(t, 2) for t in range(20, 100, 10)] for each in (whole, other))
    assert expected == came and len({*came}) > 1
    assert other.max_score == whole.max_score


@pytest.mark.representatives(2)
@pytest.mark.parametrize(
    ("name", "another", "reason"),
    [
        ("serial", "stacked, serial", ""),
        ("in processes", "stacked, in processes", ""),
        ("forgetful", "forgetful", "get_state() returns a different state"),
        ("gymnasium, in processes", "gymnasium, in processes", "the states of the environments in AsyncVectorEnv"),
        ("in processes", "others in processes", "random streams do not match"),
    ],
)
def test_environments_that_do_not_come_to_where_they_were_are_told_of(name, another, reason, evaluator):
    whole, other = evaluator(name), evaluator(another)
    whole.evaluate_and_update_max_score(10, 1)
    [told] = other.restore_state(json.loads(json.dumps(whole.saved_state())))
    assert told.startswith("the evaluation environment cannot be restored: ") and reason in told
    assert other.evaluate_and_update_max_score(20, 2)


def test_environments_that_do_not_tell_their_state_can_still_be_used(evaluator):
    whole = evaluator("secretive")
    with pytest.raises((EnvError, NotImplementedError), match="no snapshots"):
        whole.saved_state()
    assert whole.evaluate_and_update_max_score(10, 1) > 0


def test_environments_that_raise_when_they_are_given_a_state_are_told_of(evaluator):
    whole = evaluator("refusing")
    [reason] = whole.restore_state(whole.saved_state())
    assert reason.endswith("the environment rejected its saved state: NotImplementedError('nor these')")
    assert whole.evaluate_and_update_max_score(10, 1) > 0
