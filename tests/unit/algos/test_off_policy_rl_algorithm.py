"""Algorithms in epochs, and the runner that they are driven by."""

import csv
import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from experiment_fakes import Counting
from torch import nn

from pfrl_like.algos import EpochDDPG, EpochDQN, OffPolicyRLAlgorithm
from pfrl_like.errors import CheckpointError
from pfrl_like.experiments import EpochRunner
from pfrl_like.explorers import Greedy
from pfrl_like.policies import DeterministicHead
from pfrl_like.q_functions import DiscreteActionValueHead, FCSAQFunction
from pfrl_like.replay_buffers import ReplayBuffer


class Episodes(Counting):
    """Episodes of `length` steps, at whose ends there is success."""

    def __init__(self, length: int = 4, actions: gymnasium.Space[Any] | None = None) -> None:
        super().__init__(length)
        self.action_space = actions or self.action_space

    def _info(self) -> dict[str, Any]:
        return {"is_success": self.step_in_episode == self.length}


class Counted(Greedy):
    """Says for how many steps it was asked."""

    def __init__(self) -> None:
        self.times: list[int] = []

    def select_actions(self, t: int, greedy_actions: Any, action_value: Any = None, active: Any = None) -> Any:
        self.times.append(t)
        return greedy_actions


def dqn(env: Any, policy: Any = None, buffer: Any = None, kind: type[EpochDQN] = EpochDQN, **options: Any) -> Any:
    qf = nn.Sequential(nn.Linear(1, 2), DiscreteActionValueHead())
    small = {"steps_per_epoch": 3, "n_train_steps": 2, "buffer_batch_size": 5, "min_buffer_size": 8}
    return kind(env, policy, qf, ReplayBuffer(100) if buffer is None else buffer, **(small | options))


def updates_of(algorithm: Any) -> list[Any]:
    """The minibatches that the agent learns from, from now on."""
    batches: list[Any] = []
    update = algorithm.agent.update
    algorithm.agent.update = lambda batch: batches.append(batch) or update(batch)
    return batches


OF_RUNNER = ("eval_n_episodes", "snapshot_interval", "keep_snapshots", "on_snapshot_failure", "hooks")


def run(outdir: Path, epochs: int = 2, *, env: Any = None, batch_size: int | None = None, **options: Any) -> Any:
    """An algorithm after so many epochs, its minibatches, what it returned, and the runner."""
    runner_options = {name: options.pop(name) for name in OF_RUNNER if name in options}
    env = env or Episodes()
    algorithm = dqn(env, **options)
    batches = updates_of(algorithm)
    runner = EpochRunner(algorithm, env, outdir, **({"eval_n_episodes": 0} | runner_options))
    return algorithm, batches, runner.train(epochs, batch_size), runner


