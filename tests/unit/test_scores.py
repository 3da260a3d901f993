"""`benchmarks/scores.py` makes, trains and scores the agents of its tasks; here for some steps."""

import dataclasses
from typing import Any

import pytest


@pytest.fixture
def scores(script: Any) -> Any:
    return script("scores")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "name", "settings"),
    [
        ("cartpole", "DQN", {}),
        ("cartpole-po-100k", "PPO", {"n_envs": 8}),
        ("cartpole-async-100k", "ACER", {"processes": 2}),
    ],
)
def test_an_agent_is_trained_and_scored(
    scores: Any, monkeypatch: pytest.MonkeyPatch, task: str, name: str, settings: dict[str, int]
) -> None:
    own = scores.settings_of(task, name)
    assert {kind: own.get(kind) for kind in settings} == settings
    whole = scores.fingerprint(task, name)
    monkeypatch.setitem(scores.TASKS, task, dataclasses.replace(scores.TASKS[task], steps=200))
    trained: list[Any] = []
    original = scores.greedy_episodes
    monkeypatch.setattr(scores, "greedy_episodes", lambda agent, env: trained.append(agent) or original(agent, env))
    result = scores.run((task, name, 3))
    assert (result["task"], result["agent"], result["seed"]) == (task, name, 3)
    assert len(result["returns"]) == 20 and result["score"] == sum(result["returns"]) / 20
    assert result["settings"] != whole  # a shorter run is not the same run
    assert trained[0].t == 200
