"""Trials of settings for presets that `scores.py` does not score. `preset_scores.py` trains them in this order.

The settings of the trial with the best mean become the preset; of equal ones those of the last, which knows the results
of the others. One trial alone has nothing to be compared with: its settings are scored at once.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Trial(NamedTuple):
    """Settings of an agent in an environment.

    Attributes:
        agent: Name of the agent, as `make` knows it.
        env_id: Id of the environment.
        name: Name of the trial.
        changes: At most five settings in place of the preset's.
    """

    agent: str
    env_id: str
    name: str
    changes: Mapping[str, Any]


TRIAL_SEEDS = (100, 101, 102)
SCORE_SEEDS = (0, 1, 2)
MUNCHAUSEN, DISCRETE_SAC = ("munchausen_dqn", "CartPole-v1"), ("discrete_sac", "CartPole-v1")
CROSSQ, REDQ = ("crossq", "Pendulum-v1"), ("redq", "Pendulum-v1")
PPO_ACROBOT, TRPO_ACROBOT = ("ppo", "Acrobot-v1"), ("trpo", "Acrobot-v1")
PPO_LANDER = ("ppo", "LunarLander-v3")
TRIALS = (
    # Without normalisation the value function may be slow to learn returns of -500.
    Trial(*PPO_ACROBOT, "plain", {"lr": 1e-3}),
    Trial(*PPO_ACROBOT, "normalised observations", {"lr": 1e-3, "normalize": True}),
    Trial(*TRPO_ACROBOT, "plain", {"lr": 1e-3}),
    Trial(*TRPO_ACROBOT, "normalised observations", {"lr": 1e-3, "normalize": True}),
    # Half of the largest entropy is much for a task in which one wrong action late can be mended.
    Trial(*DISCRETE_SAC, "entropy 0.35", {"entropy_target": 0.35}),
    Trial(*DISCRETE_SAC, "entropy 0.1", {"entropy_target": 0.1}),
    Trial(*DISCRETE_SAC, "entropy 0.1, 3-step returns", {"entropy_target": 0.1, "num_steps": 3}),
    # The log policy of the first step alone is added to an n-step return. 3-step returns reached 500 with all seeds of
    # their trial, and then 500, 209 and 134 with those of the score: the later two trials learn more slowly.
    Trial(*MUNCHAUSEN, "3-step returns", {"num_steps": 3}),
    Trial(*MUNCHAUSEN, "1-step returns", {"num_steps": 1}),
    Trial(*MUNCHAUSEN, "learning rate 1e-3", {"num_steps": 3, "lr": 1e-3}),
    Trial(*MUNCHAUSEN, "learning rate 1e-3, alpha 0.5", {"num_steps": 3, "lr": 1e-3, "alpha": 0.5}),
    # Wide critics and a short memory of Adam are those of the paper (arXiv:1902.05605).
    Trial(*CROSSQ, "wide critics, first beta 0.5", {"critic_hidden_sizes": [256, 256], "adam_betas": [0.5, 0.999]}),
    # Few steps, many updates: the time of a step grows with updates and critics.
    Trial(*REDQ, "10 critics", {"n_times_update": 5, "n_critics": 10}),
    Trial(*PPO_LANDER, "horizon 1,000, entropy", {"gamma": 0.999, "lambd": 0.98, "entropy_coef": 0.01}),
    Trial("td3", "LunarLanderContinuous-v3", "as SAC", {}),
    Trial("dqn", "LunarLander-v3", "as Double DQN", {}),
)  # fmt: skip
#: Presets that are scored as they are: of these, `scores.py` has fewer than three seeds, or none.
WITHOUT_TRIALS = (
    *((agent, "CartPole-v1") for agent in ("a3c", "acer", "impala", "appo")),
    ("categorical_double_dqn", "MinAtar/Breakout-v1"),  # its trial is that of Rainbow in `score_trials.py`
)
