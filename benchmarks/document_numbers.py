"""Computes the numbers of the documents from the results, and prints what differs.

    python benchmarks/document_numbers.py           # what differs
    python benchmarks/document_numbers.py --write   # writes rows, figures in sentences and scores of presets anew

The documents are the README, the guide, this folder's README and that of the examples. A row with a number is one that
a script prints of the results, or its table is among `UNMEASURED`. Sentences with numbers of the results or of the code
are `SENTENCES`; any other number with a unit, outside of code, is among `SETTINGS`. Presets have scores, too.
"""

import argparse
import contextlib
import functools
import inspect
import io
import itertools
import json
import re
import statistics
import string
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import checkpoint_cost
import distributed_scores
import distributed_speed
import fqe_accuracy
import kill_saves
import numpy as np
import offline_scores
import offline_speed
import ope_coverage
import preset_tables
import scaling_constants
import scaling_model
import score_curve
import score_trials
import scores
import speed
import worker_faults

from pfrl_like import agents, envs, ope
from pfrl_like.export.export_policy import N_INPUTS
from pfrl_like.ope.estimates import FEW_EPISODES
from pfrl_like.optimizers.gradient_step import CHECK_INTERVAL
from pfrl_like.runs import secrets

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PRESETS = ROOT / "pfrl_like" / "zoo" / "presets"
Line = dict[str, Any]

