"""What scorers are given by mistake, refused with the way out."""

from collections.abc import Iterable
from typing import Any


def check_scored(algo: Any) -> None:
    """Refuse what predicts nothing, such as an agent, in the place of what a scorer scores.

    Raises:
        TypeError: Naming what came, and what scores agents.
    """
    if not hasattr(algo, "predict"):
        raise TypeError(
            f"a scorer was given a {type(algo).__name__}, expected an algorithm or a dynamics model, which has "
            "predict; agents are scored by experiments.eval_performance and ope.evaluate_offline"
        )


def check_makes(call: str, given: Any) -> None:
    """Refuse episodes where a function that makes scorers expects a number: it was itself taken for a scorer.

    Args:
        call: How it is called, such as "evaluate_on_environment(env)".
        given: What came in the place of the number.

    Raises:
        TypeError: If it is None, as where there are no episodes, or holds others.
    """
    if given is None or (isinstance(given, Iterable) and not isinstance(given, str)):
        name = call.partition("(")[0]
        raise TypeError(f"{name} was called as if it were a scorer, but it makes one: give {call} in its place")
