"""The command line: `python -m pfrl_like COMMAND ...`."""

from pfrl_like.cli.command_line import main

__all__ = ["main"]
