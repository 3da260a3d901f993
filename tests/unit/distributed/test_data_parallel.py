"""Two processes that make every update together, against one process with the joined minibatch."""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

import actor_critic_parts
import agent_parts
import numpy as np
import pytest
import torch
from on_policy_parts import make_on_policy
from process_group import free_port, in_two_processes, join
from torch import distributed, nn

from pfrl_like.batch import Batch
from pfrl_like.distributed.data_parallel import data_parallel
from pfrl_like.errors import CheckpointError, NonFiniteError
from pfrl_like.experiments.train_agent_offline import DatasetSource
from pfrl_like.nn import EmpiricalNormalization, FactorizedNoisyLinear
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.replay_buffers import PrioritizedReplayBuffer
from pfrl_like.runs.loop import Clock, run
from pfrl_like.utils import set_random_seed

SHARE = 4  # rows of a process in a minibatch


def fill(buffer: Any, seed: int, action: Callable[[np.random.Generator], Any], size: int) -> None:
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=(61, size)).astype(np.float32)
    for i in range(60):
        buffer.append(obs[i], action(rng), float(rng.normal()), next_state=obs[i + 1], is_state_terminal=i % 7 == 6)


def two_actions(rng: np.random.Generator) -> Any:
    return int(rng.integers(2))


def vectors(rng: np.random.Generator) -> Any:
    return rng.uniform(-1, 1, actor_critic_parts.ACTION).astype(np.float32)


def with_buffer(make: Callable[..., Any], action: Any, data: int, n: int, **options: Any) -> Any:
    agent = make(minibatch_size=n, **options)
    fill(agent.replay_buffer, data, action, 5 if action is two_actions else actor_critic_parts.OBS)
    return agent


def dqn(data: int, n: int, **options: Any) -> Any:
    return with_buffer(agent_parts.make_agent, two_actions, data, n, max_grad_norm=1.0, **options)


def sac(data: int, n: int, **options: Any) -> Any:
    return with_buffer(lambda **o: actor_critic_parts.make_agent("SoftActorCritic", **o), vectors, data, n, **options)


def prioritized(data: int, n: int) -> Any:
    return dqn(data, n, replay_buffer=PrioritizedReplayBuffer(100, betasteps=100))


def noisy(data: int, n: int) -> Any:
    """Its layers draw 4 * SHARE numbers for their weights."""
    layers = [nn.Linear(5, 3 * SHARE - 2), nn.Tanh(), nn.Linear(3 * SHARE - 2, 2 + SHARE), nn.Linear(2 + SHARE, 2)]
    layers[2] = FactorizedNoisyLinear(layers[2])
    return dqn(data, n, q_function=nn.Sequential(*layers, DiscreteActionValueHead()))


def ppo(data: int, n: int) -> Any:
    nets = {"obs_normalizer": EmpiricalNormalization(5), "target_kl": 0.5, "max_grad_norm": 0.5}
    return make_on_policy("PPO", minibatch_size=n, **nets)


def a2c(data: int, n: int) -> Any:
    return make_on_policy("A2C")


def trpo(data: int, n: int) -> Any:
    return make_on_policy("TRPO", vf_batch_size=n)


def impala(data: int, n: int) -> Any:
    return make_on_policy("IMPALA", obs_normalizer=EmpiricalNormalization(5), max_grad_norm=0.5)


def appo(data: int, n: int) -> Any:
    return make_on_policy("APPO", minibatch_size=n, target_kl=0.5, max_grad_norm=0.5)


MAKERS: dict[str, Callable[..., Any]] = {"DQN": dqn, "SAC": sac, "PPO": ppo, "IMPALA": impala, "APPO": appo}
SLOW: dict[str, Callable[..., Any]] = {"prioritised DQN": prioritized, "noisy DQN": noisy, "A2C": a2c, "TRPO": trpo}


def steps(seed: int, n: int) -> Batch:
    """Single steps, of which each is an episode of an on-policy agent."""
    batch = agent_parts.make_batch(seed, n)
    return batch.replace(weight=None, discount=torch.where(batch.reward > 1, 0.0, 0.9))


def lagged(seed: int, rows: slice) -> Batch:
    """Sequences of 5 steps with the log-probabilities of an older policy. Every other one ends terminal."""
    batch = steps(seed, 20)[rows]
    n = len(batch) // 5
    old = torch.empty(20).uniform_(0.1, 0.9, generator=torch.Generator().manual_seed(seed)).log()[rows]
    discount = torch.full((n, 5), 0.9)
    discount[::2, -1] = 0.0
    batch = batch.replace(log_prob=old, discount=discount.view(-1))
    return batch[torch.arange(5 * n).view(n, 5).T.reshape(-1)].replace(lengths=torch.full((n,), 5))


def learn(agent: Any, rows: slice) -> None:
    """Make about 100 gradient steps."""
    if hasattr(agent, "replay_buffer"):
        for _ in range(100):
            agent.update_from_replay()
        return
    for seed in range(20):
        agent.update(lagged(seed, rows) if agent.corrects_lag else steps(seed, 20)[rows])


