"""How much memory a file may ask for: by its size, not by what it says of itself."""

#: What even the smallest file may ask for, and how many times its size a large one may.
FLOOR, RATIO = 1 << 26, 128


class Budget:
    """Memory that what a file holds may take in all.

    Args:
        size: Bytes of the file.
        max_bytes: The most; None is `RATIO` times the size, and `FLOOR` at least.
    """

    def __init__(self, size: int, max_bytes: int | None = None) -> None:
        self.left = max(FLOOR, RATIO * size) if max_bytes is None else max_bytes

    def spend(self, size: int, what: str) -> None:
        """Count what is about to be taken.

        Raises:
            ValueError: If it is more than is left; say `max_bytes` to allow it.
        """
        if size > self.left:
            raise ValueError(
                f"{what} announces {size} bytes, and a file of this size may take {self.left} more; if it is to be "
                "trusted, allow them by max_bytes"
            )
        self.left -= size
