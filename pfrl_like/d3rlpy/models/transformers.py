"""The network of Decision Transformer, with d3rlpy 2's layers and names of parameters."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from pfrl_like.algos.fitting.saving import MAX_PARAMETERS
from pfrl_like.batch import map_nested
from pfrl_like.d3rlpy.constants import PositionEncodingType
from pfrl_like.d3rlpy.models.heads import Head, encoder_and_size
from pfrl_like.d3rlpy.models.layers import activation_of
from pfrl_like.distributions import Categorical, DeltaVector
from pfrl_like.utils.checks import check_counts

#: Score of later tokens, which is also added to the scores of padding; and epsilon of the layer normalisations.
_MASKED, _EPS = -1e4, 3e-3


class Block(nn.Module):
    """Self-attention and two linear layers, each after a normalisation and with a residual connection.

    A token sees itself and earlier tokens. Tokens of padding see later tokens, too, because d3rlpy gives padding and
    later tokens similar scores.

    Args:
        size: Size of a token.
        config: Config of a transformer.
    """

    def __init__(self, size: int, config: Any) -> None:
        super().__init__()
        self.n_heads, n = config.num_heads, 3 * config.context_size
        self._attention = nn.ModuleDict({name: nn.Linear(size, size) for name in ("_k", "_q", "_v", "_proj")})
        self._attention.register_buffer("_mask", torch.ones(n, n).tril().view(1, 1, n, n))
        self._mlp = nn.ModuleDict({"_l1": nn.Linear(size, 4 * size), "_l2": nn.Linear(4 * size, size)})
        self._layer_norm1, self._layer_norm2 = nn.LayerNorm(size, _EPS), nn.LayerNorm(size, _EPS)
        self.attn_dropout, self.resid_dropout = nn.Dropout(config.attn_dropout), nn.Dropout(config.resid_dropout)
        self.activation = activation_of(config.activation_type)

    def forward(self, x: Tensor, is_padding: Tensor) -> Tensor:
        """Return the outputs, [B, T, size], for tokens of this shape. `is_padding` is 1 for masked tokens, [B, T]."""
        b, t, size = x.shape
        layers, normed = self._attention, self._layer_norm1(x)
        k, q, v = (layers[name](normed).view(b, t, self.n_heads, -1).transpose(1, 2) for name in ("_k", "_q", "_v"))
        is_later = layers.get_buffer("_mask")[..., :t, :t] == 0
        scores = (q @ k.transpose(2, 3) / math.sqrt(k.shape[3])).masked_fill(is_later, _MASKED)
        weights = self.attn_dropout((scores + is_padding.view(b, 1, 1, t) * _MASKED).softmax(3))
        x = x + self.resid_dropout(layers["_proj"]((weights @ v).transpose(1, 2).reshape(b, t, size)))
        hidden = self.activation(self._mlp["_l1"](self._layer_norm2(x)))
        return x.add(self.resid_dropout(self._mlp["_l2"](hidden)))


class Transformer(Head):
    """Predicts each action of a sequence from returns to go, observations and previous actions (arXiv:2106.01345).

    Each step has three tokens: return to go, observation and action. The observation's token predicts the action.

    Args:
        config: `DecisionTransformerConfig` or `DiscreteDecisionTransformerConfig`.
        observation_shape: Shape of an observation.
        action_size: Size of an action, or number of discrete actions.
        discrete: True for discrete actions, which are indices.

    Raises:
        ValueError: If `num_heads` is no divisor of the encoder's output size, or another size is out of range.
    """

    _action_embed: nn.Module

    def __init__(self, config: Any, observation_shape: Any, action_size: int, discrete: bool) -> None:
        counts = {name: getattr(config, name) for name in ("context_size", "max_timestep", "num_heads", "num_layers")}
        check_counts(**counts)
        encoder, size = encoder_and_size(config.encoder_factory, observation_shape)
        if size % config.num_heads or config.num_layers * (3 * config.context_size) ** 2 > MAX_PARAMETERS:
            expected = (
                f"num_heads to divide {size}, the encoder's output size, and masks of <= {MAX_PARAMETERS} entries"
            )
            raise ValueError(f"the config has {counts}, expected {expected}")
        super().__init__(encoder, config.observation_scaler, takes_action=False)
        del self._encoder  # d3rlpy counts the encoder's parameters after those of the transformer
        self.discrete = discrete
        self._position_encoding = _position_encoding(size, config)
        if not discrete:
            self._embed_ln = nn.LayerNorm(size)
        blocks, self.dropout = [Block(size, config) for _ in range(config.num_layers)], nn.Dropout(config.embed_dropout)
        self._gpt2 = nn.ModuleDict({"_transformer": nn.ModuleList(blocks), "_layer_norm": nn.LayerNorm(size, _EPS)})
        if discrete:
            self._output, self._action_embed = nn.Linear(size, action_size, bias=False), nn.Embedding(action_size, size)
        for module in self.modules():  # as in GPT-2
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        self._encoder, self._rtg_embed = encoder, nn.Linear(1, size)
        if not discrete:
            self._action_embed, self._output = nn.Linear(action_size, size), nn.Linear(size, action_size)
        self.embed_activation = activation_of(config.embed_activation_type if discrete else "none")

    def forward(self, x: Any) -> Any:
        """Return distributions of batch shape [B * T], ordered by sequence.

        Args:
            x: Tuple of the observations, nested tensors [B, T, ...]; the actions, [B, T, A], or indices [B, T]; the
                returns to go, [B, T, 1]; the numbers of the steps in their episodes, from 1, int64, [B, T]; and the
                masks, 1 for steps and 0 for padding, [B, T]. An action influences only the outputs of later steps.
        """
        obs, action, returns, timesteps, masks = x
        embedded = self.features(map_nested(lambda leaf: leaf.flatten(0, 1), obs), self._output.weight.dtype)
        tokens: Any = [self._rtg_embed(returns), embedded.view(*masks.shape, -1), self._action_embed(action)]
        tokens = self.embed_activation(torch.stack(tokens, 2)) + self._positions(timesteps).unsqueeze(2)
        tokens = tokens.flatten(1, 2) if self.discrete else self._embed_ln(tokens.flatten(1, 2))
        layers: Any = self._gpt2
        outputs, is_padding = self.dropout(tokens), (1 - masks).repeat_interleave(3, 1)
        for block in layers["_transformer"]:
            outputs = block(outputs, is_padding)
        predicted = self._output(layers["_layer_norm"](outputs)[:, 1::3].flatten(0, 1))
        return Categorical(predicted) if self.discrete else DeltaVector(predicted.tanh())

    def _positions(self, timesteps: Tensor) -> Any:
        """Return the encoding of time steps [B, T], [B, T, size]."""
        layers: Any = self._position_encoding
        if "_embed" in layers:
            return layers["_embed"](timesteps)
        of_places = layers["_block_position_embedding"]["_parameter"][:, : timesteps.shape[1]]
        return layers["_global_position_embedding"](timesteps[:, -1:]) + of_places


def _position_encoding(size: int, config: Any) -> nn.ModuleDict:
    """Return the layers that encode time steps.

    With `SIMPLE`, the encoding is a vector for each time step. With `GLOBAL`, it is the sum of a vector for the last
    time step and a vector for the place in the sequence.
    """
    embedding = nn.Embedding(config.max_timestep + 2, size)
    if PositionEncodingType(config.position_encoding_type) is PositionEncodingType.SIMPLE:
        return nn.ModuleDict({"_embed": embedding})
    places = nn.ParameterDict({"_parameter": nn.Parameter(torch.zeros(1, 3 * config.context_size, size))})
    return nn.ModuleDict({"_global_position_embedding": embedding, "_block_position_embedding": places})
