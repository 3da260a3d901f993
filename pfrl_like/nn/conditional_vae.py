"""A model of recorded actions: the conditional variational autoencoder (Kingma and Welling 2013, arXiv:1312.6114)."""

from typing import Any

import torch
from torch import Tensor, nn

from pfrl_like.batch import first_leaf
from pfrl_like.functions.chunked import apply_in_chunks
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.contexts import ignores_training
from pfrl_like.utils.direct_call import call

#: Bounds of the logarithm of a latent deviation, as in the code of arXiv:1812.02900.
_LOG_STD = -4.0, 15.0
#: Largest size of latent numbers that actions are drawn by, likewise.
_LATENT_BOUND = 0.5


@ignores_training
class ConditionalVAE(nn.Module):
    """Draws actions like those that it has seen in an observation.

    For instance, of observations of 3 numbers and actions of 2::

        ConditionalVAE(
            encoder=nn.Sequential(ConcatObsAndAction(), nn.Linear(3 + 2, 256), nn.ReLU(), nn.Linear(256, 2 * 4)),
            decoder=nn.Sequential(ConcatObsAndAction(), nn.Linear(3 + 4, 256), nn.ReLU(), nn.Linear(256, 2), nn.Tanh()),
            latent_size=4,
        )

    Args:
        encoder: Module from pairs of observation and action to 2 * latent_size numbers: mean and logarithm of the
            standard deviation of the latent vector.
        decoder: Module from pairs of observation and latent vector to actions.
        latent_size: Numbers of the latent vector; twice those of an action are usual.

    Raises:
        ValueError: If `latent_size` is no positive integer.
    """

    def __init__(self, encoder: nn.Module, decoder: nn.Module, latent_size: int) -> None:
        super().__init__()
        check_counts(latent_size=latent_size)
        self.encoder, self.decoder, self.latent_size = encoder, decoder, latent_size

    def forward(self, obs_and_action: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Actions [N, A] made anew of a latent vector that is drawn; its mean and log deviation, both [N, latent_size].

        Raises:
            ValueError: If the encoder gives another number of numbers.
        """
        obs, _ = obs_and_action
        encoded = call(self.encoder, obs_and_action)
        if encoded.shape[-1] != 2 * self.latent_size:
            raise ValueError(
                f"encoder gives {encoded.shape[-1]} numbers, expected {2 * self.latent_size}, twice the latent_size"
            )
        mean, log_std = encoded.chunk(2, -1)
        log_std = log_std.clamp(*_LOG_STD)
        latent = torch.addcmul(mean, log_std.exp(), torch.randn_like(mean))
        return call(self.decoder, (obs, latent)), mean, log_std

    def draw(self, obs: Any, n: int) -> Tensor:
        """N actions for each of N observations, [n, N, A], of latent numbers drawn from N(0, 1), cut off at +-0.5."""
        like = first_leaf(obs)
        rows, parameter = like.shape[0], next(self.decoder.parameters(), like)
        drawn = torch.randn(rows * n, self.latent_size, device=like.device, dtype=parameter.dtype)
        latent = drawn.clamp(-_LATENT_BOUND, _LATENT_BOUND).view(rows, n, self.latent_size).transpose(0, 1)
        return apply_in_chunks(lambda states, part: call(self.decoder, (states, part)), obs, latent)
