"""Looks at what an error keeps of a message."""

import traceback


def views_of(error: BaseException) -> set[str]:
    """Types of what is seen through views that a traceback keeps; a `BytesIO`'s buffer crashes Python 3.12."""
    kept = [value for frame, _ in traceback.walk_tb(error.__traceback__) for value in frame.f_locals.values()]
    return {type(value.obj).__name__ for value in kept if isinstance(value, memoryview)}
