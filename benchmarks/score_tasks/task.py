"""What is to be learnt, and how well. Settings and steps come from the presets of the package."""

import dataclasses
import importlib.util
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import gymnasium

#: `missing_scores.py` copies the presets beside these benchmarks, into the work tree of an older commit.
_COPY = Path(__file__).parents[1] / "zoo" / "presets.py"
_PATH = _COPY if _COPY.exists() else Path(__file__).parents[2] / "pfrl_like" / "zoo" / "presets.py"


def _presets_of_this_tree() -> Any:
    """The module of presets; `missing_scores.py` trains with the library of an older commit, which has other ones."""
    spec = importlib.util.spec_from_file_location("presets_of_this_tree", _PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


presets = _presets_of_this_tree()
#: Settings of training that stand beside those of the parts. The others are the same for all tasks, follow from
#: these, or belong to the environment.
_OF_TRAINING = {"n_envs", "processes", "reward_scale", "lr_hold"}


@dataclasses.dataclass(frozen=True)
class Task:
    """A task, and the agents of one family that learn it.

    Attributes:
        make_env: Makes an environment.
        steps: Steps of training.
        bar: Score to be reached.
        n_seeds: Seeds of each agent, from 0; some may have more.
        agents: Names of the agents.
        env_id: Environment of the presets.
        exceptions: Agent and environment of the presets, by agent, where these are others.
    """

    make_env: Callable[[], gymnasium.Env]
    steps: int
    bar: float
    n_seeds: int
    agents: tuple[str, ...]
    env_id: str
    exceptions: Mapping[str, tuple[str, str]]

    def preset_of(self, name: str) -> tuple[str, str]:
        """Agent and environment of the preset."""
        plain = "sac" if name == "SoftActorCritic" else re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()
        return self.exceptions.get(name, (plain, self.env_id))


def task(
    env_id: str,
    make_env: Callable[[], gymnasium.Env],
    bar: float,
    n_seeds: int,
    agents: tuple[str, ...],
    exceptions: Mapping[str, tuple[str, str]] | None = None,
) -> Task:
    """A task with the steps of the presets, which are the same for all of its agents."""
    without = Task(make_env, 0, bar, n_seeds, agents, env_id, exceptions or {})
    (steps,) = {presets.preset(*without.preset_of(name))["steps"] for name in agents}
    return dataclasses.replace(without, steps=steps)


def nested(
    settings: dict[str, Any], of_parts: Collection[str], groups: Mapping[str, Collection[str]] | None = None
) -> dict[str, Any]:
    """The settings of a preset, as `make_agent` has them: those of the constructor under "agent".

    Args:
        settings: Those of the preset.
        of_parts: Settings of the parts of an agent.
        groups: Names of settings of one part, by the name under which they stand.
    """
    flat = {key: value for key, value in settings.items() if key in _OF_TRAINING or key not in presets.TRAINING}
    result: dict[str, Any] = {"hidden": flat.pop("hidden_sizes")[0]}
    for group, names in (groups or {}).items():
        found = {name: flat.pop(name) for name in names if name in flat}
        result |= {group: found} if found else {}
    beside = {key: flat.pop(key) for key in [*flat] if key in of_parts or key in _OF_TRAINING}
    return {**result, **beside, "agent": flat}
