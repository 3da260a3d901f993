"""The memory that a file may take when it is read, and errors of files that take more or are hostile."""

import contextlib
from collections.abc import Iterator

from pfrl_like.errors import CheckpointError, PfrlLikeError

#: What even the smallest file may ask for, and how many times its size a large one may.
FLOOR, RATIO = 1 << 26, 128


class BudgetError(ValueError):
    """More than a file may take."""


@contextlib.contextmanager
def refused(path: object, reason: str) -> Iterator[None]:
    """Turn whatever a hostile file does to those who read it into a `CheckpointError` that begins with a reason.

    This library's own errors stay what they are, and a `BudgetError` says enough by itself.

    Raises:
        CheckpointError: If anything goes wrong.
    """
    try:
        yield
    except PfrlLikeError:
        raise
    except BudgetError as error:
        raise CheckpointError(path, str(error)) from error
    except Exception as error:
        raise CheckpointError(path, f"{reason}: {str(error) or type(error).__name__}") from error


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
