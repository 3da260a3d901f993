"""What the examples of this folder share: flags, seeds, networks, and the way out into a file."""

import argparse
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pfrl_like import experiments, utils


def parse_args(description: str | None, steps: int, add: Any = lambda parser: None) -> argparse.Namespace:
    """The flags of every example; `add` is given the parser for more."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--outdir", default="results/offline", help="runs go into folders below this one")
    parser.add_argument("--seed", type=int, default=0, help="of all random streams")
    parser.add_argument("--steps", type=int, default=steps, help="updates")
    parser.add_argument("--eval-n-runs", type=int, default=10, help="episodes of each evaluation")
    add(parser)
    args = parser.parse_args()
    torch.set_num_threads(1)  # networks this small are slower on several threads
    utils.set_random_seed(args.seed)
    args.outdir = experiments.prepare_output_dir(args, args.outdir)
    return args


def make_layers(n_inputs: int, n_outputs: int) -> list[nn.Module]:
    """Two hidden layers."""
    return [*(nn.Linear(n_inputs, 128), nn.ReLU()), *(nn.Linear(128, 128), nn.ReLU()), nn.Linear(128, n_outputs)]


def adam(module: nn.Module, lr: float = 1e-3) -> torch.optim.Optimizer:
    return torch.optim.Adam(module.parameters(), lr=lr)


def deployed(agent: Any, dataset: Any, outdir: str) -> Any:
    """Write an agent's policy to a file, and give it as a program has it that knows nothing of this library.

    That program needs onnxruntime alone, where the extra `export` is installed, else PyTorch.
    """
    has_onnx = all(importlib.util.find_spec(name) for name in ("onnx", "onnxscript", "onnxruntime"))
    path = Path(outdir) / ("policy.onnx" if has_onnx else "policy.pt")
    agent.export(path, example_obs=np.asarray(dataset.observations[:1_000]))
    print(f"The policy is in {path}")
    if has_onnx:
        import onnxruntime

        session = onnxruntime.InferenceSession(str(path))
        return lambda obs: session.run(None, {"input_0": obs[None]})[0][0]
    module = torch.jit.load(str(path))
    return lambda obs: module(torch.from_numpy(obs[None]))[0].numpy()


def play(policy: Any, env: Any, episodes: int) -> float:
    """Mean return of a policy, of so many episodes."""
    returns = []
    for episode in range(episodes):
        obs, _ = env.reset(seed=1_000 + episode)
        total, over = 0.0, False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(policy(obs))
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return float(np.mean(returns))
