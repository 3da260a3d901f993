"""Agents that learn in several processes, each from minibatches of its own, by PyTorch's DistributedDataParallel."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel


class _Learnt(nn.Module):
    """The parameters of one optimiser, as a module through which losses pass as they are.

    What `DistributedDataParallel` does is done to the parameters, when their gradients come; where in the graph of the
    loss they are used, and how often, is no matter to it. So losses may call modules as they like.

    Args:
        params: The parameters.
    """

    def __init__(self, params: Sequence[nn.Parameter]) -> None:
        super().__init__()
        self.params = nn.ParameterList(params)

    def forward(self, loss: Tensor) -> Tensor:
        """The loss."""
        return loss


@contextlib.contextmanager
def learning_together(agent: Any) -> Iterator[None]:
    """Within it every gradient is the mean over the processes of the `torch.distributed` group.

    All begin with what process 0 has, and end with its running moments of batch normalisation. What every process does
    has to be alike, as it is where they fit to as many transitions with the same hyperparameters.

    Args:
        agent: The agent, whose `gradient_steps` learn.

    Raises:
        RuntimeError: If there is no process group.
    """
    check_group()
    learns = {name for name in agent.saved_attributes if name != "policy" or getattr(agent, "policy_learns", True)}
    modules = [part for name in sorted(learns) if isinstance(part := getattr(agent, name), nn.Module)]
    buffers = [buffer for module in modules for buffer in module.buffers()]
    _as_process_0([*(param.data for module in modules for param in module.parameters()), *buffers])
    steps = agent.gradient_steps.values()
    for step in steps:
        step.wrapper = DistributedDataParallel(_Learnt(step.leaves))
    try:
        yield
    finally:
        for step in steps:
            step.wrapper = None
    _as_process_0(buffers)


def _as_process_0(tensors: Sequence[Tensor]) -> None:
    for tensor in tensors:
        distributed.broadcast(tensor, 0)


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
