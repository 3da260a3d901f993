"""Checks of an agent's parts, arguments, spaces and recorded data."""
