"""The interfaces of agents, and the saving of attributes."""

import json
import os
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pfrl_like.agent import Agent, AsyncAgent, AttributeSavingMixin, BatchAgent
from pfrl_like.errors import CheckpointError, NonFiniteError


class Echo(BatchAgent):
    """Acts with its observation and keeps what it observes."""

    def batch_act(self, batch_obs: Sequence[Any], **options: Any) -> Sequence[Any]:
        self.acted = batch_obs, options
        return batch_obs

    def batch_observe(self, *columns: Any, **options: Any) -> None:
        self.observed = columns, options

    def save(self, dirname: str) -> None:
        raise NotImplementedError(dirname)

    def load(self, dirname: str) -> None:
        raise NotImplementedError(dirname)

    def get_statistics(self) -> list[tuple[str, Any]]:
        return [("n", 0)]


class Learner(AttributeSavingMixin):
    """A model, its copy, an optimiser and a counter."""

    saved_attributes: tuple[str, ...] = ("model", "target_model", "optimizer")

    def __init__(self, seed: int = 0, device: str = "cpu", steps: int = 2) -> None:
        torch.manual_seed(seed)
        self.model: nn.Module = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).to(device)
        self.target_model: nn.Module | None = nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 1)).to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01 * (seed + 1))
        self.t = 100 * seed
        for _ in range(steps):
            self.learn()

    def learn(self) -> None:
        device = next(self.model.parameters()).device
        self.optimizer.zero_grad()
        self.model(torch.arange(6.0, device=device).reshape(3, 2)).square().sum().backward()
        self.optimizer.step()
        self.t += 1

    def saved_state(self) -> dict[str, Any]:
        return {"t": self.t}

    def restore_state(self, state: dict[str, Any]) -> None:
        if not isinstance(state["t"], int):
            raise TypeError("t is no integer")
        self.t = state["t"]


