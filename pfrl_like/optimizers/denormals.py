"""Numbers that are too small to be normal: below 1.2e-38 in float32.

The running averages of a gradient that has become zero, such as that of a unit which is never active again, shrink
towards them, and processors take a hundred times as long for each: a step of Adam becomes several times slower. So
optimiser steps run with `torch.set_flush_denormal(True)`, under which they count as zero.
"""

import torch


def flushes_denormals() -> bool:
    """Whether denormal numbers count as zero on this thread now, as the user may have chosen for the whole process."""
    return torch.full((), 1e-39).mul(1.0).item() == 0.0
