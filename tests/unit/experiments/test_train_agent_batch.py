import contextlib
import logging
import os

import numpy as np
import pytest
from experiment_fakes import Counting, Recorder

from pfrl_like.envs import MultiprocessVectorEnv, SerialVectorEnv
from pfrl_like.envs.abc import ABC
from pfrl_like.errors import NonFiniteError
from pfrl_like.experiments import eval_performance, train_agent_batch, train_agent_batch_with_evaluation
from pfrl_like.experiments.evaluator import batch_run_evaluation_episodes, run_evaluation_episodes


def vector(*lengths):
    return SerialVectorEnv([Counting(length) for length in lengths])


def test_steps_are_counted_over_all_environments(agent, tmp_path):
    calls = []
    train_agent_batch(agent, vector(2, 3), 6, tmp_path, step_hooks=[lambda env, agent, t: calls.append(t)])
    assert calls == [1, 2, 3, 4, 5, 6]
    assert [row[0] for row in agent.observed] == [1, 1, 2, 2, 1, 3]


def test_episode_limit_cuts_off(agent, tmp_path):
    train_agent_batch(agent, vector(9, 9), 8, tmp_path, max_episode_len=2)
    assert [row[3] for row in agent.observed] == [False, False, True, True] * 2


def test_first_observation_of_every_episode_has_to_be_finite(agent, tmp_path):
    env = vector(2, 9)

    def spoiled():
        return np.array([np.nan], np.float32), {}

    def hook(clock):
        env.envs[0].reset = spoiled

    with pytest.raises(NonFiniteError, match=r"obs\[0\]"):
        train_agent_batch(agent, env, 8, tmp_path, hooks=[hook])
    assert len(agent.observed) == 4


def test_environments_may_change_their_observations_in_place(agent, tmp_path):
    env, seen = vector(2, 9), []
    for each in env.envs:
        each.in_place = [np.zeros(1, np.float32)]
    agent.batch_observe = lambda obs, *_: seen.append(list(obs))
    train_agent_batch(agent, env, 6, tmp_path)
    assert [[one.item() for one in obs] for obs in seen] == [[1, 1], [2, 2], [1, 3]]


def test_checkpoints_fall_on_multiples(agent, tmp_path):
    train_agent_batch(agent, vector(3, 3), 8, tmp_path, checkpoint_freq=3)
    assert [os.path.basename(path) for path in agent.saved] == ["3_checkpoint", "6_checkpoint", "8_finish"]


def test_interval_and_window_of_the_log(agent, tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        train_agent_batch(agent, vector(1, 3), 12, tmp_path, log_interval=6, return_window_size=2)
    lines = [record.getMessage() for record in caplog.records if "average_R" in record.getMessage()]
    assert len(lines) == 2 and "step:6 episode:4 last_R:3.0 average_R:2.0" in lines[0]


def test_error_closes_the_environment_and_saves_the_agent(agent, tmp_path):
    env = vector(3)
    closed = []
    env.close = lambda: closed.append(True)
    env.envs[0].step = lambda action: 1 / 0
    with pytest.raises(ZeroDivisionError):
        train_agent_batch(agent, env, 8, tmp_path)
    assert closed and os.path.basename(agent.saved[-1]) == "0_except"


def test_evaluation_in_single_and_vector_environments(agent, tmp_path):
    for eval_env in (Counting(4), vector(4, 4)):
        _, history = train_agent_batch_with_evaluation(agent, vector(2, 2), 4, None, 3, 2, tmp_path, eval_env=eval_env)
        assert [entry["eval_score"] for entry in history] == [4.0, 4.0]


def test_environments_in_other_processes_need_an_evaluation_environment(agent, tmp_path):
    with contextlib.closing(MultiprocessVectorEnv([ABC], "fork" if os.name == "posix" else None)) as env:
        with pytest.raises(ValueError, match=r"its environments live in other processes\): give an eval_env"):
            train_agent_batch_with_evaluation(agent, env, 4, None, 3, 2, tmp_path)
        assert len(env.reset()) == 1  # it has not been harmed


def test_training_environment_is_copied_for_evaluation(agent, tmp_path):
    _, history = train_agent_batch_with_evaluation(agent, vector(2, 2), 4, None, 3, 4, tmp_path)
    assert [entry["eval_score"] for entry in history] == [2.0]
    assert [row[0] for row in agent.observed] == [1, 1, 2, 2]


def test_short_episodes_are_not_preferred_in_vector_evaluation():
    # environment 0 ends three episodes while environment 1 ends its first: the order of beginning counts
    assert batch_run_evaluation_episodes(vector(1, 3), Recorder(), None, 2)[0] == [1.0, 3.0]


@pytest.mark.parametrize("n_steps, returns", [(1, [3.0]), (3, [3.0]), (5, [3.0]), (6, [3.0, 3.0]), (7, [3.0, 3.0])])
def test_evaluation_by_steps_counts_whole_episodes(n_steps, returns):
    scores, _ = run_evaluation_episodes(Counting(3), Recorder(), n_steps, None)
    expected = [float(n_steps)] if n_steps < 3 else returns
    assert scores == expected


@pytest.mark.parametrize(
    ("evaluate", "env", "times"),
    [(run_evaluation_episodes, Counting(3), [1, 2, 3]), (batch_run_evaluation_episodes, vector(3, 3), [2, 4, 6])],
)
def test_hooks_of_an_evaluation_see_its_clock_after_every_step(evaluate, env, times):
    seen = []
    evaluate(env, Recorder(), None, 1, hooks=[lambda clock: seen.append(clock.t)])
    assert seen == times


def test_statistics_of_an_evaluation():
    class Growing(Counting):
        def reset(self, **kwargs):
            self.length += 1
            return super().reset(**kwargs)

    stats = eval_performance(Growing(0), Recorder(), None, 4)  # returns 1, 2, 3, 4
    assert stats["mean"] == 2.5 and stats["median"] == 2.5 and stats["min"] == 1 and stats["max"] == 4
    assert stats["stdev"] == pytest.approx(np.sqrt(5 / 3)) and stats["length_mean"] == 2.5 and stats["episodes"] == 4
