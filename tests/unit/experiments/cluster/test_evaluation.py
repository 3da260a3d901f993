import json
import os
import signal
import threading
import time
from types import SimpleNamespace

import cloudpickle
import gymnasium
import numpy as np
import pytest
from cluster_parts import Hanging, cartpole, small_dqn

from pfrl_like.errors import WorkerError
from pfrl_like.experiments import EvaluationHook
from pfrl_like.experiments.cluster.actors import Limits
from pfrl_like.experiments.cluster.env_actor import acting_tensors, pack_weights, versions
from pfrl_like.experiments.cluster.evaluation import ActorEvaluator, EvalActor, EvaluatedEnv
from pfrl_like.experiments.cluster.runner import train_agent_distributed


class Ref:
    """A reference to an answer. The answer to an evaluation is missing until a test gives it."""

    def __init__(self, answer=None):
        self.answer = answer


class FakeRay:
    """Ray with one actor, whose evaluations the test finishes by hand."""

    exceptions = SimpleNamespace(RayError=ConnectionError, RayTaskError=ArithmeticError)

    def __init__(self, versions_there=None):
        self.evaluations, self.weights = [], []
        self.versions_there = versions_there or versions()

    def finish(self, i, score):
        self.evaluations[i].answer = [score], [1.0]

    def remote(self, kind):
        return self

    def options(self, **options):
        return SimpleNamespace(remote=lambda *args: self)

    def __getattr__(self, name):
        answers = {"start": self.versions_there, "saved_state": {"state": 1}, "restore_state": []}
        if name == "evaluate":
            return SimpleNamespace(remote=lambda *args: self.evaluations.append(Ref()) or self.evaluations[-1])
        return SimpleNamespace(remote=lambda *args: Ref(answers[name]))

    def put(self, value):
        return value

    def wait(self, refs, timeout):
        return [ref for ref in refs if ref.answer is not None], []

    def get(self, ref, timeout=None):
        return ref.answer

    def kill(self, actor):
        pass


def evaluator(outdir, *, agent=None, ray=None, step_offset=0, is_exact=False, timeout=60.0, **options):
    ray = ray or FakeRay()
    limits = Limits(start=60, answer=60, replace=60, save=60, early_deaths=0, in_flight=1)
    source = SimpleNamespace(get_statistics=dict)
    made = ActorEvaluator(
        agent or small_dqn(), EvaluatedEnv(source), None, 1, 10, outdir, step_offset=step_offset, ray=ray, packed=b"",
        cpus=0, is_exact=is_exact, limits=limits, timeout=timeout, **options,
    )  # fmt: skip
    return ray, made


def rows(outdir):
    lines = (outdir / "scores.txt").read_text().splitlines()[1:]
    return [(int(line.split("\t")[0]), float(line.split("\t")[3])) for line in lines]


def scores(made):
    return [score for _, score in made.take_scores()]


def test_a_worse_agent_does_not_replace_the_best_one_after_a_resume(tmp_path):
    agent = small_dqn()
    ray, made = evaluator(tmp_path, agent=agent)
    agent.t = 10
    made.evaluate_if_necessary(10, 1)
    state = json.loads(json.dumps(made.saved_state()))  # at step 10, while the evaluation is running
    ray.finish(0, 100.0)
    made.evaluate_if_necessary(11, 1)
    made.close()
    ray, made = evaluator(tmp_path, agent=agent, step_offset=10)
    assert made.restore_state(state) == ["an evaluation was running"]
    agent.t = 12
    made.evaluate_if_necessary(12, 1)
    assert rows(tmp_path) == [(10, 100.0)]
    ray.finish(0, 60.0)
    made.evaluate_if_necessary(13, 1)
    assert rows(tmp_path) == [(12, 60.0)]
    assert made.max_score == 100.0
    best = small_dqn()
    best.load(tmp_path / "best")
    assert best.t == 10


def test_the_history_gets_every_score_with_the_statistics_of_the_judged_agent(tmp_path):
    agent = small_dqn()
    ray, made = evaluator(tmp_path, agent=agent)
    made.evaluate_if_necessary(10, 1)
    agent.optim_t = 7
    ray.finish(0, 1.0)
    ray.wait, wait = lambda refs, timeout: ray.finish(-1, len(ray.evaluations)) or wait(refs, timeout), ray.wait
    made.finish(20, 2)
    (first, one), (second, two) = made.take_scores()
    assert (one, two) == (1.0, 2.0)
    assert (first["n_updates"], second["n_updates"]) == (0, 7)
    assert not made.take_scores()


