import csv
import json
import logging
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

from pfrl_like.agents import DQN
from pfrl_like.algos import DiscreteCQL
from pfrl_like.dataset import MDPDataset
from pfrl_like.experiments import train_agent, train_agent_offline
from pfrl_like.explorers import ConstantEpsilonGreedy
from pfrl_like.q_functions import FCStateQFunctionWithDiscreteAction
from pfrl_like.replay_buffers import PrioritizedReplayBuffer, ReplayBuffer


def recorded(n: int = 60) -> MDPDataset:
    rng = np.random.default_rng(0)
    observations = rng.normal(size=(n, 4)).astype(np.float32)
    return MDPDataset(observations, rng.integers(0, 2, n), np.ones(n), np.arange(n) % 10 == 9, discrete_action=True)


def agent(buffer: ReplayBuffer | None = None) -> DQN:
    torch.manual_seed(0)
    q_function = FCStateQFunctionWithDiscreteAction(4, 2, 8, 1)
    return DQN(
        q_function, torch.optim.SGD(q_function.parameters(), 0.01), buffer or ReplayBuffer(1000), 0.9,
        ConstantEpsilonGreedy(0.1, lambda: 0), minibatch_size=8, replay_start_size=8, target_update_interval=10,
    )  # fmt: skip


def weights(trained: DQN) -> list[float]:
    return torch.nn.utils.parameters_to_vector(trained.model.parameters()).tolist()


def test_a_run_leaves_what_other_runs_leave(tmp_path: Path) -> None:
    seen: list[int] = []
    trained, history = train_agent_offline(
        agent(), recorded(), 40, tmp_path, 20, eval_env=gymnasium.make("CartPole-v1"), eval_n_episodes=2,
        eval_interval=20, eval_max_episode_len=30, log_interval=10, step_hooks=[lambda env, agent, t: seen.append(t)],
    )  # fmt: skip
    assert dict(trained.get_statistics())["n_updates"] == 40 and seen == list(range(1, 41))
    assert len(history) == 2 and all(0 < entry["eval_score"] <= 30 for entry in history)
    for name in ("20_checkpoint", "40_finish", "best", "scores.txt", "report.html"):
        assert (tmp_path / name).exists(), name
    assert json.loads((tmp_path / "run.json").read_text())["steps"] == 40
    with open(tmp_path / "metrics.csv") as file:
        assert len(list(csv.reader(file))) > 4


def test_evaluation_changes_no_number(tmp_path: Path) -> None:
    plain, _ = train_agent_offline(agent(), recorded(), 30, tmp_path / "a", rng=np.random.default_rng(1))
    evaluated, _ = train_agent_offline(
        agent(), recorded(), 30, tmp_path / "b", eval_env=gymnasium.make("CartPole-v1"), eval_n_episodes=1,
        eval_interval=10, rng=np.random.default_rng(1),
    )  # fmt: skip
    assert weights(plain) == weights(evaluated)


def test_the_agent_goes_on_online_with_the_same_data(tmp_path: Path) -> None:
    dataset = recorded()
    trained, _ = train_agent_offline(agent(ReplayBuffer.from_dataset(dataset)), dataset, 10, tmp_path / "offline")
    train_agent(trained, gymnasium.make("CartPole-v1"), 20, tmp_path / "online")
    assert dict(trained.get_statistics())["n_updates"] == 30
    assert len(trained.replay_buffer) == dataset.n_steps + 20


def test_a_prioritized_buffer_is_a_dataset_too(tmp_path: Path) -> None:
    buffer = PrioritizedReplayBuffer.from_dataset(recorded())
    train_agent_offline(agent(), buffer, 20, tmp_path)
    weight = buffer.sample_batch(20).weight
    assert weight is not None and len(set(weight.tolist())) > 1  # priorities have been learnt


@pytest.mark.parametrize(
    "options, message", [({"eval_interval": 5}, "both or neither"), ({"log_interval": 0}, "log_interval")]
)
def test_bad_arguments_are_refused_before_anything_is_written(options: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        train_agent_offline(agent(), recorded(), 5, tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()
    with pytest.raises(TypeError, match="dataset: got a list, .* MDPDataset.from_episodes"):
        train_agent_offline(agent(), [], 5, tmp_path / "run")
    with pytest.raises(
        TypeError, match="agent: got a DiscreteCQL, expected .* the agent of an estimator is its `impl`"
    ):
        train_agent_offline(DiscreteCQL(), recorded(), 5, tmp_path / "run")
    with pytest.raises(TypeError, match="agent: got a str, expected something with update"):
        train_agent_offline("DQN", recorded(), 5, tmp_path / "run")


def test_data_that_do_not_fit_are_told_with_their_shapes(tmp_path: Path) -> None:
    row = np.zeros((20, 3), np.float32)
    shape = r"\(8, 3\) of float32"
    for dataset, actions in (
        (MDPDataset(row, row[:, :1], row[:, 0], row[:, 0]), r"\(8, 1\) of float32"),
        (MDPDataset(row, np.zeros(20, int), row[:, 0], row[:, 0], discrete_action=True), r"\(8,\) of int64"),
    ):
        with pytest.raises(RuntimeError, match=f"DQN could not .* observations {shape} and actions {actions}; .*shape"):
            train_agent_offline(agent(), dataset, 5, tmp_path / "run")


def test_the_same_seed_gives_the_same_numbers(tmp_path: Path) -> None:
    def after(seed: int, folder: str) -> list[float]:
        return weights(
            train_agent_offline(agent(), recorded(), 20, tmp_path / folder, rng=np.random.default_rng(seed))[0]
        )

    assert after(1, "a") == after(1, "b") != after(2, "c")


class Told:
    """Keeps what a logger, a hook or an evaluation hook is told."""

    support_train_agent = support_train_agent_offline = True

    def __init__(self) -> None:
        self.steps: list[int] = []

    def log(self, t: int, metrics: dict) -> None:
        self.steps.append(t)

    def close(self) -> None:
        pass

    def __call__(self, *args: object, **kwargs: object) -> None:
        self.steps.append(len(args) + len(kwargs))


def test_what_is_told_of_a_run_reaches_whom_it_is_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tensorboard")
    hook, logger, evaluation_hook, sizes = Told(), Told(), Told(), []
    trained = agent()
    update = trained.update
    trained.update = lambda batch: sizes.append(len(batch)) or update(batch)  # type: ignore[method-assign]
    caplog.set_level(logging.INFO, "mine")
    _, history = train_agent_offline(
        trained, recorded(), 40, tmp_path, step_offset=10, eval_env=gymnasium.make("CartPole-v1"), eval_n_steps=20,
        eval_interval=10, successful_score=1.0, evaluation_hooks=[evaluation_hook], save_best_so_far_agent=False,
        use_tensorboard=True, minibatch_size=5, log_interval=2, logger=logging.getLogger("mine"), progress=True,
        hooks=[hook], loggers=[logger],
    )  # fmt: skip
    assert len(history) == 1 and sizes == [5] * 10  # ended by the first evaluation, at step 20
    assert hook.steps and evaluation_hook.steps and {12, 14, 16, 18, 20} <= {*logger.steps}
    assert not (tmp_path / "best").exists() and [*tmp_path.rglob("events.out.tfevents*")]
    assert any(record.name == "mine" for record in caplog.records)
    assert "step 20" in capsys.readouterr().err
