"""Environments of `make`: Atari games and their wrappers, CartPole without velocities, and settings that do not fit."""

import re
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from composed_agents import ACTIONS, OBS, RandomEnv, run_script
from gymnasium.envs.registration import EnvSpec
from script_process import digest

import pfrl_like as pfrl
from pfrl_like.cli.parser import main
from pfrl_like.envs import make_env
from pfrl_like.errors import MissingDependencyError
from pfrl_like.wrappers import atari_wrappers
from pfrl_like.zoo.composition import evaluate, parts
from pfrl_like.zoo.environment import with_time_limit, wrappers_of
from pfrl_like.zoo.presets import TRAINING

#: Settings with which agents are made, and learn, within a second.
SMALL: dict[str, Any] = {"hidden_sizes": (8,), "eval_n_episodes": 1, "max_episode_steps": 30}
REPLAY = {"capacity": 200, "replay_start_size": 100, "minibatch_size": 4}
OF_AGENT: dict[str, dict[str, Any]] = {
    "dqn": REPLAY,
    "rainbow": {**REPLAY, "stream_sizes": (8,)},
    "drqn": {**REPLAY, "replay_start_size": 5},  # episodes
    "ppo": {"n_envs": 2, "update_interval": 64, "minibatch_size": 32, "epochs": 1},
    "a2c": {"n_envs": 2},
}
needs_games = pytest.mark.skipif("not __import__('importlib').util.find_spec('ale_py')", reason="needs ale_py")


def trajectory(env: Any, n_steps: int) -> tuple[np.ndarray, list[Any]]:
    """Observations, [n_steps + 1, ...], and (reward, terminated, truncated) of steps with the same actions."""
    observations, rest = [np.asarray(env.reset()[0])], []
    for t in range(n_steps):
        obs, reward, terminated, truncated, _ = env.step(t % env.action_space.n)
        observations.append(np.asarray(obs))
        rest.append((reward, terminated, truncated))
        if terminated or truncated:
            observations[-1] = np.asarray(env.reset()[0])
    return np.stack(observations), rest


@needs_games
def test_a_game_has_the_wrappers_of_the_examples() -> None:
    made = pfrl.make("dqn", "BreakoutNoFrameskip-v4", hidden_sizes=(8,))
    for env, test, seed in ((made.env, False, 0), (made.eval_env, True, 999)):
        twin = atari_wrappers.wrap_deepmind(
            atari_wrappers.make_atari("BreakoutNoFrameskip-v4"), episode_life=not test, clip_rewards=not test
        )
        make_env(twin, seed=seed)
        observations, rest = trajectory(env, 40)
        expected, expected_rest = trajectory(twin, 40)
        assert np.array_equal(observations, expected) and rest == expected_rest
        assert observations.shape[1:] == made.env.observation_space.shape == (4, 84, 84)
        assert any(terminated for _, terminated, _ in rest) == (not test)  # a life is lost, the game goes on


@needs_games
def test_wrappers_of_games_follow_the_settings() -> None:
    settings: dict[str, Any] = {"frame_stack": 1, "episode_life": False, "clip_rewards": False, "max_episode_steps": 9}
    made = pfrl.make("ppo", "ALE/Pong-v5", n_envs=1, reward_scale=0.5, **settings, hidden_sizes=(8,))
    assert made.env.observation_space.shape == (1, 84, 84)
    lines = made.script().partition("def make_env(seed, test=False):\n")[2].partition("\n\n")[0].splitlines()
    assert [line.strip() for line in lines] == [
        'env = atari_wrappers.make_atari("ALE/Pong-v5", max_frames=36)',
        "if not test:",
        "env = wrappers.ScaleReward(env, 0.5)",
        'env = atari_wrappers.WarpFrame(env, channel_order="chw")',
        "return envs.make_env(env, seed=seed)",
    ]


@needs_games
def test_the_time_limit_of_a_game_counts_the_frames_of_its_start() -> None:
    base = with_time_limit(parts.atari_wrappers.make_atari("ALE/Pong-v5"), 20)
    env = evaluate(base, {})
    n_actions = []
    for seed in range(3):
        env.reset(seed=seed)
        n_actions.append(next(n for n in range(1, 99) if env.step(0)[3]))
    assert all(12 <= n <= 20 for n in n_actions) and len({*n_actions}) > 1
    with pytest.raises(ValueError, match="max_episode_steps is 536870912, expected at most 536,870,911"):
        with_time_limit(base, 2**29)


def bare_game() -> RandomEnv:
    """An environment with the id of an Atari game."""
    env = RandomEnv(OBS["image"], ACTIONS["Discrete"])
    env.spec = EnvSpec("ALE/Pong-v5")
    return env


def test_a_game_without_wrappers_is_noted() -> None:
    note = "env is the game 'ALE/Pong-v5' without wrappers: pass its id, or wrap it with `wrap_deepmind`"
    other = gymnasium.wrappers.TimeLimit(bare_game(), 9)
    wrapped = gymnasium.wrappers.FrameStackObservation(bare_game(), 2)
    for env, is_noted in ((bare_game(), True), (other, True), (wrapped, False)):
        assert any(text.startswith(note) for text in wrappers_of(None, env, TRAINING, TRAINING)[2]) == is_noted


