"""Evaluators go on in fresh objects: later scores are those of an evaluator that was not stopped."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from tape_parts import Images, Noisy, Secretive, Sim, seeded
from time_parts import PATIENCE

from pfrl_like.envs import MultiprocessVectorEnv, SerialVectorEnv
from pfrl_like.errors import EnvError
from pfrl_like.experiments.evaluator import Evaluator
from pfrl_like.testing import Chain
from pfrl_like.wrappers import ContinuingTimeLimit, RandomizeAction, VectorFrameStack

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
ENVS: dict[str, Callable[[], Any]] = {
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
    "secretive, in turn": lambda: in_turn([Secretive] * 2),
    "secretive, in processes": lambda: MultiprocessVectorEnv([Secretive] * 2, "fork"),
    "refusing, in turn": lambda: in_turn([Refusing] * 2),
    "refusing, in processes": lambda: MultiprocessVectorEnv([Refusing] * 2, "fork"),
    "replaced": lambda: MultiprocessVectorEnv([Noisy] * 2, "fork", on_worker_failure="restart"),
}


def still(num_envs: int) -> Any:
    """An agent that always does the same."""
    agent = mock.MagicMock()
    agent.act.return_value, agent.batch_act.return_value = 1, np.ones(num_envs, np.int64)
    return agent


@pytest.fixture
def evaluator(tmp_path: Path) -> Iterator[Callable[..., Evaluator]]:
    """Makes evaluators, the environments of which are closed in the end."""
    made: list[Any] = []

    def evaluator(name: str, t: int = 0) -> Evaluator:
        np.random.seed(t)  # another number for the evaluator's streams
        env, outdir = ENVS[name](), tmp_path / str(len(made))
        made.append(env)
        return Evaluator(
            still(getattr(env, "num_envs", 1)), env, None, 4, 10, outdir, step_offset=t, save_best_so_far_agent=False
        )

    yield evaluator
    for env in made:
        getattr(env, "close", lambda: None)()


@pytest.mark.parametrize("name", [*ENVS][:-8])
def test_later_scores_are_the_same(name: str, evaluator: Any) -> None:
    whole = evaluator(name)
    whole.evaluate_and_update_max_score(10, 1)
    text = json.dumps(whole.saved_state(), allow_nan=False)
    other = evaluator(name, 10)
    assert not other.restore_state(json.loads(text))
    expected, came = ([each.evaluate_and_update_max_score(t, 2) for t in range(20, 100, 10)] for each in (whole, other))
    assert expected == came and len({*came}) > 1
    assert other.max_score == whole.max_score


@pytest.mark.parametrize(
    ("name", "another", "reason"),
    [
        ("serial", "stacked, serial", ""),
        ("in processes", "stacked, in processes", ""),
        ("forgetful", "forgetful", "get_state() gives another state"),
        (
            "gymnasium, in processes",
            "gymnasium, in processes",
            "nobody knows the states of the environments in a",
        ),
        ("in processes", "others in processes", "random streams do not fit"),
    ],
)
def test_environments_that_do_not_come_to_where_they_were_are_told_of(
    name: str, another: str, reason: str, evaluator: Any
) -> None:
    whole, other = evaluator(name), evaluator(another)
    whole.evaluate_and_update_max_score(10, 1)
    [told] = other.restore_state(json.loads(json.dumps(whole.saved_state())))
    assert told.startswith("the environment of evaluation: ") and reason in told
    assert other.evaluate_and_update_max_score(20, 2)


@pytest.mark.parametrize("name", ["secretive, in turn", "secretive, in processes"])
def test_environments_that_do_not_tell_their_state_can_still_be_used(name: str, evaluator: Any) -> None:
    whole = evaluator(name)
    with pytest.raises((EnvError, NotImplementedError), match="no snapshots"):
        whole.saved_state()
    assert whole.evaluate_and_update_max_score(10, 1) > 0


@pytest.mark.parametrize("name", ["refusing, in turn", "refusing, in processes"])
def test_environments_that_raise_when_they_are_given_a_state_are_told_of(name: str, evaluator: Any) -> None:
    whole = evaluator(name)
    [reason] = whole.restore_state(whole.saved_state())
    assert reason.endswith("the environment does not take its state: NotImplementedError('nor these')")
    assert whole.evaluate_and_update_max_score(10, 1) > 0


def test_environments_whose_workers_have_died_meanwhile_are_replaced(evaluator: Any) -> None:
    whole = evaluator("replaced")
    process = whole.env._workers.processes[1]
    process.kill()
    process.join(PATIENCE)
    with pytest.raises(EnvError, match="nobody knows the state of environment 1: its worker has been replaced"):
        whole.saved_state()
    assert whole.evaluate_and_update_max_score(10, 1)
    assert whole.saved_state()
