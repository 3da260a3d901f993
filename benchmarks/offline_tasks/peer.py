"""The algorithms of d3rlpy 2.8, with the same networks and hyperparameters; run by an interpreter that has it."""

import time
from typing import Any

import d3rlpy
import numpy as np
from d3rlpy import algos
from d3rlpy.logging import NoopAdapterFactory
from d3rlpy.preprocessing import StandardObservationScaler

#: Our names of hyperparameters, and d3rlpy's.
_NAMES = {
    "actor_lr": "actor_learning_rate",
    "critic_lr": "critic_learning_rate",
    "alpha_lr": "alpha_learning_rate",
    "imitator_lr": "imitator_learning_rate",
    "temperature_lr": "temp_learning_rate",
    "policy_update_delay": "update_actor_interval",
}
_OF_ALGORITHM = {
    "CQL": {"gap_threshold": "alpha_threshold"},
    "CalQL": {"gap_threshold": "alpha_threshold"},
    "BC": {"actor_lr": "learning_rate"},
    "DiscreteBC": {"actor_lr": "learning_rate"},
    "DiscreteCQL": {"critic_lr": "learning_rate", "conservative_weight": "alpha"},
    "DiscreteBCQ": {"critic_lr": "learning_rate"},
    "IQL": {"beta": "weight_temp"},
}
_OWN: dict[str, dict[str, Any]] = {"CRR": {"n_critics": 2, "target_update_type": "soft"}, "BEAR": {"warmup_steps": 0}}


class _OutOfTime(Exception):
    """Ends a training run."""


def available(algorithm: str) -> bool:
    """Whether the library has it."""
    return hasattr(algos, f"{algorithm}Config")


def _made(algorithm: str, settings: dict[str, Any], data: str, seed: int) -> tuple[Any, Any]:
    d3rlpy.seed(seed)
    kind = getattr(algos, f"{algorithm}Config")
    names = _NAMES | _OF_ALGORITHM.get(algorithm, {})
    given = {names.get(name, name): value for name, value in settings.items()} | _OWN.get(algorithm, {})
    if algorithm == "BEAR":  # here as many are drawn to act
        given["n_target_samples"] = settings["n_action_samples"]
    encoder = d3rlpy.models.encoders.VectorEncoderFactory(hidden_units=list(settings["hidden"]))
    fields = kind.__dataclass_fields__
    given |= {name: encoder for name in fields if name.endswith("encoder_factory")}
    given["observation_scaler"] = StandardObservationScaler() if settings.get("standard_scaler") else None
    config = kind(**{name: value for name, value in given.items() if name in fields})
    with np.load(data) as arrays:
        discrete = bool(arrays["discrete_action"])
        actions = arrays["actions"].reshape(-1, 1) if discrete else arrays["actions"]
        dataset = d3rlpy.dataset.MDPDataset(
            *(arrays["observations"].astype(np.float32), actions, arrays["rewards"].astype(np.float32)),
            *(arrays[name].astype(np.float32) for name in ("terminals", "timeouts")),
            action_space=d3rlpy.ActionSpace.DISCRETE if discrete else d3rlpy.ActionSpace.CONTINUOUS,
        )
    algo = config.create(device="cpu")
    algo.build_with_dataset(dataset)
    return algo, dataset


def _fit(algo: Any, dataset: Any, updates: int, callback: Any = None) -> None:
    algo.fit(
        dataset, n_steps=updates, n_steps_per_epoch=min(updates, 1_000), logger_adapter=NoopAdapterFactory(),
        show_progress=False, save_interval=10**9, callback=callback,
    )  # fmt: skip


def train(algorithm: str, settings: dict[str, Any], data: str, seed: int, policy: str) -> int:
    """Train and write the greedy policy as TorchScript.

    Returns:
        Transitions that there were to learn from.
    """
    algo, dataset = _made(algorithm, settings, data, seed)
    _fit(algo, dataset, settings["updates"])
    algo.save_policy(policy)
    return int(dataset.transition_count)


def rate(algorithm: str, settings: dict[str, Any], data: str, seconds: float, warm: int) -> float:
    """Updates a second in a run, after the first ones."""
    algo, dataset = _made(algorithm, settings, data, 0)
    start = 0.0
    result: list[float] = []

    def watch(algo: Any, epoch: int, step: int) -> None:
        nonlocal start
        if step == warm:
            start = time.perf_counter()
        elif step > warm and (elapsed := time.perf_counter() - start) >= seconds:
            result.append((step - warm) / elapsed)
            raise _OutOfTime

    try:
        _fit(algo, dataset, 10**9, watch)
    except _OutOfTime:
        return result[0]
    raise RuntimeError("training ended by itself")
