"""`Monitor` records every episode; `VideoRecorder` writes the frames of one episode to an mp4 or GIF file."""

import csv
import importlib
import itertools
import json
import os
import re
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pfrl_like.storage.atomic import atomic_write
from pfrl_like.wrappers.wrapper import Wrapper


def can_record(env: Any) -> bool:
    """True if the environment can render RGB arrays."""
    mode = getattr(env, "render_mode", None)
    if mode is not None:
        return bool(mode == "rgb_array")
    metadata = getattr(env, "metadata", None) or {}
    return "rgb_array" in metadata.get("render.modes", ())  # gym before 0.26 passes the mode to `render`


def frames_per_second(env: Any) -> float:
    """Return the number of frames per second in the metadata of an environment; 30 if there is none."""
    metadata = getattr(env, "metadata", None) or {}
    return float(metadata.get("render_fps") or metadata.get("video.frames_per_second") or 30)


def frame_of(env: Any) -> NDArray[np.uint8]:
    """Return the current frame of an environment that `can_record` accepts, [height, width, 3]."""
    passes_mode = getattr(env, "render_mode", None) is None
    return np.asarray(env.render(mode="rgb_array") if passes_mode else env.render())


class GifWriter:
    """Writes frames to an animated GIF. Each frame is written immediately, so that no frames are kept in memory.

    The file is created when the first frame comes.

    Args:
        path: Path of the file.
        fps: Number of frames per second. Browsers show at most 50.
    """

    def __init__(self, path: str, fps: float) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._milliseconds = max(round(1000 / fps), 20)

    def append_data(self, frame: NDArray[np.uint8]) -> None:
        """Write a frame, [height, width, 3], with its own palette of 256 colours."""
        from PIL import GifImagePlugin, Image

        image = Image.fromarray(frame).quantize(256, method=Image.Quantize.FASTOCTREE)
        if self._file is None:
            self._file = open(self._path, "wb")  # noqa: SIM115 - `close` closes it
            self._file.writelines(GifImagePlugin.getheader(image, info={"loop": 0})[0])
        self._file.writelines(GifImagePlugin.getdata(image, duration=self._milliseconds, include_color_table=True))

    def close(self) -> None:
        """Write the end of the file, and close it."""
        if self._file is not None and not self._file.closed:
            self._file.write(b";")
            self._file.close()


def mp4_writer(path: str, fps: float) -> Any:
    """Return an object that writes an mp4 file, with the methods of `GifWriter`. None if a package is not installed.

    The packages are imageio and imageio-ffmpeg, of the extra "video".

    Args:
        path: Path of the file.
        fps: Number of frames per second.
    """
    try:
        importlib.import_module("imageio_ffmpeg")
        imageio = importlib.import_module("imageio.v2")
    except ImportError:
        return None
    return imageio.get_writer(path, fps=fps, macro_block_size=2)  # H.264 needs even sizes


class VideoRecorder:
    """Writes the results of `env.render()` to a video file, an mp4 if the packages of the extra "video" are installed.

    Otherwise the file is an animated GIF.

    Args:
        env: Environment whose `render` returns arrays [height, width, 3], uint8.
        path: Path of the file without its extension.

    Attributes:
        path: Path of the file.
    """

    def __init__(self, env: Any, path: str) -> None:
        self._env, fps = env, frames_per_second(env)
        mp4 = mp4_writer(f"{path}.mp4", fps)
        self.path = f"{path}.mp4" if mp4 is not None else f"{path}.gif"
        self._writer = GifWriter(self.path, fps) if mp4 is None else mp4

    def capture(self) -> None:
        """Add the current frame of the environment."""
        self._writer.append_data(frame_of(self._env))

    def close(self) -> None:
        """Write the end of the file."""
        self._writer.close()


_counter = itertools.count()
_FILE_NAME = re.compile(r"monitor\..+\.(stats\.json|csv|mp4|gif)")


