"""`benchmarks/scaling_model.py`: the model, and the simulation that checks it."""

import dataclasses
from typing import Any

import pytest

#: One environment an actor, a message of 10 steps of 0.01 s, and a learner that takes 0.001 s for a message.
SIMPLE: dict[str, Any] = {
    "env_compute": 0.01, "env_wait": 0.0, "act": 0.0, "actor_message": 0.0, "gap": 0.0, "latency": 0.0,
    "message": 0.001, "store": 0.0, "update": 0.0, "publish": 0.0, "row_bytes": 100.0,
    "message_bytes": 0.0, "weight_bytes": 1e6, "updates_per_step": 0.0, "actors": 2, "envs": 1, "rows": (1, 10),
    "seconds": 0.1, "in_flight": 1,
}  # fmt: skip
#: Changes of `SIMPLE`, the bottleneck that they lead to, and steps per second by hand.
CASES: list[tuple[dict[str, Any], str, float]] = [
    ({}, "actors", 2 * 10 / (0.1 + 0.001 + 1e-6 + 8e-7)),
    ({"in_flight": 2}, "actors", 2 * 10 / 0.1),
    ({"in_flight": 2, "gap": 0.025}, "actors", 2 * 10 / 0.125),
    ({"actors": 200}, "learner", 10 / 0.001),
    ({"actors": 200, "actors_per_node": 100, "cores": 10}, "cores", 2 * 10 / 0.01),
    ({"actors": 4, "actors_per_node": 0, "cores": 2}, "cores", 2 * 10 / 0.101),
    ({"actors": 4, "actors_per_node": 0, "cores": 2, "slowdown": 1.25}, "cores", 2 * 10 / (1.25 * 0.101)),
    ({"actors": 100, "row_bytes": 1e7}, "object store", 1e9 / 1e7),
    ({"actors": 100, "row_bytes": 1e7, "object_store": 1e12}, "network, in", 1.25e9 / 1e7),
    ({"actors": 100, "update": 1e-9, "updates_per_step": 1.0, "object_store": 1e12, "weight_bytes": 1e8},
     "network, out", 10 * 1.25e9 / 1e8),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "bottleneck", "rate"), CASES)
def test_the_model_names_the_bottleneck_and_the_simulation_agrees(
    script: Any, changes: dict[str, Any], bottleneck: str, rate: float
) -> None:
    module = script("scaling_model")
    setup = module.Setup(**SIMPLE | changes)
    assert module.predict(setup) == (pytest.approx(rate, rel=1e-3), bottleneck)
    assert module.knob(setup, bottleneck)
    simulated = module.Simulation(setup).run(4 * max(setup.actors, 100)) * setup.message_rows
    assert simulated == pytest.approx(rate, rel=0.1)


def test_messages_have_the_size_of_the_runner(script: Any) -> None:
    from pfrl_like.experiments.cluster.source import MessageSize

    module = script("scaling_model")
    for rows, envs, seconds in (((1, 32), 8, 0.05), ((1, 32), 4, 0.001), ((8, 256), 3, 1.0)):
        setup = module.Setup(**SIMPLE | {"rows": rows, "envs": envs, "seconds": seconds})
        assert setup.ticks == MessageSize(seconds, *rows).ticks(envs, setup.tick)


def test_more_actors_are_never_slower_and_the_simulation_is_deterministic(script: Any) -> None:
    module = script("scaling_model")
    setups = [dataclasses.replace(module.Setup(**SIMPLE), actors=n) for n in (1, 2, 4, 8, 16)]
    rates = [module.predict(setup)[0] for setup in setups]
    assert rates == sorted(rates)
    assert module.Simulation(setups[2]).run(200) == module.Simulation(setups[2]).run(200)
