"""Helpers of all other folders, at PFRL's paths where PFRL has them."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pfrl_like.utils import contexts as contexts
    from pfrl_like.utils import copy_param as copy_param
    from pfrl_like.utils import goals as goals
    from pfrl_like.utils import mode_of_distribution as mode_of_distribution
    from pfrl_like.utils import random as random
    from pfrl_like.utils import random_seed as random_seed
    from pfrl_like.utils import recurrent as recurrent
    from pfrl_like.utils import stoppable_thread as stoppable_thread
    from pfrl_like.utils.batch_states import batch_states as batch_states
    from pfrl_like.utils.clip_l2_grad_norm import clip_l2_grad_norm_ as clip_l2_grad_norm_
    from pfrl_like.utils.contexts import evaluating as evaluating
    from pfrl_like.utils.random_seed import set_random_seed as set_random_seed
    from pfrl_like.utils.stoppable_thread import StoppableThread as StoppableThread

_MODULES = (
    "batch_states", "contexts", "copy_param", "goals", "mode_of_distribution", "random", "random_seed", "recurrent",
    "stoppable_thread",
)  # fmt: skip
_HOMES = {name: name for name in _MODULES} | {
    "clip_l2_grad_norm_": "clip_l2_grad_norm", "evaluating": "contexts", "set_random_seed": "random_seed",
    "StoppableThread": "stoppable_thread",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a helper, or a module, when it is first asked for; most need torch, which workers can do without."""
    if name in _HOMES:
        module = importlib.import_module(f"pfrl_like.utils.{_HOMES[name]}")
        return module if name == _HOMES[name] else getattr(module, name)
    raise AttributeError(f"module 'pfrl_like.utils' has no attribute {name!r}")
