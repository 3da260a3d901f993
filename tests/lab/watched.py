"""All loaders read the corpus, and are watched meanwhile."""

import encodings.cp437  # noqa: F401  which zipfile imports late
import os
import re
import shutil
import sys
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lab.corpus import Case, announce_images, cases, seal
from lab.hostile_hdf5 import recordings
from lab.subjects import LOADED, SLOWLY_MADE, Mixture, Subject, files_of

from pfrl_like.errors import PfrlLikeError

FORBIDDEN = (
    "exec", "compile", "import", "pickle.find_class", "marshal", "os.", "subprocess", "socket", "ctypes", "code.",
    "shutil", "webbrowser", "urllib", "http", "ftplib", "pty", "sys.add", "syslog", "_posixsubprocess", "mmap.",
)  # fmt: skip
#: What loaders do by right. Opening a persistent buffer makes a lock and its files; NumPy parses headers with `ast`.
RIGHTFUL = ("os.listdir", "os.scandir", "os.fspath", "socket.gethostname", "mmap.__new__", "os.truncate")
WITHIN = ("open", "os.mkdir", "os.remove", "os.rename", "os.unlink", "os.utime", "os.chmod")
#: Since when the owner of a lock has been running.
OF_A_PROCESS = re.compile(r"/proc/\d+/stat")


class Watch:
    """What happens while a loader runs, as far as it may not."""

    def __init__(self, folder: Path) -> None:
        self.folder = f"{folder.resolve()}{os.sep}"
        self.on = False
        self.seen: list[str] = []
        sys.addaudithook(self)

    def __call__(self, event: str, arguments: Any) -> None:
        if self.on and self._forbidden(event, arguments):
            self.seen.append(f"{event} {arguments!r:.200}")

    def _forbidden(self, event: str, arguments: Any) -> bool:
        if event in WITHIN:
            names = [name for name in arguments[: 1 + (event == "os.rename")] if isinstance(name, str | bytes)]
            paths = [os.path.abspath(os.fsdecode(name)) for name in names]
            return not all(path.startswith(self.folder) or OF_A_PROCESS.fullmatch(path) for path in paths)
        if event == "compile":
            return bool(arguments[1] != "<unknown>")  # as of `ast.literal_eval`, which executes nothing
        return event.startswith(FORBIDDEN) and event not in RIGHTFUL


def largest() -> int:
    """The most memory since `forget`, in KiB."""
    return int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1])  # type: ignore[index]


def forget() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def examples(folder: Path, names: Iterable[str]) -> dict[str, Path]:
    """A folder of each subject, as the library writes it, which its loader has read."""
    found = {}
    for name in names:
        subject, found[name] = LOADED[name], folder / name
        found[name].mkdir()
        subject.write(found[name], 0)
        subject.read(found[name])
    found["images"] = folder / "images"
    shutil.copytree(found["minari"], found["images"])
    announce_images(found["images"])
    return found


def outcome(subject: Subject, folder: Path, watch: Watch) -> dict[str, Any]:
    """How a loader takes a folder."""
    forget()
    before, start = largest(), time.process_time()
    watch.on = True
    try:
        subject.read(folder)
        end = "was read"
    except Mixture:
        end = "was read as another state"
    except PfrlLikeError:
        end = "refused"
    except BaseException as error:  # whatever it is, it is none of the library's
        end = f"{type(error).__name__}: {error!s:.200}"
    finally:
        watch.on = False
    seconds, seen = time.process_time() - start, watch.seen
    watch.seen = []
    return {"end": end, "seconds": seconds, "memory": largest() - before, "seen": seen}


def prepare(case: Case, example: Path, folder: Path) -> Path:
    """A copy of an example with the hostile file in it."""
    copy = folder / "case"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(example, copy, symlinks=True)
    place = copy / case.place
    if not case.changes:
        place.unlink()
    case.make(place)
    if case.sealed:
        seal(place)
    return copy


def watched(folder: Path, every: int) -> dict[str, Any]:
    """How the cases ended, for a process that does nothing else: it stays in the folder, and under watch.

    Args:
        folder: An empty one, for the files.
        every: Every so many cases one is read. Above 1 there are only the subjects that are quickly made.

    Returns:
        Per case how it ended, seconds of the processor, KiB of memory beyond what was there before, and what of the
        forbidden happened; and the files that are where none may be.
    """
    os.chdir(folder)
    warnings.simplefilter("ignore")
    found = examples(folder, [name for name in LOADED if every == 1 or name not in SLOWLY_MADE])
    recordings()["plain: wrong length"](folder / "secret.h5")
    (folder / "secret.bin").write_bytes(bytes(1000))
    os.mkfifo(folder / "pipe")
    watch = Watch(folder)
    outcomes = {}
    chosen = list(cases({name: files_of(path) for name, path in found.items()}))[::every]
    for case in chosen:
        subject = LOADED["minari" if case.subject == "images" else case.subject]
        outcomes[case.name] = outcome(subject, prepare(case, found[case.subject], folder), watch)
    escaped = [name for name in (folder / "trapped", Path("/tmp/trapped"), folder.parent / "trapped") if name.exists()]
    return {"outcomes": outcomes, "escaped": list(map(str, escaped))}
