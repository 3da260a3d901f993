"""Minibatches of the steps in a rollout, and conversion of batches to features or to episodes."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfrl_like.agent import TRAIN
from pfrl_like.batch import ACTION_MASK, Batch, concatenate_batches, concatenate_nested, map_nested
from pfrl_like.distributed.learner_group import LearnerGroup
from pfrl_like.distributions import masked
from pfrl_like.errors import NonFiniteError
from pfrl_like.functions.returns import gae, n_step_returns
from pfrl_like.learning.recurrent_memory import batch_first, burn_in
from pfrl_like.learning.rollout import Episodes
from pfrl_like.nn.fast_forward import fast_forward
from pfrl_like.utils.contexts import evaluation_mode
from pfrl_like.utils.recurrent import batch_sizes_of, get_recurrent_state_at, one_step_forward, sequence_of_rows

Rows = NDArray[np.int64]
#: Key of `Batch.extra`. If a batch has this column, its observations are already features.
FEATURES = "features"


def all_steps(episodes: Episodes, max_len: int | None = None) -> Batch:
    """Return all steps as one minibatch.

    If the episodes have recurrent states, the minibatch contains sequences of at most `max_len` steps.
    """
    if episodes.states is None:
        return episodes.steps
    return sequences(episodes, *cut_episodes(episodes.lengths, max_len))


def joined_episodes(group: LearnerGroup, episodes: Episodes) -> tuple[Episodes, slice]:
    """Return the episodes of all processes in the order of their ranks, and the rows of this process."""
    device = episodes.steps.reward.device

    def moved(each: Episodes, to: torch.device | str, first_row: int = 0) -> Episodes:
        nested = {name: map_nested(lambda leaf: leaf.to(to), getattr(each, name)) for name in _NESTED}
        return Episodes(each.steps.to(to), each.lengths, (each.last_rows + first_row).to(to), **nested)

    parts = group.of_all(moved(episodes, "cpu"))
    first = [0, *np.cumsum([len(part) for part in parts]).tolist()]
    parts = [moved(part, device, row) for part, row in zip(parts, first, strict=False)]
    nested = {name: concatenate_nested([getattr(part, name) for part in parts]) for name in _NESTED}
    steps = concatenate_batches([part.steps for part in parts])
    lengths = np.concatenate([part.lengths for part in parts])
    joined = Episodes(steps, lengths, torch.cat([part.last_rows for part in parts]), **nested)
    return joined, slice(first[group.rank], first[group.rank + 1])


_NESTED = ("last_obs", "last_state", "states")  # nested columns of `Episodes`


def episode_batches(episodes: Episodes) -> Iterator[Batch]:
    """Yield each episode as a minibatch. If the episodes have recurrent states, the minibatch is one sequence."""
    begin = np.cumsum(episodes.lengths) - episodes.lengths
    for start, length in zip(begin, episodes.lengths, strict=True):
        if episodes.states is None:
            yield episodes.steps[start : start + length]
        else:
            yield sequences(episodes, np.array([start]), np.array([length]))


def epochs_of(
    episodes: Episodes, size: int, epochs: int, max_len: int | None = None, group: LearnerGroup | None = None
) -> Iterator[Iterator[Batch]]:
    """Yield epochs. Each epoch yields its minibatches, in random order.

    If the model is recurrent, the minibatches contain sequences, as in `shuffled_sequences`. Otherwise they contain
    steps.

    Every minibatch of steps has exactly `size` steps: the last minibatch of an epoch also contains steps of the next
    permutation. There are ceil(n * epochs / size) minibatches in total, where n is the number of steps. Therefore each
    step is used at least `epochs` times.

    Args:
        episodes: All steps.
        size: Number of steps per minibatch.
        epochs: Number of times that each step is used. The steps that fill the last minibatch are used once more.
        max_len: Maximum number of steps per sequence. If None, each sequence is a whole episode.
        group: Processes that learn together. Each minibatch is then the share of this process in a joined minibatch.
    """
    if group is not None:
        yield from (map(group.share, epoch) for epoch in epochs_of(episodes, size * group.size, epochs, max_len))
        return
    if episodes.states is not None:
        yield from shuffled_sequences(episodes, size, epochs, max_len)
        return
    steps = episodes.steps
    n = len(steps)
    remaining = np.zeros(0, np.int64)
    for epoch in range(1, epochs + 1):
        n_rows = size * (-(-n * epoch // size) - -(-n * (epoch - 1) // size))
        while len(remaining) < n_rows:
            remaining = np.concatenate([remaining, np.random.permutation(n)])
        rows, remaining = remaining[:n_rows], remaining[n_rows:]
        yield _split(steps, torch.from_numpy(rows).to(steps.reward.device), size)


def _split(steps: Batch, rows: Tensor, size: int) -> Iterator[Batch]:
    """Yield minibatches of `size` rows each."""
    if len(rows) == 0:
        return
    batch = steps[rows]
    columns = {name: getattr(batch, name) for name in Batch.__slots__ if getattr(batch, name) is not None}
    nested = {name: columns.pop(name) for name in [*columns] if not isinstance(columns[name], Tensor)}
    parts = [column.split(size) for column in columns.values()]
    for i, values in enumerate(zip(*parts, strict=True)):
        chosen = slice(i * size, (i + 1) * size)
        others = {name: map_nested(lambda leaf: leaf[chosen], value) for name, value in nested.items()}  # noqa: B023
        yield Batch(**{"next_obs": None, **others, **dict(zip(columns, values, strict=True))})


def shuffled_sequences(
    episodes: Episodes, size: int, epochs: int, max_len: int | None = None
) -> Iterator[Iterator[Batch]]:
    """Yield epochs. Each epoch yields minibatches of sequences whose lengths add up to `size`.

    The sequences are concatenated in random order and cut when a minibatch is full. Steps at the end of an epoch that
    do not fill a minibatch are omitted. If there are fewer than `size` steps in total, one minibatch contains all
    steps.

    Args:
        episodes: All steps.
        size: Number of steps per minibatch.
        epochs: Number of epochs.
        max_len: Maximum number of steps per sequence. If None, each sequence is a whole episode.
    """
    begin, length = cut_episodes(episodes.lengths, max_len)
    size = min(size, len(episodes))
    for _ in range(epochs):
        order = np.random.permutation(len(begin))
        yield (sequences(episodes, *parts) for parts in _full_minibatches(begin[order], length[order], size))


def cut_episodes(lengths: Rows, max_len: int | None) -> tuple[Rows, Rows]:
    """Cut episodes every `max_len` steps. Return the first row and the length of each resulting sequence."""
    begin = np.cumsum(lengths) - lengths
    if max_len is None:
        return begin, lengths
    counts = -(-lengths // max_len)
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    remaining = np.repeat(lengths, counts) - max_len * number
    return np.repeat(begin, counts) + max_len * number, np.minimum(remaining, max_len)


def sequences(episodes: Episodes, begin: Rows, lengths: Rows) -> Batch:
    """Return packed sequences.

    Sequence i begins at row `begin[i]` and has `lengths[i]` steps. Its initial recurrent state is the state before this
    row.
    """
    order = np.argsort(-lengths, kind="stable")
    begin, lengths = begin[order], lengths[order]
    step = np.arange(lengths[0])[:, None]
    rows = (begin + step)[step < lengths]
    device = episodes.steps.reward.device
    first = torch.from_numpy(begin).to(device)
    return episodes.steps[torch.from_numpy(rows).to(device)].replace(
        lengths=torch.from_numpy(lengths),
        recurrent_state=map_nested(lambda state: state[first].movedim(0, 1).contiguous(), episodes.states),
    )


def _full_minibatches(begin: Rows, length: Rows, size: int) -> Iterator[tuple[Rows, Rows]]:
    """Yield the first rows and lengths of each minibatch's sequences. A sequence is cut if the minibatch is full."""
    stop = np.cumsum(length)
    for end in range(size, int(stop[-1]) + 1, size):
        first, last = np.searchsorted(stop, end - size, "right"), np.searchsorted(stop, end, "left")
        chosen_begin, chosen_length = begin[first : last + 1].copy(), length[first : last + 1].copy()
        skipped = end - size - (stop[first] - length[first])
        chosen_begin[0] += skipped
        chosen_length[0] -= skipped
        chosen_length[-1] -= stop[last] - end
        yield chosen_begin, chosen_length


