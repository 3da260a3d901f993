"""Saved agents act again, and directories that others have made can do no harm."""

import copy
import os
import pickle
import re
import shutil
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import hostile_directories
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from hostile_directories import BUFFER, EXPLORER, change_composition, saved, set_file
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import pfrl_like
from pfrl_like.agents import DQN
from pfrl_like.errors import CheckpointError, ExportError
from pfrl_like.experiments import eval_performance, train_agent
from pfrl_like.explorers import Greedy
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.utils import set_random_seed
from pfrl_like.zoo.load_agent import LoadedAgent, load_agent

OBS = {
    "vector": Box(-1, 1, (4,)),
    "image": Box(0, 255, (8, 8, 3), np.uint8),
    "dict": Dict({"image": Box(0, 255, (8, 8, 3), np.uint8), "vector": Box(-1, 1, (3,)), "bits": MultiBinary(4)}),
    "integer": Discrete(5),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "agent"


@pytest.fixture
def loaded(folder: Path) -> LoadedAgent:
    """An agent of vectors that was saved."""
    saved(folder)
    return load_agent(folder)


def actions(agent: Any, observations: Any) -> Any:
    """Actions in evaluation, with the same random numbers at every call."""
    set_random_seed(5)
    with agent.eval_mode():
        return np.array(agent.batch_act(observations))


def samples(space: Any, n: int = 20) -> list[Any]:
    space.seed(3)
    return [space.sample() for _ in range(n)]


@pytest.mark.parametrize("kind", OBS)
@pytest.mark.parametrize("name", ["DQN", "CategoricalDoubleDQN", "IQN"])
def test_a_loaded_agent_selects_the_same_actions(folder: Path, kind: str, name: str) -> None:
    agent, observations = saved(folder, OBS[kind], name), samples(OBS[kind])
    loaded = pfrl_like.load_agent(folder)
    np.testing.assert_array_equal(actions(loaded, observations), actions(agent, observations))
    for mine, theirs in zip(loaded.agent.model.parameters(), agent.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_outside_of_eval_mode_actions_are_the_same(loaded: LoadedAgent) -> None:
    observations = samples(OBS["vector"])
    assert [loaded.act(obs) for obs in observations] == [*actions(loaded, observations)]


def test_a_recurrent_agent_acts_from_its_memory_and_forgets_it_at_the_end_of_episodes(folder: Path) -> None:
    agent = saved(folder, recurrent=True)
    loaded = load_agent(folder)
    outputs: list[list[Any]] = [[], []]
    for each, output in zip((agent, loaded), outputs, strict=True):
        with each.eval_mode():
            for i, obs in enumerate(samples(OBS["vector"])):
                output.append(each.act(obs))
                each.observe(obs, 0.0, i % 7 == 6, False)
                inner = getattr(each, "agent", each)
                output.append([state.tolist() for state in tree_leaves(inner.recurrent_memory.test_state)])
    assert outputs[0] == outputs[1]
    with pytest.raises(TypeError, match="depends on earlier steps: call act and observe"):
        loaded.predict(np.zeros((2, 4), np.float32))


def test_a_directory_can_be_copied_without_the_files_under_pfrls_names(tmp_path: Path, folder: Path) -> None:
    agent, observations = saved(folder), samples(OBS["vector"])
    hostile_directories.without_copies(folder)
    copied = shutil.copytree(folder, tmp_path / "elsewhere")
    shutil.rmtree(folder)
    np.testing.assert_array_equal(actions(load_agent(copied), observations), actions(agent, observations))


@pytest.mark.parametrize("key", ["model.pt", "composition.json", "state.json"])
def test_if_the_last_save_is_damaged_the_previous_one_is_loaded(folder: Path, key: str) -> None:
    agent, observations = saved(folder), samples(OBS["vector"])
    expected = actions(agent, observations)
    with torch.no_grad():
        for param in agent.model.parameters():
            param.neg_()
    agent.save(folder)
    set_file(folder, key, None).unlink()
    with pytest.warns(UserWarning, match="the last save cannot be used"):
        loaded = load_agent(folder)
    np.testing.assert_array_equal(actions(loaded, observations), expected)


def test_loading_leaves_random_streams_and_files_as_they_are(folder: Path) -> None:
    saved(folder)
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    load_agent(folder)
    assert torch.equal(torch.rand(1), expected)
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_predict_takes_arrays_dicts_of_arrays_and_lists(folder: Path) -> None:
    saved(folder, OBS["dict"])
    loaded, observations = load_agent(folder), samples(OBS["dict"], 1_500)
    stacked = {key: np.stack([obs[key] for obs in observations]) for key in observations[0]}
    expected = actions(loaded, observations)
    np.testing.assert_array_equal(loaded.predict(stacked), expected)
    np.testing.assert_array_equal(loaded.predict(observations), expected)
    assert expected.shape == (1_500,)


def test_an_empty_batch_is_rejected(loaded: LoadedAgent) -> None:
    with pytest.raises(ValueError, match="obs is empty"):
        loaded.predict(np.zeros((0, 4), np.float32))


def test_evaluations_accept_a_loaded_agent_and_runners_do_not(tmp_path: Path, folder: Path) -> None:
    agent = saved(folder)
    env = gymnasium.make("CartPole-v1")
    results = []
    for each in (agent, load_agent(folder)):
        env.reset(seed=3)
        results.append(eval_performance(env, each, None, 2))
    assert results[0] == results[1]
    with pytest.raises(ValueError, match="agent.training is False, .* for an agent of load_agent, construct the agent"):
        train_agent(load_agent(folder), env, 10, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_dry_run_compares_the_action_space(loaded: LoadedAgent) -> None:
    with pytest.raises(ValueError, match="values of 2 actions, the environment has 3"):
        loaded.dry_run(np.zeros(4, np.float32), Discrete(3))


def test_the_mode_of_a_loaded_agent_is_fixed(loaded: LoadedAgent) -> None:
    with pytest.raises(ValueError, match="training is True, expected False: a loaded agent only acts. To train, con"):
        loaded.training = True
    with loaded.eval_mode():
        loaded.training = False
    assert not loaded.training


@pytest.mark.parametrize("name", ["update", "load_snapshot", "replay_buffer", "t"])
def test_training_is_refused_by_name(loaded: LoadedAgent, name: str) -> None:
    with pytest.raises(AttributeError, match=f"LoadedAgent has no attribute '{name}': it only acts. To train"):
        getattr(loaded, name)


def test_a_loaded_agent_is_neither_saved_nor_loaded_into(folder: Path, loaded: LoadedAgent) -> None:
    for method, expected in ((loaded.save, "copy its directory"), (loaded.load, "call load_agent")):
        with pytest.raises(TypeError, match=expected):
            method(str(folder))
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'$"):
        loaded.nonsense  # noqa: B018
    assert loaded.get_statistics() == []
    assert repr(loaded).startswith("LoadedAgent(DQN(cpu")


def test_a_loaded_agent_can_be_copied_and_pickled(loaded: LoadedAgent) -> None:
    observations = samples(OBS["vector"])
    for other in (copy.deepcopy(loaded), pickle.loads(pickle.dumps(loaded))):
        np.testing.assert_array_equal(actions(other, observations), actions(loaded, observations))


def test_a_loaded_agent_is_exported_with_example_observations(tmp_path: Path, loaded: LoadedAgent) -> None:
    observations = np.stack(samples(OBS["vector"]))
    loaded.export(tmp_path / "policy.pt", example_obs=observations)
    exported = torch.jit.load(tmp_path / "policy.pt")  # type: ignore[no-untyped-call]
    np.testing.assert_array_equal(exported(torch.from_numpy(observations)).numpy(), loaded.predict(observations))
    with pytest.raises(ExportError, match="example_obs is None"):
        loaded.export(tmp_path / "policy.pt")


# Agents without a composition


def make_agent() -> DQN:
    q_function = torch.nn.Sequential(torch.nn.Linear(4, 2), DiscreteActionValueHead())
    optimizer = torch.optim.SGD(q_function.parameters(), 0.1)
    return DQN(q_function, optimizer, ReplayBuffer(100), 0.9, Greedy(), replay_start_size=50)


def save_as_pfrl(agent: DQN, folder: Path) -> None:
    folder.mkdir()
    for name in ("model", "target_model"):
        torch.save(getattr(agent, name).state_dict(), folder / f"{name}.pt")


@pytest.mark.parametrize(
    ("save", "text"),
    [
        (DQN.save, r"has no composition.json, .*: pass make_agent=, a function"),
        (save_as_pfrl, "has no manifest of a saved agent"),
    ],
)
def test_without_a_composition_an_agent_is_loaded_with_make_agent(folder: Path, save: Any, text: str) -> None:
    agent, observations = make_agent(), samples(OBS["vector"])
    save(agent, folder)
    with pytest.raises(CheckpointError, match=text):
        load_agent(folder)
    loaded = load_agent(folder, make_agent=make_agent)
    np.testing.assert_array_equal(actions(loaded, observations), actions(agent, observations))


def test_make_agent_must_return_an_agent_of_the_saved_shape(folder: Path) -> None:
    saved(folder)
    with pytest.raises(TypeError, match="make_agent returned int"):
        load_agent(folder, make_agent=lambda: 5)
    with pytest.raises(ValueError, match=r"make_agent and given=\{policy\} are both given: .* pass only one"):
        load_agent(folder, make_agent=make_agent, given={"policy": 5})
    with pytest.raises(CheckpointError, match="is the state of a different model"):
        load_agent(folder, make_agent=make_agent)


def test_objects_of_the_caller_are_passed_again(folder: Path) -> None:
    def with_given(composition: Any) -> None:
        composition["calls"][9]["args"][0] = composition["calls"][5]["function"]["of"] = {"given": "q_function"}

    saved(folder)
    change_composition(folder, with_given)
    with pytest.raises(CheckpointError, match=r'pass given=\{"q_function": \.\.\.\}'):
        load_agent(folder)
    q_function = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    q_function.append(DiscreteActionValueHead())
    assert load_agent(folder, given={"q_function": q_function}).agent.model is q_function
    with pytest.raises(ValueError, match="given has policy, which .* does not need"):
        load_agent(folder, given={"q_function": q_function, "policy": q_function})


def test_a_missing_directory_or_device_is_named(tmp_path: Path, folder: Path) -> None:
    for path in (tmp_path / "missing", Path(__file__)):
        with pytest.raises(CheckpointError, match="is not the directory of a saved agent"):
            load_agent(path)
    saved(folder)
    with pytest.raises(ValueError, match="device"):
        load_agent(folder, device="nonsense")


# Directories that others have made


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("valid") / "agent"
    saved(folder)
    hostile_directories.without_copies(folder)
    load_agent(folder)
    return folder


class Results(TorchDispatchMode):
    """Adds the sizes of all tensors that operations make: neither views, nor tensors on the device "meta"."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.nbytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **kwargs or {})
        before = {each.untyped_storage().data_ptr() for each in tree_leaves((args, kwargs)) if is_on_cpu(each)}
        tensors = [each for each in tree_leaves(results) if is_on_cpu(each)]
        self.nbytes += sum(each.nbytes for each in tensors if each.untyped_storage().data_ptr() not in before)
        return results


def is_on_cpu(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "cpu"


@pytest.fixture
def nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check that a test writes no file, imports no module from elsewhere, and needs little memory and time."""
    monkeypatch.chdir(tmp_path)
    modules, start = {*sys.modules}, time.monotonic()
    with Results() as results:
        yield
    assert time.monotonic() - start < 20
    assert results.nbytes < 1 << 21
    assert {name.split(".")[0] for name in sys.modules.keys() - modules} <= {"pfrl_like", "torch"}
    assert not {*os.listdir(tmp_path)} - {"agent"}


COMPOSITIONS, FILES = dict(hostile_directories.changes()), dict(hostile_directories.file_changes())


def test_the_corpus_is_large() -> None:
    assert len(COMPOSITIONS) + len(FILES) > 180


@pytest.mark.usefixtures("nothing_happens")
@pytest.mark.parametrize("name", COMPOSITIONS)
def test_a_hostile_composition_is_rejected(valid: Path, name: str) -> None:
    before, names = set_file(valid, "composition.json", None).read_bytes(), {*os.listdir(valid)}
    change_composition(valid, COMPOSITIONS[name])
    try:
        with pytest.raises(CheckpointError, match=re.escape(str(valid))):
            load_agent(valid)
    finally:
        set_file(valid, "composition.json", before)
    assert {*os.listdir(valid)} == names


@pytest.mark.usefixtures("nothing_happens")
@pytest.mark.parametrize("name", FILES)
def test_a_hostile_directory_is_rejected(folder: Path, valid: Path, name: str) -> None:
    shutil.copytree(valid, folder)
    FILES[name](folder)
    with warnings.catch_warnings(), pytest.raises(CheckpointError, match=re.escape(str(folder))):
        warnings.simplefilter("error")
        load_agent(folder)


def test_sizes_of_replay_buffer_and_exploration_are_ignored(folder: Path) -> None:
    def enlarge(composition: Any) -> None:
        composition["calls"][BUFFER]["args"][0] = 10**12
        composition["calls"][EXPLORER]["args"][2] = 10**12

    saved(folder)
    change_composition(folder, enlarge)
    assert load_agent(folder).agent.replay_buffer.capacity is None


def test_the_composition_of_the_run_is_not_read(folder: Path) -> None:
    saved(folder)
    change_composition(folder, lambda composition: composition.update(run={"env": {"name": "os.system"}}))
    assert isinstance(load_agent(folder), LoadedAgent)


def test_lists_and_numbers_of_float64_are_cast_to_the_dtype_of_the_networks(folder: Path) -> None:
    pfrl_like.make("dqn", "CartPole-v1", hidden_sizes=(8,)).agent.save(folder)
    loaded, obs = load_agent(folder), [0.1, -0.2, 0.3, -0.4]
    expected = loaded.act(np.float32(obs))
    assert loaded.act(obs) == loaded.act(np.float64(obs)) == loaded.predict(np.array([obs]))[0] == expected


def test_lists_of_integers_are_cast_but_not_to_another_shape_and_not_for_embeddings(folder: Path) -> None:
    saved(folder)
    loaded = load_agent(folder)
    assert loaded.act([0, 1, 0, 0]) == loaded.act(np.float32([0, 1, 0, 0])) == loaded.predict([[0, 1, 0, 0]])[0]
    with pytest.raises(ValueError, match=r"obs does not fit q_function; obs is \(1, 5\) of float32"):
        loaded.act([0, 0, 0, 0, 0])
    saved(folder, OBS["dict"])
    loaded, obs = load_agent(folder), {"image": np.zeros((8, 8, 3), np.uint8), "bits": np.ones(4, np.int8)}
    assert loaded.act(obs | {"vector": [0, 1, 0]}) == loaded.act(obs | {"vector": np.float32([0, 1, 0])})
    for network, cast in ((torch.nn.Linear(1, 2), torch.float32), (torch.nn.Embedding(3, 2), torch.int64)):
        agent = make_agent()
        agent.other = network
        assert torch.as_tensor(LoadedAgent(agent)._as_array([1])).dtype == cast


def test_a_run_directory_is_rejected_with_the_names_of_its_agents(tmp_path: Path) -> None:
    for name in ("best", "20_checkpoint", "60_finish"):
        saved(tmp_path / name)
    text = "is the directory of a run: pass that of one of its agents (best, 60_finish, 20_checkpoint)"
    with pytest.raises(CheckpointError, match=re.escape(text)):
        load_agent(tmp_path)
    for step in range(5):
        saved(tmp_path / f"{step}_checkpoint")
    with pytest.raises(CheckpointError, match=re.escape("(best, 60_finish, 20_checkpoint, 4_checkpoint, ")):
        load_agent(tmp_path)
