"""Tiny spaces and an environment of any spaces, for tests of composed agents; a composition as a script."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from pfrl_like.zoo.composition import from_json, givens_of, names_of, to_json
from pfrl_like.zoo.names import import_of
from pfrl_like.zoo.source import statements

_IMAGE, _VECTOR = spaces.Box(0, 255, (5, 5, 1), np.uint8), spaces.Box(-1, 1, (3,), np.float32)
OBS: dict[str, spaces.Space[Any]] = {
    "vector": _VECTOR,
    "image": _IMAGE,
    "Dict": spaces.Dict({"image": _IMAGE, "vector": _VECTOR, "bits": spaces.MultiBinary(2)}),
}
ACTIONS: dict[str, spaces.Space[Any]] = {
    "Discrete": spaces.Discrete(3),
    "Box": spaces.Box(-np.inf, np.inf, (2,), np.float32),
    "MultiDiscrete": spaces.MultiDiscrete([2, 3]),
    "MultiBinary": spaces.MultiBinary(3),
}


class RandomEnv(gymnasium.Env[Any, Any]):
    """Random observations and rewards, and episodes of three steps; an action that its space does not contain fails."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], seed: int = 0) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self.observation_space.seed(seed)
        self.t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.t += 1
        return self.observation_space.sample(), float(self.t % 5), self.t % 3 == 0, False, {}


def stored(composition: Any) -> Any:
    """A composition as its file gives it back; its source is the same."""
    read = from_json(json.loads(json.dumps(to_json(composition))))
    assert statements(read, "return ") == statements(composition, "return ")
    return read


def from_source(composition: Any, **given: Any) -> Any:
    """The result of the printed script, which is run."""
    imports = [import_of(name) for name in names_of(composition)]
    lines = [f"from {one.module} import {one.imported}" if one.imported else f"import {one.module}" for one in imports]
    function = [f"def main({', '.join(givens_of(composition))}):"]
    function += [f"    {line}" for line in statements(composition, "return ")]
    scope: dict[str, Any] = {}
    exec("\n".join(lines + function), scope)
    return scope["main"](**given)


def parameters(agent: Any) -> torch.Tensor:
    """All parameters of an agent's modules, in one vector."""
    modules = [getattr(agent, name) for name in agent.saved_attributes]
    params = [param for module in modules if isinstance(module, nn.Module) for param in module.parameters()]
    return torch.cat([param.detach().flatten() for param in params])


def drive(agent: Any, env: RandomEnv, n_steps: int = 7) -> None:
    """Steps without a runner's files, and a greedy action."""
    seen, ends = env.reset()[0], False
    agent.dry_run(seen, env.action_space)
    for _ in range(n_steps):
        seen = env.reset()[0] if ends else seen
        seen, reward, ends, _, _ = env.step(agent.act(seen))
        agent.observe(seen, reward, ends, False)
    with agent.eval_mode():
        assert env.action_space.contains(agent.act(seen))


def check_learns(agent: Any, env: RandomEnv, n_steps: int = 7) -> None:
    """Check that steps change the parameters to finite ones."""
    before = parameters(agent)
    drive(agent, env, n_steps)
    after = parameters(agent)
    assert torch.isfinite(after).all()
    assert not torch.equal(before, after)


def run_script(made: Any, outdir: Path | None, steps: int, *objects: Any) -> Any:
    """The agent of the printed script."""
    scope: dict[str, Any] = {"__name__": "script"}
    exec(made.script(), scope)
    return scope["main"](*objects, steps=steps, outdir=outdir)
