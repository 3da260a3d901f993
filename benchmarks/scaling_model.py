"""A throughput model of `train_agent_distributed`, and a simulation with queues that checks it.

    python benchmarks/scaling_model.py                     # model and simulation at 10, 100 and 1,000 actors
    python benchmarks/scaling_model.py --measure           # measures the constants on this machine first
    python benchmarks/scaling_model.py --runs              # also runs 1, 2 and 4 actors, and compares

The constants are the newest line of results/scaling_constants.jsonl (`scaling_constants.py` measures them), the rate
of the network is a setting. docs/guide/scaling.md explains the model.
"""

import argparse
import dataclasses
import heapq
import itertools
import json
import random
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).parent / "results" / "scaling_constants.jsonl"
#: Bytes per second of the network of the learner's node, 10 Gbit/s.
LINK = 1.25e9
Job = Callable[[], None]
TITLES = "| workload | actors | model, steps/s | simulation, steps/s | bottleneck | what helps |"


@dataclasses.dataclass(frozen=True)
class Setup:
    """A cluster, a task and the knobs of the runner. Times are in seconds.

    Attributes:
        env_compute: Processor time of one step of one environment.
        env_wait: Time for which one step of one environment sleeps, for example until a simulator answers.
        act: Processor time in which an actor selects the actions of all its environments, and stores a step of each.
        actor_message: Processor time of an actor for each message.
        gap: Processor time of Ray in an actor between two messages, if the actor has another request.
        latency: Time in which a request and an answer without rows are on their way.
        message: Time of the learner for each message.
        store: Time of the learner to store a row.
        update: Time of an update.
        publish: Time of the learner to publish the weights.
        row_bytes: Bytes of a row in a message.
        message_bytes: Bytes of a message beside its rows.
        weight_bytes: Bytes of the published weights.
        updates_per_step: Updates for each row.
        actors: Number of actors.
        envs: Environments of each actor.
        rows: Minimum and maximum number of rows in a message.
        seconds: Time of stepping that a message contains, within `rows`.
        in_flight: Requests of an actor at the same time.
        cores: Cores of a node.
        slowdown: Factor of processor times while all cores of a node are busy, because they share caches and memory.
        actors_per_node: Actors on each node. 0 if all are on the learner's node, and nothing passes the network.
        link: Bytes per second that the learner's node sends, and that it receives.
        object_store: Bytes per second that the object store of the learner's node writes.
    """

    env_compute: float
    env_wait: float
    act: float
    actor_message: float
    gap: float
    latency: float
    message: float
    store: float
    update: float
    publish: float
    row_bytes: float
    message_bytes: float
    weight_bytes: float
    updates_per_step: float
    actors: int
    envs: int = 8
    rows: tuple[int, int] = (1, 8)
    seconds: float = 0.1
    in_flight: int = 2
    cores: int = 64
    slowdown: float = 1.0
    actors_per_node: int = 64
    link: float = LINK
    object_store: float = 1e9

    @property
    def compute(self) -> float:
        """Processor time of one step of all environments of an actor."""
        return self.act + self.envs * self.env_compute

    @property
    def tick(self) -> float:
        """Time of one step of all environments of an actor, if it has a core."""
        return self.compute + self.envs * self.env_wait

    @property
    def ticks(self) -> int:
        """Steps of each environment in a message, as in `MessageSize`."""
        least, most = max(1, -(-self.rows[0] // self.envs)), max(1, self.rows[1] // self.envs)
        return min(most, max(least, round(self.seconds / self.tick)))

    @property
    def message_rows(self) -> int:
        """Rows in a message."""
        return self.ticks * self.envs

    @property
    def publications(self) -> float:
        """Publications for each message: one after each answer that led to an update."""
        return min(1.0, self.updates_per_step * self.message_rows)

    @property
    def nodes(self) -> int:
        """Number of nodes with actors."""
        return -(-self.actors // self.actors_per_node) if self.actors_per_node else 1


class Stages(NamedTuple):
    """Seconds that one message takes at each place.

    Attributes:
        actor: Stepping and packing, if the actor has a core.
        send: On the network to the learner.
        write: In the object store of the learner's node.
        learner: Storing, updates, publication.
        fetch: On the network from the learner: the weights, of which each node fetches a version once.
        compute: Processor time of the actor.
    """

    actor: float
    send: float
    write: float
    learner: float
    fetch: float
    compute: float


def stages(setup: Setup) -> Stages:
    """The time of a message at each place."""
    rows, is_remote = setup.message_rows, setup.actors_per_node > 0
    updates = rows * setup.updates_per_step * setup.update
    learner = setup.message + rows * setup.store + updates + setup.publications * setup.publish
    fetched = min(1.0, setup.publications * setup.nodes) * setup.weight_bytes
    sent = setup.message_bytes + rows * setup.row_bytes
    return Stages(
        actor=setup.ticks * setup.tick + setup.actor_message,
        send=is_remote * sent / setup.link,
        write=(sent + setup.publications * setup.weight_bytes) / setup.object_store,
        learner=learner,
        fetch=is_remote * fetched / setup.link,
        compute=setup.ticks * setup.compute + setup.actor_message + setup.gap,
    )


def limits(setup: Setup) -> dict[str, float]:
    """Messages per second that each resource allows. The least of them is the throughput.

    A closed network of queues with constant times of service reaches the bounds of Denning and Buzen 1978 (operational
    analysis, doi:10.1145/356733.356735): each resource serves one message after another, and no message waits for
    others as long as none of them is busy.
    """
    each = stages(setup)
    round_trip = each.actor + setup.latency + each.send + each.write + each.learner + each.fetch
    cores = (setup.nodes if setup.actors_per_node else 1) * setup.cores / setup.slowdown
    found = {
        "actors": min(setup.actors / (each.actor + setup.gap), setup.actors * setup.in_flight / round_trip),
        "learner": 1 / each.learner,
        "object store": 1 / each.write,
    }
    if setup.actors_per_node:
        found["cores"] = cores / each.compute
        found |= {"network, in": 1 / each.send, "network, out": 1 / each.fetch if each.fetch else float("inf")}
    else:
        found["cores"] = cores / (each.compute + each.learner)
    return found


def predict(setup: Setup) -> tuple[float, str]:
    """Steps per second, and the resource that is the bottleneck."""
    found = limits(setup)
    name = min(found, key=found.__getitem__)
    return found[name] * setup.message_rows, name


def knob(setup: Setup, bottleneck: str) -> str:
    """The argument that moves a bottleneck."""
    if bottleneck == "learner":
        rows = setup.message_rows
        parts = {
            "fewer updates_per_step, a faster update: GPU, DDP": rows * setup.updates_per_step * setup.update,
            "a replay actor": rows * setup.store,
            "larger messages, fewer publications": setup.message + setup.publications * setup.publish,
        }
        return max(parts, key=parts.__getitem__)
    return {
        "actors": "more actors",
        "cores": "fewer actors on a node, more nodes",
        "object store": "uint8, smaller observations",
        "network, in": "uint8, smaller observations",
        "network, out": "larger messages, more actors on a node",
    }[bottleneck]


class Server:
    """Cores, or the learner, or one direction of the network: jobs wait in the order of arrival.

    Args:
        simulation: The simulation.
        size: Number of jobs that are served at the same time.
        slowdown: Factor of the time of the job that takes the last place.
    """

    def __init__(self, simulation: "Simulation", size: int = 1, slowdown: float = 1.0) -> None:
        self.simulation, self.free, self.slowdown = simulation, size, slowdown
        self.waiting: deque[Job] = deque()

    def request(self, job: Job) -> None:
        """Call a function as soon as there is room. Its last event calls `release`."""
        self.waiting.append(job)
        self._start()

    def release(self) -> None:
        """End a job."""
        self.free += 1
        self._start()

    def serve(self, seconds: float, then: Job) -> None:
        """Serve a job of some seconds, then call a function."""

        def finish() -> None:
            self.release()
            then()

        self.request(lambda: self.simulation.after(seconds if self.free else seconds * self.slowdown, finish))

    def _start(self) -> None:
        while self.free and self.waiting:
            self.free -= 1
            self.waiting.popleft()()


class Simulation:
    """Actors, cores, network and learner as queues of events. It is deterministic.

    Each step of an actor waits for its environments, then for a core. Messages wait for the network and for the
    learner, which works on one after another. An actor that has an answer fetches the weights and begins again.

    Args:
        setup: The cluster, the task and the knobs.
        spread: The times of environments and of the learner are drawn from `1 - spread` to `1 + spread` times their
            mean, with a fixed seed. The model knows only the means.
    """

    def __init__(self, setup: Setup, spread: float = 0.5) -> None:
        self.setup, self.stages, self.now, self.done = setup, stages(setup), 0.0, 0
        self.spread, self.random = spread, random.Random(0)
        self.events: list[tuple[float, int, Job]] = []
        self.order = itertools.count()
        is_remote = setup.actors_per_node > 0
        self.nodes = [Server(self, setup.cores, setup.slowdown) for _ in range(setup.nodes)]
        self.incoming, self.outgoing, self.memory, self.learner = (Server(self) for _ in range(4))
        self.learner_cores = Server(self, setup.cores, setup.slowdown) if is_remote else self.nodes[0]
        self.requests = [setup.in_flight] * setup.actors
        self.busy = [False] * setup.actors

    def varied(self, seconds: float) -> float:
        """Draw a time."""
        return seconds * self.random.uniform(1 - self.spread, 1 + self.spread)

    def after(self, seconds: float, event: Job) -> None:
        """Call a function after some seconds."""
        heapq.heappush(self.events, (self.now + seconds, next(self.order), event))

    def run(self, messages: int) -> float:
        """Return the messages per second of the second half of so many messages."""
        for i in range(self.setup.actors):
            self.after(self.stages.actor * i / self.setup.actors, lambda i=i: self._begin(i))
        half, begun = messages // 2, 0.0
        while self.done < messages:
            self.now, _, event = heapq.heappop(self.events)
            before = self.done
            event()
            if before < half <= self.done:
                begun = self.now
        return (messages - half) / (self.now - begun)

    def _begin(self, i: int) -> None:
        """An actor starts to work on a request, unless it works on another one."""
        if self.requests[i] and not self.busy[i]:
            self.requests[i] -= 1
            self.busy[i] = True
            self._tick(i, self.setup.ticks)

    def _tick(self, i: int, left: int) -> None:
        if left == 0:
            self._cores(i).serve(self.setup.actor_message, lambda: self._answer(i))
            return
        wait, compute = self.varied(self.setup.tick - self.setup.compute), self.varied(self.setup.compute)
        self.after(wait, lambda: self._cores(i).serve(compute, lambda: self._tick(i, left - 1)))

    def _cores(self, i: int) -> Server:
        return self.nodes[i // self.setup.actors_per_node if self.setup.actors_per_node else 0]

    def _answer(self, i: int) -> None:
        self._cores(i).serve(self.setup.gap, lambda: self._rest(i))
        self.incoming.serve(self.stages.send, lambda: self.memory.serve(self.stages.write, lambda: self._learn(i)))

    def _rest(self, i: int) -> None:
        self.busy[i] = False
        self._begin(i)

    def _learn(self, i: int) -> None:
        self.learner.request(
            lambda: self.learner_cores.serve(self.varied(self.stages.learner), lambda: self._finish(i))
        )

    def _finish(self, i: int) -> None:
        self.done += 1
        self.learner.release()
        self.outgoing.serve(self.stages.fetch, lambda: self.after(self.setup.latency, lambda: self._ask(i)))

    def _ask(self, i: int) -> None:
        self.requests[i] += 1
        self._begin(i)


#: Actors of the table, environments of each, and steps of one update of the workload without replay.
ACTORS, ENVS, ROLLOUT = (10, 100, 1_000), 8, 640
#: Workloads on a task whose steps compute for 5 ms: case of the constants, updates a step, factor of the time of an
#: update, and knobs.
WORKLOADS: dict[str, tuple[str, float, float, dict[str, Any]]] = {
    "SAC, 1 update a step": ("sac", 1.0, 1.0, {}),
    "SAC, 1 update in 16 steps, updates 20 times as fast": ("sac", 1 / 16, 0.05, {}),
    "the same, messages of 1 s": ("sac", 1 / 16, 0.05, {"rows": (1, 1_024), "seconds": 1.0}),
    "the same, 1 update in 256 steps": ("sac", 1 / 256, 0.05, {"rows": (1, 1_024), "seconds": 1.0}),
    "the same, frames": ("sac, frames", 1 / 256, 0.05, {"rows": (1, 1_024), "seconds": 1.0}),
    "IMPALA, 640 steps an update": ("impala", 1 / ROLLOUT, 1.0, {}),
    "IMPALA, 51,200 steps an update, updates 20 times as fast": ("impala", 1 / (80 * ROLLOUT), 80 * 0.05, {}),
}
STEP = 0.005


def newest_constants(path: Path) -> dict[str, dict[str, float]]:
    """The newest constants of each case."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {line["case"]: line["constants"] for line in lines}


def setup_of(
    constants: dict[str, float], *, compute: float = 0.0, wait: float = 0.0, updates_per_step: float, actors: int,
    speedup: float = 1.0, is_on_policy: bool = False, **options: Any,
) -> Setup:  # fmt: skip
    """A setup with measured constants.

    Args:
        constants: Constants of the case.
        compute: Seconds of the processor that a step of an environment takes.
        wait: Seconds that a step of an environment waits.
        updates_per_step: Updates for each row.
        actors: Number of actors.
        speedup: Factor of the time of an update.
        is_on_policy: True if a message is an actor's part of the steps of one update.
        **options: Further fields of `Setup`.
    """
    values = {**constants, "update": constants["update"] * speedup}
    envs = options.setdefault("envs", ENVS)
    if is_on_policy:
        rows = max(1, -(-round(1 / updates_per_step) // (actors * envs))) * envs
        options |= {"rows": (rows, rows), "seconds": 1e9}
    return Setup(
        **values, env_compute=compute, env_wait=wait, updates_per_step=updates_per_step, actors=actors, **options
    )


def workloads(constants: dict[str, dict[str, float]]) -> Iterator[tuple[str, Setup]]:
    """The setups of the table."""
    for (name, (case, rate, speedup, knobs)), actors in itertools.product(WORKLOADS.items(), ACTORS):
        options = {"updates_per_step": rate, "actors": actors, "speedup": speedup, "is_on_policy": case == "impala"}
        yield name, setup_of(constants[case], compute=STEP, **options, **knobs)


def solve(constants: dict[str, dict[str, float]]) -> Iterator[dict[str, Any]]:
    """Model and simulation of the workloads."""
    for name, setup in workloads(constants):
        rate, bottleneck = predict(setup)
        simulated = Simulation(setup).run(messages_of(setup)) * setup.message_rows
        yield {
            "workload": name, "actors": setup.actors, "model": round(rate), "simulation": round(simulated),
            "bottleneck": bottleneck, "helps": knob(setup, bottleneck),
        }  # fmt: skip


def table(path: Path) -> str:
    """The table of a file of `solve`'s results."""
    rows = [TITLES, "| --- " * (TITLES.count("|") - 1) + "|"]
    for line in map(json.loads, path.read_text().splitlines()):
        cells = (
            f"{line['actors']:,} | {line['model']:,} | {line['simulation']:,} | {line['bottleneck']} | {line['helps']}"
        )
        rows.append(f"| {line['workload']} | {cells} |")
    return "\n".join(rows)


def messages_of(setup: Setup) -> int:
    """Messages to simulate, so that each actor sends several."""
    return max(400, 6 * setup.actors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--constants", type=Path, default=RESULTS)
    parser.add_argument("--solved", type=Path, default=RESULTS.with_name("scaling_model.jsonl"), help="written anew")
    parser.add_argument("--measure", action="store_true", help="measure the constants first, and append them")
    parser.add_argument("--runs", action="store_true", help="compare with runs of 1, 2 and 4 actors")
    parser.add_argument("--results", type=Path, default=RESULTS.with_name("scaling_runs.jsonl"))
    parser.add_argument("--seconds", type=float, default=10.0, help="of each of the windows of a run")
    parser.add_argument("--windows", type=int, default=7)
    args = parser.parse_args()
    import scaling_constants  # here, because it imports this file

    if args.measure:
        scaling_constants.measure(args.constants)
    constants = newest_constants(args.constants)
    if args.runs:
        scaling_constants.run(constants, args)
    args.solved.write_text("".join(json.dumps(line) + "\n" for line in solve(constants)))
    print(table(args.solved))
    if args.results.exists():
        print("\n" + scaling_constants.table(args.results))


if __name__ == "__main__":
    main()
