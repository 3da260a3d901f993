"""The loops under all agents: replay, rollout, acting, critics, the update; and which methods may be overridden."""

from pfrl_like.learning.overrides.hook_table import HOOKS, Hook
from pfrl_like.learning.overrides.hooks import HookType

__all__ = ["HOOKS", "Hook", "HookType"]
