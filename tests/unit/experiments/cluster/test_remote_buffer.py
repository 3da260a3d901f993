import functools
import gc
import json
import os
import signal
import subprocess
import sys

import cloudpickle
import numpy as np
import pytest
import torch
from chunk_parts import received
from cluster_parts import Killed, cartpole, numbers_of, rows_in, small_dqn, small_on_policy
from torch import nn

from pfrl_like.errors import WorkerError
from pfrl_like.experiments.checkpoints import Saved
from pfrl_like.experiments.cluster.env_actor import EnvActor, Origin, acting_tensors, pack_weights, versions
from pfrl_like.experiments.cluster.remote_buffer import RemoteBuffer, ReplayActor
from pfrl_like.experiments.cluster.replay_journal import read_chunks
from pfrl_like.experiments.cluster.runner import train_agent_distributed
from pfrl_like.nn import RecurrentSequential
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.replay_buffers import (
    PersistentReplayBuffer,
    PrioritizedEpisodicReplayBuffer,
    PrioritizedReplayBuffer,
    ReplayBuffer,
)

STEPS = 160


def collect(agent, ticks=30, has_errors=True):
    """A chunk of an actor in this process, as the replay actor gets it; Ray is not needed for that."""
    actor = EnvActor(Origin(0, 0, 0, 7, None), cloudpickle.dumps((agent.acting_copy(), cartpole)), 2, None)
    actor.prepare()
    answer, chunk = actor.collect_apart(pack_weights(acting_tensors(agent)), 1, agent.t, ticks, {}, has_errors)
    assert answer.chunk is None
    assert answer.n_steps == chunk.n_steps
    return received(chunk)


def replay_actor(buffer):
    actor = ReplayActor(cloudpickle.dumps((buffer,)), seed=3)
    assert actor.start([]) == ((0, 0), os.getpid(), versions())
    return actor


def prioritized(**options):
    return PrioritizedReplayBuffer(1000, rng=np.random.default_rng(0), **options)


def test_first_priorities_are_the_td_errors_of_the_acting_network():
    agent = small_dqn()
    chunk = collect(agent)
    network = agent.model[:-1]
    with torch.no_grad():
        values, after = (network(torch.tensor(obs)).numpy() for obs in (chunk.obs, chunk.next_obs()))
    q = np.take_along_axis(values, chunk.action[..., None], axis=-1)[..., 0]
    target = chunk.reward + 0.9 * ~chunk.terminated * after.max(axis=-1)
    assert chunk.terminated.any()
    assert np.allclose(chunk.extra["priority"], abs(target - q), atol=1e-5)


def test_first_priorities_do_not_change_the_steps():
    with_errors, without = collect(small_dqn()), collect(small_dqn(), has_errors=False)
    assert "priority" not in without.extra
    assert np.array_equal(with_errors.obs, without.obs)
    assert np.array_equal(with_errors.action, without.action)


def test_the_replay_actor_stores_chunks_and_first_priorities():
    chunk, buffer = collect(small_dqn()), prioritized(eps=0.0, alpha=1.0, error_max=None)
    actor = replay_actor(buffer)
    assert actor.append_chunk(chunk, [0, 1], False, {}) == (chunk.n_steps, 0)
    stored = actor.buffer._priorities.to_array()
    assert np.allclose(stored, chunk.extra["priority"][chunk.active_rows])


def test_errors_of_updates_arrive_before_the_next_request():
    chunk, actor = collect(small_dqn()), replay_actor(prioritized(eps=0.0, alpha=1.0, error_max=None))
    actor.append_chunk(chunk, [0, 1], False, {})
    errors = [(np.arange(4), np.full(4, 0.25)), (np.array([1]), np.array([0.5]))]
    batch, size = actor.call("sample_batch", (4, 0.9), {}, errors)
    assert actor.buffer._priorities.to_array()[:4].tolist() == [0.25, 0.5, 0.25, 0.25]
    assert size == (chunk.n_steps, 0)
    assert all(isinstance(each, np.ndarray) for each in (batch.obs, batch.reward, batch.weight, batch.index))