#: Titles of tables that have numbers of which none is measured here.
UNMEASURED = {
    "| area | content |": "names of algorithms, versions",
    "| script | what it shows |": "settings",
    "| in PFRL | here |": "versions",
    "| in d3rlpy | here |": "versions",
    "| figure in `metrics.csv` | large value | what helps |": "settings",
    "| part | limit |": "formulas",
}
#: Titles of tables of distributed training, which `--write` writes anew as a whole.
DISTRIBUTED = (
    distributed_speed.SPEED_TITLES, distributed_speed.OVERHEAD_TITLES, distributed_scores.TITLES, scaling_model.TITLES,
    scaling_constants.TITLES,
)  # fmt: skip
#: Titles of tables of trials, which `--write` writes anew as a whole, too.
TRIALS = (*preset_tables.TITLES, score_trials.TITLES, score_curve.TITLES)
UNIT = r"\d[\d,.]*\*{0,2} (?:%|ms|s|us|seconds|microseconds|minutes|hours|bytes|MB|GB|MiB|steps/s|times)(?!\w)"
#: Numbers with a unit that are settings.
SETTINGS = (
    "5 rounds of 12 s", "five rounds of 20 s", "for 60 s of the processor",
    "120 s in all", "20 s, which bounds its start", "2.5 times the capacity", "95 %",
    "20 times as fast", "waits up to 30 s",
)  # fmt: skip
#: By page; the names are those of `values`.
SENTENCES = {
    "README.md": [
        "`replay_start_size` is {replay_start_size:,} and `target_update_interval` is {target_update_interval:,}",
        "In {below} of all {score_rows} rows at least one seed is below the bar or failed",
    ],
    "docs/guide/agents.md": [
        "After {plain[2]} steps the mean score is {plain[4]} (95 % interval in brackets, {plain[3]} seeds completed). "
        "The lowest score of a seed is {plain[5]}.",
    ],
    "docs/guide/export.md": [
        "for {export_inputs:,} observations",
    ],
    "docs/guide/off-policy-evaluation.md": [
        "with {ope_steps:,} updates",
        "every {fqe_interval} updates (`target_update_interval`)",
        "`n_steps` / {fqe_interval} steps",
        "effective number of episodes is below {few_episodes:.0f}",
    ],
    "docs/guide/processes.md": [
        "`step_timeout` seconds ({step_timeout:.0f})",
    ],
    "docs/guide/replay.md": [
        "a transition of four 84x84 frames takes {frame[pfrl_like]:,.0f} bytes",
    ],
    "docs/guide/trust.md": [
        "at least {shortest_secret} characters",
        "within {check_interval} updates",
    ],
    "docs/guide/speed.md": [
        "A transition of stacked frames takes {frame[pfrl_like]:,.0f} bytes (PFRL's LazyFrames: {frame[pfrl]:,.0f})",
        "{rate[pfrl_like]:.0f} steps/s. PFRL makes {rate[pfrl]:.0f} steps/s (this library is {faster[pfrl]:.2f} times "
        "as fast), stable-baselines3 {rate[stable_baselines3]:.0f} steps/s ({faster[stable_baselines3]:.2f} times)",
        "{bytes[pfrl_like]:,.0f} bytes a transition (PFRL {bytes[pfrl]:,.0f}, stable-baselines3 "
        "{bytes[stable_baselines3]:,.0f})",
        "the memory of the process still grows by {growth[pfrl_like]:.1f} MiB in 10,000 steps",
    ],
    "benchmarks/README.md": [
        "{cluster[actors_killed]} actors were killed in {cluster[killing_seconds]:.0f} s, then the learner, then the "
        "head. Of {cluster[asked]:,} steps that were asked for, {cluster[lost]:,} were lost, and "
        "{cluster[reported]:,} were reported",
        "after {cluster[seconds_to_replace][1]} s (median; {cluster[seconds_to_replace][0]} to "
        "{cluster[seconds_to_replace][2]})",
        "{cluster[recovery_seconds][learner]:.0f} s after the kill of the learner and "
        "{cluster[recovery_seconds][head]:.0f} s after that",
        "successors after {cluster_sac[seconds_to_replace][1]} s (median)",
        "measurements of {gpu_seconds[0]} or {gpu_seconds[1]} s each",
        "{below} of {score_rows} rows have a seed below the bar, or one that failed",
        "in {hopper_n} other settings, it stood at {hopper[0]:.0f} to {hopper[1]:.0f} (one seed each)",
        "{paired} of {trainings} trainings are done in pairs",
        "{missed} of {offline_rows} rows are missed, {so_far} of them with seeds missing",
        "lie between {bc[0]:.0f} and {bc[1]:.0f}, TD3+BC's on its medium data between {td3[0]:.0f} and {td3[1]:,.0f}",
        "ended on HalfCheetah at {cql[0]:.0f} to {cql[1]:.0f} ({cql_n} trainings of both libraries)",
        "17 + 6 floats: {ratio[17 + 6 floats]} times the samples of the buffer in memory, {cost[17 + 6 floats][0]:.0f} "
        "microseconds of the processor an `append` ({cost[17 + 6 floats][1]:.0f} in memory), "
        "{cost[17 + 6 floats][2]:,} bytes a transition on disk",
        "84x84x4 frames: {ratio[84x84x4 frames]} times the samples of the buffer in memory, "
        "{cost[84x84x4 frames][0]:.0f} microseconds of the processor an `append` ({cost[84x84x4 frames][1]:.0f} in "
        "memory), {cost[84x84x4 frames][2]:,} bytes a transition on disk",
        "{runs} runs of {run_agents} agents, killed {kills} times in all at a random step ({how[step]}), time "
        "({how[time]}) or call that changes files ({how[call]}) and started anew with `resume=True`: {well} left "
        "what",
        "`train_agent_with_evaluation` {runner[train_agent_with_evaluation]}, `train_agent_batch_with_evaluation` "
        "in a `SerialVectorEnv` {runner[SerialVectorEnv]}, a `MultiprocessVectorEnv` "
        "{runner[MultiprocessVectorEnv]} and gymnasium's `SyncVectorEnv` in its three modes "
        "{runner[SyncVectorEnv]}, `train_agent_offline` {runner[train_agent_offline]}, `EpochRunner` "
        "{runner[EpochRunner]}. Environments: deterministic {noise[deterministic]}, noise of their own stream "
        "{noise[own stream]}, of the global ones {noise[global streams]}. {went_on} went on from a checkpoint",
        "with a buffer of {first[steps]:,} transitions",
        "are saved in {save[seconds][0]:.1f} to {save[seconds][1]:.1f} s, of which the processor works "
        "{save[cpu][0]:.2f} to {save[cpu][1]:.2f} s; a plain write of as many bytes ({save[MB][0]:.0f} to "
        "{save[MB][1]:.0f} MB) takes {save[plain write][0]:.1f} to {save[plain write][1]:.1f} s. The first save of"
        " the full buffer ({first[MB]:,.0f} MB) takes {first[seconds]:.0f} s (a plain write {first[plain "
        "write]:.0f} s), which a run that saves from the beginning never meets; loading it takes {load[load]:.0f} "
        "s (the processor: {load[cpu]:.0f} s)",
        "{appends:,} appends of each of {soak_kinds} kinds: the persistent buffer grows by {persistent} bytes an "
        "append, the others by {resident:g} resident and at most {allocated} allocated bytes an append",
        "**{cpu_mean:.1f} %** are theirs (mean of {rounds} rounds, standard error {cpu_error:.1f}; {wall_lost:.1f}"
        " % of all wall time together, in which other programs ran, too). By lower quartiles of turns, which leave"
        " out what other programs disturb, it is {quartile_mean:.1f} % ({quartile_error:.1f}). A checkpoint takes "
        "{checkpoint[whole]:.0f} ms (fsync {checkpoint[fsync in all of them]:.0f}) of wall time, the median; a run"
        " took {run_seconds:.1f} s",
        "{faults:,} trials on two cores with a load of {fault_load[0]:.0f} to {fault_load[1]:.0f}: {hangs} hangs, "
        "{left} that left something behind, {wrong} wrong errors, no error later than {latest:.1f} s",
    ],
}


