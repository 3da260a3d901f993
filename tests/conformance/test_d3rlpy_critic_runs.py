"""Algorithms of `pfrl_like.d3rlpy` with several critics, quantiles and batch normalisation update as d3rlpy 2.8.1."""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from conformance import test_d3rlpy_layer_runs as layer_runs
from conformance.test_d3rlpy_runs import arrays_in, assert_same_run
from peer_libraries import answer, asks
from peers import d3rlpy_critic_runs, problem

from pfrl_like import d3rlpy

float64 = layer_runs.float64  # a fixture that each test uses


def draws_of(case: tuple[str, str], theirs: Mapping[str, Any], update: int) -> list[Any]:
    """The numbers that an update of d3rlpy drew, in our order and form."""
    drawn = layer_runs.draws_of(case[0], theirs, update)
    if case[1] != "drawn quantiles" or case[0] not in d3rlpy_critic_runs.DISCRETE:
        return drawn
    first, target, loss, *rest = drawn
    return [first, loss, target, *rest]


@pytest.mark.slow
@asks("d3rlpy")
def test_updates_with_each_kind_of_critics_are_those_of_d3rlpy(tmp_path: Path) -> None:
    answers = arrays_in(answer("d3rlpy", "peers/d3rlpy_critic_runs.py", tmp_path / "answers.npz"))
    for case in d3rlpy_critic_runs.CASES:
        start = f"{'/'.join(case)}/"
        theirs = {name.removeprefix(start): each for name, each in answers.items() if name.startswith(start)}
        ours = d3rlpy_critic_runs.answer(d3rlpy, *case, functools.partial(draws_of, case, theirs))
        for name in layer_runs.UNUSED.get(case[0], []):
            ours.pop(f"gradients/{name}", None), theirs.pop(f"gradients/{name}", None)
        assert_same_run(ours, theirs)


@pytest.mark.parametrize(("algorithm", "kind"), sorted(d3rlpy_critic_runs.REFUSED))
def test_networks_with_which_updates_differ_are_refused(algorithm: str, kind: str) -> None:
    with pytest.raises(ValueError, match=f"with which {algorithm} would differ from d3rlpy: choose"):
        d3rlpy_critic_runs.answer(d3rlpy, algorithm, kind)


def test_several_critics_with_drawn_quantiles_of_discrete_actions_are_refused() -> None:
    factory = d3rlpy.models.IQNQFunctionFactory()
    algo = d3rlpy.algos.DQNConfig(q_func_factory=factory, n_critics=2).create()
    with pytest.raises(ValueError, match="n_critics 2, with which DQN would differ"):
        algo.create_impl((problem.OBS_SIZE,), problem.N_ACTIONS)
    single = d3rlpy.algos.DQNConfig(q_func_factory=factory).create()
    single.create_impl((problem.OBS_SIZE,), problem.N_ACTIONS)
    assert isinstance(single.impl.modules.q_funcs, torch.nn.ModuleList)