def test_the_replay_actor_restores_its_random_streams():
    actor = replay_actor(ReplayBuffer(1000))
    actor.append_chunk(collect(small_dqn()), [0, 1], False, {})
    streams = actor.streams(None)
    expected = actor.call("sample_batch", (4, 0.9), {}, ())[0]
    actor.streams(json.loads(json.dumps(streams)))
    assert np.array_equal(actor.call("sample_batch", (4, 0.9), {}, ())[0].index, expected.index)


def test_an_agent_without_a_replay_buffer_has_no_replay_actor(tmp_path):
    with pytest.raises(TypeError, match="replay is 'actor', which needs a buffer"):
        train_agent_distributed(small_on_policy, cartpole, steps=10, outdir=tmp_path, replay="actor")


# Runs with Ray


def dqn(kind=ReplayBuffer, rng=None):
    rng = None if rng is None else np.random.default_rng(rng)
    return small_dqn(replay_buffer=kind(1000, num_steps=2, rng=rng))


def train(outdir, make_agent=dqn, make_env=cartpole, **options):
    arguments = {
        "steps": STEPS, "actors": 2, "envs_per_actor": 2, "order": "fixed", "seed": 0, "cpus_per_actor": 0,
        "rows_per_message": (1, 4), "outdir": outdir, "start_timeout": 300, "replay": "actor",
    }  # fmt: skip
    return train_agent_distributed(make_agent, make_env, **arguments | options)[0]


def stop_at(t):
    return lambda clock: clock.stop() if clock.t >= t else None


@pytest.mark.slow
def test_a_replay_actor_in_fixed_order_gives_the_numbers_of_a_buffer_in_the_learner(ray, tmp_path):
    make_agent = functools.partial(dqn, rng=0)
    here, there = train(tmp_path / "here", make_agent, replay="learner"), train(tmp_path / "there", make_agent)
    assert np.array_equal(numbers_of(here), numbers_of(there))
    assert (len(here.replay_buffer), here.optim_t) == (len(there.replay_buffer), there.optim_t)
    assert isinstance(there.replay_buffer, RemoteBuffer) and there.replay_buffer.capacity == 1000


@pytest.mark.slow
def test_a_run_with_a_prioritised_replay_actor_resumes_exactly_in_fixed_order(ray, tmp_path):
    make_agent = functools.partial(dqn, PrioritizedReplayBuffer)
    whole = train(tmp_path / "whole", make_agent)
    train(tmp_path / "parts", make_agent, checkpoint_freq=80, hooks=[stop_at(80)])
    parts = train(tmp_path / "parts", make_agent, checkpoint_freq=80, resume=True)
    resumed = json.loads((tmp_path / "parts" / "run.json").read_text())["resumed"]
    assert resumed == {"checkpoint": "80_checkpoint", "t": 80, "resume": "exact", "reasons": []}
    assert np.array_equal(numbers_of(whole), numbers_of(parts))
    assert (whole.optim_t, len(whole.replay_buffer)) == (parts.optim_t, len(parts.replay_buffer)) == (136, 156)


@pytest.mark.slow
def test_steps_before_the_death_of_an_actor_are_stored_in_the_replay_actor(ray, tmp_path):
    def make_env(actor, index, test):
        env = cartpole(actor, index, test)
        return Killed(env, tmp_path / "killed", 20) if (actor, index) == (1, 0) else env

    make_agent = functools.partial(dqn, PrioritizedReplayBuffer)
    agent = train(
        tmp_path / "run", make_agent, make_env, order="arrival", requests_in_flight=1, minibatches_in_flight=3
    )
    assert (tmp_path / "killed").exists()
    table = np.genfromtxt(tmp_path / "run" / "metrics.csv", delimiter=",", names=True)
    assert table["lost_steps"][-1] == 4  # one message
    assert agent.t == STEPS
    assert STEPS - 2 * 4 <= len(agent.replay_buffer) <= STEPS  # n-step windows of running episodes are not stored yet


