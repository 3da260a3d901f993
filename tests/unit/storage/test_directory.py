"""Directories that change at one instant. Failing system calls: test_faults.py; SIGKILL: test_kill.py."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pfrl_like.errors import CheckpointError
from pfrl_like.storage import directory
from pfrl_like.storage.atomic import save_lock
from pfrl_like.storage.directory import Snapshot, has_manifest, load_directory, save_directory

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX files")


def save(folder: Path, number: int, **options: Any) -> None:
    """A save in which everything says which one it is."""
    files = {"model.pt": b"model %d" % number, "inner.model.pt": b"inner %d" % number}
    aliases = {"model.pt": "model.pt", "inner/model.pt": "inner.model.pt"}
    options = {"kind": "agent", "class_name": "test.Agent", "aliases": aliases, "info": {"t": number}} | options
    save_directory(folder, files, {"t": number}, **options)


def number_of(snapshot: Snapshot) -> int:
    """Which save a snapshot is, once all of it agrees."""
    number: int = snapshot.state["t"]
    assert Path(snapshot.open("model.pt")).read_bytes() == b"model %d" % number
    assert Path(snapshot.open("inner.model.pt")).read_bytes() == b"inner %d" % number
    return number


def load(folder: Path) -> int:
    return number_of(load_directory(folder, kind="agent"))


def named(folder: Path, manifest: str = "manifest.json") -> dict[str, Path]:
    fields = json.loads((folder / manifest).read_text())
    return {key: folder / entry["name"] for key, entry in fields["files"].items()}


def edit(folder: Path, change: Any, manifest: str = "manifest.json") -> None:
    fields = json.loads((folder / manifest).read_text())
    change(fields)
    (folder / manifest).write_text(json.dumps(fields))


def test_the_manifest_says_what_the_directory_is(tmp_path: Path) -> None:
    save(tmp_path, 7)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert (manifest["format"], manifest["format_version"], manifest["kind"]) == ("pfrl_like", 1, "agent")
    assert (manifest["class"], manifest["t"]) == ("test.Agent", 7)
    assert set(manifest["versions"]) == {"pfrl_like", "torch", "numpy", "python"}
    entry = manifest["files"]["model.pt"]
    assert re.fullmatch(r"model-[0-9a-f]{8}\.pt", entry["name"])
    assert entry["size"] == 7
    assert entry["sha256"] == hashlib.sha256(b"model 7").hexdigest()


def test_the_save_before_is_kept_and_the_one_before_that_is_not(tmp_path: Path) -> None:
    save(tmp_path, 1)
    first = set(named(tmp_path).values())
    save(tmp_path, 2)
    second = set(named(tmp_path).values())
    assert all(path.exists() for path in first | second)
    save(tmp_path, 3)
    assert not any(path.exists() for path in first)
    assert set(named(tmp_path, "previous.json").values()) == second
    ours = {"manifest.json", "previous.json", "model.pt", "inner"}
    assert {path.name for path in tmp_path.iterdir()} - {path.name for path in named(tmp_path).values()} == ours | {
        path.name for path in second
    }


def test_files_that_no_save_made_are_left_alone(tmp_path: Path) -> None:
    names = ["notes.txt", "model-20240131.pt", "model-old.pt", "other-7f3a91c2.pt", "model-7f3a91c2.pt.bak", ".tmp-x"]
    for name in names:
        (tmp_path / name).write_text("mine")
    (tmp_path / "model-aaaaaaaa.pt").mkdir()
    for number in range(3):
        save(tmp_path, number)
    assert all((tmp_path / name).read_text() == "mine" for name in names)
    assert (tmp_path / "model-aaaaaaaa.pt").is_dir()


def test_what_killed_saves_left_is_removed_by_the_next(tmp_path: Path) -> None:
    left = ["model-7f3a91c2.pt", "state-7f3a91c2.json", ".tmp-model-7f3a91c2.pt-12-0011aabb"]
    left += [".tmp-manifest.json-12-0011aabb", ".tmp-model.pt-12-0011aabb"]
    for name in left:
        (tmp_path / name).touch()
    save(tmp_path, 1)
    assert not [name for name in left if (tmp_path / name).exists()]


def test_a_new_directory_has_its_name_once_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, seen = tmp_path / "new" / "agent", []

    def look(name: str) -> None:
        call = getattr(os, name)

        def looking(*arguments: Any, **options: Any) -> Any:
            result = call(*arguments, **options)
            seen.append((folder / "manifest.json").exists() and (folder / "inner" / "model.pt").exists())
            assert seen[-1] == folder.exists()
            return result

        monkeypatch.setattr(os, name, looking)

    for name in ("mkdir", "open", "write", "fsync", "replace", "rename"):
        look(name)
    save(folder, 1)
    assert {*seen} == {False, True} and load(folder) == 1
    assert [path.name for path in folder.parent.iterdir()] == ["agent"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_of_a_new_directory_nothing_is_left_if_it_is_not_whole(tmp_path: Path, error: type[BaseException]) -> None:
    def fail(file: Any) -> None:
        file.write(b"part")
        raise error

    with pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else CheckpointError) as raised:
        save_directory(tmp_path / "agent", {"model.pt": fail}, {}, kind="agent", class_name="x")
    assert not [*tmp_path.iterdir()]
    if error is OSError:
        assert str(raised.value).startswith(f"{tmp_path / 'agent' / 'model'}-") and ".tmp" not in str(raised.value)


def test_a_new_directory_that_lacks_a_copy_is_there_when_the_error_comes(tmp_path: Path, monkeypatch: Any) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no copies")

    monkeypatch.setattr(shutil, "copyfileobj", fail)
    with pytest.raises(CheckpointError, match=rf"{tmp_path}/agent/model.pt: could not be written; the save itself is"):
        save(tmp_path / "agent", 1)
    assert load(tmp_path / "agent") == 1 and len([*tmp_path.iterdir()]) == 1


def test_a_directory_that_somebody_made_meanwhile_is_saved_into(tmp_path: Path) -> None:
    def make(file: Any) -> None:
        if not (tmp_path / "agent").exists():
            save(tmp_path / "agent", 1)
        file.write(b"model 2")

    files = {"model.pt": make, "inner.model.pt": b"inner 2"}
    save_directory(tmp_path / "agent", files, {"t": 2}, kind="agent", class_name="x")
    assert load(tmp_path / "agent") == 2 and len([*tmp_path.iterdir()]) == 1


@pytest.mark.parametrize("name", ["agent/", "agent/.", "link/../agent"])
def test_a_new_directory_may_be_named_in_any_way(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "away")
    save_directory(name, {"model.pt": b"x"}, {}, kind="agent", class_name="x")
    assert has_manifest(tmp_path / ("far/agent" if "link" in name else "agent"))


def gone() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return process.pid


@posix
def test_what_killed_first_saves_left_is_removed_and_nothing_that_is_being_built(tmp_path: Path) -> None:
    ended, living = gone(), os.getpid()
    stays = {
        f".tmp-new-{ended}-0011aabb": False, f".tmp-new-{ended}-locked00": True, f".tmp-new-{ended}-0011aabc": True,
        f".tmp-new-{living}-0011aabb": True, f".tmp-new-{living}-0011aabc": False, ".tmp-new-folder": True,
    }  # fmt: skip
    for name in stays:
        (tmp_path / name / "inner").mkdir(parents=True)
    for name in (f".tmp-new-{living}-0011aabc", ".tmp-new-folder"):  # older than an hour, and nobody holds its lock
        os.utime(tmp_path / name, (0, 0))
    with save_lock(str(tmp_path / f".tmp-new-{ended}-0011aabc")):  # of a process of another machine
        save(tmp_path / "agent", 1)
    assert {name: (tmp_path / name).exists() for name in stays} == stays


@posix
def test_the_lock_of_a_new_directory_is_held_until_it_has_its_name(tmp_path: Path, monkeypatch: Any) -> None:
    named, rename = [], os.rename

    def look(place: Any, target: Any) -> None:
        with pytest.raises(CheckpointError, match="locked"), save_lock(place, timeout=0.0):
            pass
        named.append(target)
        rename(place, target)

    monkeypatch.setattr(os, "rename", look)
    save(tmp_path / "agent", 1)
    assert named == [str(tmp_path / "agent")]


def test_copies_have_the_old_names_and_are_files_of_their_own(tmp_path: Path) -> None:
    for number in (1, 2):
        save(tmp_path, number)
        assert (tmp_path / "model.pt").read_bytes() == b"model %d" % number
        assert (tmp_path / "inner" / "model.pt").read_bytes() == b"inner %d" % number
    assert not (tmp_path / "model.pt").samefile(named(tmp_path)["model.pt"])
    (tmp_path / "model.pt").unlink()
    assert load(tmp_path) == 2


def test_a_foreign_newer_copy_is_reported_and_not_loaded(tmp_path: Path) -> None:
    save(tmp_path, 1)
    (tmp_path / "model.pt").write_bytes(b"model X")
    with pytest.warns(UserWarning, match=r"model\.pt is newer than the last save and differs"):
        assert load(tmp_path) == 1


def test_an_old_copy_or_an_equal_one_is_not_reported(tmp_path: Path) -> None:
    save(tmp_path, 1)
    (tmp_path / "inner" / "model.pt").write_bytes(b"inner 1")
    (tmp_path / "model.pt").write_bytes(b"model 0")
    os.utime(tmp_path / "model.pt", (0, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(tmp_path) == 1


def linked(path: Path) -> None:
    """A link to the same content."""
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def replaced(old: bytes, new: bytes) -> Any:
    return lambda path: path.write_bytes(path.read_bytes().replace(old, new))


#: Damage to a file.
DAMAGE: dict[str, Any] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "link": linked,
    "directory": lambda path: (path.unlink(), path.mkdir()),
    "changed": replaced(b"2", b"3"),
    "version": replaced(b'"format_version": 1', b'"format_version": 2'),
    "format": replaced(b'"format": "pfrl_like"', b'"format": "x"'),
}


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        *(("manifest", kind) for kind in DAMAGE if kind != "changed"),
        *((key, kind) for key in ("model.pt", "state.json") for kind in ("missing", "cut", "changed", "link")),
    ],
)
def test_with_a_damaged_file_the_whole_save_before_is_used_with_a_warning(file: str, kind: str, tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2)
    path = tmp_path / "manifest.json" if file == "manifest" else named(tmp_path)[file]
    before = path.read_bytes()
    DAMAGE[kind](path)
    assert kind in ("missing", "link", "directory") or path.read_bytes() != before
    message = rf"the last save cannot be used \(.*{re.escape(path.name)}.*; loading the previous save"
    with pytest.warns(UserWarning, match=message):
        assert load(tmp_path) == 1


def test_a_save_repairs_a_directory_without_losing_its_good_state(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2)
    (tmp_path / "manifest.json").write_text("{")
    save(tmp_path, 3)
    assert load(tmp_path) == 3
    (tmp_path / "manifest.json").write_text("{")
    with pytest.warns(UserWarning, match="loading the previous save"):
        assert load(tmp_path) == 1


def test_an_error_lists_what_was_looked_for(tmp_path: Path) -> None:
    assert not has_manifest(tmp_path)
    with pytest.raises(CheckpointError, match="manifest.json is missing; previous.json is missing"):
        load_directory(tmp_path)
    save(tmp_path, 1)
    assert has_manifest(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(CheckpointError, match="manifest.json: is not valid JSON.*; previous.json is missing"):
        load_directory(tmp_path)


def test_a_directory_of_another_kind_is_refused(tmp_path: Path) -> None:
    save(tmp_path, 1, kind="dataset")
    with pytest.raises(CheckpointError, match="has the kind 'dataset'; expected 'agent'"):
        load_directory(tmp_path, kind="agent")


def test_an_unknown_key_is_refused(tmp_path: Path) -> None:
    save(tmp_path, 1)
    with pytest.raises(CheckpointError, match=r"has no 'x', only model.pt, inner.model.pt"):
        load_directory(tmp_path).open("x")


@pytest.mark.parametrize("key", ["", "a/b", "..", ".hidden", "ü", "manifest.json", "state.json", "x" * 200, "a b"])
def test_a_file_needs_a_plain_name(key: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot store a file with the key"):
        save_directory(tmp_path / "new", {key: b""}, {}, kind="agent", class_name="x")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("alias", ["", "/model.pt", "../model.pt", "a/../model.pt", "manifest.json", "a//b"])
def test_a_copy_stays_in_the_directory(alias: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot store a copy with the name"):
        save(tmp_path / "new", 1, aliases={alias: "model.pt"})
    assert not (tmp_path / "new").exists()


def test_a_copy_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "inner").symlink_to(tmp_path / "outside")
    with pytest.raises(CheckpointError, match="inner: is a symbolic link"):
        save(tmp_path / "agent", 1)
    assert not list((tmp_path / "outside").iterdir())


def fail(file: Any) -> None:
    file.write(b"part")
    raise RuntimeError("no")


LONG = {"t": "x" * (1 << 22)}
TOO_LONG = "cannot be written: .* bytes of JSON exceed the limit"


@pytest.mark.parametrize(
    ("files", "state", "info", "message"),
    [
        ({}, {"t": float("nan")}, {}, r"state\['t'\] is nan"),
        ({}, LONG, {}, TOO_LONG),
        ({}, {}, LONG, TOO_LONG),
        ({f"{i}.pt": b"" for i in range(50)}, {}, {}, "cannot be written: .* bytes of JSON exceed"),
        ({"model.pt": b"x", "second.pt": fail}, {}, {}, "cannot be written: RuntimeError: no"),
    ],
    ids=["no JSON", "state", "info", "many files", "writer"],
)
def test_what_cannot_be_saved_or_read_again_leaves_the_old_save(
    files: Any, state: Any, info: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 1)
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(directory, "_MAX_STATE", 1 << 20)
    if len(files) == 50:
        monkeypatch.setattr(directory.manifest, "MAX_MANIFEST", 1 << 12)
    with pytest.raises(CheckpointError, match=message):
        save_directory(tmp_path, files, state, kind="agent", class_name="x", info=info)
    assert sorted(tmp_path.iterdir()) == before and load(tmp_path) == 1


def test_saves_of_several_threads_do_not_mix(tmp_path: Path) -> None:
    def work(first: int) -> None:
        for number in range(first, first + 5):
            save(tmp_path, number)

    with ThreadPoolExecutor(3) as pool:
        for future in [pool.submit(work, first) for first in (10, 20, 30)]:
            future.result()
    assert load(tmp_path) in (14, 24, 34)


def bad_manifests(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """What nobody has saved, made of what somebody has."""
    files, entry = manifest["files"], manifest["files"]["model.pt"]
    outside = ["../model-7f3a91c2.pt", "/etc/model-7f3a91c2.pt"]
    names = [*outside, "secret-7f3a91c2.pt", "model.pt", "model-7f3a91c2.pt\n", 3]
    entries = [{"name": name} for name in names] + [{"size": size} for size in (-1, 7.0, 10**30)] + [{"sha256": None}]
    several = [files | {"model.pt": entry | bad} for bad in entries] + [files | {"model.pt": None}]
    several += [files | {"../x.pt": entry}, {key: files[key] for key in files if key != "state.json"}, []]
    fields = [{"files": bad} for bad in several]
    fields += [{"aliases": bad} for bad in ({"../x": "model.pt"}, {"x": "absent"}, None)]
    fields += [{"kind": None}, {"format": None}, {"format_version": "1"}, {"format_version": 2}]
    return [manifest | bad for bad in fields]


def test_a_crafted_manifest_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "agent", 1)
    (tmp_path / "model-7f3a91c2.pt").write_bytes(b"model 1")
    path = tmp_path / "agent" / "manifest.json"
    for bad in bad_manifests(json.loads(path.read_text())):
        path.write_text(json.dumps(bad))
        with pytest.raises(CheckpointError, match="contains no complete save"):
            load_directory(tmp_path / "agent")


def sparse(path: Path, size: int = 1 << 40) -> None:
    """Make a file of zeros that takes no room."""
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        file.truncate(size)


@pytest.fixture
def no_hashing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is hashed is a failure: a large one takes minutes."""

    def fail(*_: Any) -> None:
        raise AssertionError("a file was hashed")

    monkeypatch.setattr(hashlib, "file_digest", fail)


@pytest.mark.parametrize(
    "key, limits", [("state.json", None), ("state.json", {"model.pt": 9}), ("model.pt", {"model.pt": 9})]
)
def test_a_file_that_is_too_large_is_refused_before_any_is_hashed(
    key: str, limits: dict[str, int] | None, tmp_path: Path, no_hashing: None
) -> None:
    save(tmp_path, 1)
    sparse(named(tmp_path)[key])
    edit(tmp_path, lambda fields: fields["files"][key].update(size=1 << 40))
    with pytest.raises(CheckpointError, match=rf"{key[:5]}.* has 1099511627776 bytes; expected at most (9|268435456)"):
        load_directory(tmp_path, limits=limits)


def test_a_file_that_is_not_asked_for_is_not_looked_at(tmp_path: Path) -> None:
    save(tmp_path, 1)
    named(tmp_path)["inner.model.pt"].unlink()
    assert load_directory(tmp_path, limits={"model.pt": 9}).state == {"t": 1}
