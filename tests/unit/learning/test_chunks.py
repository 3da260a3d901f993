"""Agents take in chunks of acting copies; the result is that of the same steps in one process."""

from typing import Any

import cloudpickle
import gymnasium
import numpy as np
import pytest
import torch
from agent_parts import make_agent
from chunk_parts import plain, received
from on_policy_parts import make_nets, make_on_policy

from pfrl_like.agents import PPO
from pfrl_like.distributed.chunk_sender import ChunkSender
from pfrl_like.experiments.sources import VectorSource
from pfrl_like.nn import Branched, EmpiricalNormalization
from pfrl_like.runs.loop import Clock

K = 8


class Walk(gymnasium.Env[Any, Any]):
    """Observations are random; episodes end by termination or truncation, each with probability 0.1."""

    observation_space = gymnasium.spaces.Box(-10, 10, (5,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, number: int, masks: bool = False) -> None:
        self.rng, self.masks = np.random.default_rng(number), masks

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self._obs(), self._info()

    def step(self, action: Any) -> Any:
        end = self.rng.random(2) < 0.1
        return self._obs(), float(self.rng.random() + action), bool(end[0]), bool(end[1]), self._info()

    def _obs(self) -> Any:
        return self.rng.normal(size=5).astype(np.float32)

    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.array([True, self.rng.random() < 0.5])} if self.masks else {}


