"""`VideoRecorder`: frames of one episode, written as mp4 or GIF."""

import importlib
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray


def can_record(env: Any) -> bool:
    """Whether the environment draws arrays of pixels."""
    mode = getattr(env, "render_mode", None)
    if mode is not None:
        return bool(mode == "rgb_array")
    metadata = getattr(env, "metadata", None) or {}
    return "rgb_array" in metadata.get("render.modes", ())  # gym before 0.26 takes the mode at each call


class VideoRecorder:
    """Collects what `env.render()` draws and writes it to a file.

    With the packages imageio and imageio-ffmpeg frames go to an mp4 file as they come; without
    them they are kept, compressed, until `close` makes an animated GIF of them.

    Args:
        env: Environment that draws arrays [height, width, 3], uint8.
        path: Path of the file without its ending.

    Attributes:
        path: Path of the file.
    """

    def __init__(self, env: Any, path: str) -> None:
        self._env = env
        metadata = getattr(env, "metadata", None) or {}
        self._fps = float(metadata.get("render_fps") or metadata.get("video.frames_per_second") or 30)
        self._old_render = getattr(env, "render_mode", None) is None
        self._frames: list[bytes] = []
        self._writer = _mp4_writer(f"{path}.mp4", self._fps)
        self.path = f"{path}.mp4" if self._writer is not None else f"{path}.gif"

    def capture(self) -> None:
        """Add what the environment draws now."""
        frame = np.asarray(self._env.render(mode="rgb_array") if self._old_render else self._env.render())
        if self._writer is not None:
            self._writer.append_data(frame)
        else:
            self._frames.append(_compressed(frame))

    def close(self) -> None:
        """Write the file; nothing if there are no frames."""
        if self._writer is not None:
            self._writer.close()
        elif self._frames:
            _write_gif(self.path, self._frames, self._fps)
            self._frames.clear()


def _mp4_writer(path: str, fps: float) -> Any:
    try:
        importlib.import_module("imageio_ffmpeg")
        imageio = importlib.import_module("imageio.v2")
    except ImportError:
        return None
    return imageio.get_writer(path, fps=fps, macro_block_size=1)


def _compressed(frame: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    memory = io.BytesIO()
    Image.fromarray(frame).quantize(64).save(memory, format="PNG")
    return memory.getvalue()


def _write_gif(path: str, frames: list[bytes], fps: float) -> None:
    from PIL import Image

    first, *rest = (Image.open(io.BytesIO(frame)) for frame in frames)
    first.save(path, save_all=True, append_images=rest, duration=max(round(1000 / fps), 20), loop=0)