def lines_of(name: str) -> list[Line]:
    return [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text().splitlines()]


def trust(script: str) -> list[Line]:
    return [line for line in lines_of("trust") if line["script"] == script]


def printed(print_table: Callable[[list[Line]], None], lines: list[Line]) -> list[str]:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        print_table(lines)
    return out.getvalue().splitlines()


def gpu_table() -> list[str]:
    rates: dict[str, list[str]] = {}
    for line in lines_of("gpu_speed"):
        rates.setdefault(line["case"], []).append(f"{line['rate']:,.0f}")
    rows = [f"| {case} | {', '.join(measured)} |" for case, measured in rates.items()]
    return ["| steps/s on an NVIDIA H200 | pfrl_like, each measurement |", "| --- | --- |", *rows]


@functools.cache
def measured_tables() -> dict[str, list[str]]:
    """The rows of each table, by its titles, as the results give them today."""
    found = [
        printed(scores.print_table, scores.read_results(RESULTS / "scores.jsonl")),
        printed(offline_scores.print_table, offline_scores.finished(RESULTS / "offline_scores.jsonl", {})),
        speed.table(speed.read_results(RESULTS / "speed.jsonl")),
        offline_speed.table(speed.read_results(RESULTS / "offline_speed.jsonl")),
        ope_coverage.table([line for line in lines_of("ope_coverage") if line.get("seed", 0) == 0]).splitlines(),
        fqe_accuracy.table(lines_of("fqe_accuracy")).splitlines(),
        kill_saves.table(trust("kill_saves.py")),
        worker_faults.table(trust(worker_faults.SCRIPT)),
        gpu_table(),
        preset_tables.trial_table(),
        score_trials.table(lines_of("score_trials")),
        score_curve.table(lines_of("score_curves")),
        preset_tables.score_table(preset_scores()),
        *distributed_tables(),
    ]
    return {titles: rows for titles, _, *rows in found}


def distributed_tables() -> list[list[str]]:
    """The tables of distributed training whose results there are."""
    found = []
    for module in (distributed_speed, distributed_scores):
        if (RESULTS / f"{module.__name__}.jsonl").exists():
            text = module.table(lines_of(module.__name__))
            found += [table.splitlines() for table in text.split("\n\n")]
    for table, name in ((scaling_model.table, "scaling_model"), (scaling_constants.table, "scaling_runs")):
        if (path := RESULTS / f"{name}.jsonl").exists():
            found.append(table(path).splitlines())
    return found


def ends(values: Any) -> tuple[Any, Any]:
    numbers = list(values)
    return min(numbers), max(numbers)


def values(score_rows: list[str], offline_rows: list[str]) -> dict[str, Any]:
    """What `SENTENCES` name, of the results and of the code."""
    of_results = {**of_scores(score_rows), **of_offline_scores(offline_rows), **of_trust(), **of_costs()}
    faults = json.loads((RESULTS / "distributed_faults.json").read_text(encoding="utf-8"))
    return {
        **of_code(),
        **of_speed(),
        **of_results,
        "cluster": faults["disturbed"],
        "cluster_sac": faults["disturbed, SAC"],
    }


def of_code() -> dict[str, Any]:
    def default(function: Callable[..., Any], name: str) -> Any:
        return inspect.signature(function).parameters[name].default

    return {
        **{name: default(agents.DQN, name) for name in ("replay_start_size", "target_update_interval")},
        "ope_steps": default(ope.evaluate_offline, "n_steps"),
        "fqe_interval": default(ope.FQEConfig, "target_update_interval"),
        "step_timeout": default(envs.MultiprocessVectorEnv, "step_timeout"),
        "export_inputs": N_INPUTS, "few_episodes": FEW_EPISODES, "shortest_secret": secrets._SHORTEST,
        "check_interval": CHECK_INTERVAL,
    }  # fmt: skip


