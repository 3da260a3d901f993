"""Functions for notebooks: a display for environments that render, and videos."""

import base64
from pathlib import Path

from pfrl_like.errors import MissingDependencyError


def start_virtual_display() -> None:
    """Start a display on a machine that has none, so that environments can render.

    Raises:
        MissingDependencyError: If pyvirtualdisplay is not installed.
    """
    try:
        from pyvirtualdisplay.display import Display
    except ImportError as error:
        raise MissingDependencyError("pyvirtualdisplay", "start_virtual_display") from error
    Display().start()


def render_video(path: str) -> None:
    """Show an mp4 file in the notebook.

    Args:
        path: Path of the file.

    Raises:
        MissingDependencyError: If IPython is not installed.
    """
    try:
        from IPython.display import HTML, display
    except ImportError as error:
        raise MissingDependencyError("IPython", "render_video") from error
    content = base64.b64encode(Path(path).read_bytes()).decode()
    source = f"data:video/mp4;base64,{content}"
    display(HTML(f'<video src="{source}" controls autoplay loop style="height: 400px"></video>'))
