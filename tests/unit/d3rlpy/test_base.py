import io
import json
import pickle
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn

from pfrl_like.d3rlpy.base import (
    ALGORITHMS,
    LearnableBase,
    LearnableConfig,
    LearnableConfigWithShape,
    device_name,
    load_learnable,
)
from pfrl_like.d3rlpy.constants import ActionSpace
from pfrl_like.d3rlpy.models.q_functions import critics
from pfrl_like.d3rlpy.ope import FQEConfig
from pfrl_like.d3rlpy.preprocessing import MinMaxActionScaler, MultiplyRewardScaler
from pfrl_like.errors import CheckpointError, NotFittedError


class Learner(LearnableBase):
    """A smallest algorithm: its agent is its Q-functions."""

    def get_action_type(self) -> ActionSpace:
        return ActionSpace.DISCRETE

    def inner_create_impl(self, observation_shape: Any, action_size: int) -> None:
        parts = self.config.q_func_factory, self.config.encoder_factory
        self._impl = critics(*parts, observation_shape, action_size, discrete=True)

    def module_states(self) -> dict[str, Any]:
        return {"q_funcs": self.impl.members.state_dict()}

    def load_module_states(self, states: dict[str, Any]) -> None:
        self.impl.members.load_state_dict(states["q_funcs"], strict=True)


@pytest.fixture(autouse=True)
def _an_algorithm_for_a_config_without_one() -> Any:
    ALGORITHMS[FQEConfig] = Learner
    yield
    del ALGORITHMS[FQEConfig]


def learner() -> Any:
    made = FQEConfig(batch_size=7, gamma=0.5, reward_scaler=MultiplyRewardScaler(2.0)).create()
    made.create_impl((3,), 2)
    return made


def values(algorithm: Any) -> torch.Tensor:
    return algorithm.impl(torch.ones(1, 3)).q_values.detach()


def test_an_algorithm_shows_its_config() -> None:
    made = learner()
    assert isinstance(made, Learner)
    assert (made.batch_size, made.gamma, made.grad_step, made.compiled) == (7, 0.5, 0, False)
    assert (made.observation_scaler, made.action_scaler) == (None, None)
    assert made.reward_scaler is made.config.reward_scaler
    assert (made.observation_shape, made.action_size) == ((3,), 2)
    made.set_grad_step(3)
    assert made.grad_step == 3


def test_files_give_the_algorithm_again(tmp_path: Path) -> None:
    made, d3, pt = learner(), str(tmp_path / "model.d3"), str(tmp_path / "model.pt")
    made.save(d3)
    made.save_model(pt)
    loaded = load_learnable(d3)
    assert loaded.config == made.config
    torch.testing.assert_close(values(loaded), values(made))
    other = learner()
    other.load_model(pt)
    torch.testing.assert_close(values(other), values(made))
    params = tmp_path / "params.json"
    params.write_text(LearnableConfigWithShape((3,), 2, made.config).serialize())
    assert Learner.from_json(str(params)).config == made.config


def test_a_written_file_is_a_pickle_of_plain_values(tmp_path: Path) -> None:
    learner().save(str(tmp_path / "model.d3"))
    content = pickle.loads((tmp_path / "model.d3").read_bytes())
    assert content.keys() == {"torch", "config", "version"} and content["version"] == "2.8.1"
    assert torch.load(io.BytesIO(content["torch"]), weights_only=True).keys() == {"q_funcs"}


