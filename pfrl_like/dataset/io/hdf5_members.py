"""The members of an HDF5 file: read only if they lie in it, hold numbers, and take no more than its size explains."""

import math
from collections.abc import Iterator
from typing import Any

from pfrl_like.errors import MissingDependencyError
from pfrl_like.storage.json_file import Budget

#: And a number: a part of a tuple, as Minari calls it.
INDEX = "_index_"
_MOST_LEVELS = 32
_COST = 1 << 14  # what anything counts for, however small: more than its share of a file that has it once
_LZF = 32000


def h5py_module() -> Any:
    """The package h5py.

    Raises:
        MissingDependencyError: If it is not installed.
    """
    try:
        import h5py
    except ImportError as error:
        raise MissingDependencyError("h5py", "an HDF5 file") from error
    return h5py


class Members:
    """A group of a file; what is wrong with a member is a `ValueError` or one of h5py's errors.

    Args:
        group: The group.
        budget: What its members may take, together with those of other groups of the file.
        level: How many groups it lies in.
    """

    def __init__(self, group: Any, budget: Budget, level: int = 0) -> None:
        if not hasattr(group, "keys"):
            raise ValueError(f"{group.name} is no group")
        if level > _MOST_LEVELS:
            raise ValueError("its groups are nested too deep")
        self.group = group
        self.budget = budget
        self.level = level
        budget.spend(_COST, group.name)

    def __contains__(self, name: str) -> bool:
        return bool(self.group.id.links.exists(name.encode()))  # h5py's own `in` follows links

    def __iter__(self) -> Iterator[str]:
        return iter(self.group)

    def __len__(self) -> int:
        return len(self.group)

    def node(self, name: str) -> Any:
        """The dataset or group of a name.

        Raises:
            ValueError: If there is none, or it lies elsewhere.
        """
        if name not in self:
            raise ValueError(f"it lacks {name!r}")
        if self.group.id.links.get_info(name.encode()).type != h5py_module().h5l.TYPE_HARD:
            raise ValueError(f"{name!r} is a link to elsewhere, which is not followed")
        return self.group[name]

    def within(self, name: str) -> "Members":
        """The members of a group."""
        return Members(self.node(name), self.budget, self.level + 1)

    def read(self, name: str) -> Any:
        """The array of this name, or the dict or tuple of arrays that a group is.

        Raises:
            ValueError: If it lies in another file, is larger than the file explains, or holds no numbers.
        """
        node = self.node(name)
        if not hasattr(node, "keys"):
            return self.numbers(node)[()]
        inner = self.within(name)
        parts = {key: inner.read(key) for key in inner}
        numbered = [f"{INDEX}{i}" for i in range(len(parts))]
        return tuple(parts[key] for key in numbered) if set(parts) == set(numbered) else parts

    def numbers(self, node: Any) -> Any:
        """A dataset, once it is known to be numbers that can be read.

        Raises:
            ValueError: As `read`.
        """
        self.stored_here(node)
        if node.dtype.kind not in "biuf":
            raise ValueError(f"{node.name} holds {node.dtype}, expected numbers")
        self.budget.spend(math.prod(node.shape) * node.dtype.itemsize + _COST, node.name)
        return node

    def stored_here(self, node: Any) -> None:
        """Refuse a dataset whose values lie in other files, or need more than this file to be unpacked.

        Raises:
            ValueError: If they do.
        """
        if getattr(node, "shape", None) is None:
            raise ValueError(f"{node.name} is no array")
        if node.external or node.is_virtual:
            raise ValueError(f"{node.name} has its values in other files, which are not read")
        if math.prod(node.chunks or ()) * node.dtype.itemsize > self.budget.left:
            raise ValueError(f"{node.name} announces chunks of shape {node.chunks}, which no file of this size has")
        self._refuse_plugins(node)

    def _refuse_plugins(self, node: Any) -> None:
        """Refuse filters that are no part of HDF5: to unpack their data it would load a shared library."""
        layout, h5z = node.id.get_create_plist(), h5py_module().h5z
        known = {
            h5z.FILTER_DEFLATE, h5z.FILTER_SHUFFLE, h5z.FILTER_FLETCHER32, h5z.FILTER_SZIP, h5z.FILTER_NBIT,
            h5z.FILTER_SCALEOFFSET, _LZF,
        }  # fmt: skip
        if used := {layout.get_filter(i)[0] for i in range(layout.get_nfilters())} - known:
            raise ValueError(f"{node.name} is packed by the filters {sorted(used)}, which are no part of HDF5")
