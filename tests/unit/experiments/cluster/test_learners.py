import functools
import json
import os
import signal
import time

import numpy as np
import process_table as processes
import pytest
from cluster_parts import cartpole, numbered, numbers_of, small_dqn, small_on_policy
from torch import distributed

from pfrl_like.errors import CheckpointError, WorkerError
from pfrl_like.experiments.cluster import learners
from pfrl_like.experiments.cluster.learners import update_once
from pfrl_like.experiments.cluster.runner import train_agent_distributed

pytestmark = pytest.mark.slow
STEPS = 160
#: Half of the steps of `small_on_policy`, for each of two learners.
HALF = functools.partial(small_on_policy, update_interval=16, minibatch_size=4)


def train(outdir, make_agent=small_dqn, make_env=cartpole, **options):
    arguments = {
        "steps": STEPS, "actors": 2, "envs_per_actor": 2, "learners": 2, "order": "fixed", "seed": 0,
        "cpus_per_actor": 0, "rows_per_message": (1, 4), "outdir": outdir, "start_timeout": 300,
    }  # fmt: skip
    return train_agent_distributed(make_agent, make_env, **arguments | options)[0]


def stop_at(t):
    return lambda clock: clock.stop() if clock.t >= t else None


def resumed(outdir):
    return json.loads((outdir / "run.json").read_text())["resumed"]


def in_a_learner(make_agent, note):
    """Makes agents; in the processes of learners, the agent is noted."""
    driver = os.getpid()

    def make():
        agent = make_agent()
        if os.getpid() != driver:
            note(agent)
        return agent

    return make


def rewards_of(agent):
    return [item[0]["reward"] for item in agent.replay_buffer.memory]


def schedule(env, agent, t):
    agent.optimizer.param_groups[0]["lr"] = 1e-2 / t
    agent.gamma = 0.9 - t / 1000


def test_each_learner_has_the_steps_of_its_actors_and_all_make_the_same_updates(ray, tmp_path):
    path = tmp_path / "other.npz"

    def note(agent):
        waiting_for = agent.waiting_for  # called after each request

        def noted():
            counts = {"t": agent.t, "updates": agent.optim_t, "gamma": agent.gamma}
            np.savez(path, numbers=numbers_of(agent), rewards=rewards_of(agent), **counts)
            return waiting_for()

        agent.waiting_for = noted

    options = {"actors": 4, "envs_per_actor": 1, "step_hooks": [schedule]}
    agent = train(tmp_path / "run", in_a_learner(small_dqn, note), numbered, **options)
    other = np.load(path)
    assert {*rewards_of(agent)} == {0.0, 2.0}
    assert {*other["rewards"]} == {1.0, 3.0}
    assert np.array_equal(numbers_of(agent), other["numbers"])
    # n-step windows delay the first transition of an episode: the 20th of learner 1 comes with the 48th step
    assert (agent.t, agent.optim_t) == (other["t"], other["updates"]) == (STEPS, STEPS - 48)
    # the hooks of the last 4 steps come after the last update
    assert (agent.gamma, float(other["gamma"])) == pytest.approx((0.9 - 0.16, 0.9 - 0.156))
    counts = json.loads((tmp_path / "run" / "losses.json").read_text())
    assert (counts["asked"], counts["lost_steps"]) == (STEPS, 0)
    assert agent.learner_group is None and not distributed.is_initialized()