def next_obs_rows(episodes: Episodes) -> Tensor:
    """Return for each step the index of its next observation, [N].

    The indices refer to the concatenation of `obs` and `last_obs`. For a terminal step, the index is the row of the
    step itself.
    """
    n, device = len(episodes), episodes.steps.reward.device
    ends = torch.from_numpy(np.cumsum(episodes.lengths) - 1).to(device)
    next_rows = torch.arange(1, n + 1, device=device).index_copy(0, ends, ends)
    next_rows[episodes.last_rows] = n + torch.arange(len(episodes.last_rows), device=device)
    return next_rows


def batch_of_episodes(episodes: Episodes) -> Batch:
    """Return the steps of episodes as packed sequences. `episodes_of_batch` is the inverse function.

    In terminal steps, `next_obs` repeats `obs`.
    """
    steps, next_rows = episodes.steps, next_obs_rows(episodes)
    next_obs = map_nested(lambda leaf: leaf[next_rows], concatenate_nested([steps.obs, episodes.last_obs]))
    episodes = dataclasses.replace(episodes, steps=steps.replace(next_obs=next_obs))
    batch = sequences(episodes, *cut_episodes(episodes.lengths, None))
    return batch.replace(extra={FEATURES: torch.ones(len(steps), dtype=torch.bool)})


