"""Estimators that learn in environments."""

import csv
from pathlib import Path
from typing import Any

import experiment_fakes
import gymnasium
import numpy as np
import pytest
from estimator_parts import ALL, QUIET, SEQUENTIAL, SMALL_FILTERS, images, make

from pfrl_like import explorers
from pfrl_like.dataset import MDPDataset
from pfrl_like.experiments import train_agent
from pfrl_like.online.buffers import ReplayBuffer as OnlineBuffer
from pfrl_like.online.explorers import LinearDecayEpsilonGreedy, NormalNoise
from pfrl_like.online.iterators import train
from pfrl_like.replay_buffers import HindsightReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer
from pfrl_like.wrappers.frames import FrameStack


class Counting(experiment_fakes.Counting):
    """Observes how many steps were made, over ten; the reward is the same number; ends after 7 steps."""

    def __init__(self, discrete: bool, shape: tuple[int, ...] = (2,)) -> None:
        super().__init__(7)
        self.observation_space = gymnasium.spaces.Box(0, 255, shape, np.float32)
        self.action_space = gymnasium.spaces.Discrete(3) if discrete else gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        self.actions: list[Any] = []

    def step(self, action: Any) -> Any:
        self.actions.append(action)
        self.reward = float(self.step_in_episode + 1)
        return super().step(action)

    def _obs(self) -> Any:
        return np.full(self.observation_space.shape, self.step_in_episode / 10, np.float32)


#: Twenty steps, from which nothing is learnt.
COLLECTED: dict[str, Any] = {"n_epochs": 1, "n_steps_per_epoch": 20, "n_updates_per_epoch": 0, **QUIET}


@pytest.mark.representatives(4)
@pytest.mark.parametrize("name", [name for name in ALL if name not in SEQUENTIAL])
def test_epochs_collect_steps_and_then_learn(name: str) -> None:
    made = make(name)
    buffer, counts = ReplayBuffer(100), []
    made.fit_online(
        Counting(made.discrete_action), buffer, n_epochs=3, n_steps_per_epoch=20, n_updates_per_epoch=4,
        callback=lambda algo, epoch, step: counts.append((epoch, step, len(buffer), algo.impl.optim_t)), **QUIET,
    )  # fmt: skip
    begin = counts[0][3] - 4  # of those whose policy learns in the first update
    assert counts == [(0, 20, 20, begin + 4), (1, 40, 40, begin + 8), (2, 60, 60, begin + 12)]


def test_updates_may_come_with_the_steps() -> None:
    made = make("DQN")
    made.fit_online(
        Counting(True), n_steps=50, n_steps_per_epoch=25, update_interval=5, n_updates=2, update_start_step=20, **QUIET
    )
    assert made.impl.optim_t == 2 * 6 and made.impl.t == made.impl.cumulative_steps == 50


def test_first_actions_are_drawn_uniformly() -> None:
    env = Counting(True)
    made = make("DQN").fit_online(env, n_steps=42, random_steps=28, update_start_step=42, **QUIET)
    greedy = made.predict(np.repeat(np.arange(7) / 10, 2).reshape(7, 2))
    assert len({*map(int, env.actions[:28])}) == 3
    assert np.array_equal(env.actions[28:], [*greedy, *greedy])


class Always:
    """Chooses one action, as d3rlpy's explorers are asked for it."""

    def sample(self, algo: Any, x: Any, step: int) -> Any:
        assert algo.predict(x[None]).shape == (1,)
        return step % 2


@pytest.mark.parametrize(
    ("explorer", "chosen"),
    [
        (Always(), {0, 1}),
        (LinearDecayEpsilonGreedy(1.0, 1.0, 10), {0, 1, 2}),
        (explorers.ConstantEpsilonGreedy(1.0, lambda: 2), {2}),
    ],
)
def test_explorers_choose(explorer: Any, chosen: set[int]) -> None:
    env = Counting(True)
    make("DQN").fit_online(env, None, explorer, n_epochs=1, n_steps_per_epoch=40, n_updates_per_epoch=0, **QUIET)
    assert set(map(int, env.actions)) == chosen


