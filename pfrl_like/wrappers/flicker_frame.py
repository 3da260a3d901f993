"""Screens that are dark half of the time."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.wrappers.wrapper import Wrapper, random_stream


class FlickerFrame(Wrapper):
    """Replace each observation by zeros with probability 0.5, drawn from the environment's own stream `np_random`.

    It makes a game partially observable (Hausknecht and Stone 2015, arXiv:1507.06527), for agents with a memory.

    Args:
        env: Environment with arrays as observations.
    """

    def observation(self, observation: Any) -> NDArray[Any]:
        """The observation or zeros."""
        observation = np.asarray(observation)
        return np.zeros_like(observation) if random_stream(self.env).random() < 0.5 else observation
