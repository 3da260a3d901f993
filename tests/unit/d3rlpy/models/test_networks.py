"""Networks compared with those of d3rlpy 2.8.1: names of parameters, outputs, and gradients of shared encoders."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pfrl_like.d3rlpy.base import LearnableConfigWithShape
from pfrl_like.d3rlpy.files import read_learnable
from pfrl_like.d3rlpy.models import (
    IQNQFunctionFactory,
    MeanQFunctionFactory,
    PixelEncoderFactory,
    QRQFunctionFactory,
    SimBaEncoderFactory,
    VectorEncoderFactory,
)
from pfrl_like.d3rlpy.models.heads import LatentDecoder, LatentEncoder, Perturbation, ValueFunction, encoder_and_size
from pfrl_like.d3rlpy.models.policies import CategoricalPolicy, DeterministicPolicy, GaussianPolicy
from pfrl_like.d3rlpy.models.q_functions import critics

DATA = Path(__file__).parents[3] / "data" / "d3rlpy_2_8"
#: The key is name/state/parameter or name/array.
NETWORKS = dict(np.load(DATA / "networks.npz"))
PREDICTIONS = dict(np.load(DATA / "predictions.npz"))
SMALL = VectorEncoderFactory([5])


def loaded(name: str, network: nn.Module) -> tuple[nn.Module, dict[str, Tensor]]:
    """A network with the parameters of the file, in evaluation mode, and the arrays beside them."""
    tensors = {key: torch.from_numpy(np.asarray(value)) for key, value in NETWORKS.items()}
    state = {key.partition("/state/")[2]: value for key, value in tensors.items() if key.startswith(f"{name}/state/")}
    network.load_state_dict(state, strict=True)
    return network.eval(), {key.split("/")[1]: value for key, value in tensors.items() if key.startswith(f"{name}/")}


def assert_close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_critics_of_images_have_the_names_and_outputs_of_d3rlpy() -> None:
    encoder = PixelEncoderFactory([[3, 3, 2], [4, 2, 1]], 6, "swish", True, 0.2, last_activation="tanh")
    ensemble = critics(MeanQFunctionFactory(), encoder, (2, 8, 8), 2, discrete=False, n_critics=2)
    members, data = loaded("pixel_mean_continuous", ensemble.members)
    for member, value in zip(members.children(), data["value"], strict=True):
        assert_close(member((data["obs"], data["action"])), value)


def test_quantile_critics_with_simba_have_the_names_and_outputs_of_d3rlpy() -> None:
    encoder = SimBaEncoderFactory(6, 5, 2)
    ensemble = critics(QRQFunctionFactory(n_quantiles=4), encoder, (3,), 2, discrete=False, n_critics=2)
    members, data = loaded("simba_qr_continuous", ensemble.members)
    for member, value in zip(members.children(), data["value"], strict=True):
        assert_close(member((data["obs"], data["action"])).quantiles.squeeze(2), value)


def test_an_implicit_quantile_network_has_the_names_and_outputs_of_d3rlpy() -> None:
    factory = IQNQFunctionFactory(n_quantiles=6, n_greedy_quantiles=4, embed_size=5)
    encoder = VectorEncoderFactory([7, 5], "gelu", False, True, 0.1, exclude_last_activation=True)
    members, data = loaded("vector_iqn_discrete", critics(factory, encoder, (3,), 3, discrete=True).members)
    (member,) = members.children()
    assert_close(member(data["obs"]).q_values, data["value"][0])
    assert member.train()(data["obs"]).quantile_value.quantiles.shape == (4, 6, 3)


def test_the_gradient_of_a_shared_encoder_is_the_mean_over_the_critics() -> None:
    ensemble = critics(MeanQFunctionFactory(True), SMALL, (3,), 3, discrete=True, n_critics=2)
    members, data = loaded("shared_mean_discrete", ensemble.members)
    first, second = (member(data["obs"]).q_values for member in members.children())
    assert_close(torch.stack([first, second]), data["value"])
    (first.square().sum() + second.square().sum()).backward()
    assert_close(members[0]._encoder._layers[0].weight.grad, data["gradient"])  # type: ignore[index,union-attr,arg-type]


def test_a_squashed_gaussian_policy_has_the_names_and_outputs_of_d3rlpy() -> None:
    policy, data = loaded("squashed", GaussianPolicy(*encoder_and_size(SMALL, (3,)), 2))
    distribution = policy(data["obs"])
    assert_close(distribution.mode, data["squashed_mu"])
    assert_close(distribution.base_dist.loc, data["mu"])
    assert_close(distribution.base_dist.log_scale, data["logstd"])


def test_a_policy_with_one_deviation_has_the_names_and_outputs_of_d3rlpy() -> None:
    parts, bounds = encoder_and_size(SMALL, (3,)), {"min_logstd": -5.0, "max_logstd": 2.0}
    policy, data = loaded("iql", GaussianPolicy(*parts, 2, squashes_samples=False, has_common_std=True, **bounds))
    distribution = policy(data["obs"])
    assert_close(distribution.mode, data["squashed_mu"])
    assert_close(distribution.log_scale, data["logstd"])
    sample, log_prob = distribution.rsample_with_log_prob()
    assert sample.abs().max() <= 1.0
    assert_close(
        log_prob, torch.distributions.Normal(data["squashed_mu"], data["logstd"].exp()).log_prob(sample).sum(1)
    )


@pytest.mark.parametrize(
    ("name", "network", "vector"),
    [("residual", Perturbation, "action"), ("vae_decoder", LatentDecoder, "latent"), ("value", ValueFunction, None)],
)
def test_a_linear_head_has_the_names_and_outputs_of_d3rlpy(name: str, network: Any, vector: str | None) -> None:
    size = vector and NETWORKS[f"{name}/{vector}"].shape[1]
    outputs = 1 if vector is None else 2
    made = network(*encoder_and_size(SMALL, (3,), size), outputs, takes_action=vector is not None)
    module, data = loaded(name, made)
    if name == "residual":
        ours = (data["action"] + 0.05 * module((data["obs"], data["action"]))).clamp(-1, 1)
        assert_close(ours, data["value"])
    else:
        x = data["obs"] if vector is None else (data["obs"], data[vector])
        assert_close(module(x), data["raw" if vector else "value"])


def test_the_encoder_of_a_vae_has_the_names_and_outputs_of_d3rlpy() -> None:
    encoder, data = loaded("vae_encoder", LatentEncoder(*encoder_and_size(SMALL, (3,), 2), 4))
    assert_close(encoder((data["obs"], data["action"])), torch.cat((data["mean"], data["logstd"]), 1))


def test_a_categorical_policy_has_the_names_and_outputs_of_d3rlpy() -> None:
    policy, data = loaded("categorical", CategoricalPolicy(*encoder_and_size(SMALL, (3,)), 3))
    assert_close(policy(data["obs"]).logits, data["logits"])


def saved(name: str) -> tuple[LearnableConfigWithShape, dict[str, Any], dict[str, Tensor]]:
    """Config, states and expected predictions of a file of d3rlpy 2.8.1."""
    text, states = read_learnable(DATA / f"{name}.d3")
    expected = {
        key.split(".")[1]: torch.from_numpy(value) for key, value in PREDICTIONS.items() if key.startswith(f"{name}.")
    }
    return LearnableConfigWithShape.deserialize(text), states, expected


@pytest.mark.parametrize("name", ["dqn", "discrete_cql"])
def test_discrete_files_give_the_predictions_of_d3rlpy(name: str) -> None:
    shaped, states, expected = saved(name)
    config = shaped.config
    q_function = critics(
        config.q_func_factory, config.encoder_factory, shaped.observation_shape, shaped.action_size,
        discrete=True, n_critics=config.n_critics, scaler=config.observation_scaler,
    )  # fmt: skip
    q_function.members.load_state_dict(states["q_funcs"], strict=True)
    value = q_function.eval()(expected["observations"])
    assert_close(value.greedy_actions, expected["predict"])
    assert_close(value.q_values.gather(1, expected["actions"].view(-1, 1)).squeeze(1), expected["predict_value"])


@pytest.mark.parametrize("name", ["cql", "td3_plus_bc", "iql"])
def test_continuous_files_give_the_predictions_of_d3rlpy(name: str) -> None:
    shaped, states, expected = saved(name)
    config, shape, size = shaped.config, shaped.observation_shape, shaped.action_size
    q_function = critics(
        getattr(config, "q_func_factory", MeanQFunctionFactory()), config.critic_encoder_factory, shape, size,
        discrete=False, n_critics=config.n_critics, scaler=config.observation_scaler,
    )  # fmt: skip
    q_function.members.load_state_dict(states["q_funcs"], strict=True)
    parts = *encoder_and_size(config.actor_encoder_factory, shape), size, config.observation_scaler
    kinds: dict[str, Any] = {
        "cql": lambda: GaussianPolicy(*parts), "td3_plus_bc": lambda: DeterministicPolicy(*parts),
        "iql": lambda: GaussianPolicy(*parts, squashes_samples=False, has_common_std=True),
    }  # fmt: skip
    policy = kinds[name]()
    policy.load_state_dict(states["policy"], strict=True)
    scaler, action = config.action_scaler, policy(expected["observations"]).mode
    assert_close(action if scaler is None else scaler.reverse_transform(action), expected["predict"])
    given = expected["actions"] if scaler is None else scaler.transform(expected["actions"])
    assert_close(q_function((expected["observations"], given)).q_values.squeeze(1), expected["predict_value"])
    assert_close(
        q_function((expected["observations"], action)).q_values.squeeze(1), expected["predict_value_of_predict"]
    )
    if name == "iql":
        value = ValueFunction(*encoder_and_size(config.value_encoder_factory, shape), 1, config.observation_scaler)
        value.load_state_dict(states["value_func"], strict=True)


def test_optimisers_of_files_load_in_the_order_of_parameters() -> None:
    shaped, states, _ = saved("iql")
    config, shape, size = shaped.config, shaped.observation_shape, shaped.action_size
    q_function = critics(
        MeanQFunctionFactory(), config.critic_encoder_factory, shape, size, discrete=False, n_critics=config.n_critics
    )
    value = ValueFunction(*encoder_and_size(config.value_encoder_factory, shape), 1)
    policy = GaussianPolicy(*encoder_and_size(config.actor_encoder_factory, shape), size, has_common_std=True)
    modules = [*q_function.members.named_modules(), *value.named_modules()]
    for name, factory, named in (
        ("critic_optim", config.critic_optim_factory, modules),
        ("actor_optim", config.actor_optim_factory, [*policy.named_modules()]),
    ):
        wrapper = factory.create(named, 1e-3, False)
        wrapper.load_state_dict(states[name])
        for parameter in wrapper.params:
            assert wrapper.optim.state[parameter]["exp_avg"].shape == parameter.shape
        assert wrapper.state_dict().keys() == states[name].keys()


def test_networks_convert_observations_to_the_dtype_of_their_layers() -> None:
    policy = GaussianPolicy(*encoder_and_size(SMALL, (3,)), 2).double()
    assert policy(torch.ones(2, 3)).mode.dtype == torch.float64
    assert policy(torch.ones(2, 3, dtype=torch.int32)).mode.dtype == torch.float64


class Multiplied(nn.Module):
    """Encoder of a user: the product of two parts, and the action beside it."""

    def forward(self, x: Any, action: Tensor | None = None) -> Tensor:
        features: Tensor = x[0] * x[1]
        return features if action is None else torch.cat((features, action), 1)


@dataclasses.dataclass
class MultipliedFactory(VectorEncoderFactory, type_name="multiplied_in_tests"):
    """Factory of a user for tuple observations."""

    def create(self, observation_shape: Any) -> nn.Module:
        return Multiplied()

    def create_with_action(self, observation_shape: Any, action_size: int, discrete_action: bool = False) -> nn.Module:
        return Multiplied()


def test_an_encoder_of_a_user_may_read_tuple_observations() -> None:
    shape, obs = ((3,), (3,)), (torch.ones(4, 3), torch.ones(4, 3))
    assert encoder_and_size(MultipliedFactory(), shape)[1] == 3
    ensemble = critics(MeanQFunctionFactory(), MultipliedFactory(), shape, 2, discrete=False, n_critics=2)
    assert ensemble((obs, torch.ones(4, 2))).q_values.shape == (4, 1)
