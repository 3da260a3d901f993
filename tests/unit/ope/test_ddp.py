"""Fitted Q evaluation in the processes of a group: one equals none, two learn the same from the data of both."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import distributed, multiprocessing

from pfrl_like import ope
from pfrl_like.dataset import MDPDataset
from pfrl_like.loggers import FileAdapterFactory, NoopAdapterFactory


class Always:
    """An algorithm that always takes action 1."""

    def predict(self, x: Any) -> Any:
        return np.ones(len(x), np.int64)


def data() -> MDPDataset:
    rng = np.random.default_rng(0)
    obs, action, end = rng.normal(size=(64, 3)).astype(np.float32), rng.integers(0, 2, 64), np.arange(64) % 8 == 7
    return MDPDataset.from_arrays(obs, action, rng.normal(size=64), end, discrete_action=True)


def fitted(seed: int, networks_seed: int, **options: Any) -> ope.DiscreteFQE:
    fqe = ope.DiscreteFQE(Always(), ope.FQEConfig(batch_size=8, n_critics=2, learning_rate=0.01))
    torch.manual_seed(networks_seed)
    fqe.build_with_dataset(data())
    np.random.seed(seed)
    fqe.fit(data(), 20, show_progress=False, **{"logger_adapter": NoopAdapterFactory(), **options})
    return fqe


def numbers(fqe: Any) -> torch.Tensor:
    modules = [*fqe.agent.critics, *fqe.agent.target_critics]
    return torch.cat([parameter.detach().flatten() for module in modules for parameter in module.parameters()])


def one_of(rank: int, size: int, folder: str) -> None:
    """The body of a process."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank, world_size=size)
    logs: Any = {"logger_adapter": FileAdapterFactory(folder), "experiment_name": "logs", "with_timestamp": False}
    torch.save(numbers(fitted(rank, rank, enable_ddp=True, **logs)), f"{folder}/{size}-{rank}.pt")
    distributed.destroy_process_group()


def run(size: int, folder: Path) -> list[torch.Tensor]:
    folder.mkdir()
    if size == 1:
        one_of(0, 1, str(folder))
    else:
        multiprocessing.spawn(one_of, (size, str(folder)), nprocs=size)
    return [torch.load(folder / f"{size}-{rank}.pt", weights_only=True) for rank in range(size)]


def test_one_process_learns_what_it_would_without_a_group(tmp_path: Path) -> None:
    (found,) = run(1, tmp_path / "one")
    assert torch.equal(found, numbers(fitted(0, 0)))


def test_two_processes_learn_the_same_from_the_data_of_both(tmp_path: Path) -> None:
    first, second = run(2, tmp_path / "two")
    assert torch.equal(first, second)
    alone = numbers(fitted(0, 0))
    assert not torch.allclose(first, alone) and torch.isfinite(first).all()
    assert len((tmp_path / "two/logs/loss.csv").read_text().splitlines()) == 2  # process 0 alone logs
