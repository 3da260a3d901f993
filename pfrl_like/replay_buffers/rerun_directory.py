"""Where persistent buffers lie in a program that was started again, which writes into none of those of its run."""

import hashlib
import os

from pfrl_like.processes.rerun_order import ordered
from pfrl_like.storage.log_directory import META


def diverted(dirname: str, ancestor: str | None, shard: str | None) -> tuple[str, str | None]:
    """Where a buffer lies and what it begins with: as the program says, unless it was started again.

    Then it lies among what the program writes meanwhile, and begins with what is in `dirname`, of which training goes
    back to what a checkpoint names. Training from the start begins as the run did: without what that has stored in its
    own directory, or in one that was new.

    Args:
        dirname: The directory that the program names, absolute.
        ancestor: The one that the program has its content from, if it is new.
        shard: Name of this process's part; None if there are no parts.
    """
    order = ordered()
    if order is None:
        return dirname, ancestor
    name = hashlib.sha256(os.fsencode(os.path.realpath(dirname))).hexdigest()[:16]
    place = os.path.join(order.scratch, f"buffer-{name}")
    source = order.found(dirname)
    was_new = not order.checkpoint and (order.is_of_run(dirname) or ancestor is not None)
    if was_new or _holds_buffer(place, shard) or not _holds_buffer(source, shard):
        return place, ancestor
    return place, source


def _holds_buffer(dirname: str, shard: str | None) -> bool:
    return os.path.lexists(os.path.join(dirname, shard or "", META))
