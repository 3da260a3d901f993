"""`Mirror`: a run directory at a URL, such as "s3://bucket/run". The run works in a local folder that is uploaded."""

import contextlib
import hashlib
import itertools
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from pfrl_like.errors import CheckpointError, MissingDependencyError, PfrlLikeError
from pfrl_like.processes.rerun_request import rerun_request
from pfrl_like.runs.loop import Clock
from pfrl_like.runs.run_directory import EVALUATION, TABLES, TRAINING, is_run_file, start_of, step_of
from pfrl_like.runs.run_files import RECORD, FailedWrites, directory_lock
from pfrl_like.runs.secrets import mask_secret_patterns, masked_arguments, masked_text
from pfrl_like.storage.manifest import LOCK_FILES, MANIFEST, PREVIOUS

_LOGGER = logging.getLogger(__name__)
#: Name of a file at the URL that is not complete yet.
_PART = ".part"
#: Folder of a checkpoint whose manifest shows that the checkpoint is complete.
_RUN = "run"
#: The package in a message of fsspec, such as "Install s3fs to access S3".
_PACKAGE = re.compile(r"[Ii]nstall (?:the )?'?([\w-]+)|\"([\w-]+)\"")


class Mirror(os.PathLike[str]):
    """A run directory at a URL. This object is the path of a local folder, in which the run works.

    `upload` copies changed files to the URL. Every file that a manifest lists is copied before the manifest. Therefore
    a checkpoint that is not completely uploaded has no manifest at the URL. `owner.json` at the URL names the process
    that writes there. It is removed at the end.

    The local folder is below `pfrl_like/runs` in the user's cache (`XDG_CACHE_HOME`, or `~/.cache`). It is removed at
    the end if all of its files are uploaded. A folder that a killed process has left is renamed.

    Args:
        url: The URL. Its secrets are masked in all messages.
        resumes: True to download the run at the URL. False to move its files to a subfolder `earlier-...` of the URL.
        stops: True if a failed upload ends training. If False, it is logged, and the next upload tries again.

    Attributes:
        url: The URL with masked secrets.
        home: Parent of the local folder. It is locked while the run works in the folder.
        path: Path of the local folder.
        is_open: True inside `mirrored`.

    Raises:
        MissingDependencyError: If fsspec, or the package that fsspec needs for this URL, is not installed.
        ValueError: If the URL has no path, or if fsspec does not accept it.
    """

    def __init__(self, url: str, *, resumes: bool, stops: bool) -> None:
        masked_arguments({"outdir": url})  # from now on, `masked_text` masks the secrets of the URL
        self.url, self.resumes, self.stops, self.is_open = masked_text(url), resumes, stops, False
        self._fs, self._root = _file_system(url, self.url)
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(Path.home(), ".cache")
        digest = hashlib.sha256(mask_secret_patterns(url).encode()).hexdigest()[:16]
        self.home = os.path.join(cache, "pfrl_like", "runs", digest)
        self.path = os.path.join(self.home, "run")
        #: Size and time of each file when it was uploaded or downloaded. None if its upload may be incomplete.
        self._uploaded: dict[str, Any] = {}

    def __fspath__(self) -> str:
        return self.path

    def prepare(self) -> None:
        """Make the local folder, with the files of the run if it resumes. Otherwise move the files at the URL.

        Raises:
            CheckpointError: If the storage cannot be read, or if files cannot be moved.
        """
        with self._named_errors("read"):
            if os.path.isdir(self.path):
                unused = tempfile.mkdtemp(prefix="unused-", dir=self.home)
                os.rename(self.path, unused)
                text = "the run continues from %s; files of a process that was killed or could not upload are now in %s"
                _LOGGER.warning(text, self.url, unused)
            self._fs.invalidate_cache()
            paths, prefix = self._fs.find(self._root), self._at("")
            names = [path.removeprefix(prefix) for path in paths if path.startswith(prefix)]
            new = os.path.join(self.home, "new")
            shutil.rmtree(new, ignore_errors=True)  # the incomplete download of a killed process
            os.makedirs(new)
            (self._download if self.resumes else self._move_earlier)(names, new)
            os.rename(new, self.path)
            self._uploaded = {**self._files()}

    def _download(self, names: list[str], folder: str) -> None:
        """Download the tables, the checkpoints from which the run can resume, and everything that is newer."""
        steps = {name: step_of(_top(name)) for name in names if ".." not in name.split("/")}
        first = min((step or 0 for name, step in steps.items() if name.endswith(f"/{_RUN}/{MANIFEST}")), default=0)
        for name, step in steps.items():
            if _top(name) in {*TRAINING, *EVALUATION} or (step is not None and step >= first):
                target = os.path.join(folder, name)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                self._fs.get_file(self._at(name), target)

    def _move_earlier(self, names: list[str], _: str) -> None:
        """Move the files of a run at the URL to a subfolder."""
        moved = [name for name in names if is_run_file(_top(name))]
        if not moved:
            return
        if RECORD in moved:
            self._fs.get_file(self._at(RECORD), os.path.join(self.home, RECORD))
        earlier = f"earlier-{start_of(self.home)}"
        targets = itertools.chain([earlier], (f"{earlier}-{number}" for number in itertools.count(2)))
        target = next(each for each in targets if not any(f"{each}/{name}" in names for name in moved))
        # As in local runs, the record and the tables are moved last: if the process is killed, the next run moves them.
        for name in sorted(moved, key=lambda name: (name == RECORD, name in TABLES, -_rank(name)[0])):
            self._fs.makedirs(os.path.dirname(self._at(f"{target}/{name}")), exist_ok=True)
            self._fs.mv(self._at(name), self._at(f"{target}/{name}"))
        self._remove_empty_folders(moved)
        text = "the files of an earlier run are now in %s/%s; to continue that run, pass resume=True or step_offset"
        _LOGGER.warning(text, self.url, target)

    def upload(self) -> None:
        """Upload the files that have changed, and then remove files at the URL that were removed locally.

        Only files that this run has uploaded or downloaded are removed.

        Raises:
            CheckpointError: If a file cannot be uploaded. The next call continues.
        """
        with self._named_errors("written"):
            files = self._files()
            changed = [name for name, version in files.items() if self._uploaded.get(name) != version]
            removed = sorted(self._uploaded.keys() - files.keys(), key=_rank, reverse=True)
            for name in sorted(changed, key=_rank):
                is_new = name not in self._uploaded
                self._uploaded[name] = None
                self._put(name, is_new)
                self._uploaded[name] = files[name]
            for name in removed:
                with contextlib.suppress(FileNotFoundError):
                    self._fs.rm_file(self._at(name))
                del self._uploaded[name]
            self._remove_empty_folders(removed)

    def _put(self, name: str, is_new: bool) -> None:
        target = self._at(name)
        # On some storages, a file is visible before it is complete.
        first = target if is_new and _rank(name)[0] < 1 else self._at(_PART)
        self._fs.makedirs(os.path.dirname(target), exist_ok=True)
        self._fs.put_file(os.path.join(self.path, name), first)
        if first != target:
            self._fs.mv(first, target)

    def _files(self) -> dict[str, tuple[int, int]]:
        """Return the size and the time of each file in the local folder, without temporary files and the lock."""
        found = {}
        for path in Path(self.path).rglob("*"):
            parts = path.relative_to(self.path).parts
            if not any(part.startswith(".") or part == LOCK_FILES[0] for part in parts) and path.is_file():
                found["/".join(parts)] = (path.stat().st_size, path.stat().st_mtime_ns)
        return found

    def _remove_empty_folders(self, names: Iterable[str]) -> None:
        """Remove the folders at the URL from which all files were removed. Object storages have no folders."""
        self._fs.invalidate_cache()
        folders = {str(parent) for name in names for parent in PurePosixPath(name).parents} - {"."}
        for folder in sorted(folders, key=len, reverse=True):
            if not self._fs.find(self._at(folder)):
                with contextlib.suppress(Exception):
                    self._fs.rmdir(self._at(folder))

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextlib.contextmanager
    def _named_errors(self, verb: str) -> Iterator[None]:
        """Convert any error to a `CheckpointError` that contains the URL. Secrets are masked, also in its cause."""
        try:
            yield
        except PfrlLikeError:
            raise
        except Exception as error:
            reason = masked_text(f"{type(error).__name__}: {error}")
            raise CheckpointError(self.url, f"cannot be {verb}: {reason}") from None


