"""Actors store and act as the agent itself does; learner and poller take turns, stop, and say what went wrong."""

import copy
import ctypes
import logging
import multiprocessing
import threading
import time
from multiprocessing.connection import Client
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from agent_parts import make_agent, make_q_function
from pipe_parts import views_of
from time_parts import PATIENCE, run_together, wait_until

from pfrl_like.agents import StateQFunctionActor
from pfrl_like.distributed import actor
from pfrl_like.distributed.learner import SLACK, Pace
from pfrl_like.errors import NonFiniteError, WorkerError
from pfrl_like.experiments.sources import SerialSource
from pfrl_like.explorers import ConstantEpsilonGreedy, LinearDecayEpsilonGreedy
from pfrl_like.processes import SharedArrays
from pfrl_like.runs.loop import Clock, run
from pfrl_like.testing import Chain
from pfrl_like.testing.play import difference
from pfrl_like.utils.batch_states import batch_states


class Training:
    """An agent with actors in this very process, for the length of a block."""

    def __init__(self, agent, n_actors=1, *, learns=True, **options):
        self.agent = agent
        before = agent.setup_actor_learner_training(n_actors, **options)
        self.make_actor, self.learner, self.poller, self.exception_event = before
        self.threads = [self.poller, self.learner] if learns else [self.poller]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        for thread in self.threads:
            thread.stop()
        for thread in self.threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()


def play(agent, steps, env=None, max_episode_len=None):
    run(SerialSource(agent, env or Chain(4, time_limit=7), max_episode_len), Clock(steps), [])


class Masked(gymnasium.Wrapper):
    """Allows another action at each step."""

    def reset(self, **options):
        obs, info = self.env.reset(**options)
        return obs, {**info, "action_mask": np.array([True, False])}

    def step(self, action):
        *values, info = self.env.step(action)
        return (*values, {**info, "action_mask": np.array([False, True])})


@pytest.mark.representatives(2)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("buffer", "recurrent"),
    [("uniform", False), ("3-step", False), ("3-step prioritized", False), ("prioritized episodic", True)],
)
def test_what_an_actor_sends_is_stored_as_what_the_agent_stores_itself(buffer, recurrent, masked):
    def make():
        torch.manual_seed(1)
        return make_agent("DQN", buffer, recurrent, replay_start_size=1_000)

    def make_env():
        env = Chain(4, terminates=not masked, time_limit=7)
        env.reset(seed=3)
        return Masked(env) if masked else env

    alone, agent = make(), make()
    np.random.seed(5)
    play(alone, 101, make_env(), max_episode_len=5)
    np.random.seed(5)
    with Training(agent) as training:
        acting = training.make_actor(0)
        play(acting, 101, make_env(), max_episode_len=5)
        acting.close()
    alone.replay_buffer.stop_current_episode()
    assert len(agent.replay_buffer) > 90
    assert difference(list(agent.replay_buffer.memory), list(alone.replay_buffer.memory)) is None
    assert (agent.t, agent.cumulative_steps) == (101, 101)


def test_every_step_arrives_once_and_in_the_order_of_its_actor():
    class Counting(Chain):
        def reset(self, **_):
            return np.full(5, self.count, np.float32), {}

        def step(self, action):
            self.count += 1
            return self.reset()[0], float(self.count), False, False, {}

    envs = [Counting(), Counting()]
    envs[0].count, envs[1].count = 0, 1000
    agent = make_agent(replay_start_size=1_000)
    with Training(agent, 2) as training:
        actors = [training.make_actor(i) for i in range(2)]
        threads = [threading.Thread(target=play, args=(actors[i], 200, envs[i])) for i in range(2)]
        run_together(threads)
        for each in actors:
            each.close()
    rewards = np.array([item[0]["reward"] for item in agent.replay_buffer.memory])
    assert len(rewards) == 400
    assert rewards[rewards <= 1000].tolist() == list(range(1, 201))
    assert rewards[rewards > 1000].tolist() == list(range(1001, 1201))
    assert all(item[0]["state"][0] + 1 == item[0]["next_state"][0] == item[0]["reward"] for item in
               agent.replay_buffer.memory)  # fmt: skip


