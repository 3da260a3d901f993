"""Checks that an agent's modules, arguments, spaces and datasets match each other."""
