import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tensorboard_files import scalars
from torch import nn

from pfrl_like.d3rlpy import Modules, logging
from pfrl_like.d3rlpy.logging.wandb_adapter import WanDBAdapterFactory
from pfrl_like.errors import MissingDependencyError

PARAMS = {"observation_shape": [3], "action_size": 2, "config": {"type": "dqn", "params": {"warmup_tokens": 10240}}}


@dataclass
class Networks(Modules):
    q_funcs: nn.Module
    optim: object


class Algo:
    """The gradients of its network's weights are 1, 2, 3 and -4, those of the biases are unknown."""

    def __init__(self) -> None:
        network = nn.Linear(2, 2)
        network.weight.grad = torch.tensor([[1.0, 2.0], [3.0, -4.0]])
        self.impl = SimpleNamespace(modules=Networks(network, object()))

    def save(self, fname: str) -> None:
        Path(fname).write_text("saved")


def log(factory: Any, name: str = "DQN", with_timestamp: bool = False) -> Any:
    """The adapter, closed, after two epochs of ten updates."""
    algo = Algo()
    logger = logging.D3RLPyLogger(algo, factory, name, 10, with_timestamp)
    logger.add_params(PARAMS)
    logger.add_metric("loss", 1.0)
    logger.add_metric("loss", 2.5)
    assert logger.commit(1, 10) == {"loss": 1.75}
    logger.add_metric("loss", 0.1)
    logger.commit(2, 20)
    logger.save_model(20, algo)
    logger.close()
    return logger.adapter


def test_files_are_those_of_d3rlpy(tmp_path: Path) -> None:
    adapter = log(logging.FileAdapterFactory(str(tmp_path)))
    folder = tmp_path / "DQN"
    assert adapter.logdir == str(folder)
    row = "-4.0,3.0,0.5,2.692582368850708"
    assert {path.name: path.read_text() for path in folder.iterdir() if path.suffix != ".json"} == {
        "loss.csv": "1,10,1.75\n2,20,0.1\n",
        "model_20.d3": "saved",
        "q_funcs.weight_grad.csv": f"epoch,step,min,max,mean,std\n1,10,{row}\n2,20,{row}\n",
    }
    assert json.loads((folder / "params.json").read_text()) == PARAMS


def test_metrics_of_a_second_fit_follow_in_the_same_files(tmp_path: Path) -> None:
    for _ in range(2):
        log(logging.FileAdapterFactory(str(tmp_path)))
    assert len((tmp_path / "DQN/loss.csv").read_text().splitlines()) == 4
    assert len((tmp_path / "DQN/q_funcs.weight_grad.csv").read_text().splitlines()) == 3


def test_the_name_ends_in_the_time_of_the_start(tmp_path: Path) -> None:
    log(logging.FileAdapterFactory(str(tmp_path)), with_timestamp=True)
    name, time = next(tmp_path.iterdir()).name.split("_")
    assert name == "DQN" and len(time) == 14 and time.isdigit()


def test_curves_of_tensorboard_are_those_of_d3rlpy(tmp_path: Path) -> None:
    log(logging.TensorboardAdapterFactory(str(tmp_path)))
    folder = tmp_path / "runs" / "DQN"
    assert scalars(folder) == {"metrics/loss": [(1, 1.75), (2, pytest.approx(0.1))]}
    assert scalars(folder / "DQN") == {"loss": [(1, 1.75), (2, pytest.approx(0.1))]}


def test_nothing_is_written_by_the_adapter_that_discards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log(logging.NoopAdapterFactory())
    assert not list(tmp_path.iterdir())


class Recorder(logging.LoggerAdapter):
    """A user's own adapter, which overrides what it needs."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def write_metric(self, epoch: int, step: int, name: str, value: float) -> None:
        self.calls.append((epoch, step, name, value))

    def watch_model(self, epoch: int, step: int) -> None:
        self.calls.append((epoch, step))


class RecorderFactory(logging.LoggerAdapterFactory):
    def create(self, algo: Any, experiment_name: str, n_steps_per_epoch: int) -> Any:
        self.adapter = Recorder()
        return self.adapter


def test_several_adapters_get_everything(tmp_path: Path) -> None:
    own = RecorderFactory()
    log(logging.CombineAdapterFactory([logging.FileAdapterFactory(str(tmp_path)), own]))
    assert own.adapter.calls == [(1, 10, "loss", 1.75), (1, 10), (2, 20, "loss", 0.1), (2, 20)]
    assert (tmp_path / "DQN/loss.csv").exists() and (tmp_path / "DQN/model_20.d3").exists()


def test_a_block_is_timed() -> None:
    logger = logging.D3RLPyLogger(Algo(), logging.NoopAdapterFactory(), "DQN", 10)
    with logger.measure_time("step"):
        pass
    assert logger.commit(1, 1)["time_step"] >= 0


class Wandb:
    """Stands in for the package and its run."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.config = SimpleNamespace(update=lambda params: self.calls.append(params))

    def init(self, project: str, name: str) -> "Wandb":
        self.calls.append((project, name))
        return self

    def watch(self, modules: Any, log: str, log_freq: int) -> None:
        self.calls.append((len(modules), log, log_freq))

    def log(self, values: Any, step: int) -> None:
        self.calls.append((values, step))

    def finish(self) -> None:
        self.calls.append("finish")


def test_weights_and_biases_gets_params_and_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = Wandb()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    log(WanDBAdapterFactory("project"))
    assert wandb.calls == [
        ("project", "DQN"), (1, "gradients", 10), PARAMS,
        ({"loss": 1.75, "epoch": 1}, 10), ({"loss": 0.1, "epoch": 2}, 20), "finish",
    ]  # fmt: skip


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingDependencyError, match="pip install wandb"):
        log(WanDBAdapterFactory())
