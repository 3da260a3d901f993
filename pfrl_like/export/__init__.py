"""Policies as files that run without this library: TorchScript, ONNX, `torch.export`."""

from pfrl_like.export.export_policy import export_policy
from pfrl_like.export.formats import FORMATS
from pfrl_like.export.noise import NoiseMode
from pfrl_like.export.policy import Greedy, Port, Signature

__all__ = [
    "FORMATS",
    "Greedy",
    "NoiseMode",
    "Port",
    "Signature",
    "export_policy",
]
