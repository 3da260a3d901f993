"""Commands that use a saved agent."""

import argparse
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli_parts import TRAIN, Patch, Printed
from PIL import Image

import pfrl_like
from pfrl_like.agents import DQN
from pfrl_like.cli import environment, main, saved_agents
from pfrl_like.cli.environment import environment_of
from pfrl_like.cli.saved_agents import agent_directory
from pfrl_like.explorers import Greedy
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.zoo.composition import Given, parts
from pfrl_like.zoo.load_agent import LoadedAgent, load_agent


def stored_composition(outdir: Path) -> Any:
    """The composition of the best agent of a run."""
    return json.loads(next((outdir / "best").glob("composition*.json")).read_text())


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run."""
    folder = tmp_path_factory.mktemp("runs")
    assert main([*TRAIN, "--steps", "60", "--quiet", "--outdir", str(folder)]) == 0
    (outdir,) = folder.iterdir()
    return outdir


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: Patch) -> Path:
    """The current directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_best_agent_of_a_run_is_used_or_else_the_newest(trained: Path, folder: Path) -> None:
    assert agent_directory(str(trained)) == str(trained / "best")
    assert agent_directory(str(trained / "12_checkpoint")) == str(trained / "12_checkpoint")
    copied = shutil.copytree(trained, folder / "copied")
    shutil.rmtree(copied / "best")
    assert agent_directory(str(copied)) == str(copied / "60_finish")
    assert main(["evaluate", str(folder)]) == 2


def test_evaluate_prints_the_same_score_for_the_same_seed(trained: Path, capsys: Printed) -> None:
    lines = []
    for seed, episodes in (("0", "3"), ("0", "3"), ("1", "1")):
        assert main(["evaluate", str(trained), "--episodes", episodes, "--seed", seed]) == 0
        lines.append(capsys.readouterr().out)
    assert lines[0] == lines[1] and "std" not in lines[2]
    x = r"-?[\d.]+"
    pattern = rf"DQN in CartPole-v1: mean {x}, std {x}, 95% interval \[{x}, {x}\], episodes 3 \(.+best\)\n"
    assert re.fullmatch(pattern, lines[0])


def test_the_environment_can_be_replaced(trained: Path, capsys: Printed) -> None:
    assert main(["evaluate", str(trained), "--episodes", "1", "--env", "CartPole-v0"]) == 0
    assert "DQN in CartPole-v0" in capsys.readouterr().out
    assert main(["evaluate", str(trained), "--env", "CartPol-v0"]) == 2
    assert "argument --env: env is 'CartPol-v0'" in capsys.readouterr().err


class Noisy(LoadedAgent):
    """An agent whose networks are noisy."""

    def dry_run(self, obs: Any, action_space: Any = None) -> Any:
        torch.rand(1)
        return super().dry_run(obs, action_space)


def test_the_check_of_the_environment_leaves_the_seeded_streams_alone(trained: Path) -> None:
    directory = str(trained / "best")
    agent = Noisy(load_agent(directory).agent)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    environment_of(directory, agent, None, 0).close()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("env_id", ["CartPole-v0", "Pendulum-v1"], ids=["dry run", "spaces"])
def test_an_environment_that_is_rejected_is_closed(env_id: str, trained: Path, loaded: Any, monkeypatch: Patch) -> None:
    def reject(*_: Any) -> None:
        raise ValueError("the agent takes other observations")

    closed: list[str] = []
    agent = LoadedAgent(loaded)
    monkeypatch.setattr(agent, "dry_run", reject)
    for entry in ("classic_control.cartpole.CartPoleEnv", "classic_control.pendulum.PendulumEnv"):
        monkeypatch.setattr(f"gymnasium.envs.{entry}.close", lambda env: closed.append(env.spec.id))
    with pytest.raises(argparse.ArgumentError):
        environment_of(str(trained / "best"), agent, env_id, 0)
    assert env_id in closed