@pytest.mark.parametrize("kind", ["PPO", "A2C"])
def test_two_learners_of_synchronous_agents_learn_what_one_learns_from_all_environments(ray, tmp_path, kind):
    options = {"kind": "A2C", "num_processes": 2} if kind == "A2C" else {}
    one = train(tmp_path / "one", functools.partial(small_on_policy, kind), learners=1)
    two = train(tmp_path / "two", functools.partial(HALF if kind == "PPO" else small_on_policy, **options))
    assert one.n_updates == two.n_updates > 0
    assert np.allclose(numbers_of(one), numbers_of(two), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make_agent", [small_dqn, HALF])
def test_a_run_that_stops_and_resumes_equals_a_run_that_does_not_stop(ray, tmp_path, make_agent):
    whole = train(tmp_path / "whole", make_agent)
    train(tmp_path / "parts", make_agent, checkpoint_freq=80, hooks=[stop_at(80)])
    parts = train(tmp_path / "parts", make_agent, checkpoint_freq=80, resume=True)
    assert resumed(tmp_path / "parts") == {"checkpoint": "80_checkpoint", "t": 80, "resume": "exact", "reasons": []}
    assert np.array_equal(numbers_of(whole), numbers_of(parts))
    assert whole.get_statistics() == parts.get_statistics()
    with pytest.raises(CheckpointError, match="it was saved with learners=2, and this run has learners=1"):
        train(tmp_path / "parts", make_agent, learners=1, resume=True)


def test_a_signal_between_two_updates_stops_all_learners_after_the_same_update(ray, tmp_path, monkeypatch):
    clocks = []

    def update(agent):
        update_once(agent)
        if agent.optim_t == 51 and not clocks[0].stopped:
            clocks[0].interrupt(signal.SIGINT)

    whole = train(tmp_path / "whole")
    monkeypatch.setattr(learners, "update_once", update)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "parts", checkpoint_freq=80, hooks=[clocks.append])
    parts = train(tmp_path / "parts", checkpoint_freq=80, resume=True)
    assert resumed(tmp_path / "parts")["checkpoint"] == f"{clocks[0].t}_except"
    assert resumed(tmp_path / "parts")["resume"] == "exact"
    assert np.array_equal(numbers_of(whole), numbers_of(parts))


def test_learners_of_an_agent_that_corrects_for_old_policies_learn_as_the_steps_arrive(ray, tmp_path):
    agent = train(tmp_path, functools.partial(HALF, "LaggedPPO"), order="arrival")
    assert agent.t == STEPS
    assert agent.n_updates > 0


@pytest.mark.parametrize(
    ("signum", "text"), [(signal.SIGKILL, "died unexpectedly"), (signal.SIGSTOP, "did not answer within 5 s")]
)
def test_a_lost_learner_ends_the_run_and_the_resumed_run_continues(ray, tmp_path, signum, text):
    path = tmp_path / "pid"
    make_agent = in_a_learner(small_dqn, lambda agent: path.write_text(str(os.getpid())))

    def lose(clock):
        if clock.t == 120:
            os.kill(int(path.read_text()), signum)

    with pytest.raises(WorkerError, match=rf"worker 1 of the learners is lost: .*{text}.* use resume=True"):
        train(tmp_path / "run", make_agent, hooks=[lose], checkpoint_freq=80, answer_timeout=5)
    assert not distributed.is_initialized()
    lost = int(path.read_text())
    if signum == signal.SIGSTOP:
        os.kill(lost, signal.SIGKILL)
    assert train(tmp_path / "run", make_agent, checkpoint_freq=80, resume=True).t == STEPS
    assert resumed(tmp_path / "run")["t"] == 80
    ends = time.monotonic() + 60
    while processes.alive({lost, int(path.read_text())}):
        assert time.monotonic() < ends, "a process of a learner is left"
        time.sleep(0.1)


def test_an_error_of_a_learner_ends_the_run_with_its_traceback(ray, tmp_path):
    def fail(agent):
        def raise_error(*_):
            raise LookupError("the optimiser has lost its way")

        agent.optimizer.register_step_pre_hook(raise_error)

    with pytest.raises(WorkerError, match="worker 1 of the learners raised LookupError") as error:
        train(tmp_path / "run", in_a_learner(small_dqn, fail))
    assert "the optimiser has lost its way" in error.value.traceback_text


def test_learners_that_cannot_be_scheduled_are_named(ray, tmp_path):
    with pytest.raises(WorkerError, match="worker 1 of the learners has not started within 3 s: it needs 64 CPU"):
        train(tmp_path, cpus_per_actor=64, start_timeout=3)
