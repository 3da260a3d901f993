"""Constructor arguments that later versions of d3rlpy have, and what does the same here."""

from collections.abc import Mapping
from typing import Any

#: What does the same here, and the names. Those that work here as well are hyperparameters, and not in this table.
_INSTEAD = (
    (
        "encoder_params sizes all networks, as in {'hidden_units': [256, 256]} or {'filters': [(32, 8, 4)], "
        "'feature_size': 512}; an agent of pfrl_like.agents takes any networks",
        "encoder_factory actor_encoder_factory critic_encoder_factory value_encoder_factory imitator_encoder_factory",
    ),
    (
        "learning rates and eps set the optimisers, which are Adam; an agent of pfrl_like.agents takes any optimiser",
        "optim_factory actor_optim_factory critic_optim_factory value_optim_factory temp_optim_factory "
        "alpha_optim_factory imitator_optim_factory",
    ),
    ("q_func_type is 'mean', 'qr', 'iqn' or 'fqf'", "q_func_factory"),
    ("targets take the least of the critics", "target_reduction_type"),
    ("targets take one action of the policy, and no maximum", "max_q_backup"),
    ("n_action_samples counts the actions drawn for targets and for predict", "n_target_samples"),
    ("rl_start_epoch is the epoch from which policy and critics learn", "rl_start_step warmup_steps warmup_epochs"),
    ("fit learns from single steps; fit_online takes a ReplayBuffer(capacity, num_steps=n)", "n_steps"),
    (
        "dynamics=MOPO(n_transitions=..., horizon=..., lam=...) generates at the beginning of every epoch",
        "generator real_ratio generated_maxlen rollout_interval rollout_horizon rollout_batch_size "
        "n_initial_transitions",
    ),
    ("lam weighs the largest norm of the members' variances", "variance_type"),
    ("use_gpu is True, False or the number of a GPU", "device"),
    ("each hyperparameter is a keyword of its own", "config"),
    ("fit has enable_ddp", "enable_ddp"),
    ("fit_online(random_steps=n) draws actions at random", "distribution normal_std"),
    ("agents of pfrl_like.agents have compile", "compile_graph compile"),
    ("agents of pfrl_like.agents have max_grad_norm", "clip_grad_norm"),
    ("pfrl_like.agents.BC takes a policy of any type; this one learns one action for each state", "policy_type"),
    ("pfrl_like.agents.IQL has expectile and beta", "expectile weight_temp value_learning_rate"),
    ("pfrl_like.agents.CRR has advantage_type and weight_type", "advantage_type weight_type target_update_type"),
    ("pfrl_like.agents.ReBRAC has actor_beta and critic_beta", "actor_beta critic_beta"),
    (
        "pfrl_like.agents.DecisionTransformer takes a transformer",
        "context_size max_timestep num_heads num_layers attn_dropout resid_dropout embed_dropout activation_type "
        "embed_activation_type position_encoding_type final_tokens warmup_tokens",
    ),
)

#: Names that are refused, and what does the same here.
LATER_NAMES: Mapping[str, str] = {name: instead for instead, names in _INSTEAD for name in names.split()}

#: Values that ask for what is done here anyway, beside None.
_SAME: Mapping[str, Any] = {
    **dict.fromkeys(["compile", "compile_graph", "enable_ddp", "max_q_backup"], False),
    **dict.fromkeys([name for name in LATER_NAMES if name.endswith("encoder_factory")], "default"),
    "n_steps": 1, "policy_type": "deterministic", "q_func_factory": "mean", "target_reduction_type": "min",
}  # fmt: skip


def asks_for_nothing_else(kind: str, name: str, value: Any, known: Mapping[str, str]) -> bool:
    """Whether a name is one of later versions of d3rlpy, and its value asks for what is done here anyway.

    Args:
        kind: The class of the estimator, for the message.
        name: A name that it does not have.
        value: What was given.
        known: Names that are refused, and what does the same here.

    Raises:
        TypeError: If the value asks for something else, naming what does that here.
    """
    if name not in known:
        return False
    same = _SAME.get(name)
    if value is None or (isinstance(value, type(same)) and value == same):
        return True
    raise TypeError(f"{kind} has no hyperparameter {name!r}, which later versions of d3rlpy have: {known[name]}")