def numbers(agent: Any) -> dict[str, Any]:
    parts = {name: getattr(agent, name) for name in agent.saved_attributes}
    modules = {name: part.state_dict() for name, part in parts.items() if isinstance(part, nn.Module)}
    return {f"{name}.{key}": value.clone() for name, state in modules.items() for key, value in state.items()}


def learnt_alone(name: str) -> tuple[dict[str, Any], Any]:
    set_random_seed(0)
    agent = (MAKERS | SLOW)[name](0, 2 * SHARE)
    learn(agent, slice(None))
    return numbers(agent), agent.get_statistics()


def learnt_together(rank: int, name: str) -> tuple[dict[str, Any], Any]:
    set_random_seed(0)
    agent = (MAKERS | SLOW)[name](0, SHARE)
    with data_parallel(agent, same_data=True):
        learn(agent, slice(10 * rank, 10 * rank + 10))
        if rank:
            torch.rand(1)  # what a process draws outside updates does not matter
    return numbers(agent), agent.get_statistics()


def own_data(rank: int) -> dict[str, Any]:
    """Each process begins with other parameters and has other data; process 1 has a NaN at the end."""
    set_random_seed(rank)
    agent = dqn(rank, SHARE, replay_buffer=PrioritizedReplayBuffer(100, normalize_by_max="batch"))
    with data_parallel(agent) as learners:
        weights = []
        for _ in range(4):
            batch = learners.sample(lambda n: agent.replay_buffer.sample_batch(n, agent.gamma), SHARE)
            td_error, _ = agent.update(batch)
            agent.replay_buffer.update_priorities(batch.index, td_error)
            weights.append(batch.weight.max().item())
        before = numbers(agent)
        bad = agent_parts.make_batch(rank, SHARE)
        bad.reward[0] = float("nan") if rank else 0.0
        with contextlib.suppress(NonFiniteError):
            agent.update(bad)
            raise AssertionError("the update was not rejected")
        after = numbers(agent)
    return {"before": before, "after": after, "weights": weights, "updates": agent.optim_t}


def online(rank: int) -> dict[str, Any]:
    """Each process acts in its own environment; process 1 begins to learn later."""
    set_random_seed(rank)
    agent = agent_parts.make_agent(replay_start_size=10 + 5 * rank)
    rng = np.random.default_rng(rank)
    with data_parallel(agent):
        for _ in range(30):
            agent.act(rng.normal(size=5).astype(np.float32))
            agent.observe(rng.normal(size=5).astype(np.float32), float(rank), False, False)
    return {"numbers": numbers(agent), "updates": agent.optim_t}


def resumed(rank: int, folder: str) -> list[dict[str, Any]]:
    """Learn, and learn again from the middle on with other streams."""
    found = []
    for is_new in (True, False):
        set_random_seed(10 * rank + is_new)
        agent = sac(rank, SHARE)
        with data_parallel(agent) as learners:
            if is_new:
                agent.update_from_replay()
                learners.save(folder, agent)
            else:
                learners.load(folder, agent)
            agent.update_from_replay()
        found.append(numbers(agent))
    return found


def unsaved(folder: str, rank: int) -> list[str]:
    """A file takes the place of the directory."""
    path, errors = os.path.join(folder, "file"), []
    open(path, "w").close()
    agent = dqn(0, SHARE)
    with data_parallel(agent) as learners:
        for act in (learners.save, learners.load):
            with pytest.raises(CheckpointError) as caught:
                act(path if act == learners.save or rank else folder, agent)
            errors.append(str(caught.value))
    return errors


def unlike(rank: int) -> str:
    """A process whose parameters have changed."""
    agent = dqn(0, SHARE)
    with data_parallel(agent):
        with torch.no_grad():
            next(agent.model.parameters()).add_(rank)
        with pytest.raises(ValueError) as caught:
            agent.update_from_replay()
    return str(caught.value)


def sequences(rank: int) -> dict[str, Any]:
    set_random_seed(rank)
    agent = agent_parts.make_agent(recurrent=True)
    fill(agent.replay_buffer, rank, two_actions, 5)
    with data_parallel(agent):
        for _ in range(5):
            agent.update_from_replay()
    return numbers(agent)


def different(rank: int) -> str:
    agent = dqn(0, SHARE + rank)
    with pytest.raises(ValueError) as caught, data_parallel(agent):
        pass
    return str(caught.value)


def everything(folder: str, rank: int) -> dict[str, Any]:
    found: dict[str, Any] = {name: learnt_together(rank, name) for name in MAKERS}
    others = {each.__name__: each(rank) for each in (own_data, online, sequences, from_dataset, different, unlike)}
    return found | others | {"resumed": resumed(rank, folder + "/agent"), "unsaved": unsaved(folder, rank)}


def from_dataset(rank: int) -> dict[str, Any]:
    return numbers(learnt_from_dataset(SHARE))


