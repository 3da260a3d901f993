"""What a learnt model of the environment brings where few data are recorded: SAC and CQL with MOPO and without.

    python benchmarks/model_based.py --results benchmarks/results/model_based.jsonl
    python benchmarks/model_based.py --table

All learn from the same ten episodes (2,000 transitions) of the pendulum's data, of random play or of an agent that was
stopped half-way, with as many updates. Each line of the results is one training; what is there is not measured again.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from measured_once import measured_once, parser_of

from pfrl_like import algos
from pfrl_like.dataset import Episode
from pfrl_like.datasets import get_pendulum
from pfrl_like.dynamics import MOPO
from pfrl_like.utils import set_random_seed

#: Which episodes of the shipped data are which behaviour's, of which ten are drawn.
PARTS = {"random": slice(0, 20), "medium": slice(20, 50)}
N_EPISODES, N_TRIALS = 10, 20
#: Updates of an algorithm, those after which the model imagines anew, and updates of the model.
UPDATES, PER_EPOCH, MODEL_UPDATES = 5_000, 500, 4_000
NETWORKS: dict[str, Any] = {"encoder_params": {"hidden_units": [64, 64]}, "batch_size": 100}
QUIET: dict[str, Any] = {"save_metrics": False, "verbose": False, "show_progress": False}
#: Weight of the model's uncertainty, and steps that are imagined; None for no model.
MODELS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "MOPO, lam=0": {"lam": 0.0, "horizon": 5},
    "MOPO, lam=0.1": {"lam": 0.1, "horizon": 5},
    "MOPO, lam=1": {"lam": 1.0, "horizon": 5},
}
ALGORITHMS = ("SAC", "CQL")


def drawn(part: str, seed: int) -> list[Episode]:
    episodes = get_pendulum()[0].episodes[PARTS[part]]
    return [episodes[i] for i in np.random.default_rng(seed).permutation(len(episodes))[:N_EPISODES]]


def returns_of(algo: Any, n: int, seed: int) -> list[float]:
    """Returns of so many episodes, which are played side by side."""
    envs = [get_pendulum()[1] for _ in range(n)]
    obs = np.stack([env.reset(seed=seed + i)[0] for i, env in enumerate(envs)])
    total, ended = np.zeros(n), False
    while not ended:  # all after as many steps
        steps = [env.step(action) for env, action in zip(envs, algo.predict(obs), strict=True)]
        obs, reward, _, truncated, _ = (np.stack(values) for values in zip(*steps, strict=True))
        total, ended = total + reward, truncated.all()
    return [round(each, 2) for each in total.tolist()]


def fitted(algo: Any, episodes: Sequence[Episode], updates: int) -> Any:
    return algo.fit(episodes, n_steps=updates, n_steps_per_epoch=min(PER_EPOCH, updates), **QUIET)


def measured(part: str, name: str, model: str, seed: int, updates: int, model_updates: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    episodes, options = drawn(part, seed), MODELS[model]
    dynamics = None
    if options is not None:
        set_random_seed(seed)
        dynamics = fitted(MOPO(scaler="standard", **NETWORKS, **options), episodes, model_updates)
    set_random_seed(seed)  # an algorithm begins with the same networks, with a model or without
    algo = fitted(getattr(algos, name)(scaler="standard", dynamics=dynamics, **NETWORKS), episodes, updates)
    returns = returns_of(algo, N_TRIALS, 1_000 * (seed + 1))
    recorded = float(np.mean([episode.compute_return() for episode in episodes]))
    return {"recorded": round(recorded, 1), "mean": round(float(np.mean(returns)), 1), "returns": returns}


def table(lines: list[dict[str, Any]]) -> str:
    rows = ["| data | recorded | algorithm | model | mean return | of each seed |", "|---|---|---|---|---|---|"]
    for key in sorted({(line["data"], line["algorithm"], line["model"]) for line in lines}, reverse=True):
        of_key = sorted(
            (line["seed"], line) for line in lines if (line["data"], line["algorithm"], line["model"]) == key
        )
        means, recorded = ([line[name] for _, line in of_key] for name in ("mean", "recorded"))
        data, algorithm, model = key
        rows.append(
            f"| {data} | {np.mean(recorded):.0f} | {algorithm} | {model} | {np.mean(means):.0f} | "
            f"{', '.join(f'{mean:.0f}' for mean in means)} |"
        )
    return "\n".join(rows)


def main() -> None:
    parser = parser_of(__doc__, "model_based")
    parser.add_argument("--data", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--algorithms", nargs="+", default=list(ALGORITHMS), choices=ALGORITHMS)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--updates", type=int, default=UPDATES)
    parser.add_argument("--model-updates", type=int, default=MODEL_UPDATES)
    args = parser.parse_args()
    cases = (
        {"data": data, "algorithm": algorithm, "model": model, "seed": seed,
         "updates": args.updates, "model_updates": args.model_updates}
        for seed in args.seeds for data in args.data for algorithm in args.algorithms for model in args.models
    )  # fmt: skip
    print(table(measured_once(args, cases, lambda case: measured(*case.values()))))


if __name__ == "__main__":
    main()
