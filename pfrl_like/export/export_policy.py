"""`export_policy` writes an agent's greedy policy to a file that runs without this library."""

import contextlib
import importlib.util
import io
import json
import logging
import operator
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from pfrl_like.batch import ACTION_MASK, map_nested
from pfrl_like.errors import CheckpointError, ExportError, MissingDependencyError, NonFiniteError, PfrlLikeError
from pfrl_like.export.features import leaves_of, more_observations, stacked_observations
from pfrl_like.export.policy import BATCH, Draws, Greedy, GreedyPolicy, NoiseMode, Signature
from pfrl_like.nn.empirical_normalization import holding_still
from pfrl_like.preprocessing.features import FeatureExtractor, rows_of_stack
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.storage import atomic_write
from pfrl_like.utils.checks import check_choice

#: Function that runs an exported policy with input tensors and returns the outputs.
Run = Callable[[Sequence[Tensor]], list[Tensor]]


def _torchscript(policy: GreedyPolicy, inputs: Sequence[Tensor], description: str) -> bytes:
    traced = torch.jit.trace(policy, tuple(inputs), check_trace=False)  # type: ignore[no-untyped-call]
    content = io.BytesIO()
    torch.jit.save(traced, content, _extra_files={"signature.json": description})
    return content.getvalue()


def _torch_export(policy: GreedyPolicy, inputs: Sequence[Tensor], description: str) -> bytes:
    program = torch.export.export(policy, tuple(inputs), dynamic_shapes=(_dynamic(policy.signature),), strict=False)
    content = io.BytesIO()
    torch.export.save(program, content, extra_files={"signature.json": description})
    return content.getvalue()


def _onnx(policy: GreedyPolicy, inputs: Sequence[Tensor], description: str) -> bytes:
    signature = policy.signature
    program: Any = torch.onnx.export(
        policy, tuple(inputs), dynamo=True, external_data=False, verbose=False,
        dynamic_shapes=(_dynamic(signature),),
        input_names=[port.name for port in signature.inputs],
        output_names=[port.name for port in signature.outputs],
    )  # fmt: skip
    program.model.metadata_props["signature.json"] = description
    return bytes(program.model_proto.SerializeToString())


