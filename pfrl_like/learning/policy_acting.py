"""How an agent with a policy chooses actions: a sample, or the mode, and an explorer on top where there is one."""

import contextlib
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from pfrl_like.batch import first_leaf
from pfrl_like.distributions import masked, mode_of, rows_of
from pfrl_like.explorer import select_actions
from pfrl_like.functions.action_masks import as_action_mask
from pfrl_like.learning.acting import ActingMixin
from pfrl_like.nn.empirical_normalization import holding_still
from pfrl_like.utils.action_masks import Allowed, required_keyword
from pfrl_like.utils.contexts import evaluating_readers


class PolicyActingMixin(ActingMixin):
    """`ActingMixin` for agents whose `policy` gives distributions of actions.

    In training the action is a sample, which an explorer may change; in evaluation it is the mode, or another sample
    if the agent does not `act_deterministically`.
    """

    acting_attributes: tuple[str, ...] = ("policy",)
    acting_argument = "policy"
    value_type: type[Any] = Distribution

    #: In evaluation choose the mode of the distribution instead of a sample.
    act_deterministically: bool = True
    policy: Any
    #: Asked in training, after the policy; None takes the sample as it is.
    explorer: Any = None
    #: Chooses in training, in place of the policy, while the agent is `burning_in`.
    burnin_action_func: Callable[..., Any] | None = None

    #: Mask and active environments of a choice that an overridden method makes.
    hooked_choice: tuple[Any, Any] = (None, None)

    @property
    def burning_in(self) -> bool:
        """Whether nothing has been learnt yet."""
        return False

    def select_actions(self, obs: Any, action_mask: Any, active: Any) -> Any:
        """Actions for a batch of features, array [k, ...]; environments that are not active cost no draw."""
        if self.act_deterministically and not self.training:
            return self.greedy_actions(obs, action_mask, active)[0].cpu().numpy()
        burning_in = self.training and self.burnin_action_func is not None and self.burning_in
        if burning_in and self.memory is None:
            return self.burnin_actions(len(first_leaf(obs)), action_mask, active)
        distribution = self._distribution(obs, action_mask, active)  # brings a recurrent policy's memory up to date
        if burning_in:
            return self.burnin_actions(len(first_leaf(obs)), action_mask, active)
        actions = sample_of(distribution, active).cpu().numpy()
        if self.explorer is None or not self.training:
            return actions
        return select_actions(self.explorer, self.t, actions, _told(action_mask, actions), active)

    def explored(self, actions: Any, action_mask: Any, active: Any) -> Any:
        """The policy's actions after the explorer, array [k, ...]."""
        return select_actions(self.explorer, self.t, actions, _told(action_mask, actions), active)

    def greedy_actions(self, obs: Any, action_mask: Any = None, active: Any = None) -> tuple[Tensor, Any]:
        """The modes of the policy for a batch of features, [k, ...], and its distributions."""
        distribution = self._distribution(obs, action_mask, active)
        return mode_of(distribution), distribution

    def actions_of_policy(self, batch_obs: Any, deterministic: bool) -> Any:
        """The policy's actions for raw observations, array [k, ...]: the own body of PFRL's methods for it.

        Args:
            batch_obs: k observations.
            deterministic: Take the mode of each distribution, not a sample.
        """
        action_mask, active = self.hooked_choice
        still = contextlib.nullcontext() if self.training else holding_still(self.policy)
        with torch.inference_mode(), evaluating_readers(self.policy), still:
            distribution = self._distribution(self.features(batch_obs, self.device), action_mask, active)
            actions = mode_of(distribution) if deterministic else sample_of(distribution, active)
        return actions.cpu().numpy()

    def greedy_copy(self) -> Self:
        """As of the base; the copy acts by modes."""
        acting = super().greedy_copy()
        acting.act_deterministically = True
        return acting

    def _distribution(self, obs: Any, action_mask: Any, active: Any) -> Any:
        """The distribution of allowed actions for features."""
        distribution = self._value(obs, active)
        check_one_for_each(distribution, first_leaf(obs).shape[0])
        return distribution if action_mask is None else masked(distribution, action_mask)

    def burnin_actions(self, k: int, action_mask: Any, active: Any) -> list[Any]:
        """One call for each environment that is active; the others repeat their last action, which is ignored.

        Raises:
            TypeError: If `burnin_action_func` takes no `action_mask`, though there is one.
        """
        choose = self.burnin_action_func
        assert choose is not None
        masks = [None] * k if action_mask is None else _rows_of(action_mask, k).numpy()
        return [
            choose(**required_keyword(choose, mask)) if active is None or active[i] else self.batch_last_action[i]
            for i, mask in enumerate(masks)
        ]


def _told(action_mask: Any, actions: Any) -> Allowed | None:
    """What explorers are told of a mask; nothing of one of several choices, which no explorer knows how to draw."""
    return None if action_mask is None or actions.ndim > 1 else Allowed(_rows_of(action_mask, len(actions)))


def _rows_of(action_mask: Any, k: int) -> Tensor:
    """A mask with a row for each of k environments, on the host."""
    return as_action_mask(action_mask, torch.Size((k, np.shape(action_mask)[-1])), torch.device("cpu"))


def samples_its_policy(agent: Any) -> bool:
    """Whether what acts chooses, in training, by samples of its `policy`; BCQ does by another module made of it."""
    chooses = getattr(type(agent), "select_actions", None) is PolicyActingMixin.select_actions
    chooses = chooses and agent.acting_hook not in agent.overridden_hooks
    return chooses and agent.acting_attributes[0] == "policy" and isinstance(agent.policy, nn.Module)


def check_one_for_each(distribution: Any, k: int) -> None:
    """Refuse what a policy made of k observations if it is not one distribution for each.

    Raises:
        ValueError: If it is not.
    """
    if distribution.batch_shape != (k,):
        raise ValueError(
            f"policy gives distributions of batch shape {tuple(distribution.batch_shape)} for {k} observations, "
            f"expected ({k},): act takes one observation, batch_act a sequence, and the policy features [{k}, ...]"
        )


def sample_of(distribution: Any, active: Any = None) -> Tensor:
    """A sample of each row, [k, ...]; rows that are not active are zeros and cost no draw.

    Args:
        distribution: Distribution of batch shape [k].
        active: Whether to draw, [k]; None for everywhere.
    """
    if active is None or np.all(active):
        sample: Tensor = distribution.sample()
        return sample
    rows = torch.from_numpy(np.flatnonzero(active))
    return at_rows(rows_of(distribution, rows).sample(), rows, len(active))


def at_rows(some: Tensor, rows: Tensor, k: int) -> Tensor:
    """Some rows, [n, ...], in their places, [n], among k; the others are zeros."""
    return some.new_zeros(k, *some.shape[1:]).index_copy(0, rows.to(some.device), some)
