"""Creation and names of run directories, with a record of arguments, command, environment variables and git state."""

import argparse
import contextlib
import datetime
import itertools
import json
import os
import re
import shutil
import sys
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from pfrl_like.processes.rerun_request import rerun_request
from pfrl_like.runs import secrets
from pfrl_like.runs.environment_record import git
from pfrl_like.runs.run_directory import refuse_url
from pfrl_like.utils.checks import check_counts

#: `_MAX_COMMITS`: maximum number of commits in `git-log.txt`. `_MAX_CHARACTERS`: maximum number of characters in a file
#: with the output of git.
_MAX_COMMITS, _MAX_CHARACTERS = 100, 1 << 20


def is_under_git_control() -> bool:
    """True if the current directory belongs to a git repository."""
    return git("rev-parse") is not None


def generate_exp_id(prefix: str | None = None, argv: Sequence[str] = sys.argv) -> str:
    """Make an id that depends only on the commit, the uncommitted changes and the command line.

    Args:
        prefix: First part of the id. If None, there is no prefix.
        argv: Command line.

    Returns:
        The id, which is a valid directory name.

    Raises:
        RuntimeError: If the current directory is not under git control.
    """
    head, diff = git("rev-parse", "HEAD"), git("diff", "HEAD")
    if head is None or diff is None:
        raise RuntimeError("an experiment id needs git, but the current directory is not in a repository with a commit")
    sums = [f"{zlib.crc32(source):08x}" for source in (diff, json.dumps(list(argv)).encode())]
    return "-".join([*([] if prefix is None else [prefix]), head.decode().strip(), *sums])


def save_git_information(outdir: str | os.PathLike[str]) -> None:
    """Record the git state of the current directory in four files, with masked secrets.

    The files are `git-head.txt`, `git-status.txt`, `git-log.txt` (the newest 100 commits) and `git-diff.txt`. Each file
    is cut after 2**20 characters; its last line then says what was cut.

    Args:
        outdir: Directory of the files. It must exist.

    Raises:
        RuntimeError: If the current directory is not in a git repository with a commit.
    """
    n_commits = git("rev-list", "--count", "HEAD")
    if n_commits is None:
        raise RuntimeError("the current directory is not in a git repository with a commit")
    log = "log", f"log -n {_MAX_COMMITS}"
    for name, command in (("head", "rev-parse HEAD"), ("status", "status"), log, ("diff", "diff HEAD")):
        text = secrets.mask_secret_patterns((git(*command.split()) or b"").decode(errors="replace"))
        _write(outdir, f"git-{name}.txt", _cut(secrets.mask_known_secrets(text) if name == "diff" else text))
    n_older = int(n_commits) - _MAX_COMMITS
    if n_older > 0:
        _write(outdir, "git-log.txt", f"\n[cut: {n_older:,} older commits of {int(n_commits):,}]\n", "a")


def prepare_output_dir(
    args: Mapping[str, Any] | argparse.Namespace | None,
    basedir: str | os.PathLike[str] | None = None,
    exp_id: str | None = None,
    argv: Sequence[str] | None = None,
    time_format: str = "%Y%m%dT%H%M%S.%f",
    make_backup: bool = True,
) -> str:
    """Create the directory of a run.

    These files are written: `args.txt` (the arguments as JSON), `command.txt`, `environ.txt` (environment variables
    that are known to be harmless), `start.txt` (the time, one line for every start) and, under git, `git-head.txt`,
    `git-status.txt`, `git-log.txt` (the newest 100 commits) and `git-diff.txt`. Each file about git is cut after 2**20
    characters; its last line then says what was cut. Secrets in these files are masked: values whose name is like
    "api_key" or "password", passwords in URLs, keys of known services, and long random strings in arguments and command
    line (see "Secrets" in docs/guide/trust.md).

    Args:
        args: Arguments to record. Values that JSON cannot represent are recorded as text, and None as null. NaN and
            infinity are written as NaN and Infinity, as in PFRL. `json.load` can read these values, but strict JSON
            readers cannot.
        basedir: Parent of the directory. If None, the current directory.
        exp_id: Name of the directory below `basedir`. If None, the name is `generate_exp_id()` under git, and the time
            without git.
        argv: Command line. If None, the command line of this process.
        time_format: Format of times in names.
        make_backup: True to copy an existing directory with the same id to `<directory>.<time>.backup` first, without
            its `earlier-...` folders.

    Returns:
        Path of the directory.

    Raises:
        TypeError: If `args` is not a dict, a Namespace or None.
        ValueError: If the directory would lie outside `basedir`, or if `basedir` is a URL.
    """
    if (rerun := rerun_request()) is not None:
        return rerun.outdir  # this process repeats a run: the directory must not change
    if not isinstance(args, Mapping | argparse.Namespace | None):
        raise TypeError(f"args is {args!r:.80} ({type(args).__name__}), expected a dict, an argparse.Namespace or None")
    if exp_id is not None and (os.path.isabs(exp_id) or os.pardir in os.path.normpath(exp_id).split(os.sep)):
        raise ValueError(f"exp_id is {exp_id!r}, expected a name below basedir: set the parent directory with basedir")
    refuse_url("basedir", basedir or ".")
    argv = list(sys.argv if argv is None else argv)
    under_git = git("rev-parse", "--verify", "HEAD") is not None  # False if there is no commit
    if exp_id is None:
        exp_id = generate_exp_id(argv=argv) if under_git else datetime.datetime.now().strftime(time_format)
    outdir = os.path.join(os.fspath(basedir or "."), exp_id)
    if make_backup and os.path.exists(outdir):
        backup = f"{outdir}.{datetime.datetime.now().strftime(time_format)}.backup"
        shutil.copytree(
            outdir, backup, symlinks=True,
            ignore=lambda path, names: [name for name in names if path == outdir and name.startswith("earlier-")],
        )  # fmt: skip
    os.makedirs(outdir, exist_ok=True)
    _write(outdir, "start.txt", datetime.datetime.now().strftime("%Y%m%dT%H%M%S.%f") + "\n", "a")
    if isinstance(args, argparse.Namespace):
        args = vars(args)
    recorded = None if args is None else secrets.masked_arguments(args)
    _write(outdir, "args.txt", json.dumps(recorded, default=lambda value: secrets.masked(str(value))))
    _write(outdir, "command.txt", " ".join(secrets.masked_command(argv)))
    _write(outdir, "environ.txt", json.dumps(secrets.harmless_environment()))
    if under_git:
        save_git_information(outdir)
    return outdir


