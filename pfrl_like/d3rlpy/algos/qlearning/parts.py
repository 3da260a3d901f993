"""The agent of an algorithm, and its networks and optimisers under d3rlpy 2's names."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from pfrl_like.d3rlpy.models.q_functions import MeanQFunctionFactory, critics
from pfrl_like.d3rlpy.optimizers import OptimizerWrapper
from pfrl_like.d3rlpy.torch_utility import Modules
from pfrl_like.learning.lagrange import TemperatureHolder

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

    def get_gradients(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield `<network>.<parameter>` and the gradient of each parameter that has one, with d3rlpy's names."""
        for name, gradient in super().get_gradients():
            yield f"{name.split('.')[0]}._parameter" if name.startswith("log_") else name, gradient

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
    """Agent of an algorithm, with its networks and optimisers. Networks scale observations themselves.

    As in d3rlpy, methods take scaled observations, and return actions that are not scaled back. Networks that are
    called directly scale observations, and return the distributions and action values of this library.

    Args:
        algo: The algorithm.
        agent: Agent that learns.
        modules: Networks and optimisers of the agent.
        n_tokens: Number of steps of the data that updates have used. Only a discrete Decision Transformer counts them.
    """

    algo: Any
    agent: Any
    modules: Parts
    n_tokens: int = 0

    @property
    def observation_shape(self) -> Any:
        """Shape of an observation."""
        return self.algo.observation_shape

    @property
    def action_size(self) -> Any:
        """Number of discrete actions, or size of an action vector."""
        return self.algo.action_size

    @property
    def device(self) -> str:
        """Device of the networks."""
        return str(self.algo._device)

    @property
    def policy(self) -> Any:
        """Policy network. Raises `NotImplementedError` if there is none, like the other parts."""
        return self.part(self.algo.policy_parts[0], "policy")

    @property
    def policy_optim(self) -> Any:
        """Optimiser of the policy."""
        return self.part(self.algo.policy_parts[1], "policy").optim

    @property
    def q_function(self) -> Any:
        """Critics, a `torch.nn.ModuleList`."""
        return self.part("q_funcs" if self.algo.critic_optimizer else "", "Q-function")

    @property
    def q_function_optim(self) -> Any:
        """Optimiser of the critics."""
        return self.part(self.algo.critic_optimizer, "Q-function").optim

    def predict_best_action(self, x: Any) -> Tensor:
        """Return greedy actions, [N] or [N, A], in evaluation mode, from scaled observations as tensors."""
        with self.algo._evaluating():
            return self.inner_predict_best_action(x)

    def inner_predict_best_action(self, x: Any) -> Tensor:
        """Return greedy actions like `predict_best_action`, in the current mode of the networks."""
        self.modules.use_scaler(None)
        try:
            actions: Tensor = self.algo._greedy(x)
        finally:
            self.modules.use_scaler(self.algo.observation_scaler)
        return actions

    def part(self, name: str, what: str) -> Any:
        """Return a network or an optimiser.

        Args:
            name: d3rlpy's name of the part. If empty, there is no such part.
            what: Words for the error.

        Raises:
            NotImplementedError: If there is no such part.
        """
        if not name:
            raise NotImplementedError(f"{type(self.algo).__name__} has no {what}")
        return getattr(self.modules, name)


def build_critics(config: Any, prefix: str, observation_shape: Any, action_size: int, discrete: bool) -> Any:
    """Return the ensemble of Q-functions of a config.

    Args:
        config: Config of the algorithm.
        prefix: Beginning of the name of the field with the factory of encoders: "" or "critic_".
        observation_shape: Shape of an observation.
        action_size: Number of discrete actions, or size of an action vector.
        discrete: True if actions are indices.
    """
    factory = getattr(config, "q_func_factory", MeanQFunctionFactory())  # IQL has no such field
    return critics(
        factory, getattr(config, f"{prefix}encoder_factory"), observation_shape, action_size,
        discrete=discrete, n_critics=config.n_critics, scaler=config.observation_scaler,
    )  # fmt: skip
