"""The network of Decision Transformer compared with d3rlpy 2.8.1."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pfrl_like.d3rlpy.algos import DecisionTransformerConfig, DiscreteDecisionTransformerConfig
from pfrl_like.d3rlpy.models import VectorEncoderFactory
from pfrl_like.d3rlpy.models.transformers import DecisionTransformer

#: The key is name/state/parameter or name/array.
NETWORKS = dict(np.load(Path(__file__).parents[3] / "data" / "d3rlpy_2_8" / "transformers.npz"))
SIZES: Any = {
    "encoder_factory": VectorEncoderFactory([7, 6]), "num_heads": 2, "num_layers": 2, "context_size": 4,
    "max_timestep": 10,
}  # fmt: skip
CONFIGS = {
    "transformer": DecisionTransformerConfig(**SIZES),
    "discrete_transformer": DiscreteDecisionTransformerConfig(**SIZES),
}


def network(name: str) -> DecisionTransformer:
    return DecisionTransformer(CONFIGS[name], (3,), 2, name.startswith("discrete")).eval()


@pytest.mark.parametrize("name", CONFIGS)
def test_a_transformer_has_the_names_and_outputs_of_d3rlpy(name: str) -> None:
    data = {key.removeprefix(f"{name}/"): value for key, value in NETWORKS.items() if key.startswith(f"{name}/")}
    model = network(name)
    assert [key for key, _ in model.named_parameters()] == data.pop("names").tolist()  # the order in an optimiser
    tensors = {key: torch.from_numpy(value) for key, value in data.items()}
    state = {key.removeprefix("state/"): value for key, value in tensors.items() if key.startswith("state/")}
    model.load_state_dict(state, strict=True)
    given = [tensors[key] for key in ("returns", "obs", "action", "timesteps", "masks")]
    distribution = model(*given)
    is_step = tensors["masks"].flatten() == 1
    if model.discrete:
        expected = tensors["output"].flatten(0, 1).log_softmax(1)
        torch.testing.assert_close(distribution.logits.log_softmax(1)[is_step], expected[is_step], rtol=1e-5, atol=1e-6)
    else:
        expected = tensors["output"].flatten(0, 1)
        torch.testing.assert_close(distribution.mode[is_step], expected[is_step], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CONFIGS)
def test_later_steps_and_the_action_of_a_step_do_not_influence_it(name: str) -> None:
    model = network(name)
    returns, obs, action = torch.rand(1, 4), torch.rand(1, 4, 3), model.no_action(1, 4)
    timesteps = torch.arange(1, 5).view(1, 4)
    before = model(returns, obs, action, timesteps)
    returns[:, 2:], obs[:, 2:], action[:, 1:] = 5.0, 5.0, 1
    after = model(returns, obs, action)
    for first, second in zip(before.params, after.params, strict=True):
        torch.testing.assert_close(first[:2], second[:2])
