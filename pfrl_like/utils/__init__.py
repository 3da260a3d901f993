"""Small helpers, one in each file."""

from pfrl_like.utils.batch_states import batch_states as batch_states
from pfrl_like.utils.contexts import evaluating as evaluating
from pfrl_like.utils.isolated_rng import isolated_rng as isolated_rng
from pfrl_like.utils.random_seed import set_random_seed as set_random_seed