@pytest.mark.slow
def test_a_run_whose_replay_actor_was_killed_resumes_from_the_newest_checkpoint(ray, tmp_path):
    def kill(clock):
        if clock.t >= 100 and not (tmp_path / "killed").exists():
            (tmp_path / "killed").touch()
            os.kill(agents[0].replay_buffer.pid, signal.SIGKILL)

    agents = []

    def make_agent():
        agents[:] = [dqn()]
        return agents[0]

    options = {"order": "arrival", "checkpoint_freq": 40}
    with pytest.raises(WorkerError, match=r"replay buffer is lost: .*resume=True"):
        train(tmp_path / "run", make_agent, hooks=[kill], **options)
    asked, journaled = losses_in(tmp_path / "run")["asked"], journaled_steps(tmp_path / "run", 80)
    ticks = []
    agent = train(tmp_path / "run", make_agent, hooks=[lambda clock: ticks.append(clock.t)], resume=True, **options)
    resumed = json.loads((tmp_path / "run" / "run.json").read_text())["resumed"]
    assert (resumed["checkpoint"], resumed["resume"]) == ("80_checkpoint", "approximate")
    kept = ticks[0] - resumed["t"]
    assert f"{kept} steps after the checkpoint are kept, and new episodes start" in resumed["reasons"]
    assert 0 < journaled <= kept <= journaled + 2 * 4  # a checkpoint contains the answers on their way
    table = np.genfromtxt(tmp_path / "run" / "metrics.csv", delimiter=",", names=True)
    assert table["lost_steps"][-1] == losses_in(tmp_path / "run")["lost_steps"] == asked - ticks[0] > 0
    assert agent.t == STEPS
    assert len(agent.replay_buffer) >= STEPS - 3 * 4


def losses_in(outdir):
    return json.loads((outdir / "losses.json").read_text())


def journaled_steps(outdir, t):
    state = Saved(t, str(outdir / f"{t}_checkpoint")).state()
    folder = str(outdir / "checkpoint_buffers" / "replay_buffer")
    return sum(label["steps"] for label, _ in read_chunks(folder, state["buffers"]["replay_buffer"]["journal"]))


class StopError(Exception):
    pass


def fail_at(t):
    def fail(clock):
        if clock.t >= t:
            raise StopError

    return fail


@pytest.mark.slow
def test_a_run_in_fixed_order_repeats_the_steps_of_the_journal(ray, tmp_path):
    make_agent = functools.partial(dqn, PrioritizedReplayBuffer)
    whole = train(tmp_path / "whole", make_agent)
    with pytest.raises(StopError):
        train(tmp_path / "parts", make_agent, checkpoint_freq=80, hooks=[fail_at(120)])
    assert journaled_steps(tmp_path / "parts", 80) >= 30
    parts = train(tmp_path / "parts", make_agent, checkpoint_freq=80, resume=True)
    assert json.loads((tmp_path / "parts" / "run.json").read_text())["resumed"]["resume"] == "exact"
    assert np.array_equal(numbers_of(whole), numbers_of(parts))
    assert (whole.t, whole.optim_t, len(whole.replay_buffer)) == (parts.t, parts.optim_t, len(parts.replay_buffer))
    assert losses_in(tmp_path / "parts")["lost_steps"] == 0


KILLED = """
import os, signal, sys
from pathlib import Path

import numpy as np
from cluster_parts import cartpole, rows_in, small_dqn
from pfrl_like.experiments.cluster.replay_journal import read_chunks
from pfrl_like.experiments.cluster.runner import train_agent_distributed
from pfrl_like.replay_buffers import ReplayBuffer

agents, folder, first, last = [], Path(sys.argv[1]), *map(int, sys.argv[2:])

def make_agent():
    agents[:] = [small_dqn(replay_buffer=ReplayBuffer(1000))]
    return agents[0]

def kill(clock):
    if clock.t >= first and not (folder / f"{first}.npy").exists():
        np.save(folder / f"{first}.npy", rows_in(agents[0].replay_buffer))
    if clock.t >= last:
        os.kill(os.getpid(), signal.SIGKILL)

train_agent_distributed(
    make_agent, cartpole, steps=1000, outdir=folder / "run", actors=2, envs_per_actor=2, seed=0, replay="actor",
    rows_per_message=(1, 4), checkpoint_freq=80, start_timeout=300, hooks=[kill], resume=True,
)
"""


