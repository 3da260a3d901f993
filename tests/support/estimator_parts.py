"""Small data for tests of estimators."""

from typing import Any

import gymnasium
import numpy as np
import torch

from pfrl_like import algos
from pfrl_like.algos.fitting.hyperparameters import parameters_of
from pfrl_like.algos.fitting.unsupported import NoFit, NoValues
from pfrl_like.dataset import MDPDataset
from pfrl_like.random_streams.streams import isolated_rng

#: Networks small enough for tests.
SMALL: dict[str, Any] = {"batch_size": 16, "encoder_params": {"hidden_units": [16]}}
#: The same for estimators whose updates are many steps, or are made of many actions.
FEW: dict[str, Any] = {
    "n_actor_updates": 3, "n_critic_updates": 2, "n_action_samples": 4, "warmup_steps": 3, "context_size": 3,
    "num_layers": 1, "num_heads": 1, "update_interval": 20, "epochs": 2,
}  # fmt: skip
#: Arguments of `fit` that leave nothing behind.
QUIET: dict[str, Any] = {"save_metrics": False, "verbose": False, "show_progress": False}


def vectors(discrete: bool, n: int = 120, length: int = 20, seed: int = 0) -> MDPDataset:
    """Random vectors of four numbers; the reward is larger the nearer an action is to what the state asks for."""
    rng = np.random.default_rng(seed)
    observations = rng.normal(size=(n, 4)).astype(np.float32)
    wanted = np.tanh(observations[:, :2])
    if discrete:
        actions = rng.integers(0, 3, n)
        rewards = (actions == observations[:, :3].argmax(1)).astype(np.float64)
    else:
        actions = rng.uniform(-1, 1, (n, 2)).astype(np.float32)
        rewards = -np.square(actions - wanted).sum(1).astype(np.float64)
    terminals = np.arange(n) % length == length - 1
    return MDPDataset.from_arrays(observations, actions, rewards, terminals, discrete_action=discrete)


def images(discrete: bool, n: int = 40, length: int = 10, side: int = 16) -> MDPDataset:
    """Random images of one channel."""
    rng = np.random.default_rng(0)
    observations = rng.integers(0, 256, (n, 1, side, side), dtype=np.uint8)
    actions = rng.integers(0, 3, n) if discrete else rng.uniform(-1, 1, (n, 2)).astype(np.float32)
    terminals = np.arange(n) % length == length - 1
    return MDPDataset.from_arrays(observations, actions, rng.normal(size=n), terminals, discrete_action=discrete)


class Bounded(gymnasium.Env[Any, Any]):
    """Pays the action, which lies from 2 to 3; episodes have seven steps."""

    observation_space = gymnasium.spaces.Box(-9, 9, (4,), np.float32)
    action_space = gymnasium.spaces.Box(2, 3, (2,), np.float32)

    def __init__(self) -> None:
        self.n, self.actions = 0, list[Any]()

    def reset(self, **_: Any) -> Any:
        self.n = 0
        return np.zeros(4, np.float32), {}

    def step(self, action: Any) -> Any:
        self.n += 1
        self.actions.append(action)
        return np.full(4, self.n, np.float32), float(action.sum()), self.n == 7, False, {}


_KINDS = algos.fitting.base.ESTIMATORS
#: Those that do not learn from recorded data.
WITHOUT_FIT = sorted(name for name, kind in _KINDS.items() if hasattr(algos, name) and issubclass(kind, NoFit))
#: All estimators that learn from recorded data, by name.
ALL = sorted(name for name in _KINDS if hasattr(algos, name) and name != "Estimator" and name not in WITHOUT_FIT)
#: Those of them that learn from sequences, not from transitions.
SEQUENTIAL = ("DecisionTransformer", "DiscreteDecisionTransformer")
#: Those of them that sample actions by another method than `predict`.
SAMPLING = [name for name in ALL if name != "BCQ" and not issubclass(algos.fitting.base.ESTIMATORS[name], NoValues)]

#: Filters for such images.
SMALL_FILTERS: dict[str, Any] = {"filters": [(4, 4, 2), (4, 3, 1)], "feature_size": 8}


def make(name: str, **options: Any) -> Any:
    """A small estimator."""
    kind = algos.fitting.base.ESTIMATORS[name]
    few = {parameter: value for parameter, value in FEW.items() if parameter in kind.defaults()}
    return kind(**SMALL | few | options)


def built(name: str, **options: Any) -> Any:
    """The same with networks for `vectors` that have learnt nothing."""
    made = make(name, **options)
    made.create_impl((4,), 3 if made.discrete_action else 2)
    return made


def fitted(name: str, n_epochs: int = 1, **options: Any) -> Any:
    """The same, fitted to `vectors`."""
    made = make(name, **options)
    return made.fit(vectors(made.discrete_action), n_epochs=n_epochs, **QUIET)


def train(made: Any, n_epochs: int = 2) -> None:
    """Lets an estimator learn: from `vectors`, or in `Bounded` if it learns in an environment."""
    if isinstance(made, algos.PPO):
        made.fit_online(Bounded(), n_epochs=n_epochs, n_steps_per_epoch=30, **QUIET)
    elif type(made).__name__ not in WITHOUT_FIT:
        made.fit(vectors(made.discrete_action), n_epochs=n_epochs, **QUIET)


def predicted(made: Any, x: Any) -> Any:
    """What an estimator predicts; those that draw numbers draw the same each time."""
    with isolated_rng():
        torch.manual_seed(5)
        return made.predict(x)


def assert_same_parameters(one: Any, other: Any) -> None:
    expected = parameters_of(other.impl)
    assert all(torch.equal(tensor, expected[key]) for key, tensor in parameters_of(one.impl).items())
