"""One measurement of one library in a process of its own: `python speed_cases.py CASE LIBRARY --seconds 20`.

Prints one JSON line. `speed.py` starts this file again and again, with the interpreter of either environment, so it
imports nothing but the library measured. pfrl_like keeps PFRL's names, so both run the same lines below; the few
differences (environment, sampling to tensors) are spelt out.
"""

import argparse
import contextlib
import functools
import importlib
import json
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import speed_policies
import torch
from speed_tools import FourValues, OutOfTime, StopWatch, calls_per_second, resident_bytes
from torch import nn

TRANSITIONS = 100_000
FRAME_TRANSITIONS = 50_000


def q_function(library: Any, n_inputs: int, n_actions: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(n_inputs, 64),
        nn.ReLU(),
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Linear(64, n_actions),
        library.q_functions.DiscreteActionValueHead(),
    )


def make_dqn(library: Any, n_inputs: int, n_actions: int, random_action: Callable[[], Any], **options: Any) -> Any:
    model = q_function(library, n_inputs, n_actions)
    return library.agents.DQN(
        model,
        torch.optim.Adam(model.parameters(), lr=1e-3),
        library.replay_buffers.ReplayBuffer(TRANSITIONS),
        0.99,
        library.explorers.LinearDecayEpsilonGreedy(1.0, 0.05, 10_000, random_action),
        replay_start_size=1_000,
        update_interval=1,
        target_update_interval=500,
        **options,
    )


def train(library: Any, seconds: float, batch_size: int, **options: Any) -> dict[str, float]:
    """Environment steps per second of DQN on CartPole-v1, one update a step."""
    watch = StopWatch(gymnasium.make("CartPole-v1"), seconds)
    env: Any = FourValues(watch) if library.__name__ == "pfrl" else watch
    agent = make_dqn(library, 4, 2, env.action_space.sample, minibatch_size=batch_size, **options)
    with tempfile.TemporaryDirectory() as outdir, contextlib.suppress(OutOfTime):
        library.experiments.train_agent(agent, env, 10**9, outdir)
    return {"rate": watch.rate}


def train_sb3(library: Any, seconds: float, batch_size: int) -> dict[str, float]:
    """The same work with stable-baselines3's DQN."""
    watch = StopWatch(gymnasium.make("CartPole-v1"), seconds)
    agent = library.DQN(
        "MlpPolicy",
        watch,
        learning_rate=1e-3,
        buffer_size=TRANSITIONS,
        learning_starts=1_000,
        batch_size=batch_size,
        train_freq=1,
        gradient_steps=1,
        target_update_interval=500,
        policy_kwargs={"net_arch": [64, 64]},
        device="cpu",
    )
    with contextlib.suppress(OutOfTime):
        agent.learn(10**9)
    return {"rate": watch.rate}


def fill(buffer: Any) -> None:
    """100,000 transitions of 17 + 6 floats in episodes of 1,000 steps; every observation is new."""
    rng = np.random.default_rng(0)
    obs = rng.standard_normal(17).astype(np.float32)
    for step in range(1, TRANSITIONS + 1):
        next_obs = rng.standard_normal(17).astype(np.float32)
        action = rng.standard_normal(6).astype(np.float32)
        buffer.append(obs, action, 1.0, next_obs, is_state_terminal=step % 1_000 == 0)
        obs = next_obs if step % 1_000 else rng.standard_normal(17).astype(np.float32)
        if step % 1_000 == 0:
            buffer.stop_current_episode()


def sampler(library: Any, buffer: Any, phi: Callable[[Any], Any]) -> Callable[[], Any]:
    """A function that draws 32 transitions as tensors."""
    if library.__name__ != "pfrl":
        return lambda: buffer.sample_batch(32, 0.99, "cpu")
    device = torch.device("cpu")
    collate = importlib.import_module("pfrl.replay_buffer").batch_experiences
    return lambda: collate(buffer.sample(32), device, phi, 0.99)


def sample(library: Any, seconds: float, num_steps: int = 1) -> dict[str, float]:
    """Minibatches per second from a uniform buffer."""
    buffer = library.replay_buffers.ReplayBuffer(TRANSITIONS, num_steps=num_steps)
    fill(buffer)
    return {"rate": calls_per_second(sampler(library, buffer, lambda x: x), seconds)}


