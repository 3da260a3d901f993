import functools
import json
import os
import signal
import time

import gymnasium
import numpy as np
import pytest
from cluster_parts import Faulty, Hanging, Killed, cartpole, numbers_of, recurrent_dqn, small_dqn, small_on_policy

from pfrl_like.envs import SerialVectorEnv
from pfrl_like.errors import WorkerError
from pfrl_like.experiments import ScheduleHook, train_agent_batch
from pfrl_like.experiments.cluster import source
from pfrl_like.experiments.cluster.learners import update_once
from pfrl_like.experiments.cluster.runner import train_agent_distributed
from pfrl_like.experiments.cluster.source import DistributedSource
from pfrl_like.explorers import ConstantEpsilonGreedy

STEPS = 160


def train(outdir, make_agent=small_dqn, make_env=cartpole, **options):
    arguments = {
        "steps": STEPS, "actors": 2, "envs_per_actor": 2, "order": "fixed", "seed": 0, "cpus_per_actor": 0,
        "rows_per_message": (1, 4), "outdir": outdir, "start_timeout": 300,
    }  # fmt: skip
    return train_agent_distributed(make_agent, make_env, **arguments | options)[0]


def resumed(outdir):
    return json.loads((outdir / "run.json").read_text())["resumed"]


def stop_at(t):
    return lambda clock: clock.stop() if clock.t >= t else None


def test_a_run_in_fixed_order_that_stops_and_resumes_equals_a_run_that_does_not_stop(ray, tmp_path):
    whole = train(tmp_path / "whole")
    train(tmp_path / "parts", checkpoint_freq=80, hooks=[stop_at(80)])
    parts = train(tmp_path / "parts", checkpoint_freq=80, resume=True)
    assert resumed(tmp_path / "parts") == {"checkpoint": "80_checkpoint", "t": 80, "resume": "exact", "reasons": []}
    assert np.array_equal(numbers_of(whole), numbers_of(parts))
    assert (whole.t, whole.optim_t) == (parts.t, parts.optim_t) == (160, 136)


def test_a_signal_between_two_updates_leaves_the_others_to_the_resumed_run(ray, tmp_path, monkeypatch):
    clocks = []

    def update(agent):
        update_once(agent)
        if agent.optim_t == 51 and not clocks[0].stopped:
            clocks[0].interrupt(signal.SIGINT)

    whole = train(tmp_path / "whole")
    monkeypatch.setattr(source, "update_once", update)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "parts", checkpoint_freq=80, hooks=[clocks.append])
    parts = train(tmp_path / "parts", checkpoint_freq=80, resume=True)
    reached = clocks[0].t
    name = f"{reached}_except"
    assert resumed(tmp_path / "parts") == {"checkpoint": name, "t": reached, "resume": "exact", "reasons": []}
    assert reached - 24 > 51  # the 24th step is the first from which updates are counted
    assert np.array_equal(numbers_of(whole), numbers_of(parts))
    assert (whole.t, whole.optim_t) == (parts.t, parts.optim_t) == (160, 136)


def test_a_busy_learner_reads_all_actors_in_turn(ray, tmp_path, monkeypatch):
    store, read = DistributedSource._store, []
    monkeypatch.setattr(DistributedSource, "_store", lambda self, i, answer: (read.append(i), store(self, i, answer)))
    options = {"actors": 3, "rows_per_message": (1, 2), "hooks": [lambda clock: time.sleep(0.03)]}
    train(tmp_path, order="arrival", steps=60, **options)
    assert {read.count(i) for i in range(3)} <= {9, 10, 11}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["PPO", "A2C"])
