"""The scripts that make offline data and compare offline agents; here for some steps."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from pfrl_like import datasets
from pfrl_like.dataset import MDPDataset


def rows(tmp_path: Path, name: str) -> str:
    """What both libraries read."""
    dataset, _ = getattr(datasets, f"get_{name}")()
    dataset.dump(tmp_path / f"{name}.npz", reward_convention="same_row")
    return str(tmp_path / f"{name}.npz")


@pytest.mark.slow
def test_each_algorithm_is_trained_and_leaves_a_policy(script: Any, tmp_path: Path) -> None:
    ours, settings = script("offline_tasks.ours"), script("offline_tasks.settings")
    known = [name for name in settings.ALGORITHMS if ours.available(name)]
    assert {"BC", "TD3PlusBC", "ReBRAC", "IQL", "AWAC", "CRR", "CQL", "DiscreteBC", "DiscreteCQL"} <= {*known}
    data = {False: rows(tmp_path, "pendulum"), True: rows(tmp_path, "cartpole")}
    for name in known:
        discrete = name in settings.DISCRETE
        few = settings.settings_of(name, updates=2, hidden=(16,), batch_size=8)
        path = str(tmp_path / f"{name}.pt")
        assert ours.train(name, few, data[discrete], 0, path) == MDPDataset.load(data[discrete]).n_steps
        action = torch.jit.load(path)(torch.zeros(2, 4 if discrete else 3))
        assert action.shape == ((2,) if discrete else (2, 1)), name


def test_updates_a_second_are_measured_in_a_run(script: Any, tmp_path: Path) -> None:
    ours, settings = script("offline_tasks.ours"), script("offline_tasks.settings")
    few = settings.settings_of("BC", hidden=(16,), batch_size=8)
    assert ours.rate("BC", few, rows(tmp_path, "pendulum"), 0.05, 3) > 0


@pytest.mark.parametrize(("name", "discrete"), [("cartpole", True), ("pendulum", False)])
def test_a_policy_is_scored_in_the_environment_of_its_data(script: Any, name: str, discrete: bool) -> None:
    scores = script("offline_scores")
    make_env, is_discrete = scores.DATASETS[name]
    assert is_discrete == discrete

    def nothing(obs: torch.Tensor) -> torch.Tensor:
        assert obs.shape == (1, 4 if discrete else 3) and obs.dtype == torch.float32
        return torch.zeros(1, dtype=torch.int64) if discrete else torch.zeros(1, 1)

    returns = scores.greedy_returns(nothing, make_env())
    assert len(returns) == scores.EPISODES and returns == scores.greedy_returns(nothing, make_env())


def test_the_interval_of_a_difference_holds_seeds_and_episodes(script: Any) -> None:
    difference = script("offline_scores").difference
    assert difference([[3.0, 3.0], [3.0, 3.0]], [[1.0], [1.0]]) == (2.0, 2.0, 2.0)
    mean, low, high = difference([[0.0, 10.0]] * 3, [[4.0, 4.0]] * 3)
    assert mean == 1.0 and -4.0 <= low < 0 < high <= 6.0


def test_lines_of_other_settings_do_not_count(script: Any, tmp_path: Path) -> None:
    scores = script("offline_scores")
    kept = {"algorithm": "DiscreteBC", "settings": scores.fingerprint("DiscreteBC", {}), "score": 1.0}
    other = kept | {"settings": scores.fingerprint("DiscreteBC", {"updates": 3})}
    path = tmp_path / "scores.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in (kept, other)))
    assert scores.finished(path, {}) == [kept]
    assert scores.finished(path, {"updates": 3}) == [other]
    assert scores.finished(tmp_path / "none.jsonl", {}) == []


def test_a_pair_has_learnt_from_one_set(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    scores = script("offline_scores")
    one = {"dataset": "pendulum", "algorithm": "BC", "updates": 10_000, "seed": 0, "data": "a", "returns": [1.0, 3.0]}
    ours, theirs = one | {"library": "pfrl_like"}, one | {"library": "d3rlpy", "returns": [0.0, 2.0]}
    elsewhere = theirs | {"data": "b", "returns": [9.0, 9.0]}
    assert scores.pairs([ours, elsewhere]) == {}
    assert scores.pairs([ours, theirs, elsewhere]) == {("pendulum", "BC", 0): {"pfrl_like": ours, "d3rlpy": theirs}}
    scores.print_table([ours, theirs, elsewhere, ours | {"seed": 1}])
    assert "| pendulum | BC | 10,000 | 1 | 2.0 | 1.0 | 1.0 [" in capsys.readouterr().out


def test_a_behaviour_replaces_a_share_of_the_actions(script: Any) -> None:
    data = script("offline_data")

    class Zero:
        def act(self, obs: Any) -> int:
            return 0

    def share(noise: float) -> float:
        behaviour = data.Behaviour(Zero(), lambda: 1, noise, seed=0)
        return float(np.mean([behaviour.act(None) for _ in range(1_000)]))

    assert share(0.0) == 0.0 and share(1.0) == 1.0 and share(0.3) == pytest.approx(0.3, abs=0.05)


def test_so_many_steps_are_recorded_and_the_same_ones_again(script: Any) -> None:
    data = script("offline_data")

    def once() -> MDPDataset:
        env = gymnasium.make("CartPole-v1")
        return data.recorded(data.Behaviour(None, env.action_space.sample, 1.0, 3), env, None, 150, 3)

    assert once().n_steps == 150
    np.testing.assert_array_equal(once().observations, once().observations)
    assert list(data.chunks(25, 10)) == [(0, 10), (1, 10), (2, 5)]


def test_the_sets_of_mujoco_are_made_and_are_not_made_again(script: Any, tmp_path: Path, monkeypatch: Any) -> None:
    pytest.importorskip("mujoco")
    pytest.importorskip("h5py")
    maker = script("make_offline_datasets")
    monkeypatch.setattr(maker, "CHUNK", 40)
    maker.make("hopper", 0, 100, maker.Level(1e9, 120), tmp_path)
    replay, medium = (MDPDataset.load(tmp_path / f"hopper-{kind}.h5") for kind in ("medium-replay", "medium"))
    assert replay.n_steps == 120 and medium.n_steps == 100
    assert replay.get_observation_shape() == (11,) and np.abs(medium.actions).max() <= 1.0
    record = json.loads((tmp_path / "hopper-medium.json").read_text())
    assert record["trained_steps"] == 120 and record["env"] == "Hopper-v5" and record["noise"] == 0.1
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".h5", ".h5", ".json", ".json"]
    monkeypatch.setattr(maker, "medium_agent", None)  # which is not asked for again
    maker.make("hopper", 0, 100, maker.Level(1e9, 120), tmp_path)


@pytest.mark.slow
def test_what_a_model_brings_is_measured_once(script: Any, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    measuring, results = script("model_based"), tmp_path / "results.jsonl"
    monkeypatch.setattr(measuring, "N_TRIALS", 2)
    few = ["--data", "medium", "--algorithms", "SAC", "--seeds", "0", "--updates", "2", "--model-updates", "2"]
    monkeypatch.setattr("sys.argv", ["model_based.py", "--results", str(results), *few])
    measuring.main()
    lines = results.read_text()
    assert [json.loads(line)["model"] for line in lines.splitlines()] == [*measuring.MODELS]
    assert all(len(json.loads(line)["returns"]) == 2 for line in lines.splitlines())
    measuring.main()
    assert results.read_text() == lines and "| medium | -" in capsys.readouterr().out.splitlines()[-1]