def of_speed() -> dict[str, Any]:
    runs, names = lines_of("atari"), ("pfrl_like", "pfrl", "stable_baselines3")
    medians = {
        key: {name: statistics.median(run[key] for run in runs if run["library"] == name) for name in names}
        for key in ("rate", "bytes", "growth")
    }
    frames = [line for line in lines_of("speed") if line["case"] == "frames"][-2 * speed.ROUNDS :]
    disk = lines_of("persistent_speed")
    costs = ("cpu us an append on disk", "cpu us an append in memory", "bytes a transition on disk")
    return {
        **medians,
        "faster": {name: medians["rate"]["pfrl_like"] / rate for name, rate in medians["rate"].items()},
        "frame": {name: max(line["bytes"] for line in frames if line["library"] == name) for name in names[:2]},
        "gpu_seconds": ends(line["seconds"] for line in lines_of("gpu_speed")),
        "ratio": {
            line["case"]: speed.ratio_in_words(line["batches/s on disk"], line["batches/s in memory"]) for line in disk
        },
        "cost": {line["case"]: [line[cost] for cost in costs] for line in disk},
    }


def of_scores(rows: list[str]) -> dict[str, Any]:
    cells = [row.split(" | ") for row in rows]
    lines = [line for line in lines_of("scores") if (line["task"], line["agent"]) == ("hopper", "TD3")]
    hopper = [line["score"] for line in lines if line["settings"] != scores.fingerprint("hopper", "TD3")]
    below = ["failed" in seeds or int(reached.split()[0]) < int(seeds.split()[0]) for *_, seeds, _, _, reached in cells]
    return {
        "below": sum(below), "score_rows": len(rows), "hopper_n": len(hopper), "hopper": ends(hopper),
        "plain": next(row for row in cells if row[:2] == ["| cartpole", "DQN"]),
    }  # fmt: skip


def of_offline_scores(rows: list[str]) -> dict[str, Any]:
    both = offline_scores.pairs(offline_scores.finished(RESULTS / "offline_scores.jsonl", {}))
    of = {True: offline_scores.DISCRETE, False: offline_scores.CONTINUOUS}
    wanted = sum(len(of[discrete]) for _, discrete in offline_scores.DATASETS.values()) * offline_scores.SEEDS
    lines = [line for line in lines_of("offline_scores") if line["algorithm"] == "CQL"]
    cql = [
        line["score"]
        for line in lines
        if line["dataset"] == "halfcheetah-medium-replay" and line["settings"] != offline_scores.fingerprint("CQL", {})
    ]

    def seeds(*row: str) -> tuple[float, float]:
        return ends(pair["pfrl_like"]["score"] for key, pair in both.items() if key[:2] == row)

    return {
        "paired": 2 * sum(seed < offline_scores.SEEDS for *_, seed in both), "trainings": 2 * wanted,
        "missed": sum("| missed" in row for row in rows), "so_far": sum("| missed so far" in row for row in rows),
        "offline_rows": len(rows), "cql": ends(cql), "cql_n": len(cql),
        "bc": seeds("hopper-medium-replay", "BC"), "td3": seeds("hopper-medium", "TD3PlusBC"),
    }  # fmt: skip


def of_trust() -> dict[str, Any]:
    runs, trials = trust("kill_training.py"), trust(worker_faults.SCRIPT)
    how = Counter(kind for line in runs for kind, _ in line["kills"])
    return {
        "runs": len(runs), "run_agents": len({line["parts"][0] for line in runs}), "kills": how.total(), "how": how,
        "well": sum(not line["wrong"] for line in runs), "went_on": sum(bool(line["went_on"]) for line in runs),
        **{name: Counter(line[name] for line in runs) for name in ("runner", "noise")},
        **{name: sum(bool(line.get(name)) for line in trials) for name in ("hangs", "left", "wrong")},
        "faults": len(trials), "fault_load": ends(line["load"] for line in trials),
        "latest": max(line["ended_after"] for line in trials),
    }  # fmt: skip


