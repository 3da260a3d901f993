"""`FQEConfig`, the hyperparameters of fitted Q evaluation, and the device of an `FQE`."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch

from pfrl_like.gpu import Device, resolve_device


@dataclasses.dataclass
class FQEConfig:
    """Hyperparameters of fitted Q evaluation.

    Args:
        learning_rate: Learning rate of the critics.
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        n_critics: Number of critics. Each critic has its own target network.
        target_update_interval: Number of gradient steps between updates of the target networks.
        encoder_params: Dict with the layer sizes of the encoder. For vector observations: "hidden_units", a list of
            layer sizes. For image observations: "filters", a list of (channels, kernel size, stride), and
            "feature_size", the size of the last linear layer.
        q_func_type: Output of the Q-functions: "mean" (the expected return), "qr" (quantiles), "iqn" (quantiles at
            random fractions) or "fqf" (quantiles at fractions that a network proposes).
        observation_scaler: Scaler of the critics' observations: a name, a `Scaler`, or None. The evaluated policy
            receives unscaled observations.
        action_scaler: Scaler of the critics' continuous actions: a name, a `Scaler`, or None.
        reward_scaler: Scaler of the rewards: a name, a `Scaler`, or None. Predicted values are then values of scaled
            rewards.
        bootstrap: True to train each Q-function on random rows of the minibatch. The values of the Q-functions then
            differ more where data are scarce.
        share_encoder: True if all Q-functions share one encoder.
        use_batch_norm: True to apply batch normalisation after each layer of the networks.
        compile: True to compile the update of the critics. The second update compiles, which takes about 30 s.
        eps: Epsilon of Adam.
        augmentation: List of augmentations or of names of augmentations, or an `AugmentationPipeline`. None or an empty
            list disables augmentation.
        n_augmentations: Number of augmented copies of each row. The loss is the mean over the copies.
        n_epochs: Number of epochs if `fit` is called with neither `n_steps` nor `n_epochs`. None if `fit` needs one of
            these arguments.
    """

    learning_rate: float = 1e-4
    batch_size: int = 100
    gamma: float = 0.99
    n_critics: int = 1
    target_update_interval: int = 100
    encoder_params: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    q_func_type: str = "mean"
    observation_scaler: Any = None
    action_scaler: Any = None
    reward_scaler: Any = None
    _: dataclasses.KW_ONLY
    bootstrap: bool = False
    share_encoder: bool = False
    use_batch_norm: bool = False
    compile: bool = False
    eps: float = 1e-8
    augmentation: Any = dataclasses.field(default_factory=list)
    n_augmentations: int = 1
    n_epochs: int | None = None


#: Names of the hyperparameters.
FIELDS = tuple(field.name for field in dataclasses.fields(FQEConfig))


def config_of(config: FQEConfig | None, **defaults: Any) -> FQEConfig:
    """Return `config`, or an `FQEConfig` with the values `defaults` if `config` is None.

    Raises:
        TypeError: If `config` is neither an `FQEConfig` nor None.
    """
    if config is not None and not isinstance(config, FQEConfig):
        raise TypeError(f"config is {config!r:.80} ({type(config).__name__}), expected an FQEConfig, or None")
    return FQEConfig(**defaults) if config is None else config


def device_of(device: bool | int | str | torch.device | Device) -> torch.device:
    """Return the device for False (the CPU), True (the first GPU), an index of a GPU, or a device of torch."""
    if isinstance(device, Device):
        return resolve_device(device.get_id())
    if isinstance(device, bool):
        return resolve_device(0 if device else None)
    return resolve_device(device) if isinstance(device, int) else resolve_device(None, device)
