"""Changes of stored transitions against the slow reference, whose items are lists of the very dicts, as PFRL's are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import test_hindsight
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_buffer import ReferenceBuffer, ReferenceEpisodicBuffer, ReferenceHindsightBuffer, feed, reference_target
from test_replay_buffers import CAPACITY, OBSERVATIONS, STEP, equal, release_everything, transitions

from pfrl_like import replay_buffers

QUICK = settings(max_examples=40, deadline=None)

#: A buffer and its reference, by the capacity.
PAIRS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "plain": lambda n: (replay_buffers.ReplayBuffer(n), ReferenceBuffer(n)),
    "n-step": lambda n: (replay_buffers.ReplayBuffer(n, 3), ReferenceBuffer(n, 3)),
    "prioritised": lambda n: (replay_buffers.PrioritizedReplayBuffer(n), ReferenceBuffer(n)),
    "prioritised n-step": lambda n: (replay_buffers.PrioritizedReplayBuffer(n, num_steps=3), ReferenceBuffer(n, 3)),
    "episodic": lambda n: (replay_buffers.EpisodicReplayBuffer(n), ReferenceEpisodicBuffer(n)),
    "prioritised episodic": lambda n: (
        replay_buffers.PrioritizedEpisodicReplayBuffer(n, wait_priority_after_sampling=False),
        ReferenceEpisodicBuffer(n),
    ),
}  # fmt: skip

#: Which item and which of its steps, what is changed, by which way, and into what.
EDIT = st.tuples(
    st.integers(0, 99),
    st.sampled_from(["action", "reward", "is_state_terminal", "state", "next_state", "no next_state", "next_action",
                     "note", "several"]),
    st.sampled_from(["memory", "a sample", "before", "episodes"]),
    st.integers(0, 99),
)  # fmt: skip
EVENTS = st.lists(st.one_of(STEP, EDIT, EDIT), min_size=10, max_size=40)


def changes(what: str, number: int, observation: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "action": np.int64(number), "reward": -0.25 * number, "is_state_terminal": number % 2 == 0,
        "state": observation(number), "next_state": observation(number), "next_action": number % 3 or None,
        "note": None if number % 3 == 0 else np.full(2, number, np.float32),
    }  # fmt: skip
    if what == "several":
        return {name: values[name] for name in ("reward", "note", "next_state", "action")}
    return {"next_state": None} if what == "no next_state" else {what: values[what]}


def lists_of(buffer: Any, way: str) -> Any:
    """Lists of transitions that a buffer hands out."""
    if way == "a sample":
        return buffer.sample(len(buffer))
    if way == "episodes" and isinstance(buffer, replay_buffers.EpisodicReplayBuffer):
        drawn = buffer.sample_episodes(buffer.n_episodes)
        return drawn[0] if isinstance(drawn, tuple) else drawn
    return buffer.memory[:]


def twin_of(step: Any, buffer: Any, reference: Any) -> Any:
    """The dict of the reference that stands for a transition."""
    for item, expected in zip(buffer.memory, reference.items, strict=True):
        for one, other in zip(item, expected, strict=True):
            if one is step:
                return other
    raise AssertionError("a transition that is stored is shown as another object")


def compare(buffer: Any, reference: Any, gamma: float = 0.9) -> None:
    """Everything that can be sampled, as lists and as batches."""
    assert equal([[dict(step, weight=0) for step in item] for item in buffer.memory],
                 [[dict(step, weight=0) for step in item] for item in reference.items])  # fmt: skip
    if isinstance(reference, ReferenceEpisodicBuffer):
        compare_episodes(buffer, reference)
    untold = [not item[-1]["is_state_terminal"] and item[-1]["next_state"] is None for item in reference.items]
    if any(untold) or not len(reference):
        return
    batch = buffer.sample_batch(len(buffer), gamma)
    oldest = batch.index.min()
    for i, index in enumerate(batch.index.tolist()):
        item = reference.items[index - oldest]
        obs, action, reward, next_obs, discount = reference_target(item, gamma)
        np.testing.assert_array_equal(leaf(batch.obs, i), leaf(obs))
        next_obs = item[-1]["state"] if next_obs is None else next_obs
        np.testing.assert_array_equal(leaf(batch.next_obs, i), leaf(next_obs))
        assert batch.action[i] == action
        assert batch.reward[i] == pytest.approx(reward, rel=1e-6)
        assert batch.discount[i] == pytest.approx(discount, rel=1e-6)


def leaf(obs: Any, i: Any = ...) -> Any:
    return np.asarray(obs["image"] if isinstance(obs, dict) else obs)[i]


def compare_episodes(buffer: Any, reference: Any) -> None:
    assert equal([[without(step) for step in episode] for episode in buffer.episodic_memory], reference.episodes)
    steps = [step for episode in reference.episodes for step in episode]
    if not steps or any(step["next_state"] is None and not step["is_state_terminal"] for step in steps):
        return
    batch = buffer.sample_sequences(buffer.n_episodes, gamma=0.9)
    assert sorted(batch.reward.tolist()) == sorted(step["reward"] for step in steps)
    assert (batch.discount == 0).sum() == sum(step["is_state_terminal"] for step in steps)
    assert sorted(batch.action.tolist()) == sorted(step["action"] for step in steps)


def without(step: Any) -> dict[str, Any]:
    return {name: value for name, value in step.items() if name != "weight"}


@QUICK
@given(EVENTS, CAPACITY, st.sampled_from(list(PAIRS)), st.sampled_from(list(OBSERVATIONS)))
def test_changes_of_stored_transitions_are_sampled(events, capacity, name, kind):
    buffer, reference = PAIRS[name](capacity)
    made = iter(transitions([event for event in events if isinstance(event[2], bool)], kind))
    held: list[tuple[Any, Any]] = []  # transitions that were handed out before, and the dicts that stand for them
    for i, event in enumerate(events):
        if isinstance(event[2], bool):
            step = [next(made)]
            feed(buffer, step)
            feed(reference, [(dict(arguments), cut) for arguments, cut in step])
        elif len(buffer):
            place, what, way, number = event
            if way == "before" and held:
                step, twin = held[place % len(held)]
            else:
                lists = lists_of(buffer, way)
                item = lists[place % len(lists)]
                step = item[number % len(item)]
                twin = twin_of(step, buffer, reference)
                held.append((step, twin))
            change(step, twin, changes(what, number, OBSERVATIONS[kind]), buffer, reference)
        if i % 6 == 5:
            compare(buffer, reference)
    compare(buffer, reference)
    loaded = PAIRS[name](capacity)[0]
    loaded.load_state_dict(buffer.state_dict())
    compare(loaded, reference)
    lists = item = step = twin = None
    held.clear()
    release_everything(buffer)


def change(step: Any, twin: Any, values: dict[str, Any], buffer: Any, reference: Any) -> None:
    """Change a transition and the dict that stands for it; one that has left refuses."""
    waiting = [other for steps in reference.waiting.values() for other in steps]
    if not any(twin is other for item in [*reference.items, waiting] for other in item):
        with pytest.raises(LookupError, match="was removed from the replay buffer"):
            step.update(values)
    elif len(values) > 1:
        step |= values
        twin |= values
    else:
        ((key, value),) = values.items()
        step[key] = value
        twin[key] = value
        assert equal(step[key], twin[key])


@QUICK
@given(test_hindsight.STEPS, st.lists(EDIT, min_size=1, max_size=9), CAPACITY, st.sampled_from([1, 3]))
def test_changes_of_what_a_hindsight_buffer_stores_are_sampled(steps, edits, capacity, num_steps):
    functions = (test_hindsight.reward_fn, test_hindsight.terminated_fn)
    reference = ReferenceHindsightBuffer(capacity, num_steps, "future", *functions)
    buffer = replay_buffers.HindsightReplayBuffer(
        capacity, functions[0], n_goals=0, num_steps=num_steps, terminated_fn=functions[1]
    )  # fmt: skip
    for each in (buffer, reference):
        feed(each, test_hindsight.transitions(steps))
    if not len(buffer):
        return
    for place, what, _, number in edits:
        values = changes(what, number, lambda number: test_hindsight.obs_of(number, -5))
        values.pop("note", None)
        if what == "no next_state":
            with pytest.raises(ValueError, match="next_state: got None"):
                buffer.memory[0][0].update(values)
            continue
        item = place % len(buffer)
        own = reference.own(item)
        own[number % len(own)].update(values)
        buffer.memory[item][number % len(own)].update(values)
    optional = {"next_action": None}  # which the reference has only where it was set
    expected = [[optional | without_env(step) for step in reference.own(i)] for i in range(len(buffer))]
    assert equal([list(item) for item in buffer.memory], expected)
    drawn = sorted(buffer.sample(len(buffer)), key=lambda item: (len(item), item[0]["reward"]))
    ends = [[step["is_state_terminal"] for step in item] for item in expected]
    cut = [item[: end.index(True) + 1] if True in end else item for item, end in zip(expected, ends, strict=True)]
    rewards = [[step["reward"] for step in item] for item in sorted(cut, key=lambda i: (len(i), i[0]["reward"]))]
    assert sorted([step["reward"] for step in item] for item in drawn) == sorted(rewards)


def without_env(step: Any) -> dict[str, Any]:
    return {name: value for name, value in step.items() if name != "env_id"}


def test_a_persistent_buffer_refuses_changes_and_keeps_what_it_has(tmp_path):
    with replay_buffers.PersistentReplayBuffer(tmp_path, 10, num_steps=2) as buffer:
        feed(buffer, transitions([(0, "on", True, True)] * 5, "vector"))
        before = [[dict(step) for step in item] for item in buffer.memory]
        for what in ("action", "reward", "is_state_terminal", "state", "next_state", "note"):
            with pytest.raises(TypeError, match="PersistentReplayBuffer does not change its files"):
                buffer.sample(3)[0][1].update(changes(what, 7, OBSERVATIONS["vector"]))
        assert equal([list(item) for item in buffer.memory], before)
