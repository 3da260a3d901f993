"""The results of `preset_scores.py` in the files of presets, and the table of presets with scores.

`document_numbers.py` compares and writes them.
"""

import tomllib
from typing import Any

import preset_scores

from pfrl_like.cli.toml_values import to_toml

#: Of the tables of trials and of scores.
TITLES = (
    preset_scores.TITLES,
    "| environment | agent | mean score of the preset [95 %] | seeds | script |",
)


def header(agent: str, env_id: str) -> str:
    """The first line of the table of a preset."""
    return f'["{env_id}".{agent}]'


def scores_by_make() -> dict[str, str]:
    """The score of each preset whose seeds are complete, as TOML, by the first line of its table."""
    lines, found = preset_scores.read_results(preset_scores.RESULTS), {}
    for agent, env_id in preset_scores.scored(lines):
        score = preset_scores.score_of(lines, agent, env_id)
        if score is not None:
            score["command"] = f"python benchmarks/preset_scores.py --agent {agent} --env {env_id}"
            cells = (f"{name} = {to_toml(value)}" for name, value in score.items())
            found[header(agent, env_id)] = f"score = {{ {', '.join(cells)} }}"
    return found


def new_settings() -> dict[str, dict[str, Any]]:
    """Of each preset the settings of its best trial that it lacks, by the first line of its table."""
    lines, found = preset_scores.read_results(preset_scores.RESULTS), {}
    for agent, env_id in preset_scores.pairs():
        trial = preset_scores.chosen(lines, agent, env_id)
        now = preset_scores.settings_of(agent, env_id, {})
        changes = {} if trial is None else trial.changes
        lacking = {name: value for name, value in changes.items() if name not in now or now[name] != value}
        found |= {header(agent, env_id): lacking} if lacking else {}
    return found


def with_settings(text: str, wanted: dict[str, dict[str, Any]]) -> str:
    """A file of presets with settings in its tables; tables that it lacks, of its environments, are added."""
    environments = {line.rpartition(".")[0] for line in text.splitlines() if line.startswith("[")}
    for table, settings in wanted.items():
        if table.rpartition(".")[0] in environments:
            text = _with_table(text, table, settings)
    return text


def _with_table(text: str, table: str, settings: dict[str, Any]) -> str:
    if f"{table}\n" not in text:
        text += f"\n{table}\n"
    before, _, rest = text.partition(f"{table}\n")
    block, blank, after = rest.partition("\n\n")
    kept = [line for line in block.splitlines() if line.split(" = ")[0] not in settings]
    written = [f"{name} = {to_toml(value)}" for name, value in settings.items()]
    end = blank if blank else "\n"
    return before + "\n".join([table, *kept, *written]) + end + after


def trial_table() -> list[str]:
    """The trials that have been trained, and which of them have become presets."""
    return preset_scores.table(preset_scores.read_results(preset_scores.RESULTS))


def score_table(today: dict[str, str]) -> list[str]:
    """The presets with scores.

    Args:
        today: The score of each, as TOML, by the first line of its table.
    """
    rows = [TITLES[1], "| --- " * 5 + "|"]
    for table, text in sorted(today.items()):
        ((env_id, agents),) = tomllib.loads(f"{table}\n{text}").items()
        ((agent, preset),) = agents.items()
        score = preset["score"]
        failed = f", {score['failed']} failed" if "failed" in score else ""
        script = "scores.py" if "task" in score else "preset_scores.py"
        interval = f"{score['mean']:.1f} [{score['low']:.1f}, {score['high']:.1f}]"
        rows.append(f"| {env_id} | {agent} | {interval} | {score['seeds']}{failed} | `{script}` |")
    return rows
