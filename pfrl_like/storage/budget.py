"""How much memory a file may ask for: by its size, not by what it says of itself."""

import contextlib
from collections.abc import Iterator
from typing import Any

from torch.nn.modules.module import register_module_parameter_registration_hook

#: What even the smallest file may ask for, and how many times its size a large one may.
FLOOR, RATIO = 1 << 26, 128

#: Numbers and tensors of the networks that a file of hyperparameters may describe.
MOST_NUMBERS, MOST_TENSORS = 1 << 27, 1 << 12


@contextlib.contextmanager
def bounded_networks() -> Iterator[None]:
    """Refuse networks beyond `MOST_NUMBERS` while they are made, before their memory is written to.

    Raises:
        ValueError: If they are larger than that.
    """
    numbers = tensors = 0

    def count(module: Any, name: str, parameter: Any) -> None:
        nonlocal numbers, tensors
        if parameter is not None:
            numbers, tensors = numbers + parameter.numel(), tensors + 1
        if numbers > MOST_NUMBERS or tensors > MOST_TENSORS:
            raise ValueError(f"its networks have more than {MOST_NUMBERS} parameters in {MOST_TENSORS} tensors")

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()


class BudgetError(ValueError):
    """More than a file may take."""


class Budget:
    """Memory that what a file holds may take in all.

    Args:
        size: Bytes of the file.
        max_bytes: The most; None is `RATIO` times the size, and `FLOOR` at least.
    """

    def __init__(self, size: int, max_bytes: int | None = None) -> None:
        self.left = max(FLOOR, RATIO * size) if max_bytes is None else max_bytes
        self.bound = "a file of this size" if max_bytes is None else f"by max_bytes={max_bytes} it"

    def spend(self, size: int, what: str) -> None:
        """Count what is about to be taken.

        Raises:
            BudgetError: If it is more than is left; say `max_bytes` to allow it.
        """
        if size > self.left:
            raise BudgetError(
                f"{what} announces {size} bytes, and {self.bound} may take {self.left} more; if it is to be trusted, "
                "allow them by max_bytes"
            )
        self.left -= size
