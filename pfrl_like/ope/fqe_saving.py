"""Files of fitted Q evaluation: parameters with the configuration; reading them executes nothing."""

import os
from collections.abc import Mapping
from typing import Any, Self

import torch

from pfrl_like.algos.fitting.base import ESTIMATORS, Estimator
from pfrl_like.algos.fitting.saving import (
    export_greedy,
    loaded_estimator,
    made_of,
    params_from_json,
    read_model,
    told_by,
    write_model,
)
from pfrl_like.dataset.transition import stacked_shape
from pfrl_like.errors import NotFittedError
from pfrl_like.ope.fqe_config import FQEConfig
from pfrl_like.ope.policies import agent_of
from pfrl_like.utils.device import resolve_device

#: The classes that files name.
SAVED: dict[str, type["SavedFQE"]] = {}


class SavedFQE:
    """What of fitted Q evaluation goes into files, and comes out of them."""

    discrete_action: bool | None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        SAVED[cls.__name__] = cls

    def params(self) -> dict[str, Any]:
        """What it is made of, as values that JSON has: class, configuration, shapes, and the estimator evaluated.

        An agent that is evaluated cannot be made anew from a file, and is None there.
        """
        fqe: Any = self
        algo = fqe.algo
        estimator = isinstance(algo, Estimator)
        return {
            "class": type(self).__name__, "config": fqe.config.described(fqe.scalers),
            "observation_shape": None if fqe.observation_shape is None else list(fqe.observation_shape),
            "action_size": fqe.action_size, "discrete_action": fqe.discrete_action, "n_frames": fqe.n_frames,
            "algo": algo._json_params() if estimator else None,
        }  # fmt: skip

    @classmethod
    def of_params(cls, params: Mapping[str, Any], device: Any, algo: Any = None) -> Self:
        """What `params` was made of, built if it was; an estimator that was evaluated is made anew unless one is given.

        Raises:
            ValueError: If these are no such values.
        """
        known: Any = SAVED.get(str(params.get("class")))
        if known is None or not isinstance(params.get("config"), Mapping):
            raise ValueError(f"class is {params.get('class')!r}, expected one of {', '.join(SAVED)}")
        shape, size = params["observation_shape"], params["action_size"]
        if algo is None and params["algo"] is not None:
            algo = made_of(ESTIMATORS[params["algo"]["algorithm"]], params["algo"])
        config = FQEConfig.from_described(params["config"])
        made: Any = known(algo, config, device)
        made.n_frames = params.get("n_frames", 1)
        made.take_kind(params.get("discrete_action"))
        if shape is not None:
            made.create_impl(tuple(shape), size)
        found: Self = made
        return found

    @classmethod
    def from_json(cls, fname: str | os.PathLike[str], device: int | str | bool = False) -> Self:
        """Make it from `params.json`, with networks that have learnt nothing.

        Args:
            fname: The file.
            device: As of the constructor.

        Raises:
            CheckpointError: If it is no such file.
        """
        with told_by(fname):
            return cls.of_params(params_from_json(fname), device)

    def save(self, fname: str | os.PathLike[str]) -> None:
        """Save all that `load_learnable` makes it of again, the parameters of an evaluated estimator included.

        Raises:
            NotFittedError: Before it is built.
            CheckpointError: If the file cannot be written; an old one of this name stays.
        """
        fqe: Any = self
        state = fqe.agent.state_dict()
        policy = agent_of(fqe.algo).state_dict()["attributes"] if isinstance(fqe.algo, Estimator) else {}
        attributes = {"critics": _without_policy(state), "policy": policy}
        write_model(fname, {"attributes": attributes, "state": state["state"]}, self.params())

    #: As estimators call it; of such a file `load_model` takes the parameters alone.
    save_model = save

    def load_model(self, fname: str | os.PathLike[str]) -> None:
        """Load the parameters that `save_model` or `save` saved; the evaluated policy stays what it is.

        Raises:
            CheckpointError: If the file is damaged, or of other networks.
        """
        fqe: Any = self
        state, params = read_model(fname)
        if fqe.impl is None:
            with told_by(fname):
                fqe.build_as(params)
        self._take(fname, state)

    def save_policy(self, fname: str | os.PathLike[str]) -> None:
        """Export the evaluated policy; the format is that of the file's ending, such as ".onnx", otherwise TorchScript.

        Raises:
            NotFittedError: Before it is built, or if the algorithm is not known.
            TypeError: If it cannot be exported.
        """
        fqe: Any = self
        if fqe.algo is None or fqe.observation_shape is None:
            raise NotFittedError("fitted Q evaluation is not built yet, or does not know the algorithm: give algo")
        if hasattr(fqe.algo, "save_policy"):
            fqe.algo.save_policy(fname)
            return
        agent = agent_of(fqe.algo)
        if not hasattr(agent, "export"):
            raise TypeError(f"algo is a {type(agent).__name__}, expected an agent or an estimator to export")
        export_greedy(agent, stacked_shape(fqe.observation_shape, fqe.n_frames), fname)

    def build_as(self, params: Mapping[str, Any]) -> None:
        """Build the agent for the shapes of what `params` gave, with its fitted scalers."""
        fqe: Any = self
        fqe.scalers = FQEConfig.from_described(params["config"]).made_scalers()
        fqe.take_kind(params.get("discrete_action"))
        fqe.create_impl(tuple(params["observation_shape"]), params["action_size"])

    def _take(self, fname: Any, state: Mapping[str, Any]) -> None:
        fqe: Any = self
        own = fqe.agent.state_dict()["attributes"]
        policy = {name: value for name, value in own.items() if name == "policy"}
        with told_by(fname):
            attributes = {**policy, **state["attributes"]["critics"]}
            fqe.agent.load_state_dict({"attributes": attributes, "state": state["state"]})


