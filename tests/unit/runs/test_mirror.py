"""Runs at URLs: they resume on another machine, and what is uploaded in part is not taken for a checkpoint."""

import contextlib
import logging
import shutil
import sys
import threading
from pathlib import Path

import pytest
import torch
from resume_parts import noisy_env, small_dqn
from run_parts import Stopped, contents, names_in, record, resumed, stop_at, table

from pfrl_like import experiments
from pfrl_like.errors import CheckpointError, MissingDependencyError
from pfrl_like.experiments.resume import newest_checkpoint
from pfrl_like.runs.mirror import Mirror, mirrored

fsspec = pytest.importorskip("fsspec")
from fsspec.implementations.memory import MemoryFileSystem  # noqa: E402

URL = "watched://bucket/run"


class Watched(MemoryFileSystem):
    """May keep its state after every change, and in the middle of every upload. May fail at an upload."""

    store: dict = {}
    pseudo_dirs = [""]
    states: list | None = None
    uploads_left = 10**9

    @classmethod
    def _strip_protocol(cls, path):
        return MemoryFileSystem._strip_protocol(path.replace("watched://", "memory://"))

    def put_file(self, source, target, **options):
        Watched.uploads_left -= 1
        content = Path(source).read_bytes()
        self.pipe_file(target, content[: len(content) // 2])
        self.keep()
        if self.uploads_left < 0:
            raise OSError("the network is down: secret_key=planted")
        self.pipe_file(target, content)
        self.keep()

    def rm_file(self, path):
        super().rm_file(path)
        self.keep()

    def mv(self, *paths, **options):
        super().mv(*paths, **options)
        self.keep()

    def keep(self):
        if self.states is not None:
            self.states.append({path: file.getvalue() for path, file in self.store.items()})


fsspec.register_implementation("watched", Watched, clobber=True)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The cache of this machine. If it is removed, the next run is one of another machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Watched.store.clear()
    Watched.states, Watched.uploads_left = None, 10**9
    return tmp_path / "cache"


@pytest.fixture(params=["watched", pytest.param("file", marks=pytest.mark.slow)])
def url(request, tmp_path):
    return URL if request.param == "watched" else f"file://{tmp_path}/shared/run"


def train(outdir, steps=60, **options):
    env = noisy_env(0)
    agent = small_dqn(env)
    options = {"keep_checkpoints": 2, "checkpoint_freq": 15, "eval_env": noisy_env(1), **options}
    experiments.train_agent_with_evaluation(agent, env, steps, None, 1, 20, outdir, **options)
    return agent


def write(files, folder):
    """Write the files of a storage into a folder."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def downloaded(url, folder):
    shutil.rmtree(folder, ignore_errors=True)
    fs, root = fsspec.core.url_to_fs(url)
    return write({path.removeprefix(f"{root}/"): fs.cat_file(path) for path in fs.find(root)}, folder)


def left(agent, outdir):
    numbers = torch.cat([parameter.reshape(-1) for parameter in agent.model.parameters()]).tolist()
    return numbers, [table(outdir / name) for name in ("metrics.csv", "scores.txt")]


def test_a_run_resumes_exactly_from_the_url_and_leaves_what_a_local_run_leaves(url, cache, tmp_path):
    wanted = left(train(tmp_path / "local"), tmp_path / "local")
    with pytest.raises(Stopped):
        train(url, hooks=[stop_at(40)])
    shutil.rmtree(cache)
    agent = train(url, resume=True)
    found = downloaded(url, tmp_path / "found")
    assert left(agent, found) == wanted and resumed(found)["resume"] == "exact" and record(found)["url"] == url
    [beyond] = names_in(found) - names_in(tmp_path / "local")  # checkpoints that were pruned are not there
    assert beyond.startswith("beyond-30-") and not list(cache.rglob("run"))
    if url.startswith("file"):
        assert names_in(tmp_path / "shared" / "run") == names_in(found)  # no empty folders


@pytest.mark.slow
def test_no_state_of_the_storage_has_an_incomplete_checkpoint(tmp_path, caplog):
    Watched.states = []
    train(URL)
    assert any("/bucket/run/owner.json" in state for state in Watched.states)
    agent, seen, logger = small_dqn(noisy_env(0)), set(), logging.getLogger("test")
    for state in Watched.states:
        folder = write({path.removeprefix("/bucket/run/"): content for path, content in state.items()}, tmp_path / "x")
        found = newest_checkpoint(agent, None, str(folder), logger)
        seen.add(found and found.t)
        shutil.rmtree(folder)
    assert seen == {None, 15, 30, 45, 60} and "is skipped" not in caplog.text


@pytest.mark.slow
def test_a_failed_upload_ends_the_run_which_resumes_on_another_machine(cache, tmp_path):
    wanted = left(train(tmp_path / "local"), tmp_path / "local")
    Watched.uploads_left = 75
    with pytest.raises(CheckpointError, match=f"{URL}: cannot be written: OSError: the network is down") as caught:
        train(URL)
    assert "planted" not in str(caught.value) and caught.value.__suppress_context__
    shutil.rmtree(cache)
    Watched.uploads_left = 10**9
    assert left(train(URL, resume=True), downloaded(URL, tmp_path / "found")) == wanted
    assert resumed(tmp_path / "found")["resume"] == "exact"


@pytest.mark.slow
def test_failed_uploads_may_be_logged_and_their_files_are_kept(cache, tmp_path, caplog):
    Watched.uploads_left = 75
    train(URL, on_checkpoint_failure="warn")
    assert f"{URL} could not be saved: " in caplog.text and "planted" not in caplog.text
    Watched.uploads_left = 10**9
    train(URL, resume=True)
    assert 0 < resumed(downloaded(URL, tmp_path / "found"))["t"] < 60
    [unused] = cache.glob("pfrl_like/runs/*/unused-*")
    assert "60_finish" in names_in(unused) and str(unused) in caplog.text


def test_a_new_run_moves_an_earlier_one(url, tmp_path):
    with pytest.raises(Stopped):
        train(url, hooks=[stop_at(40)])
    fs, root = fsspec.core.url_to_fs(url)
    fs.pipe_file(f"{root}/mine.txt", b"of the user")
    before = contents(downloaded(url, tmp_path / "found"))
    train(url, 20)
    found = downloaded(url, tmp_path / "found")
    [earlier] = found.glob("earlier-*")
    moved = {str(found / Path(path).relative_to(earlier)): content for path, content in contents(earlier).items()}
    moved[str(found / "mine.txt")] = (found / "mine.txt").read_bytes()
    assert moved == before and "20_finish" in names_in(found)


def test_secrets_of_a_url_are_written_nowhere(cache, caplog):
    Watched.uploads_left = 75
    with caplog.at_level(logging.INFO):
        train("watched://key:planted@bucket/run", on_checkpoint_failure="warn", logger=logging.getLogger("pfrl_like.x"))
    written = [*contents(cache).values(), *(file.getvalue() for file in Watched.store.values())]
    assert len(written) > 80 and not any(b"planted" in content for content in written)
    assert "@bucket/run" in caplog.text and "planted" not in caplog.text + "".join(contents(cache))


def test_two_threads_do_not_write_the_same_run():
    done = []

    def second():
        with contextlib.suppress(CheckpointError), mirrored(Mirror(URL, resumes=True, stops=True)):
            done.append(True)

    with mirrored(Mirror(URL, resumes=True, stops=True)):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert not done


def test_missing_packages_are_named(monkeypatch):
    with pytest.raises(ValueError, match="outdir is nothing://x, expected a URL of fsspec: Protocol not known"):
        train("nothing://x")
    with pytest.raises(ValueError, match="outdir is memory://, expected a URL with the path of a directory"):
        train("memory://")
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(MissingDependencyError, match="the run directory s3://x/y needs the package s3fs"):
        train("s3://x/y")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingDependencyError, match=r"needs the package fsspec, which .*\[hub\]"):
        train("s3://x/y")


@pytest.mark.parametrize("url", ["s3://key:planted@bucket/run", Path("s3://bucket/run")])
def test_other_functions_refuse_urls(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for act in (
        lambda: experiments.train_agent_async(url, 1, lambda *_: noisy_env(0), steps=1, agent=small_dqn(noisy_env(0))),
        lambda: experiments.prepare_output_dir(None, url),
        lambda: experiments.new_run_directory(url, "CartPole-v1", "dqn", 0),
        lambda: experiments.Evaluator(small_dqn(noisy_env(0)), noisy_env(0), None, 1, 1, url),
    ):
        with pytest.raises(ValueError, match="is 's3:.*, a URL, expected the path of a directory") as caught:
            act()
        assert "planted" not in str(caught.value)
    assert not list(tmp_path.iterdir())
