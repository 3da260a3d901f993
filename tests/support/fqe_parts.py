"""Small fitted Q evaluations and what they evaluate."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from agent_parts import make_agent
from torch import nn

from pfrl_like import algos, ope
from pfrl_like.dataset import MDPDataset
from pfrl_like.loggers import NoopAdapterFactory
from pfrl_like.policies import SoftmaxCategoricalHead

QUIET: dict[str, Any] = {"logger_adapter": NoopAdapterFactory(), "show_progress": False}
OBS = 5  # of `Noise`
DISCRETE, BOX = gymnasium.spaces.Discrete(2), gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)


class LeansOn:
    """Something with `predict` alone: action 1, or (x0, x1), where the first number is positive."""

    def __init__(self, discrete: bool) -> None:
        self.discrete = discrete

    def predict(self, x: Any) -> Any:
        return (x[:, 0] > 0).astype(np.int64) if self.discrete else np.tanh(x[:, :2])


def config(**options: Any) -> ope.FQEConfig:
    return ope.FQEConfig(**{"batch_size": 16, "encoder_params": {"hidden_units": (8,)}, **options})


def data(discrete: bool = True, n: int = 60) -> MDPDataset:
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, n) if discrete else rng.uniform(-1, 1, (n, 2))
    last = np.arange(n) % 10 == 9
    terminal = last & (np.arange(n) % 20 == 9)
    obs = rng.normal(size=(n, OBS)).astype(np.float32)
    return MDPDataset.from_arrays(obs, action, rng.normal(size=n), terminal, last & ~terminal, discrete_action=discrete)


def make(discrete: bool = True, algo: Any = None, **options: Any) -> ope.FQE:
    return (ope.DiscreteFQE if discrete else ope.FQE)(algo or LeansOn(discrete), config(**options))


def unfitted(discrete: bool = True, algo: Any = None, **options: Any) -> ope.FQE:
    """With networks for `data` that have learnt nothing."""
    fqe = make(discrete, algo, **options)
    fqe.build_with_dataset(data(discrete))
    return fqe


def fitted(discrete: bool = True, algo: Any = None, n_steps: int = 20, **options: Any) -> ope.FQE:
    torch.manual_seed(0)
    fqe = make(discrete, algo, **options)
    fqe.fit(data(discrete), n_steps, **QUIET)
    return fqe


def networks(fqe: ope.FQE) -> list[Any]:
    return [parameter.detach().clone() for critic in fqe.agent.critics for parameter in critic.parameters()]


def alike(first: ope.FQE, second: ope.FQE) -> bool:
    return all(map(torch.equal, networks(first), networks(second)))


def softmax_policy() -> nn.Module:
    return nn.Sequential(nn.Linear(OBS, 2), SoftmaxCategoricalHead())


EVALUATED: dict[str, tuple[bool, Callable[[], Any]]] = {
    "a Q-function's agent": (True, lambda: make_agent("DoubleDQN")),
    "distributions of returns": (True, lambda: make_agent("QRDQN")),
    "a discrete estimator": (True, lambda: built(algos.DiscreteCQL())),
    "an estimator that keeps to likely actions": (True, lambda: built(algos.DiscreteBCQ(action_flexibility=0.99))),
    "a discrete policy": (True, softmax_policy),
    "a continuous estimator": (False, lambda: built(algos.TD3(actor_learning_rate=1e-3))),
    "imitation": (False, lambda: built(algos.BC())),
    "predict alone": (True, lambda: LeansOn(True)),
}


def actions_of(algo: Any, x: Any) -> Any:
    """What an algorithm does in evaluation."""
    if hasattr(algo, "predict"):
        return algo.predict(x)
    if isinstance(algo, nn.Module):
        return algo(torch.tensor(x)).probs.argmax(1)
    with algo.eval_mode():
        return np.asarray(algo.batch_act([*x]))


def built(estimator: Any, action_size: int = 2) -> Any:
    estimator.create_impl((OBS,), action_size)
    return estimator
