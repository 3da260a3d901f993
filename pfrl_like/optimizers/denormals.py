"""`FlushedDenormals`: arithmetic without numbers that are too small to be normal."""

from typing import Any

import torch


class FlushedDenormals:
    """Context in which float32 numbers below 1.2e-38 count as zero on this thread of the CPU.

    The running averages of a gradient that has become zero, such as that of a unit which is never active again, shrink
    towards such numbers, and processors take a hundred times as long for each: a step of Adam becomes several times
    slower.
    """

    def __init__(self) -> None:
        self._before = torch.full((), 1e-39).mul(1.0).item() == 0.0  # the user may have chosen so for the whole process

    def __enter__(self) -> None:
        torch.set_flush_denormal(True)

    def __exit__(self, *_: Any) -> None:
        torch.set_flush_denormal(self._before)
