"""Trials of rows that look wrong: each changes a setting, adds seeds, or repeats one.

`missing_scores.py` runs them first. Their lines are those of `results/score_trials.jsonl`, and count in no other table.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Trial(NamedTuple):
    """Seeds of a row, with other settings.

    Attributes:
        name: Tells its lines.
        row: Task and agent, or dataset, algorithm and library.
        changes: Of settings; "steps" or "updates" are the length of training.
        seeds: Which are run.
    """

    name: str
    row: tuple[str, ...]
    changes: Mapping[str, Any]
    seeds: tuple[int, ...]


_FEW, _MORE, _OTHER = (0, 1, 2), (*range(10, 20),), (100, 101, 102)
_BCQ = ("cartpole", "DiscreteBCQ", "pfrl_like")
TRIALS = (
    # Double DQN on CartPole, one seed of ten at 167: how often?
    Trial("repeated", ("cartpole", "DoubleDQN"), {}, (0,)),
    Trial("more seeds", ("cartpole", "DoubleDQN"), {}, _MORE),
    Trial("more seeds", ("cartpole", "DQN"), {}, _MORE),
    # TRPO on Pendulum, one seed of five at -273: how often, and is it the budget?
    Trial("repeated", ("pendulum-100k", "TRPO"), {}, (4,)),
    Trial("more seeds", ("pendulum-100k", "TRPO"), {}, _MORE),
    Trial("twice the steps", ("pendulum-100k", "TRPO"), {"steps": 200_000}, (0, 1, 2, 3, 4)),
    # Discrete BCQ on CartPole at 78, where discrete BC has 454: which actions it allows, or the budget?
    Trial("flexibility 0.6", _BCQ, {"action_flexibility": 0.6, "updates": 10_000}, _FEW),
    Trial("flexibility 0.9", _BCQ, {"action_flexibility": 0.9, "updates": 10_000}, _FEW),
    Trial("three times the updates", _BCQ, {"action_flexibility": 0.3, "updates": 30_000}, _FEW),
    Trial("flexibility 0.6, other seeds", _BCQ, {"action_flexibility": 0.6, "updates": 10_000}, _OTHER),
    Trial("flexibility 0.75, other seeds", _BCQ, {"action_flexibility": 0.75, "updates": 10_000}, _OTHER),
    Trial("flexibility 0.6, three times the updates", _BCQ, {"action_flexibility": 0.6, "updates": 30_000}, _OTHER),
    # DQN on Acrobot at -83: exploration that stays, 3-step returns, too few updates, or the budget?
    Trial("no exploration in the end", ("acrobot", "DQN"), {"reward_scale": 1.0}, _FEW),
    Trial("1-step returns", ("acrobot", "DQN"), {"num_steps": 1}, _FEW),
    Trial("twice the updates", ("acrobot", "DQN"), {"agent": {"n_times_update": 4}}, _FEW),
    Trial("twice the steps", ("acrobot", "DQN"), {"steps": 200_000}, _FEW),
    Trial("1-step returns, other seeds", ("acrobot", "DQN"), {"num_steps": 1}, _OTHER),
    Trial("five times the steps", ("acrobot", "DQN"), {"steps": 500_000}, (100, 101)),
    Trial("stable-baselines3", ("acrobot", "DQN"), {}, ()),  # by `score_peer.py`, with the settings of that library
    Trial("1-step returns, twice the steps", ("acrobot", "DQN"), {"num_steps": 1, "steps": 200_000}, _OTHER),
    Trial(
        "1-step returns, twice the updates",
        ("acrobot", "DQN"),
        {"num_steps": 1, "agent": {"n_times_update": 4}},
        _OTHER,
    ),
    Trial(
        "1-step returns, twice the updates of twice the transitions",
        ("acrobot", "DQN"),
        {"num_steps": 1, "agent": {"n_times_update": 4, "minibatch_size": 128}},
        _OTHER,
    ),
)
#: Those that take long, after the first stages.
LONG_TRIALS = (
    # HalfCheetah: later seeds are far above the first one, which is older.
    Trial("repeated", ("halfcheetah", "TD3"), {}, (0,)),
    Trial("repeated", ("halfcheetah", "SoftActorCritic"), {}, (0,)),
    # Rainbow on MinAtar below DQN: noisy networks, or the returns' number of steps?
    Trial("1-step returns", ("minatar-breakout", "Rainbow"), {"num_steps": 1}, (0, 1)),
    Trial("noise 0.1", ("minatar-breakout", "Rainbow"), {"noise": 0.1}, (0, 1)),
    Trial(
        "epsilon-greedy in the place of noise, no dueling",
        ("minatar-breakout", "CategoricalDoubleDQN"),
        {
            "num_steps": 3,
            "prioritized": {"alpha": 0.5, "beta0": 0.4, "betasteps": 123_750, "normalize_by_max": "memory"},
            "agent": {"compile": True},
            "atoms": {"n_atoms": 51, "v_min": 0.0, "v_max": 20.0},
        },
        (0, 1),
    ),
)
TITLES = "| row | trial | changes of settings | seeds | score of each |"


def table(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """The scores of each trial, in the order of the trials.

    Args:
        lines: Those of `results/score_trials.jsonl`.
    """
    rows = [TITLES, "| --- " * 5 + "|"]
    for trial in (*TRIALS, *LONG_TRIALS):
        own = [line for line in lines if (line["trial"], tuple(line["row"])) == (trial.name, trial.row)]
        changes = f"`{json.dumps(own[0]['changes'])}`" if own and own[0]["changes"] else ""
        own.sort(key=lambda line: line["seed"])
        seeds = ", ".join(str(line["seed"]) for line in own)
        scores = ", ".join("failed" if "error" in line else f"{line['score']:.1f}" for line in own)
        if own:
            rows.append(f"| {' '.join(trial.row[:2])} | {trial.name} | {changes} | {seeds} | {scores} |")
    return rows
