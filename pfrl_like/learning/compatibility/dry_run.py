"""The dry run: calls all parts with the first observation, to find shape and type errors before the first update."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.distributions import Distribution

from pfrl_like.action_value import DistributionalDiscreteActionValue
from pfrl_like.batch import Batch, describe_nested
from pfrl_like.learning.compatibility.parts import check_one_form
from pfrl_like.learning.model_outputs import INPUT_ERRORS, OutputError, hint_of_pairs, wrong_critic, wrong_value
from pfrl_like.nn.empirical_normalization import holding_still
from pfrl_like.nn.fast_forward import repeat_rows
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.utils.contexts import evaluating_readers
from pfrl_like.utils.recurrent import forward


@torch.no_grad()
def try_parts(agent: Any, obs: Any, distribution: Distribution) -> None:
    """Call `agent.try_parts` with a batch of two copies of an observation.

    Acting copies are skipped, because they have no critics.

    The call does not change networks and random streams.

    Args:
        agent: An `OffPolicyActorCritic`.
        obs: Features of the observation, [1, ...].
        distribution: Output of the policy for the observation; actions are sampled from it.
    """
    if any(getattr(agent, name, None) is None for name in agent.saved_attributes):
        return
    with contextlib.ExitStack() as stack:
        stack.enter_context(isolated_rng())
        for module in {id(part): part for part in vars(agent).values() if isinstance(part, nn.Module)}.values():
            stack.enter_context(holding_still(module))
            stack.enter_context(evaluating_readers(module))
        agent.try_parts(_two_rows(agent, obs, distribution), distribution)


def try_critics(agent: Any, batch: Batch) -> None:
    """Compute the values and losses of an agent's critics.

    Args:
        agent: An `OffPolicyActorCritic`.
        batch: Batch of two rows.

    Raises:
        TypeError: If a critic's output has the wrong type; the message names the critic.
        ValueError: If observations or actions have the wrong shape for a critic, or if the critics do not match each
            other.
    """
    values = {}
    for name, critic in zip(agent._critic_names, agent.critics, strict=True):
        with told_of(name, batch):
            values[name] = agent.value_of(critic, batch)
        if not isinstance(values[name], agent._critic_type):
            raise wrong_critic(type(values[name]), agent._critic_type, name)
    if values:
        check_one_form(values)
        with told_of(" and ".join(agent._critic_names), batch):
            _check_atoms([*values.values()])
            list(agent.critic_losses(batch))


def tried_output(argument: str, module: nn.Module, batch: Batch, wanted: type, example: str | None = None) -> Any:
    """Call a module with the observations of a batch and check the type of its output.

    Args:
        argument: Name of the module in error messages.
        module: The module.
        batch: The batch.
        wanted: Expected class of the output.
        example: Example of a module with such an output, for the error message.

    Raises:
        TypeError: If the output has the wrong type.
        ValueError: If the module rejects the observations.
    """
    with told_of(argument, batch):
        given = forward(module, batch.obs)[0]
    if not isinstance(given, wanted):
        raise wrong_value(given, wanted, argument, example)
    return given


def _two_rows(agent: Any, obs: Any, distribution: Distribution) -> Batch:
    """Return two transitions; for a recurrent agent, two sequences of one step."""
    obs = repeat_rows(obs, 2)
    reward = torch.zeros(2, device=agent.device)
    action = torch.cat([distribution.sample(), distribution.sample()])
    return Batch(
        obs=obs, action=action, reward=reward, next_obs=obs, next_action=action, returns=reward,
        discount=torch.full_like(reward, agent.gamma), lengths=torch.tensor([1, 1]) if agent.recurrent else None,
    )  # fmt: skip


def _check_atoms(values: Sequence[Any]) -> None:
    """Check that all categorical critics have the same support `z_values`, so that their values can be compared."""
    atoms = [value.z_values for value in values if isinstance(value, DistributionalDiscreteActionValue)]
    if any(not torch.equal(atoms[0], other) for other in atoms[1:]):
        raise ValueError("the critics have different z_values, expected the same v_min, v_max and n_atoms")


@contextlib.contextmanager
def told_of(parts: str, batch: Batch) -> Iterator[None]:
    """Name the parts in errors that are raised within the context."""
    try:
        yield
    except (*INPUT_ERRORS, AttributeError) as error:
        if type(error) not in (*INPUT_ERRORS, AttributeError, OutputError):  # out of memory, not implemented, ...
            raise
        kind = TypeError if isinstance(error, TypeError | AttributeError) else ValueError
        inputs = f"observations {describe_nested(batch.obs)} and actions {describe_nested(batch.action)}"
        raise kind(f"{parts} failed on {inputs}: {error}{hint_of_pairs(error)}") from error
