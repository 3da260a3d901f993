"""What on-policy agents collect: rows, episodes, minibatches."""

import base64
import json
from typing import Any

import numpy as np
import pytest
import torch
from on_policy_parts import make_on_policy

from pfrl_like.batch import Batch
from pfrl_like.errors import NonFiniteError
from pfrl_like.learning.minibatches import all_steps, cut_episodes, episode_batches, episodes_of_batch, epochs_of
from pfrl_like.learning.rollout import Episodes, Rollout
from pfrl_like.testing import Chain
from pfrl_like.testing.play import play_several


def append(rollout: Rollout, obs: dict[int, float], ended: tuple[int, ...] = (), terminated: bool = True) -> Any:
    """A step of each environment, whose observation is `obs[env]`, which is also its reward."""
    env_ids = np.array(list(obs))
    values = torch.tensor(list(obs.values()))
    ends = np.isin(env_ids, ended)
    return rollout.append(
        env_ids, ends, obs=values.unsqueeze(1), action=values.long(), reward=values,
        terminated=torch.from_numpy(ends & terminated), state=(values.reshape(-1, 1, 1) * 10,),
    )  # fmt: skip


def bootstrap_inputs(env_ids: Any) -> Any:
    """Environment i would go on from the observation 100 + i."""
    numbers = torch.from_numpy(100.0 + env_ids).float()
    return numbers.unsqueeze(1), (numbers.reshape(-1, 1, 1) * 10,)


def filled() -> Rollout:
    """Environment 0: 1, 2 (terminated), 3; environment 1: 4, 5 (one step later: it was not active), still running."""
    rollout = Rollout(initial_rows=1)
    append(rollout, {0: 1.0, 1: 4.0})
    append(rollout, {0: 2.0}, ended=(0,))
    append(rollout, {0: 3.0, 1: 5.0})
    return rollout


def test_rows_come_by_environment_and_episode() -> None:
    episodes = filled().take(0.9, "cpu", bootstrap_inputs)
    assert episodes.steps.reward.tolist() == [1, 2, 3, 4, 5]
    assert episodes.steps.obs.flatten().tolist() == [1, 2, 3, 4, 5]
    assert episodes.lengths.tolist() == [2, 1, 2]
    assert episodes.steps.discount.tolist() == pytest.approx([0.9, 0.0, 0.9, 0.9, 0.9])
    assert episodes.continues.tolist() == [True, False, False, True, False]
    assert episodes.states[0].flatten().tolist() == [10, 20, 30, 40, 50]


def test_the_value_after_a_step_is_that_of_the_next_row_or_of_the_true_last_observation() -> None:
    episodes = filled().take(0.9, "cpu", bootstrap_inputs)
    assert episodes.last_obs.flatten().tolist() == [100, 101]
    assert episodes.last_state[0].flatten().tolist() == [1000, 1010]
    following = episodes.next_values(episodes.steps.obs[:, 0], episodes.last_obs[:, 0])
    assert following.tolist() == [2, 0, 100, 5, 101]  # nothing follows the terminal step


def test_an_episode_that_was_cut_off_keeps_what_it_was_told_to_go_on_from() -> None:
    rollout = filled()
    rows = append(rollout, {0: 6.0, 1: 7.0}, ended=(1,), terminated=False)
    rollout.add_bootstrap_inputs(rows[1:], torch.tensor([[200.0]]), (torch.tensor([[[2000.0]]]),))
    append(rollout, {1: 8.0})
    episodes = rollout.take(0.9, "cpu", bootstrap_inputs)
    assert episodes.steps.reward.tolist() == [1, 2, 3, 6, 4, 5, 7, 8]
    assert sorted(zip(episodes.last_rows.tolist(), episodes.last_obs.flatten().tolist(), strict=True)) == [
        (3, 100.0), (6, 200.0), (7, 101.0),
    ]  # fmt: skip
    assert episodes.steps.discount[6].item() == pytest.approx(0.9)


def test_episodes_that_run_can_stay() -> None:
    rollout = filled()
    append(rollout, {0: 6.0, 1: 7.0}, ended=(1,))
    assert rollout.n_ended == 2
    episodes = rollout.take(1.0, "cpu")
    assert episodes.steps.reward.tolist() == [1, 2, 4, 5, 7]
    assert (len(rollout), rollout.n_ended, [ids.tolist() for ids in rollout.running()]) == (2, 0, [[0], [1]])
    append(rollout, {0: 9.0}, ended=(0,))
    assert rollout.take(1.0, "cpu").steps.reward.tolist() == [3, 6, 9]
    with pytest.raises(ValueError, match="no episode has ended"):
        rollout.take(1.0, "cpu")


def test_a_forgotten_episode_leaves_the_others_as_they_are() -> None:
    rollout = filled()
    rows = append(rollout, {0: 6.0, 1: 7.0}, ended=(0, 1), terminated=False)
    rollout.add_bootstrap_inputs(rows, torch.tensor([[200.0], [201.0]]))
    rollout.forget(rows[:1])
    assert rollout.n_ended == 2
    episodes = rollout.take(1.0, "cpu")
    assert episodes.steps.reward.tolist() == [1, 2, 4, 5, 7]
    assert (episodes.last_rows.tolist(), episodes.last_obs.flatten().tolist()) == ([4], [201])


