"""Critics that learn in several processes: gradients are averaged by PyTorch's DistributedDataParallel."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from pfrl_like.batch import Batch


@contextlib.contextmanager
def distributed_critics(agent: Any) -> Iterator[None]:
    """Within it an agent's critics learn from the minibatches of all processes of the group.

    They begin with the parameters and targets of process 0.

    Args:
        agent: An agent whose critics' values come from its `value_of`.

    Raises:
        RuntimeError: If there is no process group.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        raise RuntimeError(
            "enable_ddp is True, but there is no process group: call torch.distributed.init_process_group first, in "
            "every process, as torchrun has started them"
        )
    for critic in [*agent.critics, *agent.target_critics]:
        for tensor in [*critic.parameters(), *critic.buffers()]:
            distributed.broadcast(tensor.data, 0)
    wrapped = {id(critic): _wrapped(critic, agent.device) for critic in agent.critics}
    value_of = agent.value_of

    def distributed_value_of(critic: Any, batch: Batch, *arguments: Any, **options: Any) -> Any:
        return value_of(wrapped.get(id(critic), critic), batch, *arguments, **options)

    agent.value_of = distributed_value_of
    try:
        yield
    finally:
        del agent.value_of


def rank() -> int:
    """The number of this process in its group, 0 without one."""
    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else 0


def _wrapped(critic: nn.Module, device: torch.device) -> nn.Module:
    return DistributedDataParallel(critic, device_ids=None if device.type == "cpu" else [device])
