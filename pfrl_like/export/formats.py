"""The formats that a policy is exported to: how each is written, and how it is run without this library."""

import contextlib
import importlib.util
import io
import json
import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from pfrl_like.errors import MissingDependencyError
from pfrl_like.export.policy import BATCH, GreedyPolicy, Signature

#: An exported policy, run as who has nothing but the file would run it.
Run = Callable[[Sequence[Tensor]], list[Tensor]]


class Format(ABC):
    """A format of files."""

    #: Packages of the extra "export" that it needs.
    packages: tuple[str, ...] = ()

    @abstractmethod
    def write(self, policy: GreedyPolicy, inputs: Sequence[Tensor], description: str) -> bytes:
        """The content of a file.

        Args:
            policy: What to export.
            inputs: Inputs to trace it with.
            description: Text that goes along.
        """

    @abstractmethod
    def run(self, content: bytes, signature: Signature) -> Run:
        """The policy in such a content."""


class TorchScript(Format):
    """A trace, for `torch.jit.load`, also from C++."""

    def write(self, policy: GreedyPolicy, inputs: Sequence[Tensor], description: str) -> bytes:
        traced = torch.jit.trace(policy, tuple(inputs), check_trace=False)  # type: ignore[no-untyped-call]
        content = io.BytesIO()
        torch.jit.save(traced, content, _extra_files={"signature.json": description})
        return content.getvalue()

    def run(self, content: bytes, signature: Signature) -> Run:
        loaded = torch.jit.load(io.BytesIO(content))  # type: ignore[no-untyped-call]
        return lambda inputs: _listed(loaded(*inputs))


class TorchExport(Format):
    """An exported program, for `torch.export.load`."""

    def write(self, policy: GreedyPolicy, inputs: Sequence[Tensor], description: str) -> bytes:
        program = torch.export.export(policy, tuple(inputs), dynamic_shapes=(_dynamic(policy.signature),), strict=False)
        content = io.BytesIO()
        torch.export.save(program, content, extra_files={"signature.json": description})
        return content.getvalue()

    def run(self, content: bytes, signature: Signature) -> Run:
        loaded = torch.export.load(io.BytesIO(content)).module()
        return lambda inputs: _listed(loaded(*inputs))


class Onnx(Format):
    """A graph for `onnxruntime` and whatever else reads ONNX, weights included."""

    packages = ("onnx", "onnxscript", "onnxruntime")

    def write(self, policy: GreedyPolicy, inputs: Sequence[Tensor], description: str) -> bytes:
        signature = policy.signature
        program: Any = torch.onnx.export(
            policy, tuple(inputs), dynamo=True, external_data=False, verbose=False,
            dynamic_shapes=(_dynamic(signature),),
            input_names=[port.name for port in signature.inputs],
            output_names=[port.name for port in signature.outputs],
        )  # fmt: skip
        program.model.metadata_props["signature.json"] = description
        content: bytes = program.model_proto.SerializeToString()
        return content

    def run(self, content: bytes, signature: Signature) -> Run:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        names = [port.name for port in signature.inputs]

        def run(inputs: Sequence[Tensor]) -> list[Tensor]:
            given = {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
            return [torch.from_numpy(output) for output in session.run(None, given)]

        return run


#: By the ending of the file's name.
FORMATS: dict[str, Format] = {".pt": TorchScript(), ".onnx": Onnx(), ".pt2": TorchExport()}


def check_installed(ending: str) -> None:
    """Refuse a format whose packages are not installed.

    Raises:
        MissingDependencyError: Naming the package and the extra.
    """
    for package in FORMATS[ending].packages:
        if importlib.util.find_spec(package) is None:
            raise MissingDependencyError(package, f"export to {ending}", "export")


def describe(signature: Signature) -> str:
    """A signature as JSON, which goes into the file."""
    ports = {"inputs": signature.inputs, "outputs": signature.outputs}
    return json.dumps({side: [vars(port) for port in each] for side, each in ports.items()})


@contextlib.contextmanager
def exporting() -> Iterator[None]:
    """Within it exporters work in silence, without gradients, and distributions do not look at their arguments."""
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
    """Which axis of each input counts the observations, as `torch.export` is told."""
    batch = torch.export.Dim(BATCH)
    return tuple({axis: batch for axis, size in enumerate(port.shape) if size == BATCH} for port in signature.inputs)


def _listed(outputs: Any) -> list[Tensor]:
    return list(outputs) if isinstance(outputs, tuple | list) else [outputs]