def test_steps_before_the_first_mask_allow_everything_and_so_do_later_ones_without() -> None:
    rollout, one = Rollout(), torch.ones(1)
    for mask in (None, torch.tensor([[True, False]]), None):
        columns = {} if mask is None else {"action_mask": mask}
        steps = dict(obs=one, action=one, reward=one, terminated=one.bool()) | columns
        rollout.append(np.array([0]), np.array([False]), **steps)
    steps = rollout.take(1.0, "cpu", lambda ids: (one, None)).steps
    assert steps.action_mask.tolist() == [[True, True], [True, False], [True, True]]


def test_nested_observations_of_any_dtype_are_kept() -> None:
    rollout = Rollout(1)
    for i in range(3):
        obs = {"x": torch.full((1, 2), float(i)), "y": (torch.tensor([i], dtype=torch.uint8),)}
        rollout.append(
            np.array([0]), np.array([i == 2]), obs=obs, action=torch.zeros(1), reward=torch.zeros(1),
            terminated=torch.tensor([i == 2]),
        )  # fmt: skip
    steps = rollout.take(1.0, "cpu").steps
    assert steps.obs["x"].tolist() == [[0, 0], [1, 1], [2, 2]]
    assert (steps.obs["y"][0].tolist(), steps.obs["y"][0].dtype) == ([0, 1, 2], torch.uint8)


def test_values_of_another_shape_are_refused_and_nothing_is_stored() -> None:
    rollout = filled()
    with pytest.raises(ValueError, match=r"obs has the shapes \[\(2,\)\], expected \[\(1,\)\]"):
        rollout.append(
            np.array([0]), np.array([False]), obs=torch.zeros(1, 2), action=torch.zeros(1), reward=torch.zeros(1),
            terminated=torch.zeros(1),
        )  # fmt: skip
    assert len(rollout) == 5


def as_text(state: Any) -> Any:
    """A state as former versions saved it, for JSON."""
    if isinstance(state, torch.Tensor):
        content = base64.b64encode(state.numpy().tobytes()).decode()
        return {"dtype": str(state.dtype), "shape": list(state.shape), "base64": content}
    if isinstance(state, dict):
        return {key: as_text(part) for key, part in state.items()}
    return [as_text(part) for part in state] if isinstance(state, list) else state


@pytest.mark.parametrize("form", [lambda state: state, lambda state: json.loads(json.dumps(as_text(state)))])
def test_a_rollout_goes_on_where_it_was_saved(form: Any) -> None:
    rollout, other = filled(), Rollout()
    rows = append(rollout, {0: 6.0}, ended=(0,), terminated=False)
    rollout.add_bootstrap_inputs(rows, torch.tensor([[200.0]]), (torch.tensor([[[2000.0]]]),))
    state = form(rollout.state_dict(bootstrap_inputs))
    saved_bootstrap_inputs = other.load_state_dict(state, "cpu")
    assert saved_bootstrap_inputs(np.array([1]))[0].tolist() == [[101.0]]
    for each, after in ((rollout, bootstrap_inputs), (other, saved_bootstrap_inputs)):
        append(each, {0: 8.0}, ended=(0,))
        episodes = each.take(0.9, "cpu", after)
        assert episodes.steps.reward.tolist() == [1, 2, 3, 6, 8, 4, 5]
        assert episodes.last_rows.tolist() == [3, 6]
        assert episodes.last_obs.flatten().tolist() == [200, 101]
        assert episodes.last_state[0].flatten().tolist() == [2000, 1010]


@pytest.mark.parametrize("part", ["env", "ended", "columns", "tails"])
def test_a_state_that_does_not_fit_changes_nothing(part: str) -> None:
    rollout = filled()
    state = rollout.state_dict(bootstrap_inputs)
    for bad in (None, 3, [], {"dtype": "float32"}):
        with pytest.raises(ValueError, match="the rollout is"):
            rollout.load_state_dict({**state, part: bad}, "cpu")
    with pytest.raises(ValueError, match="the rollout is"):
        rollout.load_state_dict({name: value for name, value in state.items() if name != part}, "cpu")
    assert len(rollout) == 5


# Minibatches


def numbered(lengths: list[int], states: bool = False) -> Episodes:
    """Episodes of these lengths, whose rewards and states number the rows."""
    n = sum(lengths)
    row = torch.arange(n)
    steps = Batch(obs=row, action=row, reward=row.float(), next_obs=None, discount=torch.ones(n))
    held = (row.float().reshape(n, 1, 1),) if states else None
    return Episodes(steps, np.array(lengths), row[:0], row[:0], states=held)