def of_costs() -> dict[str, Any]:
    first, *saves, load = trust("increment_cost.py")
    grown = {
        line["kind"]: [line[f"{name} bytes an append"] for name in ("resident", "allocated")]
        for line in trust("soak.py")
    }
    persistent = max(grown.pop("persistent"))
    rounds = trust("checkpoint_cost.py")
    told = checkpoint_cost.summary(rounds, "cartpole 64x64")
    cpu, quartile = (np.array(told[f"cpu, both, % lost{kind}"]) for kind in ("", ", lower quartiles"))
    wall = {which: [line["wall, s"][which] for line in rounds] for which in ("both", "neither")}
    return {
        "first": first, "load": load, "save": {name: ends(line[name] for line in saves) for name in first},
        "appends": trust("soak.py")[0]["appends"], "soak_kinds": len(grown) + 1, "persistent": persistent,
        "resident": max(each for each, _ in grown.values()), "allocated": max(each for _, each in grown.values()),
        "rounds": len(rounds), "cpu_mean": cpu.mean(), "quartile_mean": quartile.mean(),
        "cpu_error": cpu.std(ddof=1) / len(rounds) ** 0.5, "quartile_error": quartile.std(ddof=1) / len(rounds) ** 0.5,
        "wall_lost": 100 * (1 - sum(wall["neither"]) / sum(wall["both"])),
        "run_seconds": statistics.median(wall["both"]), "checkpoint": told["wall, ms of a checkpoint"],
    }  # fmt: skip


def numbers(text: str) -> list[float]:
    """Those of a text that stand outside of code and names."""
    found = re.findall(r"(?<![\w.-])-?\d[\d,]*(?:\.\d+)?", re.sub(r"`[^`]*`", "", text))
    return [float(each.replace(",", "")) for each in found]


def tables(text: str) -> Iterator[tuple[str, list[str]]]:
    """The titles and the rows of each table."""
    for block in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        titles, _, *rows = block.splitlines()
        yield titles, rows


def wrong_rows(page: str, text: str, measured: dict[str, list[str]]) -> Iterator[str]:
    every = [row for rows in measured.values() for row in rows]
    shown: dict[str, list[str]] = {}
    for titles, rows in tables(text):
        shown.setdefault(titles, []).extend(rows)
        for row in filter(numbers, rows):
            if titles in measured:  # the README has some of the rows, and not the last column
                there = any(each.startswith(row) for each in every) if page == "README.md" else row in measured[titles]
            else:
                there = titles in UNMEASURED
            if not there:
                yield f"{page}: no result gives the row {row}"
    if page != "README.md":
        lacking = (row for titles in shown.keys() & measured for row in {*measured[titles]} - {*shown[titles]})
        yield from (f"{page} lacks the row {row}" for row in lacking)


def wrong_sentences(page: str, text: str, known: dict[str, Any]) -> Iterator[str]:
    prose = " ".join(re.sub(r"^(?:\|| {4}).*\n", "", text, flags=re.MULTILINE).split())
    for sentence in (each.format(**known) for each in SENTENCES.get(page, [])):
        if sentence not in prose:
            yield f"{page} does not say: {sentence}"
        prose = prose.replace(sentence, "")
    for setting in SETTINGS:
        prose = prose.replace(setting, "")
    yield from (f"{page}: no result gives {each}" for each in re.findall(UNIT, re.sub(r"`[^`]*`", "", prose)))


def pages() -> dict[str, str]:
    """The text of each document, without its blocks of code."""
    paths = [ROOT / "README.md", ROOT / "benchmarks/README.md", *(ROOT / "docs/guide").glob("*.md")]
    block = re.compile(r"^```.*?^```\n", re.MULTILINE | re.DOTALL)
    every = [*paths, ROOT / "examples/README.md"]  # those of reproductions are held by the tests of the examples
    return {path.relative_to(ROOT).as_posix(): block.sub("", path.read_text(encoding="utf-8")) for path in every}


def differences(documents: dict[str, str]) -> list[str]:
    """What documents say and the results do not, and the other way round."""
    measured = measured_tables()
    score_rows, offline_rows, *_ = measured.values()
    known = values(score_rows, offline_rows)
    found: list[str] = []
    for page, text in documents.items():
        found += [*wrong_rows(page, text, measured), *wrong_sentences(page, text, known)]
    return found


def with_rows(page: str, text: str, measured: dict[str, list[str]]) -> str:
    """The text with today's rows of the tables of scores; a row is known by its first two cells."""
    for titles, rows in tables(text):
        if titles in [*measured][:2]:
            today = {tuple(row.split(" | ")[:2]): row for row in measured[titles]}
            shown = [tuple(row.split(" | ")[:2]) for row in rows] if page == "README.md" else [*today]
            text = text.replace("\n".join(rows), "\n".join(today[key] for key in shown))
        elif titles in measured and titles in (*TRIALS, *DISTRIBUTED):
            rule = "| --- " * (titles.count("|") - 1) + "|"
            table = "\n".join([titles, rule, *measured[titles]]) + "\n"
            text = re.sub(re.escape(titles) + r"\n(?:\|.*\n)*", lambda _, table=table: table, text)
    return text


