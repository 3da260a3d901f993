"""Datasets as named arrays of n rows each, which files store, and a limit on the memory that a file may take."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfrl_like.dataset.conventions import table_from_arrays
from pfrl_like.dataset.table import NEXT_ROW, SAME_ROW, Table, part
from pfrl_like.storage.atomic import BudgetError

FORMAT = "pfrl_like dataset"


#: Arrays that every file has, and all arrays that a file may have.
REQUIRED = ("observations", "actions", "rewards", "terminals")
ARRAYS = (
    *REQUIRED, "timeouts", "episode_terminals", "next_observations", "made_up", "discrete_action", "action_size",
    "log_probs",
)  # fmt: skip
#: Names under which files and frames store the reward conventions of their arrays and of the dataset.
CONVENTIONS = CONVENTION, SHOWN = "reward_convention", "shown_convention"
#: Limit on the number of discrete actions, larger than in any network.
MOST_ACTIONS = 1 << 24
#: Bytes that every file may take in memory, and the factor by which a large file may exceed its size.
FLOOR, RATIO = 1 << 26, 128


class Budget:
    """Limit on the memory that the content of a file may take in total.

    Args:
        size: Bytes of the file.
        max_bytes: The limit; None is `RATIO` times the size, and at least `FLOOR`.
    """

    def __init__(self, size: int, max_bytes: int | None = None) -> None:
        self.left = max(FLOOR, RATIO * size) if max_bytes is None else max_bytes
        self.bound = "a file of this size" if max_bytes is None else f"by max_bytes={max_bytes} it"

    def spend(self, size: int, what: str) -> None:
        """Reduce the budget by `size` bytes, before they are allocated.

        Raises:
            BudgetError: If fewer bytes are left; a larger `max_bytes` allows it.
        """
        if size > self.left:
            raise BudgetError(
                f"{what} announces {size} bytes, and {self.bound} may take {self.left} more; if it is to be trusted, "
                "allow them by max_bytes"
            )
        self.left -= size


class Flat(NamedTuple):
    """Content of a dataset file.

    Attributes:
        arrays: Arrays by name; observations may be dicts and tuples of arrays.
        convention: Reward convention of the arrays, None if the file does not name it.
        discrete: Whether actions are indices, None if the file does not say.
        action_size: Least number of discrete actions, 0 if the file does not say.
        shown: Reward convention of the dataset, which may differ from that of the arrays; None if the file does not
            name it.
    """

    arrays: dict[str, Any]
    convention: str | None
    discrete: bool | None
    action_size: int = 0
    shown: str | None = None

    def conventions(self) -> dict[str, Any]:
        """Reward conventions of the file, by name."""
        return {CONVENTION: self.convention} | ({} if self.shown is None else {SHOWN: self.shown})

    def numbers(self) -> dict[str, Any]:
        """Scalars that a file stores beside its arrays, in the form that `flat_from` reads."""
        size = {"action_size": self.action_size} if self.action_size else {}
        return {"discrete_action": bool(self.discrete)} | size


def flat_of(table: Table, discrete: bool, convention: str | None, action_size: int = 0) -> Flat:
    """Arrays of a table in a reward convention; None is the table's own.

    With `NEXT_ROW` nothing is lost. With `SAME_ROW`, which d3rlpy reads from version 1.0 on, an episode that ended in a
    terminal state consists of its steps; one without a step is left out. An episode that was cut off has an additional
    last row with the observation after the last step.

    Raises:
        ValueError: On another convention, or if no rows remain in it.
    """
    convention = table.convention if convention is None else convention
    shown = table.in_convention(convention)
    if not len(shown.rows):
        raise ValueError(f"reward_convention: {convention!r} has rows for transitions, but the dataset has none")
    arrays = {
        "observations": table.observations(shown.rows),
        "actions": part(table.action, shown.rows),
        "rewards": shown.reward,
        "terminals": shown.terminal,
        "timeouts": shown.timeout,
        "episode_terminals": shown.last,
    }
    if table.log_prob is not None:
        arrays["log_probs"] = part(table.log_prob, shown.rows)
    if convention == NEXT_ROW:
        arrays["made_up"] = table.made_up
    named = table.convention if table.declared else None
    return Flat(arrays, convention, discrete, action_size if discrete else 0, named)


def flat_from(arrays: dict[str, Any], convention: str | None, shown: str | None) -> Flat:
    """Content of a file from its arrays; arrays that hold a single number become attributes.

    Args:
        arrays: Arrays by name.
        convention: Reward convention of the arrays, None if the file does not name it.
        shown: Reward convention of the dataset, which may differ from that of the arrays; None if the file does not
            name it.

    Raises:
        ValueError: If the number of actions is invalid.
    """
    discrete, size = arrays.pop("discrete_action", None), arrays.pop("action_size", 0)
    if not np.shape(size) == () or not 0 <= size <= MOST_ACTIONS or int(size) != size:
        raise ValueError(f"action_size is {size!r:.80}, expected a number of actions")
    kind = None if discrete is None else bool(np.any(discrete))
    return Flat(arrays, convention, kind, int(size), shown)


def shown_as(table: Table, shown: str | None, convention: str) -> Table:
    """Table read in one convention and shown in another: the one that its source names, else the documented one.

    Raises:
        ValueError: If `shown` is no convention.
    """
    if shown is None:
        return table.declared_as(NEXT_ROW, True if convention == NEXT_ROW else None)
    return table.declared_as(shown)


def table_of(flat: Flat, reward_convention: str | None, discrete_action: bool | None) -> tuple[Table, bool, int]:
    """Table of a file's arrays, whether its actions are discrete, and their least number.

    Args:
        flat: Content of a file.
        reward_convention: Reward convention for files that do not name theirs.
        discrete_action: Whether actions are indices, for files that do not say; None decides by their dtype and shape.

    Raises:
        ValueError: If the arrays are invalid, contradict the arguments, or leave the convention open.
    """
    arrays = flat.arrays
    if lacking := [name for name in REQUIRED if name not in arrays]:
        raise ValueError(f"lacks {', '.join(lacking)}; expected {', '.join(REQUIRED)}")
    convention = agreed("reward_convention", flat.convention, reward_convention)
    if convention is None:
        raise ValueError(
            "does not say which reward belongs to which action: say reward_convention='next_row' (rewards[t + 1] pays "
            "actions[t], as in d3rlpy before 1.0) or reward_convention='same_row' (as in D4RL)"
        )
    discrete = agreed("discrete_action", flat.discrete, discrete_action)
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
    return shown_as(table, flat.shown, convention), discrete, flat.action_size


def looks_discrete(actions: NDArray[Any]) -> bool:
    """True if actions of unknown kind are indices: integers, one in a row."""
    return actions.dtype.kind in "iu" and actions.size == len(actions)


def _timeouts(arrays: Mapping[str, Any], convention: str) -> Any:
    """Flags of the rows in which episodes were cut off, None if unknown.

    D4RL sets both flags of a terminal step at the time limit; such a step counts as terminal.
    """
    name = "timeouts" if "timeouts" in arrays else "episode_terminals"
    if name not in arrays or (name == "timeouts" and convention != SAME_ROW):
        return arrays.get("timeouts")
    ended, terminal = (np.asarray(arrays[each]).reshape(-1) for each in (name, "terminals"))
    if ended.shape != terminal.shape:
        raise ValueError(f"{name}: got shape {ended.shape}, expected {terminal.shape} as of terminals")
    return np.where(terminal != 0, False, ended) if name == "timeouts" else (ended != 0) & (terminal == 0)


def agreed(name: str, told: Any, given: Any) -> Any:
    """Value that the data or an argument gives, None if neither does.

    Raises:
        ValueError: If they contradict each other.
    """
    if told is not None and given is not None and told != given:
        raise ValueError(f"{name}: got {given!r}, but the data say {told!r}")
    return given if told is None else told
