"""`benchmarks/preset_scores.py`: which trainings are missing, and how their results become presets."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from cli_parts import Patch

from pfrl_like.zoo.agents import AGENTS
from pfrl_like.zoo.presets import TRAINING

AGENT, ENV_ID = "munchausen_dqn", "CartPole-v1"
FEW_STEPS = {"steps": 150, "replay_start_size": 100, "hidden_sizes": [8], "eval_n_episodes": 1}


@pytest.fixture
def preset_scores(script: Any, monkeypatch: Patch) -> Any:
    """The script, with two trials."""
    module = script("preset_scores")
    trials = tuple(module.Trial(AGENT, ENV_ID, f"{n} steps", {"num_steps": n}) for n in (3, 1))
    monkeypatch.setattr(module, "TRIALS", trials)
    monkeypatch.setattr(module, "WITHOUT_TRIALS", ())
    return module


def line_of(job: Any, **told: Any) -> dict[str, Any]:
    return job.metadata() | ({} if "error" in told else {"score": 1.0}) | {"cpu_seconds": 100.0} | told


def trial_lines(module: Any, *scores: float | str) -> list[dict[str, Any]]:
    """Lines of each trial in turn, with one score for all seeds; a text is an error."""
    return [
        line_of(
            module.Job(trial.agent, trial.env_id, seed, trial.name, trial.changes),
            **({"error": score} if isinstance(score, str) else {"score": score}),
        )
        for trial, score in zip(module.TRIALS, scores, strict=False)
        for seed in module.TRIAL_SEEDS
    ]


def score_lines(module: Any, changes: dict[str, Any], *scores: float) -> list[dict[str, Any]]:
    return [line_of(module.Job(AGENT, ENV_ID, seed, None, changes), score=score) for seed, score in enumerate(scores)]


def test_trials_come_first_and_the_best_of_them_is_scored(preset_scores: Any) -> None:
    wanted = [(AGENT, ENV_ID)]
    jobs = preset_scores.missing([], wanted)
    assert [(job.trial, job.seed) for job in jobs][:4] == [
        ("3 steps", 100), ("3 steps", 101), ("3 steps", 102), ("1 steps", 100)
    ]  # fmt: skip
    lines = trial_lines(preset_scores, 400.0, 500.0)
    jobs = preset_scores.missing(lines, wanted)
    assert [(job.trial, job.seed, job.changes) for job in jobs] == [(None, seed, {"num_steps": 1}) for seed in range(3)]
    assert preset_scores.missing([*lines, *score_lines(preset_scores, {"num_steps": 1}, 1.0, 2.0, 3.0)], wanted) == []


def test_one_trial_alone_and_a_preset_without_trials_are_scored_at_once(preset_scores: Any, monkeypatch: Patch) -> None:
    monkeypatch.setattr(preset_scores, "TRIALS", preset_scores.TRIALS[1:])
    jobs = preset_scores.missing([], [(AGENT, ENV_ID), ("dqn", "Acrobot-v1")])
    assert [(job.agent, job.trial, job.seed, job.changes) for job in jobs] == [
        *((AGENT, None, seed, {"num_steps": 1}) for seed in range(3)),
        *(("dqn", None, seed, {}) for seed in range(3)),
    ]


def test_trial_of_which_seeds_failed_is_not_trained_again_and_comes_last(preset_scores: Any) -> None:
    lines = trial_lines(preset_scores, 400.0, "ValueError: NaN")
    assert preset_scores.chosen(lines, AGENT, ENV_ID).name == "3 steps"
    assert all(job.trial is None for job in preset_scores.missing(lines, [(AGENT, ENV_ID)]))
    assert preset_scores.chosen(lines[1:], AGENT, ENV_ID) is None  # a seed is missing


def test_last_of_equal_trials_is_chosen(preset_scores: Any) -> None:
    assert preset_scores.chosen(trial_lines(preset_scores, 500.0, 500.0), AGENT, ENV_ID).name == "1 steps"


def test_lines_of_changed_trials_and_of_other_settings_do_not_count(preset_scores: Any) -> None:
    lines = trial_lines(preset_scores, 400.0, 500.0)
    lines[0]["changes"] = {"num_steps": 2}
    assert [job.seed for job in preset_scores.missing(lines, [(AGENT, ENV_ID)]) if job.trial] == [100]
    of_others = score_lines(preset_scores, {"num_steps": 2}, 1.0, 2.0, 3.0)
    assert preset_scores.score_lines(of_others, AGENT, ENV_ID) == []
    as_it_is = score_lines(preset_scores, {}, 1.0)
    assert preset_scores.score_lines(as_it_is, AGENT, ENV_ID) == as_it_is


def test_trials_of_an_edited_preset_are_stale_and_the_table_says_so(preset_scores: Any, monkeypatch: Patch) -> None:
    lines, preset = trial_lines(preset_scores, 400.0, 500.0), preset_scores.presets.preset
    assert "earlier" not in "".join(preset_scores.table(lines))
    monkeypatch.setattr(preset_scores.presets, "preset", lambda *a, **k: preset(*a, **k) | {"gamma": 0.5})
    assert preset_scores.chosen(lines, AGENT, ENV_ID) is None
    assert len(preset_scores.missing_trials(lines, AGENT, ENV_ID)) == 6
    assert preset_scores.table(lines)[-1].endswith("| 0 of 3, 3 of an earlier preset |  |  |")
    again = [*lines, *trial_lines(preset_scores, 300.0)]
    assert [job.trial for job in preset_scores.missing_trials(again, AGENT, ENV_ID)] == ["1 steps"] * 3
    assert "| 3 of 3 | 300.0 |" in preset_scores.table(again)[-2]


def test_trials_are_not_stale_because_one_of_them_has_become_the_preset(script: Any) -> None:
    module = script("preset_scores")
    lines = module.read_results(module.RESULTS)
    assert module.chosen(lines, AGENT, ENV_ID).changes == {"num_steps": 3, "lr": 1e-3, "alpha": 0.5}
    assert module.presets.preset(AGENT, ENV_ID, without=["lr"])["lr"] == module.presets.preset("dqn", ENV_ID)["lr"]


def test_new_setting_of_training_with_its_usual_value_leaves_the_fingerprint(
    preset_scores: Any, monkeypatch: Patch
) -> None:
    before = preset_scores.fingerprint(AGENT, ENV_ID, {})
    monkeypatch.setitem(preset_scores.presets.TRAINING, "a_new_setting", 1)
    assert preset_scores.fingerprint(AGENT, ENV_ID, {}) == before
    assert preset_scores.fingerprint(AGENT, ENV_ID, {"a_new_setting": 2}) != before


def test_invalid_lines_are_not_read(preset_scores: Any, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    assert preset_scores.read_results(path) == []
    path.write_text('{"seed": 0}\n{"seed": 1, "invalid": "a fault"}\n')
    assert preset_scores.read_results(path) == [{"seed": 0}]


def test_seconds_are_those_of_other_seeds_by_their_steps(preset_scores: Any) -> None:
    job = preset_scores.Job(AGENT, ENV_ID, 0, None, {"steps": 10_000})
    assert preset_scores.seconds_of([], job) == 10_000 * preset_scores.SECONDS_A_STEP
    assert preset_scores.seconds_of(trial_lines(preset_scores, 1.0), job) == pytest.approx(20)  # 100 s for 50,000 steps


def test_trained_seed_is_a_line_with_score_settings_and_versions(preset_scores: Any, tmp_path: Path) -> None:
    job = preset_scores.Job(AGENT, ENV_ID, 3, "short", FEW_STEPS)
    line = preset_scores.line_of(job, tmp_path / "run", 100)
    assert "error" not in line
    assert line.items() >= job.metadata().items()
    assert len(line["returns"]) == 20 and line["score"] == pytest.approx(sum(line["returns"]) / 20)
    assert line["threads"] == 1 and line["resumed"] == [] and "torch" in line["versions"]


def test_seed_that_fails_is_a_line_with_its_error(preset_scores: Any, tmp_path: Path) -> None:
    job = preset_scores.Job(AGENT, ENV_ID, 3, None, {"lr_decay": "wrong"})
    line = preset_scores.line_of(job, tmp_path, 100)
    assert line["error"].startswith("ValueError: lr_decay is 'wrong'") and line["settings"] == job.fingerprint


def test_trials_are_at_most_five_of_at_most_five_known_settings(script: Any) -> None:
    module = script("preset_scores")
    for agent, env_id in module.pairs():
        trials = module.trials_of(agent, env_id)
        assert len(trials) <= 5 and len({trial.name for trial in trials}) == len(trials)
        for trial in trials:
            assert len(trial.changes) <= 5
            assert trial.changes.keys() <= {*AGENTS[agent].keywords(), *TRAINING}, trial


def test_settings_and_score_of_the_best_trial_are_written_into_its_preset(
    script: Any, preset_scores: Any, tmp_path: Path, monkeypatch: Patch
) -> None:
    numbers, path = script("document_numbers"), tmp_path / "results.jsonl"
    monkeypatch.setattr(preset_scores, "RESULTS", path)
    file = {"small.toml": '[family.dqn]\nlr = 1\n\n["CartPole-v1".dqn]\nlr = 2\n'}
    path.write_text("")
    monkeypatch.setattr(numbers.scores, "TASKS", {})
    assert numbers.wrong_scores(file) == []
    lines = [
        *trial_lines(preset_scores, 400.0, 500.0),
        *score_lines(preset_scores, {"num_steps": 1}, 480.0, 490.0, 500.0),
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert numbers.wrong_scores(file) == ["small.toml: scores are not today's"]
    written = numbers.with_results(file["small.toml"], numbers.preset_scores())
    score = {"mean": 490.0, "low": 480.0, "high": 500.0, "seeds": 3}
    score |= {"command": "python benchmarks/preset_scores.py --agent munchausen_dqn --env CartPole-v1"}
    expected = {"dqn": {"lr": 2}, AGENT: {"score": score, "num_steps": 1}}
    assert tomllib.loads(written) == {"family": {"dqn": {"lr": 1}}, ENV_ID: expected}
    assert numbers.wrong_scores({"small.toml": written}) == []
    assert script("preset_tables").trial_table()[-1].endswith('`{"num_steps": 1}` | 3 of 3 | 500.0 | yes |')


def test_setting_replaces_that_of_its_table_and_no_other_one(script: Any) -> None:
    with_settings = script("preset_tables").with_settings
    text = '[family.dqn]\nlr = 1\n\n# Why.\n["A-v0".dqn]\nlr = 2\ngamma = 0.9\n\n["A-v0".iqn]\nlr = 3\n'
    written = with_settings(text, {'["A-v0".dqn]': {"lr": 1e-3, "sizes": [8, 8]}, '["B-v0".dqn]': {"lr": 4}})
    assert written == text.replace("lr = 2\ngamma = 0.9", "gamma = 0.9\nlr = 0.001\nsizes = [8, 8]")


def test_tables_of_trials_and_scores_are_written_whatever_rows_they_had(script: Any) -> None:
    numbers = script("document_numbers")
    titles = script("preset_tables").TITLES
    measured = {"| a |": [], "| b |": [], titles[0]: [], titles[1]: ["| x | 1 |"]}
    text = f"One.\n\n{titles[0]}\n| --- |\n| old |\n\nTwo.\n\n{titles[1]}\n| --- |\n\nThree.\n"
    rules = ["| --- " * (each.count("|") - 1) + "|" for each in titles]
    assert numbers.with_rows("benchmarks/README.md", text, measured) == (
        f"One.\n\n{titles[0]}\n{rules[0]}\n\nTwo.\n\n{titles[1]}\n{rules[1]}\n| x | 1 |\n\nThree.\n"
    )


def test_tuned_presets_of_small_tasks_have_three_seeds_or_are_in_the_queue(script: Any) -> None:
    numbers, tables, module = script("document_numbers"), script("preset_tables"), script("preset_scores")
    small = ("CartPole", "Acrobot", "MountainCar", "Pendulum", "LunarLander", "BipedalWalker")
    for row in tables.score_table(numbers.preset_scores())[2:]:
        env_id, agent, _, seeds, _ = row.strip("| ").split(" | ")
        if env_id.startswith(small) and (agent, env_id) not in module.WITHOUT_TRIALS:
            assert int(seeds.split(",")[0]) >= 3, row
