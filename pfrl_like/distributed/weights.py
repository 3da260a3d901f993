"""`SharedWeights`: parameters in shared memory, written by one process and read by others."""

import threading
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pfrl_like.processes import SharedArrays


class SharedWeights:
    """The tensors of some modules in shared memory.

    Nobody waits for a lock, which a killed process would keep for ever: the writer numbers each version at its
    beginning and at its end, and a reader that was overtaken reads again.

    Args:
        modules: What is written or read: modules of the same form in all processes.
        memory: Where, if another process has made it; None makes it, with the values of `modules`.
    """

    def __init__(self, modules: Sequence[nn.Module], memory: SharedArrays | None = None) -> None:
        self.modules = list(modules)
        own = self._own_tensors()
        sizes = tuple(((tensor.numel() * tensor.element_size(),), "|u1") for tensor in own)
        self.memory = memory or SharedArrays((((2,), "<i8"), *sizes))
        self._begun_and_ended, *arrays = self.memory.arrays
        self._shared = [
            torch.from_numpy(array).view(tensor.dtype).view(tensor.shape)
            for array, tensor in zip(arrays, own, strict=True)
        ]
        self._seen = 0
        self._order = threading.Lock()  # passing through it keeps the processor from reordering what is inside
        if memory is None:
            self.publish()

    def publish(self) -> None:
        """Write the modules' tensors; for one thread of one process."""
        version = int(self._begun_and_ended[0]) + 1
        with self._order:
            self._begun_and_ended[0] = version
        with self._order, torch.no_grad():
            torch._foreach_copy_(self._shared, self._own_tensors())
        with self._order:
            self._begun_and_ended[1] = version

    def refresh(self) -> bool:
        """Bring the modules up to date; whether there was anything new."""
        if self._begun_and_ended[1] == self._seen:
            return False
        while True:
            with self._order:
                ended = int(self._begun_and_ended[1])
            with self._order, torch.no_grad():
                torch._foreach_copy_(self._own_tensors(), self._shared)
            with self._order:
                begun = int(self._begun_and_ended[0])
            if begun == ended:
                self._seen = ended
                return True

    def close(self) -> None:
        """Let go of the memory."""
        self._shared.clear()
        del self._begun_and_ended
        self.memory.close()

    def _own_tensors(self) -> list[Tensor]:
        states = [module.state_dict() for module in self.modules]
        return [value for state in states for value in state.values() if isinstance(value, Tensor)]
