"""Types in the signatures of the layer."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from torch import Tensor

NDArray = npt.NDArray[Any]
Float32NDArray = npt.NDArray[np.float32]
Int32NDArray = npt.NDArray[np.int32]
UInt8NDArray = npt.NDArray[np.uint8]
DType = npt.DTypeLike

#: One observation, or a batch of observations: an array, or one array for each part of a tuple observation.
Observation = NDArray | Sequence[NDArray]
ObservationSequence = NDArray | Sequence[NDArray]
TorchObservation = Tensor | Sequence[Tensor]
#: Shape of an observation, or the shapes of the parts of a tuple observation.
Shape = Sequence[int] | Sequence[Sequence[int]]

GymEnv = gymnasium.Env[Any, Any]
