"""Which arguments of `train_agent_async` fit, so that none of the others is first heard of from another process."""

from collections.abc import Iterable, Sequence
from typing import Any

from pfrl_like.utils.checks import check_counts

#: What trains an agent that has a method.
_RUNNERS = {
    "setup_actor_learner_training": "train_agent_actor_learner",
    "batch_act": "train_agent_batch",
    "act": "train_agent",
}


def check_async_parts(agent: Any, make_agent: Any, make_env: Any, stop_event: Any, exception_event: Any) -> None:
    """Refuse what is no such part; arguments as of `train_agent_async`.

    Raises:
        TypeError: If one is something else.
        ValueError: If not exactly one of `agent` and `make_agent` is given.
    """
    parts = [
        ("make_env", make_env, callable(make_env), "a function of (process index, test)"),
        ("make_agent", make_agent, make_agent is None or callable(make_agent), "a function of the process index"),
        ("agent", agent, agent is None or (hasattr(agent, "act") and hasattr(agent, "observe")), "an agent"),
        *(
            (name, event, event is None or (hasattr(event, "is_set") and hasattr(event, "set")), "an event, or None")
            for name, event in (("stop_event", stop_event), ("exception_event", exception_event))
        ),
    ]
    for name, part, fits, expected in parts:
        if not fits:
            raise TypeError(f"{name} is {part!r:.80} ({type(part).__name__}), expected {expected}")
    if (agent is None) == (make_agent is None):
        raise ValueError(f"agent is {agent!r:.80} and make_agent is {make_agent!r:.80}, expected exactly one of them")


def check_shares(agent: Any, name: str) -> None:
    """Refuse an agent of which the processes would share nothing, so that none would learn from the others.

    Args:
        agent: The agent.
        name: What it comes from, as the error calls it.

    Raises:
        TypeError: If it does not name what it shares; what trains it is told.
    """
    if hasattr(agent, "shared_attributes"):
        return
    runners = [runner for method, runner in _RUNNERS.items() if hasattr(agent, method)]
    raise TypeError(
        f"{name} is a {type(agent).__name__}, which has no shared_attributes: each process would train a copy of its "
        "own. Agents that processes train together are A3C, ACER, and those that name what they share "
        f"(AsyncAgent.shared_attributes). Train this one with {' or '.join(runners)}; use_shared_memory=False trains "
        "the copies by themselves, and saves that of process 0"
    )


def seeds_of_processes(random_seeds: Any, processes: int) -> Sequence[int]:
    """The seed of each process: those given, or 0, 1, ...

    Raises:
        TypeError: If they are no integers.
        ValueError: If there is another number of them, or one is out of range.
    """
    if random_seeds is None:
        return range(processes)
    if not isinstance(random_seeds, Iterable):
        raise TypeError(f"random_seeds is {random_seeds!r}, expected one for each of {processes} processes, or None")
    seeds = list(random_seeds)
    if len(seeds) != processes:
        raise ValueError(f"random_seeds has {len(seeds)} seeds for {processes} processes, expected one for each")
    check_counts(0, False, **{f"random_seeds[{i}]": seed for i, seed in enumerate(seeds)})
    if max(seeds) >= 2**32:
        raise ValueError(f"random_seeds holds {max(seeds)}, expected integers below 2**32")
    return [int(seed) for seed in seeds]
