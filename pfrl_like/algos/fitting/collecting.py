"""How steps are collected by an algorithm that does not learn from them on the way.

It acts on stacked frames; single ones are stored, which are stacked when they are drawn.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from pfrl_like.learning.compatibility.declarations import check_explorer
from pfrl_like.metrics.environment import LastFrames
from pfrl_like.utils.action_masks import Allowed, mask_columns, required_keyword, sample_allowed


class Collector:
    """What meets an environment in the place of an agent: it acts and stores. A subclass says how the algorithm acts.

    Args:
        algo: The algorithm, with `n_frames` and `discrete_action`.
        buffer: Where the steps are stored.
        explorer: One of `pfrl_like.explorers` or of `pfrl_like.online.explorers`, or anything with
            `sample(algo, observation, step)`, which needs the keyword `action_mask` where actions are masked; None
            leaves the actions to the algorithm.
        action_space: Where the first actions are drawn from.
        random_steps: Steps with such actions.

    Raises:
        TypeError: If the explorer is none, or made for other actions.
    """

    def __init__(self, algo: Any, buffer: Any, explorer: Any, action_space: Any, random_steps: int = 0) -> None:
        self.algo, self.buffer = algo, buffer
        self.action_space, self.random_steps = action_space, random_steps
        of_space = getattr(explorer, "for_actions", None)
        explorer = explorer if of_space is None else of_space(action_space)
        selects = hasattr(explorer, "select_action")
        if explorer is not None and not selects and not hasattr(explorer, "sample"):
            raise TypeError(f"explorer is {explorer!r:.80}, expected one of pfrl_like.explorers or online.explorers")
        check_explorer(explorer, "discrete" if algo.discrete_action else "continuous", type(algo).__name__)
        self.explorer: Any = explorer if selects else None
        self.sampler: Any = None if selects else explorer
        self.steps = 0
        self._action: Any = None
        self._mask: Any = None
        self._begin()

    def _begin(self) -> None:
        self._frames = LastFrames(self.algo.n_frames)
        self._obs: Any = None  # the last one, as the environment gave it, if an episode goes on
        self._stack: Any = None  # the same with the frames before it

    def _push(self, obs: Any) -> None:
        self._obs, self._stack = obs, self._frames.push(obs)

    def explored(self, own: Callable[..., Any], obs: Any, action_mask: Any, step: int) -> Any:
        """An action that an algorithm predicts or draws, or of the explorer that is asked with it.

        Args:
            own: `predict` or `sample_action` of the algorithm.
            obs: One observation, frames stacked.
            action_mask: As of `choose`.
            step: Number of the step, as the explorer is told it.
        """

        def predicted() -> Any:
            action = own(np.asarray(obs)[None], **required_keyword(own, action_mask))[0]
            return action.item() if np.ndim(action) == 0 else action

        told = None if action_mask is None else Allowed([action_mask])
        return predicted() if self.explorer is None else self.explorer.select_action(step, predicted, told)

    def choose(self, obs: Any, action_mask: Any) -> Any:
        """The action of the algorithm, or of the explorer that is asked with it.

        Args:
            obs: One observation, frames stacked.
            action_mask: True where an action is allowed, [n_actions]; None for everywhere.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say how to act")

    def act(self, obs: Any, *, action_mask: Any = None) -> Any:
        """The action in the environment's newest observation."""
        if self._obs is None:
            self._push(obs)
        if self.steps < self.random_steps:
            self._action = sample_allowed(self.action_space, action_mask)
        elif self.sampler is not None:
            told = required_keyword(self.sampler.sample, action_mask)
            self._action = self.sampler.sample(self.algo, self._stack, self.steps, **told)
        else:
            self._action = self.choose(self._stack, action_mask)
        self._mask = action_mask
        return self._action

    def observe(self, obs: Any, reward: float, done: bool, reset: bool, *, action_mask: Any = None) -> None:
        """Store the step."""
        self.steps += 1
        before = self._obs
        self._push(obs)
        masks = {name: [mask] for name, mask in mask_columns(self._mask, action_mask, obs).items()}
        self.buffer.append_batch([before], [self._action], [reward], [obs], [done], [reset], **masks)
        if done or reset:
            self._begin()

    def stop_episode(self) -> None:
        """Begin with a new episode."""
        self.buffer.stop_current_episode()
        self._begin()
