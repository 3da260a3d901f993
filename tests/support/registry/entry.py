"""An entry of the registry: an agent's class, its family, its parts, and what its arguments do."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from argument_effects import Arguments, Effect, changed
from gymnasium import spaces
from pair_base import Case, Noise, is_of_goals

Parts = Mapping[str, Iterable[Any]]
Table = Mapping[str, Effect]


@dataclasses.dataclass(frozen=True, eq=False)
class Family:
    """What agents that are made alike share.

    Attributes:
        arguments: The constructor's arguments of an agent that learns within a few steps, plain or recurrent.
        effects: What each of these arguments changes.
        obs_size: Length of the observations of that agent.
        make: Makes the agent of a case; persistent buffers lie in a folder.
        misfits: The arguments that do not fit the others of a case, beside those of `Entry.fits`.
        space: The actions of a case.
    """

    arguments: Callable[[Entry, bool], Arguments]
    effects: Table
    obs_size: int
    make: Callable[[Entry, Case, Path], Any] | None = None
    misfits: Callable[[Case], Iterator[str]] = lambda case: iter(())
    space: Callable[[Case], spaces.Space[Any]] | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Entry:
    """An agent.

    Attributes:
        kind: Its class.
        family: How it is made.
        parts: What each of its parts may be; nothing if it is not tried with all of them.
        further: Parts that are tried in few surroundings.
        fits: Which values of a part it takes, by the part's name; others are misfits.
        options: Further arguments of its constructor.
        effects: What those of its arguments change that are not as in its family.
    """

    kind: Any
    family: Family
    parts: Parts = dataclasses.field(default_factory=dict)
    further: Parts = dataclasses.field(default_factory=dict)
    fits: Mapping[str, Collection[Any]] = dataclasses.field(default_factory=dict)
    options: Arguments = dataclasses.field(default_factory=dict)
    effects: Table = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.kind.__name__)

    @property
    def every_effect(self) -> Table:
        """What each of its arguments changes."""
        return {**self.family.effects, **self.effects}

    def arguments(self, recurrent: bool = False, **given: Any) -> Arguments:
        """Arguments of an agent that learns within a few steps."""
        return changed(self.family.arguments(self, recurrent), **given)

    def cases(self, further: bool = False) -> Iterator[Case]:
        """Every combination of its parts, or of the further ones."""
        parts = self.further if further else self.parts
        for values in itertools.product(*parts.values()) if parts else ():
            yield {"agent": self.name, **dict(zip(parts, values, strict=True))}

    def every_case(self) -> Iterator[Case]:
        """Every combination of its parts, the further ones included."""
        yield from self.cases()
        yield from self.cases(further=True)

    def fitting(self) -> Iterator[Case]:
        """The combinations of its parts that should work."""
        return (case for case in self.cases() if not self.misfits(case))

    def misfits(self, case: Case) -> set[str]:
        """The arguments that do not fit the others of a case."""
        own = {part for part, values in self.fits.items() if case[part] not in values}
        return own | {*self.family.misfits(case)}

    def make(self, case: Case, folder: Path) -> Any:
        """The agent of a case."""
        assert self.family.make is not None
        return self.family.make(self, case, folder)

    def space(self, case: Case) -> spaces.Space[Any]:
        """The actions of a case."""
        assert self.family.space is not None
        return self.family.space(case)

    def env(self, case: Case) -> Noise:
        """An environment for the agent of a case."""
        return Noise(self.space(case), is_of_goals(case))
