"""How much of the package an update passes through, from an environment's last step to the first optimiser step.

The parts are fixed: agents of usual networks on made-up observations, every check and cache already warm. A bound may
be lowered; raising one needs a reason in the commit's message.
"""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pfrl_like
from pfrl_like import agents, explorers, policies, q_functions, replay_buffers
from pfrl_like import nn as library_nn

PACKAGE = str(Path(pfrl_like.__file__).parent)
OBS_SIZE, N_ACTIONS = 4, 2


def adam(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(module.parameters(), lr=1e-3)


def network(head: nn.Module, n_outputs: int = N_ACTIONS) -> nn.Module:
    return nn.Sequential(nn.Linear(OBS_SIZE, 8), nn.ReLU(), nn.Linear(8, n_outputs), head)


def make_dqn() -> Any:
    model = network(q_functions.DiscreteActionValueHead())
    explorer = explorers.ConstantEpsilonGreedy(0.1, lambda: 0)
    buffer = replay_buffers.ReplayBuffer(100)
    return agents.DQN(model, adam(model), buffer, 0.9, explorer, replay_start_size=10, minibatch_size=8)


def make_sac() -> Any:
    policy = network(policies.SquashedGaussianHead(), 2 * N_ACTIONS)
    critics = [q_functions.FCSAQFunction(OBS_SIZE, N_ACTIONS, 8, 1) for _ in range(2)]
    parts = [policy, *critics]
    buffer = replay_buffers.ReplayBuffer(100)
    return agents.SoftActorCritic(
        *parts, *map(adam, parts), buffer, 0.9, replay_start_size=10, minibatch_size=8, entropy_target=-N_ACTIONS
    )


def make_ppo() -> Any:
    policy = network(policies.SoftmaxCategoricalHead())
    value = network(nn.Identity(), 1)
    model = library_nn.Branched(policy, value)
    return agents.PPO(model, adam(model), update_interval=16, minibatch_size=8, epochs=2)


def path_of_update(agent: Any, monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, str]]:
    """How often each function of the package is called, by file and name, in an `observe` that learns."""
    rng = np.random.default_rng(0)
    found: Counter[tuple[str, str]] = Counter()
    learnt = False

    def note(*args: Any, **kwargs: Any) -> Any:
        nonlocal learnt
        learnt = True
        return original(*args, **kwargs)

    def look(frame: Any, event: str, argument: Any) -> None:
        name, function = frame.f_code.co_filename, frame.f_code.co_qualname
        # Python 3.12 calls no function for most comprehensions, so that none are counted.
        if event == "call" and not learnt and name.startswith(PACKAGE) and not function.endswith(">"):
            found[name.removeprefix(PACKAGE), function] += 1

    original = torch.autograd.Variable._execution_engine.run_backward
    monkeypatch.setattr("pfrl_like.optimizers.gradient_step._run_backward", note)
    for _ in range(100):
        obs = rng.normal(size=OBS_SIZE).astype(np.float32)
        agent.act(obs)
        last, found, learnt = found, Counter(), False
        sys.setprofile(look)
        try:
            agent.observe(obs, 1.0, False, False)
        finally:
            sys.setprofile(None)
        if not learnt:
            found = last
    return found


@pytest.mark.parametrize(
    ("make", "functions", "files", "calls"), [(make_dqn, 22, 10, 25), (make_sac, 47, 20, 67), (make_ppo, 58, 19, 96)]
)
def test_an_update_passes_through_few_functions(
    make: Callable[[], Any], functions: int, files: int, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = path_of_update(make(), monkeypatch)
    found = len(path), len({file for file, _ in path}), sum(path.values())
    listed = "\n".join(f"{count:4} {file} {name}" for (file, name), count in path.items())
    assert all(came <= most for came, most in zip(found, (functions, files, calls), strict=True)), f"{found}\n{listed}"
