"""Shared by the examples of this folder: command-line arguments, and a program that plays an exported policy."""

import argparse
import importlib.util

import numpy as np
import torch

from pfrl_like import experiments, utils

#: A policy is exported for onnxruntime where the extra `export` is installed, else for PyTorch.
HAS_ONNX = all(importlib.util.find_spec(name) for name in ("onnx", "onnxscript", "onnxruntime"))
POLICY = "policy.onnx" if HAS_ONNX else "policy.pt"


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows defaults, and the docstring as it is written."""


def make_parser(description, steps):
    """The arguments of every example; `steps` is the default of --steps."""
    parser = argparse.ArgumentParser(description=description, formatter_class=HelpFormatter)
    parser.add_argument("--outdir", default="results/offline", help="runs go into folders below this one")
    parser.add_argument("--seed", type=int, default=0, help="of all random streams")
    parser.add_argument("--steps", type=int, default=steps, help="updates")
    parser.add_argument("--eval-n-runs", type=int, default=10, help="episodes of each evaluation")
    return parser


def start(parser):
    """Read the arguments, seed everything, and make the folder of the run, which becomes `args.outdir`."""
    args = parser.parse_args()
    torch.set_num_threads(1)  # networks this small are slower on several threads
    utils.set_random_seed(args.seed)
    args.outdir = experiments.prepare_output_dir(args, args.outdir)
    return args


def play(path, env, episodes):
    """The mean return of an exported policy, played without this library: by onnxruntime alone, or by PyTorch."""
    if path.endswith(".onnx"):
        import onnxruntime

        session = onnxruntime.InferenceSession(path)

        def policy(observations):
            return session.run(None, {"input_0": observations})[0]
    else:
        module = torch.jit.load(path)

        def policy(observations):
            return module(torch.from_numpy(observations)).numpy()

    returns = []
    for episode in range(episodes):
        obs, _ = env.reset(seed=1_000 + episode)
        total, over = 0.0, False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(policy(obs[None])[0])
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return float(np.mean(returns))
