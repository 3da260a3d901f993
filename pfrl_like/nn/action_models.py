"""Models of the actions in a dataset: a conditional variational autoencoder and a return-conditioned transformer."""

from typing import Any

import torch
from torch import Tensor, nn

from pfrl_like.batch import first_leaf, map_nested
from pfrl_like.nn.fast_forward import apply_in_chunks, fast_forward
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.contexts import ignores_training

#: Bounds of the logarithm of the latent standard deviation, as in the code of arXiv:1812.02900.
_LOG_STD = -4.0, 15.0
#: Maximum absolute value of the latent numbers from which `draw` generates actions, as in the code of arXiv:1812.02900.
_LATENT_BOUND = 0.5


@ignores_training
class ConditionalVAE(nn.Module):
    """Generates actions that are similar to the actions of a dataset in similar states.

    For example, for observations [3] and actions [2]::

        ConditionalVAE(
            encoder=nn.Sequential(ConcatObsAndAction(), nn.Linear(3 + 2, 256), nn.ReLU(), nn.Linear(256, 2 * 4)),
            decoder=nn.Sequential(ConcatObsAndAction(), nn.Linear(3 + 4, 256), nn.ReLU(), nn.Linear(256, 2), nn.Tanh()),
            latent_size=4,
        )

    Args:
        encoder: Module from pairs (observation, action) to 2 * latent_size numbers: the mean of the latent vector and
            the logarithm of its standard deviation.
        decoder: Module from pairs (observation, latent vector) to actions.
        latent_size: Size of the latent vector, usually twice the size of an action.

    Raises:
        ValueError: If `latent_size` is not a positive integer.
    """

    def __init__(self, encoder: nn.Module, decoder: nn.Module, latent_size: int) -> None:
        super().__init__()
        check_counts(latent_size=latent_size)
        self.encoder, self.decoder, self.latent_size = encoder, decoder, latent_size

    def forward(self, obs_and_action: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Return actions [N, A] from sampled latent vectors, and the means and log deviations [N, latent_size].

        Raises:
            ValueError: If the size of the encoder's output is not 2 * latent_size.
        """
        obs, _ = obs_and_action
        encoded = fast_forward(self.encoder, obs_and_action)
        if encoded.shape[-1] != 2 * self.latent_size:
            expected = f"2 * latent_size, {2 * self.latent_size}"
            raise ValueError(f"encoder returns {encoded.shape[-1]} numbers, expected {expected}")
        mean, log_std = encoded.chunk(2, -1)
        log_std = log_std.clamp(*_LOG_STD)
        latent = torch.addcmul(mean, log_std.exp(), torch.randn_like(mean))
        return fast_forward(self.decoder, (obs, latent)), mean, log_std

    def draw(self, obs: Any, n: int) -> Tensor:
        """Return n actions for each of N observations, [n, N, A]. Latent numbers are normal, clipped to +-0.5."""
        leaf = first_leaf(obs)
        rows, parameter = leaf.shape[0], next(self.decoder.parameters(), leaf)
        noise = torch.randn(rows * n, self.latent_size, device=leaf.device, dtype=parameter.dtype)
        latent = noise.clamp(-_LATENT_BOUND, _LATENT_BOUND).view(rows, n, self.latent_size).transpose(0, 1)
        return apply_in_chunks(lambda states, part: fast_forward(self.decoder, (states, part)), obs, latent)


class ReturnConditionedTransformer(nn.Module):
    """Predicts each action of a sequence from the desired return, the observations and the previous actions.

    Each step has three tokens: return to go (the desired sum of the rewards from this step on), observation and action.
    A causal transformer processes the tokens. The transformer's outputs for the observation tokens are the inputs of
    the head. The position of a step is its index in the sequence.

    Args:
        obs_embedding: Module from observations to `hidden_size` numbers.
        action_size: Size of an action, or number of discrete actions.
        head: Module from `hidden_size` numbers to distributions of actions, for example a sequence of `Linear`, `Tanh`
            and `DeterministicHead`.
        discrete: True for discrete actions, which are indices.
        hidden_size: Size of a token.
        context_size: Maximum length of a sequence, in steps.
        n_layers: Number of layers of the transformer.
        n_heads: Number of attention heads of each layer; a divisor of `hidden_size`.
        dropout: Probability that an activation is set to 0.

    Raises:
        ValueError: If a size is not a positive integer.
    """

    def __init__(
        self,
        obs_embedding: nn.Module,
        action_size: int,
        head: nn.Module,
        *,
        discrete: bool = False,
        hidden_size: int = 128,
        context_size: int = 20,
        n_layers: int = 3,
        n_heads: int = 1,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        check_counts(action_size=action_size, hidden_size=hidden_size, context_size=context_size)
        check_counts(n_layers=n_layers, n_heads=n_heads)
        self.action_size, self.discrete, self.context_size = action_size, discrete, context_size
        self.obs_embedding, self.head = obs_embedding, head
        self.return_embedding = nn.Linear(1, hidden_size)
        self.action_embedding: nn.Module = (nn.Embedding if discrete else nn.Linear)(action_size, hidden_size)
        self.position_embedding = nn.Embedding(context_size, hidden_size)
        self.norm = nn.LayerNorm(hidden_size)
        layer = nn.TransformerEncoderLayer(
            hidden_size, n_heads, 4 * hidden_size, dropout, nn.functional.gelu, batch_first=True, norm_first=True
        )
        norm = nn.LayerNorm(hidden_size)
        self.transformer = nn.TransformerEncoder(layer, n_layers, norm, enable_nested_tensor=False)

    def forward(self, returns: Tensor, obs: Any, action: Tensor) -> Any:
        """Return distributions of batch shape [B * T], ordered by sequence.

        Args:
            returns: Desired returns to go, [B, T].
            obs: Observations, nested tensors [B, T, ...].
            action: Actions, [B, T, A], or indices [B, T]. An action influences only the outputs of later steps.
        """
        b, t = returns.shape
        embedded = self.obs_embedding(map_nested(lambda leaf: leaf.flatten(0, 1), obs)).view(b, t, -1)
        tokens = [self.return_embedding(returns.unsqueeze(2)), embedded, self.action_embedding(action)]
        position = self.position_embedding(torch.arange(t, device=returns.device))
        x = self.norm((torch.stack(tokens, 2) + position.view(1, t, 1, -1)).flatten(1, 2))
        later = torch.ones(3 * t, 3 * t, dtype=torch.bool, device=returns.device).triu(1)
        outputs = self.transformer(x, mask=later, is_causal=True)
        return self.head(outputs[:, 1::3].flatten(0, 1))

    def no_action(self, *shape: int) -> Tensor:
        """Return zeros in place of actions that are not selected yet: [*shape, A], or [*shape] for discrete actions."""
        device = self.return_embedding.weight.device
        if self.discrete:
            return torch.zeros(shape, dtype=torch.int64, device=device)
        return torch.zeros(*shape, self.action_size, device=device)