class Split:
    """A collector that passes the steps of environments 0 to 3 to one sender, those of 4 to 7 to another."""

    def __init__(self) -> None:
        self.senders = [ChunkSender(4), ChunkSender(4)]

    def append_batch(self, env_ids: Any, **columns: Any) -> None:
        for i, sender in enumerate(self.senders):
            places = [at for at, env in enumerate(env_ids) if env // 4 == i]
            if places:
                own = {name: part(column, places) for name, column in columns.items()}
                sender.append_batch(**own, env_ids=[env_ids[at] % 4 for at in places])

    def stop_current_episode(self, env_id: int = 0) -> None:
        self.senders[env_id // 4].stop_current_episode(env_id % 4)

    def take(self) -> list[Any]:
        both = [(sender.take(), [*range(4 * i, 4 * i + 4)]) for i, sender in enumerate(self.senders)]
        return [(chunk, ids) for chunk, ids in reversed(both) if chunk is not None]


class Whole(ChunkSender):
    def take(self) -> list[Any]:
        chunk = super().take()
        return [] if chunk is None else [(chunk, None)]


def part(column: Any, places: list[int]) -> Any:
    if isinstance(column, tuple):
        return tuple(part(each, places) for each in column)
    return [column[i] for i in places] if isinstance(column, list) else column[places]


def make_env(masks: bool) -> Any:
    return gymnasium.vector.SyncVectorEnv([lambda i=i: Walk(i, masks) for i in range(K)])


def make(kind: str, recurrent: bool, normalized: bool) -> Any:
    torch.manual_seed(0)
    np.random.seed(0)
    options: dict[str, Any] = {"obs_normalizer": EmpiricalNormalization(5)} if normalized else {}
    if kind == "A2C":
        options |= {"num_processes": K, "update_steps": 6}
    if kind in ("PPO", "TRPO"):
        options |= {"update_interval": 48}
    if kind == "PPO":
        options |= {"minibatch_size": 16, "recurrent": recurrent}
    return make_on_policy(kind, recurrent, **{name: v for name, v in options.items() if name != "recurrent"})


def train(agent: Any, masks: bool, n_ticks: int = 16) -> None:
    source, clock = VectorSource(agent, make_env(masks)), Clock(10**9)
    for _ in range(n_ticks):
        source.tick(clock)


def train_by_chunks(agent: Any, masks: bool, collector: Any, n_ticks: int = 16) -> None:
    acting = cloudpickle.loads(cloudpickle.dumps(agent.acting_copy()))
    acting.step_collector = collector
    source, clock = VectorSource(acting, make_env(masks)), Clock(10**9)
    for tick in range(n_ticks):
        source.tick(clock)
        for chunk, env_ids in collector.take() if tick % 3 == 2 or is_due_with(agent, acting) else []:
            agent.observe_chunk(received(chunk), env_ids)
        if agent.is_due():
            agent.update_from_rollout()
            for name, module in agent.acting_modules.items():
                getattr(acting, name).load_state_dict(module.state_dict())
    for chunk, env_ids in collector.take():
        agent.observe_chunk(chunk, env_ids)


def is_due_with(agent: Any, acting: Any) -> bool:
    held = len(agent._rollout) + acting.t - agent.t
    return agent._rollout_size is None or held >= agent._rollout_size


def tensors(agent: Any) -> list[Any]:
    return [value for module in agent.acting_modules.values() for value in module.state_dict().values()]


@pytest.mark.parametrize("collector", [lambda: Whole(K), Split], ids=["one_copy", "two_copies"])
@pytest.mark.parametrize(
    ("kind", "recurrent", "normalized", "masks"),
    [
        ("PPO", False, True, False),
        ("PPO", True, False, False),
        ("PPO", True, True, True),
        ("A2C", False, False, False),
        ("A2C", True, False, True),
        ("TRPO", False, True, False),
        ("REINFORCE", False, False, True),
    ],
)
def test_chunks_give_the_same_update_as_one_process(kind, recurrent, normalized, masks, collector):
    expected = make(kind, recurrent, normalized)
    train(expected, masks)
    agent = make(kind, recurrent, normalized)
    train_by_chunks(agent, masks, collector())
    assert agent.n_updates == expected.n_updates > 0
    assert agent.t == expected.t
    assert agent.cumulative_steps == expected.cumulative_steps
    assert agent.waiting_for() == expected.waiting_for()
    for got, wanted in zip(tensors(agent), tensors(expected), strict=True):
        assert torch.equal(got, wanted)
    for (name, got), (_, wanted) in zip(agent.get_statistics(), expected.get_statistics(), strict=True):
        assert got == pytest.approx(wanted, rel=1e-2, nan_ok=True), name  # a moving mean depends on the order


def play(agent: Any, env: Any, n_ticks: int) -> None:
    np.random.seed(3)
    source, clock = VectorSource(agent, env), Clock(10**9)
    for _ in range(n_ticks):
        source.tick(clock)


@pytest.mark.parametrize(
    ("recurrent", "masks", "buffer"),
    [(False, False, "uniform"), (False, True, "prioritized"), (True, True, "episodic"), (True, False, "episodic")],
)
def test_an_acting_copy_fills_the_replay_buffer_as_the_agent_does(recurrent, masks, buffer):
    agent = make_agent("DQN", buffer, recurrent, replay_start_size=1000, target_update_interval=1000)
    expected = make_agent("DQN", buffer, recurrent, replay_start_size=1000, target_update_interval=1000)
    expected.model.load_state_dict(agent.model.state_dict())
    play(expected, make_env(masks), 25)
    acting = cloudpickle.loads(cloudpickle.dumps(agent.acting_copy()))
    acting.replay_buffer = ChunkSender(K)
    play(acting, make_env(masks), 25)
    agent.observe_chunk(acting.replay_buffer.take())
    assert (agent.t, agent.cumulative_steps) == (expected.t, expected.cumulative_steps) == (acting.t, acting.t)
    (columns, rows), (wanted, wanted_rows) = agent.replay_buffer.stored_steps(), expected.replay_buffer.stored_steps()
    assert plain(columns.transitions(rows)) == plain(wanted.transitions(wanted_rows))
    assert len(agent.replay_buffer) == len(expected.replay_buffer) > 0
    assert ("recurrent_state" in columns.extras, "action_mask" in columns.extras) == (recurrent, masks)


def test_an_episode_that_the_acting_copy_stopped_bootstraps_from_its_last_observation():
    agent = make("PPO", False, False)
    acting = agent.acting_copy()
    acting.step_collector = ChunkSender(K)
    play(acting, make_env(False), 3)
    agent.observe_chunk(acting.step_collector.take())
    n_running = len(agent._rollout.running()[0])
    play(acting, make_env(False), 1)  # a new source stops the running episodes
    agent.observe_chunk(acting.step_collector.take())
    episodes = agent._rollout.take(0.9, "cpu", agent._bootstrap_inputs)
    assert n_running > 0
    assert len(episodes.lengths) == len(episodes.last_rows) + int(episodes.steps.discount.eq(0).sum())
    assert len(episodes.last_obs) == len(episodes.last_rows) >= n_running + K - 2


def test_running_episodes_of_chunks_are_saved_with_the_agent():
    agent, copied = make("PPO", True, True), make("PPO", True, True)
    acting = agent.acting_copy()
    acting.step_collector = ChunkSender(K)
    play(acting, make_env(False), 3)
    agent.observe_chunk(acting.step_collector.take())
    copied.restore_state(agent.saved_state())
    episodes, again = (each._rollout.take(0.9, "cpu", each._bootstrap_inputs) for each in (agent, copied))
    assert torch.equal(episodes.last_obs, again.last_obs)
    assert plain(episodes.last_state) == plain(again.last_state)


def test_only_named_columns_of_acting_reach_the_update():
    class KeepsLogProb(PPO):
        _acting_columns = ("log_prob",)

    policy, vf = make_nets()
    model = Branched(policy, vf)
    agent = KeepsLogProb(model, torch.optim.Adam(model.parameters()), update_interval=1000)
    acting = agent.acting_copy()
    acting.step_collector = ChunkSender(K)
    play(acting, make_env(False), 3)
    chunk = acting.step_collector.take()
    assert {*chunk.extra} == {"log_prob", "entropy", "value"}
    agent.observe_chunk(chunk)
    play(agent, make_env(False), 1)  # its own steps have the column, too
    steps = agent._rollout.take(0.9, "cpu", agent._bootstrap_inputs).steps
    assert steps.value is None
    distribution = model(steps.obs)[0]
    torch.testing.assert_close(steps.log_prob, distribution.log_prob(steps.action))


class OwnBuffer:
    """A user's buffer that is no `AbstractReplayBuffer`."""

    capacity, prioritized = None, False

    def __init__(self):
        self.rewards = []

    def __len__(self):
        return len(self.rewards)

    def append_batch(self, obs, action, reward, next_obs, terminated, truncated, env_ids=None, **extra):
        self.rewards.extend(reward)

    def stop_current_episode(self, env_id=0):
        pass

    sample_batch = None


def test_a_users_buffer_gets_a_chunk_step_by_step():
    agent = make_agent("DQN")
    acting = agent.acting_copy()
    acting.replay_buffer = ChunkSender(K)
    play(acting, make_env(False), 3)
    chunk = acting.replay_buffer.take()
    agent.replay_buffer = OwnBuffer()
    agent.observe_chunk(chunk)
    assert agent.replay_buffer.rewards == chunk.rows(chunk.reward).tolist()
