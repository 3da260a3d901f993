"""The steps of one update on several losses: if one of them is refused, the error says which were made."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from pfrl_like.errors import NonFiniteError
from pfrl_like.optimizers.gradient_step import GradientStep


class StepsOfUpdate:
    """Descends on one loss after the other.

    Args:
        gradient_steps: By the name of the optimiser.

    Raises:
        ValueError: When called with a name that none of them has.
        NonFiniteError: When called with a loss that a `GradientStep` refuses; of several optimisers it says which one
            made no step, and which ones had made theirs. A GPU skips all steps after a bad one, and tells later.
    """

    def __init__(self, gradient_steps: Mapping[str, GradientStep]) -> None:
        self.gradient_steps = gradient_steps
        self.made: list[str] = []  # names of the optimisers, in order
        #: On a GPU 1 if one of the steps so far was skipped there and else 0; None on a CPU.
        self.refused: Tensor | None = None

    def __call__(self, optimizer: str, loss: Tensor) -> None:
        step = self.gradient_steps.get(optimizer)
        if step is None:
            raise ValueError(f"optimizer is {optimizer!r}, expected one of {', '.join(self.gradient_steps)}")
        try:
            step(loss, self.refused)
        except NonFiniteError as error:
            if len(self.gradient_steps) == 1:
                raise
            # On a GPU it is not this step alone, and it is not known what was made.
            others = "" if step.on_gpu else others_were(self.made)
            raise NonFiniteError(error.name, f"{optimizer}: {error}{others}", skipped=error.skipped) from None
        self.made.append(optimizer)
        self.refused = step.refused


def others_were(made: Sequence[str]) -> str:
    """What is said, after a step that was not made, of the steps before it."""
    return f"; those of {' and '.join(made)} before it were" if made else ", nor was any other"
