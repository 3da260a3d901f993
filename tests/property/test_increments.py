"""Buffers that are saved by increments and restored at any moment, against one that goes on without."""

import copy
import json
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import test_hindsight
from hypothesis import given, settings
from hypothesis import strategies as st
from test_replay_buffers import CAPACITY, OBSERVATIONS, STEP, STEPS, equal, feed, release_everything, transitions

from pfrl_like import replay_buffers

QUICK = settings(max_examples=40, deadline=None)

MAKERS: dict[str, Callable[..., Any]] = {
    "uniform": replay_buffers.ReplayBuffer,
    "n-step": lambda capacity, rng: replay_buffers.ReplayBuffer(capacity, 3, rng=rng),
    "prioritised": replay_buffers.PrioritizedReplayBuffer,
    "prioritised n-step": lambda capacity, rng: replay_buffers.PrioritizedReplayBuffer(capacity, num_steps=3, rng=rng),
    "episodic": replay_buffers.EpisodicReplayBuffer,
    "episodic by length": lambda capacity, rng: replay_buffers.EpisodicReplayBuffer(capacity, by_length=True, rng=rng),
    "prioritised episodic": replay_buffers.PrioritizedEpisodicReplayBuffer,
}

#: What happens: so many steps, a draw, a save, going on from the save so many before, forgetting old saves, or the end
#: of the process, after which a persistent buffer is opened again.
EVENT = st.one_of(
    st.tuples(st.just("steps"), st.integers(1, 9)),
    st.tuples(st.just("draw"), st.integers(1, 4)),
    st.tuples(st.just("save"), st.just(0)),
    st.tuples(st.just("restore"), st.integers(0, 3)),
    st.tuples(st.just("prune"), st.integers(1, 2)),
    st.tuples(st.just("kill"), st.just(0)),
)
EVENTS = st.lists(EVENT, min_size=4, max_size=25)
#: Changes of a stored step, too: which step, and of what.
NUMBERS = st.tuples(st.integers(0, 99), st.integers(0, 99))
EDIT = st.tuples(st.just("edit"), NUMBERS)
EVENTS_AND_EDITS = st.lists(st.one_of(EVENT, EDIT, EDIT), min_size=4, max_size=40)
#: So many steps, changes, a save, and whether to go on from it.
ROUND = st.tuples(st.integers(0, 9), st.lists(NUMBERS, max_size=4), st.booleans())


@pytest.fixture(scope="module", autouse=True)
def small_segments_few_spare_rows_and_no_waiting_for_the_disk():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pfrl_like.storage.log_directory.MappedFile.sync", lambda file: None)
        patch.setattr("pfrl_like.replay_buffers.saved._LARGEST", 4)
        patch.setattr("pfrl_like.replay_buffers.saved._REWRITE_FACTOR", 1)  # changes come as patches, however many
        patch.setattr("pfrl_like.collections.prioritized.SMALLEST_SIZE", 2)
        patch.setattr("pfrl_like.columns.leaves._CHUNK_BYTES", 1)
        patch.setattr("pfrl_like.columns.frames._OWN_MAPPING", 1)
        yield


def draw(buffer: Any, n: int) -> Any:
    """What a draw gives, whose errors are written back where it takes them."""
    if not len(buffer):
        return None
    if isinstance(buffer, replay_buffers.PrioritizedEpisodicReplayBuffer):
        drawn = buffer.sample_episodes(min(n, buffer.n_episodes), 2)
        buffer.update_errors([1.0 + i for i in range(len(drawn[0]))])
        return drawn
    if isinstance(buffer, replay_buffers.EpisodicReplayBuffer):
        return buffer.sample_episodes(min(n, buffer.n_episodes), 2)
    drawn = buffer.sample(min(n, len(buffer)))
    if buffer.prioritized:
        buffer.update_errors([0.1 * i for i in range(len(drawn))])
    return drawn