@pytest.mark.slow
def test_rows_that_the_replay_actor_confirmed_are_stored_once_after_the_driver_was_killed(ray, tmp_path):
    for first, last in ((110, 120), (140, 150)):
        command = [sys.executable, "-c", KILLED, str(tmp_path), str(first), str(last)]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "RAY_ADDRESS": ""}
        killed = subprocess.run(command, env=environ, capture_output=True, timeout=600)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    before, agents, ticks, rows = losses_in(tmp_path / "run"), [], [], []

    def make_agent():
        agents[:] = [small_dqn(replay_buffer=ReplayBuffer(1000))]
        return agents[0]

    def read(clock):
        ticks.append(clock.t)
        if clock.t >= clock.steps:
            rows[:] = rows_in(agents[0].replay_buffer).tolist()

    agent = train(
        tmp_path / "run", make_agent, steps=260, order="arrival", checkpoint_freq=80, hooks=[read], resume=True
    )
    stored = {*map(tuple, rows)}
    assert len(stored) == len(rows) == agent.t
    for first in (110, 140):
        confirmed = np.load(tmp_path / f"{first}.npy").tolist()
        assert len(confirmed) >= first
        assert {*map(tuple, confirmed)} <= stored
    assert losses_in(tmp_path / "run")["lost_steps"] == before["lost_steps"] + before["asked"] - ticks[0]
    assert agent.optim_t > 200
    assert len([*(tmp_path / "run" / "checkpoint_buffers" / "replay_buffer").glob("journal-*")]) <= 4


@pytest.mark.slow
@pytest.mark.parametrize("replay", ["actor", "learner"])
def test_rows_of_a_persistent_buffer_after_the_checkpoint_are_kept_on_resume(ray, tmp_path, replay):
    def make_agent():
        agents[:] = [small_dqn(replay_buffer=PersistentReplayBuffer(tmp_path / "buffer", 1000))]
        return agents[0]

    def stop(clock):
        if clock.t >= 120:
            confirmed[:] = rows_in(agents[0].replay_buffer).tolist()
            raise StopError

    agents, confirmed, ticks = [], [], []
    options = {"order": "arrival", "checkpoint_freq": 80, "replay": replay}
    with pytest.raises(StopError):
        train(tmp_path / "run", make_agent, hooks=[stop], **options)
    agents[0].replay_buffer.close()
    before = losses_in(tmp_path / "run")
    agent = train(tmp_path / "run", make_agent, hooks=[lambda clock: ticks.append(clock.t)], resume=True, **options)
    agent.replay_buffer.close()
    with PersistentReplayBuffer(tmp_path / "buffer", 1000) as buffer:
        rows = {*map(tuple, rows_in(buffer).tolist())}
        assert len(rows) == len(buffer) == STEPS
    assert len(confirmed) >= 120
    assert {*map(tuple, confirmed)} <= rows
    assert ticks[0] >= len(confirmed)
    assert losses_in(tmp_path / "run")["lost_steps"] == before["asked"] - ticks[0]
    resumed = json.loads((tmp_path / "run" / "run.json").read_text())["resumed"]
    assert resumed["checkpoint"] == "80_checkpoint"
    assert any("steps after the checkpoint are kept" in reason for reason in resumed["reasons"])


@pytest.mark.slow
def test_a_run_in_fixed_order_repeats_the_steps_of_a_persistent_buffer(ray, tmp_path):
    def run(name, **options):
        make_agent = functools.partial(dqn, functools.partial(PersistentReplayBuffer, tmp_path / name / "buffer"))
        agent = train(tmp_path / name, make_agent, replay="learner", checkpoint_freq=80, **options)
        agent.replay_buffer.close()
        return agent

    whole = run("whole")
    with pytest.raises(StopError):
        run("parts", hooks=[fail_at(120)])
    assert journaled_steps(tmp_path / "parts", 80) >= 30
    gc.collect()  # the buffer of the first part releases its directory
    parts = run("parts", resume=True)
    assert json.loads((tmp_path / "parts" / "run.json").read_text())["resumed"]["resume"] == "exact"
    assert np.array_equal(numbers_of(whole), numbers_of(parts))
    assert losses_in(tmp_path / "parts")["lost_steps"] == 0


@pytest.mark.slow
def test_a_prioritised_episodic_buffer_samples_one_minibatch_at_a_time(ray, tmp_path):
    def make_agent():
        q_function = RecurrentSequential(nn.LSTM(4, 8), nn.Linear(8, 2), DiscreteActionValueHead())
        buffer = PrioritizedEpisodicReplayBuffer(1000)
        return small_dqn(q_function, replay_buffer=buffer, recurrent=True, episodic_update_len=5)

    agent = train(tmp_path, make_agent, order="arrival", minibatches_in_flight=3)
    assert agent.optim_t > 50
