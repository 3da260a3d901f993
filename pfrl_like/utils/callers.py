"""Where a user's code called this package, for warnings that name the line."""

import inspect


def levels_to_the_caller() -> int:
    """How many calls above the function that asks is code that does not belong to this package."""
    frame, levels = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith("pfrl_like."):
        frame, levels = frame.f_back, levels + 1
    return levels
