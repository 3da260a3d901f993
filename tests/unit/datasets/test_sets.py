"""The sets that come with the package, and the public ones from a server on this machine."""

import gzip
import io
import json
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_server import FileServer, served

from pfrl_like import datasets
from pfrl_like.datasets import public_sets
from pfrl_like.datasets.public_sets import cache_directory
from pfrl_like.errors import CheckpointError, DownloadError, MissingDependencyError


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    monkeypatch.setenv("PFRL_LIKE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    with served() as running:
        yield running


def shipped(name: str) -> Any:
    return resources.files("pfrl_like.datasets") / "data" / f"{name}"


@pytest.mark.parametrize("name", ["cartpole", "pendulum"])
def test_what_is_shipped_is_small_and_what_its_record_tells(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)  # none of the extras is needed
    dataset, env = getattr(datasets, f"get_{name}")()
    assert len(shipped(f"{name}.npz").read_bytes()) < 400_000
    record = json.loads(shipped(f"{name}.json").read_text())
    told = [value for part in record["parts"] for value in part["returns"]]
    assert [episode.compute_return() for episode in dataset.episodes] == pytest.approx(told, abs=1e-2)
    means = [part["mean"] for part in record["parts"]]
    assert [part["part"] for part in record["parts"]] == ["random", "medium", "expert"] and means == sorted(means)
    assert dataset.n_steps == sum(part["steps"] for part in record["parts"])
    assert not [finding for finding in dataset.check(env.observation_space, env.action_space)]
    assert dataset.get_observation_shape() == env.observation_space.shape


@pytest.mark.parametrize(
    ("get", "id", "number", "state", "tolerance"),
    [
        (datasets.get_cartpole, "CartPole-v1", 70, tuple, 1e-5),
        (datasets.get_pendulum, "Pendulum-v1", 30, lambda obs: np.array([np.arctan2(obs[1], obs[0]), obs[2]]), 1e-4),
    ],
)
def test_an_environment_does_what_its_data_say(get: Any, id: str, number: int, state: Any, tolerance: float) -> None:
    dataset, env = get()
    assert dataset.is_action_discrete() == (id == "CartPole-v1") and env.spec.id == id
    env.reset(seed=0)
    for step in list(dataset.episodes[number])[:20]:
        env.unwrapped.state = state(step.observation.astype(float))
        obs, reward, *_ = env.step(step.action)
        np.testing.assert_allclose(obs, step.next_observation, atol=tolerance)
        assert reward == pytest.approx(step.next_reward, abs=10 * tolerance)


def test_actions_of_the_pendulum_are_scaled() -> None:
    dataset, env = datasets.get_pendulum()
    assert np.abs(dataset.actions).max() <= 1.0 and env.action_space.high == [1.0]


OBS = np.arange(12.0, dtype=np.float32).reshape(6, 2)


def d4rl_file(**changes: Any) -> bytes:
    """Two joined sets of three steps: nothing tells that the first one ends in row 2 but its next observation."""
    h5py = pytest.importorskip("h5py")
    arrays = {
        "observations": OBS,
        "next_observations": np.concatenate([OBS[1:3], [[90, 91]], OBS[4:], [[92, 93]]]).astype(np.float32),
        "actions": np.linspace(-1, 1, 6, dtype=np.float32)[:, None],
        "rewards": np.arange(1.0, 7.0, dtype=np.float32),
        "terminals": np.zeros(6, bool),
        "timeouts": np.zeros(6, bool),
    }
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        for name, values in (arrays | changes).items():
            if values is not None:
                file[name] = values
    return content.getvalue()


def test_d4rl_is_fetched_once_and_its_joined_sets_are_told_apart(server: FileServer) -> None:
    pytest.importorskip("mujoco")
    server.files["/gym_mujoco_v2/hopper_medium_expert-v2.hdf5"] = d4rl_file()
    for _ in range(2):
        dataset, env = datasets.get_d4rl("hopper-medium-expert-v2", mirror=server.url)
    assert len(server.asked) == 1 and env.spec.id == "Hopper-v4"
    assert [list(episode.rewards[1:]) for episode in dataset.episodes] == [[1, 2, 3], [4, 5, 6]]
    assert dataset.episodes[0].observations[-1].tolist() == [90, 91]
    assert not dataset.terminals.any()


def test_a_damaged_or_foreign_file_is_refused(server: FileServer) -> None:
    pytest.importorskip("mujoco")
    for kind, content in (("random", d4rl_file()[:500]), ("medium", d4rl_file(rewards=np.zeros(5)))):
        server.files[f"/gym_mujoco_v2/hopper_{kind}-v2.hdf5"] = content
        with pytest.raises(CheckpointError, match=f"hopper_{kind}-v2.hdf5: (is damaged|rewards: got shape)"):
            datasets.get_d4rl(f"hopper-{kind}-v2", mirror=server.url)


@pytest.mark.parametrize(
    ("get", "name", "expected"),
    [
        (datasets.get_d4rl, "hopper", "expected <halfcheetah"),
        (datasets.get_d4rl, "hopper-medium-v3", "-<v1.v2>"),
        (datasets.get_pybullet, "hopper-medium-v0", "'hopper-bullet-mixed-v0' \\(d4rl-pybullet"),
        (datasets.get_atari, "breakout-v0", "a name such as 'breakout-mixed-v0'"),
        (datasets.get_atari, "breakout-epoch-51-v0", "epoch-1 to epoch-50"),
        (datasets.get_minari, "../door/human-v2", "an id of Minari"),
        (datasets.get_pybullet, "hopper-bullet-mixed-v0", "copy the file to .*pybullet/hopper-bullet-mixed-v0.hdf5"),
    ],
)
def test_an_unknown_name_is_refused_and_known_ones_are_told(get: Any, name: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        get(name)


@pytest.mark.parametrize(
    ("get", "name", "missing", "extra"),
    [
        (datasets.get_d4rl, "hopper-medium-v2", "mujoco", "mujoco"),
        (datasets.get_pybullet, "bullet-hopper-medium-v0", "pybullet_envs_gymnasium", "pybullet"),
        (datasets.get_atari, "breakout-mixed-v0", "ale_py", "atari"),
    ],
)
def test_a_missing_package_is_named_with_its_extra_before_anything_is_fetched(
    server: FileServer, monkeypatch: pytest.MonkeyPatch, get: Any, name: str, missing: str, extra: str
) -> None:
    for module in [each for each in sys.modules if each.startswith(f"gymnasium.envs.{missing}.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingDependencyError, match=f'\\(extra "{extra}"\\) needs the package'):
        get(name, mirror=server.url)
    assert not server.asked


@pytest.mark.parametrize("name", ["bullet-hopper-medium-v0", "hopper-bullet-mixed-v0"])
def test_pybullet_sets_come_with_their_environment(server: FileServer, name: str) -> None:
    pytest.importorskip("pybullet_envs_gymnasium")
    server.files["/bullet/bullet-hopper_medium.hdf5"] = d4rl_file()
    server.files["/own"] = d4rl_file(next_observations=None)
    where = {"url": f"{server.url}/own"} if name.endswith("mixed-v0") else {"mirror": server.url}
    dataset, env = datasets.get_pybullet(name, **where)
    assert env.spec.id == "HopperBulletEnv-v0" and dataset.get_observation_shape() == (2,)


def packed(array: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.save(content, array)
    return gzip.compress(content.getvalue())


def serve_breakout(server: FileServer, run: int, number: int) -> np.ndarray:
    frames = np.random.default_rng(0).integers(0, 256, (8, 84, 84), dtype=np.uint8)
    arrays = {
        "observation": frames,
        "action": np.arange(8, dtype=np.int32) % 4,
        "reward": np.arange(8, dtype=np.float32),
        "terminal": np.array([0, 0, 1, 0, 0, 0, 0, 0], dtype=np.uint8),
    }
    for name, array in arrays.items():
        server.files[f"/Breakout/{run}/replay_logs/$store$_{name}_ckpt.{number}.gz"] = packed(array)
    return frames


@pytest.mark.representatives(1)
@pytest.mark.parametrize(
    ("name", "run", "number"),
    [("breakout-mixed-v0", 1, 0), ("breakout-expert-v4", 5, 49), ("breakout-epoch-3-v1", 2, 2)],
)
def test_atari_frames_stay_on_the_disk(server: FileServer, name: str, run: int, number: int, tmp_path: Path) -> None:
    pytest.importorskip("ale_py")
    frames = serve_breakout(server, run, number)
    for _ in range(2):
        dataset, env = datasets.get_atari(name, mirror=server.url)
    assert len(server.asked) == 4  # for both calls
    assert dataset.get_observation_shape() == env.observation_space.shape == (1, 84, 84)
    assert env.reset(seed=0)[0].shape == (1, 84, 84) and dataset.get_action_size() == env.action_space.n
    first, second = dataset.episodes
    assert [step.next_reward for step in first] == [0, 1, 2]
    assert [int(flags.sum()) for flags in (dataset.terminals, dataset.timeouts)] == [1, 1]
    np.testing.assert_array_equal(second.observations[:, 0], frames[3:])
    base = dataset.table.obs.leaves[0].data
    while not isinstance(base, np.memmap):
        base = base.base
    assert not list((tmp_path / "data").rglob("*.gz"))


@pytest.mark.representatives(1)
@pytest.mark.parametrize("fault", ["short", "long", "pickle", "kind"])
def test_frames_that_are_no_array_are_refused_and_removed(server: FileServer, tmp_path: Path, fault: str) -> None:
    pytest.importorskip("ale_py")
    frames = serve_breakout(server, 1, 0)
    whole = gzip.decompress(packed(frames))
    content = {
        "short": gzip.compress(whole[:-1]),
        "long": gzip.compress(whole + b"more"),
        "pickle": packed(np.array([{}], dtype=object)) if fault == "pickle" else b"",
        "kind": packed(frames.astype(float)),
    }[fault]
    server.files["/Breakout/1/replay_logs/$store$_observation_ckpt.0.gz"] = content
    with pytest.raises(CheckpointError, match="observation-0.npy: could not be unpacked"):
        datasets.get_atari("breakout-mixed-v0", mirror=server.url)
    assert [path.suffix for path in (tmp_path / "data").rglob("*") if path.is_file()] == [".lock"] * 2


def minari_files(tmp_path: Path, env_spec: str | None) -> dict[str, bytes]:
    """What a server has of a set, with the pendulum's data."""
    pytest.importorskip("h5py")
    dataset, _ = datasets.get_pendulum()
    dataset.dump_minari(tmp_path / "made", "classic/pendulum/mixed-v0", env_spec=env_spec)
    folder = tmp_path / "made/classic/pendulum/mixed-v0/data"
    address = "/classic/resolve/main/pendulum/mixed-v0/data/"
    return {address + path.name: path.read_bytes() for path in folder.iterdir()}


def test_minari_sets_are_read_where_they_are_or_fetched(server: FileServer, tmp_path: Path, monkeypatch: Any) -> None:
    server.files = minari_files(tmp_path, datasets.get_pendulum()[1].unwrapped.spec.to_json())
    dataset, env = datasets.get_minari("classic/pendulum/mixed-v0", mirror=server.url)
    assert env.spec.id == "Pendulum-v1" and len(server.asked) == 2
    np.testing.assert_array_equal(dataset.observations, datasets.get_pendulum()[0].observations)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "made"))
    monkeypatch.setenv("PFRL_LIKE_DATA", str(tmp_path / "other"))
    again, _ = datasets.get_minari("classic/pendulum/mixed-v0", mirror=server.url)
    assert again.n_steps == dataset.n_steps and len(server.asked) == 2


@pytest.mark.representatives(1)
@pytest.mark.parametrize(
    ("env_spec", "expected"),
    [
        (None, "names the environment None"),
        (json.dumps({"id": "antigravity:Some-v0"}), "'antigravity:Some-v0', expected an environment id"),
        (json.dumps({"id": "Unknown-v0"}), "which gymnasium cannot make.*import its package"),
    ],
)  # fmt: skip
def test_metadata_name_a_registered_environment_and_import_nothing(
    server: FileServer, tmp_path: Path, env_spec: str | None, expected: str
) -> None:
    server.files = minari_files(tmp_path, env_spec)
    with pytest.raises(CheckpointError, match=expected):
        datasets.get_minari("classic/pendulum/mixed-v0", mirror=server.url)
    assert "antigravity" not in sys.modules


def test_a_set_that_is_nowhere_is_told(server: FileServer) -> None:
    with pytest.raises(DownloadError, match="404.*put the file at .*main_data.hdf5 yourself"):
        datasets.get_minari("classic/pendulum/mixed-v0", mirror=server.url)


def test_the_directory_is_that_of_the_argument_then_the_environment_then_the_users_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("PFRL_LIKE_DATA", raising=False)
    assert cache_directory() == tmp_path / "xdg" / "pfrl_like" / "datasets"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert cache_directory() == tmp_path / ".cache" / "pfrl_like" / "datasets"
    monkeypatch.setenv("PFRL_LIKE_DATA", str(tmp_path / "data"))
    assert cache_directory() == tmp_path / "data"
    assert cache_directory(tmp_path / "own") == tmp_path / "own"


@pytest.mark.parametrize(("name", "get"), [
    ("hopper-medium-v2", "get_d4rl"), ("hopper-bullet-mixed-v0", "get_pybullet"),
    ("bullet-hopper-medium-v0", "get_pybullet"), ("space-invaders-epoch-7-v0", "get_atari"),
])  # fmt: skip
def test_a_name_says_where_its_dataset_is(name: str, get: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {form: each.__name__ for form, each in public_sets._SETS.items()}
    for form, function in known.items():
        monkeypatch.setitem(public_sets._SETS, form, lambda env_name, function=function: (function, env_name))
    assert datasets.get_dataset(name) == (get, name)


def test_the_sets_of_the_package_have_names() -> None:
    dataset, env = datasets.get_dataset("cartpole-replay")
    assert isinstance(dataset, datasets.MDPDataset) and env.spec.id == "CartPole-v1"
    assert not datasets.get_dataset("pendulum")[0].is_action_discrete()
    with pytest.raises(ValueError, match="env_name: got 'cartpole-random', expected cartpole, pendulum, or a name"):
        datasets.get_dataset("cartpole-random")
