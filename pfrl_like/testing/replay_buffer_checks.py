"""`check_replay_buffer`: checks of the contracts that every replay buffer must meet."""

import functools
import os
import random
import tempfile
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from pfrl_like.batch import Batch
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.testing.play import difference, require, require_equal, require_error
from pfrl_like.utils.batch_states import batch_of_experiences
from pfrl_like.utils.random_seed import set_random_seed

MakeBuffer = Callable[..., Any]
Step = dict[str, Any]
Episode = list[Step]
GAMMA = 0.9


def check_replay_buffer(make_buffer: MakeBuffer, *, seed: int = 0) -> None:
    """Check that a replay buffer meets the contracts of its interface, for example `check_replay_buffer(YourBuffer)`.

    The interface is `pfrl_like.replay_buffer`. The checks append steps of two environments alternately. Each
    observation contains a unique number, by which the sampled steps are identified. Each `check_*` function of this
    module checks one contract.

    Args:
        make_buffer: Function or class that returns an empty buffer, for example `functools.partial(ReplayBuffer,
            num_steps=3)`. The check passes only the keyword `capacity`. A buffer with several steps per item must have
            the attribute `num_steps`.
        seed: Seed of the global random streams. The function restores the streams at its end.

    Raises:
        AssertionError: If the buffer violates a contract. The message describes the error.
        TypeError: If `make_buffer` is not a function, for example if it is a buffer.
    """
    if not callable(make_buffer):
        kind = type(make_buffer).__name__
        raise TypeError(f"make_buffer is {kind}, expected a function that makes an empty buffer, for example {kind}")
    with isolated_rng():
        for check in CHECKS:
            set_random_seed(seed)
            check(make_buffer)


# Test data


def episodes_of(env_id: int, lengths: Iterable[int]) -> list[Episode]:
    """Return episodes with unique observations. Episodes 0, 2, ... are terminated, the others truncated."""
    episodes, number = [], 1000 * env_id
    for count, length in enumerate(lengths):
        episode = []
        for i in range(length):
            state, next_state = (np.array([number + i, env_id], dtype=np.float32) for i in (0, 1))
            terminal = i == length - 1 and count % 2 == 0
            step = {"state": state, "action": number % 7, "reward": 0.5 * number, "next_state": next_state}
            episode.append({**step, "is_state_terminal": terminal, "env_id": env_id})
            number += 1
        episodes.append(episode)
        number += 1
    return episodes


def fill(buffer: Any, environments: list[list[Episode]]) -> None:
    """Append the steps of the environments alternately. Call `stop_current_episode` after each truncated episode."""
    queues = [[(step, step is episode[-1]) for episode in episodes for step in episode] for episodes in environments]
    while any(queues):
        for queue in filter(None, queues):
            step, is_last = queue.pop(0)
            buffer.append(**step)
            if is_last and not step["is_state_terminal"]:
                buffer.stop_current_episode(env_id=step["env_id"])


def filled(make_buffer: MakeBuffer, capacity: int | None = None) -> Any:
    """Return a buffer with 20 steps of two environments."""
    buffer = make_buffer(capacity=capacity)
    fill(buffer, two_environments())
    return buffer


def two_environments() -> list[list[Episode]]:
    """Return the episodes that `filled` stores."""
    return [episodes_of(0, (5, 1, 4)), episodes_of(1, (3, 6, 1))]


def expected_items(environments: list[list[Episode]], num_steps: int) -> list[tuple[int, ...]]:
    """Return the sorted list of the items that the buffer must contain. An item is a tuple of its step numbers."""
    items = []
    for episode in (episode for episodes in environments for episode in episodes):
        numbers = [int(step["state"][0]) for step in episode]
        items += [tuple(numbers[i : i + num_steps]) for i in range(len(numbers))]
    return sorted(items)


def step_numbers(items: Any) -> list[tuple[int, ...]]:
    """Return the sorted list of sampled items. An item is a tuple of its step numbers."""
    return sorted(tuple(int(step["state"][0]) for step in item) for item in items)


def num_steps_of(buffer: Any) -> int:
    """Return the number of steps per item."""
    return int(getattr(buffer, "num_steps", 1))


# The checks, one for each contract


def check_unknown_keywords_are_rejected(make_buffer: MakeBuffer) -> None:
    """Check that a misspelt argument raises `TypeError`."""
    message = "the constructor accepted the unknown keyword not_an_argument, expected a TypeError"
    require_error(TypeError, message, functools.partial(make_buffer, capacity=10, not_an_argument=0))


def check_a_sample_of_all_items_contains_each_item_once(make_buffer: MakeBuffer) -> None:
    """Check that a sample of all items contains each item once, and no item spans two episodes or environments."""
    buffer = filled(make_buffer)
    expected = expected_items(two_environments(), num_steps_of(buffer))
    require(len(buffer) == len(expected), f"len is {len(buffer)} after {len(expected)} steps of ended episodes")
    items = step_numbers(buffer.sample(len(buffer)))
    require(items == expected, f"sampling everything gave items with the steps {items}, expected {expected}")


