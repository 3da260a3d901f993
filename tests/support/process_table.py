"""What the kernel says about the processes of a private Ray: which there are, and where they listen. Linux only."""

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

_LISTENS = "0A"


def of_ray(folder: Path) -> set[int]:
    """The processes whose command line or environment names a folder."""
    found, name = set(), os.fsencode(folder)
    for pid in (int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        with contextlib.suppress(OSError):
            content = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
            if name in content:
                found.add(pid)
    return found


def alive(pids: set[int]) -> set[int]:
    """Those of some processes that run."""
    running = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                running.add(pid)
    return running


def with_program(pids: set[int], *names: str) -> set[int]:
    """Those of some processes whose program has one of some file names."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            program = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
            if Path(program).name in names:
                found.add(pid)
    return found


def listeners(pids: set[int]) -> set[str]:
    """The addresses on which some processes listen."""
    nodes = {node for pid in pids for node in _sockets(pid)}
    found = set()
    for family, name in ((socket.AF_INET, "tcp"), (socket.AF_INET6, "tcp6")):
        for row in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            columns = row.split()
            if columns[3] == _LISTENS and columns[9] in nodes:
                words = bytes.fromhex(columns[1].partition(":")[0])
                packed = b"".join(struct.pack(">I", word) for (word,) in struct.iter_unpack("<I", words))
                found.add(socket.inet_ntop(family, packed))
    return found


def _sockets(pid: int) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
                if target.startswith("socket:["):
                    yield target[8:-1]
