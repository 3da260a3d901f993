"""The command line, `python -m pfrl_like`. After installation, it is also the program `pfrl-like`."""

from pfrl_like.cli.parser import main

__all__ = ["main"]
