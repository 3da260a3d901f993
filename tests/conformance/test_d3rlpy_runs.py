"""Algorithms of `pfrl_like.d3rlpy` make the ten updates of d3rlpy 2.8.1, in float64, from equal weights, on the same
minibatches, by the same random numbers.

What d3rlpy answers with one seed and Adam is in `tests/data/peers/d3rlpy_runs.npz`, where `tests/peers/d3rlpy_runs.py`
writes it in d3rlpy's environment (`make peers`). `pytest -m peers` asks it anew, with five seeds and SGD, too.
"""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from peer_libraries import TESTS, answer, asks
from peers import d3rlpy_runs, problem

from pfrl_like import d3rlpy

Array = NDArray[Any]
SCRIPT, ANSWERS = "peers/d3rlpy_runs.py", TESTS / "data/peers/d3rlpy_runs.npz"
#: Gradients that d3rlpy computes and does not use, because no optimiser has the parameter or makes a step.
UNUSED = {
    "SAC, fixed temperature": ["log_temp"], "CQL, fixed multipliers": ["log_temp", "log_alpha"],
    "CQL, change 1": ["log_temp"], "CalQL, change 2": ["log_alpha"], "DiscreteSAC, change 0": ["log_temp"],
    "BEAR": ["log_alpha"], "PLAS": ["vae_decoder"],
}  # fmt: skip
#: Variants that differ. d3rlpy evaluates critics once, for n actions a_ij of each state s_i, and takes Q(s_i, a_ij) of
#: the best j; here a second call evaluates the best pairs. So batch normalisation has the mean and the deviation of its
#: inputs x(s_i, a_ij) over all i and j there, and of x(s_i, a_i) for the best actions a_i over i here.
EXCEPTIONS = ["BCQ, batch normalisation", "BEAR, batch normalisation"]
VARIANTS = [case for case in d3rlpy_runs.variants(d3rlpy) if case not in EXCEPTIONS]


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@functools.cache
def arrays_in(path: Path) -> dict[str, Array]:
    with np.load(path) as file:
        return dict(file)


def answer_of(path: Path, case: str, optimizer: str, seed: int) -> dict[str, Array]:
    """What d3rlpy answered, by name."""
    start = f"{case}/{optimizer}/{seed}/"
    return {name.removeprefix(start): each for name, each in arrays_in(path).items() if name.startswith(start)}


def draws_of(case: str, theirs: Mapping[str, Array], update: int) -> list[Array]:
    """The numbers that an update of d3rlpy drew, in our order and form."""
    drawn = [theirs[f"drawn/{update}/{i}"] for i in range(sum(f"drawn/{update}/" in name for name in theirs))]
    if "drawn quantiles" in case and len(drawn) > 2 and "SAC" not in case and "FQE" not in case:
        drawn[1], drawn[2] = drawn[2], drawn[1]  # of one critic, fractions of the target before those of the loss
    return [in_our_order(case, each) for each in drawn]


def in_our_order(case: str, drawn: Array) -> Array:
    by_row = drawn.ndim == 2 and len(drawn) > problem.ROWS
    if case.startswith(("CQL", "CalQL")) and by_row:  # uniform actions of each row together, in [-1, 1]
        uniform: Array = (drawn.reshape(problem.ROWS, -1, drawn.shape[1]).swapaxes(0, 1) + 1) / 2
        return uniform
    if case.startswith("BEAR") and by_row:  # latent vectors of each sample together
        return drawn.reshape(-1, problem.ROWS, drawn.shape[1]).swapaxes(0, 1).reshape(drawn.shape)
    return drawn


def assert_same_run(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> None:
    """All that d3rlpy reports, its first gradients and its last parameters are ours."""
    names = {name for name in theirs if not name.startswith("drawn/")}
    assert names == ours.keys()
    for name in names:
        assert np.isfinite(ours[name]).all(), name
        assert np.allclose(ours[name], theirs[name], rtol=1e-6, atol=1e-6 * np.abs(theirs[name]).max()), name


def assert_runs_equal(path: Path, case: str, optimizer: str, seed: int) -> None:
    theirs = answer_of(path, case, optimizer, seed)
    algo = d3rlpy_runs.algorithm(d3rlpy, case, optimizer, seed)
    ours = d3rlpy_runs.run(algo, d3rlpy, seed, functools.partial(draws_of, case, theirs))
    for name in UNUSED.get(case) or UNUSED.get(case[:4], []):
        ours.pop(f"gradients/{name}", None), theirs.pop(f"gradients/{name}", None)
    assert_same_run(ours, theirs)


@pytest.mark.parametrize("case", d3rlpy_runs.CASES)
def test_ten_updates_are_those_of_d3rlpy(case: str) -> None:
    assert_runs_equal(ANSWERS, case, "Adam", 0)


def test_another_loss_is_told_apart() -> None:
    theirs = answer_of(ANSWERS, "DQN", "Adam", 0)
    algo = d3rlpy_runs.algorithm(d3rlpy, "DoubleDQN")
    ours = d3rlpy_runs.run(algo, d3rlpy, 0, functools.partial(draws_of, "DQN", theirs))
    with pytest.raises(AssertionError):
        assert_same_run(ours, theirs)


@pytest.fixture(scope="module")
def answers_now(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What d3rlpy answers now, with five seeds, and to the variants with one."""
    path, kinds = tmp_path_factory.mktemp("runs") / "runs.npz", (*d3rlpy_runs.OPTIMIZERS, "variants")
    return answer("d3rlpy", SCRIPT, path, "5", *kinds)


@asks("d3rlpy")
@pytest.mark.parametrize("optimizer", d3rlpy_runs.OPTIMIZERS)
@pytest.mark.parametrize("case", d3rlpy_runs.CASES)
def test_ten_updates_are_those_of_d3rlpy_with_five_seeds(case: str, optimizer: str, answers_now: Path) -> None:
    for seed in range(5):
        assert_runs_equal(answers_now, case, optimizer, seed)


@asks("d3rlpy")
@pytest.mark.parametrize("case", VARIANTS)
def test_other_parts_and_arguments_are_those_of_d3rlpy(case: str, answers_now: Path) -> None:
    assert_runs_equal(answers_now, case, "Adam", 0)


@asks("d3rlpy")
def test_d3rlpy_still_answers_so(answers_now: Path) -> None:
    now = arrays_in(answers_now)
    for name, array in arrays_in(ANSWERS).items():
        assert np.allclose(array, now[name], rtol=1e-9, atol=1e-9), name


def test_a_later_step_has_the_phase_of_d3rlpys() -> None:
    algo = d3rlpy_runs.algorithm(d3rlpy, "TD3")
    algo.set_grad_step(1)
    batch = d3rlpy_runs.batch_of(d3rlpy, problem.minibatch(False))
    assert [sorted(algo.update(batch)) for _ in range(2)] == [["critic_loss"], ["actor_loss", "critic_loss"]]
    assert np.isfinite(algo.predict_value(np.zeros((2, problem.OBS_SIZE)), np.zeros((2, problem.ACTION_SIZE)))).all()
