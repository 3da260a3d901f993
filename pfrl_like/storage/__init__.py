"""Atomic writing of files and directories, and safe reading of untrusted files."""

from pfrl_like.storage.arrays import is_array_file, read_arrays, write_arrays
from pfrl_like.storage.atomic import atomic_path, atomic_write, make_directory, open_regular
from pfrl_like.storage.checks import check_like
from pfrl_like.storage.directory import Snapshot, has_manifest, is_unfinished, load_directory, save_directory
from pfrl_like.storage.journal import AppendedFile, ErrorContext
from pfrl_like.storage.json_file import dump_json, plain_json, read_json
from pfrl_like.storage.pickles import read_pickle
from pfrl_like.storage.plain_tensors import tensor_writer
from pfrl_like.storage.tensors import load_tensors

__all__ = [
    "AppendedFile", "Snapshot", "ErrorContext", "atomic_path", "atomic_write", "check_like", "dump_json",
    "has_manifest", "is_array_file", "is_unfinished", "load_directory", "load_tensors", "make_directory",
    "open_regular", "plain_json", "read_arrays", "read_json", "read_pickle", "save_directory", "tensor_writer",
    "write_arrays",
]  # fmt: skip
