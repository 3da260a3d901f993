"""The base class of algorithms that learn from transitions. Names of `algos` are found here, too."""

from typing import Any

from pfrl_like.d3rlpy.algos.qlearning.base import QLearningAlgoBase

__all__ = ["QLearningAlgoBase"]


def __getattr__(name: str) -> Any:
    """Return a name of `pfrl_like.d3rlpy.algos`: an algorithm, its config, or an explorer."""
    from pfrl_like.d3rlpy import algos  # which imports this package

    return getattr(algos, name)
