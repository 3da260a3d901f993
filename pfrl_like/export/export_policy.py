"""Writing an agent's greedy policy into a file that runs without this library."""

import contextlib
import os
from collections.abc import Callable
from typing import Any, get_args

import torch
from torch import Tensor, nn

from pfrl_like.batch import map_nested
from pfrl_like.errors import CheckpointError, ExportError, PfrlLikeError
from pfrl_like.export.check import check_policy
from pfrl_like.export.features import leaves_of
from pfrl_like.export.formats import FORMATS, check_installed, describe, exporting
from pfrl_like.export.noise import NoiseMode
from pfrl_like.export.observations import stack_of
from pfrl_like.export.policy import GreedyPolicy, Signature
from pfrl_like.nn.empirical_normalization import holding_still
from pfrl_like.preprocessing.features import FeatureExtractor, rows_of_stack
from pfrl_like.random_streams.isolated_rng import isolated_rng
from pfrl_like.storage import atomic_write


def export_policy(
    make_copy: Callable[[], Any],
    path: str | os.PathLike[str],
    example_obs: Any,
    action_mask: Any = None,
    noise: NoiseMode = "fixed",
    format: str | None = None,
) -> Signature:
    """Write an agent's greedy policy into a file, after it has been compared with the agent.

    Args:
        make_copy: Makes a copy of the agent that acts greedily (`Greedy`), each call another one.
        path: The file, whose ending names the format; it is replaced, or stays as it was.
        example_obs: As of `export` of agents, like the rest.
        action_mask: As there.
        noise: As there.
        format: As there.

    Returns:
        What the policy takes and gives.

    Raises:
        ExportError: As there, like the rest.
        CheckpointError: As there.
        MissingDependencyError: As there.
        ValueError: As there.
    """
    target = os.fspath(path)
    ending = os.path.splitext(target)[1] if format is None else format
    _check_arguments(target, ending, noise)
    with exporting(), isolated_rng(), contextlib.ExitStack() as still:
        agent, reference, stack = make_copy(), make_copy(), stack_of(example_obs)
        if _gives_float64_to_float32(agent, stack):
            for each in (agent, reference):
                each.features = FeatureExtractor(CastToFloat32(each.features.phi), each.features.batch_states)
        for part in (*vars(agent).values(), *vars(reference).values(), agent.features.phi, reference.features.phi):
            if isinstance(part, nn.Module):
                still.enter_context(holding_still(part))
        mask = None if action_mask is None else stack_of(torch.as_tensor(action_mask).bool().unsqueeze(0))
        policy = GreedyPolicy(agent, stack, mask, noise).eval()
        form = FORMATS[ending]
        try:
            content = form.write(policy, policy.examples, describe(policy.signature))
            check_policy(reference, policy, form.run(content, policy.signature), stack)
        except PfrlLikeError:
            raise
        except Exception as error:  # exporters raise whatever they like, and so do policies made for other inputs
            name = type(agent).__name__
            raise ExportError(f"{name} cannot be exported to {ending}: {type(error).__name__}: {error}") from error
    atomic_write(target, content)
    return policy.signature


class CastToFloat32(nn.Module):
    """A `phi` whose features of float64 are cast to float32, as a wrapper around the environment casts observations.

    Args:
        phi: Gives the features of one observation.
    """

    def __init__(self, phi: Callable[[Any], Any]) -> None:
        super().__init__()
        self.phi = phi

    def forward(self, obs: Any) -> Any:
        """The features of an observation; arrays become tensors."""
        return map_nested(_cast, self.phi(obs))


def _cast(leaf: Any) -> Tensor:
    tensor = torch.as_tensor(leaf)
    return tensor.float() if tensor.dtype == torch.float64 else tensor


def _gives_float64_to_float32(agent: Any, stack: Any) -> bool:
    """Whether features of these observations are of float64, but no network computes in it."""
    rows = rows_of_stack(map_nested(lambda leaf: leaf[:1].numpy(), stack))
    features = leaves_of(agent.features(rows, "cpu"))
    modules = [part for part in vars(agent).values() if isinstance(part, nn.Module)]
    dtypes = {param.dtype for part in modules for param in part.parameters()}
    return any(leaf.dtype == torch.float64 for leaf in features) and torch.float64 not in dtypes


def _check_arguments(target: str, ending: str, noise: str) -> None:
    if ending not in FORMATS:
        raise ValueError(f"path is {target!r} and its format {ending!r}, expected one of {', '.join(FORMATS)}")
    if noise not in get_args(NoiseMode):
        raise ValueError(f"noise is {noise!r}, expected one of {', '.join(map(repr, get_args(NoiseMode)))}")
    if not os.path.isdir(os.path.dirname(target) or "."):
        raise CheckpointError(target, "cannot be written: its directory does not exist")
    check_installed(ending)
