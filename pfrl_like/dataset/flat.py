"""`Flat`, the arrays that files of datasets contain, and `Budget`, a limit on the memory that a file may use."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfrl_like.dataset.conventions import table_from_arrays
from pfrl_like.dataset.table import NEXT_ROW, SAME_ROW, Table, part
from pfrl_like.storage.atomic import BudgetError

FORMAT = "pfrl_like dataset"


#: Arrays that every file must have.
REQUIRED = ("observations", "actions", "rewards", "terminals")
ARRAYS = (
    *REQUIRED, "timeouts", "episode_terminals", "next_observations", "made_up", "discrete_action", "action_size",
    "log_probs",
)  # fmt: skip
#: Names under which files store the reward convention of their arrays, and the reward convention of the dataset.
CONVENTIONS = CONVENTION, SHOWN = "reward_convention", "shown_convention"
#: Upper limit on the number of discrete actions of a dataset.
MOST_ACTIONS = 1 << 24
#: A file may use `FLOOR` bytes in memory or, if this is more, `RATIO` times its own size.
FLOOR, RATIO = 1 << 26, 128


class Budget:
    """Limit on the memory that the content of a file may use in total.

    Args:
        size: Size of the file in bytes.
        max_bytes: The limit in bytes. If None, max(`RATIO` * size, `FLOOR`).
    """

    def __init__(self, size: int, max_bytes: int | None = None) -> None:
        self.left = max(FLOOR, RATIO * size) if max_bytes is None else max_bytes
        self.bound = "the limit for a file of this size" if max_bytes is None else f"the limit max_bytes={max_bytes}"

    def spend(self, size: int, what: str) -> None:
        """Subtract `size` bytes from the budget, before they are allocated.

        Raises:
            BudgetError: If fewer bytes are left.
        """
        if size > self.left:
            advice = "if you trust the file, pass a larger max_bytes"
            raise BudgetError(f"{what} needs {size} bytes, but {self.bound} leaves {self.left} bytes: {advice}")
        self.left -= size


class Flat(NamedTuple):
    """Content of a dataset file.

    Attributes:
        arrays: Arrays by name. Observations may be dicts and tuples of arrays.
        convention: Reward convention of the arrays. None if the file does not contain it.
        discrete: True if actions are indices. None if the file does not contain this information.
        action_size: Minimum number of discrete actions. 0 if the file does not contain it.
        dataset_convention: Reward convention of the dataset. It may differ from the convention of the arrays. None if
            the file does not contain it.
    """

    arrays: dict[str, Any]
    convention: str | None
    discrete: bool | None
    action_size: int = 0
    dataset_convention: str | None = None

    def conventions(self) -> dict[str, Any]:
        """Return the reward conventions of the file, by name."""
        of_dataset = {} if self.dataset_convention is None else {SHOWN: self.dataset_convention}
        return {CONVENTION: self.convention, **of_dataset}

    def numbers(self) -> dict[str, Any]:
        """Return the scalars that a file contains in addition to its arrays, by name."""
        size = {"action_size": self.action_size} if self.action_size else {}
        return {"discrete_action": bool(self.discrete)} | size


def flat_of(table: Table, discrete: bool, convention: str | None, action_size: int = 0) -> Flat:
    """Convert a table to arrays in a reward convention. If it is None, use the convention of the table.

    `NEXT_ROW` keeps all data. d3rlpy reads `SAME_ROW` from version 1.1 on. In `SAME_ROW`, the rows of an episode that
    ended in a terminal state are its steps. If it has no steps, the episode is dropped. A truncated episode has an
    additional last row with the observation after the last step.

    Raises:
        ValueError: If the convention is unknown, or if the result has no rows.
    """
    convention = table.convention if convention is None else convention
    view = table.in_convention(convention)
    if not len(view.rows):
        raise ValueError(f"reward_convention: {convention!r} stores transitions, but the dataset has no transitions")
    arrays = {
        "observations": table.observations(view.rows), "actions": part(table.action, view.rows),
        "rewards": view.reward, "terminals": view.terminal, "timeouts": view.timeout, "episode_terminals": view.last,
    }  # fmt: skip
    if table.log_prob is not None:
        arrays["log_probs"] = part(table.log_prob, view.rows)
    if convention == NEXT_ROW:
        arrays["made_up"] = table.made_up
    named = table.convention if table.declared else None
    return Flat(arrays, convention, discrete, action_size if discrete else 0, named)


def flat_from(arrays: dict[str, Any], convention: str | None, dataset_convention: str | None) -> Flat:
    """Convert the arrays of a file to a `Flat`. Arrays that contain a single number become attributes.

    Args:
        arrays: Arrays by name.
        convention: Reward convention of the arrays. None if the file does not contain it.
        dataset_convention: Reward convention of the dataset. It may differ from the convention of the arrays. None if
            the file does not contain it.

    Raises:
        ValueError: If the number of actions is invalid.
    """
    discrete, size = arrays.pop("discrete_action", None), arrays.pop("action_size", 0)
    if not np.shape(size) == () or not 0 <= size <= MOST_ACTIONS or int(size) != size:
        raise ValueError(f"action_size is {size!r:.80}, expected a number of actions")
    kind = None if discrete is None else bool(np.any(discrete))
    return Flat(arrays, convention, kind, int(size), dataset_convention)


def in_dataset_convention(table: Table, dataset_convention: str | None, convention: str) -> Table:
    """Return a table in the reward convention of the dataset.

    Args:
        table: Table from arrays in `convention`.
        dataset_convention: Reward convention of the dataset. If None, "next_row".
        convention: Reward convention of the arrays.

    Raises:
        ValueError: If `dataset_convention` is not a convention.
    """
    if dataset_convention is None:
        return table.declared_as(NEXT_ROW, True if convention == NEXT_ROW else None)
    return table.declared_as(dataset_convention)


def table_of(flat: Flat, reward_convention: str | None, discrete_action: bool | None) -> tuple[Table, bool, int]:
    """Convert the content of a file to a table. Also return True if actions are discrete, and their minimum number.

    Args:
        flat: Content of a file.
        reward_convention: Reward convention for files that do not contain it.
        discrete_action: True if actions are indices, for files that do not contain this information. If None, the dtype
            and the shape decide.

    Raises:
        ValueError: If the arrays are invalid, contradict the arguments, or have an unknown convention.
    """
    arrays = flat.arrays
    if missing := [name for name in REQUIRED if name not in arrays]:
        raise ValueError(f"has no {', '.join(missing)}; expected {', '.join(REQUIRED)}")
    convention = consistent_value("reward_convention", flat.convention, reward_convention)
    if convention is None:
        advice = "pass 'next_row' (d3rlpy before 1.1) or 'same_row' (D4RL) as reward_convention"
        raise ValueError(f"does not contain the reward convention: {advice}")
    discrete = consistent_value("discrete_action", flat.discrete, discrete_action)
    if discrete is None:
        discrete = looks_discrete(np.asarray(arrays["actions"]))
    table = table_from_arrays(
        arrays["observations"], arrays["actions"], arrays["rewards"], arrays["terminals"],
        _timeouts(arrays, convention),
        discrete_action=discrete, reward_convention=convention,
        next_observations=arrays.get("next_observations") if convention == SAME_ROW else None,
        log_probs=arrays.get("log_probs"),
    )  # fmt: skip
    if "made_up" in arrays:
        table = table.with_made_up(arrays["made_up"])
    return in_dataset_convention(table, flat.dataset_convention, convention), discrete, flat.action_size


def looks_discrete(actions: NDArray[Any]) -> bool:
    """True if actions may be indices, because each row contains a single integer."""
    return actions.dtype.kind in "iu" and actions.size == len(actions)


def _timeouts(arrays: Mapping[str, Any], convention: str) -> Any:
    """Return flags of the rows in which episodes were truncated. None if unknown.

    If a step is marked as both terminal and truncated, as in D4RL at the time limit, it is treated as terminal.
    """
    name = "timeouts" if "timeouts" in arrays else "episode_terminals"
    if name not in arrays or (name == "timeouts" and convention != SAME_ROW):
        return arrays.get("timeouts")
    ended, terminal = (np.asarray(arrays[each]).reshape(-1) for each in (name, "terminals"))
    if ended.shape != terminal.shape:
        raise ValueError(f"{name}: got shape {ended.shape}, expected {terminal.shape} like terminals")
    return np.where(terminal != 0, False, ended) if name == "timeouts" else (ended != 0) & (terminal == 0)


def consistent_value(name: str, stored: Any, argument: Any) -> Any:
    """Return `stored`, the value in the data, or, if it is None, the argument.

    Raises:
        ValueError: If the data and the argument contradict each other.
    """
    if stored is not None and argument is not None and stored != argument:
        raise ValueError(f"{name}: got {argument!r}, but the data contain {stored!r}")
    return argument if stored is None else stored