def _write(outdir: str | os.PathLike[str], name: str, text: str, mode: str = "w") -> None:
    with open(os.path.join(outdir, name), mode, encoding="utf-8") as file:
        file.write(text)


def _cut(text: str) -> str:
    """Cut a text at the end of a line, to at most `_MAX_CHARACTERS` characters and a last line that says what was cut.

    The text must not contain secrets: a part of a secret would not be masked.
    """
    if len(text) <= _MAX_CHARACTERS:
        return text
    end = text.rfind("\n", 0, _MAX_CHARACTERS) + 1 or _MAX_CHARACTERS
    return f"{text[:end].rstrip()}\n[cut: the last {len(text) - end:,} of {len(text):,} characters]\n"


def run_directory_name(env: Any, agent: Any, seed: int, *, now: datetime.datetime | None = None) -> str:
    """Return a name for the directory of a run, for example "20261123-2212-dqn-cartpole-seed0".

    The name contains only the characters a-z, 0-9 and "-".

    Args:
        env: Environment id, or environment. Module and version are left out.
        agent: Name of the agent, or agent. The name of an agent is the name of its class.
        seed: Seed of the run.
        now: Time at which the run starts. If None, the current time.

    Raises:
        ValueError: If `seed` is negative, or if a name contains no letter a-z and no digit.
        TypeError: If `seed` is not an integer.
    """
    check_counts(least=0, seed=seed)
    env_id = getattr(getattr(env, "spec", None), "id", None) or type(env).__name__
    names = {"agent": agent if isinstance(agent, str) else type(agent).__name__}
    names["env"] = re.sub(r"^.*:|-v\d+$", "", env if isinstance(env, str) else env_id)
    parts = {argument: re.sub("[^a-z0-9]+", "-", name.lower()).strip("-") for argument, name in names.items()}
    for argument, part in parts.items():
        if not part:
            raise ValueError(f"{argument} is {names[argument]!r}, expected a name with a letter a-z or a digit")
    time = (now or datetime.datetime.now()).strftime("%Y%m%d-%H%M")
    return "-".join([time, *parts.values(), f"seed{seed}"])


def new_run_directory(
    root: str | os.PathLike[str], env: Any, agent: Any, seed: int, *, now: datetime.datetime | None = None
) -> str:
    """Make a new directory for a run, with the name `run_directory_name(env, agent, seed, now=now)`.

    If the name exists, "-2", "-3", ... is appended, also if several programs make directories at the same time.

    Args:
        root: Parent of the directory. It is created if it does not exist.
        env: Environment id, or environment. Module and version are left out.
        agent: Name of the agent, or agent. The name of an agent is the name of its class.
        seed: Seed of the run.
        now: Time at which the run starts. If None, the current time.

    Returns:
        Path of the directory. If this process repeats a run (see `replay_crash`), the directory of that run.

    Raises:
        ValueError: If `seed` is negative, if a name contains no letter a-z and no digit, or if `root` is a URL.
        TypeError: If `seed` is not an integer.
        OSError: If the directory cannot be created.
    """
    if (rerun := rerun_request()) is not None:
        return rerun.outdir  # this process repeats a run: the directory must not change
    refuse_url("root", root)
    path = os.path.join(root, run_directory_name(env, agent, seed, now=now))
    os.makedirs(root, exist_ok=True)
    names = itertools.chain([path], (f"{path}-{number}" for number in itertools.count(2)))
    while True:
        outdir = next(names)
        with contextlib.suppress(FileExistsError):
            os.mkdir(outdir)
            return outdir
