import contextlib
import itertools
import logging
import os
import random
from unittest import mock

import gymnasium
import numpy as np
import pytest
import torch
from experiment_fakes import Bare, Counting, Recorder
from resume_parts import small_dqn
from run_parts import Hook, Sink, record, steps_of, table

from pfrl_like import experiments as runs
from pfrl_like.batch import Batch
from pfrl_like.envs import MultiprocessVectorEnv, SerialVectorEnv
from pfrl_like.envs.abc import ABC
from pfrl_like.errors import EnvError, NonFiniteError
from pfrl_like.experiments.callbacks import Progress
from pfrl_like.experiments.evaluator import batch_run_evaluation_episodes, run_evaluation_episodes
from pfrl_like.explorers import Greedy
from pfrl_like.optimizers.compiled_region import LISTENERS
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.runs.loop import Clock


def names(agent):
    return [os.path.basename(path) for path in agent.saved]


def test_agent_observes_every_step_with_termination_and_truncation_apart(agent, tmp_path):
    runs.train_agent(agent, Counting(3), 6, tmp_path)
    assert agent.observed == [(1, 1, False, False), (2, 1, False, False), (3, 1, True, False)] * 2
    agent.observed.clear()
    runs.train_agent(agent, Counting(2, truncate=True), 2, tmp_path)
    assert agent.observed == [(1, 1, False, False), (2, 1, False, True)]


def test_episode_limit_resets_without_termination(agent, tmp_path):
    runs.train_agent(agent, Counting(10), 4, tmp_path, max_episode_len=2)
    assert agent.observed == [(1, 1, False, False), (2, 1, False, True)] * 2


def test_needs_reset_of_info_cuts_the_episode_off(agent, tmp_path):
    runs.train_agent(agent, Counting(10, needs_reset_at=2), 4, tmp_path)
    assert [row[3] for row in agent.observed] == [False, True, False, True]


def test_no_episode_begins_after_the_last_step(agent, tmp_path):
    env = Counting(3)
    runs.train_agent(agent, env, 6, tmp_path)
    assert env.n_resets == 2


def test_step_offset_sets_the_agents_clock_and_shortens_training(agent, tmp_path):
    runs.train_agent(agent, Counting(), 10, tmp_path, step_offset=7)
    assert agent.t == 7 and len(agent.observed) == 3


@pytest.mark.parametrize("steps, saved", [(5, "2_checkpoint 4_checkpoint 5_finish"), (4, "2_checkpoint 4_finish")])
def test_checkpoints_and_finish_are_saved(agent, tmp_path, steps, saved):
    runs.train_agent(agent, Counting(), steps, tmp_path, checkpoint_freq=2)
    assert names(agent) == saved.split()


def test_metrics_hold_every_whole_episode_and_not_the_one_that_the_end_cut_off(agent, tmp_path):
    runs.train_agent(agent, Counting(2), 5, tmp_path)
    rows = table(tmp_path / "metrics.csv")
    assert " ".join(rows[0]) == "step episode return length"
    assert [" ".join(row.values()) for row in rows] == ["2 0 2.0 2", "4 1 2.0 2"]


def test_error_while_observing_is_saved_under_the_step_it_belongs_to(agent, tmp_path):
    agent.observe = lambda *_: 1 / 0
    with pytest.raises(ZeroDivisionError):
        runs.train_agent(agent, Counting(), 5, tmp_path)
    assert names(agent) == ["1_except"]


def test_agent_that_only_acts_and_observes_is_trained(tmp_path, caplog):
    runs.train_agent(Bare(), Counting(2, mask=np.array([True, True])), 4, tmp_path)
    assert "no method save" in caplog.text and (tmp_path / "report.html").exists()


