"""What library code runs between `env.step` and the optimiser in DQN: few functions, none per row of a batch."""

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from async_parts import make_a3c, make_acer
from on_policy_parts import ON_POLICY, make_on_policy, one_hot
from peers.pfrl_off_policy import MAKE, filled_buffer

import pfrl_like
from pfrl_like.agents import DQN
from pfrl_like.experiments import train_agent
from pfrl_like.explorers import ConstantEpsilonGreedy
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.replay_buffers import PrioritizedReplayBuffer, ReplayBuffer

PACKAGE = str(Path(__file__).parents[2] / "pfrl_like")
STEPS = 200


class Trace:
    """Counts calls of the library's functions from now until PyTorch's optimiser begins."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.reached_optimizer = False

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "c_call" and arg.__name__.startswith(("_fused_", "_foreach_add")):
            self.stop()
        elif event == "call":
            code = frame.f_code
            if code.co_filename.startswith(PACKAGE):
                self.calls[code.co_filename.removeprefix(PACKAGE), code.co_qualname] += 1
            elif code.co_name == "step" and "torch/optim" in code.co_filename:
                self.stop()

    def stop(self) -> None:
        self.reached_optimizer = True
        sys.setprofile(None)

    def __str__(self) -> str:
        return "\n".join(f"{file}: {name} x{count}" for (file, name), count in sorted(self.calls.items()))


class TracedEnv(gymnasium.Env):
    """Random observations; starts the trace at the very end of one step, when the buffer has long been learnt from."""

    observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, trace: Trace) -> None:
        self.trace, self.steps = trace, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return np.zeros(4, dtype=np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        obs = np.full(4, 1 / self.steps, dtype=np.float32)
        if self.steps == STEPS - 3:
            sys.setprofile(self.trace)
        return obs, 1.0, False, False, {}


def trace_one_step(tmp_path: Path, buffer: Any, batch_size: int) -> Trace:
    trace = Trace()
    model = torch.nn.Sequential(torch.nn.Linear(4, 2), DiscreteActionValueHead())
    optimizer = torch.optim.Adam(model.parameters())
    explorer = ConstantEpsilonGreedy(0.1, lambda: 0)
    agent = DQN(model, optimizer, buffer, 0.99, explorer, replay_start_size=100, minibatch_size=batch_size)
    try:
        train_agent(agent, TracedEnv(trace), STEPS, str(tmp_path))
    finally:
        sys.setprofile(None)
    assert trace.reached_optimizer, f"the optimiser was not reached:\n{trace}"
    return trace


def test_from_env_step_to_optimizer_step_are_at_most_24_functions_in_12_files(tmp_path: Path) -> None:
    trace = trace_one_step(tmp_path, ReplayBuffer(1_000), 32)
    functions = {(file, name) for file, name in trace.calls if not name.endswith(("<lambda>", "comp>", "<genexpr>"))}
    assert len(functions) <= 24, f"{len(functions)} functions:\n{trace}"
    assert len({file for file, _ in functions}) <= 12, f"too many files:\n{trace}"


@pytest.mark.parametrize("buffer", [ReplayBuffer, PrioritizedReplayBuffer])
def test_no_function_is_called_once_a_row(tmp_path: Path, buffer: Any) -> None:
    trace = trace_one_step(tmp_path, buffer(1_000), 64)
    assert max(trace.calls.values()) <= 8, f"with 64 rows:\n{trace}"


@pytest.mark.parametrize("name", ["DQN", "DoubleDQN", "DDPG", "TD3", "SoftActorCritic"])
def test_without_an_override_no_function_for_overrides_is_called(name: str) -> None:
    buffer = filled_buffer(pfrl_like, "uniform", discrete=name.endswith("DQN"))
    agent = MAKE[name](pfrl_like, getattr(pfrl_like.agents, name), buffer)
    entered = functions_of_a_step(agent, [np.zeros(3, np.float32)])
    assert any("GradientStep" in function for function in entered)
    assert not [function for function in entered if function.startswith("/learning/overrides/")]


@pytest.mark.parametrize("name", ["PPO", "A2C", "REINFORCE", "TRPO", "A3C", "ACER"])
def test_without_an_override_no_function_for_overrides_is_called_on_policy(name: str) -> None:
    agent = {**dict.fromkeys(ON_POLICY, make_on_policy), "A3C": make_a3c, "ACER": make_acer}[name](
        **({"kind": name} if name in ON_POLICY else {})
    )
    for _ in range(9):
        agent.batch_act([one_hot(0)])
        agent.batch_observe([one_hot(1)], [0.0], [False], [False])
    entered = functions_of_a_step(agent, [one_hot(0)], done=True)
    assert any("GradientStep" in function for function in entered)
    assert not [function for function in entered if function.startswith("/learning/overrides/")]


def functions_of_a_step(agent: Any, obs: Any, done: bool = False) -> list[str]:
    """File and name of the library's functions that run in a step of one environment, which ends in an update."""
    entered: list[str] = []

    def trace(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            entered.append(f"{frame.f_code.co_filename.removeprefix(PACKAGE)} {frame.f_code.co_qualname}")

    sys.setprofile(trace)
    try:
        agent.batch_act(obs)
        agent.batch_observe(obs, [0.0], [done], [False])
    finally:
        sys.setprofile(None)
    return entered