class Normalizer(AttributeSavingMixin):
    saved_attributes = ("statistics",)

    def __init__(self, mean: float) -> None:
        self.statistics = nn.BatchNorm1d(1)
        assert self.statistics.running_mean is not None
        self.statistics.running_mean.fill_(mean)
        self.count = int(mean)

    def saved_state(self) -> dict[str, Any]:
        return {"count": self.count}

    def restore_state(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


class NormalizedLearner(Learner):
    saved_attributes = (*Learner.saved_attributes, "obs_normalizer")

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.obs_normalizer = Normalizer(seed)


def everything(agent: AttributeSavingMixin) -> str:
    torch.set_printoptions(precision=10)
    return repr(agent.state_dict())


def assert_same(left: AttributeSavingMixin, right: AttributeSavingMixin) -> None:
    assert everything(left) == everything(right)


# Interfaces


def test_one_observation_is_a_batch_of_one() -> None:
    agent = Echo()
    assert agent.act("obs") == "obs"
    agent.observe("next", 1.0, True, False)
    assert agent.acted == (["obs"], {})
    assert agent.observed == ((["next"], [1.0], [True], [False]), {})


def test_an_action_mask_is_passed_on_where_there_is_one() -> None:
    agent = Echo()
    agent.act("obs", action_mask=[True, False])
    agent.observe("next", 1.0, False, False, action_mask=[False, True])
    assert agent.acted[1] == {"action_mask": [[True, False]]}
    assert agent.observed[1] == {"action_mask": [[False, True]]}


def test_eval_mode_ends_with_its_block_even_after_an_error() -> None:
    agent = Echo()
    with agent.eval_mode():
        assert not agent.training
        with agent.eval_mode():
            pass
        assert not agent.training
    assert agent.training
    with pytest.raises(RuntimeError), agent.eval_mode():
        raise RuntimeError
    assert agent.training


@pytest.mark.parametrize("interface", [Agent, BatchAgent, AsyncAgent, AttributeSavingMixin])
def test_an_interface_has_no_instances(interface: Any) -> None:
    with pytest.raises(TypeError, match="abstract"):
        interface()


# Saving and loading


def test_what_was_saved_is_loaded_to_the_last_bit(tmp_path: Path) -> None:
    saved, loaded = Learner(1), Learner(2, steps=0)
    saved.save(tmp_path / "agent")
    loaded.load(str(tmp_path / "agent"))
    assert_same(saved, loaded)
    assert loaded.t == 102
    for agent in (saved, loaded):
        agent.learn()
    assert_same(saved, loaded)


def test_the_live_objects_stay_the_same_objects(tmp_path: Path) -> None:
    agent = Learner()
    agent.save(tmp_path)
    before = [id(x) for x in (agent.model, agent.optimizer, *agent.model.parameters())]
    agent.load(tmp_path)
    assert [id(x) for x in (agent.model, agent.optimizer, *agent.model.parameters())] == before


def test_the_files_have_names_that_pfrl_reads(tmp_path: Path) -> None:
    agent = NormalizedLearner()
    agent.save(tmp_path)
    agent.model.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    agent.optimizer.load_state_dict(torch.load(tmp_path / "optimizer.pt", weights_only=True))
    statistics = torch.load(tmp_path / "obs_normalizer" / "statistics.pt", weights_only=True)
    agent.obs_normalizer.statistics.load_state_dict(statistics)


def test_the_manifest_names_class_attributes_and_step(tmp_path: Path) -> None:
    Learner(3).save(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["class"].endswith("test_agent.Learner")
    assert manifest["saved_attributes"] == ["model", "target_model", "optimizer"]
    assert manifest["t"] == 302
    assert set(manifest["files"]) == {"model.pt", "target_model.pt", "optimizer.pt", "state.json"}


def test_an_attribute_that_is_none_is_left_out(tmp_path: Path) -> None:
    agents = Learner(1), Learner(2)
    for agent in agents:
        agent.target_model = None
    agents[0].save(tmp_path)
    assert not (tmp_path / "target_model.pt").exists()
    agents[1].load(tmp_path)
    assert_same(*agents)


def test_attributes_of_attributes_are_saved_with_their_state(tmp_path: Path) -> None:
    saved, loaded = NormalizedLearner(3), NormalizedLearner(4)
    saved.save(tmp_path)
    loaded.load(tmp_path)
    assert_same(saved, loaded)
    assert loaded.obs_normalizer.count == 3


def test_attributes_that_lead_back_to_themselves_are_refused(tmp_path: Path) -> None:
    class Node(AttributeSavingMixin):
        saved_attributes = ("next",)
        next: Any = None

    first, second = Node(), Node()
    first.next, second.next = second, first
    for work in (first.save, first.load):
        with pytest.raises(CheckpointError, match=r"the attribute next\.next, which leads back to itself"):
            work(tmp_path / "agent")
    assert not (tmp_path / "agent").exists()


def test_an_object_may_be_an_attribute_twice(tmp_path: Path) -> None:
    class Pair(AttributeSavingMixin):
        saved_attributes = ("left", "right")

        def __init__(self) -> None:
            self.left = self.right = Normalizer(1)

    Pair().save(tmp_path)
    Pair().load(tmp_path)


@pytest.mark.parametrize(
    ("attribute", "message"),
    [("absent", "absent, which the Broken does not have"), ("t", "t: a int has no state_dict")],
)
def test_an_attribute_that_cannot_be_saved_is_named(attribute: str, message: str, tmp_path: Path) -> None:
    class Broken(Learner):
        saved_attributes = ("model", attribute)

    with pytest.raises(CheckpointError, match=message):
        Broken().save(tmp_path / "agent")
    assert not (tmp_path / "agent").exists()


def test_state_that_nobody_restores_is_refused(tmp_path: Path) -> None:
    class Forgetful(Learner):
        def restore_state(self, state: dict[str, Any]) -> None:
            AttributeSavingMixin.restore_state(self, state)

    Learner().save(tmp_path)
    with pytest.raises(CheckpointError, match=r"refused by the agent: ValueError: state has \['t'\], but a Forgetful"):
        Forgetful().load(tmp_path)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_wrappers_of_modules_leave_no_trace_in_the_files(tmp_path: Path) -> None:
    saved, loaded = Learner(1), Learner(2)
    saved.model = nn.DataParallel(saved.model)
    saved.save(tmp_path)
    loaded.load(tmp_path)
    assert torch.equal(loaded.model[0].weight, saved.model.module[0].weight.cpu())  # type: ignore[index]
    loaded.model = torch.compile(loaded.model)  # type: ignore[assignment]
    loaded.save(tmp_path)
    Learner(3).load(tmp_path)
    loaded.load(tmp_path)


def test_the_choice_of_kernel_is_not_loaded(tmp_path: Path) -> None:
    saved, loaded = Learner(1), Learner(2)
    for group in saved.optimizer.param_groups:
        group.update(capturable=True, fused=True)
    saved.save(tmp_path)
    loaded.load(tmp_path)
    loaded.learn()
    assert loaded.optimizer.param_groups[0]["lr"] == 0.02
    assert not loaded.optimizer.param_groups[0]["capturable"]


def test_other_objects_with_a_state_dict_are_saved(tmp_path: Path) -> None:
    class Scheduled(Learner):
        saved_attributes = (*Learner.saved_attributes, "schedule")

        def __init__(self, seed: int) -> None:
            super().__init__(seed, steps=0)
            self.schedule = torch.optim.lr_scheduler.MultiStepLR(self.optimizer, [2, 4])

    saved, loaded = Scheduled(1), Scheduled(2)
    for _ in range(3):
        saved.learn()
        saved.schedule.step()
    saved.save(tmp_path)
    loaded.load(tmp_path)
    assert_same(saved, loaded)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("source", "target"), [("cuda", "cpu"), ("cpu", "cuda"), ("cuda", "cuda")])
def test_an_agent_moves_between_devices(source: str, target: str, tmp_path: Path) -> None:
    saved, loaded = Learner(1, source), Learner(2, target)
    for group in saved.optimizer.param_groups:
        group["capturable"] = source == "cuda"
    saved.save(tmp_path)
    loaded.load(tmp_path)
    assert {parameter.device.type for parameter in loaded.model.parameters()} == {target}
    assert {
        value.device.type for state in loaded.optimizer.state.values() for value in state.values() if value.dim()
    } == {target}
    loaded.learn()


# Directories of PFRL


def pfrl_directory(agent: Any, folder: Path) -> Path:
    """What PFRL 0.4 writes: the state dicts alone."""
    folder.mkdir()
    for attribute in agent.saved_attributes:
        value = getattr(agent, attribute)
        if isinstance(value, AttributeSavingMixin):
            pfrl_directory(value, folder / attribute)
        else:
            torch.save(value.state_dict(), folder / f"{attribute}.pt")
    return folder


def test_a_directory_of_pfrl_is_loaded_and_counters_stay(tmp_path: Path) -> None:
    saved, loaded = NormalizedLearner(1), NormalizedLearner(2)
    loaded.load(pfrl_directory(saved, tmp_path / "agent"))
    assert repr(loaded.state_dict()["attributes"]) == repr(saved.state_dict()["attributes"])
    assert loaded.t == 202
    assert loaded.obs_normalizer.count == 2


def test_an_incomplete_directory_of_pfrl_lists_what_was_looked_for(tmp_path: Path) -> None:
    folder = pfrl_directory(NormalizedLearner(), tmp_path / "agent")
    (folder / "obs_normalizer" / "statistics.pt").unlink()
    with pytest.raises(CheckpointError, match="looked for manifest.json, previous.json, model.pt, .*statistics.pt"):
        NormalizedLearner().load(folder)


def test_what_is_no_directory_and_what_has_agents_in_its_folders_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="file: is a file, expected the directory of a saved agent"):
        Learner().load(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    for name in ("best", "2000_finish"):
        Learner().save(tmp_path / name)
    with pytest.raises(CheckpointError, match="one in each of its folders 2000_finish, best$"):
        Learner().load(tmp_path)


def test_a_missing_directory_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="absent: does not exist"):
        Learner().load(tmp_path / "absent")