def check_samples_contain_no_item_twice(make_buffer: MakeBuffer) -> None:
    """Check that no item occurs twice in one sample."""
    for _ in range(20):
        items = step_numbers(filled(make_buffer).sample(10))
        require(len(set(items)) == 10, f"a sample of 10 items contains an item twice: {items}")


def check_sample_batch_is_sample(make_buffer: MakeBuffer) -> None:
    """Check that `sample_batch` returns the items of `sample`, with n-step rewards, discounts and weights."""
    buffers = [filled(make_buffer) for _ in range(2)]
    with isolated_rng():
        items = buffers[0].sample(8)
        after = np.random.get_state(), random.getstate()
    batch = buffers[1].sample_batch(8, GAMMA)
    message = "sample and sample_batch use different random numbers"
    require_equal(after, (np.random.get_state(), random.getstate()), message, "the streams of NumPy and random")
    _require_same(batch_of_experiences(items, GAMMA), batch, "sample_batch and sample")


def check_n_step_sums(make_buffer: MakeBuffer) -> None:
    """Check that n-step rewards and discounts equal the values computed from the appended steps."""
    buffer = filled(make_buffer)
    n = num_steps_of(buffer)
    batch = buffer.sample_batch(len(buffer), GAMMA)
    steps = {int(s["state"][0]): (e, i) for es in two_environments() for e in es for i, s in enumerate(e)}
    for row, number in enumerate(batch.obs[:, 0].int().tolist()):
        episode, i = steps[number]
        window = episode[i : i + n]
        reward = sum(GAMMA**j * step["reward"] for j, step in enumerate(window))
        discount = 0.0 if window[-1]["is_state_terminal"] else GAMMA ** len(window)
        actual = (batch.reward[row].item(), batch.discount[row].item(), batch.next_obs[row, 0].item())
        expected = (reward, discount, window[-1]["next_state"][0])
        message = f"the item of step {number} has (reward, discount, next_obs) {actual}, expected {expected}"
        require(np.allclose(actual, expected, rtol=1e-5), message)


def check_a_sample_larger_than_the_buffer_is_rejected(make_buffer: MakeBuffer) -> None:
    """Check that sampling more items than stored raises `ValueError`, for empty and filled buffers."""
    for buffer in (make_buffer(capacity=None), filled(make_buffer)):
        for method in (buffer.sample, buffer.sample_batch):
            message = f"{method.__name__} returned {len(buffer) + 1} of {len(buffer)} items, expected a ValueError"
            require_error(ValueError, message, method, len(buffer) + 1)


def check_capacity(make_buffer: MakeBuffer) -> None:
    """Check that a buffer never contains more than `capacity` items, and that the oldest items are removed first."""
    buffer = make_buffer(capacity=10)
    require(buffer.capacity == 10, f"capacity is {buffer.capacity} of a buffer made with capacity=10")
    episodes = episodes_of(0, (4, 3, 5, 1, 6))
    for i in range(len(episodes)):
        fill(buffer, [episodes[i : i + 1]])
        require(len(buffer) <= 10, f"len is {len(buffer)} of a buffer made with capacity=10")
    items = step_numbers(buffer.sample(len(buffer)))
    expected = expected_items([episodes], num_steps_of(buffer))
    message = f"a full buffer holds items with the steps {items}, expected the last ones of {expected}"
    require(len(items) > 0 and items == expected[-len(items) :], message)


def check_append_batch_is_append(make_buffer: MakeBuffer) -> None:
    """Check that one call of `append_batch` for two environments stores the same items as two calls of `append`."""
    one, many = make_buffer(capacity=None), make_buffer(capacity=None)
    environments = [episodes_of(0, (4, 3)), episodes_of(1, (2, 5))]
    fill(one, environments)
    streams = [[(step, step is episode[-1]) for episode in episodes for step in episode] for episodes in environments]
    for rows in zip(*streams, strict=True):
        steps = [step for step, _ in rows]
        truncated = np.array([is_last and not step["is_state_terminal"] for step, is_last in rows])
        names = ("state", "action", "reward", "next_state", "is_state_terminal")
        many.append_batch(*(np.array([step[name] for step in steps]) for name in names), truncated)
    with isolated_rng():
        batch = one.sample_batch(len(one), GAMMA)
    require(len(one) == len(many), f"append gave {len(one)} items, append_batch {len(many)}")
    _require_same(batch, many.sample_batch(len(many), GAMMA), "append and append_batch")


