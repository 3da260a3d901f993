import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from registry import arguments_of
from torch import Tensor, nn

from pfrl_like.agents import BCQ, COMBO, DQN, CalQL, DecisionTransformer, ReBRAC
from pfrl_like.batch import Batch
from pfrl_like.dataset import MDPDataset
from pfrl_like.dataset.selection import Selection
from pfrl_like.dynamics import MOPO, DynamicsModel, ModelRollouts, ProbabilisticEnsemble
from pfrl_like.dynamics.rollouts import imagine
from pfrl_like.errors import CheckpointError
from pfrl_like.experiments import train_agent_offline
from pfrl_like.replay_buffers import PrioritizedReplayBuffer, ReplayBuffer
from pfrl_like.utils import set_random_seed


class Nothing(nn.Module):
    def forward(self, x: Any) -> Tensor:
        return torch.zeros(len(x[0]), 1)


def counter(obs_size: int = 4, n_actions: int | None = None) -> DynamicsModel:
    """Adds 1 to all numbers of an observation, and rewards 10; hardly any noise, but in the reward, of variance 1."""
    network = ProbabilisticEnsemble([Nothing(), Nothing()], 1, obs_size + 1)
    for head in network.heads:
        nn.init.zeros_(head.weight)
        head.bias.data = torch.tensor([1.0] * obs_size + [10.0] + [-40.0] * obs_size + [0.0])
    network.min_log_variance.data.fill_(-40.0)
    network.max_log_variance.data.fill_(40.0)
    return DynamicsModel(network, torch.optim.SGD(network.parameters(), lr=0.1), n_actions=n_actions)


def data(obs_size: int = 4, n: int = 30, discrete: bool = False) -> MDPDataset:
    """Observations of multiples of 100, rewards of -5."""
    obs = np.repeat(100.0 * np.arange(n), obs_size).reshape(n, obs_size).astype(np.float32)
    actions = np.arange(n) % 2 if discrete else np.zeros((n, 2), np.float32)
    return MDPDataset.from_arrays(obs, actions, np.full(n, -5.0), np.arange(n) % 10 == 9, discrete_action=discrete)


def agent(kind: Any = COMBO, **options: Any) -> Any:
    set_random_seed(0)
    return kind(**arguments_of(kind, **options))


def rollouts(**options: Any) -> ModelRollouts:
    return ModelRollouts(data(), counter(), agent(), **{"n_transitions": 5, "horizon": 3, **options})


def test_a_minibatch_has_recorded_rows_and_then_imagined_ones() -> None:
    batch = rollouts(real_ratio=0.25).sample_batch(16, gamma=0.5)
    imagined = batch.extra["imagined"]
    assert imagined.tolist() == [False] * 4 + [True] * 12
    assert (batch.reward[:4] == -5).all() and (batch.reward[4:] > 0).all()
    assert (batch.obs[:4] % 100 == 0).all()
    steps = batch.obs[4:, 0] % 100
    assert {round(step) for step in steps.tolist()} == {0, 1, 2}
    torch.testing.assert_close(batch.next_obs[4:], batch.obs[4:] + 1)
    assert (batch.discount[4:] == 0.5).all() and set(batch.discount[:4].tolist()) <= {0.0, 0.5}
    assert batch.action.shape == (16, 2) and batch.action.dtype == torch.float32


def test_actions_are_drawn_from_the_agents_policy() -> None:
    source, chosen = rollouts(real_ratio=0.5), []
    with torch.no_grad():  # far out where tanh is 1
        next(part for part in source.agent.policy.modules() if isinstance(part, nn.Linear)).bias.zero_()
    sample = source.model.sample
    source.model.sample = lambda obs, action: (chosen.append(action), sample(obs, action))[1]
    source.roll_out()
    assert [action.shape for action in chosen] == [(5, 2)] * 3
    assert len({*torch.cat(chosen).flatten().tolist()}) == 30 and all((action.abs() <= 1).all() for action in chosen)


def test_imagined_transitions_are_renewed_and_some_are_kept() -> None:
    source, calls = rollouts(interval=3, kept=2), []
    roll_out = source.roll_out
    source.roll_out = lambda: (calls.append(source._count), roll_out())[1]
    sizes = []
    for _ in range(10):
        source.sample_batch(8)
        sizes.append(len(source.imagined))
    assert calls == [0, 3, 6, 9]
    assert sizes == [15] * 3 + [30] * 7


def test_rewards_are_less_by_lam_variances() -> None:
    model = counter()
    choose = lambda obs: torch.zeros(len(obs), 2)  # noqa: E731
    rewards = []
    for lam in (0.0, 2.0):
        torch.manual_seed(0)
        rewards.append(torch.cat([step.reward for step in imagine(model, torch.zeros(3, 4), choose, 2, lam)]))
    torch.testing.assert_close(rewards[0] - rewards[1], torch.full((6,), 2.0), atol=1e-4, rtol=0)
    assert rollouts(lam=1e6).sample_batch(8).reward[4:].max() < -1e5