@pytest.mark.parametrize("actors", [1, 2])
def test_synchronous_training_equals_the_local_runner(ray, tmp_path, kind, actors):
    local = small_on_policy(kind)
    if actors == 1:
        env = SerialVectorEnv([cartpole(0, i, False) for i in range(4)])
        train_agent_batch(local, env, STEPS, tmp_path / "local")
    else:
        local = train(tmp_path / "local", functools.partial(small_on_policy, kind), envs_per_actor=2)
    seed = None if actors == 1 else 0
    make_agent = functools.partial(small_on_policy, kind)
    options = {"actors": actors, "envs_per_actor": 4 // actors, "seed": seed, "order": "arrival"}
    remote = train(tmp_path / "remote", make_agent, **options)
    assert np.array_equal(numbers_of(local), numbers_of(remote))
    assert remote.n_updates == local.n_updates > 0
    assert dict(remote.get_statistics()) == dict(local.get_statistics())


@pytest.mark.slow
def test_synchronous_training_resumes_exactly(ray, tmp_path):
    whole = train(tmp_path / "whole", small_on_policy)
    train(tmp_path / "parts", small_on_policy, checkpoint_freq=80, hooks=[stop_at(80)])
    parts = train(tmp_path / "parts", small_on_policy, checkpoint_freq=80, resume=True)
    assert resumed(tmp_path / "parts")["resume"] == "exact"
    assert np.array_equal(numbers_of(whole), numbers_of(parts))


@pytest.mark.slow
def test_an_agent_that_corrects_for_old_policies_learns_while_the_actors_step(ray, tmp_path):
    make_agent = functools.partial(small_on_policy, "LaggedPPO")
    agent = train(tmp_path, make_agent, order="arrival", checkpoint_freq=80)
    assert agent.n_updates > 0
    assert np.genfromtxt(tmp_path / "metrics.csv", delimiter=",", names=True)["weights_age"][-1] > 0
    agent = train(tmp_path, make_agent, order="arrival", checkpoint_freq=80, resume=True, steps=240)
    assert agent.t == 240
    assert resumed(tmp_path)["resume"] == "approximate"
    assert "read as they answer" in resumed(tmp_path)["reasons"][0]


@pytest.mark.slow
def test_a_killed_actor_is_replaced_and_all_its_acknowledged_steps_are_stored(ray, tmp_path, caplog):
    def make_env(actor, index, test):
        env = cartpole(actor, index, test)
        return Killed(env, tmp_path / "killed", 20) if (actor, index) == (1, 0) else env

    agent = train(tmp_path / "run", make_env=make_env, order="arrival", requests_in_flight=1)
    assert (tmp_path / "killed").exists()
    assert "another process" in caplog.text.lower()
    assert agent.t == STEPS
    lost = np.genfromtxt(tmp_path / "run" / "metrics.csv", delimiter=",", names=True)["lost_steps"]
    assert lost[-1] == 4  # one message
    # n-step windows of running episodes are not stored yet
    assert STEPS - 2 * 4 <= len(agent.replay_buffer) <= STEPS


@pytest.mark.slow
def test_an_actor_that_dies_again_and_again_ends_the_run(ray, tmp_path):
    def make_env(actor, index, test):
        return Killed(cartpole(actor, index, test), tmp_path / str(time.monotonic()), 1)

    with pytest.raises(WorkerError, match=r"worker 0 was lost 2 times before its first answer; .* process was lost"):
        train(tmp_path / "run", make_env=make_env, actors=1, max_early_deaths=1)


@pytest.mark.slow
def test_an_error_of_an_environment_ends_the_run_with_its_traceback(ray, tmp_path):
    with pytest.raises(WorkerError, match="lost its world") as error:
        train(tmp_path / "run", make_env=lambda *_: Faulty(gymnasium.make("CartPole-v1")), actors=1)
    assert 'raise LookupError("the simulator' in error.value.traceback_text
    assert "lost its world" in json.loads((tmp_path / "run" / "run.json").read_text())["outcome"]


@pytest.mark.slow
def test_actors_that_cannot_be_scheduled_are_named(ray, tmp_path):
    with pytest.raises(WorkerError, match="within 3 s: Ray could not schedule it. The actors need 128 CPUs in all"):
        train(tmp_path / "run", cpus_per_actor=64, start_timeout=3)


@pytest.mark.slow
def test_an_actor_that_hangs_is_replaced(ray, tmp_path, caplog):
    def make_env(actor, index, test):
        env, path = cartpole(actor, index, test), tmp_path / "hung"
        original = env.step

        def step(action):
            if not path.exists():
                path.touch()
                time.sleep(1000)
            return original(action)

        env.step = step
        return env

    agent = train(tmp_path / "run", make_env=make_env, order="arrival", answer_timeout=5)
    assert agent.t == STEPS
    assert "did not answer within 5 s" in caplog.text


@pytest.mark.slow
def test_an_actor_that_is_silent_at_a_checkpoint_makes_the_resume_approximate(ray, tmp_path):
    def make_env(actor, index, test):
        env = cartpole(actor, index, test)
        return Hanging(env, 10) if actor == 1 else env

    options = {"order": "arrival", "checkpoint_freq": 80, "requests_in_flight": 1}
    train(tmp_path, make_env=make_env, answer_timeout=10, hooks=[stop_at(80)], **options)
    asked = json.loads((tmp_path / "losses.json").read_text())["asked"]
    agent = train(tmp_path, resume=True, **options)
    assert agent.t == STEPS
    states = [tuple(item[0]["state"]) for item in agent.replay_buffer.memory]
    assert len({*states}) == len(states)  # no actor repeats the first steps of the run
    reasons = "\n".join(resumed(tmp_path)["reasons"])
    assert "the state of actor 1 cannot be saved: Get timed out" in reasons
    assert "up to 4 steps that were made or on their way after the checkpoint are lost" in reasons
    assert json.loads((tmp_path / "losses.json").read_text())["lost_steps"] == 4 < asked


@pytest.mark.slow
def test_a_killed_process_leaves_the_number_of_steps_that_are_lost(ray, tmp_path):
    options = {"order": "arrival", "checkpoint_freq": 80}
    train(tmp_path, hooks=[stop_at(80)], **options)
    left = {"asked": 100, "lost_steps": 7, "lost_processes": 1, "lost_nodes": 0}
    (tmp_path / "losses.json").write_text(json.dumps(left))
    manifest = next(tmp_path.glob("*_checkpoint")).name
    t = int(manifest.partition("_")[0])
    train(tmp_path, resume=True, **options)
    table = np.genfromtxt(tmp_path / "metrics.csv", delimiter=",", names=True)
    assert table["lost_processes"][-1] == 1
    assert 7 <= table["lost_steps"][-1] <= 7 + 100 - t


@pytest.mark.slow
def test_a_lost_actor_of_the_evaluation_ends_neither_a_checkpoint_nor_the_run(ray, tmp_path):
    def make_env(actor, index, test):
        if test:
            (tmp_path / "pid").write_text(str(os.getpid()))
        return cartpole(actor, index, test)

    def kill(clock):
        if clock.t == 120:
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
            time.sleep(1)

    train(tmp_path / "run", make_env=make_env, eval_interval=80, eval_n_episodes=1, checkpoint_freq=40, hooks=[kill])
    assert list(np.genfromtxt(tmp_path / "run" / "scores.txt", names=True)["steps"]) == [80, 160]


@pytest.mark.slow
def test_the_best_agent_is_that_of_the_version_that_was_evaluated(ray, tmp_path):
    options = {"eval_interval": 40, "eval_n_episodes": 2, "order": "fixed", "checkpoint_freq": 40}
    agent, history = train_agent_distributed(
        small_dqn, cartpole, steps=STEPS, outdir=tmp_path, actors=2, envs_per_actor=2, seed=0, cpus_per_actor=0,
        rows_per_message=(1, 4), start_timeout=300, **options,
    )  # fmt: skip
    rows = np.genfromtxt(tmp_path / "scores.txt", names=True)
    assert list(rows["steps"]) == [40, 80, 120, 160]
    assert [each["eval_score"] for each in history] == list(rows["mean"])
    best = small_dqn()
    best.load(tmp_path / "best")
    assert best.t == rows["steps"][np.argmax(rows["mean"])]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".tmp")]


