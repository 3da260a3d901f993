"""Everything that learns and was saved as a whole, read back by the class that the file names."""

import os
from typing import Any

import torch

from pfrl_like.algos.fitting.saving import loaded_estimator, read_model
from pfrl_like.ope.fqe_saving import loaded_fqe
from pfrl_like.utils.device import resolve_device


def load_learnable(
    fname: str | os.PathLike[str], *, device: int | str | torch.device | bool = False, algo: Any = None
) -> Any:
    """What `save` of an estimator or of `FQE` saved; reading it executes nothing.

    Args:
        fname: The file.
        device: False for the CPU, True for the first GPU, the number of one, or a name that torch knows, such
            as "cpu:0" or "cuda:1".
        algo: What an `FQE` evaluates; None for the estimator that was. An agent is in no file: without it values are
            known, actions are not.

    Returns:
        An estimator, or an `FQE`, which goes on as the one that was saved.

    Raises:
        CheckpointError: If the file is damaged or holds something else.
        TypeError: If `algo` is given, but the file holds an estimator.
        ValueError: If the device is not there, or an estimator cannot use one of its kind.
    """
    state, params = read_model(fname)
    if "algorithm" not in params:
        return loaded_fqe(fname, state, params, device, algo)
    if algo is not None:
        raise TypeError(f"algo is a {type(algo).__name__}, but {fname} holds a {params['algorithm']}, expected None")
    return loaded_estimator(fname, state, params, _gpu_of(device))


def _gpu_of(device: int | str | torch.device | bool) -> int | bool:
    """The device as estimators take it."""
    if not isinstance(device, str | torch.device):
        return device
    named = resolve_device(None, device)
    if named.type not in {"cpu", "cuda"}:
        raise ValueError(f"device is {device!r}, expected 'cpu' or 'cuda:<number>' for an estimator")
    return False if named.index is None else named.index
