"""Consecutive steps of one environment, until an asynchronous agent learns from them."""

import dataclasses
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.batch import Batch, concatenate_nested, map_nested
from pfrl_like.utils.tensors_as_json import from_text, to_text


@dataclasses.dataclass
class Steps:
    """Steps of one episode that have not been learnt from yet.

    Attributes:
        recurrent_state: Of the model before the first of them; None without.
        obs: Features of each observation, tensors [1, ...] or nested dicts and tuples of such.
        action: An action for each step.
        reward: A reward for each step.
        action_mask: What was allowed in each step, [n_actions]; None for everything.
    """

    recurrent_state: Any
    obs: list[Any] = dataclasses.field(default_factory=list)
    action: list[Any] = dataclasses.field(default_factory=list)
    reward: list[float] = dataclasses.field(default_factory=list)
    action_mask: list[Any] = dataclasses.field(default_factory=list)

    def __len__(self) -> int:
        return len(self.reward)

    def append(self, obs: Any, action: Any, reward: float, action_mask: Any) -> None:
        """Add a step."""
        self.obs.append(obs)
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

    def state_dict(self) -> Any:
        """The steps, for JSON."""
        action, reward = torch.from_numpy(np.array(self.action)), torch.tensor(self.reward, dtype=torch.float64)
        return to_text((self.recurrent_state, concatenate_nested(self.obs), action, reward, _stacked(self.action_mask)))

    @classmethod
    def of_state(cls, state: Any) -> "Steps":
        """The steps that `state_dict` was asked of.

        Raises:
            ValueError: If it is something else.
        """
        try:
            recurrent_state, obs, action, reward, masks = from_text(state, "cpu")
            rows = [slice(i, i + 1) for i in range(len(reward))]
            return cls(
                recurrent_state,
                [map_nested(lambda leaf: leaf[row], obs) for row in rows],  # noqa: B023 - called at once
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
