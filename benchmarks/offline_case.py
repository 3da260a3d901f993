"""One training, or one measurement of speed, of one library's algorithm, in a process of its own with one thread.

Prints a line of JSON at the end. `offline_scores.py` and `offline_speed.py` start it.
"""

import argparse
import importlib
import json
import platform
import time

import numpy as np
import torch
from offline_tasks.settings import ALGORITHMS, settings_of

MODULES = {"pfrl_like": "offline_tasks.ours", "d3rlpy": "offline_tasks.peer"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["train", "speed", "list"])
    parser.add_argument("library", choices=MODULES)
    parser.add_argument("--algorithm", choices=ALGORITHMS)
    parser.add_argument("--data", help="an .npz file of MDPDataset.dump in the convention same_row")
    parser.add_argument("--settings", type=json.loads, default={}, help="changes of settings, as JSON")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--policy", help="where the trained policy goes")
    parser.add_argument("--folder", help="run directory, in which a training of pfrl_like resumes")
    parser.add_argument("--checkpoint-freq", type=int, help="updates between checkpoints")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--warm", type=int, default=300, help="updates before the measurement")
    args = parser.parse_args()

    torch.set_num_threads(1)
    library = importlib.import_module(MODULES[args.library])
    start = time.perf_counter()
    result = {"library": args.library, "algorithm": args.algorithm, "seed": args.seed}
    if args.what == "list":
        result["available"] = [name for name in ALGORITHMS if library.available(name)]
    elif args.what == "train":
        settings = settings_of(args.algorithm, **args.settings)
        options = {} if args.library == "d3rlpy" else {"folder": args.folder, "checkpoint_freq": args.checkpoint_freq}
        result["transitions"] = library.train(args.algorithm, settings, args.data, args.seed, args.policy, **options)
    else:
        settings = settings_of(args.algorithm, **args.settings)
        result["rate"] = library.rate(args.algorithm, settings, args.data, args.seconds, args.warm)
    versions = {"torch": torch.__version__, "numpy": np.__version__, "python": platform.python_version()}
    versions[args.library] = importlib.import_module(args.library).__version__
    print(json.dumps(result | {"seconds": round(time.perf_counter() - start, 1), "versions": versions}))


if __name__ == "__main__":
    main()
