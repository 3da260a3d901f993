"""Critics that learn in several processes: gradients are averaged by PyTorch's DistributedDataParallel."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from pfrl_like.algos.together import check_group
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
    check_group()
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


def _wrapped(critic: nn.Module, device: torch.device) -> nn.Module:
    return DistributedDataParallel(critic, device_ids=None if device.type == "cpu" else [device])