def test_in_fixed_order_a_score_arrives_when_the_next_evaluation_is_due(tmp_path):
    ray, made = evaluator(tmp_path, is_exact=True)
    made.evaluate_if_necessary(10, 1)
    ray.finish(0, 1.0)
    assert made.evaluate_if_necessary(15, 1) is None
    ray.wait, wait = lambda refs, timeout: ray.finish(-1, 1.0) or wait(refs, timeout), ray.wait
    assert [made.evaluate_if_necessary(t, 1) for t in (20, 25, 30)] == [1.0, 1.0, 1.0]
    assert rows(tmp_path) == [(10, 1.0), (20, 1.0)]
    state = made.saved_state()
    assert rows(tmp_path) == [(10, 1.0), (20, 1.0), (30, 1.0)]
    assert len(state["scores_left"]) == 3 and scores(made) == [1.0, 1.0, 1.0]


def test_otherwise_training_never_waits(tmp_path):
    ray, made = evaluator(tmp_path)
    assert [made.evaluate_if_necessary(t, 1) for t in (10, 20, 30)] == [None, None, None]
    assert made.saved_state()["env"] == {"way": "unknown", "reason": "an evaluation was running"}
    ray.finish(0, 1.0)
    assert made.evaluate_if_necessary(31, 1) == 1.0
    assert len(ray.evaluations) == 2  # that of step 20 is skipped


def test_a_signal_in_a_wait_leaves_a_state_that_can_be_saved(tmp_path):
    ray, made = evaluator(tmp_path, is_exact=True)
    made.evaluate_if_necessary(10, 1)
    ray.wait, wait = lambda refs, timeout: signal.raise_signal(signal.SIGINT), ray.wait
    with pytest.raises(KeyboardInterrupt):
        made.evaluate_if_necessary(20, 1)
    assert made.is_interrupted
    ray.wait = wait
    ray.finish(0, 1.0)
    assert [score for _, score in made.saved_state()["scores_left"]] == [1.0]
    made.evaluate_if_necessary(20, 1)
    assert not made.is_interrupted and len(ray.evaluations) == 2


def test_an_evaluation_that_takes_too_long_again_and_again_ends_the_run(tmp_path):
    ray, made = evaluator(tmp_path, timeout=0.01)
    made.evaluate_if_necessary(10, 1)
    with pytest.raises(WorkerError, match=r"lost 4 times .*: it did not finish within 0.01 s, see eval_timeout"):
        made.finish(10, 1)
    assert len(ray.evaluations) == 4


def test_an_evaluation_actor_of_another_version_is_refused_by_name(tmp_path):
    ray, made = evaluator(tmp_path, ray=FakeRay({**versions(), "numpy": "1.0"}))
    made.evaluate_if_necessary(10, 1)
    ray.finish(0, 1.0)
    with pytest.raises(WorkerError, match="of the evaluation has numpy 1.0, and the driver has"):
        made.evaluate_if_necessary(11, 1)


class Saves(EvaluationHook):
    support_train_agent_batch = True

    def __init__(self, path):
        self.path = path

    def __call__(self, env, agent, evaluator, step, eval_stats, agent_stats, env_stats):
        agent.save(str(self.path))
        agent.max_grad_norm = 0.5


def test_hooks_save_the_judged_agent_and_change_the_agent(tmp_path):
    agent = small_dqn()
    hook = Saves(tmp_path / "mine")
    ray, made = evaluator(tmp_path, agent=agent, save_best_so_far_agent=False, evaluation_hooks=[hook])
    agent.t = 10
    made.evaluate_if_necessary(10, 1)
    agent.t = 15
    ray.finish(0, 1.0)
    made.evaluate_if_necessary(15, 1)
    judged = small_dqn()
    judged.load(tmp_path / "mine")
    assert (judged.t, agent.max_grad_norm) == (10, 0.5)


def eval_actor(make_env):
    actor = EvalActor(cloudpickle.dumps((small_dqn().acting_copy(), make_env)), seed=3)
    assert actor.start([]) == versions()
    return actor


class Faulty(gymnasium.Wrapper):
    def reset(self, **options):
        raise TypeError("reset has a bug")


class Unrestorable(gymnasium.Wrapper):
    def saved_state(self):
        return {}

    def restore_state(self, state):
        raise RuntimeError("the simulator cannot go back")


class Old:
    """An environment of gym, whose `reset` has no seed."""

    def __init__(self):
        self.env = cartpole(0, 0, True)
        self.observation_space, self.action_space = self.env.observation_space, self.env.action_space

    def reset(self):
        return self.env.reset(seed=5)[0]

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated or truncated, info


