import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from pfrl_like import replay_buffers
from pfrl_like.dataset import MDPDataset
from pfrl_like.online.buffers import Buffer, ReplayBuffer


class Env:
    """Spaces alone."""

    def __init__(self, shape: tuple[int, ...] = (1,), action_space: object = Discrete(3)) -> None:
        self.observation_space, self.action_space = Box(0, 255, shape), action_space


def rows(buffer: ReplayBuffer, *given: tuple[float, int, float, bool], shape: tuple[int, ...] = (1,)) -> None:
    """Observation, action, reward, terminal."""
    for obs, action, reward, terminal in given:
        buffer.append(np.full(shape, obs, np.float32), action, reward, terminal)


def filled(maxlen: int = 10, shape: tuple[int, ...] = (1,)) -> ReplayBuffer:
    """States 0, 1, 2 (terminal), then 5, 6 of an episode that runs."""
    buffer = ReplayBuffer(maxlen, Env(shape), rng=np.random.default_rng(0))
    given = [(0, 1, 7, False), (1, 2, 10, False), (2, 0, 20, True), (5, 1, 8, False), (6, 0, 60, False)]
    rows(buffer, *given, shape=shape)
    return buffer


def steps(buffer: ReplayBuffer) -> list[tuple]:
    return [
        (t.observation.item(), t.action, t.next_reward, t.next_observation.item(), t.terminal)
        for t in buffer.transitions
    ]


def test_a_row_pays_the_action_of_the_row_before() -> None:
    assert steps(filled()) == [(0, 1, 10, 1, 0), (1, 2, 20, 2, 1), (5, 1, 60, 6, 0)]
    assert len(filled()) == filled().size() == 3


def test_transitions_are_linked_within_their_episode() -> None:
    first, second, third = filled().transitions
    assert first.next_transition.observation == 1 and first.prev_transition is None
    assert second.prev_transition.observation == 0 and second.next_transition is None
    assert third.prev_transition is None and third.next_transition is None
    assert (first.next_action, second.next_action) == (2, 0)
    assert (first.reward, second.reward, third.reward) == (7, 10, 8)


def test_links_to_what_has_left_are_none() -> None:
    buffer = filled(maxlen=2)
    assert [t.observation.item() for t in buffer.transitions] == [1, 5]
    assert buffer.transitions[0].prev_transition is None
    assert len(buffer.transitions[:1]) == 1


def test_it_tells_of_the_row_before_and_of_the_shapes() -> None:
    buffer = filled()
    assert (buffer.prev_observation.item(), buffer.prev_action, buffer.prev_reward) == (6, 0, 60)
    assert buffer.prev_transition.observation == 5
    rows(buffer, (7, 0, 1, True))
    assert buffer.prev_observation is buffer.prev_action is buffer.prev_reward is buffer.prev_transition is None
    assert buffer.observation_shape == (1,) and buffer.action_size == 3
    assert ReplayBuffer(1, Env((3, 8, 8), Box(-1, 1, (2,)))).action_size == 2
    assert ReplayBuffer(1, Env()).prev_transition is None


def test_a_row_may_change_after_it_was_appended() -> None:
    buffer, obs = ReplayBuffer(10, Env()), np.zeros(1, np.float32)
    for value in (1, 2, 3):
        obs[:] = value
        buffer.append(obs, 0, 0.0, value == 3)
    assert [t.observation.item() for t in buffer.transitions] == [1, 2]


def test_an_episode_that_was_cut_off_joins_nothing_with_the_next_one() -> None:
    buffer = filled()
    buffer.stop_current_episode()
    rows(buffer, (9, 2, 90, False), (8, 2, 80, True))
    last = buffer.transitions[-1]
    assert (last.observation, last.next_observation, last.next_reward, last.terminal) == (9, 8, 80, 1)
    assert last.prev_transition is None and len(buffer) == 4


def episodes() -> list:
    states = np.array([[0], [1], [2], [3], [4]], np.float32)
    return MDPDataset(
        states, [0, 1, 2, 1, 0], [9.0, 1, 2, 8, 4], [0, 0, 1, 0, 0], discrete_action=True, reward_convention="next_row"
    ).episodes


def test_it_begins_with_episodes() -> None:
    buffer = ReplayBuffer(10, Env(), episodes())
    assert steps(buffer) == [(0, 0, 1, 1, 0), (1, 1, 2, 2, 1), (3, 1, 4, 4, 0)]
    assert buffer.prev_observation is None  # what comes next begins an episode
    batch = buffer.sample_batch(3, gamma=0.9)
    assert sorted(batch.discount.tolist()) == pytest.approx([0, 0.9, 0.9])