def test_a_save_of_pfrl_over_ours_is_reported(tmp_path: Path) -> None:
    agent = Learner(1)
    agent.save(tmp_path)
    torch.save(Learner(2).model.state_dict(), tmp_path / "model.pt")
    with pytest.warns(UserWarning, match=r"model\.pt is newer than the last save and differs from it"):
        Learner(3).load(tmp_path)


# All or nothing


def assert_unchanged_by_loading(agent: Learner, folder: Path, message: str) -> None:
    before = everything(agent)
    with pytest.raises(CheckpointError, match=message):
        agent.load(folder)
    assert everything(agent) == before


def test_a_last_file_that_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    other = Learner(1)
    other.optimizer = torch.optim.SGD(other.model.parameters(), lr=0.1)  # type: ignore[assignment]
    other.save(tmp_path)
    assert_unchanged_by_loading(Learner(2), tmp_path, r"optimizer-\w+\.pt: is the state of another optimiser")


def test_a_model_of_another_shape_changes_nothing(tmp_path: Path) -> None:
    other = Learner(1)
    other.target_model = nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 2))
    other.save(tmp_path)
    message = r"target_model-\w+\.pt: 1\.weight has shape \(2, 4\)"
    assert_unchanged_by_loading(Learner(2), tmp_path, message)


