"""An evaluation in the vector environment of training: it truncates the training episodes, and new ones start."""

import shutil

import pytest
from experiment_fakes import Counting, Recorder
from resume_parts import noisy_env, small_dqn
from run_parts import Stopped, resumed, steps_of, stop_at, table
from stopped_runs import digests

from pfrl_like.envs import SerialVectorEnv
from pfrl_like.experiments import train_agent_batch_with_evaluation


class Stopping(Recorder):
    """Writes down that its training episodes are stopped."""

    def stop_episode(self):
        if self.training:
            self.observed.append("stop")


def train(tmp_path, env, **options):
    agent = Stopping()
    train_agent_batch_with_evaluation(
        agent, env, steps=8, eval_n_steps=None, eval_n_episodes=1, eval_interval=4, outdir=str(tmp_path),
        progress=False, **options,
    )  # fmt: skip
    return agent


def test_episodes_start_anew_after_an_evaluation_in_the_training_environment(tmp_path):
    env = SerialVectorEnv([Counting(length=3), Counting(length=3)])
    agent = train(tmp_path, env, eval_env=env)
    steps = [(row if row == "stop" else row[0]) for row in agent.observed]
    assert steps == ["stop", 1, 1, 2, 2, "stop", 1, 1, 2, 2]
    assert [row[0] for row in agent.evaluated] == [1, 1, 2, 2, 3, 3] * 2
    assert steps_of(tmp_path / "scores.txt") == [4, 8]
    assert env.envs[0].n_resets == 4  # two of training, two of evaluations


def test_another_evaluation_environment_leaves_the_episodes_alone(tmp_path):
    env = SerialVectorEnv([Counting(length=3), Counting(length=3)])
    agent = train(tmp_path, env, eval_env=SerialVectorEnv([Counting(length=3)]))
    assert [(row if row == "stop" else row[0]) for row in agent.observed] == ["stop", 1, 1, 2, 2, 3, 3, 1, 1]


def run_of_cartpoles(outdir, **options):
    """A run that evaluates in its own environments, whose first episodes are seeded."""
    env = SerialVectorEnv([noisy_env(seed) for seed in range(2)])
    env.seed([1, 2])
    agent = small_dqn(env.envs[0])
    train_agent_batch_with_evaluation(
        agent, env, 120, 20, None, 40, outdir, eval_env=env, checkpoint_freq=50, progress=False, **options
    )
    return digests({"agent": agent.state_dict(), "scores": table(outdir / "scores.txt")})


@pytest.mark.slow
def test_a_run_that_evaluates_in_its_environment_goes_on_as_if_it_had_not_been_stopped(tmp_path):
    whole = run_of_cartpoles(tmp_path / "whole", resume=True)
    with pytest.raises(Stopped):
        run_of_cartpoles(tmp_path / "broken", hooks=[stop_at(90)])
    shutil.rmtree(tmp_path / "broken" / "90_except")
    assert run_of_cartpoles(tmp_path / "broken", resume=True) == whole
    told = resumed(tmp_path / "broken")
    assert (told["checkpoint"], told["resume"]) == ("50_checkpoint", "exact")