def test_terminal_states_end_what_is_imagined() -> None:
    def terminated(obs: Tensor, action: Tensor, next_obs: Tensor) -> Tensor:
        return next_obs[:, 0] > 1.5

    begin = torch.tensor([[0.0] * 4, [1.0] * 4])
    steps = [*imagine(counter(), begin, lambda obs: torch.zeros(len(obs), 2), 5, terminated=terminated)]
    assert [step.discount.tolist() for step in steps] == [[1, 0], [0]]
    assert [len(step) for step in steps] == [2, 1]
    batch = rollouts(terminated=lambda obs, action, next_obs: next_obs[:, 0] > -1).sample_batch(8, gamma=0.9)
    assert (batch.discount[4:] == 0).all()
    source = rollouts(terminated=lambda obs, action, next_obs: next_obs[:, 0] > 1_001.5, n_transitions=30)
    source.roll_out()
    episodes = MDPDataset.from_buffer(source.imagined).episodes
    lengths = {(int(episode.observations[0, 0]), len(episode)) for episode in episodes}
    assert lengths == {(100 * i, 3 if i < 10 else 2 if i == 10 else 1) for i in range(30)}
    assert not source.imagined.stored_steps()[0].running


def test_observations_of_integers_are_gone_on_from() -> None:
    obs = np.repeat(100 * np.arange(30), 4).reshape(30, 4)
    whole = MDPDataset.from_arrays(obs, np.zeros((30, 2), np.float32), np.zeros(30), np.zeros(30))
    learner = agent(phi=np.float32)
    batch = ModelRollouts(whole, counter(), learner, n_transitions=5, horizon=3).sample_batch(16)
    assert {round(step) for step in (batch.obs[8:, 0] % 100).tolist()} == {0, 1, 2}


def test_the_same_generators_give_the_same_minibatches() -> None:
    def drawn(seed: int, other: int) -> list[float]:
        source = rollouts(rng=np.random.default_rng(seed))
        np.random.seed(other)
        return source.sample_batch(16, rng=np.random.default_rng(seed)).obs[:, 0].tolist()

    assert drawn(1, 0) == drawn(1, 1) != drawn(2, 1)


def test_an_agent_without_a_policy_acts_greedily() -> None:
    learner = agent(DQN)
    source = ModelRollouts(data(5, discrete=True), counter(5, n_actions=2), learner, n_transitions=6, horizon=2)
    batch = source.sample_batch(20)
    assert batch.action.dtype == torch.int64 and {*batch.action.tolist()} <= {0, 1}
    with learner.eval_mode():
        greedy = learner.batch_act(batch.obs[10:].numpy())
    assert batch.action[10:].tolist() == list(greedy)


def test_an_agent_trains_from_them_in_the_place_of_a_dataset(tmp_path) -> None:
    source, seen = rollouts(interval=4), []
    learner = source.agent
    update = learner.update
    learner.update = lambda batch: (seen.append(batch), update(batch))[1]
    train_agent_offline(learner, source, 10, tmp_path / "run", minibatch_size=8)
    assert learner.optim_t == 10 and all(isinstance(batch, Batch) for batch in seen)
    assert [int(batch.extra["imagined"].sum()) for batch in seen] == [4] * 10


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("real_ratio", 0.0),
        ("real_ratio", 1.0),
        *((n, 0) for n in ("n_transitions", "horizon", "interval", "kept")),
        ("lam", -1),
    ],
)
def test_numbers_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        rollouts(**{name: value})
    with pytest.raises(TypeError, match=f"{name} is 'a'"):
        rollouts(**{name: "a"})


@pytest.mark.parametrize(
    ("kind", "needed"),
    [(CalQL, "continuation"), (ReBRAC, "next_actions"), (DecisionTransformer, "sequences, continuation")],
)
def test_agents_that_learn_from_more_than_transitions_are_refused(kind: Any, needed: str) -> None:
    message = f"agent is {kind.__name__}, which needs {needed}, but .* single transitions"
    with pytest.raises(TypeError, match=message):
        ModelRollouts(data(), counter(), agent(kind))


