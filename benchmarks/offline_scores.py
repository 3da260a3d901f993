"""Scores of offline agents beside d3rlpy 2.8, over seeds: `python benchmarks/offline_scores.py --peer-python PATH`.

Both libraries learn from the same transitions, with the same networks and hyperparameters
(`offline_tasks/settings.py`), each in a process of one thread. What the last update left is written as TorchScript and
scored here, over 20 episodes that begin alike for all. One line of JSON is appended to the results for every seed that
has finished; a run that was interrupted goes on with those that are missing, and so does one whose hyperparameters were
changed. What counts is a pair: both libraries with one seed on one and the same set. A set that is made anew, on
another machine, is another set of the same kind; pairs that learnt from the one before stay.

The sets of Hopper and HalfCheetah are those of `make_offline_datasets.py`, in `--data`; without them only the small
sets of the package are used. Rewards pay the action of their own row in the files that both libraries read.
"""

import argparse
import contextlib
import hashlib
import itertools
import json
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from offline_tasks.settings import CONTINUOUS, DISCRETE, settings_of
from scores import provenance, resumptions
from speed import run_case

from pfrl_like import datasets, wrappers
from pfrl_like.dataset import MDPDataset

HERE = Path(__file__).parent
RESULTS, CASE = HERE / "results" / "offline_scores.jsonl", HERE / "offline_case.py"
LIBRARIES = ("pfrl_like", "d3rlpy")
SEEDS, EPISODES = 3, 20


class Job(NamedTuple):
    dataset: str
    algorithm: str
    library: str
    seed: int


def mujoco(name: str) -> gymnasium.Env:
    return wrappers.CastObservationToFloat32(gymnasium.make(name))


#: Of each dataset: its environment, and whether its actions are discrete.
DATASETS: dict[str, tuple[Callable[[], gymnasium.Env], bool]] = {
    "cartpole": (lambda: datasets.get_cartpole()[1], True),
    "pendulum": (lambda: datasets.get_pendulum()[1], False),
    "hopper-medium": (lambda: mujoco("Hopper-v5"), False),
    "hopper-medium-replay": (lambda: mujoco("Hopper-v5"), False),
    "halfcheetah-medium": (lambda: mujoco("HalfCheetah-v5"), False),
    "halfcheetah-medium-replay": (lambda: mujoco("HalfCheetah-v5"), False),
}
SHIPPED = {"cartpole": datasets.get_cartpole, "pendulum": datasets.get_pendulum}


def dataset_of(name: str, data: Path) -> MDPDataset:
    return SHIPPED[name]()[0] if name in SHIPPED else MDPDataset.load(data / f"{name}.h5")


