"""Columns that store the steps of replay buffers and datasets."""

from pfrl_like.columns.columns import Columns
from pfrl_like.columns.field import Field
from pfrl_like.columns.leaves import as_array
from pfrl_like.columns.links import joined_frames, packed, stacks
from pfrl_like.columns.recorded import RecordedColumns
from pfrl_like.columns.segments import changed_since, dump_segment, dump_table, edit, join
from pfrl_like.columns.state import (
    SharedRows,
    dump,
    dump_locators,
    keep_locators,
    load_locators,
    mark_used,
    restore,
    shared_field,
)
from pfrl_like.columns.steps import ENDED, RUNNING, Indices, Running
from pfrl_like.columns.structure import ReadOnlyDict, rows_of

__all__ = [
    "ENDED", "RUNNING", "Columns", "Field", "Indices", "ReadOnlyDict", "RecordedColumns", "Running", "SharedRows",
    "as_array", "changed_since", "dump", "dump_locators", "dump_segment", "dump_table", "edit", "join",
    "joined_frames", "keep_locators", "packed", "restore", "load_locators", "rows_of", "mark_used", "shared_field",
    "stacks",
]  # fmt: skip