@pytest.mark.parametrize("recurrent", [False, True])
def test_a_state_q_function_actor_acts_as_the_agent_does(recurrent):
    agent = make_agent(recurrent=recurrent, replay_start_size=1_000, phi=lambda obs: obs * 2)
    ours, theirs = multiprocessing.Pipe()
    q_actor = StateQFunctionActor(
        theirs, copy.deepcopy(agent.model), copy.deepcopy(agent.explorer), agent.phi, recurrent, episodic_update_len=4
    )
    assert q_actor.device == torch.device("cpu")
    taken = []
    for each in (agent, q_actor):
        np.random.seed(0)
        env = Chain(4, time_limit=7)
        env.reset(seed=0)
        actions = []
        act = each.act
        each.act = lambda obs, action_mask=None, act=act, actions=actions: actions.append(act(obs)) or actions[-1]
        play(each, 60, env)
        taken.append(actions)
    assert taken[0] == taken[1]
    assert {0, 1} == set(taken[0])
    assert ours.recv()[0] == "rows"
    with agent.eval_mode(), q_actor.eval_mode():
        obs = np.eye(5, dtype=np.float32)
        assert [agent.act(each) for each in obs] == [q_actor.act(each) for each in obs]


def test_a_state_q_function_actor_makes_batches_as_it_is_told():
    calls = []

    def own(states, device, phi):
        calls.append((len(states), device, phi))
        return batch_states(states, device, phi)

    agent = make_agent(phi=lambda obs: obs * 2)
    _, theirs = multiprocessing.Pipe()
    q_actor = StateQFunctionActor(theirs, agent.model, agent.explorer, agent.phi, batch_states=own)
    q_actor.act(np.ones(5, np.float32))
    assert (q_actor.model, q_actor.phi, q_actor.batch_states) == (agent.model, agent.phi, own)
    assert calls == [(1, torch.device("cpu"), agent.phi)]


@pytest.mark.parametrize(("length", "kept"), [(None, [0]), (2, [0, 2, 4])])
def test_a_state_q_function_actor_sends_states_every_so_many_steps(length, kept, monkeypatch):
    monkeypatch.setattr(actor, "MAX_SECONDS", PATIENCE)  # all go together
    agent = make_agent(recurrent=True)
    ours, theirs = multiprocessing.Pipe()
    q_actor = StateQFunctionActor(theirs, agent.model, agent.explorer, recurrent=True, episodic_update_len=length)
    for _ in range(6):
        q_actor.act(np.ones(5, np.float32))
        q_actor.observe(np.ones(5, np.float32), 0.0, False, False)
    q_actor.stop_episode()
    kind, columns = ours.recv()
    assert kind == "rows"
    assert [i for i, further in enumerate(columns[-1]) if further["recurrent_state"] is not None] == kept


def test_a_state_q_function_actor_refuses_a_network_that_is_not_recurrent():
    with pytest.raises(TypeError, match="recurrent"):
        StateQFunctionActor(None, make_q_function(), ConstantEpsilonGreedy(0.1, lambda: 0), recurrent=True)


def test_a_state_q_function_actor_tells_its_logger_that_nobody_listens(caplog):
    agent = make_agent()
    ours, theirs = multiprocessing.Pipe()
    q_actor = StateQFunctionActor(theirs, agent.model, agent.explorer, logger=logging.getLogger("my.actor"))
    ours.close()
    with pytest.raises(WorkerError) as caught:
        q_actor.get_statistics()
    assert caught.value.__cause__ is not None and views_of(caught.value.__cause__) <= {"bytes"}
    assert [(record.name, record.message) for record in caplog.records] == [
        ("my.actor", "actor 0 has lost its connection to the learner after 0 steps")
    ]


def test_actors_follow_the_learner_but_not_within_an_evaluation():
    agent = make_agent(replay_start_size=1_000)
    with Training(agent, learns=False) as training:
        acting = training.make_actor(0)
        obs = np.ones(5, np.float32)

        def prefer(action):
            with torch.no_grad():
                for parameter in agent.model.parameters():
                    parameter.zero_()
                list(agent.model.parameters())[-1][action] = 1.0
            training.make_actor.representative.weights.publish()

        for action in (0, 1):
            prefer(action)
            with acting.eval_mode():
                assert acting.act(obs) == action
                prefer(1 - action)
                assert acting.act(obs) == action
        acting.close()


