"""What estimators see and do: the shapes of observations, and the kind and size of actions."""

import enum
from typing import Any, ClassVar

from pfrl_like.algos.fitting.shapes import check_built_for
from pfrl_like.dataset.transition import stacked_shape
from pfrl_like.errors import NotFittedError


class ActionSpace(enum.Enum):
    """The kinds of actions."""

    CONTINUOUS = 1
    DISCRETE = 2


class Spaces:
    """What an estimator is built for.

    Attributes:
        observation_shape_: Shape of one observation, before frames are stacked.
        action_size_: Numbers of an action, or how many discrete actions there are.
    """

    #: Whether actions are indices.
    discrete_action: ClassVar[bool] = False

    n_frames: int
    observation_shape_: tuple[int, ...] | None = None
    action_size_: int | None = None

    @property
    def observation_shape(self) -> tuple[int, ...] | None:
        """`observation_shape_`, None before the agent is built."""
        return self.observation_shape_

    @property
    def action_size(self) -> int | None:
        """`action_size_`, None before the agent is built."""
        return self.action_size_

    def get_action_type(self) -> ActionSpace:
        """The kind of actions, an `ope.ActionSpace`."""
        return ActionSpace.DISCRETE if self.discrete_action else ActionSpace.CONTINUOUS

    @property
    def _stacked_shape(self) -> tuple[int, ...]:
        """Shape of what the networks take."""
        if self.observation_shape_ is None:
            raise NotFittedError(f"{type(self).__name__} does not know the shape of observations: call create_impl")
        return stacked_shape(self.observation_shape_, self.n_frames)

    def check_shapes(self, observation_shape: Any, action_size: int) -> None:
        """Refuse data of other shapes than those that the agent was built for.

        Raises:
            ValueError: If they differ; fewer discrete actions may occur than there are.
        """
        check_built_for(self, self.observation_shape_, self.action_size_, observation_shape, action_size)
