"""Several processes that learn together: estimators and fitted Q evaluation."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from estimator_parts import ALL, QUIET, make, vectors
from fqe_parts import data
from fqe_parts import make as make_fqe
from process_group import free_port, in_two_processes, join
from torch import distributed, nn

from pfrl_like.loggers import FileAdapterFactory, NoopAdapterFactory
from pfrl_like.utils import set_random_seed

NOTHING = NoopAdapterFactory()

#: Estimators whose losses differ in what they call, how often, and how many optimisers they have.
SEVERAL: dict[str, tuple[str, dict[str, Any]]] = {
    "a Q-function": ("DQN", {}),
    "distributions of returns": ("DQN", {"q_func_type": "fqf"}),
    "a learnt temperature": ("SAC", {}),
    "shared layers": ("SAC", {"share_encoder": True}),
    "critics called for many actions": ("CQL", {}),
    "a policy that learns seldom": ("TD3", {"update_actor_interval": 2}),
    "several steps an update": ("AWR", {}),
    "a model of the data": ("BCQ", {}),
}


def fitted(name: str, rank: int, enable_ddp: bool, **options: Any) -> Any:
    set_random_seed(rank)
    made = make(name, **options)
    return made.fit(vectors(made.discrete_action, seed=rank), n_epochs=2, enable_ddp=enable_ddp, **QUIET)


def numbers(made: Any) -> list[Any]:
    """All that its modules hold, moments of batch normalisation included."""
    parts = [getattr(made.impl, name) for name in made.impl.saved_attributes]
    return [tensor.numpy() for part in parts if isinstance(part, nn.Module) for tensor in part.state_dict().values()]


def alike(first: list[Any], second: list[Any]) -> bool:
    return all(np.array_equal(*pair) for pair in zip(first, second, strict=True))


def fitted_fqe(rank: int, enable_ddp: bool, logger_adapter: Any = NOTHING) -> Any:
    set_random_seed(rank)
    fqe = make_fqe(batch_size=8, n_critics=2, learning_rate=0.01)
    fqe.fit(
        data(), 20, enable_ddp=enable_ddp, logger_adapter=logger_adapter, experiment_name="run", with_timestamp=False,
        show_progress=False,
    )  # fmt: skip
    return fqe


def several(rank: int) -> dict[str, list[Any]]:
    found = {what: numbers(fitted(name, rank, True, **options)) for what, (name, options) in SEVERAL.items()}
    return found | {"the same data": numbers(fitted("SAC", 0, True, batch_size=8))}


def one_fqe(rank: int) -> list[Any]:
    return numbers(fitted_fqe(rank, True, FileAdapterFactory("logs")))


@pytest.mark.slow
def test_two_processes_have_the_same_networks_that_have_learnt_from_both() -> None:
    found = in_two_processes(several)
    for what, (name, options) in SEVERAL.items():
        assert alike(found[0][what], found[1][what]), what
        assert not alike(found[0][what], numbers(fitted(name, 0, False, **options))), what
    joined = numbers(fitted("SAC", 0, False, batch_size=16))
    for together, alone in zip(found[1]["the same data"], joined, strict=True):
        np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_two_processes_evaluate_alike_by_the_data_of_both() -> None:
    first, second = in_two_processes(one_fqe)
    alone = numbers(fitted_fqe(0, False))
    assert alike(first, second) and all(np.isfinite(each).all() for each in first)
    assert not all(map(np.allclose, first, alone))
    assert len(Path("logs/run/loss.csv").read_text().splitlines()) == 2  # process 0 alone logs


@pytest.fixture
def group() -> Iterator[None]:
    """A group of this process alone."""
    join(0, free_port(), 1)
    yield
    distributed.destroy_process_group()


@pytest.mark.representatives(4)
@pytest.mark.parametrize("name", ALL)
@pytest.mark.usefixtures("group")
def test_one_process_learns_as_without_a_group(name: str) -> None:
    together = numbers(fitted(name, 0, True))
    alone = fitted(name, 0, False)
    assert alike(together, numbers(alone))
    assert all(step.average is None for step in alone.impl.gradient_steps.values())


@pytest.mark.usefixtures("group")
def test_one_process_evaluates_as_without_a_group() -> None:
    assert alike(numbers(fitted_fqe(0, True)), numbers(fitted_fqe(0, False)))


def test_without_a_group_it_is_refused() -> None:
    with pytest.raises(RuntimeError, match="there is no process group"):
        fitted("SAC", 0, True)


@pytest.mark.usefixtures("group")
def test_batch_normalisation_is_refused() -> None:
    with pytest.raises(TypeError, match="has BatchNorm1d.*SyncBatchNorm"):
        fitted("SAC", 0, True, use_batch_norm=True)