def test_weights_are_never_read_half_written():
    module, reader = torch.nn.Linear(300, 300), torch.nn.Linear(300, 300)
    weights = actor.SharedWeights([module])
    other = actor.SharedWeights([reader], actor.SharedArrays.attach(weights.memory.name, weights.memory.layout))
    done = threading.Event()

    def write():
        value = 0.0
        while not done.is_set():
            value += 1.0
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter.fill_(value)
            weights.publish()

    seen = set()

    def twenty_versions_were_read():
        if other.refresh():
            values = {parameter.detach().min().item() for parameter in reader.parameters()}
            values |= {parameter.detach().max().item() for parameter in reader.parameters()}
            if 0.0 not in values and all(value == int(value) for value in values):
                assert len(values) == 1
                seen.update(values)
        return len(seen) == 20

    writer = threading.Thread(target=write)
    writer.start()
    other.refresh()
    try:
        assert wait_until(twenty_versions_were_read)
    finally:
        done.set()
        writer.join()
    other.close()
    weights.close()


def test_explorers_follow_the_steps_of_all_actors():
    explorer = LinearDecayEpsilonGreedy(1.0, 0.0, 100, lambda: 0)
    agent = make_agent(explorer=explorer, replay_start_size=1_000)
    with Training(agent, 2) as training:
        with training.make_actor.representative.starting(10):
            first, second = training.make_actor(0), training.make_actor(1)
        play(first, 30)
        play(second, 20)
        assert (first.t, second.t) == (60, 60)
        second.act(np.zeros(5, np.float32))
        assert second._acting.t == 60
        first.close()
        second.close()
    assert agent.t == 60


def test_actors_explore_differently_and_the_first_as_the_agent():
    space = gymnasium.spaces.Discrete(1_000, seed=3)
    generator = np.random.default_rng(4)
    agent = make_agent(explorer=ConstantEpsilonGreedy(1.0, space.sample, rng=generator), replay_start_size=1_000)
    with Training(agent, 2) as training:
        actors = [training.make_actor(i) for i in range(2)]
        drawn = [[int(each._acting.explorer.random_action_func()) for _ in range(5)] for each in actors]
        uniform = [each._acting.explorer.rng.random(3).tolist() for each in actors]
        for each in actors:
            each.close()
    assert drawn[0] == [int(space.sample()) for _ in range(5)] != drawn[1]
    assert uniform[0] == generator.random(3).tolist() != uniform[1]


def test_learner_makes_n_updates_and_calls_hooks_and_counts():
    agent, calls = make_agent(update_interval=5), {"step": [], "optimizer": []}
    counter = multiprocessing.Value(ctypes.c_ulong)
    with Training(
        agent,
        update_counter=counter,
        n_updates=20,
        actor_update_interval=8,
        step_hooks=[lambda env, agent, step: calls["step"].append((env, step))],
        optimizer_step_hooks=[lambda env, agent, step: calls["optimizer"].append(step)],
    ) as training:
        acting = training.make_actor(0)
        play(acting, 30)
        acting.close()
        assert wait_until(training.learner.stop_event.is_set)
        assert training.learner.is_stopped()
    assert agent.optim_t == 20
    assert counter.value == 2  # after 8 and 16 updates
    assert calls["optimizer"] == list(range(1, 21))
    assert calls["step"] == [(None, 5 * n) for n in range(1, 21)]


def play_stored(acting, steps):
    """Play some steps, and come back when the learner's process has taken them in."""
    play(acting, steps)
    acting.get_statistics()


def play_until_steps_count(agent, acting):
    """Play until the learner has made two updates: after the first one it counts steps."""
    while agent.optim_t < 2:
        play_stored(acting, 1)


def test_updates_per_step_holds_the_learner_back():
    agent = make_agent()
    with Training(agent, updates_per_step=0.5) as training:
        acting = training.make_actor(0)
        play_until_steps_count(agent, acting)
        play(acting, 100)
        acting.close()
        assert wait_until(lambda: agent.optim_t >= 52)
        time.sleep(0.1)  # for more of them, if nothing holds it back
    assert agent.optim_t <= 1 + (agent.t - 10) / 2  # one for the first 10 steps, half a one for each of the others


def test_updates_per_step_lets_actors_wait_for_the_learner():
    agent = make_agent()
    slow = [lambda env, agent, step: time.sleep(0.002)]
    with Training(agent, updates_per_step=1.0, step_hooks=slow) as training:
        acting = training.make_actor(0)
        play_until_steps_count(agent, acting)
        before = agent.optim_t
        for _ in range(40):
            play_stored(acting, 10)
        owed = 400 - (agent.optim_t - before)
        acting.close()
    assert owed <= SLACK + 50  # some are under way; without waiting it is more than 300


