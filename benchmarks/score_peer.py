"""DQN of stable-baselines3 on Acrobot, scored as `scores.py` scores ours: `python benchmarks/score_peer.py 0 1`.

Run it with an interpreter that has stable-baselines3. Its hyperparameters are those that its zoo has for Acrobot. One
line for each seed is appended to `results/score_trials.jsonl`.
"""

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import stable_baselines3
import torch

RESULTS = Path(__file__).parent / "results" / "score_trials.jsonl"
STEPS = 100_000
SETTINGS = {
    "learning_rate": 6.3e-4, "batch_size": 128, "buffer_size": 50_000, "learning_starts": 0, "gamma": 0.99,
    "target_update_interval": 250, "train_freq": 4, "gradient_steps": -1, "exploration_fraction": 0.12,
    "exploration_final_eps": 0.1, "policy_kwargs": {"net_arch": [256, 256]},
}  # fmt: skip


def returns_of(model: Any) -> list[float]:
    """Returns of the episodes of `scores.greedy_episodes`."""
    env, found = gymnasium.make("Acrobot-v1"), []
    for episode in range(20):
        (obs, _), total, ended = env.reset(seed=10_000 + episode), 0.0, False
        while not ended:
            obs, reward, terminated, truncated, _ = env.step(int(model.predict(obs, deterministic=True)[0]))
            total, ended = total + float(reward), terminated or truncated
        found.append(total)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", type=int, nargs="+")
    torch.set_num_threads(1)
    versions = {"python": platform.python_version(), "torch": torch.__version__, "gymnasium": gymnasium.__version__}
    versions["stable_baselines3"] = stable_baselines3.__version__
    for seed in parser.parse_args().seeds:
        start = time.perf_counter()
        env = gymnasium.make("Acrobot-v1")
        env.reset(seed=seed)
        model = stable_baselines3.DQN("MlpPolicy", env, seed=seed, device="cpu", **SETTINGS)
        model.learn(STEPS)
        returns = returns_of(model)
        line = {
            "trial": "stable-baselines3", "row": ["acrobot", "DQN"], "changes": SETTINGS, "seed": seed,
            "score": float(np.mean(returns)), "returns": returns, "versions": versions, "threads": 1,
            "seconds": round(time.perf_counter() - start, 1),
        }  # fmt: skip
        with RESULTS.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"seed {seed}: {line['score']:.1f}", flush=True)


if __name__ == "__main__":
    main()
