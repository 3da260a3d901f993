"""What a run says when it ends."""

import logging

import numpy as np
import pytest
import torch
from experiment_fakes import Counting
from torch import nn

from pfrl_like.agents import DQN
from pfrl_like.dataset import MDPDataset
from pfrl_like.errors import NonFiniteError
from pfrl_like.experiments import train_agent, train_agent_offline
from pfrl_like.experiments.callbacks import Progress
from pfrl_like.explorers import Greedy
from pfrl_like.nn import RecurrentSequential
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.replay_buffers import EpisodicReplayBuffer, ReplayBuffer


def dqn(replay_start_size, minibatch_size=2, *, recurrent=False):
    q_function = nn.Sequential(nn.Linear(1, 2), DiscreteActionValueHead())
    if recurrent:
        q_function = RecurrentSequential(nn.GRU(1, 2), *q_function[1:])
    return DQN(
        q_function, torch.optim.SGD(q_function.parameters(), lr=0.0),
        EpisodicReplayBuffer(5000) if recurrent else ReplayBuffer(5000), 0.9, Greedy(),
        replay_start_size=replay_start_size, minibatch_size=minibatch_size, recurrent=recurrent,
    )  # fmt: skip


class TestARunWithoutUpdates:
    def test_it_says_why(self, tmp_path, caplog, capsys):
        train_agent(dqn(5000), Counting(), 10, tmp_path, progress=True)
        text = "no update was made: the buffer holds 10 transitions, replay_start_size is 5,000"
        assert text in caplog.text and text in (tmp_path / "run.log").read_text()
        assert capsys.readouterr().err.endswith(f"finished at step 10\n{text}\n")

    @pytest.mark.parametrize("configured", [False, True])
    def test_on_stderr_too_unless_the_user_has_handlers(self, tmp_path, capsys, monkeypatch, configured):
        monkeypatch.setattr(logging.getLogger(), "handlers", [logging.NullHandler()] * configured)  # pytest has its own
        train_agent(dqn(5000), Counting(), 10, tmp_path)
        assert capsys.readouterr().err.count("no update was made") == (not configured)
        assert not logging.getLogger("pfrl_like").handlers

    def test_a_recurrent_agent_may_lack_episodes(self, tmp_path, caplog):
        train_agent(dqn(4, 4, recurrent=True), Counting(5), 15, tmp_path)
        assert "no update was made: the buffer holds 3 whole episodes, minibatch_size is 4" in caplog.text

    def test_others_say_nothing(self, agent, tmp_path, caplog, capsys):
        train_agent(dqn(5), Counting(), 10, tmp_path / "1", progress=True)
        train_agent(agent, Counting(), 10, tmp_path / "2", progress=True)  # whose updates nobody counts
        train_agent(dqn(50), Counting(), 10, tmp_path / "3", step_offset=10)
        assert "no update" not in caplog.text + capsys.readouterr().err


class TestTheProgressLine:
    @pytest.fixture(autouse=True)
    def every_step(self, monkeypatch):
        monkeypatch.setattr(Progress, "__call__", lambda progress, clock: progress._write(clock, progress.now()))

    def lines(self, capsys):
        return [line.split("left", 1)[1].strip() for line in capsys.readouterr().err.splitlines() if "left" in line]

    def test_it_says_that_a_recurrent_agent_waits_for_whole_episodes(self, tmp_path, capsys):
        train_agent(dqn(3, 3, recurrent=True), Counting(5), 20, tmp_path, progress=True)
        few = "no updates yet: the buffer holds {} whole episodes, minibatch_size is 3"
        assert self.lines(capsys) == [few.format(0)] * 4 + [few.format(1)] * 5 + [few.format(2)] * 5 + [""] * 6

    def test_it_says_so_of_an_agent_whose_statistics_have_other_names(self, tmp_path, capsys):
        agent = dqn(5)
        agent.get_statistics = list
        train_agent(agent, Counting(), 6, tmp_path, progress=True)
        waits = [f"no updates yet: the buffer holds {n} transitions, replay_start_size is 5" for n in range(1, 5)]
        assert self.lines(capsys) == [*waits, "", ""]

    def test_it_says_nothing_where_updates_come_from_recorded_data(self, tmp_path, capsys):
        dataset = MDPDataset.from_arrays(np.zeros((8, 1)), np.zeros(8, int), np.zeros(8), np.arange(8) == 7)
        train_agent_offline(dqn(5000), dataset, 3, tmp_path, progress=True)
        assert self.lines(capsys) == ["", "", ""]


def test_an_error_tells_where_training_was(agent, tmp_path):
    env = Counting(3)

    def spoil(env, agent, t):
        if t == 7:
            env.reward = float("nan")

    with pytest.raises(NonFiniteError, match="reward is nan") as caught:
        train_agent(agent, env, 10, tmp_path, step_hooks=[spoil])
    assert caught.value.__notes__ == ["at step 8 of training, after 2 whole episodes"]
