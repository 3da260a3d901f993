"""load(save(x)) = x, for whatever may be saved."""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from pfrl_like.errors import CheckpointError
from pfrl_like.storage import load_tensors, read_arrays, tensor_writer, write_arrays
from pfrl_like.storage.atomic import atomic_write
from pfrl_like.storage.json_file import dump_json, parse_json

TORCH_DTYPES = [np.float16, np.float32, np.float64, np.uint8, np.int8, np.int16, np.int32, np.int64, np.bool_]
shapes = npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
tensors = st.sampled_from(TORCH_DTYPES).flatmap(lambda dtype: npst.arrays(dtype, shapes)).map(torch.from_numpy)
numbers = st.integers(-(2**80), 2**80) | st.floats(allow_nan=False) | st.booleans() | st.none()
keys = st.text(max_size=5) | st.integers(0, 3)
states = st.recursive(
    tensors | numbers | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple) | st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=12,
)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
array_dtypes = (
    npst.integer_dtypes(endianness="?")
    | npst.floating_dtypes(endianness="?", sizes=(16, 32, 64))
    | npst.boolean_dtypes()
    | npst.unicode_string_dtypes(max_len=5)
    | npst.datetime64_dtypes()
)
arrays = array_dtypes.flatmap(lambda dtype: npst.arrays(dtype, shapes))
columns = st.dictionaries(st.text(max_size=8), arrays, max_size=4)


def same(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor):
        return (
            left.dtype == right.dtype
            and left.shape == right.shape
            and torch.equal(left.nan_to_num(7), right.nan_to_num(7))
        )
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return type(left) is type(right) and len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


@given(states)
@settings(max_examples=30)
def test_state_dicts_come_back(value: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.pt"
        atomic_write(path, tensor_writer(value, path), durable=False)
        assert same(load_tensors(str(path), max_bytes=1 << 20), value)
        assert same(torch.load(path, weights_only=True), value)


@given(columns, st.dictionaries(st.text(), plain, max_size=3))
@settings(max_examples=30)
def test_arrays_come_back(arrays: dict[str, Any], header: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        write_arrays(path, header, arrays)
        loaded_header, loaded = read_arrays(path)
    assert loaded_header == header
    assert list(loaded) == list(arrays)
    for name, array in arrays.items():
        assert loaded[name].dtype == array.dtype
        np.testing.assert_array_equal(loaded[name], array)


@given(st.dictionaries(st.text(), plain, max_size=5))
@settings(max_examples=50)
def test_json_comes_back(value: dict[str, Any]) -> None:
    content = dump_json(value, "file")
    assert parse_json(content, "file") == value
    assert json.loads(content) == value


@given(st.binary(max_size=300))
def test_no_bytes_make_a_reader_fail_in_another_way(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        for start in (b"", b"PFRLARR1", b"PK\x03\x04"):
            path.write_bytes(start + content)
            for read in (load_tensors, read_arrays):
                try:
                    read(str(path))
                except CheckpointError:
                    continue
                raise AssertionError("random bytes were read")
