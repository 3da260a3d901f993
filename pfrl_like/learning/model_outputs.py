"""Outputs of models for minibatches, and exceptions for inputs and outputs of the wrong type or shape."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from pfrl_like.batch import Batch, describe_nested
from pfrl_like.distributions import masked
from pfrl_like.nn.fast_forward import fast_forward
from pfrl_like.utils.goals import DESIRED_GOAL, OBSERVATION
from pfrl_like.utils.recurrent import is_recurrent, sequence_outputs

#: Exceptions that networks raise for inputs of the wrong shape or type.
INPUT_ERRORS = (RuntimeError, TypeError, ValueError)


#: Example networks for each class of output, for error messages.
_EXAMPLES = {
    "ActionValue": "a network that ends in a DiscreteActionValueHead",
    "DiscreteActionValue": "a network that ends in a DiscreteActionValueHead",
    "DistributionalDiscreteActionValue": "a DistributionalFCStateQFunctionWithDiscreteAction",
    "QuantileDiscreteActionValue": "a QuantileFCStateQFunctionWithDiscreteAction",
    "ImplicitQuantileActionValue": "an ImplicitQuantileQFunction",
    "FullyParametrizedActionValue": "a FullyParametrizedQFunction",
    "Categorical": "a network that ends in a SoftmaxCategoricalHead",
    "Distribution": "a network that ends in a head of pfrl_like.policies",
    "tuple": "a pfrl_like.nn.Branched of a policy and a value function, which gives (distribution, values [B, 1])",
}


#: Example critics Q(s, a) for each class of output, for error messages.
_CRITIC_EXAMPLES = {"DiscreteActionValue": "an FCSAQFunction", "QuantileDiscreteActionValue": "a QuantileFCSAQFunction"}


class OutputError(TypeError):
    """Error for a network output of the wrong type. The message names the network."""


def wrong_value(value: Any, value_type: type, argument: str = "q_function", example: str | None = None) -> TypeError:
    """Return the exception for a network output of the wrong type. It names a suitable network."""
    return wrong_type(type(value), value_type, argument, example)


def wrong_type(output_type: type, value_type: type, argument: str, example: str | None = None) -> TypeError:
    """Return the exception for an output of the class `output_type`. It names a suitable network."""
    needed, got = value_type.__name__, output_type.__name__
    example = example or _EXAMPLES.get(needed)
    return OutputError(f"{argument} gives {got}, expected {needed}{example and f': use for example {example}' or ''}")


def wrong_critic(output_type: type, value_type: type, argument: str = "a critic") -> TypeError:
    """Return the exception for a critic Q(s, a) whose output has the wrong class. It names a suitable critic."""
    example = _CRITIC_EXAMPLES.get(value_type.__name__, "a critic of pfrl_like.q_functions")
    return wrong_type(output_type, value_type, argument, example)


def pair_hint(error: BaseException) -> str:
    """Return a hint if a network that expects a tensor got a pair, or if a network that expects a pair got a tensor.

    For any other error, return an empty string.
    """
    text = str(error)
    if "not tuple" in text or "'tuple' object" in text:
        return "; the network is called with a pair (observation, action): make ConcatObsAndAction its first layer"
    if "not Tensor" in text or "got one " in text:
        return "; the network is called with the observation only: use a network that takes only the observation"
    return ""


@contextlib.contextmanager
def obs_in_errors(argument: str, obs: Any) -> Iterator[None]:
    """Context manager that converts exceptions of `INPUT_ERRORS` to a ValueError that describes the observation."""
    try:
        yield
    except INPUT_ERRORS as error:
        if type(error) not in INPUT_ERRORS:  # subclasses of RuntimeError, such as out-of-memory errors
            raise
        raise input_error(obs, error, argument) from error


def input_error(obs: Any, error: BaseException, argument: str, hint: str = "") -> ValueError:
    """Return the exception for observations or features `obs` for which a network raised `error`."""
    got = describe_nested(obs)
    # give no hint for a tuple, because it may be the result (obs, info) of reset()
    hint = hint or ("" if isinstance(obs, tuple) else pair_hint(error)) or _hint(obs, str(got))
    return ValueError(f"obs does not fit {argument}; obs is {got}, and the network raised: {error}{hint}")


def _hint(obs: Any, got: str) -> str:
    """Return a hint for a common mistake with observations or features of this type; else an empty string."""
    if isinstance(obs, Mapping) and {OBSERVATION, DESIRED_GOAL} <= obs.keys():
        return "; phi=concatenate_goal, of pfrl_like.utils.goals, joins observation and goal"
    if isinstance(obs, Mapping):
        return "; set phi to a function that converts each observation to the network's input"
    if "float64" in got or "int" in got:
        return "; networks compute in float32: cast with phi, or wrap the environment in CastObservationToFloat32"
    shape = tuple(getattr(obs, "shape", (1, 1)))
    if len(shape) < 2 or shape[:2] == (1, 1):
        return "; act takes one observation, batch_act takes a sequence of observations"
    return ""


def check_one_for_each(distribution: Any, k: int) -> None:
    """Check that a policy's output for k observations has the batch shape [k].

    Raises:
        ValueError: If the batch shape is different.
    """
    if distribution.batch_shape != (k,):
        text = f"policy gives distributions of batch shape {tuple(distribution.batch_shape)} for {k} observations"
        advice = f"act takes one observation, batch_act takes several, the policy takes features [{k}, ...]"
        raise ValueError(f"{text}, expected ({k},): {advice}")


def output_of(model: Any, batch: Batch, *, next: bool = False) -> Any:
    """Return a module's output for the state (or next state) of each row in a minibatch."""
    obs = batch.next_obs if next else batch.obs
    if batch.lengths is None or not is_recurrent(model):
        return fast_forward(model, obs)
    return sequence_outputs(model, obs, batch.next_recurrent_state if next else batch.recurrent_state, batch.lengths)


