"""Helper functions for all other modules. Functions that exist in PFRL have the same import paths."""

from pfrl_like.utils import batch_states as batch_states
from pfrl_like.utils import contexts as contexts
from pfrl_like.utils import copy_param as copy_param
from pfrl_like.utils import env_modifiers as env_modifiers
from pfrl_like.utils import goals as goals
from pfrl_like.utils import mode_of_distribution as mode_of_distribution
from pfrl_like.utils import random as random
from pfrl_like.utils import random_seed as random_seed
from pfrl_like.utils import recurrent as recurrent
from pfrl_like.utils import stoppable_thread as stoppable_thread
from pfrl_like.utils.clip_l2_grad_norm import clip_l2_grad_norm_ as clip_l2_grad_norm_
from pfrl_like.utils.conjugate_gradient import conjugate_gradient as conjugate_gradient
from pfrl_like.utils.contexts import evaluating as evaluating
from pfrl_like.utils.is_return_code_zero import is_return_code_zero as is_return_code_zero
from pfrl_like.utils.pretrained_models import download_model as download_model
from pfrl_like.utils.random_seed import set_random_seed as set_random_seed
from pfrl_like.utils.stoppable_thread import StoppableThread as StoppableThread
