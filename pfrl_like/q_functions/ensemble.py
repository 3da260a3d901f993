"""Several Q-functions as one module."""

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor, nn

from pfrl_like.action_value import DiscreteActionValue, EnsembleActionValue
from pfrl_like.utils.contexts import ignores_training
from pfrl_like.utils.declared import declares_input_of
from pfrl_like.utils.direct_call import call


@declares_input_of("first")
@ignores_training
class QFunctionEnsemble(nn.Module):
    """Q-functions of one form that learn together, with one optimiser; they may share layers.

    An agent of DQN's family takes it as its Q-function, an actor-critic in the place of its critics, whose number is
    then that of the members.

    Args:
        members: Q-functions of the state that give a `DiscreteActionValue`, or critics of observation and action.
        bootstrap: Whether each learns from random rows only, so that their values differ where little is known.
        pool: "mean" or "least": what counts as the value of all where a single number is asked for, such as by a
            greedy choice. Targets are made of the least in any case.

    Raises:
        ValueError: If there is no member, or on another `pool`.
    """

    def __init__(self, members: Iterable[nn.Module], bootstrap: bool = False, pool: str = "mean") -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        if not len(self.members):
            raise ValueError("members is empty, expected at least one Q-function")
        if pool not in ("mean", "least"):
            raise ValueError(f"pool is {pool!r}, expected 'mean' or 'least'")
        self.bootstrap, self.pool = bootstrap, pool

    @property
    def first(self) -> nn.Module:
        """The first member."""
        return self.members[0]

    def forward(self, x: Any) -> EnsembleActionValue:
        """What all say of B states, or of B pairs."""
        given = [call(member, x) for member in self.members]
        values = [DiscreteActionValue(each) if isinstance(each, Tensor) else each for each in given]
        return EnsembleActionValue(values, self.bootstrap, self.pool)


def members_of(q_function: Any) -> Iterable[Any]:
    """The members of an ensemble; of another Q-function itself."""
    return q_function.members if isinstance(q_function, QFunctionEnsemble) else (q_function,)


def members_by_name(q_functions: Mapping[str, Any]) -> dict[str, Any]:
    """The members of all, under their Q-function's name with numbers from 1; those of no ensemble under their own."""
    found: dict[str, Any] = {}
    for name, q_function in q_functions.items():
        is_one = not isinstance(q_function, QFunctionEnsemble)
        stem = name.rstrip("0123456789")
        found |= {name if is_one else f"{stem}{i}": each for i, each in enumerate(members_of(q_function), 1)}
    return found