def test_rainbow_without_dueling_needs_no_sizes_of_streams() -> None:
    script = pfrl.make("rainbow", bare_game, dueling=False, hidden_sizes=(4,)).script()
    assert "DuelingStreams" not in script and "without wrappers" in script


def test_a_missing_emulator_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("ale_py", "ale_py.env"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=r"Pong-v5 needs the package ale-py.*: pip install .*\[atari\]"):
        pfrl.make("dqn", "ALE/Pong-v5")


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"frame_stack": 2}, ValueError, "frame_stack is 2, but env is no id of an Atari game"),
        ({"episode_life": False}, ValueError, "episode_life is False, but env is no id"),
        ({"clip_rewards": 1}, TypeError, "clip_rewards is 1"),
        ({"frame_stack": 0}, ValueError, "frame_stack is 0"),
        ({"select_features": [0, 2]}, TypeError, "select_features is [0, 2], expected a dict of the arguments"),
        ({"select_features": {"indices": [4]}}, ValueError, "select_features is {'indices': [4]}: indices is [4], exp"),
        ({"select_features": {}}, TypeError, "select_features is {}: missing a required argument: 'indices'"),
        ({"select_features": {"indices": 5}}, TypeError, "select_features is {'indices': 5}: indices is 5 (int)"),
        ({"select_features": {"index": [0]}}, TypeError, "select_features is {'index': [0]}: "),
        ({"select_features": {"indices": np.zeros((2, 2))}}, TypeError, "select_features is {'indices': array("),
        ({"max_episode_steps": 2**31}, ValueError, "max_episode_steps is 2147483648, expected at most 2,147,483,647"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        pfrl.make("dqn", "CartPole-v1", **settings)


def test_features_are_selected_from_vectors_only() -> None:
    with pytest.raises(ValueError, match="select_features is {'indices': .*: env has the observation space Box"):
        pfrl.make("dqn", lambda: RandomEnv(OBS["image"], ACTIONS["Discrete"]), select_features={"indices": [0]})


@pytest.mark.parametrize("indices", [(0, 2), np.array([0, 2])])
def test_an_agent_with_selected_features_is_evaluated_from_its_directory(indices: Any, tmp_path: Path) -> None:
    made = pfrl.make("dqn", "CartPole-v1", hidden_sizes=(4,), select_features={"indices": indices})
    assert "env = wrappers.SelectFeatures(env, indices=[0, 2])" in made.script()
    made.agent.save(tmp_path / "agent")
    assert main(["evaluate", str(tmp_path / "agent"), "--episodes", "1"]) == 0


@pytest.mark.parametrize("name", ["drqn", "ppo"])
def test_cartpole_without_velocities_has_scaled_positions(name: str, tmp_path: Path) -> None:
    made = pfrl.make(name, "CartPole-v1@positions", hidden_sizes=(4,), **({"n_envs": 1} if name == "ppo" else {}))
    twin = gymnasium.make("CartPole-v1")
    obs, full = (env.reset(seed=1)[0] for env in (made.env, twin))
    assert obs.tolist() == np.array([5 * full[0], 20 * full[2]], np.float32).tolist()
    assert "env = wrappers.SelectFeatures(env, indices=[0, 2], factors=[5.0, 20.0])" in made.script()
    made.agent.save(tmp_path / "agent")
    assert main(["evaluate", str(tmp_path / "agent"), "--episodes", "1"]) == 0


@needs_games
@pytest.mark.slow
@pytest.mark.parametrize("env_id", ["ALE/Breakout-v5", "PongNoFrameskip-v4"])
@pytest.mark.parametrize("name", OF_AGENT)
def test_an_agent_in_a_game_trains_as_its_script_and_acts_when_loaded(name: str, env_id: str, tmp_path: Path) -> None:
    made = pfrl.make(name, env_id, **{**SMALL, **OF_AGENT[name]})
    before = digest(made.agent)
    made.train(200, tmp_path / "made", progress=False, eval_interval=200)
    assert digest(made.agent) != before
    made.plan.train._kwargs["eval_interval"] = 200
    assert digest(run_script(made, tmp_path / "script", 200)) == digest(made.agent)

    assert main(["evaluate", str(tmp_path / "made"), "--episodes", "1"]) == 0
    loaded = pfrl.load_agent(tmp_path / "made" / "200_finish")
    obs, _ = made.eval_env.reset(seed=5)
    for agent in (made.agent, loaded):
        agent.stop_episode()
    torch.manual_seed(0)
    for t in range(20):
        with made.agent.eval_mode():
            state = torch.get_rng_state()  # noisy layers draw in evaluation, too
            action = made.agent.act(obs)
            torch.set_rng_state(state)
            assert np.array_equal(loaded.act(obs), action), t
            obs, reward, terminated, truncated, _ = made.eval_env.step(action)
            for agent in (made.agent, loaded):
                agent.observe(obs, reward, terminated, terminated or truncated)