def test_an_own_error_of_reset_is_raised():
    with pytest.raises(TypeError, match="reset has a bug"):
        eval_actor(lambda: Faulty(cartpole(0, 0, True)))


def test_an_environment_whose_reset_takes_no_seed_is_evaluated():
    actor = eval_actor(Old)
    returns, lengths = actor.evaluate(pack_weights(acting_tensors(small_dqn())), 0, None, 2, None)
    assert returns == lengths and len(returns) == 2


def test_an_environment_that_cannot_be_restored_is_a_reason():
    actor = eval_actor(lambda: Unrestorable(cartpole(0, 0, True)))
    (reason,) = actor.restore_state(actor.saved_state())
    assert reason.startswith("the evaluation environment cannot be restored: the environment rejected its saved state")
    assert "cannot go back" in reason


def train(outdir, make_env=cartpole, **options):
    arguments = {
        "steps": 160, "actors": 2, "envs_per_actor": 2, "order": "fixed", "seed": 0, "cpus_per_actor": 0,
        "rows_per_message": (1, 4), "start_timeout": 300, "eval_interval": 40, "eval_n_episodes": 2,
    }  # fmt: skip
    return train_agent_distributed(small_dqn, make_env, outdir=outdir, **arguments | options)[1]


class Slow(gymnasium.Wrapper):
    def step(self, action):
        time.sleep(0.02)
        return super().step(action)


@pytest.mark.slow
def test_in_fixed_order_two_runs_have_equal_scores_however_slow_their_evaluations_are(ray, tmp_path):
    def make_env(actor, index, test):
        return Slow(cartpole(actor, index, test)) if test else cartpole(actor, index, test)

    fast, slow = train(tmp_path / "fast"), train(tmp_path / "slow", make_env, checkpoint_freq=60)
    assert [each["eval_score"] for each in fast] == [each["eval_score"] for each in slow]
    assert [step for step, _ in rows(tmp_path / "slow")] == [40, 80, 120, 160]


@pytest.mark.slow
@pytest.mark.parametrize("order", ["arrival", "fixed"])
def test_ctrl_c_in_the_last_evaluation_leaves_a_checkpoint(ray, tmp_path, monkeypatch, order):
    monkeypatch.setattr("pfrl_like.experiments.signals.PATIENCE", 1.0)

    def make_env(actor, index, test):
        return (
            Hanging(cartpole(actor, index, test), 1) if test and not marker.exists() else cartpole(actor, index, test)
        )

    def interrupt():
        time.sleep(2)  # after the hook, the loop ends
        os.kill(os.getpid(), signal.SIGINT)

    def start_timer(clock):
        if clock.t == 160:
            threading.Thread(target=interrupt, daemon=True).start()

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores Ctrl-C
    marker = tmp_path / "resumes"
    options = {"order": order, "eval_interval": 160, "checkpoint_freq": 1000}
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run", make_env, hooks=[start_timer], **options)
    marker.touch()
    history = train(tmp_path / "run", make_env, resume=True, **options)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["resumed"]["t"] == 160
    assert len(history) == 1 and [step for step, _ in rows(tmp_path / "run")] == [160]


@pytest.mark.slow
def test_an_evaluation_that_hangs_is_repeated_in_another_process(ray, tmp_path, caplog):
    def make_env(actor, index, test):
        if test and not (tmp_path / "hung").exists():
            (tmp_path / "hung").touch()
            return Hanging(cartpole(actor, index, test), 3)
        return cartpole(actor, index, test)

    history = train(tmp_path / "run", make_env, order="arrival", eval_interval=80, eval_timeout=5)
    assert "did not finish within 5 s" in caplog.text
    assert np.isfinite([each["eval_score"] for each in history]).all()
    assert rows(tmp_path / "run")[-1][0] == 160


@pytest.mark.slow
def test_a_run_whose_evaluation_environment_cannot_be_restored_resumes(ray, tmp_path):
    def make_env(actor, index, test):
        return Unrestorable(cartpole(actor, index, test)) if test else cartpole(actor, index, test)

    train(tmp_path, make_env, checkpoint_freq=80, hooks=[lambda clock: clock.stop() if clock.t >= 80 else None])
    assert len(train(tmp_path, make_env, checkpoint_freq=80, resume=True)) == 4
    (reason,) = json.loads((tmp_path / "run.json").read_text())["resumed"]["reasons"]
    assert "cannot go back" in reason
