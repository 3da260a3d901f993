"""Estimators that learn in several processes, from minibatches of their own, with averaged gradients."""

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import Tensor, distributed, nn


@contextlib.contextmanager
def learning_together(agent: Any) -> Iterator[None]:
    """Within it every gradient is the mean over the processes of the `torch.distributed` group.

    All begin with the parameters of process 0. What every process does has to be alike, as it is where they fit to as
    many transitions with the same hyperparameters.

    Args:
        agent: The agent.

    Raises:
        RuntimeError: If there is no process group.
    """
    check_group()
    modules = [part for name in agent.saved_attributes if isinstance(part := getattr(agent, name), nn.Module)]
    for tensor in (tensor for module in modules for tensor in [*module.parameters(), *module.buffers()]):
        distributed.broadcast(tensor.data, 0)
    steps = agent.gradient_steps.values()
    params = {param: None for step in steps for group in step.optimizer.param_groups for param in group["params"]}
    hooks = [param.register_hook(_averaged) for param in params]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _averaged(grad: Tensor) -> Tensor:
    mean = grad.detach().clone()
    distributed.all_reduce(mean)
    return mean / distributed.get_world_size()


def together(agent: Any, enable_ddp: bool) -> contextlib.AbstractContextManager[None]:
    """`learning_together`, if it is asked for."""
    return learning_together(agent) if enable_ddp else contextlib.nullcontext()


def has_group() -> bool:
    """Whether this process belongs to a group."""
    return distributed.is_available() and distributed.is_initialized()


def check_group() -> None:
    """Refuse to learn together with nobody.

    Raises:
        RuntimeError: If there is no process group.
    """
    if not has_group():
        raise RuntimeError(
            "enable_ddp is True, but there is no process group: call torch.distributed.init_process_group first, in "
            "every process, as torchrun has started them"
        )


def is_first() -> bool:
    """Whether this is the process that speaks for the group; without one, it is."""
    return not has_group() or distributed.get_rank() == 0
