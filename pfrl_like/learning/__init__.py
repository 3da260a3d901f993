"""The loops under all agents: replay, rollout, acting, critics, the update; and which methods may be overridden."""

from pfrl_like.learning.overrides.hooks import HOOKS, Hook, HookType

__all__ = ["HOOKS", "Hook", "HookType"]