def episodes_of_batch(agent: Any, batch: Batch) -> tuple[Episodes, Tensor]:
    """Return the steps of a batch as episodes, with features on the agent's device.

    Args:
        agent: On-policy agent whose feature extractor, model and normaliser are used.
        batch: Transitions or sequences. Each sequence becomes an episode. Each transition becomes an episode of one
            step.

    Returns:
        The episodes, and for each of their steps the row in `batch`, [N], on the CPU.

    Raises:
        ValueError: If the agent is recurrent and the batch contains transitions.
    """
    if type(batch.obs) is dict and ACTION_MASK in batch.obs and batch.action_mask is None:
        batch = batch.replace(action_mask=batch.obs[ACTION_MASK].bool())
    if FEATURES in (batch.extra or {}):
        batch = batch.to(agent.device).replace(extra=None)
    else:
        features = {name: agent.features.on_batch(getattr(batch, name), agent.device) for name in ("obs", "next_obs")}
        batch = batch.to(agent.device).replace(**features)
    if batch.lengths is None:
        if agent.recurrent_memory is not None:
            raise ValueError("batch has lengths = None: a recurrent agent learns from sequences, not from transitions")
        rows = torch.arange(len(batch))
        all_rows = rows.to(agent.device)
        steps = batch.replace(next_obs=None, next_action_mask=None, index=None)
        return Episodes(steps, np.ones(len(batch), np.int64), all_rows, batch.next_obs), rows
    order = sequence_of_rows(batch.lengths).argsort(stable=True)
    rows, lengths = order.to(agent.device), batch.lengths.numpy()
    last = torch.from_numpy(np.cumsum(lengths) - 1).to(agent.device)
    states = last_state = None
    if agent.recurrent_memory is not None:
        states, last_state = _recurrent_states(agent, batch, batch.lengths)
        states = map_nested(lambda leaf: leaf[rows], states)
    flat = batch.replace(
        lengths=None, recurrent_state=None, next_recurrent_state=None, next_action_mask=None, index=None
    )[rows]
    last_obs = map_nested(lambda leaf: leaf[last], flat.next_obs)
    return Episodes(flat.replace(next_obs=None), lengths, last, last_obs, last_state, states), order


def _recurrent_states(agent: Any, batch: Batch, lengths: Tensor) -> tuple[Any, Any]:
    """Return two recurrent states: before each packed row, and after each sequence. The first axis is the batch."""
    state, start, before, after = batch.recurrent_state, 0, [], []
    sizes = [*batch_sizes_of(lengths).tolist(), 0]
    with torch.no_grad(), evaluation_mode(agent.model):
        for size, next_size in zip(sizes, sizes[1:], strict=False):
            step_rows = slice(start, start + size)
            obs = agent._normalized(map_nested(lambda leaf: leaf[step_rows], batch.obs))  # noqa: B023 - called immediately
            _, new = one_step_forward(agent.model, obs, state)
            before.append(batch_first(state, new))
            after.append(batch_first(get_recurrent_state_at(new, slice(next_size, None), detach=True), new))
            state, start = get_recurrent_state_at(new, slice(0, next_size), detach=True), start + size
    return concatenate_nested(before), concatenate_nested(after[::-1])