def test_noise_explores_for_deterministic_policies_in_one_training() -> None:
    env, made = Counting(False), make("DDPG")
    obs, differences = np.array([[i % 7 / 10] * 2 for i in range(20)], np.float32), []
    for explorer in (NormalNoise(0.0, 0.3), None):
        env.actions.clear()
        made.fit_online(env, None, explorer, **COLLECTED)
        differences.append(np.abs(np.array(env.actions) - made.predict(obs)).mean())
    assert 0.05 < differences[0] < 0.6 and differences[1] == pytest.approx(0, abs=1e-6)


def test_priorities_are_written_back() -> None:
    class Noting(PrioritizedReplayBuffer):
        def update_priorities(self, index: Any, td_error: Any) -> None:
            written.append((len(index), len(set(td_error.tolist()))))
            super().update_priorities(index, td_error)

    written: list[tuple[int, int]] = []
    made = make("DQN").fit_online(
        Counting(True), Noting(100), n_epochs=2, n_steps_per_epoch=20, n_updates_per_epoch=3, **QUIET
    )
    assert made.impl.optim_t == len(written) == 6 and {n for n, _ in written} == {16} and min(written)[1] > 1


class Remembering(explorers.ConstantEpsilonGreedy):
    """Takes the greedy action, and notes its value."""

    def __init__(self) -> None:
        super().__init__(0.0, lambda: 0)
        self.values: list[float] = []

    def select_action(self, t: int, greedy_action_func: Any, action_value: Any = None) -> Any:
        self.values.append(float(action_value.max))
        return greedy_action_func()


def test_frames_are_stored_one_by_one_and_drawn_as_they_were_acted_on() -> None:
    made, explorer = make("DQN", n_frames=3, encoder_params=SMALL_FILTERS), Remembering()
    env, buffer = Counting(True, (1, 16, 16)), ReplayBuffer(100)
    for _ in range(2):  # the episode that runs at the end of the first time does not go on in the second
        made.fit_online(env, buffer, explorer, **COLLECTED)
    assert buffer.sample_batch(40).obs.shape == (40, 1, 16, 16)
    batch = buffer.sample_batch(40, n_frames=3)
    order = batch.index.argsort()
    expected = made.impl.model(batch.obs[order]).max.tolist()
    assert explorer.values == pytest.approx(expected, abs=1e-6)
    np.testing.assert_allclose(batch.obs[order][:8, :, 0, 0], [
        [0, 0, 0], [0, 0, 0.1], [0, 0.1, 0.2], [0.1, 0.2, 0.3], [0.2, 0.3, 0.4], [0.3, 0.4, 0.5], [0.4, 0.5, 0.6],
        [0, 0, 0],
    ], atol=1e-6)  # fmt: skip
    assert not batch.obs[order[20], :, 0, 0].any()


def images_of() -> MDPDataset:
    data = images(True, 60)
    columns = data.observations.astype(np.float32), data.actions, data.rewards, data.terminals
    return MDPDataset(*columns, discrete_action=True, reward_convention="next_row")


@pytest.mark.parametrize("is_own", [True, False])
@pytest.mark.parametrize("name", ["DQN", "DiscreteAWR"])
def test_recorded_frames_are_gone_on_with_in_an_environment(name: str, is_own: bool) -> None:
    data, env = images_of(), Counting(True, (1, 16, 16))
    made = make(name, n_frames=3, encoder_params=SMALL_FILTERS).fit(data, 1, **QUIET)
    buffer = OnlineBuffer(1000, env, episodes=data.episodes) if is_own else ReplayBuffer.from_dataset(data)
    n = len(buffer)
    made.fit_online(env, buffer, n_epochs=1, n_steps_per_epoch=30, n_updates_per_epoch=2, **QUIET)
    assert len(buffer) == n + 30
    made.fit(MDPDataset.from_buffer(buffer), 1, **QUIET)


