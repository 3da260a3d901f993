"""What estimators take over from others, and forget."""

import copy
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from pfrl_like.algos.fitting.scaling import SCALERS
from pfrl_like.utils.copy_param import check_same_form, copy_param
from pfrl_like.utils.user_warnings import levels_to_the_caller


def take_states(
    params: Sequence[Tensor], optimizers: Sequence[Optimizer], others: Sequence[Tensor], theirs: Sequence[Optimizer]
) -> None:
    """Give parameters copies of what optimisers keep of others; of one that keeps nothing yet, nothing is kept then.

    Learning rates and the like stay.

    Args:
        params: The parameters.
        optimizers: Optimisers, among which are those of the parameters.
        others: A parameter of the same form for each.
        theirs: Optimisers, among which are those of the others.

    Raises:
        ValueError: If an optimiser is missing or of another kind, or keeps a tensor that has neither the parameter's
            shape nor is a number; all stay as they were.
    """
    new: dict[int, dict[str, Any]] = {}
    for param, other in zip(params, others, strict=True):
        own, source = _owner(param, optimizers), _owner(other, theirs)
        if type(own) is not type(source):
            raise ValueError(f"algo learns by {type(source).__name__}, expected {type(own).__name__}")
        new[id(param)] = copy.deepcopy(source.state.get(other, {}))
        for name, value in new[id(param)].items():
            if isinstance(value, Tensor) and value.dim() and value.shape != param.shape:
                got, expected = tuple(value.shape), tuple(param.shape)
                raise ValueError(f"algo has an optimiser whose {name} has shape {got}, expected {expected}")
    for optimizer in {id(each): each for each in (_owner(param, optimizers) for param in params)}.values():
        _put(optimizer, new)


def _owner(param: Tensor, optimizers: Sequence[Optimizer]) -> Optimizer:
    for optimizer in optimizers:
        if any(each is param for group in optimizer.param_groups for each in group["params"]):
            return optimizer
    raise ValueError(f"there is no optimiser of a parameter of shape {tuple(param.shape)}")


def _put(optimizer: Optimizer, new: dict[int, dict[str, Any]]) -> None:
    whole = optimizer.state_dict()
    params = [param for group in optimizer.param_groups for param in group["params"]]
    states = {i: new.get(id(param), whole["state"].get(i)) for i, param in enumerate(params)}
    whole["state"] = {i: state for i, state in states.items() if state}
    with torch.no_grad():
        optimizer.load_state_dict(whole)


class Copying:
    """Parameters of another estimator's networks, with their optimisers' states, and optimisers that begin anew.

    What is taken is looked at as a whole before anything is copied.
    """

    @property
    def _agent(self) -> Any:
        """The agent."""
        raise NotImplementedError

    def copy_policy_from(self, algo: Any) -> None:
        """Take the parameters of another estimator's policy, whose networks are alike; targets follow at once.

        A target takes those of the other one's target, or of its network where there is none. The scalers, through
        which a network sees observations, actions and rewards, are no parameters and stay: with others than the other
        one's, which is warned of, the network does something else. `scaler=algo.scaler_`, and so on, in the constructor
        makes them the same.

        Args:
            algo: The other estimator.

        Raises:
            NotFittedError: If one of the two is not built yet.
            TypeError: If `algo` is no estimator.
            ValueError: If one has none, or the networks differ; nothing is copied.
        """
        self._copy(algo, "policy")

    def copy_policy_optim_from(self, algo: Any) -> None:
        """Take what the optimiser of another estimator's policy keeps of earlier steps, such as means of gradients.

        Learning rates and the like, which are hyperparameters, stay. Arguments and errors as of `copy_policy_from`; a
        ValueError also if the optimisers are of different kinds.
        """
        self._copy_states(algo, "policy")

    def copy_q_function_from(self, algo: Any) -> None:
        """Take the parameters of another estimator's Q-functions; otherwise as `copy_policy_from`."""
        self._copy(algo, "Q-function")

    def copy_q_function_optim_from(self, algo: Any) -> None:
        """Take the state of the optimiser of another estimator's Q-functions; otherwise as `copy_policy_optim_from`."""
        self._copy_states(algo, "Q-function")

    def _copy(self, algo: Any, what: str) -> None:
        names = self._shared(algo, what)
        pairs = [pair for each in names for pair in _with_targets(self._agent, algo._agent, *each)]
        for own, other in pairs:
            check_form(own, other, what)
        _warn_of_scalers(self, algo, what)
        for own, other in pairs:
            copy_param(own, other)

    def _copy_states(self, algo: Any, what: str) -> None:
        names = self._shared(algo, what)
        ours, theirs = self._agent, algo._agent
        pairs = [(getattr(ours, own), getattr(theirs, other)) for own, other in names]
        take_states_of(ours, theirs, pairs, what)

    def _shared(self, algo: Any, what: str) -> list[tuple[str, str]]:
        """The names of the networks of a kind here, and there."""
        if not isinstance(algo, Copying):
            raise TypeError(f"algo is a {type(algo).__name__}, expected an estimator")
        ours, theirs = _names(self._agent, what), _names(algo._agent, what)
        if not ours or len(ours) != len(theirs):
            kinds = f"{type(algo).__name__} to {type(self).__name__}"
            raise ValueError(f"{kinds}: expected two estimators that have a {what}")
        return [*zip(ours, theirs, strict=True)]

    def reset_optimizer_states(self) -> None:
        """Let all optimisers forget what they keep of earlier steps."""
        reset_optimizers(self._agent)


