"""Files of d3rlpy 1.1.1, what it predicts by them, and what steps d3rlpy 0.90 and 1.1.1 make of rows.

`tests/unit/algos/fitting/test_d3rlpy_files.py` and `tests/unit/dataset/test_episode_terminals.py` compare ours with
them. Runs in environments of their own, because their wheels need an old Python, and a PyTorch of that time:

    python3.8 -m venv .peers/d3rlpy_0
    .peers/d3rlpy_0/bin/python -m pip install torch==1.12.1 numpy==1.23.5 d3rlpy==0.90
    .peers/d3rlpy_0/bin/python tests/peers/d3rlpy_1_files.py tests/data/peers/d3rlpy_1
    python3.9 -m venv .peers/d3rlpy_1
    .peers/d3rlpy_1/bin/python -m pip install torch==1.12.1 numpy==1.23.5 d3rlpy==1.1.1
    .peers/d3rlpy_1/bin/python tests/peers/d3rlpy_1_files.py tests/data/peers/d3rlpy_1

d3rlpy 1.1.1 writes for each case a folder with `params.json` and `model_20.pt`; `cql.h5`, the dataset of CQL; and
`expected.npz`, which holds, by case, `observations`, `actions`, the `predicted` actions and the `values` of the pairs,
and all transitions of `cql.h5`. `steps_<version>.json` holds the transitions of nine rows, by episode.
"""

from __future__ import annotations  # for Python 3.8

import json
import sys
from pathlib import Path
from typing import Any

import d3rlpy
import numpy as np
import torch
from d3rlpy.dataset import MDPDataset
from d3rlpy.models.encoders import VectorEncoderFactory
from d3rlpy.models.optimizers import AdamFactory

N_STEPS, N_ROWS = 20, 8
ENCODER = VectorEncoderFactory([8, 6])
#: So large an epsilon that predictions differ without it.
EPS = 0.1


def dataset(discrete: bool) -> MDPDataset:
    """Four episodes of fifteen steps; the second and the last end by a time limit."""
    rng = np.random.RandomState(0)
    ends = np.arange(60) % 15 == 14
    actions = rng.randint(0, 3, 60) if discrete else rng.uniform(-2, 2, (60, 2)).astype(np.float32)
    terminals = ends & (np.arange(60) % 30 == 14)
    rewards = rng.randn(60).astype(np.float32)
    observations = (3 + rng.randn(60, 4) * [0.1, 1, 2, 5]).astype(np.float32)
    return MDPDataset(observations, actions, rewards, terminals.astype(np.float32), ends.astype(np.float32))


def steps_of_rows() -> list[list[dict[str, Any]]]:
    """Transitions of nine rows, by episode: one ends in a terminal state, one by a time limit, one not at all."""
    rows, each = np.arange(9, dtype=np.float32), np.eye(9, dtype=np.float32)
    actions = np.arange(9) % 3
    data = MDPDataset(rows[:, None], actions, rows + 10, each[3], episode_terminals=each[3] + each[6])
    fields = ("observation", "action", "reward", "next_reward", "terminal")
    return [
        [{name: np.ravel(getattr(step, name)).item() for name in fields if hasattr(step, name)} for step in episode]
        for episode in data.episodes
    ]


def cases() -> dict[str, Any]:
    """An estimator for each kind of actions."""
    from d3rlpy.preprocessing import MinMaxActionScaler, StandardRewardScaler, StandardScaler  # 0.90 lacks one of them

    factories = {"actor_optim_factory": AdamFactory(eps=1e-5), "critic_optim_factory": AdamFactory(eps=1e-5)}
    encoders = {"actor_encoder_factory": ENCODER, "critic_encoder_factory": ENCODER}
    scalers = {"action_scaler": MinMaxActionScaler(), "reward_scaler": StandardRewardScaler(eps=EPS)}
    cql = d3rlpy.algos.CQL(scaler=StandardScaler(eps=EPS), batch_size=16, **factories, **encoders, **scalers)
    dqn = d3rlpy.algos.DQN(scaler="standard", batch_size=16, n_critics=2, encoder_factory=ENCODER)
    return {"CQL": cql, "DQN": dqn}


def write_files(folder: Path) -> None:
    """Write models, a dataset and what is expected."""
    expected = {}
    for name, algo in cases().items():
        np.random.seed(0)
        torch.manual_seed(0)
        data = dataset(name == "DQN")
        options = {"n_steps": N_STEPS, "n_steps_per_epoch": N_STEPS, "verbose": False, "show_progress": False}
        algo.fit(data.episodes, logdir=str(folder), experiment_name=name, with_timestamp=False, **options)
        for log in (folder / name).glob("*.csv"):
            log.unlink()
        observations, actions = data.observations[:N_ROWS], data.actions[:N_ROWS]
        expected[f"{name}/observations"], expected[f"{name}/actions"] = observations, actions
        expected[f"{name}/predicted"] = algo.predict(observations)
        expected[f"{name}/values"] = algo.predict_value(observations, actions)
    data = dataset(False)
    data.dump(str(folder / "cql.h5"))
    steps = [transition for episode in data.episodes for transition in episode.transitions]
    expected["lengths"] = np.array([len(episode.transitions) for episode in data.episodes])
    for field in ("observation", "action", "reward", "terminal"):
        expected[f"steps/{field}"] = np.array([getattr(step, field) for step in steps])
    np.savez_compressed(folder / "expected.npz", **expected)


if __name__ == "__main__":
    out = Path(sys.argv[1])
    (out / f"steps_{d3rlpy.__version__}.json").write_text(json.dumps(steps_of_rows(), indent=2))
    if d3rlpy.__version__ == "1.1.1":
        write_files(out)
