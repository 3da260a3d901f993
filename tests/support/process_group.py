"""Functions that run in the two processes of a `torch.distributed` group."""

import os
import socket
from collections.abc import Callable
from typing import Any

import torch
from torch import distributed, multiprocessing


def join(rank: int, port: int, size: int) -> None:
    """Join a group on this machine."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    distributed.init_process_group("gloo", rank=rank, world_size=size)


def free_port() -> int:
    """A port that no program uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def in_two_processes(use: Callable[[int], Any]) -> list[Any]:
    """What a function of the rank returns in both processes of a group."""
    port = free_port()
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        return pool.starmap(_worker, [(use, rank, port) for rank in range(2)], chunksize=1)


def _worker(use: Callable[[int], Any], rank: int, port: int) -> Any:
    torch.set_num_threads(1)
    join(rank, port, 2)
    found = use(rank)
    distributed.destroy_process_group()
    return found
