"""The interface of loggers."""

from collections.abc import Mapping
from typing import Any, Protocol


class MetricsLogger(Protocol):
    """Takes numbers about one run."""

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Take in some metrics.

        Args:
            step: Environment steps so far.
            metrics: Numbers by name, the same names every time.
        """

    def close(self) -> None:
        """Write what has not been written yet; called once, at the end of the run."""
