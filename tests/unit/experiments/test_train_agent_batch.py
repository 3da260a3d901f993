import contextlib
import logging
import os
from unittest import mock

import numpy as np
import pytest
from experiment_fakes import Counting, Recorder

from pfrl_like.envs import MultiprocessVectorEnv, SerialVectorEnv
from pfrl_like.envs.abc import ABC
from pfrl_like.errors import NonFiniteError
from pfrl_like.experiments import (
    eval_performance,
    train_agent,
    train_agent_batch,
    train_agent_batch_with_evaluation,
    train_agent_with_evaluation,
)
from pfrl_like.experiments.evaluation_hooks import EvaluationHook
from pfrl_like.experiments.evaluator import Evaluator, batch_run_evaluation_episodes, run_evaluation_episodes
from pfrl_like.experiments.train_agent_async import train_agent_async


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


# Agents, environments and hooks that are mocks, as in tests of users' own scripts: what they say means nothing


def mock_env(episodes):
    """Episodes of three steps that earn 0, 0 and 1, each with a fresh observation that is no array."""
    env = mock.Mock()
    env.reset.side_effect = [("state", 0)] * episodes
    steps = [(("state", 1), 0, False, {}), (("state", 2), 0, False, {}), (("state", 3), 1, True, {})]
    env.step.side_effect = steps * episodes
    return env


def test_a_mock_agent_trains_in_a_mock_environment(tmp_path):
    agent, env, hook = mock.Mock(), mock_env(2), mock.Mock()
    assert train_agent(agent, env, 6, str(tmp_path), step_hooks=[hook]) == []
    assert (agent.act.call_count, agent.observe.call_count, env.reset.call_count) == (6, 6, 2)
    assert [call.args for call in hook.call_args_list] == [(env, agent, t) for t in range(1, 7)]
    agent.save.assert_called_once_with(str(tmp_path / "6_finish"))


def test_a_mock_agent_trains_and_is_evaluated_in_several_mock_environments(tmp_path):
    agent, envs = mock.MagicMock(), [mock_env(2), mock_env(2)]
    agent.batch_act.return_value = [0, 0]
    train_agent_batch(agent, SerialVectorEnv(envs), 12, str(tmp_path))
    assert agent.batch_observe.call_count == 6
    assert [env.reset.call_count for env in envs] == [2, 2]
    assert eval_performance(SerialVectorEnv([mock_env(2), mock_env(2)]), agent, None, 3)["mean"] == 1.0


def test_a_mock_evaluator_gives_the_scores(tmp_path):
    agent, evaluator = mock.Mock(), mock.Mock()
    agent.get_statistics.return_value = [("loss", 2.0)]
    evaluator.evaluate_if_necessary.side_effect = [None, 3.0]
    history = train_agent(agent, mock_env(2), 6, str(tmp_path), evaluator=evaluator)
    assert history == [{"loss": 2.0, "eval_score": 3.0}]


def test_mocks_are_evaluated(tmp_path):
    agent, env, hook = mock.MagicMock(), mock_env(2), mock.Mock()
    evaluator = Evaluator(agent, env, None, 2, eval_interval=3, outdir=str(tmp_path), evaluation_hooks=[hook])
    assert [evaluator.evaluate_if_necessary(t, t) for t in (2, 3)] == [None, 1.0]
    assert hook.call_args.kwargs["eval_stats"]["length_mean"] == 3
    assert (tmp_path / "scores.txt").read_text().splitlines()[1].split("\t")[:2] == ["3", "3"]


@pytest.mark.parametrize("nothing", [None, mock.Mock()])
def test_statistics_that_are_no_pairs_count_as_none(tmp_path, nothing):
    agent = mock.MagicMock()
    agent.get_statistics.return_value = nothing
    _, history = train_agent_with_evaluation(agent, mock_env(1), 3, None, 1, 3, str(tmp_path), eval_env=mock_env(1))
    assert history == [{"eval_score": 1.0}]


def test_a_hook_that_does_not_support_a_runner_is_named_before_anything_else_is_looked_at():
    class Unsupported(EvaluationHook):
        def __call__(self, **kwargs):
            pass

    with pytest.raises(ValueError, match="Unsupported object .* does not support train_agent_async"):
        train_agent_async(mock.Mock(), 1, mock.Mock(), agent=mock.Mock(), evaluation_hooks=[Unsupported()])
    with pytest.raises(ValueError, match="Unsupported object .* does not support train_agent_with_evaluation"):
        train_agent_with_evaluation(
            mock.Mock(), mock.Mock(), 1, 1, None, 1, mock.Mock(), evaluation_hooks=[Unsupported()]
        )
