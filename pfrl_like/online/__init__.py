"""Buffer, explorers and training loop with which d3rlpy's scripts train algorithms online: adapters."""

from pfrl_like.online import buffers as buffers
from pfrl_like.online import explorers as explorers
from pfrl_like.online import iterators as iterators