def learnt_from_dataset(n: int) -> Any:
    set_random_seed(0)
    agent, source = dqn(0, n), agent_parts.make_agent()
    fill(source.replay_buffer, 1, two_actions, 5)
    group = data_parallel(agent, same_data=True) if distributed.is_initialized() else contextlib.nullcontext()
    with group:
        run(DatasetSource(agent, source.replay_buffer), Clock(10), [])
    return agent


def several(rank: int) -> dict[str, Any]:
    return {name: learnt_together(rank, name) for name in SLOW}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What both processes have found."""
    folder = str(tmp_path_factory.mktemp("learners"))
    return in_two_processes(functools.partial(everything, folder))


def same(first: dict[str, Any], second: dict[str, Any]) -> bool:
    return all(torch.equal(value, second[name]) for name, value in first.items())


@pytest.mark.parametrize("name", MAKERS)
def test_two_processes_learn_what_one_learns_from_the_joined_minibatch(name: str, pair: Any) -> None:
    check_equal(name, pair)


@pytest.mark.slow
def test_more_agents_learn_the_same_in_two_processes() -> None:
    pair = in_two_processes(several)
    for name in SLOW:
        check_equal(name, pair)


def check_equal(name: str, pair: Any) -> None:
    (first, stats), (second, _) = pair[0][name], pair[1][name]
    alone, alone_stats = learnt_alone(name)
    assert same(first, second)
    if name == "TRPO":  # its step amplifies rounding errors
        return
    for key, value in alone.items():
        torch.testing.assert_close(first[key], value, rtol=0, atol=1e-6, msg=key)
    for (key, value), (_, expected) in zip(stats, alone_stats, strict=True):
        assert value == pytest.approx(expected, rel=1e-4, abs=1e-5, nan_ok=True), key


def test_the_runner_of_datasets_divides_minibatches(pair: Any) -> None:
    alone = numbers(learnt_from_dataset(2 * SHARE))
    assert same(pair[0]["from_dataset"], pair[1]["from_dataset"])
    assert all(torch.allclose(value, alone[name], atol=1e-6) for name, value in pair[0]["from_dataset"].items())


def test_processes_with_data_of_their_own_stay_alike(pair: Any) -> None:
    first, second = (each["own_data"] for each in pair)
    assert same(first["before"], second["before"])
    largest = np.maximum(first["weights"], second["weights"])
    assert largest == pytest.approx(np.ones(4))
    assert min(first["weights"] + second["weights"]) < 0.999


def test_nan_in_one_process_rejects_the_update_in_all(pair: Any) -> None:
    for each in pair:
        assert same(each["own_data"]["before"], each["own_data"]["after"]) and each["own_data"]["updates"] == 4


def test_learning_begins_when_all_processes_are_ready(pair: Any) -> None:
    first, second = (each["online"] for each in pair)
    assert first["updates"] == second["updates"] == 16 and same(first["numbers"], second["numbers"])


def test_agents_that_differ_are_named(pair: Any) -> None:
    assert "minibatch_size of the agent differs between the processes: 4, 5" in pair[0]["different"]
    assert "model of the agent differs between the processes" in pair[1]["unlike"]


def test_sequences_of_different_lengths_leave_the_processes_alike(pair: Any) -> None:
    assert same(pair[0]["sequences"], pair[1]["sequences"])


def test_a_saved_group_resumes_exactly(pair: Any) -> None:
    (uninterrupted, resumed_0), (_, resumed_1) = (each["resumed"] for each in pair)
    assert same(uninterrupted, resumed_0) and same(resumed_0, resumed_1)


def test_an_error_of_one_process_while_saving_is_raised_in_all(pair: Any) -> None:
    (own_save, _), (other_save, _) = (each["unsaved"] for each in pair)
    assert "process 0 raised an error" not in own_save
    assert other_save.endswith(f"file: process 0 raised an error: {own_save}")


@pytest.fixture
def group() -> Iterator[None]:
    """A group of this process alone."""
    join(0, free_port(), 1)
    yield
    distributed.destroy_process_group()


def with_layer(layer: nn.Module) -> Any:
    return agent_parts.make_agent(q_function=nn.Sequential(layer, agent_parts.make_q_function()))


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: with_layer(nn.BatchNorm1d(5)), TypeError, "model has BatchNorm1d.*SyncBatchNorm"),
        (lambda: with_layer(EmpiricalNormalization(5)), TypeError, "model has EmpiricalNormalization.*obs_normalizer"),
        (lambda: make_on_policy("REINFORCE"), TypeError, "agent is REINFORCE, expected"),
        (lambda: agent_parts.make_agent(compile=True), ValueError, "compile=True"),
        (lambda: agent_parts.make_agent(batch_accumulator="sum"), ValueError, "batch_accumulator='sum'"),
    ],
)
def test_what_cannot_learn_in_a_group_is_refused(make: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text), data_parallel(make()):
        pass


def test_without_a_group_it_is_refused() -> None:
    with pytest.raises(RuntimeError, match="init_process_group"), data_parallel(agent_parts.make_agent()):
        pass
