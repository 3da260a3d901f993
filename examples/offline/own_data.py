"""Trains discrete CQL on a table of your own: a CSV file with a row for each time step.

    python examples/offline/own_data.py
    python examples/offline/own_data.py --csv own.csv --observations speed slope --action gear --episode ride

Without `--csv` a small table is written first: a thermostat that switched a heater at random, whose room is to be kept
near 20 degrees. Columns of your own table are named by the arguments.
Time: about ten seconds.
"""

import csv
from pathlib import Path

import common
import numpy as np

from pfrl_like import algos
from pfrl_like.dataset import MDPDataset


def write_thermostat(path, rng):
    """A hundred days of forty steps."""
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["day", "room", "outside", "heater", "reward", "terminal"])
        for day in range(100):
            room, outside = rng.uniform(12, 28), rng.uniform(-5, 15)
            for _ in range(40):
                heater = int(rng.integers(2))
                warmer = room + 1.5 * heater + 0.05 * (outside - room)
                table.writerow([day, f"{room:.3f}", f"{outside:.3f}", heater, f"{-abs(warmer - 20):.3f}", 0])
                room = warmer


def read(args, path):
    """Columns as arrays; a pandas frame goes straight into `MDPDataset.from_dataframe`."""
    with path.open(newline="") as file:
        table = csv.DictReader(file)
        rows = list(table)
    wanted = [*args.observations, args.action, args.reward, args.terminal, args.episode]
    if lacking := [name for name in wanted if name not in (table.fieldnames or ())]:
        raise SystemExit(f"{path} has no column {', '.join(lacking)}, but {table.fieldnames}: name yours by the flags")
    column = {name: np.array([float(row[name]) for row in rows]) for name in wanted}
    number, terminal = column[args.episode], column[args.terminal]
    ends = np.append(number[1:] != number[:-1], True)
    return MDPDataset.from_arrays(
        np.stack([column[name] for name in args.observations], axis=1).astype(np.float32),
        column[args.action].astype(np.int64),
        column[args.reward],
        terminal,
        timeouts=ends & (terminal == 0),  # cut off, for instance because the day was over
    )


parser = common.make_parser(__doc__, steps=2_000)
parser.add_argument("--csv", default=None, help="your own table")
parser.add_argument("--observations", nargs="+", default=["room", "outside"], help="columns of the observation")
parser.add_argument("--action", default="heater", help="column of the discrete action, an index from 0 on")
parser.add_argument("--reward", default="reward", help="column of the reward for the action of the same row")
parser.add_argument("--terminal", default="terminal", help="column that is 1 where a step ended an episode for good")
parser.add_argument("--episode", default="day", help="column that changes where another episode begins")
args = common.start(parser)

path = Path(args.csv) if args.csv else Path(args.outdir) / "thermostat.csv"
if args.csv is None:
    write_thermostat(path, np.random.default_rng(args.seed))
dataset = read(args, path)
print(f"{len(dataset)} episodes, {dataset.n_steps} steps; what looks wrong: {dataset.check() or 'nothing'}")
dataset.dump(f"{args.outdir}/own.npz")  # MDPDataset.load reads it, faster than a table

algo = algos.DiscreteCQL(
    learning_rate=1e-3, batch_size=128, target_update_interval=100, gamma=0.9, scaler="standard",
    encoder_params={"hidden_units": [64, 64]},
)  # fmt: skip
algo.fit(
    dataset,
    n_steps=args.steps,
    n_steps_per_epoch=args.steps,
    logdir=args.outdir,
    verbose=False,
    show_progress=False,
    tensorboard=False,
)
algo.save_model(f"{args.outdir}/model.pt")
if args.csv is None:
    rooms = np.array([[degrees, 5.0] for degrees in (12, 16, 19, 21, 24, 28)], np.float32)
    for (degrees, _), action in zip(rooms, algo.predict(rooms), strict=True):
        print(f"room at {degrees:.0f} degrees: heater {'on' if action else 'off'}")
print(f"The model is in {args.outdir}/model.pt")
