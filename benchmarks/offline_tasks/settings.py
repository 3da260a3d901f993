"""Hyperparameters that both libraries get; this module imports neither.

They are the papers' (those that both libraries have as defaults, as far as they agree), with minibatches of 256;
but CQL and Cal-QL learn faster, ReBRAC keeps to the data by another weight, and discrete BCQ allows fewer actions.
"""

from typing import Any

#: What every algorithm has, in the place of both libraries' own defaults. Targets move by `tau` with every update.
COMMON: dict[str, Any] = {
    "hidden": (256, 256),
    "batch_size": 256,
    "gamma": 0.99,
    "actor_lr": 3e-4,
    "critic_lr": 3e-4,
    "tau": 0.005,
    "updates": 10_000,
}
_FEW = {"updates": 3_000}  # of algorithms that draw many actions for each row
_CQL = {  # faster than in its paper, and with standardised observations: 3,000 updates are few
    "actor_lr": 1e-3,
    "alpha_lr": 1e-4,
    "temperature_lr": 1e-3,
    "standard_scaler": True,
    "n_action_samples": 10,
    "gap_threshold": 10.0,  # of the gap before it is weighted, which d3rlpy calls `alpha_threshold`
    "initial_alpha": 1.0,
    "conservative_weight": 10.0,
    "soft_q_backup": False,
    **_FEW,
}

CONTINUOUS: dict[str, dict[str, Any]] = {
    "BC": {"actor_lr": 1e-3},
    # As in its paper, observations have mean 0 and standard deviation 1.
    "TD3PlusBC": {"alpha": 2.5, "policy_update_delay": 2, "standard_scaler": True},
    "ReBRAC": {"actor_beta": 0.01, "critic_beta": 0.01, "policy_update_delay": 2, "actor_lr": 1e-3, "critic_lr": 1e-3},
    "IQL": {"expectile": 0.7, "beta": 3.0, "max_weight": 100.0},
    "AWAC": {"lam": 1.0, "n_action_samples": 1},
    "CRR": {"beta": 1.0, "n_action_samples": 4, "max_weight": 20.0},
    "CQL": _CQL,
    "CalQL": _CQL,
    "BCQ": {
        "actor_lr": 1e-3,
        "critic_lr": 1e-3,
        "imitator_lr": 1e-3,
        "n_action_samples": 100,
        "action_flexibility": 0.05,
        "lam": 0.75,
        **_FEW,
    },
    "BEAR": {
        "actor_lr": 1e-4,
        "imitator_lr": 3e-4,
        "temperature_lr": 1e-4,
        "alpha_lr": 1e-3,
        "alpha_threshold": 0.05,
        "initial_alpha": 1.0,
        "mmd_kernel": "gaussian",
        "mmd_sigma": 20.0,
        "n_mmd_action_samples": 4,
        "n_action_samples": 10,
        "lam": 0.75,
        **_FEW,
    },
}
DISCRETE: dict[str, dict[str, Any]] = {
    "DiscreteBC": {"actor_lr": 1e-3, "beta": 0.5},
    "DiscreteCQL": {"critic_lr": 1e-3, "conservative_weight": 1.0, "target_update_interval": 200},
    # With the paper's 0.3 some seeds do not learn: `score_trials.py`.
    "DiscreteBCQ": {
        "critic_lr": 1e-3,
        "beta": 0.5,
        "action_flexibility": 0.6,
        "target_update_interval": 200,
        "updates": 30_000,
    },
}
ALGORITHMS = CONTINUOUS | DISCRETE


def settings_of(algorithm: str, **changes: Any) -> dict[str, Any]:
    """The hyperparameters of an algorithm."""
    return COMMON | ALGORITHMS[algorithm] | changes
