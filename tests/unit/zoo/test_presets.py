"""Presets: which settings an agent gets for an environment, and that those with scores are the settings scored."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import pfrl_like as pfrl
from pfrl_like.zoo import presets
from pfrl_like.zoo.agents import AGENTS
from pfrl_like.zoo.builder import Spaces
from pfrl_like.zoo.presets import GROUPS, TRAINING, preset

#: Of `benchmarks/scores.py`: equal fingerprints are equal settings. Tuned settings get new ones.
FINGERPRINTS = Path(__file__).parents[2] / "data" / "score_fingerprints.json"
CHOICES, TORQUES = gymnasium.spaces.Discrete(2), gymnasium.spaces.Box(-1, 1, (2,), np.float32)
VECTOR, IMAGE = gymnasium.spaces.Box(-1, 1, (3,), np.float32), gymnasium.spaces.Box(0, 255, (4, 84, 84), np.uint8)
OF_VECTOR, OF_IMAGE = Spaces(VECTOR, CHOICES), Spaces(IMAGE, CHOICES)
OF_BOTH = Spaces(gymnasium.spaces.Dict({"camera": IMAGE, "speed": VECTOR}), CHOICES)


def test_every_agent_has_a_group() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(AGENTS)


@pytest.mark.parametrize("group", GROUPS)
def test_builders_accept_every_preset(group: str) -> None:
    known = [(agent, env_id) for env_id, agent in presets.preset_names() if agent in GROUPS[group]]
    for agent, env_id in [*known, *((agent, "MyTask-v0") for agent in GROUPS[group])]:
        recipe = AGENTS[agent]
        for obs in (VECTOR, IMAGE):
            settings = preset(agent, env_id, Spaces(obs, TORQUES))
            assert settings.keys() <= {*recipe.keywords(), *TRAINING}, (agent, env_id)
            if settings.get("normalize") and obs is IMAGE or agent.endswith("decision_transformer"):
                continue
            action = CHOICES if group == "value_based" or agent.startswith("discrete") else TORQUES
            settings = {**recipe.settings, **{key: settings[key] for key in settings.keys() - TRAINING.keys()}}
            recipe.build(recipe.class_name, Spaces(obs, action), **settings)


def test_every_agent_has_steps_and_a_learning_rate_everywhere() -> None:
    for agent in AGENTS:
        for env_id in ("MyTask-v0", "CartPole-v1", "Pendulum-v1", "Hopper-v5", "MinAtar/Breakout-v1", "ALE/Pong-v5"):
            settings = preset(agent, env_id)
            assert settings["steps"] > 0, (agent, env_id)
            assert settings["hidden_sizes"] or settings["stream_sizes"], (agent, env_id)


def test_scores_are_of_the_settings_that_they_were_measured_with(script: Any) -> None:
    scores = script("scores")
    today = {
        f"{task} {name}": scores.fingerprint(task, name) for task, each in scores.TASKS.items() for name in each.agents
    }
    assert today == json.loads(FINGERPRINTS.read_text())


def test_scores_are_those_of_the_results(script: Any) -> None:
    numbers = script("document_numbers")
    files = numbers.preset_files()
    assert numbers.wrong_scores(files) == []  # `document_numbers.py --write` writes them
    right = files["box2d.toml"]
    for wrong in (right.replace("seeds = 5", "seeds = 6"), right.replace('["LunarLander-v3".double_dqn]', "[other]")):
        assert numbers.wrong_scores({"box2d.toml": wrong}) == ["box2d.toml: scores are not today's"]
        scores = [line for line in right.splitlines() if line.startswith("score")]
        written = numbers.with_scores(wrong, numbers.preset_scores()).splitlines()
        assert {*scores} == {line for line in written if line.startswith("score")}


def test_training_of_a_tuned_preset_is_as_scored(script: Any) -> None:
    tasks = script("score_tasks")
    for task, each in tasks.TASKS.items():
        for name in each.agents:
            settings, scored = preset(*each.preset_of(name)), tasks.settings_of(task, name)
            assert settings["lr_decay"] == "linear", (task, name)
            assert settings["steps"] == each.steps, (task, name)
            anneals = {"reward_scale", "end_epsilon"} <= scored.keys() and name != "Rainbow"  # which has no epsilon
            assert settings.get("anneal_epsilon", False) == anneals, (task, name)


def test_rainbow_has_the_network_that_was_scored(script: Any) -> None:
    env, obs = gymnasium.make("CartPole-v1"), torch.ones(1, 4)
    scored = script("score_tasks").make_agent("cartpole", "Rainbow", env).model
    model = pfrl.make("rainbow", "CartPole-v1", capacity=2_000).agent.model
    model.load_state_dict(dict(zip(model.state_dict(), scored.state_dict().values(), strict=True)))
    values = []
    for each in (model, scored):
        torch.manual_seed(0)  # of the noise
        values.append(each(obs).q_values)
    assert torch.equal(*values)


def test_offline_settings_are_those_of_the_benchmark(script: Any) -> None:
    benchmark = script("offline_tasks.settings")
    renamed = {
        "hidden": "hidden_sizes", "batch_size": "minibatch_size", "tau": "soft_update_tau", "updates": "steps",
        "temperature_lr": "temperature_optimizer_lr", "alpha_lr": "alpha_optimizer_lr",
        "standard_scaler": "standardize_observations",
    }  # fmt: skip
    for agent in GROUPS["offline"]:
        settings, name = preset(agent, None), AGENTS[agent].class_name
        for key, value in benchmark.settings_of(name).items() if name in benchmark.ALGORITHMS else ():
            if key == "gap_threshold":
                assert settings["alpha_threshold"] == value * settings["conservative_weight"]
            elif renamed.get(key, key) in settings:
                assert settings[renamed.get(key, key)] == (list(value) if key == "hidden" else value), (agent, key)
        own = benchmark.ALGORITHMS.get(name, {}).keys() - {"gap_threshold"}
        assert {renamed.get(key, key) for key in own} <= settings.keys(), agent


def test_settings_of_an_agent_come_after_those_of_its_group_and_of_a_task_after_those_of_its_family() -> None:
    assert preset("dqn", "CartPole-v1")["lr"] == 2.3e-3
    assert preset("dpp", "CartPole-v1")["lr"] == 2e-3  # of the agent on the task
    assert preset("iqn", "MountainCar-v0")["reward_scale"] == 0.1  # of the agent in the family; the group has 1
    assert preset("iqn", "CartPole-v1")["quantile_thresholds_K"] == 8  # of the defaults
    assert preset("iqn", "ALE/Pong-v5")["quantile_thresholds_K"] == 32
    assert preset("al", "CartPole-v1")["lr"] == 2.3e-3  # of the group


def test_new_task_has_defaults_by_its_observations() -> None:
    assert preset("dqn", "MyTask-v0", OF_VECTOR) == preset("dqn", None) == preset("dqn", "MyTask-v0")
    for spaces in (OF_IMAGE, OF_BOTH):
        settings = preset("dqn", "MyTask-v0", spaces)
        assert (settings["capacity"], settings["minibatch_size"]) == (50_000, 32)
        assert settings != preset("dqn", "MyTask-v0", OF_VECTOR)
    assert preset("sac", "CarRacing-v3", OF_IMAGE) == preset("sac", None, OF_IMAGE)


def test_only_games_of_the_arcade_learning_environment_have_the_settings_of_atari() -> None:
    for env_id in ("ALE/Pong-v5", "BreakoutNoFrameskip-v4"):
        assert preset("dqn", env_id)["capacity"] == 1_000_000
    for agent in (*GROUPS["value_based"], *GROUPS["actor_critics"]):
        for spaces in (OF_VECTOR, OF_IMAGE):
            settings = preset(agent, "MyTask-v0", spaces)
            assert settings["capacity"] <= 100_000 and settings["replay_start_size"] == 1_000
            assert settings.get("target_update_interval", 0) <= 1_000


def test_preset_is_tuned_only_with_scores() -> None:
    assert presets.is_tuned("dqn", "CartPole-v1") and presets.is_tuned("drqn", "CartPole-v1@positions")
    for agent, env_id in [
        ("munchausen_dqn", "Acrobot-v1"), ("drqn", "CartPole-v1"), ("rainbow", "Acrobot-v1"),
        ("dqn", "CartPole-v0"), ("dqn", "ALE/Pong-v5"),
        ("td3", "Hopper-v5@100k"), ("dqn", None), ("cql", "Pendulum-v1"),
    ]:  # fmt: skip
        assert not presets.is_tuned(agent, env_id), (agent, env_id)


def test_other_version_of_a_task_has_its_settings() -> None:
    assert preset("sac", "Hopper-v4") == preset("sac", "Hopper-v5") != preset("sac", "Ant-v5")
    assert preset("dqn", "CartPole-v0") == preset("dqn", "CartPole-v1")


def test_variant_has_settings_of_its_own() -> None:
    assert preset("td3", "Hopper-v5@100k")["steps"] == 100_000
    assert preset("td3", "Hopper-v5")["steps"] == 200_000
    for agent, env_id, known in [
        ("td3", "Hopper-v5@200k", "Hopper-v5@100k"), ("sac", "Hopper-v5@100k", "none"), ("dqn", "MyTask@x", "none"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=f"env_id is '{env_id}'; {agent} has the variants {known}$"):
            preset(agent, env_id)


def test_unknown_agent_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"^agent is 'dqm', expected one of dqn, double_dqn, .*discrete_decision_tr"):
        preset("dqm", "CartPole-v1")


def test_changing_a_result_does_not_change_the_preset() -> None:
    preset("rainbow", "CartPole-v1")["prioritized"]["alpha"] = 0.0
    preset("dqn", "CartPole-v1")["hidden_sizes"].append(1)
    assert preset("rainbow", "CartPole-v1")["prioritized"]["alpha"] == 0.5
    assert preset("dqn", "CartPole-v1")["hidden_sizes"] == [256, 256]


def test_description_has_score_and_command_or_says_untuned() -> None:
    rows = {(row.env_id, row.agent): row for row in presets.describe()}
    assert [*rows] == presets.preset_names()
    tuned, untuned = rows["Pendulum-v1", "sac"], rows["ALE/*, *NoFrameskip-v0, *NoFrameskip-v4", "rainbow"]
    command = "python benchmarks/scores.py --task pendulum --agent SoftActorCritic"
    assert tuned.is_tuned and tuned.score.endswith(f"5 seeds: {command}")
    assert not untuned.is_tuned and (untuned.score, untuned.source) == ("", "arXiv:1710.02298")
    assert rows["HalfCheetah-v5", "td3"].source == "benchmarks/scores.py"


def test_score_in_words_names_seeds_that_failed() -> None:
    score = {"mean": 2.0, "low": 1.0, "high": 3.0, "seeds": 2, "failed": 3, "command": "python script.py"}
    assert presets._score_text(score) == "2.0 [1.0, 3.0], 2 seeds, 3 failed: python script.py"