def edit(buffer: Any, place: int, what: int) -> None:
    """Change a value of a stored step into one that follows from the numbers and from what is stored."""
    if not len(buffer):
        return
    item, other = buffer.memory[place % len(buffer)], buffer.memory[what % len(buffer)][0]
    step = item[place % len(item)]
    values = [
        {"action": np.int64(what)},
        {"reward": step["reward"] - what},
        {"is_state_terminal": not step["is_state_terminal"]},
        {"state": other["state"]},
        {"next_state": other["state"]},
        {"next_action": what % 3 or None},
        {"state": other["next_state"] if other["next_state"] is not None else other["state"], "action": np.int64(3)},
        {"next_state": None},
    ]
    if isinstance(buffer, replay_buffers.HindsightReplayBuffer):
        del values[-1]
    step.update(values[what % len(values)])


def same(buffer: Any, other: Any) -> None:
    assert equal(list(buffer.memory), list(other.memory))
    running = [{env_id: len(run.waiting) for env_id, run in each._columns.running.items()} for each in (buffer, other)]
    assert running[0] == running[1]


def same_content(buffer: Any, other: Any) -> None:
    """The same, also in what is saved and in what batches are made of."""
    same(buffer, other)
    (header, arrays), (other_header, other_arrays) = map(saved_state, (buffer, other))
    assert header == other_header and equal(arrays, other_arrays)
    if buffer.num_steps > 1 and len(buffer) and not isinstance(buffer, replay_buffers.HindsightReplayBuffer):
        columns = [each._columns.lookahead[each._rows(np.arange(each._first, each._next))] for each in (buffer, other)]
        assert equal(*columns)
    assert buffer._columns.lacks_next == other._columns.lacks_next


def saved_state(buffer: Any) -> tuple[Any, Any]:
    """Header and arrays of a save; without those of frames, which two segments may hold twice."""
    state = buffer.state_dict()
    frames = ("obs/0/frames", "obs/0/index")
    return state["header"], {name: array for name, array in state["arrays"].items() if name not in frames}


def check(
    make: Callable[[], Any],
    made: list[Any],
    events: list[Any],
    again: Callable[[Any], Any] | None = None,
    original: Any = None,
) -> Any:
    """Let all this happen to a buffer that is restored from its saves, and to one that is not; compare them.

    Args:
        make: Makes a buffer.
        made: The steps.
        events: What happens.
        again: Of a buffer whose content outlasts its process: the one that has it then.
        original: The buffer that is not restored, if it is of another kind.
    """
    original, buffer, at = make() if original is None else original, make(), 0
    saves: list[tuple[Any, Any, int]] = []
    last = None
    with tempfile.TemporaryDirectory() as folder:
        for kind, number in events:
            if kind == "steps":
                for each in (original, buffer):
                    feed(each, made[at : at + number])
                at += number
            elif kind == "edit":
                for each in (original, buffer):
                    edit(each, *number)
            elif kind == "draw":
                assert equal(draw(buffer, number), draw(original, number))
            elif kind == "save":
                last = json.loads(json.dumps(buffer.save_increment(folder, last)))
                saves.append((last, copy.deepcopy(original), at))
            elif kind == "restore" and saves:
                last, past, at = saves[-1 - number % len(saves)]
                original, buffer = copy.deepcopy(past), buffer if again else make()
                buffer.load_increment(folder, last)
                same_content(buffer, original)
            elif kind == "kill" and again is not None:
                buffer = again(buffer)
                buffer._rng.set_state(original._rng.get_state())
            elif kind == "prune":
                del saves[:-number]
                replay_buffers.prune(folder, [save[0] for save in saves])
                last = saves[-1][0] if saves else None
        same(buffer, original)
        assert equal(draw(buffer, 3), draw(original, 3))
    return buffer


