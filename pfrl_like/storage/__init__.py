"""Files and directories that are whole or absent, and reading them without trusting them."""

from pfrl_like.storage.arrays import is_array_file as is_array_file
from pfrl_like.storage.arrays import read_arrays as read_arrays
from pfrl_like.storage.arrays import write_arrays as write_arrays
from pfrl_like.storage.atomic import atomic_path as atomic_path
from pfrl_like.storage.atomic import atomic_write as atomic_write
from pfrl_like.storage.atomic import open_regular as open_regular
from pfrl_like.storage.checks import check_like as check_like
from pfrl_like.storage.directory import Snapshot as Snapshot
from pfrl_like.storage.directory import has_manifest as has_manifest
from pfrl_like.storage.directory import load_directory as load_directory
from pfrl_like.storage.directory import save_directory as save_directory
from pfrl_like.storage.json_file import dump_json as dump_json
from pfrl_like.storage.json_file import read_json as read_json
from pfrl_like.storage.pickles import read_pickle as read_pickle
from pfrl_like.storage.plain_tensors import tensor_writer as tensor_writer
from pfrl_like.storage.tensors import load_tensors as load_tensors
