"""A fair lock keeps others out, and lets them in while its last holder wants it again."""

import threading
import time

from time_parts import run_together, wait_until

from pfrl_like.distributed.learner import FairLock


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
    run_together(threads)
    assert most == [1]


def test_who_takes_it_again_at_once_does_not_keep_others_out():
    lock, turns = FairLock(), []

    def wait_in_line():
        with lock:
            turns.append("other")

    for _ in range(20):
        other = threading.Thread(target=wait_in_line)
        with lock:
            other.start()
            assert wait_until(lock._queue.locked)  # the other one has come to it
        with lock:
            turns.append("greedy")
        other.join()
    assert turns == ["other", "greedy"] * 20


def test_an_error_inside_lets_go():
    lock = FairLock()
    for _ in range(2):
        try:
            with lock:
                raise KeyError
        except KeyError:
            pass
