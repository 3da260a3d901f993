"""`FairLock`: a lock that nobody can take twice in a row while another waits for it."""

import threading


class FairLock:
    """A lock for threads of which one takes it again at once: a `threading.Lock` would keep the others waiting."""

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._gate:  # held while waiting, so that the last holder queues behind
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
