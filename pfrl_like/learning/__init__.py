"""The training loops of all agents and their parts, and the table of PFRL's methods that may be overridden."""

from pfrl_like.learning.overrides.hooks import HOOKS, Hook, HookType

__all__ = ["HOOKS", "Hook", "HookType"]
