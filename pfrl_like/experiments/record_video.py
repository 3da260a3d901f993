"""Videos of an agent that acts greedily: `record_video`, and a hook that records videos during training."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from functools import partial
from typing import Any

from gymnasium.envs.registration import EnvSpec

from pfrl_like.envs.make_env import make_env
from pfrl_like.errors import MissingDependencyError
from pfrl_like.experiments.hooks import StepHook
from pfrl_like.experiments.runner_arguments import check_has
from pfrl_like.experiments.sources import SerialSource
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.runs.loop import Clock, run
from pfrl_like.storage.atomic import atomic_path, make_directory
from pfrl_like.utils.checks import check_counts, check_numbers, names_unknown_keywords, takes_integral_floats
from pfrl_like.utils.random_seed import set_random_seed
from pfrl_like.wrappers.monitor import GifWriter, can_record, frame_of, frames_per_second, mp4_writer
from pfrl_like.wrappers.wrapper import Wrapper

#: Maximum number of steps in a video by default.
MAX_STEPS = 10_000


@names_unknown_keywords
@takes_integral_floats
def record_video(
    agent: Any,
    env: Any,
    path: str | os.PathLike[str],
    *,
    n_episodes: int = 1,
    max_steps: int = MAX_STEPS,
    fps: float | None = None,
    seed: int | None = None,
) -> tuple[str, list[float]]:
    """Write a video of an agent that acts in evaluation mode. The random streams of training do not change.

    Frames are written one by one, so that a long video needs no memory. If an error occurs, no file is written.

    Args:
        agent: Object with the methods `act`, `observe` and `eval_mode`.
        env: Environment with the render mode "rgb_array", or an id or specification as in `make_env`.
        path: Path of the file. Its extension is ".gif" or ".mp4". An mp4 needs the packages of the extra "video". The
            directory is created if it does not exist.
        n_episodes: Number of episodes in the video.
        max_steps: Maximum number of steps in the video, over all episodes.
        fps: Number of frames per second. If None, the number in the metadata of the environment is used.
        seed: Seed of the environment and of the global random streams. If None, they are not seeded.

    Returns:
        The path, and the returns of the episodes. If `max_steps` cuts off an episode, its return up to there is the
        last one.

    Raises:
        ValueError: If the environment does not render arrays, if no environment has the id, if the extension is
            unknown, or if a number is out of range.
        TypeError: If an argument has the wrong type.
        MissingDependencyError: If `path` is an mp4 file and a package of the extra "video" is not installed.
        CheckpointError: If the file cannot be written.
    """
    check_has("agent", agent, "act", "observe", "eval_mode")
    check_counts(n_episodes=n_episodes, max_steps=max_steps)
    check_numbers(1.0, fps=1.0 if fps is None else fps)
    path = os.fspath(path)
    extension = _extension("path", path)
    returns: list[float] = []

    def count(clock: Clock) -> None:
        returns.extend(episode.total_reward for episode in clock.ended)
        if len(returns) >= n_episodes:
            clock.stop()

    with _opened(env) as opened, _temporary_file(path, extension) as temporary:
        writer = _writer(temporary, extension, frames_per_second(opened) if fps is None else fps)
        with contextlib.closing(writer), agent.eval_mode(), isolated_rng(opened):
            if seed is not None:
                set_random_seed(seed)
            source = SerialSource(agent, _Filmed(opened, writer, seed), cuts_off_at_end=True)
            run(source, Clock(max_steps), [count])
    return path, returns


class RecordVideoEvery(StepHook):
    """Writes a video of the agent at regular intervals, as `<directory>/<step>.gif`.

    All videos begin with the same random numbers, so that they can be compared. Runners take the hook in `step_hooks`::

        train_agent(agent, env, 10**6, outdir, step_hooks=[RecordVideoEvery(100_000, "CartPole-v1", "videos")])

    Args:
        steps: Number of steps between videos.
        env: Environment with the render mode "rgb_array" that training does not use, or an id or specification as in
            `make_env`.
        directory: Directory of the videos. It is created if it does not exist.
        n_episodes: Number of episodes in a video.
        max_steps: Maximum number of steps in a video, over all episodes.
        fps: Number of frames per second. If None, the number in the metadata of the environment is used.
        seed: Seed of the environment and of the global random streams. If None, they are not seeded.
        extension: ".gif" or ".mp4". An mp4 needs the packages of the extra "video".

    Raises:
        ValueError: If the environment does not render arrays, if no environment has the id, if the extension is
            unknown, or if a number is out of range.
        TypeError: If an argument has the wrong type.
    """

    @takes_integral_floats
    def __init__(
        self,
        steps: int,
        env: Any,
        directory: str | os.PathLike[str],
        *,
        n_episodes: int = 1,
        max_steps: int = MAX_STEPS,
        fps: float | None = None,
        seed: int | None = 0,
        extension: str = ".gif",
    ) -> None:
        check_counts(steps=steps, n_episodes=n_episodes, max_steps=max_steps)
        with _opened(env):
            self.steps, self.directory, self.extension = steps, directory, _extension("extension", extension)
        options: dict[str, Any] = {"n_episodes": n_episodes, "max_steps": max_steps, "fps": fps, "seed": seed}
        self._record = partial(record_video, env=env, **options)

    def __call__(self, env: Any, agent: Any, step: int) -> None:
        """Write a video if one is due."""
        if step % self.steps == 0:
            self._record(agent=agent, path=os.path.join(self.directory, f"{step}{self.extension}"))


class _Filmed(Wrapper):
    """Wrapper that writes a frame after every reset and step. The first reset gets the seed."""

    def __init__(self, env: Any, writer: Any, seed: int | None) -> None:
        super().__init__(env)
        self._writer, self._seed = writer, {} if seed is None else {"seed": seed}

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode."""
        result = super().reset(**self._seed | kwargs)
        self._seed = {}
        self._writer.append_data(frame_of(self.env))
        return result

    def step(self, action: Any) -> Any:
        """Execute an action."""
        result = super().step(action)
        self._writer.append_data(frame_of(self.env))
        return result


