"""A limit of the system on the length of files stands for a full disk."""

import contextlib
from collections.abc import Iterator

import pytest

resource = pytest.importorskip("resource")


def let_files_grow(size: int | None) -> None:
    """Up to this size from now on; None for as far as the process may."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard if size is None else size, hard))


@contextlib.contextmanager
def full_from(size: int) -> Iterator[None]:
    """Meanwhile no file grows beyond a size."""
    let_files_grow(size)
    try:
        yield
    finally:
        let_files_grow(None)