class Hostile:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_a_hostile_file_runs_nothing(tmp_path: Path) -> None:
    trap, path = tmp_path / "trap", tmp_path / "model.d3"
    for content in (Hostile(trap), {"torch": b"", "config": Hostile(trap), "version": "2.8.1"}):
        path.write_bytes(pickle.dumps(content))
        with pytest.raises(CheckpointError, match="is not a file of an algorithm: it has the instruction"):
            load_learnable(str(path))
    torch.save({"q_funcs": Hostile(trap)}, tmp_path / "model.pt")
    with pytest.raises(CheckpointError):
        learner().load_model(str(tmp_path / "model.pt"))
    learner().save(str(path))
    path.write_bytes(pickle.dumps({**pickle.loads(path.read_bytes()), "torch": (tmp_path / "model.pt").read_bytes()}))
    with pytest.raises(CheckpointError):
        load_learnable(str(path))
    assert not trap.exists()


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x04.", pickle.dumps("torch"), pickle.dumps({"torch": b"", "config": ""})]
)
def test_a_file_of_something_else_is_rejected(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.d3").write_bytes(content)
    with pytest.raises(CheckpointError, match="is not a file of an algorithm"):
        load_learnable(str(tmp_path / "model.d3"))


@pytest.mark.parametrize(
    ("shape", "size", "units"),
    [((1 << 30,), 2, [4]), ((3,), 1 << 30, [4]), ((3,), 2, [1 << 30])],
)
def test_networks_of_a_file_are_bounded(tmp_path: Path, shape: Any, size: int, units: list[int]) -> None:
    config = LearnableConfigWithShape(shape, size, FQEConfig())
    stored = config.serialize_to_dict()
    stored["config"]["params"]["encoder_factory"] = {"type": "vector", "params": {"hidden_units": units}}
    path = tmp_path / "params.json"
    path.write_text(json.dumps(stored))
    with pytest.raises(CheckpointError):
        Learner.from_json(str(path))


def test_other_networks_are_rejected_by_name(tmp_path: Path) -> None:
    path = str(tmp_path / "model.pt")
    learner().save_model(path)
    other = FQEConfig().create()
    other.create_impl((4,), 2)
    with pytest.raises(CheckpointError, match="does not match the algorithm"):
        other.load_model(path)


def test_an_algorithm_without_networks_says_what_to_do(tmp_path: Path) -> None:
    made = FQEConfig().create()
    for call in (made.save, made.save_model, made.load_model):
        with pytest.raises(NotFittedError, match="Learner has no networks: call fit"):
            call(str(tmp_path / "model"))


def test_networks_are_built_for_an_environment_or_a_dataset() -> None:
    made = FQEConfig().create()
    box: Any = gymnasium.spaces.Box(-1.0, 1.0, (4,))
    env = type("Env", (), {"observation_space": box, "action_space": gymnasium.spaces.Discrete(3)})()
    made.build_with_env(env)
    assert (made.observation_shape, made.action_size) == ((4,), 3)
    env.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    with pytest.warns(UserWarning, match="create_impl replaces the networks of this Learner"):
        made.build_with_env(env)
    assert made.action_size == 2
    env.observation_space = gymnasium.spaces.Discrete(3)
    with pytest.raises(TypeError, match="observation_space is Discrete"):
        made.build_with_env(env)


def test_a_device_has_a_name() -> None:
    given: list[Any] = [None, False, True, 2, "cuda:3"]
    assert [*map(device_name, given)] == ["cpu:0", "cpu:0", "cuda:0", "cuda:2", "cuda:3"]
    with pytest.raises(TypeError, match="device is 1.5"):
        device_name(1.5)  # type: ignore[arg-type]
    for unknown in ("gpu", -1):
        with pytest.raises(ValueError, match=f"device is {unknown!r}, expected the index or the name"):
            device_name(unknown)


def test_discrete_actions_have_no_scaler() -> None:
    with pytest.raises(ValueError, match="expected None, because actions are discrete"):
        FQEConfig(action_scaler=MinMaxActionScaler(np.zeros(1), np.ones(1))).create()


@pytest.mark.parametrize(("name", "value"), [("encoder_factory", "pixel"), ("reward_scaler", MultiplyRewardScaler)])
def test_names_and_classes_of_scalers_and_factories_are_refused(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"^{name} is .*, expected an object"):
        FQEConfig(**{name: value}).create()


def test_a_config_without_an_algorithm_says_so() -> None:
    with pytest.raises(NotImplementedError, match="LearnableConfig has no algorithm"):
        LearnableConfig().create()


def test_a_subclass_is_found_by_its_config_class() -> None:
    class Config(FQEConfig):
        """Config of a user."""

    class Own(Learner, config_class=Config):
        """Algorithm of a user."""

    assert type(Config().create()) is Own
    assert isinstance(Own(Config(), False, False, nn.Identity()).impl, nn.Identity)