@pytest.mark.parametrize(
    ("env_id", "given"),
    [
        ("Pendulum-v1", "Pendulum-v1 has observations Box of shape (3,) and actions Box of shape (1,)"),
        ("FrozenLake-v1", "FrozenLake-v1 has observations Discrete(16) and actions Discrete(4)"),
    ],
)
@pytest.mark.parametrize(("command", "last"), [("evaluate", ()), ("watch", ("--gif", "x.gif")), ("export", ("x.pt",))])
def test_an_environment_with_other_spaces_is_rejected(
    command: str, last: tuple[str, ...], env_id: str, given: str, trained: Path, capsys: Printed
) -> None:
    expected = "the agent takes observations Box of shape (4,) and actions Discrete(2) (those of CartPole-v1)"
    assert main([command, str(trained), *last, "--env", env_id]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(f"argument --env: {expected}, but {given}")


def test_an_agent_without_a_known_environment_is_tried_in_that_given(
    trained: Path, loaded: Any, capsys: Printed
) -> None:
    loaded.composition = stored_composition(trained)
    del loaded.composition["run"]
    loaded.save("agent")
    assert main(["evaluate", "agent", "--env", "CartPole-v1", "--episodes", "1"]) == 0
    assert main(["evaluate", "agent", "--env", "Pendulum-v1"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "argument --env: the agent does not fit the environment: " in line


def test_watch_writes_a_gif(trained: Path, folder: Path, capsys: Printed) -> None:
    assert main(["watch", str(trained), "--gif", "agent"]) == 0
    assert Image.open(folder / "agent.gif").n_frames > 1 and "in agent.gif" in capsys.readouterr().out


def test_watch_shows_episodes_in_a_window(trained: Path, monkeypatch: Patch, capsys: Printed) -> None:
    pytest.importorskip("pygame")
    monkeypatch.setattr(saved_agents, "no_display", str)
    assert main(["watch", str(trained), "--env", "CartPole-v1"]) == 0
    assert "DQN in CartPole-v1: mean " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({}, "neither DISPLAY nor WAYLAND_DISPLAY is set"),
        ({"SDL_VIDEODRIVER": "dummy", "DISPLAY": ":0"}, "SDL_VIDEODRIVER is dummy (if the window does not use SDL, "),
        ({"DISPLAY": ":0"}, ""),
        ({"WAYLAND_DISPLAY": "wayland-0"}, ""),
        ({"SDL_VIDEODRIVER": "kmsdrm"}, ""),
    ],
)
def test_a_display_is_found_by_its_variables(variables: dict[str, str], reason: str, monkeypatch: Patch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = saved_agents.no_display()
    assert found.startswith(reason) and bool(found) == bool(reason)


def test_watch_without_a_display_names_options_of_a_video(trained: Path, monkeypatch: Patch, capsys: Printed) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    assert main(["watch", str(trained)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "there is no display for a window, because SDL_VIDEODRIVER is dummy" in line
    assert line.endswith(": write a video with --gif FILE or --mp4 FILE")


def test_ope_prints_estimates(trained: Path, capsys: Printed) -> None:
    options = "--dataset", "cartpole", "--steps", "5", "--estimators"
    assert main(["ope", str(trained), *options, "fqe", "wis"]) == 0
    assert [line.partition(": ")[0] for line in capsys.readouterr().out.splitlines()] == ["fqe", "wis"]
    assert main(["ope", str(trained), *options, "fqf"]) == 2
    assert main(["ope", str(trained), "--dataset", "nothing.h5"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert "argument --estimators: " in errors[0] and "argument --dataset: nothing.h5: " in errors[1]


def test_hints_for_python_programs_are_not_printed(folder: Path, capsys: Printed) -> None:
    q_function = torch.nn.Sequential(torch.nn.Linear(4, 2), DiscreteActionValueHead())
    pfrl_like.make("dqn", "CartPole-v1", q_function=q_function).agent.save("with_object")
    assert main(["evaluate", "with_object"]) == 2
    line = capsys.readouterr().err
    expected = "that the caller passed to make: only a Python program can load this agent, see load_agent"
    assert line == f"python -m pfrl_like: error: with_object: needs objects {expected}\n"
    DQN(q_function, torch.optim.SGD(q_function.parameters(), 0.1), ReplayBuffer(None), 0.9, Greedy()).save("of_script")
    assert main(["evaluate", "of_script"]) == 2
    assert capsys.readouterr().err.endswith(": only a Python program can load this agent, see load_agent\n")
    pfrl_like.make("drqn", "CartPole-v1", hidden_sizes=[8]).agent.save("recurrent")
    assert main(["ope", "recurrent", "--dataset", "cartpole"]) == 2
    assert capsys.readouterr().err.endswith("argument DIR: algo is a recurrent DQN\n")
    np.savez("data.npz", observations=np.zeros((2, 4)), actions=[0, 1], rewards=[0, 0], terminals=[0, 1])
    assert main(["ope", "recurrent", "--dataset", "data.npz"]) == 2
    assert capsys.readouterr().err.endswith(": a Python program can write it again, see MDPDataset.dump\n")
    pfrl_like.make("decision_transformer", "Pendulum-v1", hidden_size=8).agent.save("transformer")
    assert main(["export", "transformer", "policy.pt"]) == 2
    assert capsys.readouterr().err.endswith("so the agent cannot be exported\n")


def test_export_writes_a_policy(trained: Path, folder: Path, capsys: Printed) -> None:
    assert main(["export", str(trained), "policy.pt"]) == 0
    assert capsys.readouterr().out == "input input_0: float32 [batch, 4]\noutput action: int64 [batch]\n"
    assert torch.jit.load(folder / "policy.pt")(torch.zeros(3, 4)).shape == (3,)
    assert main(["export", "nothing", "policy.foo"]) == 2
    assert "argument FILE: got 'policy.foo'" in capsys.readouterr().err


ENV, NAME, WRAPPER = {"given": "env"}, {"name": "wrappers.NormalizeActionSpace"}, "wrappers of this package"


def wrapped_by(function: Any, *args: Any) -> Any:
    """A change of a stored plan: its only wrapper is a call."""

    def change(plan: dict[str, Any]) -> None:
        plan["env"]["calls"].append({"function": function, "args": [*args], "kwargs": {}})
        plan["env"]["value"][1] = [{"call": len(plan["env"]["calls"]) - 1}]

    return change


def wrapped_twice(plan: dict[str, Any]) -> None:
    """A change of a stored plan: the same wrapper twice."""
    wrapped_by(NAME, ENV)(plan)
    plan["env"]["value"][1] *= 2


def made_with(**changes: Any) -> Any:
    """A change of a stored plan: the call that makes the environment has other parts."""
    return lambda plan: plan["env"]["calls"][0].update(changes)


@pytest.fixture(scope="module")
def loaded(trained: Path) -> Any:
    """The trained agent."""
    return load_agent(trained / "best").agent


@pytest.fixture
def save(trained: Path, loaded: Any, folder: Path) -> Any:
    """Saves the trained agent in `agent` of the current directory, with a changed plan of its run."""

    def save(change: Any) -> None:
        loaded.composition = stored_composition(trained)
        change(loaded.composition["run"])
        loaded.save(folder / "agent")

    return save


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (made_with(args=["os:CartPole-v1"]), "name the environment with --env"),
        (made_with(function={"name": "datasets.get_cartpole"}), "name the environment with --env"),
        (made_with(args=[]), "name the environment with --env"),
        (made_with(args=[], kwargs={"id": "CartPole-v1"}), "name the environment with --env"),
        (made_with(args=["Nothing-v1"]), "cannot be made: ValueError: env is 'Nothing-v1'"),
        (made_with(args=["GymV21Environment-v0"]), "cannot be made: ImportError: "),
        (made_with(kwargs={"max_episode_steps": "many"}), "name the environment with --env"),
        (made_with(kwargs={"max_episode_steps": True}), "name the environment with --env"),
        (made_with(kwargs={"max_episode_steps": 0}), "name the environment with --env"),
        (made_with(kwargs={"max_episode_steps": 2**31}), "name the environment with --env"),
        (made_with(kwargs={"max_frames": 9}), "name the environment with --env"),
        (wrapped_by(NAME, ENV), "cannot be made: "),
        (wrapped_by(NAME), WRAPPER),
        (wrapped_by(NAME, {"given": "other"}), WRAPPER),
        (wrapped_by(NAME, ENV, [[1]]), WRAPPER),
        (wrapped_by({"name": "atari_wrappers.FrameStack"}, ENV, 1_001), WRAPPER),
        (wrapped_by({"name": "wrappers.SelectFeatures"}, ENV, [{"none": True}]), WRAPPER),
        (wrapped_by({"name": "wrappers.ScaleReward"}, ENV, 0.5), WRAPPER),
        (wrapped_by({"name": "atari_wrappers.make_atari"}, ENV), WRAPPER),
        (wrapped_twice, "each wrapper only once"),
        (wrapped_by(ENV, ENV), WRAPPER),
        (wrapped_by({"attribute": "sample", "of": ENV}, ENV), WRAPPER),
        (lambda plan: plan["env"].update(value=[{"none": True}, [NAME], []]), WRAPPER),
        (lambda plan: plan["env"].update(value=[{"none": True}, [3], []]), WRAPPER),
        (lambda plan: plan["env"].update(value=[{"none": True}, [ENV], []]), WRAPPER),
        (lambda plan: plan["env"].update(value=[{"none": True}, "", []]), WRAPPER),
        (lambda plan: plan.update(env=3), "without a valid environment"),
        (lambda plan: plan.pop("env"), "without a valid environment"),
    ],
)
def test_the_environment_of_a_strange_directory_is_rejected(change: Any, text: str, save: Any, capsys: Printed) -> None:
    save(change)
    assert main(["evaluate", "agent"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert text in line


def test_the_time_limit_of_training_also_limits_evaluations(save: Any, capsys: Printed) -> None:
    save(made_with(kwargs={"max_episode_steps": 3}))
    assert main(["evaluate", "agent"]) == 0 and "mean 3, std 0" in capsys.readouterr().out
    assert main(["watch", "agent", "--gif", "agent.gif"]) == 0 and "returns 3 in" in capsys.readouterr().out
    assert main(["evaluate", "agent", "--env", "CartPole-v1"]) == 0 and "mean 3," not in capsys.readouterr().out


@pytest.mark.parametrize("as_stored", [list, lambda indices: {"tuple": [*indices]}])
def test_selected_features_of_a_long_vector_are_those_of_training(as_stored: Any, save: Any, capsys: Printed) -> None:
    save(wrapped_by({"name": "wrappers.SelectFeatures"}, ENV, as_stored((0, 1, 2, 1_500))))
    assert main(["evaluate", "agent"]) == 2  # the index is read, but CartPole has only four numbers
    assert "cannot be made: ValueError: indices is " in capsys.readouterr().err


def test_stored_lists_are_bounded() -> None:
    short, long = (parts.wrappers.SelectFeatures(Given("env"), [0] * n) for n in (1 << 16, (1 << 16) + 1))
    assert environment._is_wrapper(short) and not environment._is_wrapper(long)


def test_another_environment_is_compared_with_the_game_of_the_training(save: Any, capsys: Printed) -> None:
    pytest.importorskip("ale_py")
    save(made_with(function={"name": "atari_wrappers.make_atari"}, args=["ALE/Pong-v5"]))
    assert main(["evaluate", "agent", "--env", "ALE/Breakout-v5"]) == 2
    expected = "actions Discrete(6) (those of ALE/Pong-v5), but ALE/Breakout-v5 has observations"
    assert expected in capsys.readouterr().err
