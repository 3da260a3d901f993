"""Checkpoints of a run. A checkpoint contains everything that another process needs to resume the run.

    <t>_checkpoint/             files that `agent.save` writes
    <t>_checkpoint/run/         all other state of the run, see `RunState`, and the names of the buffer files
    checkpoint_buffers/<name>/  contents of replay buffers; each transition is written once, and checkpoints share files

`run/` is written last, by one atomic operation. The checkpoint is then complete. A directory without `run/` contains
only an agent. If a checkpoint of the same name exists, the old checkpoint is renamed to `<t>_previous` until the new
one is complete.
"""

import contextlib
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pfrl_like.errors import CheckpointError
from pfrl_like.experiments.callbacks import save_agent
from pfrl_like.experiments.run_state import RunState, find_buffers
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.replay_buffers import prune
from pfrl_like.runs.loop import Clock
from pfrl_like.runs.run_directory import TABLES
from pfrl_like.runs.run_files import FailedWrites
from pfrl_like.storage.atomic import make_directory, named_errors, names_in, read_bounded, sync_file, synced_together
from pfrl_like.storage.attributes import Owner, limits_of
from pfrl_like.storage.directory import has_manifest, is_unfinished, load_directory, save_directory
from pfrl_like.storage.manifest import MANIFEST, MAX_MANIFEST

RUN, BUFFERS, KIND = "run", "checkpoint_buffers", "run"
#: Number of checkpoints whose complete state is kept if `keep` is None. The second newest is used if the newest is
#: damaged.
_RESUMABLE = 2
#: Suffixes of saved agents. If several saved agents have the same step, the agent whose suffix is last in this list is
#: loaded first. `<t>_checkpoint` is loaded before `<t>_finish`, because the end of training may have truncated the last
#: episode of `<t>_finish`.
_SUFFIXES = ("previous", "finish", "checkpoint", "except")
_PREVIOUS = "_previous"
_NAME = re.compile(rf"(\d+)_(?:{'|'.join(_SUFFIXES)})")
_REMOVED_FOLDER = re.compile(r"\.tmp-gone-[0-9]+-[0-9a-f]{8}")


class Saved(NamedTuple):
    """A saved agent in a run directory.

    Attributes:
        t: Step in the name of the directory.
        path: Path of the directory.
    """

    t: int
    path: str

    @property
    def is_checkpoint(self) -> bool:
        """True if the directory contains the complete state of the run, and not only the agent."""
        return has_manifest(os.path.join(self.path, RUN))

    @property
    def is_incomplete(self) -> bool:
        """True if the process was killed while it saved this checkpoint or agent."""
        return not self.is_checkpoint and (os.path.isdir(os.path.join(self.path, RUN)) or is_unfinished(self.path))

    def state(self, agent: Any = None) -> dict[str, Any]:
        """Check all files except buffer files, and return the saved state of everything except agent and buffers.

        Args:
            agent: Agent that will be loaded. The sizes of its tensors determine the maximum size of each file. If None,
                sizes are not checked.

        Raises:
            CheckpointError: If a file is missing, damaged or too large.
        """
        state = dict(load_directory(os.path.join(self.path, RUN), kind=KIND).state)
        if has_manifest(self.path):
            load_directory(self.path, limits=limits_of(agent, self.path) if isinstance(agent, Owner) else None)
        elif getattr(getattr(type(agent), "save", None), "__module__", "").startswith("pfrl_like."):
            raise CheckpointError(self.path, f"contains no {MANIFEST}, which {type(agent).__name__} always writes")
        if state.get("agent") != _stamp(self.path):
            raise CheckpointError(self.path, "contains an agent that does not belong to the state in run/")
        return state


def saved_in(outdir: str) -> list[Saved]:
    """Return the saved agents in a run directory, newest first."""
    matches = filter(None, map(_NAME.fullmatch, names_in(outdir) if os.path.isdir(outdir) else []))
    agents = [Saved(int(match[1]), os.path.join(outdir, match[0])) for match in matches]
    return sorted(agents, key=lambda saved: (saved.t, _SUFFIXES.index(saved.path.rpartition("_")[2])), reverse=True)


def agents_in(outdir: str) -> list[str]:
    """Return the paths of the saved agents in a run directory that `load` can read: `best`, then the newest first."""
    paths = [os.path.join(outdir, "best"), *(saved.path for saved in saved_in(outdir))]
    return [path for path in paths if has_manifest(path)]


