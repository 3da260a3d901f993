"""Checks of what an agent is made of: parts, arguments, spaces, recorded data."""
