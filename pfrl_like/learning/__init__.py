"""The training loops of all agents, and the table of PFRL's methods that subclasses may override."""

from pfrl_like.learning.overrides.hooks import HOOKS, Hook, HookType

__all__ = ["HOOKS", "Hook", "HookType"]
