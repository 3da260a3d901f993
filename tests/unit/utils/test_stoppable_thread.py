"""A stoppable thread carries the event that ends it."""

import threading

from time_parts import PATIENCE

from pfrl_like.utils import StoppableThread


def test_stop_sets_the_event_that_its_target_waits_for():
    event = threading.Event()
    thread = StoppableThread(event, target=event.wait, daemon=True)
    thread.start()
    assert not thread.is_stopped()
    thread.stop()
    thread.join(PATIENCE)
    assert thread.is_stopped()
    assert thread.stop_event is event
    assert not thread.is_alive()
