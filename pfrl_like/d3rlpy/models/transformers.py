"""The network of Decision Transformer, with d3rlpy 2's layers and names of parameters."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pfrl_like.batch import map_nested
from pfrl_like.d3rlpy.constants import PositionEncodingType
from pfrl_like.d3rlpy.models.heads import Head, encoder_and_size
from pfrl_like.d3rlpy.models.layers import activation_of
from pfrl_like.distributions import Categorical, DeltaVector

#: Number that is added to the logits of masked tokens, and epsilon of the layer normalisations.
_MASKED, _EPS = -1e4, 3e-3


class CausalSelfAttention(nn.Module):
    """Self-attention in which a token sees itself and earlier tokens.

    Args:
        size: Size of a token.
        n_tokens: Maximum number of tokens.
        config: Config of a transformer.
    """

    _mask: Tensor

    def __init__(self, size: int, n_tokens: int, config: Any) -> None:
        super().__init__()
        self.n_heads, self.attn_dropout = config.num_heads, config.attn_dropout
        self._k, self._q, self._v, self._proj = (nn.Linear(size, size) for _ in range(4))
        self.dropout = nn.Dropout(config.resid_dropout)
        self.register_buffer("_mask", torch.ones(n_tokens, n_tokens).tril().view(1, 1, n_tokens, n_tokens))

    def forward(self, x: Tensor, is_padding: Tensor) -> Tensor:
        """Return the outputs, [B, T, size], for tokens of this shape. `is_padding` is 1 for masked tokens, [B, T]."""
        b, t, size = x.shape
        k, q, v = (layer(x).view(b, t, self.n_heads, -1).transpose(1, 2) for layer in (self._k, self._q, self._v))
        bias = (1 - self._mask[..., :t, :t] + is_padding.view(b, 1, 1, t)) * _MASKED
        dropout = self.attn_dropout if self.training else 0.0
        attended = F.scaled_dot_product_attention(q, k, v, bias.to(q.dtype), dropout)
        out: Tensor = self.dropout(self._proj(attended.transpose(1, 2).reshape(b, t, size)))
        return out


class Block(nn.Module):
    """Attention and two linear layers, each after a normalisation and with a residual connection.

    The arguments are those of `CausalSelfAttention`.
    """

    def __init__(self, size: int, n_tokens: int, config: Any) -> None:
        super().__init__()
        self._attention = CausalSelfAttention(size, n_tokens, config)
        self._mlp = nn.ModuleDict({"_l1": nn.Linear(size, 4 * size), "_l2": nn.Linear(4 * size, size)})
        self._layer_norm1, self._layer_norm2 = nn.LayerNorm(size, _EPS), nn.LayerNorm(size, _EPS)
        self.activation, self.dropout = activation_of(config.activation_type), nn.Dropout(config.resid_dropout)

    def forward(self, x: Tensor, is_padding: Tensor) -> Tensor:
        """Return the outputs, [B, T, size]. The arguments are those of `CausalSelfAttention.forward`."""
        x = x + self._attention(self._layer_norm1(x), is_padding)
        hidden = self.activation(self._mlp["_l1"](self._layer_norm2(x)))
        out: Tensor = x + self.dropout(self._mlp["_l2"](hidden))
        return out


class GPT2(nn.Module):
    """Blocks and a normalisation. The arguments are those of `CausalSelfAttention`."""

    def __init__(self, size: int, n_tokens: int, config: Any) -> None:
        super().__init__()
        self._transformer = nn.ModuleList(Block(size, n_tokens, config) for _ in range(config.num_layers))
        self._layer_norm = nn.LayerNorm(size, _EPS)
        self.dropout = nn.Dropout(config.embed_dropout)

    def forward(self, x: Tensor, is_padding: Tensor) -> Tensor:
        """Return the outputs, [B, T, size]. The arguments are those of `CausalSelfAttention.forward`."""
        x = self.dropout(x)
        for block in self._transformer:
            x = block(x, is_padding)
        out: Tensor = self._layer_norm(x)
        return out


class PositionEncoding(nn.Module):
    """Encoding of the time steps of a sequence.

    Args:
        size: Size of the encoding.
        config: Config of a transformer. With `SIMPLE`, the encoding is a vector for each time step. With `GLOBAL`, it
            is the sum of a vector for the last time step and a vector for the position in the sequence.
    """

    def __init__(self, size: int, config: Any) -> None:
        super().__init__()
        self.is_simple = config.position_encoding_type is PositionEncodingType.SIMPLE
        embedding = nn.Embedding(config.max_timestep + 2, size)
        if self.is_simple:
            self._embed = embedding
        else:
            self._global_position_embedding = embedding
            positions = nn.Parameter(torch.zeros(1, 3 * config.context_size, size))
            self._block_position_embedding = nn.ParameterDict({"_parameter": positions})

    def forward(self, timesteps: Tensor) -> Tensor:
        """Return the encoding of time steps [B, T], [B, T, size]."""
        if self.is_simple:
            encoded: Tensor = self._embed(timesteps)
            return encoded
        positions: Tensor = self._block_position_embedding["_parameter"][:, : timesteps.shape[1]]
        last: Tensor = self._global_position_embedding(timesteps[:, -1:])
        return last + positions


class DecisionTransformer(Head):
    """Predicts each action of a sequence from returns to go, observations and previous actions (arXiv:2106.01345).

    Each step has three tokens: return to go, observation and action. The observation's token predicts the action.

    Args:
        config: `DecisionTransformerConfig` or `DiscreteDecisionTransformerConfig`.
        observation_shape: Shape of an observation.
        action_size: Size of an action, or number of discrete actions.
        discrete: True for discrete actions, which are indices.
    """

    _action_embed: nn.Module
    _output: nn.Linear

    def __init__(self, config: Any, observation_shape: Any, action_size: int, discrete: bool) -> None:
        encoder, size = encoder_and_size(config.encoder_factory, observation_shape)
        super().__init__(encoder, config.observation_scaler, takes_action=False)
        del self._encoder  # d3rlpy counts the encoder's parameters after those of the transformer
        self.action_size, self.discrete, self.context_size = action_size, discrete, config.context_size
        self._position_encoding = PositionEncoding(size, config)
        if not discrete:
            self._embed_ln = nn.LayerNorm(size)
        self._gpt2 = GPT2(size, 3 * config.context_size, config)
        if discrete:
            self._output, self._action_embed = nn.Linear(size, action_size, bias=False), nn.Embedding(action_size, size)
        self.apply(_initialize)
        self._encoder, self._rtg_embed = encoder, nn.Linear(1, size)
        if not discrete:
            self._action_embed, self._output = nn.Linear(action_size, size), nn.Linear(size, action_size)
        self.embed_activation = activation_of(config.embed_activation_type if discrete else "none")

    def forward(
        self,
        returns: Tensor,
        obs: Any,
        action: Tensor,
        timesteps: Tensor | None = None,
        masks: Tensor | None = None,
    ) -> Any:
        """Return distributions of batch shape [B * T], ordered by sequence.

        Args:
            returns: Desired returns to go, [B, T].
            obs: Observations, nested tensors [B, T, ...].
            action: Actions, [B, T, A], or indices [B, T]. An action influences only the outputs of later steps.
            timesteps: Numbers of the steps in their episodes, from 1, [B, T], int64. If None, 1 to T.
            masks: 1 for steps, 0 for padding, [B, T]. If None, there is no padding.
        """
        b, t = returns.shape
        timesteps = torch.arange(1, t + 1, device=returns.device).expand(b, t) if timesteps is None else timesteps
        is_padding = torch.zeros_like(returns) if masks is None else 1 - masks
        flat = map_nested(lambda leaf: leaf.flatten(0, 1), obs)
        embedded = self.features(flat, self._output.weight.dtype).view(b, t, -1)
        tokens = torch.stack([self._rtg_embed(returns.unsqueeze(2)), embedded, self._action_embed(action)], 2)
        tokens = self.embed_activation(tokens) + self._position_encoding(timesteps).unsqueeze(2)
        tokens = tokens.flatten(1, 2)
        outputs = self._gpt2(tokens if self.discrete else self._embed_ln(tokens), is_padding.repeat_interleave(3, 1))
        predicted = self._output(outputs[:, 1::3].flatten(0, 1))
        return Categorical(predicted) if self.discrete else DeltaVector(predicted.tanh())

    def no_action(self, *shape: int) -> Tensor:
        """Return zeros in place of actions that are not selected yet: [*shape, A], or [*shape] for discrete actions."""
        device = self._output.weight.device
        if self.discrete:
            return torch.zeros(shape, dtype=torch.int64, device=device)
        return torch.zeros(*shape, self.action_size, device=device)


def _initialize(module: nn.Module) -> None:
    """Initialise linear layers and embeddings as GPT-2 does: normal weights with standard deviation 0.02."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
