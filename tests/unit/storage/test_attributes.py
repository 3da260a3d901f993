"""What a directory of attributes can be read with, it can be written with, and no more."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from pfrl_like.agent import AttributeSavingMixin
from pfrl_like.errors import CheckpointError
from pfrl_like.storage import attributes
from pfrl_like.testing.play import difference


class Learner(AttributeSavingMixin):
    saved_attributes = ("optimizer",)

    def __init__(self) -> None:
        self.x = torch.nn.Parameter(torch.linspace(-1, 2, 1000))
        self.optimizer = torch.optim.LBFGS([self.x], 1e-3, 150, tolerance_grad=0, tolerance_change=0)

    def learn(self) -> None:
        def closure() -> torch.Tensor:
            self.optimizer.zero_grad()
            loss = ((self.x[1:] - self.x[:-1] ** 2) ** 2).sum() + ((1 - self.x) ** 2).sum()
            loss.backward()
            return loss

        self.optimizer.step(closure)  # type: ignore[arg-type]

    def history(self) -> list[Any]:
        kept: list[Any] = self.optimizer.state[self.x]["old_dirs"]
        return kept


@pytest.fixture
def learner(tmp_path: Path) -> Learner:
    """One that has learnt and was saved."""
    learner = Learner()
    learner.learn()
    learner.save(tmp_path)
    return learner


@pytest.mark.slow
def test_lbfgs_with_its_whole_history_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, learner: Any) -> None:
    monkeypatch.setattr(attributes, "_BASE_BYTES", 1 << 14)  # as if the network were large
    learner.save(tmp_path)
    other = Learner()
    other.load(tmp_path)
    assert len(learner.history()) == 100
    assert all(map(torch.equal, learner.history(), other.history()))


def test_what_loading_would_refuse_as_too_large_is_not_saved(tmp_path: Path, learner: Learner) -> None:
    before = sorted(tmp_path.iterdir())
    learner.history()[0] = torch.zeros(10_000_000)
    with pytest.raises(CheckpointError, match=r"\(optimizer\): cannot be written: loading it needs .* the limit"):
        learner.save(tmp_path)
    assert sorted(tmp_path.iterdir()) == before


class Seeing(AttributeSavingMixin):
    """Its state has arrays."""

    saved_attributes = ()

    def __init__(self, state: Any = None) -> None:
        self.state = state

    def saved_state(self) -> dict[str, Any]:
        return {"t": 1, "seen": self.state}

    def restore_state(self, state: dict[str, Any]) -> None:
        self.state = state["seen"]


def test_tensors_in_a_state_come_back_where_they_were(tmp_path: Path) -> None:
    seen = {"a": [torch.arange(3), None, {"b": torch.tensor([[True]])}], "c": torch.tensor(2.5, dtype=torch.float16)}
    other = Seeing()
    Seeing(seen).save(tmp_path)
    other.load(tmp_path)
    assert difference(seen, other.state) is None
    other.load_state_dict(Seeing([torch.ones(2)]).state_dict())
    assert other.state[0].tolist() == [1, 1]


def test_the_tensors_of_older_saves_go(tmp_path: Path) -> None:
    for state in (torch.ones(2), None, None):
        Seeing(state).save(tmp_path)
    assert not [*tmp_path.glob("state-tensors*")]


def test_tensors_that_do_not_fit_the_state_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Seeing("as it was")
    for path in (["", "t"], ["", "seen", 0], [], ["", "other"], 5):
        with monkeypatch.context() as patch:
            patch.setattr(attributes, "split_state", lambda state: (state, [[path, torch.ones(1)]]))  # noqa: B023
            Seeing("text").save(tmp_path)
        message = r"state-tensors-\w+\.pt: does not match the state in the same directory"
        with pytest.raises(CheckpointError, match=message):
            other.load(tmp_path)
    assert other.state == "as it was"


def test_a_state_that_holds_itself_is_refused(tmp_path: Path) -> None:
    state: list[Any] = []
    state.append(state)
    with pytest.raises(CheckpointError, match="or contains itself"):
        Seeing(state).save(tmp_path)


def test_the_error_of_a_damaged_save_says_how_the_copies_in_it_are_loaded(tmp_path: Path, learner: Learner) -> None:
    other = Learner()
    (tmp_path / "manifest.json").write_text("{")
    message = r"previous.json is missing \(it lists the files of the previous save\)"
    with pytest.raises(CheckpointError, match=message) as raised:
        other.load(tmp_path)
    assert str(raised.value).endswith("unverified, without counters, remove manifest.json and previous.json")
    (tmp_path / "manifest.json").unlink()
    with pytest.warns(UserWarning, match="under PFRL's names"):
        other.load(tmp_path)
    assert all(map(torch.equal, learner.history(), other.history()))
    (tmp_path / "manifest.json").write_text("{")
    (tmp_path / "optimizer.pt").unlink()
    with pytest.raises(CheckpointError, match=r"the previous save\)$"):
        other.load(tmp_path)


def test_files_larger_than_those_of_the_live_parts_are_refused_unread(tmp_path: Path, monkeypatch: Any) -> None:
    learner = Learner()
    learner.save(tmp_path / "ours")
    manifest = tmp_path / "ours" / "manifest.json"
    fields = json.loads(manifest.read_text())
    fields["files"]["optimizer.pt"]["size"] = 1 << 40
    manifest.write_text(json.dumps(fields))
    monkeypatch.setattr(hashlib, "file_digest", None)
    (tmp_path / "pfrls").mkdir()
    for path in (tmp_path / "ours" / fields["files"]["optimizer.pt"]["name"], tmp_path / "pfrls" / "optimizer.pt"):
        with path.open("wb") as file:
            file.truncate(1 << 40)
        with pytest.raises(CheckpointError, match=r"optimizer.*\.pt: has 1099511627776 bytes; expected at most"):
            learner.load(path.parent)


class Composed(AttributeSavingMixin):
    """It has a module, an optimiser, a counter and a composition."""

    saved_attributes = ("model", "optimizer")

    def __init__(self, composition: Any = None) -> None:
        self.model = torch.nn.Linear(2, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9)
        self.t = 0
        if composition is not None:
            self.composition = composition

    def saved_state(self) -> dict[str, Any]:
        return {"t": self.t}

    def restore_state(self, state: dict[str, Any]) -> None:
        self.t = state["t"]


def manifest_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "manifest.json").read_text()))


def test_a_composition_is_a_file_of_the_manifest(tmp_path: Path) -> None:
    Composed({"calls": [], "value": 1}).save(tmp_path)
    entry = manifest_of(tmp_path)["files"]["composition.json"]
    content = (tmp_path / entry["name"]).read_bytes()
    assert json.loads(content) == {"calls": [], "value": 1}
    assert hashlib.sha256(content).hexdigest() == entry["sha256"]


def test_an_owner_without_a_composition_has_the_files_that_it_had(tmp_path: Path) -> None:
    Composed().save(tmp_path)
    assert manifest_of(tmp_path)["files"].keys() == {"model.pt", "optimizer.pt", "state.json"}


def test_a_later_save_without_a_composition_removes_the_file(tmp_path: Path) -> None:
    Composed({}).save(tmp_path)
    for _ in range(2):  # the files of the previous save are kept
        Composed().save(tmp_path)
    assert not [*tmp_path.glob("composition*")]


def test_load_ignores_the_composition(tmp_path: Path) -> None:
    Composed({"value": 1}).save(tmp_path)
    for other in (Composed({"value": 2}), Composed()):
        before = other.composition
        other.load(tmp_path)
        assert other.composition == before


def test_a_composition_that_is_too_large_or_no_json_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"\(composition\): cannot be written: .* exceed the limit of 4194304"):
        Composed({"value": "a" * (1 << 22)}).save(tmp_path / "agent")
    with pytest.raises(CheckpointError, match=r"\(composition\): state\['value'\] is Linear"):
        Composed({"value": torch.nn.Linear(1, 1)}).save(tmp_path / "agent")
    assert not [*tmp_path.iterdir()]


def test_loading_modules_only_changes_neither_optimisers_nor_counters(tmp_path: Path) -> None:
    saved, other = Composed({"value": 1}), Composed()
    saved.t = 5
    saved.model(torch.ones(1, 2)).sum().backward()
    saved.optimizer.step()
    saved.save(tmp_path)
    next(tmp_path.glob("optimizer-*.pt")).unlink()
    attributes.load_attributes(other, tmp_path, modules_only=True)
    assert torch.equal(other.model.weight, saved.model.weight)
    assert (other.t, other.optimizer.state_dict()["state"]) == (0, {})


def test_loading_modules_only_rejects_the_directory_of_another_owner(tmp_path: Path) -> None:
    Composed().save(tmp_path)
    with pytest.raises(CheckpointError, match=r"contains model\.pt, which this agent does not have"):
        attributes.load_attributes(Learner(), tmp_path, modules_only=True)
