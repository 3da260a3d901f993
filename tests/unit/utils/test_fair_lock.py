"""A fair lock keeps others out, and lets them in while its last holder wants it again."""

import threading
import time

from pfrl_like.utils.fair_lock import FairLock


def test_one_at_a_time_is_in():
    lock, inside, most = FairLock(), [0], [0]

    def work():
        for _ in range(50):
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0)
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_who_takes_it_again_at_once_does_not_keep_others_out():
    lock, stop, turns = FairLock(), threading.Event(), []

    def greedy():
        while not stop.is_set():
            with lock:
                turns.append("greedy")
                time.sleep(0.002)

    thread = threading.Thread(target=greedy)
    thread.start()
    for _ in range(20):
        before = len(turns)
        with lock:
            assert len(turns) - before <= 3
    stop.set()
    thread.join()


def test_an_error_inside_lets_go():
    lock = FairLock()
    for _ in range(2):
        try:
            with lock:
                raise KeyError
        except KeyError:
            pass
