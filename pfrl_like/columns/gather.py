"""From rows of arrays to tensors on a device."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from pfrl_like.columns.leaves import Job

_ALIGNMENT = 64


def to_tensors(jobs: Sequence[Job], device: torch.device | str) -> list[Any]:
    """Gather rows of arrays as fresh tensors; lists of objects pass as they are.

    For a CUDA device all rows are gathered into one page-locked buffer and travel in one copy.
    """
    device = torch.device(device)
    if device.type == "cuda":
        return _through_pinned_memory(jobs, device)
    tensors = [job if isinstance(job, list) else torch.from_numpy(job[0].take(job[1], 0, None, "clip")) for job in jobs]
    return tensors if device.type == "cpu" else [t if isinstance(t, list) else t.to(device) for t in tensors]


def _through_pinned_memory(jobs: Sequence[Job], device: torch.device) -> list[Any]:
    starts, shapes, size = [], [], 0
    for job in jobs:
        shape = () if isinstance(job, list) else (*job[1].shape, *job[0].shape[1:])
        nbytes = 0 if isinstance(job, list) else int(np.prod(shape)) * job[0].itemsize
        starts.append((size, size + nbytes))
        shapes.append(shape)
        size += -(-nbytes // _ALIGNMENT) * _ALIGNMENT
    staging = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    host = staging.numpy()
    for job, (start, stop), shape in zip(jobs, starts, shapes, strict=True):
        if not isinstance(job, list):
            job[0].take(job[1], 0, host[start:stop].view(job[0].dtype).reshape(shape), "clip")
    # The allocator of page-locked memory reuses the buffer only after the copy is done.
    moved = staging.to(device, non_blocking=True)
    tensors: list[Any] = []
    for job, (start, stop), shape in zip(jobs, starts, shapes, strict=True):
        if isinstance(job, list):
            tensors.append(job)
        else:
            dtype = torch.from_numpy(np.empty(0, job[0].dtype)).dtype
            tensors.append(moved[start:stop].view(dtype).view(shape))
    return tensors