@contextlib.contextmanager
def _opened(env: Any) -> Iterator[Any]:
    """Yield an environment that renders arrays. If it is made from an id, it is closed at the end."""
    if isinstance(env, str | EnvSpec):
        with contextlib.closing(make_env(env, render_mode="rgb_array")) as made, _opened(made) as opened:
            yield opened
        return
    make_env(env)  # raises an error if it is no environment
    if not can_record(env):
        mode = getattr(env, "render_mode", None)
        text = f"env is {env}, whose render_mode is {mode!r}, expected 'rgb_array'"
        raise ValueError(f'{text}: make the environment with render_mode="rgb_array"')
    yield env


@contextlib.contextmanager
def _temporary_file(path: str, extension: str) -> Iterator[str]:
    """Yield the name of a file with this extension that replaces `path` at the end, if there is no error."""
    directory = os.path.dirname(path) or "."
    make_directory(directory)
    with tempfile.TemporaryDirectory(prefix=".tmp-video-", dir=directory) as folder:
        temporary = os.path.join(folder, f"video{extension}")
        yield temporary
        with atomic_path(path) as target:
            os.replace(temporary, target)


def _extension(name: str, path: str) -> str:
    """Return ".gif" or ".mp4", the end of a path or an extension."""
    for extension in (".gif", ".mp4"):
        if path.lower().endswith(extension):
            return extension
    raise ValueError(f"{name} is {path!r}, expected an end in .gif or .mp4")


def _writer(path: str, extension: str, fps: float) -> Any:
    if extension == ".gif":
        return GifWriter(path, fps)
    writer = mp4_writer(path, fps)
    if writer is None:
        raise MissingDependencyError("imageio-ffmpeg", "record_video of an mp4 file", "video")
    return writer
