"""Estimators that are fitted to the data that come with the package do better than what the data show."""

from typing import Any

import numpy as np
import pytest
import torch
from estimator_parts import QUIET

from pfrl_like import algos
from pfrl_like.datasets import get_cartpole
from pfrl_like.metrics import evaluate_on_environment

OPTIONS: dict[str, Any] = {"batch_size": 64, "encoder_params": {"hidden_units": [64, 64]}, "learning_rate": 1e-3}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("DiscreteBC", {}),
        ("DiscreteCQL", {"target_update_interval": 200}),
        ("DiscreteBCQ", {"target_update_interval": 200, "n_critics": 2, "scaler": "standard"}),
    ],
)
def test_a_fitted_policy_is_better_than_its_data(name: str, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    np.random.seed(0)
    dataset, env = get_cartpole()
    made = algos.fitting.base.ESTIMATORS[name](**OPTIONS | options)
    made.fit(dataset, n_steps=3_000, n_steps_per_epoch=1_000, **QUIET)
    mean_return = np.mean([episode.compute_return() for episode in dataset])
    assert evaluate_on_environment(env, n_trials=20)(made) > 1.5 * mean_return
