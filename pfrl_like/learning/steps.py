"""Consecutive steps of one environment, until an asynchronous agent learns from them."""

import dataclasses
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.batch import Batch, concatenate_nested, map_nested
from pfrl_like.storage.plain_tensors import from_saved, to_saved


@dataclasses.dataclass
class Steps:
    """Steps of one episode that have not been learnt from yet.

    Attributes:
        recurrent_state: Of the model before the first of them; None without.
        obs: Features of each observation, tensors [1, ...] or nested dicts and tuples of such.
        raw_obs: The observations themselves, for methods of PFRL's that a subclass overrides.
        action: An action for each step.
        reward: A reward for each step.
        action_mask: What was allowed in each step, [n_actions]; None for everything.
    """

    recurrent_state: Any
    obs: list[Any] = dataclasses.field(default_factory=list)
    raw_obs: list[Any] = dataclasses.field(default_factory=list)
    action: list[Any] = dataclasses.field(default_factory=list)
    reward: list[float] = dataclasses.field(default_factory=list)
    action_mask: list[Any] = dataclasses.field(default_factory=list)

    def __len__(self) -> int:
        return len(self.reward)

    def append(self, obs: Any, raw_obs: Any, action: Any, reward: float, action_mask: Any) -> None:
        """Add a step."""
        self.obs.append(obs)
        self.raw_obs.append(raw_obs)
        self.action.append(action)
        self.reward.append(reward)
        self.action_mask.append(action_mask)

    def batch(self, last_obs: Any, last_mask: Any, gamma: float, done: bool) -> Batch:
        """The steps as one sequence.

        Args:
            last_obs: Features of the observation after the last step, tensors [1, ...].
            last_mask: What is allowed there, [n_actions]; None for everything.
            gamma: Discount factor per step.
            done: Whether it is terminal.
        """
        features = concatenate_nested([*self.obs, last_obs])
        masks = _stacked([*self.action_mask, last_mask])
        discount = torch.full((len(self),), gamma)
        if done:
            discount[-1] = 0.0
        return Batch(
            obs=map_nested(lambda leaf: leaf[:-1], features),
            action=torch.from_numpy(np.array(self.action)),
            reward=torch.tensor(self.reward),
            next_obs=map_nested(lambda leaf: leaf[1:], features),
            discount=discount,
            action_mask=None if masks is None else masks[:-1],
            next_action_mask=None if masks is None else masks[1:],
            recurrent_state=self.recurrent_state,
            lengths=torch.tensor([len(self)]),
        )

    def state_dict(self, with_raw_obs: bool = False) -> Any:
        """The steps as tensors, if asked for with the observations themselves; otherwise these become the features."""
        action, reward = torch.from_numpy(np.array(self.action)), torch.tensor(self.reward, dtype=torch.float64)
        features = concatenate_nested(self.obs)
        parts = [self.recurrent_state, features, action, reward, _stacked(self.action_mask)]
        if with_raw_obs:
            parts.append([map_nested(lambda leaf: torch.as_tensor(np.asarray(leaf)), obs) for obs in self.raw_obs])
        return to_saved(parts)

    @classmethod
    def of_state(cls, state: Any) -> "Steps":
        """The steps that `state_dict` was asked of.

        Raises:
            ValueError: If it is something else.
        """
        try:
            recurrent_state, obs, action, reward, masks, *raw_obs = from_saved(state, "cpu")
            rows = [slice(i, i + 1) for i in range(len(reward))]
            each_obs = [map_nested(lambda leaf: leaf[row], obs) for row in rows]  # noqa: B023 - called at once
            of_one = raw_obs[0] if raw_obs else [map_nested(lambda leaf: leaf[0], each) for each in each_obs]
            return cls(
                recurrent_state,
                each_obs,
                [map_nested(lambda leaf: leaf.numpy(), each) for each in of_one],
                list(action.numpy()),
                reward.tolist(),
                [None] * len(rows) if masks is None else list(masks.numpy()),
            )
        except (TypeError, AttributeError, IndexError, ValueError) as error:
            raise ValueError(f"the steps are {state!r:.100}, which does not fit: {error}") from error


def _stacked(masks: list[Any]) -> Tensor | None:
    """Masks as one, with everything allowed where there is none; None if there is none at all."""
    example = next((mask for mask in masks if mask is not None), None)
    if example is None:
        return None
    return torch.from_numpy(np.array([np.ones_like(example) if mask is None else mask for mask in masks], bool))