class Monitor(Wrapper):
    """Record return, length and time of every episode in a directory, and videos of some episodes.

    An episode is recorded when it ends, when the environment is reset before its end, or when the environment is
    closed. The monitor writes these files. `<uid>` is the id of the monitor:

    - `monitor.<uid>.csv`: a line `r,l,t` for each episode: return, length in steps, seconds since the first reset.
    - `monitor.<uid>.stats.json`: the same data in the columns `episode_rewards`, `episode_lengths`, `timestamps` and
      `episode_types`. `close` writes this file. If the monitor is not closed, the file is written when the monitor is
      deleted or the program ends, without the current episode.
    - `monitor.<uid>.video<episode>.mp4`: a video. If the packages of the extra "video" are not installed, the file is
      an animated GIF with the extension `.gif`.

    Args:
        env: Environment to wrap. To record videos, make the environment with `render_mode="rgb_array"`.
        directory: Directory of the files. It is created if it does not exist.
        video_callable: Function that takes the episode number, starting at 0, and returns True to record a video of the
            episode. False records no videos. If None and the environment can render RGB arrays, the monitor records the
            episodes 0, 1, 8, 27, ... (cubes) below 1000, and then every 1000th episode.
        force: True to remove files of earlier runs from the directory.
        resume: True to keep files of earlier runs in the directory.
        write_upon_reset: True to write the `.stats.json` file also at every reset.
        uid: Id in the file names. If None, the id is `<number>.<process id>`.
        mode: "training" or "evaluation", recorded for each episode as "t" or "e". If None, "training".

    Raises:
        ValueError: If the directory contains files of earlier runs and neither `force` nor `resume` is True, if `mode`
            is not "training" or "evaluation", or if videos are requested but the environment cannot render them.
    """

    def __init__(
        self,
        env: Any,
        directory: str | os.PathLike[str],
        video_callable: Callable[[int], bool] | bool | None = None,
        force: bool = False,
        resume: bool = False,
        write_upon_reset: bool = False,
        uid: str | None = None,
        mode: str | None = None,
    ) -> None:
        super().__init__(env)
        if mode not in (None, "training", "evaluation"):
            raise ValueError(f'mode is {mode!r}, expected "training", "evaluation" or None')
        self._records_video = _video_schedule(env, video_callable)
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        if not resume:
            _clear(self.directory, force)
        self._prefix = self.directory / f"monitor.{uid if uid is not None else f'{next(_counter)}.{os.getpid()}'}"
        self._write_upon_reset, self._type = write_upon_reset, "e" if mode == "evaluation" else "t"
        self._returns: list[float] = []
        self._lengths: list[int] = []
        self._times: list[float] = []
        self._stats: dict[str, Any] = {
            "initial_reset_timestamp": None, "timestamps": self._times, "episode_lengths": self._lengths,
            "episode_rewards": self._returns, "episode_types": [],
        }  # fmt: skip
        self._length, self._return, self._total_steps = 0, 0.0, 0
        self._video: VideoRecorder | None = None
        self._is_closed = False
        self._at_exit = weakref.finalize(self, _write_recorded, f"{self._prefix}.stats.json", self._stats)

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode. Keyword arguments are passed to the environment."""
        self._end_episode()
        if self._write_upon_reset:
            self._write_stats()
        if self._stats["initial_reset_timestamp"] is None:
            self._stats["initial_reset_timestamp"] = time.time()
        result = self.env.reset(**kwargs)
        if self._records_video(len(self._returns)):
            self._video = VideoRecorder(self.env, f"{self._prefix}.video{len(self._returns):06d}")
            self._video.capture()
        return result

    def step(self, action: Any) -> Any:
        """Execute an action, and record the step."""
        result = self.env.step(action)
        self._length += 1
        self._total_steps += 1
        self._return += float(result[1])
        if self._video is not None:
            self._video.capture()
        if any(result[2:-1]):
            self._end_episode()
        return result

    def close(self) -> None:
        """Record the current episode, write `.stats.json`, and close the environment. A second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self._at_exit.detach()
        self._end_episode()
        self._write_stats()
        close = getattr(self.env, "close", None)
        if callable(close):
            close()

    def get_total_steps(self) -> int:
        """Return the number of steps in all episodes, including the current episode."""
        return self._total_steps

    def get_episode_rewards(self) -> list[float]:
        """Return the list of the returns of all finished episodes."""
        return list(self._returns)

    def get_episode_lengths(self) -> list[int]:
        """Return the list of the lengths of all finished episodes, in steps."""
        return list(self._lengths)

    def saved_state(self) -> dict[str, Any]:
        """Return the data of all episodes. The current episode is included with its present return and length."""
        running = int(self._length > 0)
        return {
            "returns": self._returns + [self._return] * running, "lengths": self._lengths + [self._length] * running,
            "times": self._times + [time.time()] * running, "first": self._stats["initial_reset_timestamp"],
            "steps": self._total_steps,
        }  # fmt: skip

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `saved_state`. The restored episodes are not written to this monitor's `.csv` file."""
        self._returns[:], self._lengths[:], self._times[:] = state["returns"], state["lengths"], state["times"]
        self._stats["initial_reset_timestamp"], self._total_steps = state["first"], int(state["steps"])
        self._stats["episode_types"] = [self._type] * len(self._returns)
        self._return, self._length = 0.0, 0

    def _end_episode(self) -> None:
        """Record the current episode if it has at least one step."""
        if self._video is not None:
            self._video.close()
            self._video = None
        if self._length == 0:
            return
        self._returns.append(self._return)
        self._lengths.append(self._length)
        self._times.append(time.time())
        self._stats["episode_types"].append(self._type)
        self._return, self._length = 0.0, 0
        with open(f"{self._prefix}.csv", "a", newline="") as file:
            writer = csv.writer(file)
            if len(self._returns) == 1:
                writer.writerow(["r", "l", "t"])
            seconds = self._times[-1] - (self._stats["initial_reset_timestamp"] or self._times[-1])
            writer.writerow([repr(self._returns[-1]), self._lengths[-1], f"{seconds:.6f}"])

    def _write_stats(self) -> None:
        atomic_write(f"{self._prefix}.stats.json", json.dumps(self._stats).encode(), durable=False)