def test_a_sample_is_a_minibatch_of_arrays() -> None:
    batch = filled().sample(3)
    order = batch.observations[:, 0].argsort()
    assert batch.observations[order].tolist() == [[0], [1], [5]]
    assert batch.actions[order].tolist() == [1, 2, 1]
    assert batch.next_rewards[order].tolist() == [[10], [20], [60]]
    assert batch.terminals[order].tolist() == [[0], [1], [0]]
    with pytest.raises(ValueError, match="batch_size: got 4"):
        filled().sample(4)


def test_images_are_stacked_with_those_before_them_in_the_episode() -> None:
    buffer = filled(shape=(1, 2, 2))
    rows(buffer, (7, 0, 0, False), shape=(1, 2, 2))
    batch = buffer.sample(4, n_frames=3)
    assert batch.observations.shape == (4, 3, 2, 2)
    stacks = {
        tuple(obs[:, 0, 0]): tuple(after[:, 1, 1])
        for obs, after in zip(batch.observations, batch.next_observations, strict=True)
    }
    assert stacks == {(0, 0, 0): (0, 0, 1), (0, 0, 1): (0, 1, 2), (0, 0, 5): (0, 5, 6), (0, 5, 6): (5, 6, 7)}


def test_agents_store_and_sample_as_in_any_buffer() -> None:
    buffer = ReplayBuffer(10, Env())
    obs = torch.arange(4, dtype=torch.float32).reshape(2, 2, 1).numpy()
    buffer.append_batch(list(obs[0]), [1, 2], [0.5, 1.5], list(obs[1]), [False, True], [False, False])
    batch = buffer.sample_batch(2, gamma=0.9)
    order = batch.obs[:, 0].argsort()
    assert batch.obs[order].tolist() == [[0], [1]] and batch.next_obs[order].tolist() == [[2], [3]]
    assert batch.reward[order].tolist() == [0.5, 1.5] and MDPDataset.from_buffer(buffer).n_steps == 2


def test_actions_of_other_kinds_are_refused() -> None:
    for space in (MultiDiscrete([2, 2]), Box(-1, 1, (2, 2))):
        with pytest.raises(ValueError, match="action space"):
            ReplayBuffer(10, Env(action_space=space))


@pytest.mark.parametrize("env", [None, Discrete(3)])
def test_what_has_no_observations_of_arrays_is_refused(env: object) -> None:
    nested = Env()
    nested.observation_space = Dict({"x": Box(0, 1, (2,))})
    for wrong in (env, nested):
        with pytest.raises(TypeError, match="env is .*, expected an environment whose observations are arrays"):
            ReplayBuffer(10, wrong)


BOX = Box(np.float32([-0.7]), np.float32([0.7]))
ACTIONS = [(Discrete(3), 2, 3), (Discrete(3), np.int64(0), -1), (Discrete(3), 1, 0.5), (BOX, [0.7], [0.8])]
ACTIONS += [(Discrete(3), 0, None), (BOX, [0.0], None), (BOX, [0.0], "left"), (BOX, [0.0], 0.0)]


@pytest.mark.parametrize(("space", "fits", "does_not"), ACTIONS)
def test_actions_outside_the_space_are_refused(space: object, fits: object, does_not: object) -> None:
    buffer, obs = ReplayBuffer(10, Env(action_space=space)), np.zeros(1, np.float32)
    buffer.append(obs, fits, 0.0, False)
    with pytest.raises(ValueError, match="action"):
        buffer.append(obs, does_not, 0.0, False)
    assert len(buffer) == 0  # and the row before is still the last one
    buffer.append(obs, does_not, 0.0, True)  # where no action is taken
    assert len(buffer) == 1


def test_the_first_rewards_of_episodes_are_shown_as_long_as_these_are_held(tmp_path) -> None:
    def shown(buffer: ReplayBuffer) -> list[float]:
        return [t.reward for t in buffer.transitions]

    buffer = filled()
    assert shown(buffer) == [7, 10, 8]
    assert sorted(buffer.sample(3).rewards[:, 0]) == [7, 8, 10]
    buffer.save(tmp_path / "buffer")
    loaded, plain = ReplayBuffer(10, Env()), replay_buffers.ReplayBuffer(10)
    loaded.load(tmp_path / "buffer")
    plain.load(tmp_path / "buffer")
    assert shown(loaded) == [7, 10, 8] and len(plain) == 3
    plain.save(tmp_path / "plain")
    loaded.load(tmp_path / "plain")
    assert shown(loaded) == [0, 10, 0]
    assert shown(ReplayBuffer(10, Env(), episodes())) == [9, 1, 8]
    assert shown(filled(maxlen=2)) == [0, 8]  # the transition before, with whose reward it began, has left
    assert filled(maxlen=2).state_dict()["arrays"]["own/first_items"].tolist() == [2]
    short = ReplayBuffer(2, Env())
    for _ in range(9):
        rows(short, (0, 0, 5, False), (1, 0, 6, True))
    assert shown(short) == [5, 5] and len(short._first_rewards) <= 3


