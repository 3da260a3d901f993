"""The dry run: all networks are called with one observation, so that wrong shapes and types are found early."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.distributions import Distribution

from pfrl_like.action_value import DistributionalDiscreteActionValue
from pfrl_like.batch import Batch, describe_nested
from pfrl_like.learning.compatibility.parts import check_same_class
from pfrl_like.learning.model_outputs import INPUT_ERRORS, OutputError, pair_hint, wrong_critic, wrong_value
from pfrl_like.nn.empirical_normalization import holding_still
from pfrl_like.nn.fast_forward import repeat_rows
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.utils.contexts import evaluation_mode
from pfrl_like.utils.recurrent import forward


@torch.no_grad()
def dry_run_losses(agent: Any, obs: Any, distribution: Distribution) -> None:
    """Call `agent.try_parts` with a batch of two copies of an observation.

    If the agent is an acting copy, it has no critics, and nothing is called. Networks and random generators do not
    change.

    Args:
        agent: An `OffPolicyActorCritic`.
        obs: Features of the observation, [1, ...].
        distribution: Output of the policy for the observation. The actions of the batch are samples of it.
    """
    if any(getattr(agent, name, None) is None for name in agent.saved_attributes):
        return
    with contextlib.ExitStack() as stack:
        stack.enter_context(isolated_rng())
        for module in {id(part): part for part in vars(agent).values() if isinstance(part, nn.Module)}.values():
            stack.enter_context(holding_still(module))
            stack.enter_context(evaluation_mode(module))
        agent.try_parts(_two_rows(agent, obs, distribution), distribution)


def dry_run_critics(agent: Any, batch: Batch) -> None:
    """Dry-run the critics: check that their values and losses can be computed.

    Args:
        agent: An `OffPolicyActorCritic`.
        batch: Batch of two rows.

    Raises:
        TypeError: If a critic's output has the wrong type. The message names the critic.
        ValueError: If observations or actions have the wrong shape for a critic, or if the critics do not match each
            other.
    """
    values = {}
    for name, critic in zip(agent._critic_names, agent.critics, strict=True):
        with name_in_errors(name, batch):
            values[name] = agent.value_of(critic, batch)
        if not isinstance(values[name], agent._critic_type):
            raise wrong_critic(type(values[name]), agent._critic_type, name)
    if values:
        check_same_class(values)
        with name_in_errors(" and ".join(agent._critic_names), batch):
            atoms = [each.z_values for each in values.values() if isinstance(each, DistributionalDiscreteActionValue)]
            if any(not torch.equal(atoms[0], other) for other in atoms[1:]):
                raise ValueError("the critics have different z_values, expected the same v_min, v_max and n_atoms")
            list(agent.critic_losses(batch))


def dry_run_output(argument: str, module: nn.Module, batch: Batch, expected: type, example: str | None = None) -> Any:
    """Call a module with the observations of a batch, check the type of its output, and return the output.

    Args:
        argument: Name of the module in error messages.
        module: The module.
        batch: The batch.
        expected: Expected class of the output.
        example: Example of a module with such an output, for the error message.

    Raises:
        TypeError: If the output has the wrong type.
        ValueError: If the module rejects the observations.
    """
    with name_in_errors(argument, batch):
        output = forward(module, batch.obs)[0]
    if not isinstance(output, expected):
        raise wrong_value(output, expected, argument, example)
    return output


def _two_rows(agent: Any, obs: Any, distribution: Distribution) -> Batch:
    """Return two transitions. For a recurrent agent, return two sequences of one step."""
    obs = repeat_rows(obs, 2)
    reward = torch.zeros(2, device=agent.device)
    action = torch.cat([distribution.sample(), distribution.sample()])
    return Batch(
        obs=obs, action=action, reward=reward, next_obs=obs, next_action=action, returns=reward,
        discount=torch.full_like(reward, agent.gamma), lengths=torch.tensor([1, 1]) if agent.recurrent else None,
    )  # fmt: skip


@contextlib.contextmanager
def name_in_errors(parts: str, batch: Batch) -> Iterator[None]:
    """Context manager that adds the names of networks and the shapes of their inputs to shape and type errors."""
    try:
        yield
    except (*INPUT_ERRORS, AttributeError) as error:
        if type(error) not in (*INPUT_ERRORS, AttributeError, OutputError):  # for example torch.OutOfMemoryError
            raise
        kind = TypeError if isinstance(error, TypeError | AttributeError) else ValueError
        inputs = f"observations {describe_nested(batch.obs)} and actions {describe_nested(batch.action)}"
        raise kind(f"{parts} failed on {inputs}: {error}{pair_hint(error)}") from error