def test_a_wrapper_of_ones_own_stacks_for_who_stacks_nothing() -> None:
    made, buffer = make("DQN", encoder_params=SMALL_FILTERS), ReplayBuffer(100)
    env = FrameStack(Counting(True, (1, 16, 16)), 3, channel_order="chw")
    made.fit_online(env, buffer, n_epochs=1, n_steps_per_epoch=20, n_updates_per_epoch=2, **QUIET)
    assert buffer.sample_batch(20).obs.shape == (20, 3, 16, 16)
    assert made.impl.replay_buffer is buffer


def test_the_agent_is_trained_on_by_runners_in_an_environment_that_stacks(tmp_path: Path) -> None:
    env = Counting(True, (1, 16, 16))
    made = make("DQN", n_frames=3, encoder_params=SMALL_FILTERS).fit(images_of(), 1, **QUIET)
    made.fit_online(env, n_epochs=1, n_steps_per_epoch=20, n_updates_per_epoch=2, **QUIET)
    before = made.impl.optim_t
    train_agent(made.impl, FrameStack(env, 3, channel_order="chw"), 30, str(tmp_path))
    assert made.impl.replay_buffer.sample_batch(1).obs.shape == (1, 3, 16, 16)
    assert made.impl.optim_t > before


@pytest.mark.parametrize(("n_frames", "shape"), [(1, (2,)), (3, (1, 16, 16))])
def test_bounds_of_an_environment_that_actions_do_not_reach_are_told(n_frames: int, shape: Any, caplog: Any) -> None:
    env = Counting(False, shape)
    env.action_space = gymnasium.spaces.Box(-2, 2, (2,), np.float32)
    params = SMALL_FILTERS if len(shape) == 3 else {"hidden_units": [16]}
    make("SAC", n_frames=n_frames, encoder_params=params).fit_online(env, n_steps=1, **QUIET)
    assert sum("NormalizeActionSpace" in record.message for record in caplog.records) == 1


def test_an_agent_that_was_handed_in_learns_online() -> None:
    built = make("DQN")
    built.create_impl((2,), 3)
    made = make("DQN", impl=built.impl).fit_online(Counting(True), n_steps=30, **QUIET)
    assert made.impl is built.impl and len(made.impl.replay_buffer) == 30 and made.impl.optim_t > 0


def test_vectors_are_not_stacked_and_need_no_buffer_that_does() -> None:
    class Single(ReplayBuffer):
        stacks_frames = False

    made = make("DQN", n_frames=3).fit_online(Counting(True), Single(100), n_steps=30, **QUIET)
    assert made.impl.optim_t > 0


def test_a_buffer_that_stacks_nothing_is_refused_where_frames_are_stacked() -> None:
    env = Counting(True, (1, 16, 16))
    buffer = HindsightReplayBuffer(100, lambda *_: np.zeros(1))
    with pytest.raises(TypeError, match="HindsightReplayBuffer, which cannot stack frames in sample_batch, but n"):
        make("DQN", n_frames=3, encoder_params=SMALL_FILTERS).fit_online(env, buffer, **QUIET)


def test_evaluations_and_models_come_at_their_intervals() -> None:
    made = make("DQN")
    train(
        Counting(True), made, OnlineBuffer(100, Counting(True)), n_epochs=4, n_steps_per_epoch=20,
        eval_env=Counting(True), eval_interval=2, save_interval=2, logdir="logs", verbose=False, show_progress=False,
        tensorboard=False,
    )  # fmt: skip
    assert made.eval_results_ == {"evaluation": [28.0, 28.0]}
    (folder,) = Path("logs").iterdir()
    assert folder.name.startswith("DQN_online_")
    assert sorted(path.name for path in folder.glob("*.pt")) == ["model_40.pt", "model_80.pt"]
    rows = list(csv.DictReader((folder / "metrics.csv").open()))
    assert [row["evaluation"] for row in rows] == ["28.0", "nan", "28.0", "nan"]
    assert [float(row["rollout_return"]) for row in rows] == [28.0] * 4
    assert not Path("runs").exists()


class Lacking:
    append_batch = sample_batch = stop_current_episode = None