def steps_for(steps: list[Any], events: list[Any], kind: str) -> list[Any]:
    # A running episode that was loaded goes on only where the next step begins with the observation it waits for.
    chained = [(env_id, end, True, optional) for env_id, end, _, optional in steps]
    restores = any(event in ("restore", "kill") for event, _ in events)
    made = transitions(chained if restores else steps, kind)
    for i, (arguments, _) in enumerate(made):
        if arguments["is_state_terminal"] and i % 2:
            arguments["next_state"] = None
    return made


@QUICK
@given(STEPS, EVENTS_AND_EDITS, CAPACITY, st.sampled_from(list(MAKERS)), st.sampled_from(list(OBSERVATIONS)))
def test_a_restored_buffer_is_the_one_that_went_on(steps, events, capacity, name, kind):
    made = steps_for(steps, events, kind)
    release_everything(check(lambda: MAKERS[name](capacity, rng=np.random.RandomState(3)), made, events))


@settings(max_examples=12, deadline=None)
@given(
    st.lists(STEP, min_size=20, max_size=40), st.lists(ROUND, min_size=3, max_size=8), st.sampled_from([None, 8, 16]),
    st.sampled_from(list(MAKERS)), st.sampled_from(list(OBSERVATIONS)),
)  # fmt: skip
def test_changes_of_what_was_saved_before_are_saved(tmp_path_factory, steps, rounds, capacity, name, kind):
    made, at, last, folder = steps_for(steps, [("restore", 0)], kind), 0, None, tmp_path_factory.mktemp("saves")
    original, buffer = (MAKERS[name](capacity, rng=np.random.RandomState(3)) for _ in range(2))
    for count, edits, restores in rounds:
        for each in (original, buffer):
            feed(each, made[at : at + count])
            for numbers in edits:
                edit(each, *numbers)
        at += count
        last = buffer.save_increment(folder, last)
        if restores:
            buffer = MAKERS[name](capacity, rng=np.random.RandomState(3))
            buffer.load_increment(folder, last)
            same_content(buffer, original)
    same_content(buffer, original)
    release_everything(buffer)


@QUICK
@given(
    test_hindsight.STEPS,
    EVENTS_AND_EDITS,
    CAPACITY,
    st.sampled_from([1, 3]),
    st.sampled_from(test_hindsight.STRATEGIES),
)
def test_a_restored_hindsight_buffer_is_the_one_that_went_on(steps, events, capacity, num_steps, strategy):
    def make() -> Any:
        options = {"num_steps": num_steps, "strategy": strategy, "terminated_fn": test_hindsight.terminated_fn}
        return replay_buffers.HindsightReplayBuffer(
            capacity, test_hindsight.reward_fn, rng=np.random.default_rng(3), **options
        )

    # A step that reaches its goal has another one than the observation before it told, with which its episode goes on.
    made = test_hindsight.transitions([(env_id, "fallen" if end == "reached" else end) for env_id, end in steps])
    release_everything(check(make, made, events))


@QUICK
@given(STEPS, EVENTS, CAPACITY, st.sampled_from([1, 3, None]), st.sampled_from(list(OBSERVATIONS)))
def test_a_persistent_buffer_goes_back_to_its_saves_also_after_a_crash(steps, events, capacity, num_steps, kind):
    with tempfile.TemporaryDirectory() as folder:

        def make() -> Any:
            options: Any = {"rng": np.random.RandomState(3), "sync_every": 3, "journal_length": 9}
            if num_steps is None:
                return replay_buffers.PersistentEpisodicReplayBuffer(folder, capacity, **options)
            return replay_buffers.PersistentReplayBuffer(folder, capacity, num_steps=num_steps, **options)

        def again(buffer: Any) -> Any:
            buffer._directory.close()  # what is left when a process is killed: the files as they are, and no lock
            return make()

        rng = np.random.RandomState(3)
        original: Any = replay_buffers.EpisodicReplayBuffer(capacity, rng=rng)
        if num_steps is not None:
            original = replay_buffers.ReplayBuffer(capacity, num_steps, rng=rng)
        check(make, steps_for(steps, events, kind), events, again, original).close()
