"""Policies as files that run without this library: TorchScript, ONNX, `torch.export`."""

from pfrl_like.export.export_policy import export_policy as export_policy
from pfrl_like.export.formats import FORMATS as FORMATS
from pfrl_like.export.noise import NoiseMode as NoiseMode
from pfrl_like.export.policy import Greedy as Greedy
from pfrl_like.export.policy import Port as Port
from pfrl_like.export.policy import Signature as Signature
