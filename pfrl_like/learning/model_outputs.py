"""What models give for observations and minibatches, and the errors of those that give something else."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from pfrl_like.batch import Batch, described
from pfrl_like.distributions import masked
from pfrl_like.nn.fast_forward import fast_forward
from pfrl_like.utils.goals import DESIRED_GOAL, OBSERVATION
from pfrl_like.utils.recurrent import is_recurrent, sequence_outputs

#: What networks raise that cannot take in what they are given.
MISFITS = (RuntimeError, TypeError, ValueError)


#: What gives an action value of each class.
_GIVEN_BY = {
    "ActionValue": "one that ends in a DiscreteActionValueHead",
    "DiscreteActionValue": "one that ends in a DiscreteActionValueHead",
    "DistributionalDiscreteActionValue": "a DistributionalFCStateQFunctionWithDiscreteAction",
    "QuantileDiscreteActionValue": "a QuantileFCStateQFunctionWithDiscreteAction",
    "ImplicitQuantileActionValue": "an ImplicitQuantileQFunction",
    "FullyParametrizedActionValue": "a FullyParametrizedQFunction",
    "Categorical": "one that ends in a SoftmaxCategoricalHead",
    "Distribution": "one that ends in a head of pfrl_like.policies",
    "tuple": "a pfrl_like.nn.Branched of a policy and a value function, which gives (distribution, values [B, 1])",
}


#: What gives one of each class of state and action.
_CRITICS_GIVING = {
    "DiscreteActionValue": "an FCSAQFunction",
    "QuantileDiscreteActionValue": "a QuantileFCSAQFunction",
}


class OutputError(TypeError):
    """A network gives something else than is needed. The sentence names the network, so nobody adds to it."""


def wrong_value(value: Any, value_type: type, argument: str = "q_function", example: str | None = None) -> TypeError:
    """The error of a network that gives something else than an agent needs, and what gives that."""
    return wrong_type(type(value), value_type, argument, example)


def wrong_type(given: type, value_type: type, argument: str, example: str | None = None) -> TypeError:
    """`wrong_value` where only the class of what is given is known."""
    needed, came = value_type.__name__, given.__name__
    example = example or _GIVEN_BY.get(needed)
    return OutputError(
        f"{argument} gives {_with_article(came)}, expected one that gives {_with_article(needed)}"
        f"{example and f', such as {example}' or ''}"
    )


def wrong_critic(given: type, value_type: type, argument: str = "a critic") -> TypeError:
    """`wrong_type` of a critic of state and action."""
    example = _CRITICS_GIVING.get(value_type.__name__, "one of pfrl_like.q_functions")
    return wrong_type(given, value_type, argument, example)


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def hint_of_pairs(error: BaseException) -> str:
    """A hint if the error is of a network of tensors that was given a pair, or the reverse; else empty."""
    text = str(error)
    if "not tuple" in text or "'tuple' object" in text:
        return "; it is called with a pair, such as observation and action: begin it with ConcatObsAndAction"
    if "not Tensor" in text or "got one " in text:
        return "; it is called with the observation alone: use a module of the state"
    return ""


@contextlib.contextmanager
def taken_by(argument: str, obs: Any) -> Iterator[None]:
    """Turn what a network raises within it into the error that the features do not fit the network."""
    try:
        yield
    except MISFITS as error:
        if type(error) not in MISFITS:  # out of memory, not implemented, ...
            raise
        raise misfit(obs, error, argument) from error


def misfit(obs: Any, error: BaseException, argument: str, hint: str = "") -> ValueError:
    """The error of observations, or features, that a network cannot take in."""
    came = described(obs)
    hint = hint or hint_of_pairs(error) or _hint(obs, str(came))
    return ValueError(f"obs does not fit {argument}; it came as {came}, which gave: {error}{hint}")


def _hint(obs: Any, came: str) -> str:
    """What is often the matter with features of this form."""
    if isinstance(obs, Mapping) and {OBSERVATION, DESIRED_GOAL} <= obs.keys():
        return "; phi=concatenate_goal, of pfrl_like.utils.goals, joins observation and goal"
    if isinstance(obs, Mapping):
        return "; phi makes of each observation what the network takes"
    if "float64" in came or "int" in came:
        return "; networks compute in float32: cast with phi, or wrap the environment in CastObservationToFloat32"
    shape = tuple(getattr(obs, "shape", (1, 1)))
    if len(shape) < 2 or shape[:2] == (1, 1):
        return "; act takes one observation, batch_act a sequence of them"
    return ""


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


def output_of(model: Any, batch: Batch, *, next: bool = False) -> Any:
    """What a module gives for the rows of a minibatch, of steps or of sequences, or for their `next` states."""
    obs = batch.next_obs if next else batch.obs
    if batch.lengths is None or not is_recurrent(model):
        return fast_forward(model, obs)
    return sequence_outputs(model, obs, batch.next_recurrent_state if next else batch.recurrent_state, batch.lengths)


def policy_of(policy: Any, batch: Batch) -> Any:
    """The distributions of actions, [N], that a policy gives for the rows of a minibatch."""
    return allowed(output_of(policy, batch), batch.action_mask)


def policy_and_value(model: Any, batch: Batch) -> tuple[Any, Tensor]:
    """The distributions of actions and the values, [N], that a model gives for the rows of a minibatch."""
    distribution, value = fast_forward(model, batch.obs) if batch.lengths is None else output_of(model, batch)
    return distribution if batch.action_mask is None else masked(distribution, batch.action_mask), value.squeeze(-1)


def allowed(distribution: Any, action_mask: Any) -> Any:
    """The distribution with only some actions allowed; no mask allows all."""
    return distribution if action_mask is None else masked(distribution, action_mask)


def check_outputs(
    outputs: tuple[Any, ...],
    k: int,
    argument: str,
    expected: str = "(distribution, values)",
    further: tuple[type[Any], ...] = (Tensor,),
) -> None:
    """Refuse what a model gave for k observations if its first part is no distribution or its last one no k values.

    Args:
        outputs: What it gave.
        k: How many observations.
        argument: What errors call the model.
        expected: The parts, in words, as many as there should be.
        further: Classes of those that follow the distribution.

    Raises:
        TypeError: If the parts are others.
        ValueError: If there is another number of values.
    """
    if len(outputs) != expected.count(",") + 1 or not all(map(isinstance, outputs[1:-1], further[:-1])):
        came = ", ".join(type(part).__name__ for part in outputs)
        raise TypeError(f"{argument} gives ({came}), expected {expected}")
    if not isinstance(outputs[0], Distribution):
        raise wrong_value(outputs[0], Distribution, f"the first part of what {argument}")
    if not isinstance(outputs[-1], Tensor):
        raise wrong_value(outputs[-1], torch.Tensor, f"the last part of what {argument}")
    if outputs[-1].shape[:1] != (k,) or outputs[-1].numel() != k:
        raise ValueError(
            f"{argument} gives values of shape {tuple(outputs[-1].shape)} for {k} observations, expected ({k}, 1)"
        )