def observing(space: gymnasium.Space[Any]) -> Counting:
    env = Counting(True)
    env.observation_space = space
    return env


ENV, DECAY = Counting(True), LinearDecayEpsilonGreedy()
NO_BUFFER = "buffer is .*, expected a buffer of pfrl_like.replay_buffers"
NO_ARRAYS = "DQN needs an environment whose observations are arrays, got "


@pytest.mark.parametrize(
    ("name", "options", "error", "text"),
    [
        ("DQN", {"env": Counting(False)}, TypeError, "DQN needs an environment whose actions are Discrete"),
        ("SAC", {}, TypeError, "SAC needs an environment whose actions are a Box"),
        ("DQN", {"env": 3}, TypeError, r"env is 3 \(int\), expected an environment"),
        ("DQN", {"env": observing(gymnasium.spaces.Dict(x=ENV.observation_space))}, ValueError, NO_ARRAYS + "Dict"),
        ("DQN", {"env": observing(gymnasium.spaces.Discrete(3))}, ValueError, NO_ARRAYS + "Disc"),
        ("DQN", {"eval_env": ENV}, ValueError, "eval_env is env"),
        ("DQN", {"n_steps_per_epoch": 0}, ValueError, "n_steps_per_epoch"),
        ("DQN", {"buffer": []}, TypeError, NO_BUFFER),
        ("DQN", {"buffer": Lacking()}, TypeError, NO_BUFFER),
        ("DQN", {"buffer": ReplayBuffer(15)}, ValueError, "a capacity of 15, expected at least 16"),
        ("DQN", {"callback": 5}, TypeError, "callback is 5, expected a function, or None"),
        ("DQN", {"explorer": NormalNoise()}, TypeError, "explorer is NormalNoise, which needs .* a Box, got Discrete"),
        ("DDPG", {"env": Counting(False), "explorer": DECAY}, TypeError, "which needs .* Discrete, got Box"),
        ("DQN", {"explorer": explorers.AdditiveOU()}, TypeError, "OU, which is made for continuous .*, but DQN"),
        (
            "DQN",
            {"timelimit_aware": False},
            ValueError,
            "expected True: for terminal time limits, wrap the environment",
        ),
        ("DQN", {"explorer": 3}, TypeError, "explorer is 3, expected an explorer of pfrl_like.explorers"),
    ],
)
def test_what_cannot_be_is_refused(name: str, options: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make(name).fit_online(**{"env": ENV, **options}, **QUIET)


def test_an_environment_of_other_shapes_is_refused() -> None:
    built = make("DQN")
    built.create_impl((5,), 3)
    with pytest.raises(ValueError, match=r"was built for shape \(5,\) and size 3"):
        built.fit_online(Counting(True), **QUIET)


def test_an_epoch_that_lacks_steps_for_a_minibatch_says_so_and_prints_no_losses(capsys: Any) -> None:
    made = make("DQN", batch_size=32)
    with pytest.warns(UserWarning, match="no update in epoch 0") as told:
        made.fit_online(
            Counting(True), n_epochs=2, n_steps_per_epoch=10, save_metrics=False, show_progress=False, verbose=True
        )
    (text,) = [str(each.message) for each in told]
    assert "10 steps, fewer than batch_size (32), and the training has 20" in text and told[0].filename == __file__
    printed = capsys.readouterr().out
    assert "epoch=1 step=20 rollout_return=28.000000" in printed and "nan" not in printed
    assert made.impl.optim_t == 0


@pytest.mark.filterwarnings("error")
def test_an_epoch_without_updates_that_were_not_due_is_not_warned_of() -> None:
    make("DQN").fit_online(Counting(True), n_epochs=1, n_steps_per_epoch=10, n_updates_per_epoch=0, **QUIET)
    make("DQN").fit_online(Counting(True), n_epochs=1, n_steps_per_epoch=10, update_start_step=10, **QUIET)
    make("DQN").fit_online(Counting(True), n_steps=20, n_steps_per_epoch=20, **QUIET)  # the first ones come at step 16
