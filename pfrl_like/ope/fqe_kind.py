"""Whether fitted Q evaluation is of discrete or of continuous actions."""

import contextlib
from collections.abc import Iterator
from typing import Any

from pfrl_like.algos.fitting.spaces import ActionSpace as ActionSpace


class KnowingFQE:
    """What is known of the kind of actions: from the beginning, or from what comes first."""

    discrete_action: bool | None
    config: Any

    def get_action_type(self) -> ActionSpace:
        """The kind of actions; continuous ones as long as it is not known."""
        return ActionSpace.DISCRETE if self.discrete_action else ActionSpace.CONTINUOUS

    def take_kind(self, discrete_action: bool | None) -> None:
        """Have actions of a kind, unless they are of one already; None tells nothing.

        Raises:
            ValueError: If the configuration does not fit it.
        """
        if self.discrete_action is None and discrete_action is not None:
            self.config.check(discrete_action)
            self.discrete_action = discrete_action

    @contextlib.contextmanager
    def taking_kind(self, discrete_action: bool) -> Iterator[None]:
        """`take_kind`, after which a block builds; if that fails the kind is as little known as before."""
        before = self.discrete_action
        self.take_kind(discrete_action)
        try:
            yield
        except BaseException:
            self.discrete_action = before
            raise


def kind_told_by(*algos: Any) -> bool | None:
    """Whether the actions of the first agent or estimator that says so are discrete; None if there is none."""
    for algo in algos:
        if (kind := getattr(algo, "action_kind", None)) is not None:
            return bool(kind[0] == "discrete")
        if (discrete := getattr(algo, "discrete_action", None)) is not None:
            return bool(discrete)
    return None
