"""The columnar store under replay buffers and datasets."""

from pfrl_like.columns.columns import Columns, rows_of
from pfrl_like.columns.state import dump, restore
from pfrl_like.columns.steps import ENDED, RUNNING, Indices, Running

__all__ = ["ENDED", "RUNNING", "Columns", "Indices", "Running", "dump", "restore", "rows_of"]