def with_figures(sentence: str, text: str, known: dict[str, Any]) -> str:
    """The text with today's figures in a sentence of `SENTENCES`, wherever its lines end."""
    pattern, today = "", []
    for words, name, spec, _ in string.Formatter().parse(sentence):
        pattern += "(" + r"\s+".join(map(re.escape, re.split(r"\s+", words))) + ")"
        if name is not None:
            pattern += r"(?<![\w.,])-?\d(?:[\d.,]*\d)?(?: \[[^\]]*\])?"  # a number, and the interval of a ratio
            today.append(f"{{{name}:{spec}}}".format(**known))

    def renewed(found: re.Match[str]) -> str:
        return "".join(itertools.chain(*itertools.zip_longest(found.groups(), today, fillvalue="")))

    return re.sub(pattern, renewed, text, count=1)


def preset_scores() -> dict[str, str]:
    """The score of each preset as the results give it today, by the first line of its table."""
    found: dict[str, str] = {}
    results = scores.read_results(RESULTS / "scores.jsonl")
    for task, name in ((task, name) for task, each in scores.TASKS.items() for name in each.agents):
        lines = [line for line in results if (line["task"], line["agent"]) == (task, name)]
        values = np.array([line["score"] for line in lines if "error" not in line])
        if len(values) > 0:
            agent, env_id = scores.TASKS[task].preset_of(name)
            mean, low, high = scores.mean_and_interval(values)
            failed = f", failed = {len(lines) - len(values)}" if len(lines) > len(values) else ""
            found[f'["{env_id}".{agent}]'] = (
                f'score = {{ task = "{task}", agent = "{name}", mean = {mean:.1f}, low = {low:.1f}, high = {high:.1f}, '
                f"seeds = {len(values)}{failed} }}"
            )
    return found | preset_tables.scores_by_make()


def with_scores(text: str, today: dict[str, str]) -> str:
    """A file of presets with today's scores; tables that it lacks, of its environments, are added."""
    text = re.sub(r"^score = .*\n", "", text, flags=re.MULTILINE)
    scored = {f"{table}\n": f"{table}\n{score}\n" for table, score in today.items()}
    text = re.sub(r"^\[.*\]\n", lambda found: scored.get(found[0], found[0]), text, flags=re.MULTILINE)
    tables = {line for line in text.splitlines() if line.startswith("[")}
    environments = {table.rpartition(".")[0] for table in tables}
    lacking = [table for table in today if table not in tables and table.rpartition(".")[0] in environments]
    return text + "".join(f"\n{table}\n{today[table]}\n" for table in lacking)


def with_results(text: str, today: dict[str, str]) -> str:
    """A file of presets with today's scores, and the settings of the best trials."""
    return with_scores(preset_tables.with_settings(text, preset_tables.new_settings()), today)


def wrong_scores(files: dict[str, str]) -> list[str]:
    """Files of presets whose scores, or settings chosen by trials, are not today's."""
    today = preset_scores()
    return [f"{name}: scores are not today's" for name, text in files.items() if with_results(text, today) != text]


def preset_files() -> dict[str, str]:
    """The text of each file of presets that has scores."""
    paths = [path for path in sorted(PRESETS.glob("*.toml")) if path.stem != "offline"]
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def write() -> None:
    """Write the rows of scores, the figures in sentences and the scores of presets anew."""
    today = preset_scores()
    for name, text in preset_files().items():
        (PRESETS / name).write_text(with_results(text, today), encoding="utf-8")
    measured = measured_tables()
    score_rows, offline_rows, *_ = measured.values()
    known = values(score_rows, offline_rows)
    for page in pages():
        before = (ROOT / page).read_text(encoding="utf-8")
        text = with_rows(page, before, measured)
        for sentence in SENTENCES.get(page, []):
            text = with_figures(sentence, text, known)
        if text != before:
            (ROOT / page).write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write them anew")
    if parser.parse_args().write:
        write()
    if found := [*differences(pages()), *wrong_scores(preset_files())]:
        sys.exit("\n".join(found))
    print("all numbers are those of the results")


if __name__ == "__main__":
    main()
