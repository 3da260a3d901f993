"""The interfaces of agents, and the saving of attributes."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pfrl_like
from pfrl_like import agents
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
        with pytest.raises(CheckpointError, match=r"the attribute next\.next, which contains itself"):
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
    ("attribute", "message"), [("absent", "absent: Broken.__init__ has not set it"), ("t", "t: int has no state_dict")]
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
    with pytest.raises(CheckpointError, match=r"rejected by the agent: ValueError: state has \['t'\], but Forgetful"):
        Forgetful().load(tmp_path)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_wrappers_of_modules_leave_no_trace_in_the_files(tmp_path: Path) -> None:
    saved, loaded = Learner(1), Learner(2)
    saved.model = nn.DataParallel(saved.model)
    saved.save(tmp_path)
    loaded.load(tmp_path)
    assert torch.equal(loaded.model[0].weight, saved.model.module[0].weight.cpu())  # type: ignore[index]
    loaded.model = torch.compile(loaded.model, backend="eager")  # type: ignore[assignment]
    loaded.save(tmp_path)
    Learner(3).load(tmp_path)
    loaded.load(tmp_path)


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


def test_what_is_no_directory_and_what_has_agents_in_its_folders_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="file: is a file, expected the directory of a saved agent"):
        Learner().load(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    for name in ("best", "2000_finish"):
        Learner().save(tmp_path / name)
    with pytest.raises(CheckpointError, match="Its folders 2000_finish, best contain saved agents$"):
        Learner().load(tmp_path)
    Learner().save(tmp_path / "earlier-2026/9_finish")
    with pytest.raises(CheckpointError, match="does not exist; .*earlier-2026/9_finish exists"):
        Learner().load(tmp_path / "9_finish")


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
    assert_unchanged_by_loading(Learner(2), tmp_path, r"optimizer-\w+\.pt: is the state of a different optimiser")


def test_an_attribute_more_or_less_changes_nothing(tmp_path: Path) -> None:
    NormalizedLearner(1).save(tmp_path / "more")
    assert_unchanged_by_loading(
        Learner(2), tmp_path / "more", "obs_normalizer.statistics.pt, which this agent does not have"
    )
    Learner(1).save(tmp_path / "less")
    assert_unchanged_by_loading(NormalizedLearner(2), tmp_path / "less", "has no 'obs_normalizer.statistics.pt'")


def test_a_state_that_the_agent_refuses_is_rolled_back(tmp_path: Path) -> None:
    class Texts(Learner):
        def saved_state(self) -> dict[str, Any]:
            return {"t": "three"}

    Texts(1).save(tmp_path)
    assert_unchanged_by_loading(Learner(2), tmp_path, "was rejected by the agent: TypeError: t is no integer")


def test_an_attribute_that_fails_to_load_is_rolled_back(tmp_path: Path) -> None:
    Learner(1).save(tmp_path)
    agent = Learner(2)
    load = agent.optimizer.load_state_dict

    def refuse_once(state: Any) -> None:
        agent.optimizer.load_state_dict = load  # type: ignore[method-assign]
        load(state)
        raise RuntimeError("no")

    agent.optimizer.load_state_dict = refuse_once  # type: ignore[method-assign]
    assert_unchanged_by_loading(agent, tmp_path, "was rejected by the agent: RuntimeError: no")
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
    assert_unchanged_by_loading(Learner(3), folder, r"model\.pt: contains NaN or infinity in 0\.bias")


def test_an_optimiser_with_nan_is_not_saved(tmp_path: Path) -> None:
    agent = Learner()
    agent.optimizer.state[next(agent.model.parameters())]["exp_avg"][0] = torch.nan
    with pytest.raises(NonFiniteError, match=r"optimizer\.state\[0\]\['exp_avg'\]"):
        agent.save(tmp_path / "agent")
    assert not (tmp_path / "agent").exists()


def test_a_state_that_is_no_json_is_named_and_not_saved(tmp_path: Path) -> None:
    agent = NormalizedLearner()
    agent.obs_normalizer.count = object()  # type: ignore[assignment]
    with pytest.raises(CheckpointError, match=r"saved_state of obs_normalizer\['count'\] is object"):
        agent.save(tmp_path / "agent")
    assert not (tmp_path / "agent").exists()


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


def test_a_state_dict_that_does_not_fit_changes_nothing() -> None:
    agent = Learner(1)
    before = everything(agent)
    state = Learner(2).state_dict()
    state["state"] = {"other": {}}
    with pytest.raises(CheckpointError, match="contains the state of a different agent"):
        agent.load_state_dict(state)
    assert everything(agent) == before


def test_an_error_of_a_save_after_ctrl_c_is_one_of_the_save(tmp_path: Path) -> None:
    (tmp_path / "agent").write_text("a file")
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with pytest.raises(CheckpointError):
            Learner(1).save(tmp_path / "agent")


# Names of other libraries


class Predicts:
    """A mix-in with a method that agents lack."""

    def predict(self, obs: Any) -> str:
        return "predicted"


def test_a_users_class_may_have_the_methods_that_agents_lack() -> None:
    class After(Echo, Predicts):
        def learn(self, total_timesteps: int) -> int:
            return total_timesteps

    assert (After().predict(None), After().learn(total_timesteps=3)) == ("predicted", 3)
    assert not hasattr(Echo(), "predict") and not hasattr(Echo(), "learn")
    with pytest.raises(AttributeError, match=r"^Echo has no learn: to train it .* use experiments.train_agent\(agent"):
        Echo().learn(10)


@pytest.mark.parametrize("name", ["dqn", "sac", "td3", "ppo", "a2c", "trpo", "a3c", "acer"])
def test_learn_of_a_number_of_steps_names_the_way_to_train(name: str) -> None:
    env = "CartPole-v1" if name in ("dqn", "a3c", "acer") else "Pendulum-v1"
    agent = pfrl_like.make(name, env, hidden_sizes=(4,)).agent
    text = r"learn gets 10000, expected the data of one update; to train .* experiments.train_agent\(agent, .*make\("
    with pytest.raises(TypeError, match=text):
        agent.learn(10_000)


def test_an_abbreviated_name_is_explained_when_it_is_imported() -> None:
    with pytest.raises(ImportError, match="has no attribute 'SAC': use SoftActorCritic"):
        from pfrl_like.agents import SAC  # type: ignore[attr-defined]  # noqa: F401
    with pytest.raises(AttributeError, match="'DuelDQN'; the nearest is 'DoubleDQN'"):
        agents.DuelDQN  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(agents, "__path") and "SAC" not in dir(agents)


def test_a_class_is_named_with_its_module_when_it_is_imported_from_the_package() -> None:
    with pytest.raises(ImportError, match="'pfrl_like' has no attribute 'DQN': use pfrl_like.agents.DQN"):
        from pfrl_like import DQN  # type: ignore[attr-defined]  # noqa: F401
    with pytest.raises(AttributeError, match="use pfrl_like.replay_buffers.ReplayBuffer"):
        pfrl_like.ReplayBuffer  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(pfrl_like, "DQN") and not hasattr(pfrl_like, "Nothing")


def test_the_package_and_names_that_are_no_classes_import_no_torch() -> None:
    program = "import sys, pfrl_like; sys.exit(hasattr(pfrl_like, 'nothing') or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
