"""Names that programs for d3rlpy 0.5 to 1.1 use: `collect`, parts of `impl`, other folders and paths, old files."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from estimator_parts import ALL, QUIET, SMALL, built, make, vectors
from gymnasium.spaces import Box

import pfrl_like
from pfrl_like import algos, dynamics
from pfrl_like.algos.fitting.base import ESTIMATORS, Estimator
from pfrl_like.errors import CheckpointError
from pfrl_like.online.explorers import ConstantEpsilonGreedy, NormalNoise

SILENT: dict[str, Any] = {"show_progress": False}


def test_base_classes_have_their_old_paths() -> None:
    bases = algos.AlgoBase, algos.base.AlgoBase, pfrl_like.base.LearnableBase
    assert {*bases} == {Estimator}
    assert dynamics.DynamicsBase is dynamics.base.DynamicsBase is dynamics.MOPO


@pytest.mark.parametrize("name", ALL)
def test_the_agent_names_its_critic_and_the_size_of_actions(name: str) -> None:
    made = built(name)
    assert made.impl.action_size == made.action_size and made.impl.observation_shape == made.observation_shape
    has_critic = bool(getattr(made.impl, "critic_arguments", ["model"]))
    assert hasattr(made.impl, "q_function") == has_critic
    if has_critic:
        assert isinstance(made.impl.q_function, torch.nn.Module)
    assert hasattr(made.impl, "policy") or ESTIMATORS[name].discrete_action


class Line(gymnasium.Env[Any, Any]):
    """Three steps from 0 to 3, which a time limit ends in every second episode."""

    observation_space = Box(-5, 5, (1,))

    def __init__(self, action_space: Any) -> None:
        self.action_space, self.episode = action_space, 0

    def reset(self, **_: Any) -> Any:
        self.t, self.episode = 0, self.episode + 1
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        ends = self.t == 3
        return np.float32([self.t]), float(self.t), ends and self.episode % 2 == 1, ends and self.episode % 2 == 0, {}


def test_steps_are_collected_into_a_buffer_that_becomes_a_dataset() -> None:
    dqn = make("DQN")
    buffer = dqn.collect(Line(gymnasium.spaces.Discrete(3)), explorer=ConstantEpsilonGreedy(1.0), n_steps=8, **SILENT)
    assert len(buffer) == 8 and dqn.action_size == 3
    data = buffer.to_mdp_dataset(reward_convention="same_row")
    assert [(len(each), each.terminated) for each in data] == [(3, True), (3, False), (2, False)]
    assert [step.action_reward for step in data[0]] == [1, 2, 3]
    options = {"n_steps": 2, "timelimit_aware": True, **SILENT}
    assert dqn.collect(Line(gymnasium.spaces.Discrete(3)), buffer, **options) is buffer and len(buffer) == 10
    with pytest.raises(ValueError, match="timelimit_aware is False, expected True"):
        dqn.collect(Line(gymnasium.spaces.Discrete(3)), buffer, **options | {"timelimit_aware": False})
    with pytest.raises(TypeError, match="NormalNoise"):
        dqn.collect(Line(gymnasium.spaces.Discrete(3)), explorer=NormalNoise(), n_steps=2, **SILENT)


@pytest.mark.parametrize("scaler", [None, "min_max"])
def test_noise_is_added_to_samples_and_greedy_actions_are_collected_where_they_are_asked_for(scaler: Any) -> None:
    env, sac = Line(Box(-2, 2, (1,))), make("SAC", action_scaler=scaler)

    def actions(n_steps: int = 3, **options: Any) -> Any:
        return sac.collect(env, n_steps=n_steps, **SILENT, **options).to_mdp_dataset().to_arrays()["actions"]

    nothing, collected = NormalNoise(0.0, 0.0), actions(deterministic=True)
    greedy = sac.predict(np.arange(3.0)[:, None])
    assert collected == pytest.approx(greedy, abs=1e-5)
    assert actions(explorer=nothing, deterministic=True) == pytest.approx(greedy, abs=1e-5)
    assert min(np.abs(actions(**each) - greedy).max() for each in ({}, {"explorer": nothing})) > 1e-3  # samples


def test_tensorboard_files_go_where_they_are_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    options = {"logdir": str(tmp_path / "logs"), "verbose": False, "show_progress": False, "with_timestamp": False}
    made = make("DQN").fit(vectors(True), n_epochs=1, tensorboard_dir=str(tmp_path / "offline"), **options)
    env, steps = Line(gymnasium.spaces.Discrete(3)), {"n_steps": 4, "n_steps_per_epoch": 4}
    make("DQN").fit_online(env, tensorboard_dir=str(tmp_path / "online"), **steps, **options)
    assert len([*(tmp_path / "offline" / "runs" / "DQN").iterdir()]) == 1
    assert len([*(tmp_path / "online" / "runs" / "DQN_online").iterdir()]) == 1 and made.impl is not None


def test_a_file_without_a_class_name_is_of_the_class_that_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "params.json"
    params = {**SMALL, "observation_shape": [6], "action_size": 2, "gamma": 0.9}
    path.write_text(json.dumps(params))
    made = algos.CQL.from_json(path)
    assert type(made) is algos.CQL and made.gamma == 0.9 and made.impl.action_size == 2
    with pytest.raises(CheckpointError, match="Estimator does not define _build_agent"):
        Estimator.from_json(path)


def test_epochs_in_the_constructor_are_those_of_fit() -> None:
    epochs: list[int] = []
    algos.DQN(n_epochs=2, **SMALL).fit(vectors(True), epoch_callback=lambda _, epoch, __: epochs.append(epoch), **QUIET)
    assert epochs == [0, 1]