def test_report_that_cannot_be_written_does_not_cost_the_history(agent, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("pfrl_like.experiments.training.write_report", lambda outdir: 1 / 0)
    assert runs.train_agent(agent, Counting(2), 2, tmp_path) == []
    assert "report could not be written" in caplog.text


def test_further_loggers_get_the_same_metrics(agent, tmp_path):
    sink = Sink()
    runs.train_agent(agent, Counting(2), 2, tmp_path, loggers=[sink])
    assert sink.metrics == [{"episode": 0, "return": 2.0, "length": 2}] and sink.steps == [2, "closed"]


def test_run_record_and_report_tell_the_outcome(agent, tmp_path):
    runs.train_agent(agent, Counting(2), 4, tmp_path)
    assert {"outcome": "finished", "t": 4, "episodes": 2}.items() <= record(tmp_path).items()
    report = (tmp_path / "report.html").read_text()
    assert "<svg" in report and "http" not in report.replace("http://www.w3.org/2000/svg", "")


#: What spoils an environment or an agent, and how that is told.
SPOILT = [
    (lambda env, agent: setattr(env, "reward", float("nan")), NonFiniteError, "reward (is|has) nan"),
    (lambda env, agent: setattr(env, "bad_obs", np.array([np.inf], np.float32)), NonFiniteError, "obs.* has inf"),
    (lambda env, agent: setattr(agent, "action", 5), ValueError, "action.* is .*5"),
]


@pytest.mark.parametrize("spoil, error, message", SPOILT)
def test_bad_values_end_the_run_with_their_name_and_the_agent_saved(agent, tmp_path, caplog, spoil, error, message):
    env = Counting(3)
    with pytest.raises(error, match=message):
        runs.train_agent(agent, env, 10, tmp_path, step_hooks=[lambda *_: spoil(env, agent)])
    assert names(agent) == ["1_except" if "action" in message else "2_except"]
    assert "training ended by" in caplog.text
    assert error.__name__ in record(tmp_path)["outcome"] and error.__name__ in (tmp_path / "report.html").read_text()


def test_an_action_out_of_range_names_who_has_chosen_it(agent, tmp_path):
    agent.action = 5
    message = "action is 5, expected an integer from 0 to 1; the action comes from act of the agent\n"
    with pytest.raises(ValueError, match=message):
        runs.train_agent(agent, Counting(3), 10, tmp_path)
    agent.explorer = Greedy()
    with pytest.raises(ValueError, match="the action comes from act of the agent with the explorer Greedy\n"):
        runs.train_agent(agent, Counting(3), 10, tmp_path)
    agent.burnin_action_func, agent.burning_in = (lambda: 5), True
    with pytest.raises(ValueError, match="the action comes from burnin_action_func\n"):
        runs.train_agent(agent, Counting(3), 10, tmp_path)


def test_interrupted_run_has_a_report_and_a_last_line(agent, tmp_path, capsys):
    def interrupt(env, agent, t):
        if t == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runs.train_agent(agent, Counting(3), 10, tmp_path, step_hooks=[interrupt], progress=True)
    assert "interrupted at step 5 by Ctrl-C (SIGINT)" in (tmp_path / "report.html").read_text()
    assert (tmp_path / "learning_curve.svg").exists()
    assert capsys.readouterr().err.endswith("interrupted at step 5\n")


def test_error_of_the_environment_is_raised_as_it_is_though_saving_fails(agent, tmp_path, caplog):
    env = Counting()
    env.step = mock.Mock(side_effect=KeyError("lost"))
    agent.save = lambda dirname: 1 / 0
    with pytest.raises(KeyError, match="lost"):
        runs.train_agent(agent, env, 10, tmp_path)
    assert "ZeroDivisionError" in caplog.text


def test_minibatch_of_a_refused_update_is_kept(agent, tmp_path):
    rows, state, objects = torch.zeros(2), (torch.zeros(1, 2, 3),), [object(), object()]
    batch = Batch(objects, rows, rows, rows, rows, index=np.arange(2), action_mask=rows > 0, recurrent_state=state)

    def refuse(*_):
        raise NonFiniteError("loss", "the loss is nan", batch)

    agent.observe = refuse
    with pytest.raises(NonFiniteError):
        runs.train_agent(agent, Counting(), 10, tmp_path)
    loaded = torch.load(tmp_path / "bad_batch-1.pt", weights_only=True)
    own = {"index", "action_mask", "recurrent_state"}
    assert set(loaded) == {"action", "reward", "next_obs", "discount"} | own  # objects are no tensors
    assert loaded["index"].tolist() == [0, 1] and loaded["recurrent_state"][0].shape == (1, 2, 3)


class TestWithEvaluation:
    def run(self, agent, outdir, steps=6, **changes):
        arguments = dict(eval_n_steps=None, eval_n_episodes=2, eval_interval=3, outdir=outdir)
        return runs.train_agent_with_evaluation(
            agent, changes.pop("env", Counting(3)), steps, **{**arguments, **changes}
        )

    def test_returns_agent_and_history(self, agent, tmp_path):
        trained, history = self.run(agent, tmp_path)
        assert trained is agent
        assert history == [{"n_observed": 3, "eval_score": 3.0}, {"n_observed": 6, "eval_score": 3.0}]
        header, *rows = (line.split("\t") for line in (tmp_path / "scores.txt").read_text().splitlines())
        assert " ".join(header) == "steps episodes elapsed mean median stdev max min n_observed"  # those of PFRL
        assert " ".join(rows[0][:2] + rows[0][3:]) == "3 1 3.0 3.0 0.0 3.0 3.0 3" and rows[1][:2] == ["6", "2"]

    def test_best_agent_is_saved_once_for_equal_scores(self, agent, tmp_path):
        self.run(agent, tmp_path)
        assert names(agent) == ["best", "6_finish"]

    def test_successful_score_ends_training(self, agent, tmp_path):
        self.run(agent, tmp_path, steps=30, successful_score=3.0)
        assert names(agent) == ["best", "3_finish"]
        assert record(tmp_path)["outcome"] == "stopped: score 3.0 >= 3"

    def test_evaluation_that_never_comes_is_warned_of(self, agent, tmp_path, caplog):
        self.run(agent, tmp_path / "1", eval_interval=6)
        self.run(agent, tmp_path / "2", eval_interval=6, steps=12, step_offset=7)
        assert "eval_interval" not in caplog.text
        self.run(agent, tmp_path / "3", eval_interval=np.int64(7))
        assert "no multiple of eval_interval=7 lies between step 0 and step 6: there will be no" in caplog.text
        runs.train_agent(agent, Counting(), 2, tmp_path / "4", successful_score=3.0)
        assert "successful_score is 3.0, but there is no evaluator" in caplog.text

    def test_evaluation_waits_for_the_end_of_the_episode_unless_told_otherwise(self, agent, tmp_path):
        options = {"env": Counting(4), "eval_interval": 2, "steps": 8}
        self.run(agent, tmp_path, **options)
        assert steps_of(tmp_path / "scores.txt") == [4, 8]
        self.run(agent, tmp_path, eval_env=Counting(), eval_during_episode=True, **options)
        assert steps_of(tmp_path / "scores.txt") == [2, 4, 6, 8]

    def test_evaluation_during_an_episode_needs_an_environment_of_its_own(self, agent, tmp_path):
        with pytest.raises(ValueError, match="eval_during_episode"):
            self.run(agent, tmp_path, eval_during_episode=True)

    def test_limit_of_evaluation_episodes_defaults_to_that_of_training(self, agent, tmp_path):
        _, history = self.run(agent, tmp_path, train_max_episode_len=2)
        assert history[0]["eval_score"] == 2.0
        _, history = self.run(agent, tmp_path, train_max_episode_len=2, eval_max_episode_len=1)
        assert history[0]["eval_score"] == 1.0

    def test_random_streams_do_not_notice_evaluation(self, agent, tmp_path):
        class Drawing(Counting):
            def step(self, action):
                random.random(), np.random.rand(), torch.rand(1), self.action_space.sample()
                return super().step(action)

        def streams_after(interval):
            random.seed(0), np.random.seed(0), torch.manual_seed(0)
            env = Drawing()
            env.action_space.seed(0)
            self.run(Recorder(), tmp_path, env=env, eval_interval=interval)
            return random.random(), np.random.rand(), torch.rand(1).item(), env.action_space.sample()

        assert streams_after(1) == streams_after(1000)

    @pytest.mark.parametrize("kind, resets", [("fresh", None), ("copy", 2), ("between episodes", 6)])
    def test_evaluation_environment_is_made_anew_or_copied_if_it_can_be(self, agent, tmp_path, kind, resets):
        env = gymnasium.make("CartPole-v1") if kind == "fresh" else Counting(3)
        if kind == "between episodes":
            env.lock = (i for i in range(3))  # which cannot be copied
        self.run(agent, tmp_path, env=env)
        assert kind in record(tmp_path)["eval_env"] and getattr(env.unwrapped, "n_resets", None) == resets

    def test_evaluation_hooks_see_the_evaluation(self, agent, tmp_path):
        calls = []

        def hook(step, eval_stats, evaluator, **_):
            calls.append((step, eval_stats["mean"], evaluator.max_score < 0))

        self.run(agent, tmp_path, evaluation_hooks=[Hook(hook)])
        assert calls == [(3, 3.0, True), (6, 3.0, False)]

    def test_progress_tells_steps_and_score(self, agent, tmp_path, capsys):
        self.run(agent, tmp_path, progress=True)
        shown = capsys.readouterr().err
        assert "6/6 steps" in shown and "best score 3.0" in shown and shown.endswith("finished at step 6\n")
        self.run(agent, tmp_path, progress=True, successful_score=2.5)
        assert capsys.readouterr().err.endswith("stopped at step 3: score 3.0 >= 2.5\n")

    def test_logger_gets_the_scores(self, agent, tmp_path, caplog):
        with caplog.at_level(logging.INFO, logger="mine"):
            self.run(agent, tmp_path, logger=logging.getLogger("mine"))
        assert "The best score is updated" in caplog.text


@pytest.mark.parametrize("make", [Counting, lambda: SerialVectorEnv([Counting(), Counting()])])
@pytest.mark.parametrize("spoil, error, message", SPOILT)
def test_evaluation_refuses_what_training_refuses(agent, tmp_path, make, spoil, error, message):
    env = make()
    spoil(getattr(env, "envs", [env])[-1], agent)
    with pytest.raises(error, match=message):
        runs.Evaluator(agent, env, None, 1, 1, tmp_path).evaluate_if_necessary(t=1, episodes=0)


def test_agent_hears_that_the_last_step_of_an_evaluation_is_the_last(agent):
    run_evaluation_episodes(Counting(2), agent, 3, None)
    assert [row[2:] for row in agent.evaluated] == [(False, False), (True, False), (False, True)]


def test_masks_reach_an_agent_if_there_are_some_and_may_change_in_place(agent, tmp_path):
    env, mask = Counting(2), np.array([True, False])

    def flip():
        mask[:] = ~mask
        return {"action_mask": mask}

    env._info = flip
    runs.train_agent(agent, env, 2, tmp_path)
    assert [seen.tolist() for seen in agent.masks] == [[False, True], [True, False]]
    runs.train_agent(agent, Counting(2), 2, tmp_path)
    assert agent.masks[2:] == [None, None]


def test_a_space_that_only_its_user_knows_is_not_looked_into(agent, tmp_path):
    env = Counting(2)
    env.observation_space = object()
    runs.train_agent(agent, env, 2, tmp_path)
    env.reward = 1  # not the fast path
    runs.train_agent(agent, env, 2, tmp_path)
    assert len(agent.observed) == 4


def test_a_step_of_three_values_is_refused(agent, tmp_path):
    env = mock.Mock(**{"reset.return_value": 0, "step.return_value": (1, 2, 3)})  # no gymnasium env, which is trusted
    with pytest.raises(EnvError, match="3 values"):
        runs.train_agent(agent, env, 10, tmp_path)


@pytest.mark.parametrize("value", [np.zeros(2, np.float32), (np.zeros(1, np.float32), None)])
def test_gymnasium_env_whose_reset_tells_no_info_is_refused(agent, tmp_path, value):
    env = Counting()
    env.reset = lambda: value
    with pytest.raises(EnvError, match="expected \\(obs, info\\)"):
        runs.train_agent(agent, env, 2, tmp_path)


def test_nothing_is_left_to_do_at_an_offset_of_the_last_step(agent, tmp_path):
    runs.train_agent(agent, Counting(), 5, tmp_path, step_offset=5)
    assert agent.observed == [] and names(agent) == ["5_finish"]


def closing(error=None):
    """Stands for a logger, a hook and an evaluator."""
    return mock.Mock(max_score=0.0, **{"evaluate_if_necessary.return_value": None, "close.side_effect": error})


def test_everything_is_closed_and_the_first_error_of_that_is_raised(agent, tmp_path):
    first, second, hook, evaluator = closing(KeyError("first")), closing(KeyError("second")), closing(), closing()
    with pytest.raises(KeyError, match="first"):
        runs.train_agent(agent, Counting(), 3, tmp_path, loggers=[first, second], hooks=[hook], evaluator=evaluator)
    assert [each.close.call_count for each in (first, second, hook, evaluator)] == [1] * 4
    assert record(tmp_path)["outcome"] == "finished"


def test_an_error_while_closing_hides_no_other(agent, tmp_path, caplog):
    agent.observe = lambda *_: 1 / 0
    first, second = closing(KeyError("lost")), closing()
    with pytest.raises(ZeroDivisionError):
        runs.train_agent(agent, Counting(), 3, tmp_path, loggers=[first, second])
    assert first.close.call_count == second.close.call_count == 1 and "lost" in caplog.text


def test_tensorboard_of_the_evaluator_is_closed_with_the_run(agent, tmp_path):
    pytest.importorskip("tensorboard")
    evaluator = runs.Evaluator(agent, Counting(), None, 1, 1, tmp_path, use_tensorboard=True)
    runs.train_agent(agent, Counting(), 3, tmp_path, evaluator=evaluator)
    assert evaluator.use_tensorboard and evaluator.tb_writer.file_writer is None


def test_run_record_tells_whether_the_random_streams_began_alike(agent, tmp_path):
    seeds = []
    for seed in (1, 1, 2):
        random.seed(seed), np.random.seed(seed), torch.manual_seed(seed)
        runs.train_agent(agent, Counting(), 1, tmp_path)
        seeds.append(record(tmp_path)["seeds"])
    assert seeds[0] == seeds[1] and seeds[0].keys() == {"torch", "numpy_state", "python_state"}
    assert not set(seeds[1].values()) & set(seeds[2].values())


def test_progress_shows_whatever_the_steps_are_multiples_of(capsys):
    now = itertools.count(0, 20)
    progress, clock = Progress(1000, clock=lambda: next(now)), Clock(1000)
    for clock.t in (1, 9, 17):
        progress(clock)
    assert "17/1,000 steps" in capsys.readouterr().err


def test_progress_shows_at_once_what_it_is_told_and_for_some_seconds(capsys):
    now = [0.0]
    progress, clock = Progress(1000, clock=lambda: now[0], waits=lambda: "waits"), Clock(1000)

    def shown():
        return capsys.readouterr().err.strip().rpartition("  ")[2]

    progress(clock)
    progress.tell("compiling the update")
    assert shown() == "compiling the update"
    now[0] = 30.0
    progress.tell("compiled the update in 30.0 s")
    assert shown() == "compiled the update in 30.0 s"
    now[0] = 41.0
    progress(clock)
    assert shown() == "waits"


def test_progress_is_told_of_compiling_until_it_is_closed(capsys):
    progress = Progress(1000)
    assert progress in LISTENERS
    progress.close()
    assert progress not in LISTENERS


def test_scores_do_not_follow_the_streams_of_training(agent, tmp_path):
    class Lottery(Counting):
        def step(self, action):
            self.reward = float(np.random.rand())
            return super().step(action)

    np.random.seed(3)
    evaluator = runs.Evaluator(agent, Lottery(), None, 1, 1, tmp_path)
    scores = []
    for seed in (1, 2):
        np.random.seed(seed)
        scores.append(evaluator.evaluate_and_update_max_score(t=5, episodes=0))
    assert scores[0] == scores[1] != evaluator.evaluate_and_update_max_score(t=6, episodes=0)


def test_evaluations_stay_on_multiples_of_the_interval_after_offsets(agent, tmp_path):
    evaluator = runs.Evaluator(agent, Counting(), None, 1, 10, tmp_path, step_offset=15)
    assert evaluator.evaluate_if_necessary(t=19, episodes=0) is None
    assert evaluator.evaluate_if_necessary(t=23, episodes=0) == 3.0
    assert evaluator.evaluate_if_necessary(t=29, episodes=0) is None


def test_hooks_see_the_clock_last_of_all_end_training_and_are_closed(agent, tmp_path):
    seen = []

    def stop_at_4(clock):
        seen.append((clock.t, clock.episodes))
        if clock.t == 4:
            clock.stop()

    hook = mock.Mock(side_effect=stop_at_4)
    runs.train_agent(agent, Counting(2), 10, tmp_path, hooks=[hook])
    assert seen == [(1, 0), (2, 1), (3, 1), (4, 2)] and names(agent) == ["4_finish"]
    hook.close.assert_called_once_with()


@pytest.mark.parametrize("name", ["pfrl_like.of_a_user", "of_a_user"])
def test_run_log_holds_what_was_logged_in_the_run_once(agent, tmp_path, name):
    logger = logging.getLogger(name)
    agent.observe = lambda *_: 1 / 0
    with pytest.raises(ZeroDivisionError):
        runs.train_agent(agent, Counting(), 5, tmp_path, logger=logger)
    logger.error("after the run")
    lines = (tmp_path / "run.log").read_text().splitlines()
    assert len(lines) == 1 and "ERROR" in lines[0] and "ended by ZeroDivisionError" in lines[0]
    assert logger.handlers == [] == logging.getLogger("pfrl_like").handlers


def test_a_run_that_goes_on_keeps_its_log(agent, tmp_path):
    def hook(clock):
        logging.getLogger("pfrl_like").warning("at %s", clock.t)

    for offset in (0, 4):
        runs.train_agent(agent, Counting(), 5, tmp_path, step_offset=offset, hooks=[hook])
    assert [line[-4:] for line in (tmp_path / "run.log").read_text().splitlines()] == [
        "at 1", "at 2", "at 3", "at 4", "at 5", "at 5"
    ]  # fmt: skip


def test_success_rate_is_told_to_evaluation_hooks(agent, tmp_path):
    rates = []
    hook = Hook(lambda eval_stats, **_: rates.append(eval_stats.get("success_rate")))
    for threshold in (3, 3.5, None):
        runs.train_agent_with_evaluation(
            agent, Counting(3), 3, None, 2, 3, tmp_path, evaluation_hooks=[hook], eval_success_threshold=threshold
        )
    assert rates == [1.0, 0.0, None]


@pytest.mark.parametrize("make", [lambda: gymnasium.make("CartPole-v1"), lambda: Counting(3)])
def test_evaluation_normalises_with_the_statistics_of_training_and_adds_nothing(agent, tmp_path, make):
    env, means = gymnasium.wrappers.NormalizeObservation(make()), []
    hook = Hook(lambda env, **_: means.append((env.obs_rms.mean.copy(), env.obs_rms.count)))
    runs.train_agent_with_evaluation(agent, env, 30, None, 2, 15, tmp_path, evaluation_hooks=[hook])
    assert len(means) == 2
    np.testing.assert_array_equal(means[-1][0], env.obs_rms.mean)
    assert means[-1][1] == env.obs_rms.count and env.update_running_mean


def test_a_run_after_one_that_stopped_in_mid_episode_joins_nothing_to_it(tmp_path):
    agent = small_dqn(Counting(), replay_buffer=ReplayBuffer(num_steps=3), replay_start_size=100)
    for _ in range(2):
        runs.train_agent(agent, Counting(10), 4, tmp_path)
    items = [[float(step["state"][0]) for step in item] for item in agent.replay_buffer.memory]
    assert items == [[0, 1, 2], [1, 2, 3], [2, 3], [3], [0, 1, 2], [1, 2, 3]]


@pytest.mark.parametrize("step_offset, best", [(10, 7.0), (15, 9.0)])
def test_an_evaluator_that_goes_on_takes_the_best_score_up_to_its_offset(agent, tmp_path, step_offset, best):
    (tmp_path / "scores.txt").write_text("steps\tmean\n5\t7.0\n10\tnan\n15\t9.0\n")
    (tmp_path / "best").mkdir()
    evaluator = runs.Evaluator(agent, Counting(8), None, 1, 5, tmp_path, step_offset=step_offset)
    assert evaluator.max_score == best and (tmp_path / "best").exists() == (best == 9.0)  # otherwise it goes aside
    evaluator.evaluate_if_necessary(t=20, episodes=0)  # 8.0
    assert names(agent) == (["best"] if best < 8 else [])


# Several environments


def vector(*lengths):
    return SerialVectorEnv([Counting(length) for length in lengths])


def test_steps_are_counted_over_all_environments(agent, tmp_path):
    calls = []
    runs.train_agent_batch(agent, vector(2, 3), 6, tmp_path, step_hooks=[lambda env, agent, t: calls.append(t)])
    assert calls == [1, 2, 3, 4, 5, 6] and (tmp_path / "trace.bin").stat().st_size > 0
    assert [row[0] for row in agent.observed] == [1, 1, 2, 2, 1, 3]


def test_first_observation_of_every_episode_has_to_be_finite(agent, tmp_path):
    env = vector(2, 9)

    def hook(clock):
        env.envs[0].reset = lambda: (np.array([np.nan], np.float32), {})

    with pytest.raises(NonFiniteError, match=r"obs\[0\]"):
        runs.train_agent_batch(agent, env, 8, tmp_path, hooks=[hook])
    assert len(agent.observed) == 4


def test_environments_may_change_their_observations_in_place(agent, tmp_path):
    env, seen = vector(2, 9), []
    for each in env.envs:
        each.in_place = [np.zeros(1, np.float32)]
    agent.batch_observe = lambda obs, *_: seen.append(list(obs))
    runs.train_agent_batch(agent, env, 6, tmp_path)
    assert [[one.item() for one in obs] for obs in seen] == [[1, 1], [2, 2], [1, 3]]


def test_interval_and_window_of_the_log(agent, tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        runs.train_agent_batch(agent, vector(1, 3), 12, tmp_path, log_interval=6, return_window_size=2)
    lines = [record.getMessage() for record in caplog.records if "average_R" in record.getMessage()]
    assert len(lines) == 2 and "step:6 episode:4 last_R:3.0 average_R:2.0" in lines[0]


def test_error_closes_the_environment_and_saves_the_agent(agent, tmp_path):
    env = vector(3)
    closed = []
    env.close = lambda: closed.append(True)
    env.envs[0].step = lambda action: 1 / 0
    with pytest.raises(ZeroDivisionError):
        runs.train_agent_batch(agent, env, 8, tmp_path)
    assert closed and os.path.basename(agent.saved[-1]) == "0_except"


def test_evaluation_in_single_and_vector_environments(agent, tmp_path):
    for eval_env in (Counting(4), vector(4, 4)):
        _, history = runs.train_agent_batch_with_evaluation(
            agent, vector(2, 2), 4, None, 3, 2, tmp_path, eval_env=eval_env
        )
        assert [entry["eval_score"] for entry in history] == [4.0, 4.0]


def test_environments_in_other_processes_need_an_evaluation_environment(agent, tmp_path):
    with contextlib.closing(MultiprocessVectorEnv([ABC], "fork" if os.name == "posix" else None)) as env:
        with pytest.raises(ValueError, match="are in other processes.*: pass a single or a vector environment"):
            runs.train_agent_batch_with_evaluation(agent, env, 4, None, 3, 2, tmp_path)
        assert len(env.reset()) == 1  # it has not been harmed


def test_training_environment_is_copied_for_evaluation(agent, tmp_path):
    _, history = runs.train_agent_batch_with_evaluation(agent, vector(2, 2), 4, None, 3, 4, tmp_path)
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

    stats = runs.eval_performance(Growing(0), Recorder(), None, 4)  # returns 1, 2, 3, 4
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
    assert runs.train_agent(agent, env, 6, str(tmp_path), step_hooks=[hook]) == []
    assert (agent.act.call_count, agent.observe.call_count, env.reset.call_count) == (6, 6, 2)
    assert [call.args for call in hook.call_args_list] == [(env, agent, t) for t in range(1, 7)]
    agent.save.assert_called_once_with(str(tmp_path / "6_finish"))


def test_a_mock_agent_trains_and_is_evaluated_in_several_mock_environments(tmp_path):
    agent, envs = mock.MagicMock(), [mock_env(2), mock_env(2)]
    agent.batch_act.return_value = [0, 0]
    runs.train_agent_batch(agent, SerialVectorEnv(envs), 12, str(tmp_path))
    assert agent.batch_observe.call_count == 6
    assert [env.reset.call_count for env in envs] == [2, 2]
    assert runs.eval_performance(SerialVectorEnv([mock_env(2), mock_env(2)]), agent, None, 3)["mean"] == 1.0


def test_mocks_are_evaluated(tmp_path):
    agent, env, hook = mock.MagicMock(), mock_env(2), mock.Mock()
    evaluator = runs.Evaluator(agent, env, None, 2, eval_interval=3, outdir=str(tmp_path), evaluation_hooks=[hook])
    assert [evaluator.evaluate_if_necessary(t, t) for t in (2, 3)] == [None, 1.0]
    assert hook.call_args.kwargs["eval_stats"]["length_mean"] == 3
    assert (tmp_path / "scores.txt").read_text().splitlines()[1].split("\t")[:2] == ["3", "3"]


@pytest.mark.parametrize("nothing", [None, mock.Mock()])
def test_statistics_that_are_no_pairs_count_as_none(tmp_path, nothing):
    agent = mock.MagicMock()
    agent.get_statistics.return_value = nothing
    _, history = runs.train_agent_with_evaluation(
        agent, mock_env(1), 3, None, 1, 3, str(tmp_path), eval_env=mock_env(1)
    )
    assert history == [{"eval_score": 1.0}]


def test_a_hook_that_does_not_support_a_runner_is_named_before_anything_else_is_looked_at():
    class Unsupported(runs.EvaluationHook):
        def __call__(self, **kwargs):
            pass

    none, hooks = mock.Mock(), [Unsupported()]
    with pytest.raises(ValueError, match="Unsupported object .* does not support train_agent_async"):
        runs.train_agent_async(none, 1, none, agent=none, evaluation_hooks=hooks)
    with pytest.raises(ValueError, match="Unsupported object .* does not support train_agent_with_evaluation"):
        runs.train_agent_with_evaluation(none, none, 1, 1, None, 1, none, evaluation_hooks=hooks)
