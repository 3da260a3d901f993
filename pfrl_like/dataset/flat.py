"""A dataset as named arrays of n rows each, which is what its files hold, and the memory that a file may take."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfrl_like.dataset.conventions import table_from_arrays
from pfrl_like.dataset.table import NEXT_ROW, SAME_ROW, Table, part
from pfrl_like.storage.atomic import BudgetError

FORMAT = "pfrl_like dataset"


#: The arrays that every file has, and all that it may have.
REQUIRED = ("observations", "actions", "rewards", "terminals")
ARRAYS = (
    *REQUIRED, "timeouts", "episode_terminals", "next_observations", "made_up", "discrete_action", "action_size",
    "log_probs",
)  # fmt: skip
#: Names by which files and frames tell the reward conventions of their arrays and of the dataset.
CONVENTIONS = CONVENTION, SHOWN = "reward_convention", "shown_convention"
#: More discrete actions than any network has.
MOST_ACTIONS = 1 << 24
#: What even the smallest file may ask for, and how many times its size a large one may.
FLOOR, RATIO = 1 << 26, 128


class Budget:
    """Memory that what a file holds may take in all.

    Args:
        size: Bytes of the file.
        max_bytes: The most; None is `RATIO` times the size, and `FLOOR` at least.
    """

    def __init__(self, size: int, max_bytes: int | None = None) -> None:
        self.left = max(FLOOR, RATIO * size) if max_bytes is None else max_bytes
        self.bound = "a file of this size" if max_bytes is None else f"by max_bytes={max_bytes} it"

    def spend(self, size: int, what: str) -> None:
        """Count what is about to be taken.

        Raises:
            BudgetError: If it is more than is left; say `max_bytes` to allow it.
        """
        if size > self.left:
            raise BudgetError(
                f"{what} announces {size} bytes, and {self.bound} may take {self.left} more; if it is to be trusted, "
                "allow them by max_bytes"
            )
        self.left -= size


class Flat(NamedTuple):
    """What a file says.

    Attributes:
        arrays: By name; observations may be dicts and tuples of arrays.
        convention: Its reward convention, None if it does not say.
        discrete: Whether actions are indices, None if it does not say.
        action_size: How many discrete actions there are at least, 0 if it does not say.
        shown: The reward convention of the dataset, which need not be that of the arrays; None if it does not say.
    """

    arrays: dict[str, Any]
    convention: str | None
    discrete: bool | None
    action_size: int = 0
    shown: str | None = None

    def conventions(self) -> dict[str, Any]:
        """The reward conventions that it tells, by name."""
        return {CONVENTION: self.convention} | ({} if self.shown is None else {SHOWN: self.shown})

    def numbers(self) -> dict[str, Any]:
        """What a file says beside its arrays, as `flat_from` reads it."""
        size = {"action_size": self.action_size} if self.action_size else {}
        return {"discrete_action": bool(self.discrete)} | size


def flat_of(table: Table, discrete: bool, convention: str | None, action_size: int = 0) -> Flat:
    """A table as arrays, in its own convention if that is None.

    With `NEXT_ROW` nothing is lost. With `SAME_ROW`, which d3rlpy reads from version 1.0 on, an episode that ended in
    a terminal state is its steps, so that one without a step is left out; one that was cut off has a last row, with
    the observation after the last step.

    Raises:
        ValueError: On another convention, or one in which nothing is left.
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
    """What the arrays of a file say; those that are one number are taken out.

    Args:
        arrays: By name.
        convention: As of `Flat`.
        shown: As of `Flat`.

    Raises:
        ValueError: If the number of actions cannot be right.
    """
    discrete, size = arrays.pop("discrete_action", None), arrays.pop("action_size", 0)
    if not np.shape(size) == () or not 0 <= size <= MOST_ACTIONS or int(size) != size:
        raise ValueError(f"action_size is {size!r:.80}, expected a number of actions")
    kind = None if discrete is None else bool(np.any(discrete))
    return Flat(arrays, convention, kind, int(size), shown)


def shown_as(table: Table, shown: str | None, convention: str) -> Table:
    """A table that was read in one convention, shown in the one that its source says, else in the documented one.

    Raises:
        ValueError: If `shown` is no convention.
    """
    if shown is None:
        return table.declared_as(NEXT_ROW, True if convention == NEXT_ROW else None)
    return table.declared_as(shown)


def table_of(flat: Flat, reward_convention: str | None, discrete_action: bool | None) -> tuple[Table, bool, int]:
    """The table that arrays describe, whether its actions are discrete, and how many there are at least.

    Args:
        flat: What a file says.
        reward_convention: For those that do not say.
        discrete_action: The same; None decides by their dtype and shape.

    Raises:
        ValueError: If the arrays cannot be right, contradict the arguments, or leave the convention open.
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
    """Whether actions of unknown kind are indices: integers, one in a row."""
    return actions.dtype.kind in "iu" and actions.size == len(actions)


def _timeouts(arrays: Mapping[str, Any], convention: str) -> Any:
    """Where episodes were cut off. D4RL sets both flags of a terminal step at the time limit, which is terminal."""
    name = "timeouts" if "timeouts" in arrays else "episode_terminals"
    if name not in arrays or (name == "timeouts" and convention != SAME_ROW):
        return arrays.get("timeouts")
    ended, terminal = (np.asarray(arrays[each]).reshape(-1) for each in (name, "terminals"))
    if ended.shape != terminal.shape:
        raise ValueError(f"{name}: got shape {ended.shape}, expected {terminal.shape} as of terminals")
    return np.where(terminal != 0, False, ended) if name == "timeouts" else (ended != 0) & (terminal == 0)


def agreed(name: str, told: Any, given: Any) -> Any:
    """What data say of themselves or an argument says of them, None if neither does.

    Raises:
        ValueError: If they contradict each other.
    """
    if told is not None and given is not None and told != given:
        raise ValueError(f"{name}: got {given!r}, but the data say {told!r}")
    return given if told is None else told
