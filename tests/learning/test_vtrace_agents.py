"""IMPALA and APPO, as `make` composes them, learn to balance a pole."""

from pathlib import Path

import numpy as np
import pytest

import pfrl_like
from pfrl_like.experiments.evaluator import eval_performance
from pfrl_like.zoo import load_agent


@pytest.mark.slow
@pytest.mark.parametrize("name", ["impala", "appo"])
def test_a_pole_is_balanced_after_the_steps_of_the_preset(name: str, tmp_path: Path) -> None:
    made = pfrl_like.make(name, "CartPole-v1", seed=0)
    made.train(outdir=tmp_path / "run")
    assert eval_performance(made.eval_env, made.agent, None, 10)["mean"] >= 475
    made.agent.save(tmp_path / "agent")
    obs = np.zeros(4, np.float32)
    with made.agent.eval_mode():
        assert load_agent(tmp_path / "agent").act(obs) == made.agent.act(obs)
