"""Steps of a few environments, to be stored by `append_batch` and as chunks."""

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np

from pfrl_like.distributed.chunk_sender import ChunkSender
from pfrl_like.wrappers.frames import LazyFrames

FORMS = ("vector", "nested", "lazy_frames", "array_frames", "goals")


class Env:
    """An environment whose observations count its steps, in one of `FORMS`."""

    def __init__(self, number: int, form: str) -> None:
        self.count, self.form, self.frames = 1000 * number, form, []
        self.reset()

    def reset(self) -> None:
        self.frames = [self._frame()] * 3
        self.step()

    def step(self) -> None:
        self.count += 1
        self.frames = [*self.frames[1:], self._frame()]

    def obs(self) -> Any:
        number = np.float32(self.count)
        if self.form == "vector":
            return np.array([number, -number, 0.5])
        if self.form == "nested":
            return {"a": np.array([number]), "b": (np.array(self.count), np.array([[number, 1]], np.float64))}
        if self.form == "goals":
            parts = {"observation": 1, "achieved_goal": 2, "desired_goal": 3}
            return {name: np.full(2, number + part) for name, part in parts.items()}
        if self.form == "lazy_frames":
            return LazyFrames(list(self.frames), stack_axis=2)
        return np.concatenate(self.frames, axis=2).transpose(2, 0, 1).copy()

    def _frame(self) -> Any:
        return np.random.default_rng(self.count).integers(0, 255, (16, 16, 1), np.uint8)


def stacked(observations: list[Any]) -> Any:
    """Return plain observations as one array, others as a list."""
    return np.array(observations) if isinstance(observations[0], np.ndarray) else observations


def steps_of(form: str, n_ticks: int, k: int = 3, seed: int = 0, masks: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the arguments of `append_batch` for each tick. After the end of an episode, one tick only resets."""
    rng = np.random.default_rng(seed)
    envs, resets = [Env(i, form) for i in range(k)], np.zeros(k, bool)
    for _ in range(n_ticks):
        ids = np.flatnonzero(~resets).tolist()
        for i in np.flatnonzero(resets):
            envs[i].reset()
        obs = [envs[i].obs() for i in ids]
        for i in ids:
            envs[i].step()
        m = len(ids)
        terminated, truncated = rng.random(m) < 0.15, rng.random(m) < 0.1
        resets = np.zeros(k, bool)
        resets[ids] = terminated | truncated
        extra = {"action_mask": rng.random((m, 4)) < 0.5, "next_action_mask": rng.random((m, 4)) < 0.5} if masks else {}
        if m:
            yield {
                "obs": stacked(obs), "action": rng.integers(0, 4, m), "reward": rng.random(m),
                "next_obs": stacked([envs[i].obs() for i in ids]), "terminated": terminated, "truncated": truncated,
                "env_ids": ids, **extra,
            }  # fmt: skip


def store_both(by_steps: Any, by_chunks: Any, steps: Iterator[dict[str, Any]], rng: Any, k: int = 3) -> None:
    """Store steps in one buffer by `append_batch`, in the other as chunks of 1 to 9 ticks."""
    sender, left = ChunkSender(k), int(rng.integers(1, 10))
    for step in steps:
        by_steps.append_batch(**step)
        sender.append_batch(**step)
        left -= 1
        if not left:
            by_chunks.append_chunk(received(sender.take()))
            left = int(rng.integers(1, 10))
    if (chunk := sender.take()) is not None:
        by_chunks.append_chunk(received(chunk))


def received(chunk: Any) -> Any:
    """Return a chunk as another process gets it from shared memory: a copy whose arrays are read-only."""
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(chunk, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(data, buffers=[bytes(buffer.raw()) for buffer in buffers])


def plain(value: Any) -> Any:
    """Return nested dicts and lists of bytes, types and numbers, to be compared."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        return array.dtype.str, array.shape, array.tobytes()
    return value
