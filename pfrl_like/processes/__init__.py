"""Supervised worker processes, and memory that is shared with them."""

from pfrl_like.processes.pipe_end import Countdown, WaitingEnd, send
from pfrl_like.processes.process_argument import ProcessArgument, check_sendable
from pfrl_like.processes.shared_arrays import SharedArrays
from pfrl_like.processes.supervisor import Workers
from pfrl_like.processes.worker import Failure, Finished, Portable

__all__ = [
    "Countdown", "Failure", "Finished", "Portable", "ProcessArgument", "SharedArrays", "WaitingEnd", "Workers",
    "check_sendable", "send",
]  # fmt: skip
