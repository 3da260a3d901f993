"""Runners ask an agent for its statistics as often as PFRL does, and finish although it fails after the last step."""

import json

import pytest
from experiment_fakes import Counting, Recorder

from pfrl_like.envs import SerialVectorEnv
from pfrl_like.experiments import train_agent, train_agent_batch, train_agent_with_evaluation


class Asked(Recorder):
    """Counts how often it is asked; fails from some observation on."""

    def __init__(self, fails_from=10**9):
        super().__init__()
        self.asked, self.fails_from = 0, fails_from

    def get_statistics(self):
        self.asked += 1
        if len(self.observed) >= self.fails_from:
            raise ZeroDivisionError("no statistics")
        return [("n_observed", len(self.observed))]


def test_a_serial_run_asks_after_each_episode(tmp_path):
    agent = Asked()
    train_agent(agent, Counting(length=3), 10, str(tmp_path))
    assert agent.asked == 4


def test_an_evaluation_asks_for_the_header_the_row_and_the_history(tmp_path):
    agent = Asked()
    train_agent_with_evaluation(
        agent, Counting(length=3), 12, None, 1, 6, str(tmp_path), eval_env=Counting(length=3)
    )  # fmt: skip
    assert agent.asked == 4 + 1 + 2 * 2


def test_a_vector_run_asks_at_its_intervals(tmp_path):
    agent = Asked()
    train_agent_batch(agent, SerialVectorEnv([Counting(), Counting()]), 12, str(tmp_path), log_interval=4)
    assert agent.asked == 3


@pytest.mark.parametrize("vector", [False, True])
def test_a_failure_after_the_last_step_leaves_the_run_finished(vector, tmp_path, caplog):
    agent, env = Asked(fails_from=6), Counting(length=3)
    if vector:
        train_agent_batch(agent, SerialVectorEnv([env]), 6, str(tmp_path), log_interval=6)
    else:
        train_agent(agent, env, 6, str(tmp_path))
    assert json.loads((tmp_path / "run.json").read_text())["outcome"] == "finished"
    assert agent.saved == [str(tmp_path / "6_finish")] and "get_statistics failed after the last step" in caplog.text


def test_an_earlier_failure_ends_the_run(tmp_path):
    with pytest.raises(ZeroDivisionError):
        train_agent(Asked(fails_from=3), Counting(length=3), 6, str(tmp_path))
