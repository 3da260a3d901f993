"""Presets: settings of builders, agents and training for each agent and environment, from the files in `presets/`.

A file has the settings of a family of tasks, `defaults.toml` those of all other tasks. A table has the settings of a
group of agents, or of one agent, in all tasks of the family or in one. Beside settings a table has notes: `source`, a
publication or script; `like`, another table of the file, whose settings it takes first; and `score`, a result of
`benchmarks/scores.py` or `benchmarks/preset_scores.py`. A preset with a score is tuned, all others are untuned.

The module imports nothing of the package, so that scripts can read presets beside another version of it.
"""

import copy
import dataclasses
import fnmatch
import functools
import re
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pfrl_like.zoo.builder import Spaces

Table = dict[str, Any]

_FOLDER = Path(__file__).parent


def _read(path: str) -> Table:
    return tomllib.loads((_FOLDER / f"{path}.toml").read_text(encoding="utf-8"))


#: Agents of each group, and their descriptions.
GROUPS: dict[str, dict[str, Table]] = _read("agents")
_TRAINING = _read("training")
#: Settings of training, with their values where no preset has another one.
TRAINING: Table = {name: None if value == "None" else value for name, value in _TRAINING["settings"].items()}
#: Runners that read a setting of training. All runners read the others.
READ_BY: dict[str, list[str]] = _TRAINING["read_by"]
_NOTES = ("source", "like", "score")


@dataclasses.dataclass(frozen=True)
class Description:
    """A row of the list of presets.

    Attributes:
        env_id: Environment, or the patterns of a family of environments.
        agent: Name of the agent.
        is_tuned: True if there are scores of these settings.
        score: Score with its interval, seeds and command. Empty if there is none.
        source: Publication or script that the settings are from.
    """

    env_id: str
    agent: str
    is_tuned: bool
    score: str
    source: str


def preset(agent: str, env_id: str | None, spaces: "Spaces | None" = None, without: Collection[str] = ()) -> Table:
    """Return the settings of an agent for an environment: those of its builder, its constructor, and of `TRAINING`.

    Settings of the agent's group come first, then those of the agent; in both those of `defaults.toml`, then of the
    family of tasks, then of the task. A later setting replaces an earlier one. Another version of a known environment
    has the settings of the known one.

    Args:
        agent: Name of the agent, one of `GROUPS`.
        env_id: Id of the environment. A variant is named after "@", for example "Hopper-v5@100k". None if the
            environment has no id.
        spaces: Spaces of the environment, which tell images from vectors if the environment is not known. None for
            vectors.
        without: Settings that are left out of the agent's own table of the environment. Those of other tables replace
            them.

    Raises:
        ValueError: If there is no such agent or variant.
    """
    merged = copy.deepcopy(_merged(agent, env_id, spaces, without))
    return {key: value for key, value in merged.items() if key not in _NOTES}


def score_of(agent: str, env_id: str | None) -> dict[str, Any] | None:
    """Return the score of a preset. If the preset is untuned, return None.

    The score has the keys `mean`, `low` and `high` (its 95 % interval), `seeds`, and `failed` if training failed with
    some seeds. It is that of `command`, or of `task` and `agent` of `benchmarks/scores.py`.

    Args:
        agent: Name of the agent.
        env_id: Id of the environment, as for `preset`.
    """
    found = _family(agent, env_id).get(env_id or "", {}).get(agent, {}).get("score")
    return None if found is None else dict(found)


def is_tuned(agent: str, env_id: str | None) -> bool:
    """Return True if there are scores of the preset of the agent for this very environment, see `score_of`."""
    return score_of(agent, env_id) is not None


def is_atari(env_id: str) -> bool:
    """True if an id is that of a game of the Arcade Learning Environment."""
    return any(fnmatch.fnmatchcase(env_id, pattern) for pattern in _file("atari")["ids"])


def preset_names() -> list[tuple[str, str]]:
    """Return (environment, agent) of every preset. A family of environments is named by its patterns."""
    return [(env_id, agent) for env_id, _, agent in _named()]


def describe() -> list[Description]:
    """Return a row for every preset, in the order of `preset_names`."""
    rows = []
    for shown, env_id, agent in _named():
        score = score_of(agent, env_id)
        text = "" if score is None else _score_text(score)
        rows.append(Description(shown, agent, is_tuned(agent, env_id), text, _merged(agent, env_id, None)["source"]))
    return rows