class Checkpoints:
    """Saves a run as `<t>_checkpoint` at every multiple of `interval`, and when a callback has called `clock.save()`.

    The last step is saved only if `at_end` is True.

    Args:
        agent: The agent.
        state: State of everything except the agent and the replay buffers. If None, only the agent is saved.
        interval: Number of steps between checkpoints. If None, only requested checkpoints are saved.
        outdir: Run directory.
        writes: Object that decides if a failed write ends training, and that lists the files that could not be written.
        at_end: True to save a checkpoint at the last step, too, if this step is a multiple of `interval`.
        keep: Number of checkpoints to keep, in addition to `best`. A run can resume from each of them. If None, the
            agents of all checkpoints are kept, and a run can resume from the newest two.
        critical: Function that returns a context manager. Signals do not interrupt the code inside this context.
        resumed_from: Checkpoint from which training resumed, with the attributes `t` and `references` (the buffer files
            of the checkpoint). None for a new run.

    Attributes:
        name: Name of the last checkpoint. Empty if there is none yet.
    """

    def __init__(
        self,
        agent: Any,
        state: RunState | None,
        interval: int | None,
        outdir: str,
        writes: FailedWrites,
        *,
        at_end: bool,
        keep: int | None = None,
        critical: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
        resumed_from: Any = None,
    ) -> None:
        self.agent, self.interval, self.outdir, self.at_end = agent, interval, outdir, at_end
        self.writes, self.logger = writes, writes.logger
        self.state = state if hasattr(agent, "save") else None
        self.keep, self.critical = keep, critical
        self._references: dict[str, Any] = dict(resumed_from.references) if resumed_from is not None else {}
        self._references_of: dict[str, Mapping[str, Any]] = {}
        self._saved_t = resumed_from.t if resumed_from is not None else None
        self.name = ""
        self._next = 0  # no checkpoint is due before this step

    def __call__(self, clock: Clock) -> None:
        requested, clock.save_requested = clock.save_requested, False
        if self.interval is not None and clock.t >= self._next:
            self._save_due(clock, self.interval)
        if requested and clock.t < clock.steps and self.name != f"{clock.t}_checkpoint":
            self.save(clock, "_checkpoint")

    def _save_due(self, clock: Clock, interval: int) -> None:
        """Save the checkpoints of all multiples of `interval` that the last tick has reached."""
        self._next = clock.t - clock.t % interval + interval
        first = clock.previous_t - clock.previous_t % interval + interval
        *others, due = [*range(first, clock.t + 1, interval)] or [clock.steps + 1]
        for skipped in others if self.keep is None else ():  # the earlier due steps of this tick
            with self._handling_failures(f"{skipped}_checkpoint"):
                save_agent(self.agent, skipped, self.outdir, self.logger, suffix="_checkpoint")
        if due < clock.steps or (due == clock.steps and self.at_end):
            self.save(clock, "_checkpoint", due)

    def save(self, clock: Clock, suffix: str, due: int | None = None) -> None:
        """Save the run as `<due><suffix>`. Call this method only between two ticks of the training loop.

        Args:
            clock: Clock of the run.
            suffix: "_checkpoint", "_finish" or "_except".
            due: Step in the name of the directory. If None, the step of the clock.

        Raises:
            CheckpointError: If a file cannot be written and `writes` ends training for this reason. Earlier checkpoints
                are kept.
        """
        name = f"{clock.t if due is None else due}{suffix}"
        with self._handling_failures(name):
            if self.state is None:
                save_agent(self.agent, name, self.outdir, self.logger)
            else:
                with self.critical(), isolated_rng():
                    self._write(clock, name)
                self._saved_t = clock.t
                self.logger.info("Saved the run to %s", os.path.join(self.outdir, name))

    def save_interrupted(self, clock: Clock) -> None:
        """Save a run as `<t>_except` after an error or a signal.

        If the run ended between two ticks, the complete state is saved. If it ended within a tick, only the agent is
        saved.
        """
        if not clock.between_ticks or self.state is None:
            self._rename_existing(os.path.join(self.outdir, f"{clock.t}_except"))
            save_agent(self.agent, clock.t, self.outdir, self.logger, suffix="_except")
        elif self._saved_t != clock.t:
            self.save(clock, "_except")

    @property
    def can_resume(self) -> bool:
        """True if there is a checkpoint from which this run can resume."""
        return self.state is not None and any(saved.is_checkpoint for saved in saved_in(self.outdir))

    def way_to_continue(self, t: int) -> str:
        """Return how a run that was interrupted at step `t` continues. Call this method after `save_interrupted`."""
        if self.can_resume:
            return "to continue, start the same command or program again; a program needs resume=True"
        name = f"{t}_except"
        is_saved = os.path.lexists(os.path.join(self.outdir, name))
        return f"only the agent is saved, as {name}" if is_saved else "nothing is saved"

    def _write(self, clock: Clock, name: str) -> None:
        assert self.state is not None
        path = os.path.join(self.outdir, name)
        run = os.path.join(path, RUN)
        moved, is_new = self._rename_existing(path), not os.path.lexists(path)
        try:
            make_directory(run)  # marks the directory as an unfinished checkpoint
            with synced_together():
                self._sync_tables()
                buffers, unsaved = find_buffers(self.agent, self.state.source)
                state = self.state.saved(clock, unsaved)
                references = {
                    name: buffer.save_increment(os.path.join(self.outdir, BUFFERS, name), self._references.get(name))
                    for name, buffer in buffers.items()
                }
                self.agent.save(path)
                # A user-defined `save` wrote no manifest and may not have synced its files.
                if not has_manifest(path):
                    for file in _files_of_agent(path):
                        sync_file(file)
            state |= {"agent": _stamp(path), "buffers": references}
            save_directory(run, {}, state, kind=KIND, class_name=type(self.agent).__name__)
        except Exception:
            self._remove(path if is_new else run)
            if moved:
                with contextlib.suppress(OSError):  # if it fails, <t>_previous can be loaded
                    os.rename(_previous(path), path)
            self._remove_obsolete()
            raise
        self._references_of[path] = references
        self._references.update(references)
        self._remove(_previous(path))
        self._remove_obsolete()

    @property
    def failure(self) -> str:
        """Reason why the last checkpoint could not be saved; empty if it was saved."""
        return self.writes.unsaved_files.get(self.name, "")

    @property
    def newest(self) -> str:
        """Text that names the newest complete agent or checkpoint."""
        names = (os.path.basename(saved.path) for saved in saved_in(self.outdir) if not saved.is_incomplete)
        return f"the newest complete save is {next(names, 'none')}"

    def _handling_failures(self, name: str) -> contextlib.AbstractContextManager[None]:
        self.writes.unsaved_files.pop(self.name, None)  # forget the failure of the last save
        self.name = name
        return self.writes.handling(name)

    def _rename_existing(self, path: str) -> bool:
        """Rename the existing checkpoint of this name. Return False if there is no such checkpoint."""
        previous = _previous(path)
        if not Saved(0, path).is_checkpoint:
            self._remove(os.path.join(path, RUN))  # an incomplete save may have left this directory
            return False
        self._remove(previous)
        with named_errors(path, "renamed"):
            os.rename(path, previous)
        self._references_of.pop(previous, None)
        return True

    def _sync_tables(self) -> None:
        """Write all rows of the tables to disk before the checkpoint is completed."""
        assert self.state is not None
        try:
            self.state.flush()
        except OSError as error:
            raise CheckpointError(self.outdir, f"cannot be written: {error.strerror or error}") from error
        for name in TABLES:
            path = os.path.join(self.outdir, name)
            if os.path.exists(path):
                sync_file(path)

    def _remove_obsolete(self) -> None:
        """Remove obsolete checkpoints, and buffer files that no remaining checkpoint needs. Errors are only logged."""
        try:
            complete = [saved for saved in saved_in(self.outdir) if saved.is_checkpoint]
            steps = sorted({saved.t for saved in complete}, reverse=True)[: self.keep or _RESUMABLE]
            for saved in (saved for saved in complete if saved.t not in steps):
                removes_agent = saved.path.endswith(_PREVIOUS if self.keep is None else (_PREVIOUS, "_checkpoint"))
                self._remove(saved.path if removes_agent else os.path.join(saved.path, RUN))
            self._references_of = {saved.path: self._references_in(saved) for saved in complete if saved.t in steps}
            folder = os.path.join(self.outdir, BUFFERS)
            for name in os.listdir(folder) if os.path.isdir(folder) else ():
                prune(os.path.join(folder, name), [one[name] for one in self._references_of.values() if name in one])
            # A killed process may have left renamed directories.
            for name in filter(_REMOVED_FOLDER.fullmatch, os.listdir(self.outdir)):
                shutil.rmtree(os.path.join(self.outdir, name), ignore_errors=True)
        except (OSError, CheckpointError) as error:
            self.logger.warning("obsolete checkpoint files in %s could not be removed: %s", self.outdir, error)

    def _remove(self, path: str) -> None:
        """Remove a directory if it exists. Rename it first, so that no incomplete directory has the original name."""
        temporary = os.path.join(self.outdir, f".tmp-gone-{os.getpid()}-{secrets.token_hex(4)}")
        with contextlib.suppress(OSError):
            os.rename(path, temporary)
            shutil.rmtree(temporary)

    def _references_in(self, saved: Saved) -> Mapping[str, Any]:
        if saved.path in self._references_of:
            return self._references_of[saved.path]
        try:
            references: Mapping[str, Any] = saved.state(self.agent)["buffers"]
        except (CheckpointError, KeyError):
            # The checkpoint is damaged. No run can resume from it.
            references = {}
        return references


def _previous(path: str) -> str:
    return path.rpartition("_")[0] + _PREVIOUS


def _stamp(path: str) -> str:
    """Return an identifier of a saved agent: the SHA-256 of its manifest, or of all files if there is no manifest."""
    manifest = os.path.join(path, MANIFEST)
    if os.path.lexists(manifest):
        return hashlib.sha256(read_bounded(manifest, MAX_MANIFEST)).hexdigest()
    combined = hashlib.sha256()
    for name in _files_of_agent(path):
        with open(name, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        combined.update(f"{os.path.relpath(name, path)}\n{digest}\n".encode())
    return combined.hexdigest()


def _files_of_agent(path: str) -> list[str]:
    """Return the sorted paths of the files of the agent, without the files of `run/`."""
    paths = []
    for folder, folders, names in os.walk(path):
        if folder == path:
            folders[:] = [name for name in folders if name != RUN]
        paths += [os.path.join(folder, name) for name in names]
    return sorted(name for name in paths if os.path.isfile(name) and not os.path.islink(name))
