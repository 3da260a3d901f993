"""Processes that train one algorithm together, each with a share of the minibatches."""

import torch.distributed


def init_process_group(backend: str) -> int:
    """Join the group of processes that the environment variables of `torchrun` describe.

    Args:
        backend: Backend of `torch.distributed`: "gloo" on CPUs, "nccl" on GPUs, or "mpi".

    Returns:
        Rank of this process, from 0.
    """
    torch.distributed.init_process_group(backend)
    return torch.distributed.get_rank()


def destroy_process_group() -> None:
    """Leave the group of processes."""
    torch.distributed.destroy_process_group()
