"""What is to be learnt, and how well."""

import dataclasses
from collections.abc import Callable

import gymnasium


@dataclasses.dataclass(frozen=True)
class Task:
    """A task, and the agents of one family that learn it.

    Attributes:
        make_env: Makes an environment.
        steps: Steps of training.
        bar: Score to be reached.
        n_seeds: Seeds of each agent, from 0; some may have more.
        agents: Names of the agents.
    """

    make_env: Callable[[], gymnasium.Env]
    steps: int
    bar: float
    n_seeds: int
    agents: tuple[str, ...]