def _write_recorded(path: str, stats: dict[str, Any]) -> None:
    """Write the episodes of a monitor that was not closed, if there are any and their directory still exists."""
    if stats["timestamps"] and os.path.isdir(os.path.dirname(path)):
        atomic_write(path, json.dumps(stats).encode(), durable=False)


def _capped_cubic(episode: int) -> bool:
    return round(np.cbrt(episode)) ** 3 == episode if episode < 1000 else episode % 1000 == 0


def _video_schedule(env: Any, video_callable: Callable[[int], bool] | bool | None) -> Callable[[int], bool]:
    if callable(video_callable):
        if not can_record(env):
            raise ValueError(f'video_callable is set, but {env} cannot render: make it with render_mode="rgb_array"')
        return video_callable
    if video_callable is None and can_record(env):
        return _capped_cubic
    if video_callable is True:
        raise ValueError("video_callable is True, expected a function of the episode's number, False or None")
    return lambda episode: False


def _clear(directory: Path, force: bool) -> None:
    """Remove files of earlier runs. If `force` is False, raise an error if there are such files.

    Files of other monitors in this process are kept.
    """
    own_files = re.compile(rf"monitor\.\d+\.{os.getpid()}\.")
    earlier = [p for p in sorted(directory.iterdir()) if _FILE_NAME.fullmatch(p.name) and not own_files.match(p.name)]
    if earlier and not force:
        advice = "pass another directory, force=True to remove them, or resume=True to keep them"
        raise ValueError(f"directory {directory} contains files of an earlier run ({earlier[0].name}): {advice}")
    for path in earlier:
        path.unlink()
