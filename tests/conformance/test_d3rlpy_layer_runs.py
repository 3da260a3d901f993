"""Algorithms of `pfrl_like.d3rlpy` make the ten updates of d3rlpy 2.8.1 (see `test_d3rlpy_runs.py`)."""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from conformance import test_d3rlpy_runs
from conformance.test_d3rlpy_runs import answer_of, assert_same_run
from peer_libraries import TESTS
from peers import d3rlpy_runs, problem

from pfrl_like import d3rlpy

FILES = [TESTS / f"data/peers/{name}.npz" for name in ("d3rlpy_runs", "d3rlpy_offline_runs", "d3rlpy_layer_runs")]
#: A gradient that d3rlpy computes and does not use, because no optimiser has the parameter or makes a step.
UNUSED = {
    "SAC, fixed temperature": ["log_temp"], "CQL, fixed multipliers": ["log_temp", "log_alpha"], "BEAR": ["log_alpha"],
}  # fmt: skip
float64 = test_d3rlpy_runs._float64  # a fixture that each test uses


def draws_of(case: str, theirs: Mapping[str, Any], update: int) -> list[Any]:
    """The numbers that an update of d3rlpy drew, in our order and form."""
    drawn = [theirs[f"drawn/{update}/{i}"] for i in range(sum(f"drawn/{update}/" in name for name in theirs))]
    if case == "DQN, drawn quantiles":  # fractions of the target before those of the loss
        return [drawn[0], drawn[2], drawn[1]]
    return [_in_our_order(case, each) for each in drawn]


def _in_our_order(case: str, drawn: Any) -> Any:
    by_row = drawn.ndim == 2 and len(drawn) > problem.ROWS
    if case.startswith(("CQL", "CalQL")) and by_row:  # uniform actions of each row together, in [-1, 1]
        return (drawn.reshape(problem.ROWS, -1, drawn.shape[1]).swapaxes(0, 1) + 1) / 2
    if case == "BEAR" and by_row:  # latent vectors of each sample together
        return drawn.reshape(-1, problem.ROWS, drawn.shape[1]).swapaxes(0, 1).reshape(drawn.shape)
    return drawn


def answers_for(case: str, optimizer: str) -> dict[str, Any]:
    found = [answer for path in FILES if (answer := answer_of(path, case, optimizer, 0))]
    assert found, "no file has an answer of d3rlpy"
    return dict(found[0])


@pytest.mark.parametrize("optimizer", [pytest.param("SGD", marks=pytest.mark.slow), "Adam"])
@pytest.mark.parametrize("case", d3rlpy_runs.CASES)
def test_ten_updates_are_those_of_d3rlpy(case: str, optimizer: str) -> None:
    theirs = answers_for(case, optimizer)
    algorithm, options = d3rlpy_runs.CASES[case]
    config = getattr(d3rlpy.algos, f"{algorithm}Config")
    algo = d3rlpy_runs.build(d3rlpy_runs.make(d3rlpy, config, options(d3rlpy), optimizer))
    ours = d3rlpy_runs.run(algo, d3rlpy, 0, functools.partial(draws_of, case, theirs))
    for name in UNUSED.get(case, []):
        ours.pop(f"gradients/{name}", None), theirs.pop(f"gradients/{name}")
    assert_same_run(ours, theirs)


def test_a_later_step_has_the_phase_of_d3rlpys() -> None:
    algo = d3rlpy_runs.build(d3rlpy.algos.TD3Config().create())
    algo.set_grad_step(1)
    batch = d3rlpy_runs.batch_of(d3rlpy, problem.minibatch(False))
    assert [sorted(algo.update(batch)) for _ in range(2)] == [["critic_loss"], ["actor_loss", "critic_loss"]]
    assert np.isfinite(algo.predict_value(np.zeros((2, problem.OBS_SIZE)), np.zeros((2, problem.ACTION_SIZE)))).all()
