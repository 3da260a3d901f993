import numpy as np
import pytest
import torch
from torch import nn

from pfrl_like.action_value import DiscreteActionValue, DistributionalDiscreteActionValue
from pfrl_like.nn import FactorizedNoisyLinear, to_factorized_noisy
from pfrl_like.q_functions import DistributionalDuelingDQN, DuelingDQN

FRAMES = torch.rand(2, 4, 84, 84)
DISTRIBUTIONAL_STREAMS = {"main_stream": (1024, 3136), "a_stream": (15, 512), "v_stream": (5, 512)}


def test_distributional_sizes_are_those_of_pfrl() -> None:
    state = DistributionalDuelingDQN(3, 5, -1, 1).state_dict()
    assert {s: tuple(state[f"{s}.weight"].shape) for s in DISTRIBUTIONAL_STREAMS} == DISTRIBUTIONAL_STREAMS


def test_values_are_the_sum_of_the_streams() -> None:
    q_function = DuelingDQN(3)
    for stream, numbers in ((q_function.a_stream, [1.0, 0.0, 5.0]), (q_function.v_stream, [10.0])):
        nn.init.zeros_(stream.output.weight)
        stream.output.bias.data = torch.tensor(numbers)
    value = q_function(FRAMES)
    assert isinstance(value, DiscreteActionValue)
    # the mean of the advantages is 2
    assert value.q_values.tolist() == [[9.0, 8.0, 13.0]] * 2


def test_distributions_are_the_softmax_of_the_sum_of_the_streams() -> None:
    q_function = DistributionalDuelingDQN(2, 2, 0, 1)
    for stream, numbers in ((q_function.a_stream, [0.0, 4.0, 2.0, 0.0]), (q_function.v_stream, [1.0, 2.0])):
        nn.init.zeros_(stream.weight)
        stream.bias.data = torch.tensor(numbers)
    value = q_function(FRAMES)
    assert isinstance(value, DistributionalDiscreteActionValue)
    # logits: atom 0 has 1 + (0 - 1) = 0 and 1 + (2 - 1) = 2, atom 1 has 2 + (4 - 2) = 4 and 2 + (0 - 2) = 0
    expected = torch.tensor([[0.0, 4.0], [2.0, 0.0]]).softmax(1)
    torch.testing.assert_close(value.q_dist, expected.expand(2, 2, 2))
    torch.testing.assert_close(value.q_values, expected[:, 1].expand(2, 2))  # the atoms are 0 and 1


def test_advantages_come_from_the_first_half_of_the_main_stream() -> None:
    q_function = DistributionalDuelingDQN(2, 2, 0, 1)
    nn.init.zeros_(q_function.main_stream.weight)
    with torch.no_grad():
        q_function.main_stream.bias[512:] = 1.0
    q_function(FRAMES).q_dist[:, :, 0].sum().backward()
    assert q_function.a_stream.weight.grad is not None
    assert not q_function.a_stream.weight.grad.any()
    assert q_function.v_stream.weight.grad is not None
    assert q_function.v_stream.weight.grad.any()


def test_atoms_are_evenly_spaced_follow_the_module_and_are_not_saved() -> None:
    q_function = DistributionalDuelingDQN(3, 5, -1, 3)
    assert q_function.z_values.tolist() == [-1.0, 0.0, 1.0, 2.0, 3.0]
    assert q_function.to("meta").z_values.device.type == "meta"


@pytest.mark.parametrize("make", [DuelingDQN, lambda n, **options: DistributionalDuelingDQN(n, 3, -1, 1, **options)])
def test_channels_activation_and_bias_are_used(make) -> None:
    q_function = make(2, n_input_channels=1, activation=torch.zeros_like, bias=0.5)
    assert q_function.conv_layers[0].weight.shape[1] == 1
    assert all(bool((layer.bias == 0.5).all()) for layer in q_function.conv_layers)
    assert torch.equal(*(q_function(torch.rand(1, 1, 84, 84)).q_values for _ in range(2)))


def test_sizes_of_numpy_become_ints_which_a_compiler_takes_for_constants() -> None:
    q_function = DistributionalDuelingDQN(np.int64(2), np.int64(3), -1.0, 1.0)  # as gymnasium counts actions
    assert [type(size) for size in (q_function.n_actions, q_function.n_atoms)] == [int] * 2


def test_streams_can_be_made_noisy() -> None:
    q_function = DistributionalDuelingDQN(3, 5, -1, 1)
    to_factorized_noisy(q_function, sigma_scale=0.5)
    assert all(isinstance(getattr(q_function, name), FactorizedNoisyLinear) for name in DISTRIBUTIONAL_STREAMS)
    assert not torch.equal(q_function(FRAMES).q_values, q_function(FRAMES).q_values)
