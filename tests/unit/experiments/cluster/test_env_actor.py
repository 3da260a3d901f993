import json

import cloudpickle
import numpy as np
import pytest
import torch
from cluster_parts import cartpole, small_dqn

from pfrl_like.batch import map_nested
from pfrl_like.distributed.chunk_sender import ChunkSender
from pfrl_like.envs import SerialVectorEnv
from pfrl_like.errors import WorkerError
from pfrl_like.experiments.cluster.env_actor import (
    Answer,
    EnvActor,
    Origin,
    acting_tensors,
    check_versions,
    explorer_numbers,
    load_weights,
    pack_weights,
    versions,
)
from pfrl_like.experiments.sources import VectorSource
from pfrl_like.random_streams.streams import GlobalStreams
from pfrl_like.runs.loop import Clock
from pfrl_like.wrappers.atari_wrappers import LazyFrames


def actor_of(agent, origin, n_envs=2):
    """An actor in this process; Ray is not needed for that."""
    actor = EnvActor(origin, cloudpickle.dumps((agent.acting_copy(), cartpole)), n_envs, None)
    actor.prepare()
    actor.record()
    return actor


def collect(actor, agent, ticks=3, **numbers):
    return actor.collect(pack_weights(acting_tensors(agent)), 1, agent.t, ticks, numbers)


def columns(chunk):
    return [chunk.obs, chunk.action, chunk.reward, chunk.terminated, chunk.truncated, chunk.next_obs()]


def equal(first, second):
    return all(map(np.array_equal, columns(first.chunk), columns(second.chunk)))


def test_an_actor_with_the_streams_of_the_driver_makes_the_steps_of_the_local_source():
    agent = small_dqn()
    streams = GlobalStreams.now()
    answer = collect(actor_of(agent, Origin(0, 0, 0, None, streams)), agent, 30)
    streams.restore()
    source = VectorSource(agent, SerialVectorEnv([cartpole(0, i, False) for i in range(2)]))
    agent.replay_start_size = 1000
    clock, episodes = Clock(None), []
    for t in range(30):
        episodes += source.tick(clock)
        obs, action, reward = source.last
        assert np.array_equal(answer.chunk.action[t], action)
        assert np.array_equal(answer.chunk.reward[t], reward)
        assert np.array_equal(answer.chunk.next_obs()[t], obs)
    assert answer.chunk.n_steps == clock.t == 60
    assert answer.episodes == [(each.total_reward, each.length) for each in episodes] != []


def test_the_successor_of_an_actor_makes_other_steps_and_an_equal_origin_makes_equal_steps():
    agent = small_dqn()
    lives = [collect(actor_of(agent, Origin(0, life, 2 * life, 7, None)), agent) for life in (0, 0, 1)]
    assert equal(lives[0], lives[1])
    assert not equal(lives[0], lives[2])


def test_numbers_of_the_explorer_reach_the_actor():
    agent = small_dqn()
    actor = actor_of(agent, Origin(0, 0, 0, 7, None))
    assert collect(actor, agent, 40, epsilon=0.0).chunk.action.std() == 0  # the greedy action is always the same
    assert collect(actor, agent, 40, epsilon=1.0).chunk.action.std() > 0
    assert explorer_numbers(agent) == {"epsilon": 0.5} and explorer_numbers(actor.acting) == {"epsilon": 1.0}


def test_an_actor_continues_exactly_from_its_saved_state():
    agent = small_dqn()
    actor, successor = (actor_of(agent, Origin(1, 0, 1, 7, None)) for _ in range(2))
    collect(actor, agent, 11)
    state = actor.saved_state()
    expected = collect(actor, agent, 11)
    assert successor.restore_state(state) == []
    assert equal(expected, collect(successor, agent, 11))


def test_an_answer_survives_its_conversion_to_json():
    agent = small_dqn()
    answer = collect(actor_of(agent, Origin(1, 0, 1, 7, None)), agent, 30)
    again = Answer.from_plain(answer.to_plain())
    assert equal(answer, again)
    assert answer[1:] == again[1:]


FRAMES = np.random.default_rng(1).integers(0, 255, (20, 1, 20, 20), np.uint8)


def frames(i):
    return LazyFrames(list(FRAMES[i : i + 4]), stack_axis=0)


#: Observations of two environments at step t, keyed by kind.
OBS = {
    "vectors": lambda rng, t: rng.random((2, 4)),
    "dicts": lambda rng, t: [{"a": rng.random(4), "b": rng.random(2)} for _ in range(2)],
    "tuples": lambda rng, t: [(rng.random(4), rng.random(2)) for _ in range(2)],
    "frames": lambda rng, t: [frames(t), frames(t + 8)],
}
#: Further columns of two environments, keyed by kind.
OTHERS = {
    "LSTM": lambda rng: {name: (rng.random((2, 1, 3)), rng.random((2, 1, 3))) for name in ("state", "next_state")},
    "GRU": lambda rng: {name: rng.random((2, 1, 3)) for name in ("state", "next_state")},
    "masks": lambda rng: {"action_mask": rng.random((2, 3)) < 0.5},
}


@pytest.mark.parametrize("kind", [*OBS, *OTHERS])
@pytest.mark.parametrize("n_active", [2, 1, 0])
def test_every_kind_of_step_survives_the_conversion_to_json(kind, n_active):
    rng, sender, get_obs = np.random.default_rng(0), ChunkSender(2), OBS.get(kind, OBS["vectors"])
    for t, n in enumerate((2, n_active, 2)):
        columns = {"action": rng.integers(0, 2, 2), "reward": rng.random(2), "terminated": np.array([False, t == 0])}
        columns |= {"obs": get_obs(rng, t), "next_obs": get_obs(rng, t + 1), "truncated": np.zeros(2, bool)}
        states = OTHERS[kind](rng) if kind in OTHERS and (kind != "masks" or t) else {}
        columns = {name: column[:n] for name, column in columns.items()}
        columns |= {name: map_nested(lambda leaf: leaf[:n], column) for name, column in states.items()}  # noqa: B023
        sender.append_batch(**columns)
    chunk = sender.take()
    again = Answer.from_plain(json.loads(json.dumps(Answer(chunk, 6, [], 3, 0.1, 0.2).to_plain()))).chunk
    assert type(chunk.obs) is type(again.obs)
    assert len([*chunk.steps()]) == 3 - (n_active == 0)
    for first, second in zip(chunk.steps(), again.steps(), strict=True):
        np.testing.assert_equal(map_nested(np.asarray, first), map_nested(np.asarray, second))
    np.testing.assert_equal(chunk.last_extra, again.last_extra)


def test_an_actor_with_another_version_is_refused_by_name():
    with pytest.raises(WorkerError, match=r"worker 3 of the learners has torch 1.0, and the driver has"):
        check_versions(3, {**versions(), "torch": "1.0"}, "of the learners ")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_weights_of_all_dtypes_and_shapes_arrive(dtype):
    sent = [torch.arange(6).reshape(2, 3).T.to(dtype), torch.tensor(3).to(dtype), torch.zeros(0, dtype=dtype)]
    received = [torch.ones_like(tensor) for tensor in sent]
    load_weights(received, pack_weights(sent))
    assert all(map(torch.equal, sent, received))