def _run_onnx(content: bytes) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [port.name for port in session.get_inputs()]

    def run(inputs: Sequence[Tensor]) -> list[Tensor]:
        feed = {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
        return [torch.from_numpy(output) for output in session.run(None, feed)]

    return run


def _run(loaded: Callable[..., Any]) -> Run:
    """Return a function that runs a policy loaded by torch and returns its outputs as a list."""

    def run(inputs: Sequence[Tensor]) -> list[Tensor]:
        outputs = loaded(*inputs)
        return list(outputs) if isinstance(outputs, tuple | list) else [outputs]

    return run


class Format(NamedTuple):
    """File format.

    Attributes:
        write: Function that takes the policy, inputs for tracing and a description, and returns the content of the
            file.
        run: Function that takes the content of the file and returns a function that runs the policy.
        packages: Packages that the format needs, of the extra "export".
    """

    write: Callable[[GreedyPolicy, Sequence[Tensor], str], bytes]
    run: Callable[[bytes], Run]
    packages: tuple[str, ...] = ()


#: File formats, keyed by file extension. `.pt` files are loaded by `torch.jit.load`, also in C++, `.onnx` files by
#: `onnxruntime` and other ONNX runtimes, `.pt2` files by `torch.export.load`.
FORMATS = {
    ".pt": Format(_torchscript, lambda content: _run(torch.jit.load(io.BytesIO(content)))),  # type: ignore[no-untyped-call]
    ".onnx": Format(_onnx, _run_onnx, ("onnx", "onnxscript", "onnxruntime")),
    ".pt2": Format(_torch_export, lambda content: _run(torch.export.load(io.BytesIO(content)).module())),
}


@contextlib.contextmanager
def exporting() -> Iterator[None]:
    """Context manager that disables gradients, exporters' warnings, and distributions' checks of their arguments."""
    loggers = {logging.getLogger(name): logging.getLogger(name).level for name in ("torch.onnx", "onnxscript")}
    checks = Distribution._validate_args
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        Distribution.set_default_validate_args(False)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            yield
    finally:
        Distribution.set_default_validate_args(checks)
        for logger, level in loggers.items():
            logger.setLevel(level)


def _dynamic(signature: Signature) -> tuple[dict[int, Any], ...]:
    """Return the batch axis of each input in the format of `torch.export`."""
    batch = torch.export.Dim(BATCH)
    return tuple({axis: batch for axis, size in enumerate(port.shape) if size == BATCH} for port in signature.inputs)


#: Default maximum difference between the policy's and the agent's actions and recurrent states. For numbers with an
#: absolute value above 1 the difference is relative.
TOLERANCE = 1e-5
#: Number of observations that are compared.
N_INPUTS = 1_000
#: Batches of the compared observations, as pairs (number of observations, steps).
_FEED_FORWARD = ((1, 1), (2, 1), (13, 1), *[(123, 1)] * 8)
_RECURRENT = ((1, 10), (2, 5), (98, 10))


def check_policy(reference: Greedy, policy: GreedyPolicy, run: Run, stack: Any, tolerance: float = TOLERANCE) -> None:
    """Raise an error if the exported policy and the agent select different actions for 1,000 observations.

    Masks and noise are random. A different discrete action is accepted if the agent's values of both actions are equal
    within `tolerance`.

    Args:
        reference: Copy of the agent that shares no parameters with `policy`.
        policy: The exported policy.
        run: Function that runs the exported policy.
        stack: Observations: tensors [k, ...] with the nesting of one observation.
        tolerance: Maximum difference between actions and between recurrent states. For numbers with an absolute value
            above 1 the difference is relative.

    Raises:
        ExportError: If the actions or recurrent states differ.
        NonFiniteError: If the agent's own actions are NaN or infinite.
    """
    generator, begin = torch.Generator().manual_seed(0), 0
    many = more_observations(stack, N_INPUTS, generator)
    for batch, steps in _FEED_FORWARD if reference.recurrent_memory is None else _RECURRENT:
        if reference.recurrent_memory is not None:
            reference.recurrent_memory.forget(False)
        state = [torch.zeros(port.sizes(batch), dtype=getattr(torch, port.dtype)) for port in policy.ports("state")]
        for _ in range(steps):
            obs = map_nested(operator.itemgetter(slice(begin, begin + batch)), many)
            mask = [torch.rand(port.sizes(batch), generator=generator) < 0.7 for port in policy.ports(ACTION_MASK)]
            noise = [draw.sample(batch, generator) for draw in policy.input_draws]
            inputs = [*leaves_of(obs), *mask, *state, *noise]
            actions, *state = run(inputs)
            expected, expected_state = _step_of_agent(reference, obs, mask, policy.numbers(*inputs))
            _check_actions(policy, inputs, actions, expected, tolerance)
            for ours, theirs in zip(expected_state, state, strict=True):
                _check_numbers("recurrent state", ours, theirs, tolerance)
            begin += batch


def _step_of_agent(reference: Greedy, obs: Any, mask: list[Tensor], drawn: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Return the agent's actions and its next recurrent state. The agent uses `drawn` in place of random numbers."""
    rows = rows_of_stack(map_nested(lambda leaf: leaf.numpy(), obs))
    keywords = {ACTION_MASK: mask[0].numpy()} if mask else {}
    with Draws(drawn):
        actions = torch.as_tensor(np.asarray(reference.batch_act(rows, **keywords)))
    if not actions.isfinite().all():
        raise NonFiniteError("action", "the agent's own actions are NaN or infinite for some of the observations")
    return actions, [] if reference.recurrent_memory is None else leaves_of(reference.recurrent_memory.test_state)


def _check_actions(
    policy: GreedyPolicy, inputs: Sequence[Tensor], actions: Tensor, wanted: Tensor, tolerance: float
) -> None:
    _check_shape("action", wanted, actions)
    is_continuous = wanted.is_floating_point()
    errors = _differences(wanted, actions) if is_continuous else (actions != wanted).float()
    wrong = ~(errors <= tolerance).reshape(len(wanted), -1).all(1)
    if wrong.any() and not _has_equal_value(policy.evaluate(*inputs)[1], actions, wanted, wrong, tolerance):
        raise ExportError(
            f"the exported policy selects different actions than the agent for {int(wrong.sum())} of {len(wrong)} "
            f"observations, {actions[wrong][0].tolist()} instead of {wanted[wrong][0].tolist()}; nothing was written"
        )


def _has_equal_value(value: Any, actions: Tensor, wanted: Tensor, wrong: Tensor, tolerance: float) -> bool:
    """True if the agent's values of `actions` and `wanted` are equal where the actions differ.

    Args:
        value: Object that evaluates actions. If it has a method `score`, `score` is used. Otherwise `evaluate_actions`
            or `log_prob` is used for discrete actions, and the result is False for continuous actions.
        actions: Actions of the exported policy, [B, ...].
        wanted: Actions of the agent, [B, ...].
        wrong: True where `actions` and `wanted` differ, [B].
        tolerance: Maximum difference between equal values.
    """
    score = getattr(value, "score", None)
    if score is None and not wanted.is_floating_point():
        score = getattr(value, "evaluate_actions", None) or value.log_prob
    return score is not None and float(_differences(score(wanted), score(actions))[wrong].max()) <= tolerance


def _check_shape(what: str, wanted: Tensor, output: Tensor) -> None:
    if (output.shape, output.dtype) != (wanted.shape, wanted.dtype):
        got, expected = (f"{tuple(each.shape)} of {each.dtype}" for each in (output, wanted))
        raise ExportError(f"the exported policy's {what} is {got}, the agent's is {expected}; nothing was written")


def _check_numbers(what: str, wanted: Tensor, output: Tensor, tolerance: float) -> None:
    _check_shape(what, wanted, output)
    largest = float(_differences(wanted, output).max())
    if not largest <= tolerance:
        raise ExportError(f"exported {what} differs by {largest:.3g}, more than {tolerance}; nothing was written")


def _differences(wanted: Tensor, output: Tensor) -> Tensor:
    """Return absolute differences. If the absolute value of a number is above 1, its difference is relative."""
    return (output - wanted).abs() / wanted.abs().clamp_min(1)


def export_policy(
    make_copy: Callable[[], Any],
    path: str | os.PathLike[str],
    example_obs: Any,
    action_mask: Any = None,
    noise: NoiseMode = "fixed",
    format: str | None = None,
    tolerance: float = TOLERANCE,
) -> Signature:
    """Compare the exported greedy policy with the agent, and write it to a file.

    Args:
        make_copy: Function that returns a new copy of the agent that acts greedily (`Greedy`).
        path: Path of the file. The extension selects the format. An existing file is replaced, but stays unchanged if
            an error occurs.
        example_obs: Observations for tracing and comparison: a list of observations, an array or dict of stacked
            observations, or a space to sample from. Their dtype is the dtype of the input of the exported policy. If
            they are float64, but no network is, the exported policy casts its input. So if a wrapper only casts
            float64 observations, you can pass `env.unwrapped.observation_space` to export the cast, too.
        action_mask: Example of an action mask, [n_actions], True for allowed actions. If None, the exported policy has
            no input for masks. Masks in observations, under the key "action_mask", are part of the observations.
        noise: Treatment of the random numbers that greedy actions use, for example with IQN, BCQ, BEAR and noisy
            networks. With "fixed", the policy is deterministic: quantile fractions are evenly spaced, weights have no
            noise, and all other numbers are sampled once and used for every observation. With "input", the random
            numbers are inputs of the exported policy.
        format: File extension in `FORMATS`. If None, the extension of `path` is used.
        tolerance: Maximum difference between actions and between recurrent states. For numbers with an absolute value
            above 1 the difference is relative.

    Returns:
        Inputs and outputs of the policy.

    Raises:
        ExportError: If the policy cannot be exported, or if the exported policy and the agent select different actions.
        CheckpointError: If the file cannot be written. An existing file stays unchanged.
        MissingDependencyError: If a package for the format is not installed.
        NonFiniteError: If the agent's own actions are NaN or infinite.
        ValueError: If the extension is not in `FORMATS`, or if `noise` is not "fixed" or "input".
    """
    target = os.fspath(path)
    ending = os.path.splitext(target)[1] if format is None else format
    check_arguments(target, ending, noise)
    with exporting(), isolated_rng(), contextlib.ExitStack() as contexts:
        agent, reference, stack = make_copy(), make_copy(), stacked_observations(example_obs)
        if _needs_float32_cast(agent, stack):
            for each in (agent, reference):
                each.features = FeatureExtractor(CastToFloat32(each.features.phi), each.features.batch_states)
        for part in (*vars(agent).values(), *vars(reference).values(), agent.features.phi, reference.features.phi):
            if isinstance(part, nn.Module):
                contexts.enter_context(holding_still(part))
        mask = None if action_mask is None else stacked_observations(torch.as_tensor(action_mask).bool().unsqueeze(0))
        policy = GreedyPolicy(agent, stack, mask, noise).eval()
        form = FORMATS[ending]
        ports = {"inputs": policy.signature.inputs, "outputs": policy.signature.outputs}
        description = json.dumps({side: [vars(port) for port in each] for side, each in ports.items()})
        try:
            content = form.write(policy, policy.examples, description)
            check_policy(reference, policy, form.run(content), stack, tolerance)
        except PfrlLikeError:
            raise
        except Exception as error:  # exporters and networks raise errors of any type
            name = type(agent).__name__
            raise ExportError(f"{name} cannot be exported to {ending}: {type(error).__name__}: {error}") from error
    atomic_write(target, content)
    return policy.signature


class CastToFloat32(nn.Module):
    """A `phi` that casts float64 features to float32. It replaces a wrapper that casts observations.

    Args:
        phi: Function that returns the features of one observation.
    """

    def __init__(self, phi: Callable[[Any], Any]) -> None:
        super().__init__()
        self.phi = phi

    def forward(self, obs: Any) -> Any:
        """Return the features of an observation. Arrays are converted to tensors."""
        return map_nested(_cast, self.phi(obs))


def _cast(leaf: Any) -> Tensor:
    tensor = torch.as_tensor(leaf)
    return tensor.float() if tensor.dtype == torch.float64 else tensor


def _needs_float32_cast(agent: Any, stack: Any) -> bool:
    """True if the features of these observations are float64, but no network has float64 parameters."""
    rows = rows_of_stack(map_nested(lambda leaf: leaf[:1].numpy(), stack))
    features = leaves_of(agent.features(rows, "cpu"))
    modules = [part for part in vars(agent).values() if isinstance(part, nn.Module)]
    dtypes = {param.dtype for part in modules for param in part.parameters()}
    return any(leaf.dtype == torch.float64 for leaf in features) and torch.float64 not in dtypes


def check_arguments(target: str, ending: str, noise: str = "fixed") -> None:
    """Raise an error if an argument of `export_policy` is wrong.

    Args:
        target: Path of the file.
        ending: File extension.
        noise: Treatment of random numbers.

    Raises:
        CheckpointError: If the directory of the file does not exist.
        MissingDependencyError: If a package for the format is not installed.
        ValueError: If the extension is not in `FORMATS`, or if `noise` is not "fixed" or "input".
    """
    if ending not in FORMATS:
        raise ValueError(f"path is {target!r} and the format is {ending!r}, expected one of {', '.join(FORMATS)}")
    check_choice("noise", noise, get_args(NoiseMode))
    if not os.path.isdir(os.path.dirname(target) or "."):
        raise CheckpointError(target, "cannot be written: its directory does not exist")
    for package in FORMATS[ending].packages:
        if importlib.util.find_spec(package) is None:
            raise MissingDependencyError(package, f"export to {ending}", "export")