def epochs_of(outdir: Path) -> list[dict[str, str]]:
    with open(outdir / "epochs.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_an_epoch_has_so_many_iterations_of_so_many_paths_and_gradient_steps(tmp_path: Path) -> None:
    algorithm, batches, average, runner = run(tmp_path, rollout_batch_size=2)
    assert runner.step_itr == 2 * 3 and runner.epoch == 2
    assert len(algorithm.replay_buffer) == 6 * 2 * 4  # iterations, paths, steps
    assert len(batches) == 6 * 2 and {len(batch) for batch in batches} == {5}
    assert average == 4.0 and algorithm.success_rate == 1.0
    assert [row["itr"] for row in epochs_of(tmp_path)] == ["3", "6"]
    assert [row["cumulative_steps"] for row in epochs_of(tmp_path)] == [row["step"] for row in epochs_of(tmp_path)]
    assert json.loads((tmp_path / "run.json").read_text())["outcome"] == "finished"


@pytest.mark.parametrize(("option", "value", "steps"), [
    ("steps_per_epoch", 5, 2 * 5 * 4), ("max_path_length", 3, 2 * 3 * 3), ("rollout_batch_size", 3, 2 * 3 * 3 * 4),
])  # fmt: skip
def test_what_is_sampled_follows_the_options(tmp_path: Path, option: str, value: int, steps: int) -> None:
    algorithm, *_ = run(tmp_path, **{option: value})
    assert len(algorithm.replay_buffer) == algorithm.agent.t == steps


@pytest.mark.parametrize(("option", "value", "expected"), [
    ("n_train_steps", 7, {"updates": 5 * 7}), ("buffer_batch_size", 3, {"rows": 3}),
    ("min_buffer_size", 17, {"updates": 2 * 2}),  # of 24 steps: the last two iterations begin with 20 and 24
    ("discount", 0.5, {"discount": 0.5}),
    ("reward_scale", 0.25, {"reward": 0.25}),
])  # fmt: skip
def test_minibatches_follow_the_options(tmp_path: Path, option: str, value: Any, expected: dict[str, Any]) -> None:
    _, batches, average, _ = run(tmp_path, **{option: value})
    found = {
        "updates": len(batches), "rows": len(batches[0]),
        "discount": max(float(batch.discount.max()) for batch in batches), "reward": float(batches[0].reward.max()),
    }  # fmt: skip
    usual = {"updates": 5 * 2, "rows": 5, "discount": 0.99, "reward": 1.0}
    assert found == pytest.approx(usual | expected)
    assert average == 4.0  # in the environment's own rewards


@pytest.mark.parametrize(("smooth", "expected"), [(True, (2 + 4 + 6) / 3), (False, 6.0)])
def test_the_average_is_of_the_last_epoch_or_its_last_iteration(tmp_path: Path, smooth: bool, expected: float) -> None:
    class Growing(Episodes):
        lengths = iter([9, 9, 9, 2, 4, 6])

        def reset(self, **options: Any) -> Any:
            self.length = next(self.lengths)
            return super().reset(**options)

    assert run(tmp_path, env=Growing(), smooth_return=smooth)[2] == expected
    assert float(epochs_of(tmp_path)[0]["return"]) == 9.0


@pytest.mark.parametrize(("limits", "expected"), [
    ({}, 4.0), ({"max_path_length": 3}, 3.0), ({"max_path_length": 3, "max_eval_path_length": 2}, 2.0),
])  # fmt: skip
def test_evaluation_has_a_limit_of_its_own(tmp_path: Path, limits: dict[str, int], expected: float) -> None:
    run(tmp_path, eval_n_episodes=2, **limits)
    assert [float(row["eval_return"]) for row in epochs_of(tmp_path)] == [expected] * 2
    assert len((tmp_path / "scores.txt").read_text().splitlines()) == 3 and (tmp_path / "best").is_dir()


@pytest.mark.parametrize("use_target", [False, True])
def test_targets_are_apart_only_where_they_are_wanted(tmp_path: Path, use_target: bool) -> None:
    algorithm = dqn(Episodes(), use_target=use_target, target_update_interval=1000)
    first = [each.clone() for each in algorithm.qf.parameters()]
    EpochRunner(algorithm, Episodes(), tmp_path, eval_n_episodes=0).train(2)
    agent = algorithm.agent
    stays = all(torch.equal(a, b) for a, b in zip(agent.target_model.parameters(), first, strict=True))
    assert stays == use_target and not torch.equal(agent.model[0].weight, first[0])


@pytest.mark.slow
def test_exploration_goes_before_the_policy_and_neither_acts_in_evaluation(tmp_path: Path) -> None:
    exploring, policy = Counted(), Counted()
    run(tmp_path, policy=policy, exploration_policy=exploring, eval_n_episodes=3)
    assert exploring.times == list(range(24)) and policy.times == []
    run(tmp_path / "other", policy=policy, eval_n_episodes=3)
    assert policy.times == list(range(24))


@pytest.mark.parametrize("double", [False, True])
def test_double_q_learning_is_a_choice(double: bool) -> None:
    assert type(dqn(Episodes(), double_q=double).agent).__name__ == ("DoubleDQN" if double else "DQN")
    assert dqn(Episodes(), qf_lr=0.5).agent.optimizer.param_groups[0]["lr"] == 0.5


def ddpg(env: Any, **options: Any) -> EpochDDPG:
    policy = nn.Sequential(nn.Linear(1, 1), DeterministicHead())
    small = {"steps_per_epoch": 2, "n_train_steps": 3, "buffer_batch_size": 4, "min_buffer_size": 4}
    return EpochDDPG(env, policy, FCSAQFunction(1, 1, 8, 1), ReplayBuffer(100), **(small | options))


@pytest.mark.parametrize(("options", "distance"), [
    ({}, 0.0), ({"use_target": True, "target_update_tau": 1.0}, 0.0),
    ({"use_target": True, "target_update_tau": 1e-6}, 1.0),
])  # fmt: skip
def test_a_policy_gradient_learns_in_epochs_with_targets_that_follow(
    tmp_path: Path, options: dict[str, Any], distance: float
) -> None:
    env = Episodes(actions=gymnasium.spaces.Box(-1, 1, (1,), np.float32))
    algorithm = ddpg(env, policy_lr=0.1, qf_lr=0.2, **options)
    agent, first = algorithm.agent, algorithm.policy[0].bias.detach().clone()
    assert [each.param_groups[0]["lr"] for each in (agent.actor_optimizer, agent.critic_optimizer)] == [0.1, 0.2]
    EpochRunner(algorithm, env, tmp_path, eval_n_episodes=0).train(1)
    agent.sync_target_network()
    assert agent.optim_t == 2 * 3
    moved = (algorithm.policy[0].bias - first).abs().item()
    apart = (algorithm.policy[0].bias - agent.target_policy[0].bias).abs().item()
    assert moved > 0 and apart == pytest.approx(distance * moved, rel=1e-3)


def test_batches_of_steps_cut_paths_and_the_next_one_goes_on(tmp_path: Path) -> None:
    seen: list[Any] = []

    class Watching(EpochDQN):
        def process_samples(self, itr: int, paths: Any) -> dict[str, list[Any]]:
            seen.append(super().process_samples(itr, paths))
            seen[-1]["observations"] = [path["observations"][:, 0].tolist() for path in paths]
            return seen[-1]

    algorithm = dqn(Episodes(), kind=Watching, steps_per_epoch=2)
    assert EpochRunner(algorithm, Episodes(), tmp_path, eval_n_episodes=0).train(1, batch_size=6) == 4.0
    assert seen == [
        {"undiscounted_returns": [4.0, 2.0], "success_history": [1.0, 0.0], "complete": [True, False],
         "observations": [[0, 1, 2, 3], [0, 1]]},
        {"undiscounted_returns": [4.0, 4.0], "success_history": [1.0, 1.0], "complete": [True, True],
         "observations": [[2, 3], [0, 1, 2, 3]]},
    ]  # fmt: skip
    assert len(algorithm.replay_buffer) == 12


@pytest.mark.slow
def test_a_path_tells_all_that_came(tmp_path: Path) -> None:
    *_, runner = run(tmp_path, max_path_length=3)
    (path,) = runner.step_path
    np.testing.assert_array_equal(path["observations"], [[0], [1], [2]])
    assert path["last_observation"] == [3] and path["actions"].shape == (3,)
    assert path["terminations"].tolist() == [False] * 3 and path["env_infos"] == [{"is_success": False}] * 3
    assert (path["complete"], path["success"], path["undiscounted_return"]) == (True, False, 3.0)


@pytest.mark.slow
def test_a_run_goes_on_from_its_last_snapshot(tmp_path: Path) -> None:
    first, *_ = run(tmp_path, 2)
    other = dqn(Episodes())
    runner = EpochRunner(other, Episodes(), tmp_path, eval_n_episodes=0)
    assert runner.restore() == 2
    assert other.agent.optim_t == first.agent.optim_t and len(other.replay_buffer) == 24
    assert torch.equal(other.qf[0].weight, first.qf[0].weight)
    runner.train(3)
    assert (runner.epoch, runner.step_itr, other.agent.t, len(other.replay_buffer)) == (3, 9, 36, 36)
    assert [row["epoch"] for row in epochs_of(tmp_path)] == ["1", "2", "3"]
    kept = {path.parent.name for path in tmp_path.glob("*/run")}
    assert kept == {"24_checkpoint", "24_finish", "36_checkpoint", "36_finish"}
    assert (tmp_path / "12_checkpoint").is_dir()


class Keeping(EpochDQN):
    """Keeps what training changes in attributes of its own, and draws from a generator of its own."""

    def __init__(self, *parts: Any, bonus: float = 1.0, **options: Any) -> None:
        super().__init__(*parts, **options)
        self.bonus, self.iterations, self._bounds = bonus, 0, (0.0, np.zeros(2))
        self.seen: dict[str, list[float]] = {"returns": []}
        self.rng, self.mark = np.random.default_rng(0), None

    def train_once(self, itr: int, paths: Any) -> float:
        average = super().train_once(itr, paths)
        self.iterations += 1
        self._bounds = average, self._bounds[1] + 1
        self.seen["returns"].append(average)
        self.last, self.drawn = average, self.rng.random()
        return average


def resumed(outdir: Path, *epochs: int, kind: type[EpochDQN] = Keeping, **options: Any) -> tuple[Any, Any]:
    """An algorithm that was made anew for each of these numbers of epochs, and how it was resumed."""
    for n in epochs:
        algorithm = dqn(Episodes(), kind=kind, **options)
        EpochRunner(algorithm, Episodes(), outdir, eval_n_episodes=0).train(n, resume=True)
    return algorithm, json.loads((outdir / "run.json").read_text()).get("resumed")


def kept_by(algorithm: Any) -> dict[str, str]:
    names = ("iterations", "_bounds", "seen", "last", "bonus", "drawn")
    return {name: str(getattr(algorithm, name)) for name in names}


@pytest.mark.slow
def test_what_an_algorithm_keeps_in_attributes_of_its_own_goes_on(tmp_path: Path) -> None:
    whole, _ = resumed(tmp_path / "whole", 3)
    parts, how = resumed(tmp_path / "parts", 1, 2, 3)
    assert kept_by(parts) == kept_by(whole) and whole.iterations == 9
    assert (how["resume"], how["reasons"]) == ("exact", [])
    longer, _ = resumed(tmp_path / "parts", 4, bonus=2.0)
    assert (longer.iterations, longer.bonus) == (12, 2.0)  # what the constructor was given stays


def test_what_an_algorithm_replaces_and_cannot_be_saved_is_told(tmp_path: Path) -> None:
    class Marked(Keeping):
        def train_once(self, itr: int, paths: Any) -> float:
            self.mark = object()
            return super().train_once(itr, paths)

    _, how = resumed(tmp_path, 1, 2, kind=Marked)
    reason = "mark of Marked changed and is not saved: define saved_state on Marked"
    assert (how["resume"], how["reasons"]) == ("approximate", [reason])


def test_snapshots_are_made_at_their_interval_and_at_the_end(tmp_path: Path) -> None:
    run(tmp_path, 5, snapshot_interval=2)
    assert {path.name for path in tmp_path.glob("*_checkpoint")} == {f"{12 * epoch}_checkpoint" for epoch in (2, 4, 5)}
    run(tmp_path / "few", 4, keep_snapshots=3)
    assert {path.name for path in (tmp_path / "few").glob("*_checkpoint")} == {f"{t}_checkpoint" for t in (24, 36, 48)}


def test_a_snapshot_that_cannot_be_written_ends_training_or_does_not(tmp_path: Path) -> None:
    def fill_disk(clock: Any) -> None:
        if clock.t == 20:
            (tmp_path / "24_checkpoint").write_text("in the way")

    with pytest.raises(CheckpointError, match="24_checkpoint"):
        run(tmp_path, 2, hooks=[fill_disk])
    (tmp_path / "24_checkpoint").unlink()
    *_, runner = run(tmp_path, 3, hooks=[fill_disk], on_snapshot_failure="warn")
    assert runner.epoch == 3


def test_a_directory_without_a_snapshot_is_refused(tmp_path: Path) -> None:
    runner = EpochRunner(dqn(Episodes()), Episodes(), tmp_path)
    with pytest.raises(CheckpointError, match="contains no snapshot"):
        runner.restore()
    runner.algorithm.agent.save(str(tmp_path / "4_checkpoint"))
    with pytest.raises(CheckpointError, match="4_checkpoint: contains only an agent"):
        runner.restore()


def test_a_hook_may_end_training(tmp_path: Path) -> None:
    *_, runner = run(tmp_path, 10, hooks=[lambda clock: clock.t >= 14 and clock.stop("enough")])
    assert runner.epoch == 2 and "stopped" in json.loads((tmp_path / "run.json").read_text())["outcome"]


def test_another_environment_and_loggers_of_ones_own_are_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines: list[Any] = []
    kept = SimpleNamespace(
        log=lambda step, metrics: lines.append((step, metrics["return"])), close=lambda: lines.append("closed")
    )
    options: dict[str, Any] = {"eval_env": Episodes(7), "logger": logging.getLogger("own"), "loggers": [kept]}
    with caplog.at_level(logging.INFO, "own"):
        EpochRunner(dqn(Episodes()), Episodes(), tmp_path, **options).train(1)
    assert float(epochs_of(tmp_path)[0]["eval_return"]) == 7.0
    assert lines == [(4, 4.0), (8, 4.0), (12, 4.0), "closed"]
    assert [record.name for record in caplog.records if "eval_return" in record.getMessage()] == ["own"]


@pytest.mark.parametrize(("change", "error", "text"), [
    ({"steps_per_epoch": 0}, ValueError, "steps_per_epoch"), ({"min_buffer_size": 2.5}, TypeError, "min_buffer_size"),
    ({"min_buffer_size": 4}, ValueError, r"from 5 \(buffer_batch_size"),
    ({"min_buffer_size": 101}, ValueError, "capacity"),
    ({"reward_scale": float("nan")}, ValueError, "reward_scale"),
    ({"max_path_length": 0}, ValueError, "max_path_length"), ({"discont": 0.9}, TypeError, "discont"),
])  # fmt: skip
def test_bad_numbers_and_unknown_names_are_refused(change: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        dqn(Episodes(), **change)


def test_parts_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="env_spec is int, expected an object with observation_space"):
        dqn(3)
    box = Episodes(actions=gymnasium.spaces.Box(-1, 1, (1,)))
    with pytest.raises((TypeError, ValueError), match="Box"):
        EpochRunner(dqn(box), box, tmp_path / "box").train(1)
    with pytest.raises(TypeError, match="algorithm: got DoubleDQN, expected an EpochAlgorithm"):
        EpochRunner(dqn(Episodes()).agent, Episodes(), tmp_path)
    with pytest.raises(ValueError, match="has the action_space Discrete\\(3\\), but .* has Discrete\\(2\\)"):
        EpochRunner(dqn(Episodes()), Episodes(actions=gymnasium.spaces.Discrete(3)), tmp_path)
    with pytest.raises(TypeError, match="abstract"):
        OffPolicyRLAlgorithm(Episodes(), None, None, None)


@pytest.mark.parametrize("agent", [None, "an agent"])
def test_a_subclass_that_makes_no_agent_is_told_so(agent: Any) -> None:
    class Without(OffPolicyRLAlgorithm):
        def init_opt(self) -> None:
            if agent is not None:
                self.agent = agent

    with pytest.raises(TypeError, match="agent is (None|'an agent') after init_opt of Without, expected an agent"):
        Without(Episodes(), None, None, ReplayBuffer(100), min_buffer_size=64)