def dataset(width: int, actions: list) -> list:
    columns = np.zeros((3, width), np.float32), np.array(actions), np.zeros(3), [0, 0, 1]
    return MDPDataset(*columns, discrete_action=np.ndim(actions) == 1, reward_convention="next_row").episodes


MISFITS = [
    (dataset(7, [0, 1, 2]), "observation has shape"),
    (dataset(1, [[0.1], [0.2], [0.3]]), "action"),
    (dataset(1, [0, 3, 0]), "action is 3, expected an integer from 0 to 2"),
]


@pytest.mark.parametrize(("misfits", "text"), MISFITS, ids=["width", "kind", "range"])
def test_episodes_that_do_not_fit_are_refused_as_a_whole(misfits: list, text: str) -> None:
    buffer = filled()
    with pytest.raises(ValueError, match=text):
        buffer.append_episode(misfits[0])
    assert len(buffer) == 3 and buffer.prev_observation.item() == 6  # the episode that ran goes on
    with pytest.raises(ValueError, match=text):
        ReplayBuffer(10, Env(), misfits)
    for wrong in (5, [5]):
        with pytest.raises(TypeError, match="episodes"):
            ReplayBuffer(10, Env(), wrong)
    with pytest.raises(TypeError, match="episode is list, expected an Episode"):
        buffer.append_episode(misfits)


def test_an_episode_without_a_transition_adds_nothing() -> None:
    empty, whole = MDPDataset(
        np.zeros((4, 1), np.float32), [0, 1, 2, 0], np.zeros(4), [1, 0, 0, 1], True, reward_convention="next_row"
    ).episodes
    assert len(ReplayBuffer(10, Env(), [empty, whole])) == 2
    buffer = filled()
    buffer.append_episode(empty)
    assert len(buffer) == 3 and buffer.prev_observation is None


def test_the_last_row_of_other_content_does_not_go_on_in_what_is_loaded(tmp_path) -> None:
    buffer, fresh = filled(), ReplayBuffer(10, Env())
    buffer.save(tmp_path / "buffer")
    rows(buffer, (100, 0, 0, False))
    for each in (buffer, fresh):
        each.load(tmp_path / "buffer")
        assert each.prev_observation is None and sorted(each.sample(3).observations[:, 0]) == [0, 1, 5]
        rows(each, (50, 1, 0, False), (51, 1, 9, False))
        assert [t.observation.item() for t in each.transitions] == [0, 1, 5, 50]
        assert each.transitions[-1].prev_transition is None


@pytest.mark.parametrize(("obs", "reward"), [([np.nan], 0.0), ([1.0], np.inf), ([1.0, 2.0], 0.0)])
def test_rows_that_cannot_be_learnt_from_are_refused(obs: list[float], reward: float) -> None:
    buffer = ReplayBuffer(10, Env())
    with pytest.raises(ValueError, match="reward"):
        rows(buffer, (0, 1, np.nan, False))
    rows(buffer, (0, 1, 0, False))
    with pytest.raises(ValueError, match="observation|reward"):
        buffer.append(np.array(obs, np.float32), 0, reward, False)
    assert len(buffer) == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reward": np.nan}, "reward"),
        ({"action": 3}, "action"),
        ({"state": np.full(1, np.inf, np.float32)}, "state"),
        ({"next_state": np.full(1, np.nan, np.float32)}, "next_state"),
        ({"action": 1, "state": np.zeros(2, np.float32)}, "state"),
    ],
)
def test_what_a_row_may_not_hold_is_not_changed_into(changes: dict[str, object], message: str) -> None:
    buffer = filled()
    with pytest.raises(ValueError, match=message):
        buffer.memory[0][0].update(changes)
    buffer.memory[0][0].update(action=2, reward=5.0, next_state=np.full(1, 9, np.float32))
    assert (buffer.transitions[0].action, buffer.transitions[0].next_reward) == (2, 5.0)
    assert buffer.transitions[1].observation == 1


def test_rewards_of_several_steps_are_summed() -> None:
    batch = filled().sample(3, n_steps=2, gamma=0.5)
    order = batch.observations[:, 0].argsort()
    assert batch.next_rewards[order].tolist() == [[20], [20], [60]]
    assert batch.terminals[order].tolist() == [[1], [1], [0]]


def test_links_that_the_user_sets_stay() -> None:
    step = filled().transitions[0]
    assert step.next_transition is not None
    step.next_transition = None
    assert step.next_transition is None and step.prev_transition is None


def test_it_becomes_a_dataset() -> None:
    buffer = ReplayBuffer(10, Env(action_space=Discrete(5)), episodes())
    data = buffer.to_mdp_dataset(reward_convention="same_row")
    assert data.get_action_size() == 5  # as many as the environment has
    assert [len(episode) for episode in data] == [2, 1] and data.reward_convention == "same_row"
    assert buffer.to_mdp_dataset().reward_convention == "next_row" and isinstance(buffer, Buffer)
