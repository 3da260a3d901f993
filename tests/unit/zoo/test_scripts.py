"""Printed scripts, in a process of their own, train agents of the same parameters and scores as `make` does.

All agents, one environment of each family, three seeds: `make scripts`, which prints the seconds of each case.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from script_process import ScriptRunner, digest, script_runner

import pfrl_like as pfrl
from pfrl_like.errors import MissingDependencyError
from pfrl_like.runs.run_files import SCORES, column_of
from pfrl_like.zoo.agents import AGENTS
from pfrl_like.zoo.presets import GROUPS

#: Steps of training; updates of offline agents. Asynchronous agents are only made, because the order of their processes
#: is not fixed.
STEPS = {"online": 2_000, "offline": 50, "async": 0}
#: Environments of a family: one with Discrete actions, one with a Box.
FAMILIES = {
    "classic": ("CartPole-v1", "Pendulum-v1"),
    "box2d": ("LunarLander-v3", "LunarLanderContinuous-v3"),
    "mujoco": (None, "Hopper-v5"),
    "minatar": ("MinAtar/Breakout-v1", None),
    "atari": ("ALE/Pong-v5", None),
}
#: Settings of groups, families and agents in place of the preset's. They are in the script, too. With them, every agent
#: learns in the few steps, and updates are rarer and smaller, so that a case takes some seconds of a core.
SETTINGS: dict[str, dict[str, Any]] = {
    "value_based": {"replay_start_size": 500, "n_times_update": 1, "update_interval": 4},
    "actor_critics": {"replay_start_size": 500, "n_times_update": 1, "update_interval": 8},
    "on_policy": {"update_interval": 500},
    "offline": {"minibatch_size": 32},
    "atari": {"capacity": 2_000, "minibatch_size": 8, "update_interval": 16},
    "atari on_policy": {"update_interval": 500},
    "crossq": {"critic_hidden_sizes": [256, 256]},  # 2,048 in the preset
    "ddpg": {"target_update_interval": 8},
    "redq": {"update_interval": 32},
    "drqn": {"minibatch_size": 4, "update_interval": 32, "target_update_interval": 256},  # episodes
    "discrete_sac": {"minibatch_size": 32},  # two critics of images
    "awr": {"n_critic_updates": 2, "n_actor_updates": 2},  # 200 and 1,000 in an update
    "discrete_awr": {"n_critic_updates": 2, "n_actor_updates": 2},
    "decision_transformer": {"minibatch_size": 8},
    "discrete_decision_transformer": {"minibatch_size": 8},
}
GROUP = {name: group for group, names in GROUPS.items() for name in names}


def cases() -> list[Any]:
    """Agents, families and environments, as parameters with names."""
    found = []
    for family, (discrete, box) in FAMILIES.items():
        for name, group in GROUP.items():
            is_discrete = group == "value_based" or name.startswith("discrete")
            fits_both = group in ("on_policy", "asynchronous")
            env_id = discrete or box if fits_both else discrete if is_discrete else box
            if env_id is not None and (group != "offline" or family == "classic"):
                found.append(pytest.param(name, family, env_id, id=f"{family}-{name}"))
    return found


def made_with(name: str, family: str, env_id: str, seed: int) -> Any:
    """An agent with the settings of its preset, but for those of the table. Compilation would take a minute."""
    settings: dict[str, Any] = {"compile": False}
    for key in (GROUP[name], family, f"{family} {GROUP[name]}", name):
        settings |= SETTINGS.get(key, {})
    known = AGENTS[name].keywords()
    settings = {key: value for key, value in settings.items() if key in known}
    return pfrl.make(name, env_id, seed=seed, eval_n_episodes=1, max_episode_steps=100, **settings)


@pytest.fixture(scope="module")
def runner() -> Iterator[ScriptRunner]:
    with script_runner() as runner:
        yield runner


@pytest.mark.slow
@pytest.mark.parametrize(("name", "family", "env_id"), cases())
@pytest.mark.parametrize("seed", range(3))  # the slowest to change
def test_a_script_gives_equal_parameters_and_scores(
    name: str, family: str, env_id: str, seed: int, runner: ScriptRunner, tmp_path: Path, no_waiting_for_the_disk: None
) -> None:
    start, steps = time.perf_counter(), STEPS[AGENTS[name].runner]
    try:
        made = made_with(name, family, env_id, seed)
    except MissingDependencyError as error:
        pytest.skip(str(error))
    script = tmp_path / "script.py"
    script.write_text(made.script())
    before = digest(made.agent)
    if steps:
        made.train(steps, tmp_path / "made", progress=False)
        assert digest(made.agent) != before, "no update was made"
    assert runner.run(script, steps) == {"digest": digest(made.agent), "zoo": []}
    if steps:
        made_scores, scores = (column_of(str(tmp_path / outdir), SCORES, "mean") for outdir in ("made", "script"))
        assert made_scores == scores and len(scores[1]) == 10
    print(f"seed {seed} {family} {name}: {time.perf_counter() - start:.1f} s")
