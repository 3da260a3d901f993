"""The machinery under all agents: the methods of PFRL's agents that a subclass may override, and their adapters."""

from pfrl_like.learning.hook_table import HOOKS, Hook
from pfrl_like.learning.hooks import HookType

__all__ = ["HOOKS", "Hook", "HookType"]