def fingerprint(algorithm: str, changes: dict[str, Any]) -> str:
    """Tells results of other hyperparameters apart."""
    text = json.dumps([settings_of(algorithm, **changes), EPISODES], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def content_of(dataset: MDPDataset) -> str:
    """Tells sets of the same kind apart."""
    return hashlib.sha256(np.ascontiguousarray(dataset.rewards)).hexdigest()[:12]


def run(
    job: Job,
    pythons: dict[str, str],
    data: Path,
    changes: dict[str, Any],
    folder: Path | None = None,
    checkpoint_freq: int | None = None,
) -> dict[str, Any]:
    """Train one algorithm of one library, and score what came of it.

    Args:
        job: The training.
        pythons: Interpreter of each library.
        data: Folder of the sets that are not shipped.
        changes: Of settings.
        folder: Run directory, in which this library's training resumes; None for a temporary one.
        checkpoint_freq: Updates between checkpoints.
    """
    with tempfile.TemporaryDirectory() if folder is None else contextlib.nullcontext(folder) as directory:
        rows, policy = f"{directory}/rows.npz", f"{directory}/policy.pt"
        dataset = dataset_of(job.dataset, data)
        dataset.dump(rows, reward_convention="same_row")
        result = run_case(
            pythons[job.library], CASE, job.library, "train", job.library, "--algorithm", job.algorithm, "--data", rows,
            "--seed", str(job.seed), "--policy", policy, "--settings", json.dumps(changes),
            *([] if folder is None else ["--folder", f"{folder}/run", "--checkpoint-freq", str(checkpoint_freq)]),
        )  # fmt: skip
        if result.pop("transitions") != dataset.n_steps:
            raise RuntimeError(f"{job}: learnt from other transitions than the {dataset.n_steps} of the dataset")
        returns = greedy_returns(torch.jit.load(policy), DATASETS[job.dataset][0]())
        record = Path(directory, "run", "run.json")
        resumed = resumptions(json.loads(record.read_text())) if record.exists() else []
    scored = {"score": float(np.mean(returns)), "returns": returns, "resumed": resumed}
    return job._asdict() | result | scored | metadata_of(job, dataset, changes, result["versions"])


def metadata_of(job: Job, dataset: MDPDataset, changes: dict[str, Any], versions: Mapping[str, str]) -> dict[str, Any]:
    """Settings, data and provenance of a line; `versions` are those of the process that trained."""
    metadata = {"settings": fingerprint(job.algorithm, changes), "data": content_of(dataset)}
    metadata["updates"] = settings_of(job.algorithm, **changes)["updates"]
    here = provenance()
    return metadata | here | {"versions": here["versions"] | versions}


def greedy_returns(policy: Any, env: gymnasium.Env) -> list[float]:
    """Returns of 20 episodes whose starts are the same for every policy."""
    returns = []
    discrete = isinstance(env.action_space, gymnasium.spaces.Discrete)
    for episode in range(EPISODES):
        obs, _ = env.reset(seed=10_000 + episode)
        total, ended = 0.0, False
        while not ended:
            with torch.no_grad():
                action = policy(torch.as_tensor(np.asarray(obs, np.float32))[None])[0].numpy()
            obs, reward, terminated, truncated, _ = env.step(int(action) if discrete else action)
            total += float(reward)
            ended = terminated or truncated
        returns.append(total)
    return returns


def algorithms_of_both(pythons: dict[str, str]) -> set[str]:
    """What both libraries have."""
    listed = [set(run_case(pythons[each], CASE, each, "list", each)["available"]) for each in LIBRARIES]
    return set.intersection(*listed)


def difference(ours: list[list[float]], theirs: list[list[float]]) -> tuple[float, float, float]:
    """Of the means over seeds, with its 95 % bootstrap interval: seeds are drawn, then episodes of each."""
    rng = np.random.default_rng(0)

    def draws(returns: list[list[float]]) -> np.ndarray:
        values = np.array(returns)
        seeds = rng.integers(0, len(values), (10_000, len(values), 1))
        episodes = rng.integers(0, values.shape[1], (10_000, len(values), values.shape[1]))
        return values[seeds, episodes].mean(axis=(1, 2))

    low, high = np.quantile(draws(ours) - draws(theirs), [0.025, 0.975])
    return float(np.mean(ours) - np.mean(theirs)), float(low), float(high)


def print_table(lines: list[dict[str, Any]]) -> None:
    """Mean scores of both, their difference, and whether ours is not below by more than the interval."""
    print("| dataset | algorithm | updates | seeds | pfrl_like | d3rlpy | difference [95 %] | |\n" + "| --- " * 8 + "|")
    both = pairs(lines)
    for name, algorithm in itertools.product(DATASETS, CONTINUOUS | DISCRETE):
        found = [pair for key, pair in both.items() if key[:2] == (name, algorithm)]
        if not found:
            continue
        ours, theirs = ([pair[library]["returns"] for pair in found] for library in LIBRARIES)
        mean, low, high = difference(ours, theirs)
        print(
            f"| {name} | {algorithm} | {found[0]['pfrl_like']['updates']:,} | {len(found)}"
            f" | {np.mean(ours):.1f} | {np.mean(theirs):.1f} | {mean:.1f} [{low:.1f}, {high:.1f}]"
            f" | {'met' if high >= 0 else 'missed'}{' so far' if len(found) < SEEDS else ''} |"
        )


def finished(path: Path, changes: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines that belong to the present hyperparameters; one with an "error" is of a training that failed."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    present = [line for line in lines if line["settings"] == fingerprint(line["algorithm"], changes)]
    return [line for line in present if "invalid" not in line]


def pairs(lines: list[dict[str, Any]]) -> dict[tuple[str, str, int], dict[str, dict[str, Any]]]:
    """By dataset, algorithm and seed the lines of both libraries that learnt from one set."""
    of_set: dict[tuple[str, str, int], dict[str, dict[str, dict[str, Any]]]] = {}
    for line in (line for line in lines if "error" not in line):
        key = line["dataset"], line["algorithm"], line["seed"]
        of_set.setdefault(key, {}).setdefault(line["data"], {})[line["library"]] = line
    whole = {key: [both for both in sets.values() if len(both) == len(LIBRARIES)] for key, sets in of_set.items()}
    return {key: found[-1] for key, found in whole.items() if found}


def missing(lines: list[dict[str, Any]], contents: Mapping[str, str | None], seeds: Collection[int]) -> list[Job]:
    """Trainings that pairs lack, without those of pairs of which one failed on the present set.

    Args:
        lines: Those that there are.
        contents: Of each set its content; None if it has still to be made.
        seeds: Seeds of each pair.
    """
    whole = pairs(lines)
    present = [line for line in lines if line["data"] == contents.get(line["dataset"])]
    done = {Job(*(line[field] for field in Job._fields)) for line in present}
    failed = {(line["dataset"], line["algorithm"], line["seed"]) for line in present if "error" in line}
    return [
        Job(name, algorithm, library, seed)
        for name, algorithm, seed in itertools.product(DATASETS, CONTINUOUS | DISCRETE, seeds)
        for library in LIBRARIES
        if name in contents
        and (algorithm in DISCRETE) == DATASETS[name][1]
        and (name, algorithm, seed) not in {*whole, *failed}
        and Job(name, algorithm, library, seed) not in done
    ]


def contents_of(data: Path, names: Iterable[str] = DATASETS) -> dict[str, str | None]:
    """The content of each set; None if it has still to be made."""
    made = {name: name in SHIPPED or (data / f"{name}.h5").exists() for name in names}
    return {name: content_of(dataset_of(name, data)) if there else None for name, there in made.items()}


def run_all(jobs: list[Job], n: int, *arguments: Any) -> Iterator[dict[str, Any]]:
    """Results as they come, of so many processes at a time."""
    pool = ThreadPoolExecutor(n)  # of threads that wait for the processes
    try:
        for future in as_completed([pool.submit(run, job, *arguments) for job in jobs]):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable, help="interpreter that has d3rlpy installed")
    parser.add_argument("--dataset", nargs="*", choices=DATASETS, help="only these; all that there are without it")
    parser.add_argument("--algorithm", nargs="*", choices=[*CONTINUOUS, *DISCRETE], help="only these")
    parser.add_argument("--seeds", type=int, nargs="*", default=range(SEEDS))
    parser.add_argument("--updates", type=int, help="in the place of those of the settings")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time")
    parser.add_argument("--data", type=Path, default=HERE / "data", help="where make_offline_datasets.py has written")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="only print what there is")
    args = parser.parse_args()

    torch.set_num_threads(1)
    changes = {} if args.updates is None else {"updates": args.updates}
    pythons = {"pfrl_like": sys.executable, "d3rlpy": args.peer_python}
    lines = finished(args.results, changes)
    if not args.table:
        contents = contents_of(args.data, args.dataset or DATASETS)
        contents = {name: content for name, content in contents.items() if content is not None}
        common = algorithms_of_both(pythons)
        wanted = common.intersection(args.algorithm or common)
        jobs = [job for job in missing(lines, contents, args.seeds) if job.algorithm in wanted]
        args.results.parent.mkdir(parents=True, exist_ok=True)
        for line in run_all(sorted(jobs, key=lambda job: job.seed), args.jobs, pythons, args.data, changes):
            with args.results.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{line['dataset']} {line['algorithm']} {line['library']} seed {line['seed']}: {line['score']:.1f}")
            lines.append(line)
    print_table(lines)


if __name__ == "__main__":
    main()