def check_a_loaded_buffer_is_the_saved_one(make_buffer: MakeBuffer) -> None:
    """Check that a loaded buffer and the saved buffer return the same samples, also after more steps were appended."""
    buffer, other = filled(make_buffer, capacity=100), make_buffer(capacity=100)
    with tempfile.TemporaryDirectory() as dirname:
        path = os.path.join(dirname, "buffer")
        buffer.save(path)
        other.load(path)
    require(len(other) == len(buffer), f"len is {len(buffer)} before saving and {len(other)} after loading")
    more = [episodes_of(2, (5, 4))]
    for each in (buffer, other):
        fill(each, more)
    with isolated_rng():
        batch = buffer.sample_batch(len(buffer), GAMMA)
    _require_same(batch, other.sample_batch(len(other), GAMMA), "the saved and the loaded buffer")


def check_priorities(make_buffer: MakeBuffer) -> None:
    """Check that an item with a larger error is sampled more often and has a smaller weight."""
    buffer = filled(make_buffer)
    if not buffer.prioritized:
        message = "update_priorities did nothing in a buffer without priorities, expected a TypeError"
        require_error(TypeError, message, buffer.update_priorities, buffer.sample_batch(2).index, torch.ones(2))
        return
    sample = buffer.sample_sequences if hasattr(buffer, "sample_sequences") else buffer.sample_batch
    n = buffer.n_episodes if hasattr(buffer, "sample_sequences") else len(buffer)
    batch = sample(n)
    favourite = int(batch.index[0])
    buffer.update_priorities(batch.index, torch.tensor([1.0] + [0.0] * (n - 1)))
    count = 0
    for _ in range(200):
        batch = sample(1)
        count += int(batch.index[0]) == favourite
        buffer.update_priorities(batch.index, torch.tensor([float(batch.index[0] == favourite)]))
    require(count > 300 / n, f"the only item of {n} with a large error was sampled {count} times in 200 samples")
    batch = sample(n)
    if batch.weight is not None:
        lengths = [1] * n if batch.lengths is None else batch.lengths.tolist()
        weight = dict(zip(batch.index.tolist(), batch.weight[: len(lengths)].tolist(), strict=True))
        smallest = min(weight, key=weight.__getitem__)
        message = f"the item with the largest error has the weight {weight[favourite]}"
        require(smallest == favourite, f"{message}, expected the smallest of {weight}")


def check_sequences(make_buffer: MakeBuffer) -> None:
    """Check that `sample_sequences` and `sample_episodes` return the same parts of episodes, at most `max_len` long."""
    if not hasattr(make_buffer(capacity=None), "sample_sequences"):
        return
    episodes = {tuple(w) for w in expected_items(two_environments(), 100)}
    for max_len in (None, 3):
        buffers = [filled(make_buffer) for _ in range(2)]
        n = buffers[0].n_episodes
        require(n == 6, f"n_episodes is {n} after 6 episodes")
        with isolated_rng():
            sampled = buffers[0].sample_episodes(n, max_len)
        batch = buffers[1].sample_sequences(n, max_len, GAMMA)
        sequences = sampled[0] if isinstance(sampled, tuple) else sampled
        for numbers in step_numbers(sequences):
            is_part = any(numbers == w[: len(numbers)] for w in episodes)
            require(is_part, f"the steps {numbers} are not part of one episode")
            fits = max_len is None or len(numbers) <= max_len
            require(fits, f"{len(numbers)} steps were sampled with max_len={max_len}")
        expected = batch_of_experiences(sequences, GAMMA, sequences=True)
        same = difference(batch.lengths, expected.lengths) is None
        require(same, f"sequences have the lengths {batch.lengths}, expected {expected.lengths}, longest first")
        for each in (batch, expected):
            require(len(each) == int(batch.lengths.sum()), "a batch of sequences has rows that are not steps")
        _require_same(_sorted_rows(expected), _sorted_rows(batch), "sample_sequences and sample_episodes")
        for method in (buffers[0].sample_episodes, buffers[1].sample_sequences):
            message = f"{method.__name__} returned {n + 1} of {n} episodes, expected a ValueError"
            errors = ValueError, RuntimeError  # RuntimeError if the buffer waits for `update_errors`
            require_error(errors, message, method, n + 1)


CHECKS = [each for name, each in [*globals().items()] if name.startswith("check_") and each != check_replay_buffer]


def _require_same(expected: Batch, batch: Batch, what: str) -> None:
    """Raise an AssertionError if two batches have different observations, actions, rewards, discounts or weights."""
    for name in ("obs", "action", "next_obs"):
        require_equal(getattr(expected, name), getattr(batch, name), f"{what} differ", name)
    for name in ("reward", "discount", "weight"):
        one, other = getattr(expected, name), getattr(batch, name)
        require((one is None) == (other is None), f"{what} differ: only one of them has a {name}")
        require(one is None or torch.allclose(one, other, rtol=1e-5), f"{what} differ: {name} is {one} and {other}")


def _sorted_rows(batch: Batch) -> Batch:
    """Return the rows of sequences sorted by step number, because sequences of equal length have no fixed order."""
    order = batch.obs[:, 0].argsort()
    return batch.replace(lengths=None, recurrent_state=None, next_recurrent_state=None, weight=None, index=None)[order]
