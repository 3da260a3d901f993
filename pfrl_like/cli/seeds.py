"""Training of several seeds side by side, each in a process of its own, on this machine or on the nodes of Ray."""

import argparse
import concurrent.futures
import contextlib
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from pfrl_like.cli.seed_processes import child_process, ray_processes
from pfrl_like.utils.checks import check_counts

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: Function that starts a process with the arguments of a command. The context ends with the process.
Start = Callable[[Sequence[str]], contextlib.AbstractContextManager[Any]]
#: Exit statuses of a child that a signal has ended.
_INTERRUPTED = {*(-signum for signum in _SIGNALS), *(128 + signum for signum in _SIGNALS)}


def train_seeds(arguments: argparse.Namespace) -> int:
    """Train several seeds, and print a table of their scores.

    Return 0 if all seeds finish, 1 if some fail, 2 if an option is invalid, and 128 + the number of a signal.
    """
    first, n_seeds, is_on_ray = _first_seed(arguments), arguments.seeds, arguments.on == "ray"
    jobs = min(arguments.jobs or (n_seeds if is_on_ray else os.cpu_count() or 1), n_seeds)
    with contextlib.ExitStack() as stack:
        start: Start = child_process
        if is_on_ray:
            start = stack.enter_context(ray_processes(arguments.address, arguments.cpus or 1))
        children = _Children(arguments.argv, start, quiet=arguments.quiet)
        for signum in _SIGNALS:
            stack.callback(signal.signal, signum, signal.signal(signum, children.end))
        with concurrent.futures.ThreadPoolExecutor(jobs) as executor:
            results = [*executor.map(children.run, range(first, first + n_seeds))]
    statuses = [status for status, _ in results]
    if 2 not in statuses or {*statuses} - {2, None, *_INTERRUPTED}:
        _print_table(first, results)
    if children.ended_by is not None:
        return 128 + children.ended_by
    return 2 if 2 in statuses else int(any(statuses))


def _first_seed(arguments: argparse.Namespace) -> int:
    """Return the seed of the option `--seed`, or that of the file of `--config`, or 0."""
    if arguments.seed is not None or arguments.config is None:
        return arguments.seed or 0
    from pfrl_like.cli.options import argument_error, read_config_option  # imports torch

    seed = read_config_option(arguments).get("seed", 0)
    try:
        check_counts(0, seed=seed)
    except (ValueError, TypeError) as error:
        raise argument_error("--config", error) from error
    return int(seed)


class _Children:
    """Processes that train one seed each.

    On this machine, they belong to the process group of this process, so that Ctrl-C on a terminal and signals to the
    group reach them.

    Args:
        argv: Command line of this process.
        start: Function that starts a process with a command line.
        quiet: True to print only errors.

    Attributes:
        ended_by: Number of the signal that has ended the processes. None if there was none.
    """

    def __init__(self, argv: list[str], start: Start, *, quiet: bool) -> None:
        self._argv, self._start, self._quiet = argv, start, quiet
        self._children: list[Any] = []
        self._is_ended = False
        self.ended_by: int | None = None
        self._errors: set[str] = set()
        self._lock = threading.Lock()

    def end(self, signum: int | None = None, _: Any = None) -> None:
        """End all processes. Each saves a checkpoint. No other process starts.

        Args:
            signum: Number of the signal that this process has received. None if it has received none.
        """
        self._is_ended, self.ended_by = True, self.ended_by or signum
        for child in self._children:
            child.terminate()  # a second signal within half a second is ignored, so that Ctrl-C does not count twice

    def run(self, seed: int) -> tuple[int | None, str]:
        """Train a seed. Return the exit status, and the error of a failed seed, or the last line of the output.

        The status is None without a start.
        """
        if self._is_ended:
            return None, ""
        with self._start([*self._argv, "--on", "local", "--seeds", "1", "--seed", str(seed)]) as child:
            self._children.append(child)
            if self._is_ended:
                child.terminate()
            line, error, is_traceback = "", "", False
            for line in child.stdout:
                self._print(seed, line)
                if line.startswith("Traceback "):
                    is_traceback = True
                elif is_traceback and not line.startswith(" "):  # the lines after this one are notes
                    error, is_traceback = line, False
        if child.returncode == 2:  # the options are invalid, and they are the options of all seeds
            self.end()
        return child.returncode, (error if child.returncode == 1 and error else line).strip()

    def _print(self, seed: int, line: str) -> None:
        line = line.rstrip()
        with self._lock:
            if ": error: " in line:  # invalid options are the same for all seeds: the message is printed once
                if line not in self._errors:
                    self._errors.add(line)
                    print(line, file=sys.stderr, flush=True)
            elif not self._quiet:
                print(f"seed {seed} | {line}", flush=True)


def _print_table(first: int, results: list[tuple[int | None, str]]) -> None:
    """Print a line for each seed: its score and its directory, or how it ended."""
    print(f"{'seed':<6}{'score':<12}directory")
    for seed, (status, line) in enumerate(results, first):
        score, outdir = f"failed ({status})", line
        if status is None:
            score = "not started"
        elif status in _INTERRUPTED:
            score, outdir = "interrupted", line.rpartition(" in ")[2]
        elif match := re.fullmatch(r"score (\S+(?: at step \S+)?) in (.+)", line):
            score, outdir = match.groups()
        print(f"{seed:<6}{score:<11} {outdir}")
    sys.stdout.flush()
