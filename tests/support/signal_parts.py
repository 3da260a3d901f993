"""What becomes of processes that are told to end."""

import os
import signal
import time


def status_after_sigterm(*others: int) -> int:
    """How a copy of this process ends that SIGTERM is sent to, after some other processes."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, b"!")
        for _ in range(60_000):
            time.sleep(0.1)  # a signal that comes just before a sleep is handled after it
        os._exit(0)
    os.read(reader, 1)  # Python forgets the signals that come while it forks
    for descriptor in (reader, writer):
        os.close(descriptor)
    for signaled in (*others, pid):
        os.kill(signaled, signal.SIGTERM)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