@pytest.mark.slow
def test_two_requests_in_flight_give_older_weights(ray, tmp_path):
    ages = []
    for n in (1, 2):
        assert train(tmp_path / str(n), requests_in_flight=n).t == STEPS
        table = np.genfromtxt(tmp_path / str(n) / "metrics.csv", delimiter=",", names=True)
        ages.append(table["weights_age"][-1])
    assert ages[1] > ages[0] + 0.5


@pytest.mark.slow
def test_a_hook_changes_the_explorers_of_the_actors(ray, tmp_path):
    explorer = ConstantEpsilonGreedy(0.0, gymnasium.spaces.Discrete(2, seed=0).sample)
    make_agent = functools.partial(small_dqn, explorer=explorer, replay_start_size=1000)
    agent = train(tmp_path, make_agent, step_hooks=[ScheduleHook(1, 1.0, 1.0, "explorer.epsilon")])
    actions = np.array([step[0]["action"] for step in agent.replay_buffer.memory])
    assert actions[:8].std() == 0  # the greedy action, which is always the same
    assert actions[-STEPS // 2 :].std() > 0


@pytest.mark.slow
def test_updates_are_counted_from_the_first_one_that_learns(ray, tmp_path):
    agent = train(tmp_path, recurrent_dqn, updates_per_step=0.5)
    table = np.genfromtxt(tmp_path / "metrics.csv", delimiter=",", names=True)
    assert agent.waiting_for() is None
    assert 0 < agent.optim_t < (STEPS - 24) // 2  # the first minibatch of whole episodes comes later
    assert table["updates"][-1] <= agent.optim_t


@pytest.mark.slow
def test_a_run_with_other_wrappers_does_not_resume_exactly(ray, tmp_path):
    train(tmp_path, checkpoint_freq=80, hooks=[stop_at(80)])
    make_env = lambda *arguments: gymnasium.wrappers.TransformReward(cartpole(*arguments), lambda reward: reward)  # noqa: E731
    train(tmp_path, make_env=make_env, checkpoint_freq=80, resume=True)
    assert resumed(tmp_path)["resume"] == "approximate"
    assert "'RemoteEnvs', 'TransformReward'" in resumed(tmp_path)["reasons"][0]


@pytest.mark.slow
def test_a_run_ends_at_a_successful_score(ray, tmp_path):
    agent = train(tmp_path, steps=2000, eval_interval=40, eval_n_episodes=1, successful_score=1.0)
    assert agent.t < 2000