def test_an_attribute_more_or_less_changes_nothing(tmp_path: Path) -> None:
    NormalizedLearner(1).save(tmp_path / "more")
    assert_unchanged_by_loading(
        Learner(2), tmp_path / "more", "obs_normalizer.statistics.pt, which this agent does not"
    )
    Learner(1).save(tmp_path / "less")
    assert_unchanged_by_loading(NormalizedLearner(2), tmp_path / "less", "holds no 'obs_normalizer.statistics.pt'")


def test_a_state_that_the_agent_refuses_is_rolled_back(tmp_path: Path) -> None:
    class Texts(Learner):
        def saved_state(self) -> dict[str, Any]:
            return {"t": "three"}

    Texts(1).save(tmp_path)
    assert_unchanged_by_loading(Learner(2), tmp_path, "was refused by the agent: TypeError: t is no integer")


def test_an_attribute_that_fails_to_load_is_rolled_back(tmp_path: Path) -> None:
    class Stubborn(nn.Linear):
        refuses = False

        def load_state_dict(self, *arguments: Any, **options: Any) -> Any:
            result = super().load_state_dict(*arguments, **options)
            if self.refuses:
                self.refuses = False
                raise RuntimeError("no")
            return result

    class Holder(Learner):
        saved_attributes = ("model", "optimizer", "last")

        def __init__(self, seed: int) -> None:
            super().__init__(seed)
            self.last = Stubborn(1, 1)

    Holder(1).save(tmp_path)
    agent = Holder(2)
    agent.last.refuses = True
    assert_unchanged_by_loading(agent, tmp_path, "was refused by the agent: RuntimeError: no")
    agent.learn()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_parameter_that_is_not_finite_is_neither_saved_nor_loaded(value: float, tmp_path: Path) -> None:
    agent, broken = Learner(1), Learner(2)
    agent.save(tmp_path / "good")
    with torch.no_grad():
        broken.model[0].bias[1] = value  # type: ignore[index]
    with pytest.raises(NonFiniteError, match=r"model\.0\.bias is NaN or infinite"):
        broken.save(tmp_path / "good")
    Learner(3).load(tmp_path / "good")
    folder = pfrl_directory(broken, tmp_path / "broken")
    assert_unchanged_by_loading(Learner(3), folder, r"model\.pt: holds NaN or infinity in 0\.bias")


def test_an_optimiser_with_nan_is_not_saved(tmp_path: Path) -> None:
    agent = Learner()
    agent.optimizer.state[next(agent.model.parameters())]["exp_avg"][0] = torch.nan
    with pytest.raises(NonFiniteError, match=r"optimizer\.state\[0\]\['exp_avg'\]"):
        agent.save(tmp_path / "agent")
    assert not (tmp_path / "agent").exists()


