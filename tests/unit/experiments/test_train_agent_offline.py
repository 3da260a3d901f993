import logging
from typing import Any

import actor_critic_parts
import gymnasium
import numpy as np
import pytest
import torch
from resume_parts import small_dqn
from run_parts import Hook, Sink, record, resumed, table
from torch import nn

from pfrl_like.agents import DQN
from pfrl_like.algos import DiscreteCQL
from pfrl_like.dataset import MDPDataset
from pfrl_like.dataset.selection import Selection
from pfrl_like.experiments import train_agent_offline
from pfrl_like.experiments.train_agent_offline import DatasetSource
from pfrl_like.q_functions import DiscreteActionValueHead, FCSAQFunction
from pfrl_like.replay_buffers import PrioritizedReplayBuffer, ReplayBuffer


def recorded(n: int = 60, reward: float = 1.0) -> MDPDataset:
    """Recorded steps, one of which has this reward."""
    rng, rewards = np.random.default_rng(0), np.where(np.arange(n) == 33, reward, 1.0)
    observations, actions = rng.normal(size=(n, 4)).astype(np.float32), rng.integers(0, 2, n)
    ends, convention = np.arange(n) % 10 == 9, "next_row"
    return MDPDataset(observations, actions, rewards, ends, discrete_action=True, reward_convention=convention)


def agent(buffer: ReplayBuffer | None = None) -> DQN:
    return small_dqn(gymnasium.make("CartPole-v1"), replay_buffer=buffer or ReplayBuffer(1000), minibatch_size=8)


def test_a_run_leaves_what_other_runs_leave(tmp_path):
    seen: list[int] = []
    trained, history = train_agent_offline(
        agent(), recorded(), 40, tmp_path, eval_env="CartPole-v1", eval_n_episodes=2, eval_interval=20,
        checkpoint_freq=20, eval_max_episode_len=30, log_interval=10, step_hooks=[lambda env, agent, t: seen.append(t)],
    )  # fmt: skip
    assert dict(trained.get_statistics())["n_updates"] == 40 and seen == list(range(1, 41))
    assert len(history) == 2 and all(0 < entry["eval_score"] <= 30 for entry in history)
    for name in ("20_checkpoint", "40_finish", "best", "scores.txt", "report.html"):
        assert (tmp_path / name).exists(), name
    assert record(tmp_path)["steps"] == 40
    assert len(table(tmp_path / "metrics.csv")) > 3


@pytest.mark.slow
def test_the_record_tells_the_reward_convention_of_the_dataset(tmp_path):
    told = {}
    for data in (recorded(), Selection(recorded()), ReplayBuffer.from_dataset(recorded())):
        train_agent_offline(agent(), data, 2, tmp_path / type(data).__name__)
        told[type(data)] = record(tmp_path / type(data).__name__).get("reward_convention")
    assert told == {MDPDataset: "next_row", Selection: "next_row", ReplayBuffer: None}


def test_a_prioritized_buffer_is_a_dataset_too(tmp_path):
    buffer = PrioritizedReplayBuffer.from_dataset(recorded())
    train_agent_offline(agent(), buffer, 20, tmp_path)
    weight = buffer.sample_batch(20).weight
    assert weight is not None and len(set(weight.tolist())) > 1  # priorities have been learnt


