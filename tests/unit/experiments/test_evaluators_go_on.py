"""Evaluators go on in fresh objects: later scores are those of an evaluator that was not stopped."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
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
    "forgetful": lambda: in_turn([Forgetful] * 2),
    "secretive, in turn": lambda: in_turn([Secretive] * 2),
    "secretive, in processes": lambda: MultiprocessVectorEnv([Secretive] * 2, "fork"),
    "refusing, in turn": lambda: in_turn([Refusing] * 2),
    "refusing, in processes": lambda: MultiprocessVectorEnv([Refusing] * 2, "fork"),
    "replaced": lambda: MultiprocessVectorEnv([Noisy] * 2, "fork", on_worker_failure="restart"),
}


class Still:
    """Always does the same."""

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs

    def eval_mode(self) -> Any:
        return np.errstate()  # a context that changes nothing here

    def act(self, obs: Any) -> int:
        return 1

    def observe(self, *told: Any) -> None:
        """Forgets it."""

    def batch_act(self, batch_obs: Any, **told: Any) -> Any:
        return np.ones(self.num_envs, np.int64)

    def batch_observe(self, *told: Any, **more: Any) -> None:
        """Forgets it."""


def evaluator(name: str, outdir: Path, t: int = 0) -> Evaluator:
    np.random.seed(t)  # another number for the evaluator's streams
    env = ENVS[name]()
    return Evaluator(
        Still(getattr(env, "num_envs", 1)), env, None, 4, 10, outdir, step_offset=t, save_best_so_far_agent=False
    )


def close(*evaluators: Evaluator) -> None:
    for each in evaluators:
        getattr(each.env, "close", lambda: None)()


@pytest.mark.parametrize("name", [*ENVS][:-8])
def test_later_scores_are_the_same(name: str, tmp_path: Path) -> None:
    whole = evaluator(name, tmp_path / "whole")
    whole.evaluate_and_update_max_score(10, 1)
    text = json.dumps(whole.saved_state(), allow_nan=False)
    other = evaluator(name, tmp_path / "other", 10)
    try:
        assert not other.restore_state(json.loads(text))
        expected, came = (
            [each.evaluate_and_update_max_score(t, 2) for t in range(20, 100, 10)] for each in (whole, other)
        )
        assert expected == came and len({*came}) > 1
        assert other.max_score == whole.max_score
    finally:
        close(whole, other)


@pytest.mark.parametrize("name", ["serial", "in processes"])
def test_another_number_of_environments_is_told_of(name: str, tmp_path: Path) -> None:
    whole, other = evaluator(name, tmp_path / "whole"), evaluator(f"stacked, {name}", tmp_path / "other")
    try:
        [reason] = other.restore_state(whole.saved_state())
        assert reason.startswith("the environment of evaluation: ")
    finally:
        close(whole, other)


def test_an_environment_that_does_not_take_its_state_is_told_of(tmp_path: Path) -> None:
    whole, other = evaluator("forgetful", tmp_path / "whole"), evaluator("forgetful", tmp_path / "other")
    [reason] = other.restore_state(whole.saved_state())
    assert reason.startswith("the environment of evaluation: ") and "get_state() gives another state" in reason


def test_environments_that_cannot_be_reached_are_told_of(tmp_path: Path) -> None:
    name = "gymnasium, in processes"
    whole, other = evaluator(name, tmp_path / "whole"), evaluator(name, tmp_path / "other")
    try:
        whole.evaluate_and_update_max_score(10, 1)
        [reason] = other.restore_state(json.loads(json.dumps(whole.saved_state())))
        assert reason == (
            "the environment of evaluation: nobody knows the states of the environments in a AsyncVectorEnv"
        )
    finally:
        close(whole, other)


def test_other_environments_in_processes_are_told_of(tmp_path: Path) -> None:
    whole, other = evaluator("in processes", tmp_path / "whole"), evaluator("others in processes", tmp_path / "other")
    try:
        whole.evaluate_and_update_max_score(10, 1)
        [reason] = other.restore_state(whole.saved_state())
        assert "random streams do not fit" in reason
        assert other.evaluate_and_update_max_score(20, 2)
    finally:
        close(whole, other)


@pytest.mark.parametrize("name", ["secretive, in turn", "secretive, in processes"])
def test_environments_that_do_not_tell_their_state_can_still_be_used(name: str, tmp_path: Path) -> None:
    whole = evaluator(name, tmp_path)
    try:
        with pytest.raises((EnvError, NotImplementedError), match="no snapshots"):
            whole.saved_state()
        assert whole.evaluate_and_update_max_score(10, 1) > 0
    finally:
        close(whole)


@pytest.mark.parametrize("name", ["refusing, in turn", "refusing, in processes"])
def test_environments_that_raise_when_they_are_given_a_state_are_told_of(name: str, tmp_path: Path) -> None:
    whole = evaluator(name, tmp_path)
    try:
        [reason] = whole.restore_state(whole.saved_state())
        assert reason.endswith("the environment does not take its state: NotImplementedError('nor these')")
        assert whole.evaluate_and_update_max_score(10, 1) > 0
    finally:
        close(whole)


def test_environments_whose_workers_have_died_meanwhile_are_replaced(tmp_path: Path) -> None:
    whole = evaluator("replaced", tmp_path)
    try:
        process = whole.env._workers.processes[1]
        process.kill()
        process.join(PATIENCE)
        with pytest.raises(EnvError, match="nobody knows the state of environment 1: its worker has been replaced"):
            whole.saved_state()
        assert whole.evaluate_and_update_max_score(10, 1)
        assert whole.saved_state()
    finally:
        close(whole)