def features_of_batch(agent: Any, batch: Batch) -> Batch:
    """Return the batch with features on the agent's device, without the steps of the burn-in.

    If the batch contains sequences and `num_steps` of the agent is above 1, the returned batch contains the rewards and
    discounts of n-step returns.
    """
    if type(batch.obs) is dict and ACTION_MASK in batch.obs:  # before phi, which may remove the mask
        batch = batch.replace(
            action_mask=batch.obs[ACTION_MASK].bool(), next_action_mask=batch.next_obs[ACTION_MASK].bool()
        )
    if not agent.features.is_identity:
        batch = batch.replace(
            obs=agent.features.on_batch(batch.obs, agent.device),
            next_obs=agent.features.on_batch(batch.next_obs, agent.device),
        )
        continuation = batch.continuation
        if continuation is not None and len(continuation.reward):
            next_obs = agent.features.on_batch(continuation.next_obs, agent.device)
            batch = batch.replace(continuation=dataclasses.replace(continuation, next_obs=next_obs))
    if agent.device.type != "cpu":
        batch = batch.to(agent.device)
    batch = burn_in(getattr(agent, agent._acting_attributes[0]), batch, agent.burn_in) if agent.burn_in else batch
    if agent.num_steps == 1 or batch.lengths is None:
        return batch
    reward, discount, next_row = n_step_returns(batch.reward, batch.discount, batch.lengths, agent.num_steps)
    return batch.replace(reward=reward, discount=discount, next_row=next_row)


def steps_for_data(steps: int) -> TypeError:
    """Return the exception for `learn(steps)`, the call of other libraries, on an agent whose `learn` takes data."""
    return TypeError(
        f"learn gets {steps!r}, expected the data of one update; {TRAIN}, or pfrl_like.make(...).train(steps)"
    )


def row_shape_error(batch: Batch) -> ValueError:
    """Return the exception for a minibatch in which a column does not contain one number per row."""
    columns = {"reward": batch.reward, "discount": batch.discount, "weight": batch.weight}
    shapes = ", ".join(f"{name} {tuple(column.shape)}" for name, column in columns.items() if column is not None)
    return ValueError(f"batch has columns of the shapes {shapes}, expected one number for each row, [N]")


def with_advantages(agent: Any, episodes: Episodes, gae_lambda: float) -> Batch:
    """Return the steps with the columns `log_prob`, `value`, `advantage` and `returns`.

    The columns are computed with the current model. Existing columns do not change.

    Args:
        agent: The on-policy agent.
        episodes: Episodes with features.
        gae_lambda: Lambda of the generalised advantage estimate.

    Raises:
        NonFiniteError: If one of these columns contains NaN or infinity.
    """
    with torch.no_grad(), evaluation_mode(agent.model):
        log_prob, value, last_value = evaluate_episodes(agent, episodes)
        steps = episodes.steps
        value = value if steps.value is None else steps.value
        log_prob = log_prob if steps.log_prob is None else steps.log_prob
        advantage = steps.advantage
        if advantage is None:
            next_value = episodes.next_values(value, last_value)
            advantage = gae(steps.reward, steps.discount, value, next_value, episodes.continues, gae_lambda)
        returns = advantage + value if steps.returns is None else steps.returns
        check_all_finite(log_prob=log_prob, value=value, advantage=advantage, returns=returns)
    return steps.replace(log_prob=log_prob, value=value, advantage=advantage, returns=returns)


def evaluate_episodes(agent: Any, episodes: Episodes) -> tuple[Tensor, Tensor, Tensor]:
    """Evaluate the current model of an agent for all steps of episodes.

    Args:
        agent: The on-policy agent.
        episodes: Episodes with features.

    Returns:
        Log-probabilities of the actions, [N], values, [N], and values of the M observations `last_obs`, [M].

    Raises:
        TypeError: If `episodes` is a number of steps.
    """
    if isinstance(episodes, int):
        raise steps_for_data(episodes)
    steps, outputs = episodes.steps, []
    parts = [(steps.obs, episodes.states), (episodes.last_obs, episodes.last_state)]
    for obs, states in parts if len(episodes.last_rows) else parts[:1]:
        obs = agent._normalized(obs)
        if agent.recurrent_memory is None:
            outputs.append(fast_forward(agent.model, obs))
        else:
            states = map_nested(lambda leaf: leaf.movedim(0, 1).contiguous(), states)
            outputs.append(one_step_forward(agent.model, obs, states)[0])
    distribution, value = outputs[0]
    last_value = outputs[1][1] if len(episodes.last_rows) else value[:0]
    distribution = distribution if steps.action_mask is None else masked(distribution, steps.action_mask)
    return distribution.log_prob(steps.action), value.squeeze(-1), last_value.squeeze(-1)


def check_all_finite(**columns: Tensor) -> None:
    """Check that all numbers in the columns are finite.

    Raises:
        NonFiniteError: If a number is NaN or infinite. The message names the column.
    """
    for name, column in columns.items():
        if not bool(torch.isfinite(column).all()):
            raise NonFiniteError(name, f"{name} holds NaN or infinity, expected finite numbers; no update was made")