def loaded_fqe(fname: Any, state: Mapping[str, Any], params: Mapping[str, Any], device: Any, algo: Any) -> Any:
    """What `FQE.save` saved.

    Args:
        fname: The file.
        state: What `read_model` read of it.
        params: Likewise.
        device: As of `FQE`.
        algo: What is evaluated; None for the estimator that was.

    Raises:
        CheckpointError: If the file tells what cannot be.
    """
    with told_by(fname):
        made: Any = SavedFQE.of_params(params, device, algo)
        made._take(fname, state)
        policy = state["attributes"]["policy"]
        if algo is None and policy:
            agent: Any = made.algo.impl
            agent.load_state_dict({**agent.state_dict(), "attributes": policy})
    return made


def _without_policy(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in state["attributes"].items() if name != "policy"}


def load_learnable(
    fname: str | os.PathLike[str], *, device: int | str | torch.device | bool = False, algo: Any = None
) -> Any:
    """What `save` of an estimator or of `FQE` saved; reading it executes nothing.

    Args:
        fname: The file.
        device: False for the CPU, True for the first GPU, the number of one, or a name that torch knows, such
            as "cpu:0" or "cuda:1".
        algo: What an `FQE` evaluates; None for the estimator that was. An agent is in no file: without it values are
            known, actions are not.

    Returns:
        An estimator, or an `FQE`, which goes on as the one that was saved.

    Raises:
        CheckpointError: If the file is damaged or holds something else.
        TypeError: If `algo` is given, but the file holds an estimator.
        ValueError: If the device is not there, or an estimator cannot use one of its kind.
    """
    state, params = read_model(fname)
    if "algorithm" not in params:
        return loaded_fqe(fname, state, params, device, algo)
    if algo is not None:
        raise TypeError(f"algo is a {type(algo).__name__}, but {fname} holds a {params['algorithm']}, expected None")
    return loaded_estimator(fname, state, params, _gpu_of(device))


def _gpu_of(device: int | str | torch.device | bool) -> int | bool:
    """The device as estimators take it."""
    if not isinstance(device, str | torch.device):
        return device
    named = resolve_device(None, device)
    if named.type not in {"cpu", "cuda"}:
        raise ValueError(f"device is {device!r}, expected 'cpu' or 'cuda:<number>' for an estimator")
    return False if named.index is None else named.index
