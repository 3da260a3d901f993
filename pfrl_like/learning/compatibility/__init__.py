"""Checks that an agent's parts, arguments, spaces and datasets match each other."""