@pytest.mark.parametrize(
    "dataset, model, message",
    [
        (data().episodes, counter(), "dataset is list, .* MDPDataset.from_episodes"),
        (PrioritizedReplayBuffer(), counter(), "dataset is PrioritizedReplayBuffer, which is prioritised"),
        (counter(), data(), "dataset is DynamicsModel, expected one with sample_batch"),
        (data(), None, "model is NoneType, expected a DynamicsModel"),
        (data(), MOPO(), "model is MOPO, expected a DynamicsModel, for example impl of a fitted MOPO"),
    ],
)
def test_what_is_no_dataset_or_model_is_refused(dataset: Any, model: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        ModelRollouts(dataset, model, agent())


def test_more_than_there_is_is_refused() -> None:
    with pytest.raises(ValueError, match="n: got 31"):
        rollouts(n_transitions=31).sample_batch(8)
    with pytest.raises(ValueError, match="n is 1"):
        rollouts().sample_batch(1)


def test_an_agent_that_chooses_in_a_way_of_its_own_is_asked() -> None:
    chooser = agent(BCQ)
    batch = ModelRollouts(data(), counter(), chooser, n_transitions=5, horizon=3).sample_batch(16)
    assert batch.action.shape == (16, 2) and batch.action.abs().max() <= 1.0


# Going on in another process


def of_selection(n: int = 30) -> Selection:
    return Selection(data(n=n).episodes[1:])


def run(outdir: Path, steps: int, dataset: Any = None, model: Any = None, resume: bool = True, **options: Any) -> Any:
    """What a process does that is started again; what was imagined at step 0 and 3 is known at step 5."""
    learner = agent()
    given = {"n_transitions": 5, "horizon": 3, "interval": 3, "kept": 2} | options
    source = ModelRollouts(data() if dataset is None else dataset, model or counter(), learner, **given)
    train_agent_offline(learner, source, steps, outdir, 5, minibatch_size=8, resume=resume)
    told = json.loads((outdir / "run.json").read_text()).get("resumed")
    return {**learner.state_dict()["attributes"]["policy"]}, told


@pytest.mark.representatives(1)
@pytest.mark.parametrize(
    "make", [data, of_selection, lambda: ReplayBuffer.from_dataset(data())], ids=["dataset", "selection", "buffer"]
)
def test_a_run_goes_on_as_if_it_had_not_been_stopped(make: Any, tmp_path: Path) -> None:
    whole, _ = run(tmp_path / "whole", 12, make(), resume=False)
    run(tmp_path / "stopped", 5, make(), resume=False)
    torch.manual_seed(9)
    np.random.seed(9)
    resumed, told = run(tmp_path / "stopped", 12, make())
    assert told == {"checkpoint": "5_finish", "t": 5, "resume": "exact", "reasons": []}
    assert all(torch.equal(resumed[name], value) for name, value in whole.items())


class Untold:
    """A model, or a dataset, of somebody else's."""

    device = torch.device("cpu")

    def sample_batch(self, *args: Any) -> Batch:
        return data().sample_batch(*args)

    def sample(self, obs: Tensor, action: Tensor) -> Any:
        return counter().sample(obs, action)


def fitted() -> DynamicsModel:
    model = counter()
    model.network.heads[0].bias.data[0] = 2.0
    return model


@pytest.mark.representatives(3)
@pytest.mark.parametrize(
    ("before", "now", "reason"),
    [
        ({}, {"dataset": data(n=20)}, "the dataset differs: {'episodes': 2, 'steps': 20"),
        ({"dataset": of_selection()}, {"dataset": Selection(data().episodes[:-1])}, "the dataset differs"),
        ({}, {"model": fitted()}, "model of the rollouts was "),
        ({}, {"lam": 1.0}, "lam of the rollouts was 0.0 and is 1.0"),
        ({}, {"kept": 3}, "dataset.imagined.capacity was 30 and is 45"),
        ({"dataset": Untold()}, {"dataset": Untold()}, "the dataset is Untold, which has no saved_state"),
        ({"model": Untold()}, {"model": Untold()}, "the model is Untold without state_dict"),
    ],
    ids=["data", "selection", "model", "number", "kept", "unknown data", "unknown model"],
)
def test_a_run_that_goes_on_with_something_else_says_so(before: Any, now: Any, reason: str, tmp_path: Path) -> None:
    run(tmp_path, 5, resume=False, **before)
    _, told = run(tmp_path, 8, **now)
    assert told["resume"] == "approximate"
    assert [came[: len(reason)] for came in told["reasons"]] == [reason]


@pytest.mark.parametrize(
    ("changes", "error"),
    [({"count": -1}, ValueError), ({"count": 5}, ValueError), ({"count": "5"}, ValueError), ({"made": 3}, TypeError)],
)
def test_a_state_of_something_else_is_refused(changes: dict[str, Any], error: type[Exception]) -> None:
    source = rollouts()
    with pytest.raises(error):
        source.restore_state(source.saved_state() | changes)
    with pytest.raises(KeyError):
        source.restore_state({"episodes": 3})
    assert source.saved_state()["count"] == 0


def test_a_checkpoint_of_other_data_is_refused(tmp_path: Path) -> None:
    run(tmp_path, 5, resume=False)
    with pytest.raises(CheckpointError, match="the checkpoint has the buffers .*dataset.imagined"):
        train_agent_offline(agent(), data(), 12, tmp_path, 5, minibatch_size=8, resume=True)
