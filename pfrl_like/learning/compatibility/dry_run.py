"""Critics are tried before a run begins: what does not fit shows then, and not at the first update."""

import contextlib
import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.distributions import Distribution

from pfrl_like.action_value import DistributionalDiscreteActionValue
from pfrl_like.batch import Batch, described
from pfrl_like.learning.model_outputs import MISFITS
from pfrl_like.nn.empirical_normalization import holding_still
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.utils.contexts import evaluating_readers


@torch.no_grad()
def dry_run_critics(agent: Any, obs: Any, distribution: Distribution) -> None:
    """Ask the critics of an agent for values and losses, which leaves no trace.

    Args:
        agent: An `OffPolicyActorCritic`.
        obs: An observation.
        distribution: What the policy gives for one observation; actions are drawn from it.

    Raises:
        TypeError: If a critic gives something else than the agent learns from, naming it.
        ValueError: If observations or actions do not fit a critic, or critics do not fit each other.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(isolated_rng())
        for module in {id(part): part for part in vars(agent).values() if isinstance(part, nn.Module)}.values():
            stack.enter_context(holding_still(module))
            stack.enter_context(evaluating_readers(module))
        batch = _two_rows(agent, obs, distribution)
        values = []
        for name, critic in zip(agent.critic_names, agent.critics, strict=True):
            with _named(name, batch):
                values.append(agent.value_of(critic, batch))
        with _named(" and ".join(agent.critic_names), batch):
            _check_atoms(values)
            list(agent.critic_losses(batch))


def _two_rows(agent: Any, obs: Any, distribution: Distribution) -> Batch:
    """Two transitions, of which a recurrent agent has sequences of one step."""
    features, given = copy.deepcopy((agent.features, [obs, obs]))  # phi may keep what it sees
    obs = features(given, agent.device)
    reward = torch.zeros(2, device=agent.device)
    action = torch.cat([distribution.sample(), distribution.sample()])
    return Batch(
        obs=obs, action=action, reward=reward, next_obs=obs, next_action=action, returns=reward,
        discount=torch.full_like(reward, agent.gamma), lengths=torch.tensor([1, 1]) if agent.recurrent else None,
    )  # fmt: skip


def _check_atoms(values: Sequence[Any]) -> None:
    """Refuse probabilities of different returns, of which none can be put in the place of another."""
    atoms = [value.z_values for value in values if isinstance(value, DistributionalDiscreteActionValue)]
    if any(not torch.equal(atoms[0], other) for other in atoms[1:]):
        raise ValueError("probabilities of returns z_values that differ, expected the same v_min, v_max and n_atoms")


@contextlib.contextmanager
def _named(critics: str, batch: Batch) -> Iterator[None]:
    """What goes wrong within it is said of some critics."""
    try:
        yield
    except MISFITS as error:
        if type(error) not in MISFITS:  # out of memory, not implemented, ...
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        came = f"observations {described(batch.obs)} and actions {described(batch.action)}"
        raise kind(f"{critics} cannot be learnt from; {came} gave: {error}") from error