def sample_prioritized(library: Any, seconds: float) -> dict[str, float]:
    """Minibatches per second from a prioritised buffer, new priorities written back for each."""
    buffer = library.replay_buffers.PrioritizedReplayBuffer(TRANSITIONS)
    fill(buffer)
    td_error = torch.rand(32, generator=torch.Generator().manual_seed(0))
    if library.__name__ == "pfrl":
        # PFRL's DQN hands its errors over as a list of floats, made by a loop over the rows; `tolist` is kinder.
        draw = sampler(library, buffer, lambda x: x)

        def step() -> None:
            draw()
            buffer.update_errors(td_error.tolist())

    else:

        def step() -> None:
            batch = buffer.sample_batch(32, 0.99, "cpu")
            buffer.update_priorities(batch.index, td_error)

    return {"rate": calls_per_second(step, seconds)}


def act(library: Any, seconds: float) -> dict[str, float]:
    """Greedy actions per second for one observation at a time."""
    agent = make_dqn(library, 17, 6, lambda: 0)
    obs = np.random.default_rng(0).standard_normal(17).astype(np.float32)
    with agent.eval_mode():
        return {"rate": calls_per_second(lambda: agent.act(obs), seconds)}


def frames(library: Any, seconds: float) -> dict[str, float]:
    """Minibatches per second and bytes a transition for stacks of four 84x84 frames, episodes of 500 steps.

    PFRL gets its own LazyFrames, the form in which it stores a frame once; pfrl_like gets plain stacked arrays, as
    gymnasium's FrameStackObservation gives them.
    """
    buffer = library.replay_buffers.ReplayBuffer(FRAME_TRANSITIONS)
    lazy = library.wrappers.atari_wrappers.LazyFrames if library.__name__ == "pfrl" else None
    rng = np.random.default_rng(0)

    def frame() -> np.ndarray:
        return rng.integers(0, 256, (1, 84, 84), dtype=np.uint8)

    def stacked(last_four: list[np.ndarray]) -> Any:
        return np.concatenate(last_four) if lazy is None else lazy(last_four, stack_axis=0)

    before = resident_bytes()
    for step in range(FRAME_TRANSITIONS):
        if step % 500 == 0:
            buffer.stop_current_episode()
            last_four = [frame()] * 4
            obs = stacked(last_four)
        last_four = [*last_four[1:], frame()]
        next_obs = stacked(last_four)
        buffer.append(obs, step % 4, 0.0, next_obs, is_state_terminal=step % 500 == 499)
        obs = next_obs
    used = resident_bytes() - before
    # Called by hand: NumPy 2 hands __array__ an argument that PFRL's LazyFrames does not know.
    rate = calls_per_second(sampler(library, buffer, lambda x: x.__array__()), seconds)
    return {"rate": rate, "bytes": used / FRAME_TRANSITIONS}


CASES: dict[str, Callable[..., dict[str, float]]] = {
    "dqn-32": functools.partial(train, batch_size=32),
    "dqn-128": functools.partial(train, batch_size=128),
    "dqn-32-compiled": functools.partial(train, batch_size=32, compile=True),
    "sample": sample,
    "sample-3-step": lambda library, seconds: sample(library, seconds, num_steps=3),
    "sample-prioritized": sample_prioritized,
    "act": act,
    "frames": frames,
    **speed_policies.CASES,
}

SB3_CASES: dict[str, Callable[[Any, float], dict[str, float]]] = {
    "dqn-32": lambda library, seconds: train_sb3(library, seconds, 32),
    **speed_policies.SB3_CASES,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("library", choices=["pfrl_like", "pfrl", "stable_baselines3"])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--gpu", type=int, help="train there; for the cases of DQN, SAC, TD3 and PPO")
    args = parser.parse_args()
    torch.set_num_threads(1)
    np.random.seed(0)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an old gym, imported by PFRL, complains of being old
        library = importlib.import_module(args.library)
        # The peers have no compiled form: their side of that case is their plain training.
        case = args.case if args.library == "pfrl_like" else args.case.removesuffix("-compiled")
        cases = SB3_CASES if args.library == "stable_baselines3" else CASES
        result = cases[case](library, args.seconds, **({} if args.gpu is None else {"gpu": args.gpu}))
    print(json.dumps({"case": args.case, "library": args.library, **result}))


if __name__ == "__main__":
    main()
