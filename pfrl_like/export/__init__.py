"""Export of policies to files that run without this library: TorchScript, ONNX, `torch.export`."""

from pfrl_like.export.export_policy import FORMATS, export_policy
from pfrl_like.export.policy import Greedy, NoiseMode, Port, Signature

__all__ = ["FORMATS", "Greedy", "NoiseMode", "Port", "Signature", "export_policy"]
