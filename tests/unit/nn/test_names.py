"""Parameters have the names that they have in PFRL, where its saved agents do not show it."""

import pytest
from torch import nn

from pfrl_like import q_functions
from pfrl_like.nn import MLP, MLPBN, Branched, LargeAtariCNN, RecurrentBranched, RecurrentSequential, SmallAtariCNN

BN = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
RNN = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
CONVOLUTIONS = "conv_layers.0 conv_layers.1 conv_layers.2"
STREAMS = "a_stream.hidden_layers.0 a_stream.output v_stream.hidden_layers.0 v_stream.output"
NORMALISED = "input_bn hidden_layers.0.linear hidden_layers.0.bn hidden_layers.1.linear hidden_layers.1.bn output"
#: Names of layers; those that end in "bn" normalise, those that begin with ":" are recurrent.
NAMES: list[tuple[nn.Module, str]] = [
    (MLP(3, 2, []), "output"),
    (MLPBN(3, 2, [4, 5], normalize_output=True), f"{NORMALISED} output_bn"),
    (MLPBN(3, 2, [], normalize_input=False), "output"),
    (SmallAtariCNN(), "layers.0 layers.1 output"),
    (LargeAtariCNN(), "layers.0 layers.1 layers.2 output"),
    (Branched(nn.Linear(2, 2), nn.Linear(2, 2)), "child_modules.0 child_modules.1"),
    (RecurrentBranched(nn.GRU(2, 3), RecurrentSequential(nn.LSTM(2, 3))), ":0 :1.0"),
    (q_functions.DuelingDQN(3), f"{CONVOLUTIONS} {STREAMS}"),
    (q_functions.DistributionalDuelingDQN(3, 5, -1, 1), f"{CONVOLUTIONS} main_stream a_stream v_stream"),
    (q_functions.SingleModelStateQFunctionWithDiscreteAction(nn.Linear(2, 2)), "model"),
    (q_functions.SingleModelStateActionQFunction(nn.Linear(2, 2)), "model"),
    (q_functions.FCSAQFunction(3, 2, 4, 0), "output"),
    (q_functions.FCBNSAQFunction(3, 2, 4, 2), NORMALISED),
    (q_functions.FCBNSAQFunction(3, 2, 4, 2, normalize_input=False), NORMALISED.removeprefix("input_bn ")),
    (q_functions.FCLateActionSAQFunction(3, 2, 4, 1), "obs_mlp.output mlp.output output"),
    (
        q_functions.FCBNLateActionSAQFunction(3, 2, 4, 1),
        "obs_mlp.input_bn obs_mlp.output obs_mlp.output_bn mlp.output output",
    ),
    (
        q_functions.FCBNLateActionSAQFunction(3, 2, 4, 1, normalize_input=False),
        "obs_mlp.output obs_mlp.output_bn mlp.output output",
    ),
    (q_functions.CosineBasisLinear(4, 6), "linear"),
]


@pytest.mark.parametrize(("module", "layers"), NAMES, ids=lambda each: type(each).__name__)
def test_parameters_have_the_names_they_have_in_pfrl(module: nn.Module, layers: str) -> None:
    expected = []
    for layer in layers.split():
        kinds = RNN if layer.startswith(":") else BN if layer.endswith("bn") else ("weight", "bias")
        expected += [f"{layer.removeprefix(':')}.{kind}" for kind in kinds]
    assert list(module.state_dict()) == expected