def test_a_state_that_is_no_json_is_named_and_not_saved(tmp_path: Path) -> None:
    agent = NormalizedLearner()
    agent.obs_normalizer.count = object()  # type: ignore[assignment]
    with pytest.raises(CheckpointError, match=r"saved_state of obs_normalizer\['count'\] is a object"):
        agent.save(tmp_path / "agent")
    assert not (tmp_path / "agent").exists()


@pytest.mark.filterwarnings("ignore:.*is newer than the last save")
def test_a_directory_damaged_anywhere_loads_as_it_was_or_not_at_all(tmp_path: Path) -> None:
    Learner(1).save(tmp_path / "agent")
    agent = Learner(3, steps=0)
    before = everything(agent)
    agent.load(tmp_path / "agent")
    expected = everything(agent)
    agent = Learner(3, steps=0)
    files = [path for path in (tmp_path / "agent").iterdir() if "-" in path.name or path.name == "manifest.json"]
    for path in files:
        content = path.read_bytes()
        for position in range(0, len(content), len(content) // 40 + 1):
            damaged = bytearray(content)
            damaged[position] ^= 1 << (position % 8)
            path.write_bytes(damaged)
            try:
                agent.load(tmp_path / "agent")
            except CheckpointError:
                assert everything(agent) == before
            else:
                assert path.name == "manifest.json"  # in a version or a time, which nothing depends on
                assert everything(agent) == expected
                agent = Learner(3, steps=0)
        path.write_bytes(content)


def test_a_copied_directory_loads_without_a_warning(tmp_path: Path) -> None:
    Learner(1).save(tmp_path / "agent")
    shutil.copytree(tmp_path / "agent", tmp_path / "copy", copy_function=shutil.copyfile)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Learner(2).load(tmp_path / "copy")


def test_saving_draws_no_random_number(tmp_path: Path) -> None:
    agent = Learner()
    states = torch.get_rng_state(), np.random.get_state()[1]
    agent.save(tmp_path)
    agent.load(tmp_path)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])  # type: ignore[index]


# State dicts in memory


def test_a_state_dict_is_loaded_and_not_kept_hold_of() -> None:
    source, target = NormalizedLearner(1), NormalizedLearner(2)
    target.load_state_dict(source.state_dict())
    assert_same(source, target)
    target.learn()
    assert source.optimizer.state_dict()["state"][0]["step"] == 2
    assert everything(source) == everything(NormalizedLearner(1))


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, "expected attributes model, target_model, optimizer"),
        ({"attributes": {}, "state": {}}, "expected attributes model"),
    ],
)
def test_a_state_dict_of_something_else_is_refused(state: Any, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        Learner().load_state_dict(state)


def test_a_state_dict_that_does_not_fit_changes_nothing() -> None:
    agent = Learner(1)
    before = everything(agent)
    state = Learner(2).state_dict()
    state["state"] = {"other": {}}
    with pytest.raises(CheckpointError, match="holds the state of another agent"):
        agent.load_state_dict(state)
    assert everything(agent) == before


def test_a_full_directory_name_may_be_a_path_or_text(tmp_path: Path) -> None:
    Learner(1).save(str(tmp_path / "a"))
    Learner(2).load(tmp_path / "a")
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_ctrl_c_while_saving_stays_what_it_is(
    error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, write, left = Learner(1), os.write, [0]

    def interrupted(descriptor: int, data: Any) -> int:
        left[0] -= 1
        if left[0] == 0:
            raise error
        return write(descriptor, data)

    for n in (1, 2, 5, 8):  # a torch file has several
        left[0] = n
        with monkeypatch.context() as patch, pytest.raises(error):
            patch.setattr(os, "write", interrupted)
            agent.save(tmp_path / "agent")
        assert not [*tmp_path.iterdir()]


def test_an_error_of_a_save_after_ctrl_c_is_one_of_the_save(tmp_path: Path) -> None:
    (tmp_path / "agent").write_text("a file")
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with pytest.raises(CheckpointError):
            Learner(1).save(tmp_path / "agent")
