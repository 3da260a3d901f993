"""An evaluation in the vector environment of training: it truncates the training episodes, and new ones start."""

from experiment_fakes import Counting, Recorder
from run_parts import steps_of

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