def test_bad_arguments_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match="both or neither"):
        train_agent_offline(agent(), recorded(), 5, tmp_path / "run", eval_interval=5)
    with pytest.raises(TypeError, match=r"\(DiscreteCQL\), expected .* pass the attribute `impl` of the estimator"):
        train_agent_offline(DiscreteCQL(), recorded(), 5, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def made_of(obs_size: int, actions: np.ndarray) -> MDPDataset:
    n = len(actions)
    return MDPDataset.from_arrays(np.zeros((n, obs_size), np.float32), actions, np.zeros(n), np.zeros(n))


def actor_critic(actions_of_critics: int = 2) -> Any:
    critics: list[nn.Module] = [FCSAQFunction(4, actions_of_critics, 8, 1) for _ in range(2)]
    return actor_critic_parts.make_agent("TD3", q_funcs=critics, replay_start_size=8, minibatch_size=8)


@pytest.mark.parametrize(
    "make_agent, dataset, message",
    [
        (agent, made_of(4, np.zeros((9, 2))), "DQN has discrete actions, but .* are continuous; use an agent"),
        (agent, made_of(4, np.arange(9) % 3), "DQN has 2 discrete actions, but the dataset has action 2"),
        (agent, made_of(3, np.zeros(9, int)), r"obs does not fit q_function; obs is \(1, 3\)"),
        (actor_critic, made_of(4, np.zeros(9, int)), "TD3 has continuous actions, .* discrete; use Disc"),
        (actor_critic, made_of(4, np.zeros((9, 3))), "TD3 has actions of size 2, but .* of size 3"),
        (actor_critic, made_of(3, np.zeros((9, 2))), r"obs does not fit policy; obs is \(1, 3\)"),
    ],
)
def test_data_that_do_not_fit_are_refused_before_anything_is_written(make_agent, dataset, message, tmp_path):
    with pytest.raises((TypeError, ValueError), match=message):
        train_agent_offline(make_agent(), dataset, 5, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("largest, told", [(1.0, False), (2.0, True)])
def test_actions_that_the_policy_cannot_give_are_told(largest, told, tmp_path, caplog):
    actions = np.linspace(-largest, largest, 40).reshape(20, 2).astype(np.float32)
    train_agent_offline(actor_critic(), made_of(4, actions), 2, tmp_path)
    text = "the dataset's actions lie in [-2, 2], but the agent is limited by policy to [-1, 1]"
    assert (text in caplog.text) == told


def test_stacked_frames_are_what_the_networks_are_tried_with(tmp_path):
    q_function = nn.Sequential(nn.Flatten(), nn.Linear(2 * 9, 2), DiscreteActionValueHead())
    options = {"replay_buffer": ReplayBuffer(100), "phi": lambda image: image.astype(np.float32)}
    learner = small_dqn(gymnasium.make("CartPole-v1"), q_function=q_function, **options)
    images = np.zeros((9, 1, 3, 3), np.uint8)
    dataset = MDPDataset.from_arrays(images, np.zeros(9, int), np.zeros(9), np.zeros(9))
    with pytest.raises(ValueError, match=r"obs does not fit q_function; obs is \(1, 1, 3, 3\)"):
        train_agent_offline(learner, dataset, 2, tmp_path / "single")
    trained, _ = train_agent_offline(learner, dataset, 2, tmp_path / "stacked", n_frames=2)
    assert dict(trained.get_statistics())["n_updates"] == 2


def test_a_critic_that_cannot_learn_is_refused_before_the_first_update(tmp_path):
    came = r"observations \(2, 4\) of float32 and actions \(2, 2\) of float32"
    with pytest.raises(ValueError, match=f"q_func1 failed on {came}: .*shapes"):
        train_agent_offline(actor_critic(3), made_of(4, np.zeros((20, 2), np.float32)), 5, tmp_path)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_numbers(tmp_path):
    def after(seed, folder):
        rng = np.random.default_rng(seed)
        trained, _ = train_agent_offline(agent(), recorded(), 20, tmp_path / folder, rng=rng)
        return torch.nn.utils.parameters_to_vector(trained.model.parameters()).tolist()

    assert after(1, "a") == after(1, "b") != after(2, "c")


def test_what_is_told_of_a_run_reaches_whom_it_is_for(tmp_path, caplog, capsys):
    pytest.importorskip("tensorboard")
    seen, logger, evaluated, sizes = [], Sink(), [], []
    evaluation_hook = Hook(lambda **told: evaluated.append(told))
    trained = agent()
    update = trained.update
    trained.update = lambda batch: sizes.append(len(batch)) or update(batch)  # type: ignore[method-assign]
    caplog.set_level(logging.INFO, "mine")
    _, history = train_agent_offline(
        trained, recorded(), 40, tmp_path, step_offset=10, eval_env=gymnasium.make("CartPole-v1"), eval_n_steps=20,
        eval_interval=10, successful_score=1.0, evaluation_hooks=[evaluation_hook], save_best_so_far_agent=False,
        use_tensorboard=True, minibatch_size=5, log_interval=2, logger=logging.getLogger("mine"), progress=True,
        hooks=[seen.append], loggers=[logger],
    )  # fmt: skip
    assert len(history) == 1 and sizes == [5] * 10  # ended by the first evaluation, at step 20
    assert seen and evaluated and {12, 14, 16, 18, 20} <= {*logger.steps}
    assert not (tmp_path / "best").exists() and [*tmp_path.rglob("events.out.tfevents*")]
    assert any(record.name == "mine" for record in caplog.records)
    assert "step 20" in capsys.readouterr().err


class Drawing:
    """Data of a kind of the user's own."""

    def sample_batch(self, *args: Any) -> Any:
        return recorded().sample_batch(*args)


class Telling(Drawing):
    def __init__(self, mark: Any) -> None:
        self.mark = mark

    def saved_state(self) -> dict[str, Any]:
        return {"mark": self.mark}

    def restore_state(self, state: Any) -> list[str]:
        return ["the mark is another one"] * (state["mark"] != self.mark)


OTHER_DATA = "the dataset differs"
NO_JSON = "the state of DatasetSource cannot be saved: CheckpointError('Telling', \"saved_state['mark'] is set"


def choice(first: int, last: int) -> Selection:
    return Selection(recorded()[first:last])


@pytest.mark.representatives(2)
@pytest.mark.parametrize(
    ("before", "now", "seeds", "reasons"),
    [
        (recorded(), recorded(), (0, 0), []),
        (recorded(), recorded(), (0, None), ["random streams do not match: dict['rng'] does not exist"]),
        (recorded(), recorded(500), (0, 0), [OTHER_DATA + ": {'episodes': 50, 'steps': "]),
        (recorded(), recorded(reward=5.0), (0, 0), [OTHER_DATA + ": {'episodes': 6, 'steps': "]),
        (choice(0, 3), choice(0, 3), (None, None), []),
        (choice(0, 3), choice(3, 6), (None, None), [OTHER_DATA]),
        (choice(0, 3), choice(0, 2), (None, None), [OTHER_DATA]),
        (Drawing(), Drawing(), (None, None), ["the dataset is Drawing, which has no saved_state"]),
        (Telling(1), Telling(1), (None, None), []),
        (Telling(1), Telling(2), (None, None), ["the mark is another one"]),
        (Telling({3}), Telling({3}), (None, None), [NO_JSON]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_run_that_goes_on_with_other_data_or_streams_says_so(before, now, seeds, reasons, tmp_path):
    first, second = ({} if seed is None else {"rng": np.random.default_rng(seed)} for seed in seeds)
    train_agent_offline(agent(), before, 10, tmp_path, checkpoint_freq=5, **first)
    train_agent_offline(agent(), now, 15, tmp_path, resume=True, **second)
    told = resumed(tmp_path)
    assert told["resume"] == ("approximate" if reasons else "exact")
    assert [came[: len(reason)] for came, reason in zip(told["reasons"], reasons, strict=True)] == reasons


def test_a_state_of_something_else_is_refused():
    with pytest.raises(KeyError, match="data"):
        DatasetSource(agent(), recorded(), 8).restore_state({"running": True})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"num_step": 3},
            TypeError,
            "sample_batch of MDPDataset: .*'num_step'; it accepts n, gamma, device, num_steps",
        ),
        ({"n_epochs": 5}, TypeError, "'n_epochs'; .*train_agent_offline itself accepts agent, dataset, steps, outdir"),
        ({"rng": 0}, TypeError, "^rng is 0|'rng'"),
        ({"minibatch_size": 1000}, ValueError, "minibatch_size: got 1000, but the dataset has [0-9]+ transitions"),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_anything_is_written(options, error, message, tmp_path):
    for dataset in (recorded(), ReplayBuffer.from_dataset(recorded())):
        with pytest.raises(error, match=message.replace("MDPDataset", type(dataset).__name__).split("; it")[0]):
            train_agent_offline(agent(), dataset, 10, tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()
