"""Options of `train_agent_distributed` have their effects in runs with actors."""

import logging
import re
import time

import gymnasium
import numpy as np
import pytest
from cluster_parts import cartpole, numbered, numbers_of, rows_in, small_dqn

from pfrl_like.agents import DQN
from pfrl_like.errors import CheckpointError
from pfrl_like.experiments import EvaluationHook
from pfrl_like.experiments.cluster.runner import train_agent_distributed
from pfrl_like.experiments.cluster.source import DistributedSource
from pfrl_like.replay_buffers import PrioritizedReplayBuffer, ReplayBuffer

pytestmark = pytest.mark.slow
STEPS = 160


def train(outdir, make_agent=small_dqn, make_env=cartpole, **options):
    arguments = {
        "steps": STEPS, "actors": 2, "envs_per_actor": 2, "order": "fixed", "seed": 0, "cpus_per_actor": 0,
        "rows_per_message": (4, 4), "outdir": outdir, "start_timeout": 300,
    }  # fmt: skip
    return train_agent_distributed(make_agent, make_env, **arguments | options)[0]


class RecordingLogger:
    def __init__(self):
        self.rows = []

    def log(self, t, metrics):
        self.rows.append((t, metrics))

    def close(self):
        self.rows.append("closed")


class RecordingHook(EvaluationHook):
    support_train_agent = support_train_agent_batch = support_train_agent_async = True

    def __init__(self):
        self.stats = []

    def __call__(self, env, agent, evaluator, step, eval_stats, agent_stats, env_stats):
        self.stats.append(dict(eval_stats))


def test_hooks_loggers_and_evaluations_follow_their_options(ray, tmp_path, caplog, capsys):
    recorded, hook, steps, logger = RecordingLogger(), RecordingHook(), [], logging.getLogger("pfrl_like.of_a_test")
    with caplog.at_level(logging.INFO, "pfrl_like.of_a_test"):
        agent = train(
            tmp_path, make_env=numbered, updates_per_step=0.5, max_episode_len=5, eval_interval=80, eval_n_steps=12,
            eval_n_episodes=None, eval_max_episode_len=4, eval_success_threshold=1.0, evaluation_hooks=[hook],
            save_best_so_far_agent=False, use_tensorboard=True, log_interval=40, return_window_size=1,
            step_hooks=[lambda env, agent, t: steps.append((env.num_envs, t))], loggers=[recorded], logger=logger,
            progress=True,
        )  # fmt: skip
    assert agent.optim_t == (STEPS - 24) // 2  # the 24th step is the first from which updates are counted
    assert steps == [(4, t) for t in range(1, STEPS + 1)]
    assert hook.stats
    for stats in hook.stats:  # the reward of the environment of the evaluation is 2
        assert (stats["mean"], stats["episodes"], stats["success_rate"]) == (8.0, 3, 1.0)
    assert np.genfromtxt(tmp_path / "metrics.csv", delimiter=",", names=True)["length"].max() == 5
    assert recorded.rows[-1] == "closed" and len(recorded.rows) > 1
    assert not (tmp_path / "best").exists() and [*tmp_path.glob("events.*")]
    lines = [record.getMessage() for record in caplog.records if record.name == logger.name]
    averages = re.findall(r"step:(\d+) .*average_R:([\d.]+)", "\n".join(lines))
    assert [int(step) for step, _ in averages] == [40, 80, 120, 160]
    assert {average for _, average in averages} <= {"0.0", "5.0"}  # returns of actor 0 and of actor 1, not their mean
    assert "160/160 steps" in capsys.readouterr().err


def test_an_evaluation_has_a_number_of_episodes(ray, tmp_path):
    hook = RecordingHook()
    train(tmp_path, eval_interval=STEPS, eval_n_episodes=3, evaluation_hooks=[hook])
    assert [stats["episodes"] for stats in hook.stats] == [3]


class Sleeping(gymnasium.Wrapper):
    """Sleeps at every step."""

    def step(self, action):
        time.sleep(0.02)
        return super().step(action)


@pytest.mark.parametrize(("seconds", "sizes"), [(0.001, [1] * 24), (60.0, [1, 8, 8, 7])])
def test_a_message_has_the_steps_of_some_seconds(ray, tmp_path, monkeypatch, seconds, sizes):
    store, received = DistributedSource._store, []

    def noted(self, i, answer):
        received.append(answer.n_steps)
        store(self, i, answer)

    monkeypatch.setattr(DistributedSource, "_store", noted)
    train(
        tmp_path, make_env=lambda *place: Sleeping(cartpole(*place)), order="arrival", steps=24, actors=1,
        envs_per_actor=1, rows_per_message=(1, 8), seconds_per_message=seconds, requests_in_flight=1,
    )  # fmt: skip
    assert received == sizes


def test_the_seed_decides_the_steps_of_all_actors(ray, tmp_path):
    def make_agent():
        return small_dqn(replay_buffer=ReplayBuffer(1000))

    first, again, other = (
        {*map(tuple, rows_in(train(tmp_path / name, make_agent, steps=16, seed=seed).replay_buffer))}
        for name, seed in (("first", 1), ("again", 1), ("other", 2))
    )
    assert len(first) == 16
    assert first == again
    assert not first & other


def test_minibatches_in_flight_are_sampled_before_the_newest_priorities_are_known(ray, tmp_path):
    def make_agent():
        buffer = PrioritizedReplayBuffer(1000, rng=np.random.default_rng(0))
        return small_dqn(replay_buffer=buffer)

    def numbers(order, **options):
        name = "-".join(map(str, (order, *options.values())))
        agent = train(tmp_path / name, make_agent, order=order, actors=1, envs_per_actor=4, replay="actor", **options)
        return numbers_of(agent)

    one, three = (numbers("arrival", minibatches_in_flight=k) for k in (1, 3))
    assert np.array_equal(numbers("fixed"), one)
    assert not np.array_equal(one, three)


def checkpoints_in(outdir):
    return sorted(path.name for path in outdir.glob("*_checkpoint"))


def test_older_checkpoints_are_deleted(ray, tmp_path):
    train(tmp_path / "all", checkpoint_freq=40)
    assert checkpoints_in(tmp_path / "all") == ["120_checkpoint", "40_checkpoint", "80_checkpoint"]
    train(tmp_path / "newest", checkpoint_freq=40, keep_checkpoints=1)
    assert len(checkpoints_in(tmp_path / "newest")) <= 1


def test_a_checkpoint_that_cannot_be_saved_ends_training_or_is_logged(ray, tmp_path, monkeypatch, caplog):
    save = DQN.save

    def fill_disk(self, dirname):
        if dirname.endswith("80_checkpoint"):
            raise CheckpointError(dirname, "cannot be written: no space is left")
        save(self, dirname)

    monkeypatch.setattr(DQN, "save", fill_disk)
    with pytest.raises(CheckpointError, match="no space is left"):
        train(tmp_path / "raise", checkpoint_freq=80, on_checkpoint_failure="raise")
    assert train(tmp_path / "warn", checkpoint_freq=80, on_checkpoint_failure="warn").t == STEPS
    assert "no space is left" in caplog.text
