"""`EnvActors` with a Ray of which the test says when an actor answers. Time is that of the test."""

import itertools
import logging
import types

import pytest

from pfrl_like.errors import WorkerError
from pfrl_like.experiments.cluster import actors as module
from pfrl_like.experiments.cluster.actors import EnvActors, Limits, Request
from pfrl_like.experiments.cluster.env_actor import Answer, Description, versions

START = Description(versions(), "node", None, None, None)


class Died(Exception):
    """Stands for the errors of Ray."""


class LocalRay:
    """Actors that start at once, and do nothing else until the test sets the result of a call in `results`."""

    exceptions = types.SimpleNamespace(RayTaskError=type("Failed", (Exception,), {}), RayError=Died)

    def __init__(self):
        self.numbers, self.calls, self.results, self.waits = itertools.count(), [], {}, []

    def remote(self, kind):
        made = types.SimpleNamespace(remote=lambda origin, *_: Handle(self, origin))
        return types.SimpleNamespace(options=lambda **_: made)

    def wait(self, refs, num_returns=1, timeout=None):
        assert 0 < num_returns <= len(refs)
        self.waits.append((refs, timeout))
        ready = [ref for ref in refs if ref in self.results]
        return ready, [ref for ref in refs if ref not in self.results]

    def get(self, refs, timeout=None):
        if isinstance(refs, list):
            self.waits.append((refs, timeout))
            return [self.get(ref) for ref in refs]
        if refs not in self.results:
            raise Died("Get timed out: some object(s) not ready.")
        if isinstance(self.results[refs], Exception):
            raise self.results[refs]
        return self.results[refs]

    def nodes(self):
        return [{"NodeID": "node", "Alive": True}]

    def kill(self, handle):
        pass


class Handle:
    def __init__(self, ray, origin):
        self.ray, self.origin = ray, origin

    def __getattr__(self, name):
        return types.SimpleNamespace(remote=lambda *_: self.call(name))

    def call(self, name):
        ref = next(self.ray.numbers)
        self.ray.calls.append((self.origin, name, ref))
        if name in ("start", "ping"):
            self.ray.results[ref] = START
        return ref


@pytest.fixture
def clock(monkeypatch):
    clock = types.SimpleNamespace(now=0.0)
    monkeypatch.setattr(module, "time", types.SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def started(early_deaths=3, in_flight=2, n_actors=1):
    limits = Limits(60, 6, 60, 45, early_deaths, in_flight)
    logger = logging.getLogger("pfrl_like.of_a_test")
    options = {"num_envs": 1, "cpus": 0, "limits": limits, "logger": logger}
    return EnvActors(LocalRay(), n_actors, lambda i, life: (i, life), (), **options)


def ask(actors, i=0):
    actors.idle.remove(i)
    actors.ask(i, None, 1, 0, 4, {})


def finish(actors, result=None):
    """Let an actor finish its oldest request, and read the answer."""
    ref = next(ref for ref in actors.pending if ref not in actors.ray.results)
    actors.ray.results[ref] = Answer(None, 4, [], 1, 1.0, 0.0) if result is None else result
    received = actors.next()
    if received is not None:
        actors.idle.append(received[0])
    return received


def test_a_request_that_waits_for_an_earlier_one_has_its_whole_time(clock):
    actors = started(in_flight=3)
    for _ in range(3):
        ask(actors)
    for clock.now in (3.6, 7.2, 10.8):
        assert finish(actors)[0] == 0
        ask(actors)
    assert (actors.counts["lost_processes"], len(actors.pending)) == (0, 3)
    clock.now += 6.1
    assert actors.next() is None
    assert (actors.counts["lost_processes"], actors.counts["lost_steps"]) == (1, 12)


def test_only_losses_before_the_first_answer_are_early(clock, caplog):
    actors = started(early_deaths=0, in_flight=1)
    ask(actors)
    finish(actors)
    ask(actors)
    assert finish(actors, Died("The actor died in a task.")) is None
    assert "its running episodes: The actor died in a task. Another process takes its place" in caplog.text
    actors.next()  # the successor has started
    ask(actors)
    with pytest.raises(WorkerError, match="was lost 1 times before its first answer"):
        finish(actors, Died("The actor died in a task."))


def test_a_checkpoint_waits_for_the_limit_of_checkpoints(clock):
    actors = started(n_actors=2)
    state = actors.saved_state()
    assert [timeout for _, timeout in actors.ray.waits[-2:]] == [45, 45]
    assert "actor 1 cannot be saved: Get timed out: some object(s) not ready" in state["states"][1]["reason"]


def test_actors_that_finish_their_requests_have_time_to_close(clock):
    actors = started(n_actors=2)
    ask(actors, 0)
    ask(actors, 1)
    actors.ray.results[next(iter(actors.pending))] = None
    actors.close()
    closing = next(ref for origin, name, ref in actors.ray.calls if name == "close" and origin == (0, 0))
    assert [timeout for _, timeout in actors.ray.waits[-2:]] == [1, 10]
    assert actors.ray.waits[-1][0] == [closing]


@pytest.mark.parametrize(
    ("cpus", "text"), [(2, "its process starts slowly"), (4, "The actors need 4 CPUs in all, and 2 of 3 are free")]
)
def test_an_actor_without_a_cpu_is_told_from_one_that_starts_slowly(clock, cpus, text):
    actors = started()
    actors.cpus, actors.ray.cluster_resources = cpus, lambda: {"CPU": 3}
    actors.ray.available_resources = lambda: {"CPU": 2}
    assert text in actors._obstacle(Request(0, 0, 60, 60, ping="without an answer"))
