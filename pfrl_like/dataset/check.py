"""Statistics of datasets, and checks that find possible problems in the data."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfrl_like.columns import Indices
from pfrl_like.columns.structure import Structure
from pfrl_like.dataset.table import NO_ACTION, NO_OBS, NO_REWARD, Table
from pfrl_like.utils.env_values import space_kind

_CHUNK_ROWS = 1 << 16
_CHUNK_BYTES = 1 << 26


def statistics(table: Table, discrete: bool) -> dict[str, dict[str, Any]]:
    """Return the statistics of returns, rewards, continuous actions and array observations. Ignore unknown values."""
    returns = np.bincount(table.episode[1:], weights=table.reward, minlength=len(table.lengths))
    rewards = np.delete(table.previous_reward, table.starts[(table.made_up & NO_REWARD) > 0] - 1)
    result = {"return": _moments_of(returns)}
    if len(rewards):
        result["reward"] = _moments_of(rewards)
    if not discrete:
        result["action"] = _moments_of(table.action[known_rows(table, NO_ACTION) - 1])
    if table.is_array:
        rows = known_rows(table, NO_OBS)
        result["observation"] = moments(lambda: chunks(table, rows))
    return result


def known_rows(table: Table, bit: int) -> Indices:
    """Return the rows in which the value of a column is known, not a placeholder (see `Table.made_up`)."""
    return np.delete(np.arange(1, table.n_rows + 1), table.ends[(table.made_up & bit) > 0] - 1)


def chunks(table: Table, rows: Indices) -> Iterator[NDArray[Any]]:
    """Yield the array observations of some rows in chunks, to save memory."""
    row_bytes = int(np.prod(table.obs_shape)) * table.obs.leaves[0].dtype.itemsize
    size = max(1, min(_CHUNK_ROWS, _CHUNK_BYTES // max(1, row_bytes)))
    for start in range(0, len(rows), size):
        yield table.observations(rows[start : start + size])


def _moments_of(values: NDArray[Any]) -> dict[str, Any]:
    result = moments(lambda: [values])
    return {name: value if np.ndim(value) else float(value) for name, value in result.items()}


def moments(parts: Callable[[], Iterable[NDArray[Any]]]) -> dict[str, Any]:
    """Return mean, std, min and max over the rows of several arrays.

    Args:
        parts: Function that returns the arrays. The function is called twice.
    """
    sums_and_bounds = [(len(part), part.sum(0, dtype=np.float64), part.min(0), part.max(0)) for part in parts()]
    counts, sums, lows, highs = zip(*sums_and_bounds, strict=True)
    count = sum(counts)
    mean = sum(sums) / count
    squares = sum(np.square(part - mean).sum(0) for part in parts())
    return {"mean": mean, "std": np.sqrt(squares / count), "min": np.min(lows, 0), "max": np.max(highs, 0)}


_MAX_SHOWN = 5
_ASSUMED = (
    "reward_convention was not passed to MDPDataset, so rewards[t + 1] was read as the reward of actions[t] ({!r}); "
    "if rewards[t] is the reward of actions[t], pass reward_convention='same_row'"
)


class Finding(NamedTuple):
    """A possible problem in a dataset.

    Attributes:
        kind: "nan", "outside", "constant", "duplicate", "empty" or "convention".
        where: "observations", a leaf of nested observations such as "observations['image'][0]", "actions", "episodes"
            or "rewards".
        message: Description of the problem, with the first `places`.
        places: Indices at which the problem occurs, shape [k]. For "nan" and "outside", they are rows of the dataset's
            arrays, as in `dataset.actions[place]`. Arrays passed to `from_arrays` may have different row numbers. If a
            terminal state has no row, the row of the last step is reported. For "constant", they are dimensions of a
            column. For "duplicate" and "empty", they are episode numbers. For "convention", the array is empty.
        steps: For "nan" and "outside", the episode and the step in the episode of each place, counted from 0, shape [k,
            2], as in `dataset[episode].actions[step]`. Otherwise None.
    """

    kind: str
    where: str
    message: str
    places: NDArray[np.int64]
    steps: NDArray[np.int64] | None = None


def findings(table: Table, observation_space: Any, action_space: Any) -> list[Finding]:
    """Return the possible problems in a table, sorted by `Finding.kind`."""
    problems: list[Finding] = []
    actions = known_rows(table, NO_ACTION)
    for place, leaf, space in _parts(table.obs.structure, observation_space):
        problems += _observation_findings(table.of_leaf(leaf), place, space)
    known = table.action[actions - 1]
    if action_space is not None:
        outside = ~is_inside(action_space, known, "action_space")
        problems += _rows("outside", "actions", "lie outside the space", table, actions[outside])
    problems += _constant(moments(lambda: [known]), "actions")
    problems += _listed("empty", "episodes", "have no transitions", np.flatnonzero(table.lengths == 0))
    problems += _listed("duplicate", "episodes", "repeat earlier episodes", _duplicates(table))
    if table.declared is False:
        text = _ASSUMED.format(table.convention)
        problems += [Finding("convention", "rewards", text, np.zeros(0, np.int64))]
    return problems


def _parts(structure: Structure, space: Any, place: str = "") -> Iterator[tuple[str, int, Any]]:
    """Yield (path, leaf index, space) for each leaf of nested observations.

    Raises:
        ValueError: If the space has a different nesting.
    """
    if isinstance(structure, int):
        yield place, structure, space
        return
    kind, parts = ("dict", structure) if isinstance(structure, dict) else ("tuple", dict(enumerate(structure)))
    spaces = dict.fromkeys(parts)
    if space is not None:
        nested = space.spaces if space_kind(space) == kind else {}
        spaces = dict(nested if kind == "dict" else enumerate(nested))
        if spaces.keys() != parts.keys():
            expected = f"expected a {kind.title()} of {[*parts]}, like the observations"
            raise ValueError(f"observation_space{place}: got {space}, {expected}")
    for key, part in parts.items():
        yield from _parts(part, spaces[key], f"{place}[{key!r}]")


def _observation_findings(table: Table, place: str, space: Any) -> list[Finding]:
    """Return the findings about array observations, or about one leaf of nested observations."""
    where, name = f"observations{place}", f"observation_space{place}"
    if not table.is_array:
        if space is None:
            return []
        raise ValueError(f"{name}: got {space}, but {where} are not arrays; pass None")
    rows = known_rows(table, NO_OBS)
    problems = []
    if table.obs.leaves[0].dtype.kind == "f":
        finite = [np.isfinite(part).reshape(len(part), -1).all(1) for part in chunks(table, rows)]
        problems += _rows("nan", where, "contain NaN or infinity", table, rows[~np.concatenate(finite)])
    problems += _constant(moments(lambda: chunks(table, rows)), where)
    if space is not None:
        inside = [is_inside(space, part, name) for part in chunks(table, rows)]
        problems += _rows("outside", where, "lie outside the space", table, rows[~np.concatenate(inside)])
    return problems


def is_inside(space: Any, values: NDArray[Any], name: str) -> NDArray[np.bool_]:
    """Return True for each value that is inside a Box or Discrete space, shape [n].

    Args:
        space: The space.
        values: The values, shape [n, ...].
        name: Name of the space argument in error messages.

    Raises:
        ValueError: If the space is neither Box nor Discrete, or has a different shape than the values.
    """
    if hasattr(space, "n") and np.ndim(space.n) == 0:
        start = int(getattr(space, "start", 0))
        if values.ndim != 1:
            raise ValueError(f"{name}: got {space}, which is discrete, but the values have shape {values.shape}")
        return (values >= start) & (values < start + int(space.n))
    if not hasattr(space, "low") or tuple(space.shape) != values.shape[1:]:
        raise ValueError(f"{name}: got {space}, expected a Box of shape {values.shape[1:]}, or Discrete")
    return np.asarray(((values >= space.low) & (values <= space.high)).reshape(len(values), -1).all(1))


def _rows(kind: str, where: str, what: str, table: Table, rows: Indices) -> list[Finding]:
    steps = np.stack([table.episode[rows], table.position[rows]], axis=1)
    places = np.searchsorted(table.view.rows, rows, side="right") - 1
    place_texts = [
        f"{place} (episode {i}, step {t})"
        for place, (i, t) in zip(places[:_MAX_SHOWN].tolist(), steps[:_MAX_SHOWN].tolist(), strict=True)
    ]
    problems = _listed(kind, where, f"{what} in these rows of dataset.{where}", places, place_texts)
    return [finding._replace(steps=steps) for finding in problems]


def _constant(stats: dict[str, Any], where: str) -> list[Finding]:
    low, high = np.atleast_1d(stats["min"]), np.atleast_1d(stats["max"])
    # Images must be constant as a whole, because single pixels are constant in most datasets.
    same = low == high if low.ndim == 1 else np.atleast_1d((low == high).all())
    return _listed("constant", where, "have the same value in all rows, in these dimensions", np.flatnonzero(same))


def _duplicates(table: Table) -> Indices:
    tables = [table.of_leaf(leaf) for leaf in range(len(table.obs.leaves))]
    if not all(part.is_array for part in tables):
        return np.zeros(0, np.int64)
    digests: set[bytes] = set()
    duplicates = []
    for i, (start, length) in enumerate(zip(table.starts.tolist(), table.lengths.tolist(), strict=True)):
        rows = np.arange(start, start + length + 1)
        columns = [*(part.observations(rows) for part in tables), table.action[rows - 1], table.reward[rows - 1]]
        digest = hashlib.blake2b(b"".join(column.tobytes() for column in columns), digest_size=16).digest()
        if length and digest in digests:
            duplicates.append(i)
        digests.add(digest)
    return np.array(duplicates, np.int64)


def _listed(kind: str, where: str, what: str, places: Indices, place_texts: list[str] | None = None) -> list[Finding]:
    """Return a list with one finding, or [] if `places` is empty. The message contains the first places."""
    if not len(places):
        return []
    text = ", ".join(place_texts or map(str, places[:_MAX_SHOWN].tolist()))
    more = f" and {len(places) - _MAX_SHOWN} more" if len(places) > _MAX_SHOWN else ""
    return [Finding(kind, where, f"{where} {what}: {text}{more}", places)]