def policy_of(policy: Any, batch: Batch) -> Any:
    """Return a policy's distributions of actions, [N], for the rows of a minibatch."""
    return allowed(output_of(policy, batch), batch.action_mask)


def policy_and_value(model: Any, batch: Batch) -> tuple[Any, Tensor]:
    """Return a model's distributions of actions and values, [N], for the rows of a minibatch."""
    distribution, value = fast_forward(model, batch.obs) if batch.lengths is None else output_of(model, batch)
    return distribution if batch.action_mask is None else masked(distribution, batch.action_mask), value.squeeze(-1)


def allowed(distribution: Any, action_mask: Any) -> Any:
    """Return the distribution, restricted to allowed actions. A mask of None allows all actions."""
    return distribution if action_mask is None else masked(distribution, action_mask)


def check_outputs(
    outputs: tuple[Any, ...],
    k: int,
    argument: str,
    expected: str = "(distribution, values)",
    further: tuple[type[Any], ...] = (Tensor,),
) -> None:
    """Check that a model's output is a tuple of a distribution, optional further items, and k values.

    Args:
        outputs: Output of the model.
        k: Number of observations.
        argument: Name of the model in error messages.
        expected: Names of the expected items, separated by commas, for the error message. Their number is the expected
            number of items.
        further: Classes of the items after the distribution.

    Raises:
        TypeError: If the number or the types of the items are wrong.
        ValueError: If the number of values is not k.
    """
    if len(outputs) != expected.count(",") + 1 or not all(map(isinstance, outputs[1:-1], further[:-1])):
        types = ", ".join(type(part).__name__ for part in outputs)
        raise TypeError(f"{argument} gives ({types}), expected {expected}")
    if not isinstance(outputs[0], Distribution):
        raise wrong_value(outputs[0], Distribution, f"{argument} (first output)")
    if not isinstance(outputs[-1], Tensor):
        raise wrong_value(outputs[-1], torch.Tensor, f"{argument} (last output)")
    if outputs[-1].shape[:1] != (k,) or outputs[-1].numel() != k:
        got = tuple(outputs[-1].shape)
        raise ValueError(f"{argument} gives values of shape {got} for {k} observations, expected ({k}, 1)")