def _warn_of_scalers(algo: Any, other: Any, what: str) -> None:
    for name, column in SCALERS.items():
        ours, theirs = (getattr(each, f"{name}_") for each in (algo, other))
        described = [None if each is None else each.describe() for each in (ours, theirs)]
        if described[0] != described[1] and (what, column) != ("policy", "rewards"):
            warnings.warn(
                f"the {what} has learnt from {column} through the {name} {theirs!r:.60}, and sees them through "
                f"{ours!r:.60} here: make the estimator with {name}=algo.{name}_ of the other one",
                UserWarning,
                stacklevel=levels_to_the_caller(),
            )


def _names(agent: Any, what: str) -> list[str]:
    """The attributes of an agent that are networks of a kind, "policy" or "Q-function"."""
    names = ("policy",) if what == "policy" else getattr(agent, "critic_arguments", ("model",))
    return [name for name in names if isinstance(getattr(agent, name, None), nn.Module)]


def _with_targets(ours: Any, theirs: Any, name: str, other_name: str) -> Iterator[tuple[nn.Module, nn.Module]]:
    """The network to copy to and the one to copy from, and then the same of targets."""
    other = getattr(theirs, other_name)
    yield getattr(ours, name), other
    if (target := getattr(ours, f"target_{name}", None)) is not None:
        yield target, getattr(theirs, f"target_{other_name}", other)


def _optimizers(agent: Any) -> list[Any]:
    return [step.optimizer for step in agent.gradient_steps.values()]


def check_form(own: nn.Module, other: nn.Module, what: str) -> None:
    """Refuse another network whose parameters do not fit.

    Raises:
        ValueError: If it is of another form, naming what it is.
    """
    try:
        check_same_form(own, other)
    except ValueError as error:
        raise ValueError(f"algo has a {what} of another form: {error}") from error


def take_from(own: nn.Module, other: nn.Module, what: str) -> None:
    """Take the parameters of another network.

    Raises:
        ValueError: If it is of another form, naming what it is.
    """
    check_form(own, other, what)
    copy_param(own, other)


def take_states_of(agent: Any, other: Any, networks: Sequence[tuple[nn.Module, nn.Module]], what: str) -> None:
    """Take what the optimisers of another agent keep of some networks; learning rates and the like stay.

    Args:
        agent: The agent.
        other: The other agent.
        networks: Those of the agent, each with that of the other one.
        what: What they are, for messages.

    Raises:
        ValueError: If networks are of another form, or optimisers of another kind; all stay as they were.
    """
    for own, theirs in networks:
        check_form(own, theirs, what)
    params = [param for own, _ in networks for param in own.parameters()]
    others = [param for _, theirs in networks for param in theirs.parameters()]
    take_states(params, _optimizers(agent), others, _optimizers(other))


def reset_optimizers(agent: Any) -> None:
    """Let all optimisers of an agent forget what they keep of earlier steps."""
    for optimizer in _optimizers(agent):
        optimizer.state.clear()
