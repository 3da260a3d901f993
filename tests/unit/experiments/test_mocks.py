"""Agents, environments and hooks that are mocks, as in tests of users' own scripts: what they say means nothing."""

from unittest import mock

import pytest

from pfrl_like.envs import SerialVectorEnv
from pfrl_like.experiments import train_agent, train_agent_batch, train_agent_with_evaluation
from pfrl_like.experiments.evaluation_hooks import EvaluationHook
from pfrl_like.experiments.evaluator import Evaluator, eval_performance
from pfrl_like.experiments.train_agent_async import train_agent_async


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


def test_a_mock_agent_trains_in_several_mock_environments(tmp_path):
    agent, envs = mock.Mock(), [mock_env(2), mock_env(2)]
    agent.batch_act.return_value = [0, 0]
    train_agent_batch(agent, SerialVectorEnv(envs), 12, str(tmp_path))
    assert agent.batch_observe.call_count == 6
    assert [env.reset.call_count for env in envs] == [2, 2]


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


def test_several_mock_environments_are_evaluated_together():
    agent = mock.MagicMock()
    agent.batch_act.return_value = [0, 0]
    assert eval_performance(SerialVectorEnv([mock_env(2), mock_env(2)]), agent, None, 3)["mean"] == 1.0


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
