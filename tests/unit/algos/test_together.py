"""Several processes that learn together."""

import os
import socket
from typing import Any

import numpy as np
import pytest
import torch
from estimator_parts import QUIET, make, vectors
from torch import distributed, multiprocessing


def fitted(name: str, rank: int, enable_ddp: bool) -> Any:
    torch.manual_seed(rank)
    np.random.seed(rank)
    made = make(name)
    return made.fit(vectors(made.discrete_action, seed=rank), n_epochs=2, enable_ddp=enable_ddp, **QUIET)


def parameters(made: Any) -> list[torch.Tensor]:
    network = made.impl.policy if hasattr(made.impl, "policy") else made.impl.model
    return [param.detach() for param in network.parameters()]


def join(rank: int, port: int, size: int) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    distributed.init_process_group("gloo", rank=rank, world_size=size)


def worker(rank: int, port: int, queue: Any) -> None:
    join(rank, port, 2)
    found = {name: [param.numpy() for param in parameters(fitted(name, rank, True))] for name in ("SAC", "DQN")}
    queue.put((rank, found))
    distributed.destroy_process_group()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.slow
def test_two_processes_have_one_policy_that_has_learnt_from_both() -> None:
    context = multiprocessing.get_context("spawn")
    queue, port = context.Queue(), free_port()
    processes = [context.Process(target=worker, args=(rank, port, queue)) for rank in range(2)]
    for process in processes:
        process.start()
    found = dict(queue.get(timeout=200) for _ in processes)
    for process in processes:
        process.join()
    for name in ("SAC", "DQN"):
        assert all(map(np.array_equal, found[0][name], found[1][name]))
        alone = parameters(fitted(name, 0, False))
        assert not all(np.array_equal(one, other) for one, other in zip(found[0][name], alone, strict=True))


def test_one_process_learns_as_without_a_group() -> None:
    join(0, free_port(), 1)
    try:
        together = fitted("SAC", 0, True)
    finally:
        distributed.destroy_process_group()
    alone = fitted("SAC", 0, False)
    assert all(torch.allclose(*pair) for pair in zip(parameters(together), parameters(alone), strict=True))


def test_without_a_group_it_is_refused() -> None:
    with pytest.raises(RuntimeError, match="there is no process group"):
        fitted("SAC", 0, True)
