"""Last layers that make networks policies."""

from pfrl_like.policies.deterministic_policy import DeterministicHead as DeterministicHead
