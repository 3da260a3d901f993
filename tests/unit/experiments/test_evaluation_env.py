"""Tests of the choice of the evaluation environment."""

from types import SimpleNamespace

import gymnasium

from pfrl_like.experiments.evaluation_env import choose_eval_env


def test_an_agent_that_holds_the_environment_is_evaluated_in_it() -> None:
    env = gymnasium.make("CartPole-v1")
    context, choice = choose_eval_env(env, None, agent=SimpleNamespace(env=env.unwrapped))
    with context as chosen:
        assert chosen is env
    assert choice == "the training environment, between episodes"


def test_other_agents_are_evaluated_in_a_new_environment() -> None:
    env = gymnasium.make("CartPole-v1")
    context, _ = choose_eval_env(env, None, agent=SimpleNamespace(env=gymnasium.make("CartPole-v1")))
    with context as chosen:
        assert chosen is not env
