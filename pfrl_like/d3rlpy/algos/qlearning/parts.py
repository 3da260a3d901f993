"""The agent of an algorithm, and its networks and optimisers under d3rlpy 2's names."""

import dataclasses
from typing import Any

from torch import Tensor

from pfrl_like.d3rlpy.models.q_functions import MeanQFunctionFactory, critics
from pfrl_like.d3rlpy.optimizers import OptimizerWrapper
from pfrl_like.d3rlpy.torch_utility import Modules
from pfrl_like.learning.lagrange import TemperatureHolder

#: What an algorithm refuses, because its targets, draws or moments are not those of d3rlpy.
REFUSED = {
    "AWAC": ("batch_norm",), "BCQ": ("iqn", "batch_norm"), "BEAR": ("iqn", "batch_norm"), "CQL": ("iqn", "batch_norm"),
    "CRR": ("batch_norm",), "CalQL": ("iqn", "batch_norm"), "DiscreteSAC": ("iqn", "qr"), "IQL": ("batch_norm",),
    "PLAS": ("batch_norm",), "PLASWithPerturbation": ("batch_norm",),
}  # fmt: skip
#: Optimisers of logarithms, which are scalars here and have the shape (1, 1) in d3rlpy.
_OF_LOGARITHMS = ("temp_optim", "alpha_optim")


class Parts(Modules):
    """Networks and optimisers in the order of d3rlpy 2's files.

    Args:
        parts: Networks and `OptimizerWrapper`s, keyed by d3rlpy's names.
    """

    def __init__(self, **parts: Any) -> None:
        vars(self).update(parts)

    def state_dicts(self) -> dict[str, Any]:
        """Return the state dict of each part."""
        return {name: _state_of(name, part) for name, part in vars(self).items()}

    def load_state_dicts(self, states: dict[str, Any]) -> None:
        """Load the result of `state_dicts`.

        Raises:
            ValueError: If the names of the parts differ.
            RuntimeError: If a network has other parameters.
        """
        if states.keys() != vars(self).keys():
            raise ValueError(f"the modules are {', '.join(states)}, expected {', '.join(vars(self))}")
        for name, part in vars(self).items():
            if isinstance(part, TemperatureHolder):
                part.load_state_dict({"log_temperature": states[name]["_parameter"].reshape(())})
            else:
                part.load_state_dict(_reshaped(states[name], ()) if name in _OF_LOGARITHMS else states[name])

    def use_scaler(self, scaler: Any) -> None:
        """Let the networks scale observations with `scaler`, or not at all if it is None."""
        for network in self.get_torch_modules().values():
            for module in network.modules():
                if hasattr(module, "scaler"):
                    module.scaler = scaler

    def optimizers(self) -> list[OptimizerWrapper]:
        """Return the optimisers."""
        return [part for part in vars(self).values() if isinstance(part, OptimizerWrapper)]


def _state_of(name: str, part: Any) -> dict[str, Any]:
    """Return the state dict of a part in d3rlpy's form."""
    if isinstance(part, TemperatureHolder):
        return {"_parameter": part.log_temperature.detach().reshape(1, 1)}
    state: dict[str, Any] = part.state_dict()
    return _reshaped(state, (1, 1)) if name in _OF_LOGARITHMS else state


def _reshaped(state: dict[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
    """Return the state of an optimiser of one number, whose moments get a shape."""

    def value(key: str, each: Any) -> Any:
        return each.reshape(shape) if isinstance(each, Tensor) and key != "step" else each

    moments = {i: {key: value(key, each) for key, each in of.items()} for i, of in state["optim"]["state"].items()}
    return {**state, "optim": {**state["optim"], "state": moments}}


@dataclasses.dataclass
class Implementation:
    """Agent of an algorithm, with its networks and optimisers.

    Args:
        agent: Agent that learns.
        modules: Networks and optimisers of the agent.
    """

    agent: Any
    modules: Parts


def build_critics(config: Any, prefix: str, observation_shape: Any, action_size: int, discrete: bool) -> Any:
    """Return the ensemble of Q-functions of a config.

    Args:
        config: Config of the algorithm.
        prefix: Beginning of the name of the field with the factory of encoders: "" or "critic_".
        observation_shape: Shape of an observation.
        action_size: Number of discrete actions, or size of an action vector.
        discrete: True if actions are indices.

    Raises:
        ValueError: If updates with these networks would not be those of d3rlpy.
    """
    factory = getattr(config, "q_func_factory", MeanQFunctionFactory())  # IQL has no such field
    name, kind = type(config).__name__.removesuffix("Config"), factory.get_type()
    refused = REFUSED.get(name, ())
    if kind in refused or (discrete and kind == "iqn" and config.n_critics > 1):
        got = f"q_func_factory is {kind} and n_critics {config.n_critics}, with which {name} would differ from d3rlpy"
        raise ValueError(f"{got}: choose a MeanQFunctionFactory")
    if "batch_norm" in refused and any(getattr(each, "use_batch_norm", False) for each in vars(config).values()):
        raise ValueError(f"use_batch_norm is True, with which {name} would differ from d3rlpy: choose False")
    return critics(
        factory, getattr(config, f"{prefix}encoder_factory"), observation_shape, action_size,
        discrete=discrete, n_critics=config.n_critics, scaler=config.observation_scaler,
    )  # fmt: skip