def _score_text(score: Table) -> str:
    failed = f", {score['failed']} failed" if "failed" in score else ""
    command = score.get("command") or f"python benchmarks/scores.py --task {score['task']} --agent {score['agent']}"
    return f"{score['mean']} [{score['low']}, {score['high']}], {score['seeds']} seeds{failed}: {command}"


def _named() -> Iterator[tuple[str, str, str]]:
    """Yield (environment as shown, environment, agent) of every preset."""
    for tables in map(_file, (*_families(), "offline")):
        for env_id in [key for key, value in tables.items() if isinstance(value, dict)]:
            is_family = env_id == "family"
            shown, any_id = (", ".join(tables["ids"]), tables["ids"][0]) if is_family else (env_id, env_id)
            for group, names in GROUPS.items():
                yield from ((shown, any_id, name) for name in names if {name, group} & tables[env_id].keys())


def _merged(agent: str, env_id: str | None, spaces: "Spaces | None", without: Collection[str] = ()) -> Table:
    """Return settings and notes of an agent for an environment. For `without`, see `preset`."""
    defaults, family = _file("defaults"), _family(agent, env_id)
    kind = family.get("kind") or _kind(spaces)
    task = _task(agent, family, env_id)
    task = task | {agent: {key: value for key, value in task.get(agent, {}).items() if key not in without}}
    merged: Table = {"source": family.get("source", defaults["source"])}
    for name in (_group_of(agent), agent):
        for section in (defaults["all"], defaults[kind], family.get("family", {}), task):
            merged |= section.get(name, {})
    return merged


def heads_of(group: str) -> dict[str, Any]:
    """Return the last layers of the policies of a group of agents, keyed by the names of their classes."""
    return {table["class"]: table["head"] for table in GROUPS[group].values() if "head" in table}


def _group_of(agent: str) -> str:
    for group, names in GROUPS.items():
        if agent in names:
            return group
    known = [name for names in GROUPS.values() for name in names]
    raise ValueError(f"agent is {agent!r}, expected one of {', '.join(known)}")


def _family(agent: str, env_id: str | None) -> Table:
    """Return the file of the family that an environment belongs to. Without one, return an empty dict."""
    if _group_of(agent) == "offline":
        return _file("offline")
    for family in map(_file, _families()):
        if any(fnmatch.fnmatchcase(env_id or "", pattern) for pattern in family["ids"]):
            return family
    return {}


def _task(agent: str, family: Table, env_id: str | None) -> Table:
    """Return the tables of a task: those of the environment itself, or of another version of it."""
    tables: Table = family.get(env_id or "", {})
    if env_id is None or tables and ("@" not in env_id or {agent, _group_of(agent)} & tables.keys()):
        return tables
    if "@" in env_id:
        known = [key for key, section in family.items() if "@" in key and agent in section]
        raise ValueError(f"env_id is {env_id!r}; {agent} has the variants {', '.join(known) or 'none'}")
    versionless = re.compile(re.escape(re.sub(r"-v\d+$", "", env_id)) + r"-v\d+")
    return next((table for key, table in family.items() if versionless.fullmatch(key)), {})


def _kind(spaces: "Spaces | None") -> str:
    """Return "image" if observations are or contain an array of three axes, otherwise "vector"."""

    def has_image(space: Any) -> bool:
        if hasattr(space, "spaces"):
            return any(map(has_image, getattr(space.spaces, "values", lambda: space.spaces)()))
        return space.shape is not None and len(space.shape) == 3

    return "image" if spaces is not None and has_image(spaces.obs) else "vector"


@functools.cache
def _families() -> tuple[str, ...]:
    """Return the names of the files of families of environments."""
    return tuple(
        path.stem for path in sorted((_FOLDER / "presets").glob("*.toml")) if path.stem not in ("defaults", "offline")
    )


@functools.cache
def _file(name: str) -> Table:
    """Return a file of presets, in which no table refers to another one by `like`."""
    sections = _read(f"presets/{name}")

    def whole(table: Table) -> Table:
        if "like" not in table:
            return table
        section, _, other = table["like"].rpartition(".")
        return {key: value for key, value in whole(sections[section][other]).items() if key != "score"} | table

    return {
        key: {agent: whole(table) for agent, table in section.items()} if isinstance(section, dict) else section
        for key, section in sections.items()
    }