def test_minibatches_are_full_and_as_many_as_cover_all_epochs() -> None:
    # 5 steps, 3 epochs, minibatches of 4: 15 steps take 4 minibatches, 2 + 1 + 1
    epochs = [[batch.obs.tolist() for batch in epoch] for epoch in epochs_of(numbered([5]), 4, 3)]
    assert [len(epoch) for epoch in epochs] == [2, 1, 1]
    rows = sum(sum(epochs, []), [])
    assert len(rows) == 16
    assert all(sorted(rows[i : i + 5]) == list(range(5)) for i in (0, 5, 10))


def test_a_minibatch_may_be_larger_than_the_rollout() -> None:
    (only,) = [batch for epoch in epochs_of(numbered([3]), 7, 2) for batch in epoch]
    assert np.bincount(only.obs).min() >= 2


def test_the_order_is_that_of_numpys_global_stream() -> None:
    np.random.seed(5)
    expected = [np.random.permutation(6).tolist() for _ in range(2)]
    np.random.seed(5)
    assert [[row for b in epoch for row in b.obs.tolist()] for epoch in epochs_of(numbered([6]), 3, 2)] == expected


def test_nested_observations_are_split_alike() -> None:
    episodes = numbered([4])
    steps = episodes.steps.replace(obs={"x": episodes.steps.obs, "y": (episodes.steps.obs * 2,)})
    episodes = Episodes(steps, episodes.lengths, episodes.last_rows, None)
    for epoch in epochs_of(episodes, 2, 1):
        for batch in epoch:
            assert batch.obs["x"].tolist() == batch.reward.tolist() == (batch.obs["y"][0] / 2).tolist()


def test_pieces_are_cut_from_the_beginning_of_each_episode() -> None:
    assert [part.tolist() for part in cut_episodes(np.array([5, 2, 3]), 2)] == [[0, 2, 4, 5, 7, 9], [2, 2, 1, 2, 2, 1]]
    assert [part.tolist() for part in cut_episodes(np.array([5, 2, 3]), None)] == [[0, 5, 7], [5, 2, 3]]


def test_sequences_are_packed_with_the_states_before_their_first_steps() -> None:
    batch = all_steps(numbered([2, 3], states=True))
    assert batch.lengths.tolist() == [3, 2]
    assert batch.obs.tolist() == [2, 0, 3, 1, 4]
    assert batch.recurrent_state[0].tolist() == [[[2.0], [0.0]]]
    assert all_steps(numbered([2, 3])).lengths is None


@pytest.mark.parametrize("max_len", [None, 1, 2, 3])
def test_minibatches_of_sequences_have_as_many_steps_as_wanted(max_len: int | None) -> None:
    episodes = numbered([5, 1, 7, 3, 4], states=True)
    for epoch in epochs_of(episodes, 6, 4, max_len):
        batches = list(epoch)
        assert [len(batch) for batch in batches] == [6, 6, 6]
        rows = sum((batch.obs.tolist() for batch in batches), [])
        assert len(set(rows)) == 18
        for batch in batches:
            assert batch.lengths.sum() == 6 and batch.lengths.max() <= (max_len or 7)
            first = batch.obs[: len(batch.lengths)]
            assert batch.recurrent_state[0].flatten().tolist() == first.tolist()
            second = batch.obs[len(first) : len(first) + int((batch.lengths > 1).sum())]
            assert second.tolist() == (first[: len(second)] + 1).tolist()  # in the order of time


def test_fewer_steps_than_a_minibatch_are_learnt_from_all_the_same() -> None:
    (epoch,) = [list(epoch) for epoch in epochs_of(numbered([2, 1], states=True), 10, 1)]
    assert [sorted(batch.obs.tolist()) for batch in epoch] == [[0, 1, 2]]


@pytest.mark.parametrize("states", [False, True])
def test_episodes_come_one_by_one(states: bool) -> None:
    assert [batch.obs.tolist() for batch in episode_batches(numbered([2, 3], states))] == [[0, 1], [2, 3, 4]]


@pytest.mark.parametrize("recurrent", [False, True])
def test_the_batch_of_a_refused_rollout_holds_what_was_to_be_learnt_from(recurrent: bool) -> None:
    agent, seen = make_on_policy(recurrent=recurrent, update_interval=23, phi=lambda obs: np.float32(2) * obs), []

    def refuse(episodes: Any) -> Any:
        seen.append(episodes)
        raise NonFiniteError("loss", "it is bad")

    agent.learn = refuse
    with pytest.raises(NonFiniteError) as caught:
        play_several(agent, Chain(time_limit=7), 2, 20)
    (episodes,), again = seen, episodes_of_batch(agent, caught.value.batch)[0]
    ends = np.cumsum(episodes.lengths)
    longest_first = np.argsort(-episodes.lengths, kind="stable")
    order = np.concatenate([np.arange(ends[i] - episodes.lengths[i], ends[i]) for i in longest_first])
    expected, came = (agent._with_advantages(each, 0.9) for each in (episodes, again))
    assert len(set(episodes.lengths.tolist())) > 1 and again.lengths.tolist() == sorted(episodes.lengths)[::-1]
    for name in ("obs", "action", "log_prob", "value", "advantage", "returns"):
        torch.testing.assert_close(getattr(came, name), getattr(expected, name)[order])