def test_nothing_is_learnt_below_the_start_size_nor_without_episodes():
    agent = make_agent(recurrent=True)
    with Training(agent, updates_per_step=1.0) as training:
        acting = training.make_actor(0)
        play(acting, 40, Chain(4, terminates=False))  # one episode that does not end
        assert acting.get_statistics()[2] == ("cumulative_steps", 40)
        assert agent.optim_t == 0
        acting.close()
        assert not training.exception_event.is_set()


def test_an_error_of_the_learner_sets_both_events_and_tells():
    agent = make_agent()
    with Training(agent) as training:
        acting = training.make_actor(0)
        with torch.no_grad():
            next(agent.model.parameters()).fill_(float("nan"))
        play(acting, 40)
        assert training.exception_event.wait(PATIENCE)
        assert training.learner.stop_event.wait(PATIENCE)
        assert isinstance(training.exception_event.error, NonFiniteError)
        acting.close()
        training.poller.join(PATIENCE)  # ends by itself
        assert not training.poller.is_alive()


def test_an_actor_saves_and_loads_the_learners_agent(tmp_path):
    agent = make_agent()
    with Training(agent, learns=False) as training:
        acting = training.make_actor(0)
        play(acting, 12)
        acting.save(str(tmp_path / "saved"))
        assert agent.t == 12
        weight = next(agent.model.parameters())
        before = weight.detach().clone()
        with torch.no_grad():
            weight.zero_()
        acting.load(str(tmp_path / "saved"))
        assert torch.equal(weight, before)
        with acting.eval_mode():
            assert torch.equal(next(acting._acting.model.parameters()), before)
        assert (tmp_path / "saved" / "manifest.json").exists()
        with pytest.raises(RuntimeError, match="could not load: CheckpointError.*nowhere"):
            acting.load(str(tmp_path / "nowhere"))
        acting.close()


def test_an_actor_without_poller_says_so(monkeypatch):
    training = Training(make_agent())
    with monkeypatch.context() as hasty, pytest.raises(RuntimeError, match=r"poller.start\(\)"):
        hasty.setattr(actor, "PATIENCE", 0.1)
        training.make_actor(0)
    with training:
        acting = training.make_actor(0)
    with pytest.raises(WorkerError, match="lost its connection to the learner"):
        for _ in range(100):
            play(acting, 10)


def test_nothing_is_left_behind():
    training = Training(make_agent())
    with training:
        training.make_actor(0).close()
    with pytest.raises(OSError, match="refused|No such file"):
        Client(training.make_actor.address)
    names = [training.make_actor.weights[0], training.make_actor.counts[0]]
    assert not any((Path("/dev/shm") / name).exists() for name in names)


@pytest.mark.parametrize("name", ["n_actors", "n_updates", "actor_update_interval", "updates_per_step"])
def test_numbers_out_of_range_are_refused(name):
    with pytest.raises(ValueError, match=name):
        make_agent().setup_actor_learner_training(**{"n_actors": 1, name: 0})
    with Training(make_agent(), 2) as training, pytest.raises(ValueError, match="expected 0 to 1"):
        training.make_actor(2)


def test_nobody_waits_for_a_learner_that_has_ended() -> None:
    counts = SharedArrays((((2,), "<i8"), ((1,), "|u1"), ((1,), "|u1")))
    hold = counts.arrays[actor.HOLD]
    pace = Pace(1.0, counts)
    pace.updated(True)
    for _ in range(1 + SLACK):
        pace.step()
    assert not hold[0]
    pace.step()
    assert hold[0]  # more is owed than the slack
    pace.end()
    assert not hold[0]
    pace.step()  # of an actor that has not ended yet
    assert not hold[0]
    counts.unlink()
    counts.close()


def test_steps_on_their_way_to_the_learner_cannot_be_changed():
    buffer = actor.RowSender(lambda message: None)
    buffer.append_batch([0], [0], [1.0], [1], [False], [False])
    with pytest.raises(TypeError, match="replay_buffer.memory is not available in an actor"):
        buffer.memory[-1][0]["reward"] = 1.0