@contextlib.contextmanager
def mirrored(outdir: Any) -> Iterator[Any]:
    """Context manager in which the local folder of a `Mirror` can be used. All files are uploaded at the end.

    Other run directories are not changed. A second context of the same `Mirror` inside the first one does nothing.

    Yields:
        The run directory.

    Raises:
        CheckpointError: If the storage cannot be read at the start, if another process of this machine writes to this
            URL, or if files cannot be uploaded at the end and `stops` is True.
    """
    if not isinstance(outdir, Mirror) or outdir.is_open or rerun_request() is not None:
        yield outdir
        return
    writes = FailedWrites(_LOGGER, stops=outdir.stops)
    with directory_lock(outdir.home):
        outdir.prepare()
        outdir.is_open = True
        try:
            yield outdir
        except BaseException as error:
            writes.ended_by = error  # an error of the upload is then only logged
            raise
        finally:
            outdir.is_open = False
            with writes.handling(outdir.url):
                outdir.upload()
                shutil.rmtree(outdir.path)
    with contextlib.suppress(OSError):  # other files are there
        os.rmdir(outdir.home)


def uploads(outdir: Any, writes: FailedWrites, checkpoints: Any, evaluator: Any) -> list[Callable[[Clock], None]]:
    """Return a callback that uploads the files of a `Mirror`. No callback for other run directories.

    It uploads at the first tick, after every checkpoint, and after every new best score.

    Args:
        outdir: The run directory.
        writes: Object that decides if a failed upload ends training.
        checkpoints: Object whose attribute `name` changes with every checkpoint.
        evaluator: Object whose attribute `max_score`, if it has one, changes with every new best score.
    """
    last = ""

    def upload(clock: Clock) -> None:
        nonlocal last
        state = repr((checkpoints.name, getattr(evaluator, "max_score", None)))
        if state != last:
            last = state
            with writes.handling(outdir.url):
                outdir.upload()

    return [upload] if isinstance(outdir, Mirror) else []


def _file_system(url: str, name: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it. `name` is the URL in error messages."""
    purpose = f"the run directory {name}"
    try:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped]
    except ImportError:
        raise MissingDependencyError("fsspec", purpose, "hub") from None
    try:
        file_system, path = url_to_fs(url)
    except ImportError as error:
        found = _PACKAGE.search(str(error))
        raise MissingDependencyError(str(error) if found is None else found[1] or found[2], purpose) from None
    except Exception as error:
        raise ValueError(f"outdir is {name}, expected a URL of fsspec: {masked_text(str(error))}") from None
    if not path.strip("/"):
        raise ValueError(f"outdir is {name}, expected a URL with the path of a directory")
    return file_system, path.rstrip("/")


def _top(name: str) -> str:
    """Return the first part of the path of a file."""
    return name.partition("/")[0]


def _rank(name: str) -> tuple[int, str]:
    """Return the place of a file in the order of uploads.

    The folder `run` comes first, because it marks a checkpoint that is not complete. Manifests come last, the one in
    `run` after that of the agent.
    """
    folder, file = os.path.split(name)
    is_in_run = os.path.basename(folder) == _RUN
    return (1 + is_in_run if file in (MANIFEST, PREVIOUS) else -is_in_run), name
