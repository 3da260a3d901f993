"""Builders of agents with a policy and critics that learn from replay."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from pfrl_like.zoo.builder import Spaces, compose_agent, make_buffer, passes_settings_to
from pfrl_like.zoo.composition import Given, parts, variable
from pfrl_like.zoo.networks import Layers, in_sequence

Head = Literal["squashed", "gaussian", "deterministic", "categorical"]

_HEADS: dict[str, Head] = {"DDPG": "deterministic", "TD3": "deterministic", "DiscreteSAC": "categorical"}
_N_CRITICS = {"DDPG": 1, "REDQ": 10}
#: Names of arguments of single agents.
_NAMES = {"DDPG": {"q_func1": "q_func", "policy_optimizer": "actor_optimizer", "q_func_optimizer": "critic_optimizer"}}


def actor_and_critics(
    spaces: Spaces,
    head: Head,
    n_critics: int = 2,
    in_lists: bool = False,
    names: Mapping[str, str] = MappingProxyType({}),
    *,
    hidden_sizes: Any = (256, 256),
    critic_hidden_sizes: Any = None,
    activation: str = "ReLU",
    layer_norm: bool = False,
    batch_norm: bool = False,
    n_quantiles: int | None = None,
    recurrent: bool = False,
    standardize: Any = None,
    lr: float = 3e-4,
    policy_lr_factor: float = 1.0,
    adam_eps: float = 1e-8,
    adam_betas: Any = None,
    **arguments: Any,
) -> dict[str, Any]:
    """Return arguments of an agent: the policy, the critics, and an optimiser for each of them.

    The arguments are `policy`, `q_func1`, `q_func2`, `policy_optimizer`, `q_func1_optimizer` and `q_func2_optimizer`;
    further critics are in the lists `further_q_funcs` and `further_q_func_optimizers`. Parts that are in `arguments`
    stay as they are.

    Args:
        spaces: Spaces of the environment.
        head: Last layers of the policy, as in `policy_of`. If "categorical", the critics take only the observation.
        n_critics: Number of critics.
        in_lists: True to return all critics in the lists `q_funcs` and `q_func_optimizers`.
        names: Names of the agent's arguments that differ from those above, keyed by those above.
        hidden_sizes: Sizes of the hidden layers.
        critic_hidden_sizes: Sizes of the hidden layers of the critics. If None, as those of the policy.
        activation: Name of a module of `torch.nn`.
        layer_norm: True to normalise the hidden layers of the critics (arXiv:2110.02034).
        batch_norm: True for batch normalisation in the critics. They are then not recurrent.
        n_quantiles: Number of quantiles of each critic. If None, critics return the expected return.
        recurrent: True for a GRU after the hidden layers of policy and critics. The agent has the same argument.
        standardize: Layer that standardises observations, for example `Standardize`. None for observations as they are.
        lr: Learning rate of Adam.
        policy_lr_factor: Learning rate of the policy, as a multiple of `lr`.
        adam_eps: Epsilon of Adam.
        adam_betas: Coefficients of Adam's running averages. If None, Adam's default.
        **arguments: Other arguments of the agent, which are returned, too.
    """
    made = dict(arguments)
    if "policy" not in made:
        policy_layers = Layers(tuple(hidden_sizes), activation, recurrent=recurrent, standardize=standardize)
        made["policy"] = policy_of(policy_layers, spaces, head)
    sizes = tuple(hidden_sizes if critic_hidden_sizes is None else critic_hidden_sizes)
    norms = {"layer_norm": layer_norm, "batch_norm": batch_norm, "standardize": standardize}
    layers = Layers(sizes, activation, recurrent=recurrent and not batch_norm, **norms)
    critics = [names.get(f"q_func{i + 1}", f"q_func{i + 1}") for i in range(n_critics)]
    for critic in critics:
        if critic not in made:
            made[critic] = critic_of(layers, spaces, head != "categorical", n_quantiles)
    options = {"eps": adam_eps} | ({} if adam_betas is None else {"betas": tuple(adam_betas)})
    optimizers = [names.get(f"{part}_optimizer", f"{part}_optimizer") for part in ("policy", *critics)]
    for part, optimizer in zip(("policy", *critics), optimizers, strict=True):
        module = variable(part, made[part])
        if optimizer not in made:
            rate = lr * policy_lr_factor if part == "policy" else lr
            adam = None if module is None else parts.torch.optim.Adam(module.parameters(), lr=rate, **options)
            made[optimizer] = variable(optimizer, adam)
    n_named = 0 if in_lists else 2
    for kind, listed in (("q_funcs", critics[n_named:]), ("q_func_optimizers", optimizers[1 + n_named :])):
        if listed:
            made[kind if in_lists else f"further_{kind}"] = [made.pop(each) for each in listed]
    if recurrent:
        made["recurrent"] = True
    return made


def policy_of(layers: Layers, spaces: Spaces, head: Head) -> Any:
    """Return a policy.

    Args:
        layers: Hidden layers.
        spaces: Spaces of the environment.
        head: Last layers of the policy, as in `head_of`.
    """
    body = layers.body(spaces.obs)
    n_outputs, last = head_of(spaces, head)
    return layers.sequence([*body.layers, layers.linear(body.size, n_outputs), *last])


def head_of(spaces: Spaces, head: Head) -> tuple[int, list[Any]]:
    """Return the number of outputs of a policy's last linear layer, and the layers after it.

    Args:
        spaces: Spaces of the environment.
        head: "squashed" for a Gaussian squashed by tanh, "gaussian" for a Gaussian whose mean is bounded by tanh and
            whose variance is the same in all states, "deterministic" for actions bounded by tanh, or "categorical" for
            discrete actions.
    """
    policies = parts.policies
    if head == "categorical":
        return spaces.n_actions(), [policies.SoftmaxCategoricalHead()]
    size = spaces.action_size()
    if head == "squashed":
        return 2 * size, [policies.SquashedGaussianHead()]
    if head == "deterministic":
        return size, [parts.nn.Tanh(), policies.DeterministicHead()]
    gaussian = policies.GaussianHeadWithStateIndependentCovariance(size, "diagonal", parts.torch.exp)
    return size, [parts.nn.Tanh(), gaussian]


def critic_of(layers: Layers, spaces: Spaces, takes_action: bool = True, n_quantiles: int | None = None) -> Any:
    """Return a critic.

    Args:
        layers: Hidden layers.
        spaces: Spaces of the environment.
        takes_action: True for Q(s, a), False for Q(s, .) of discrete actions.
        n_quantiles: Number of quantiles of each value. If None, the critic returns expected returns.
    """
    body = layers.critic_body(spaces.obs, spaces.action_size()) if takes_action else layers.body(spaces.obs)
    n_values = 1 if takes_action else spaces.n_actions()
    if n_quantiles is not None:
        outputs = [
            layers.linear(body.size, n_quantiles * n_values, 1.0),
            parts.nn.Unflatten(-1, (n_quantiles, n_values)),
        ]
        last = [parts.q_functions.QuantileSingleModelStateQFunctionWithDiscreteAction(in_sequence(outputs))]
    else:
        last = [layers.linear(body.size, n_values, 1.0)]
        last += [] if takes_action else [parts.q_functions.DiscreteActionValueHead()]
    return layers.sequence([*body.layers, *last])


@passes_settings_to(actor_and_critics)
def actor_critic(
    name: str,
    spaces: Spaces,
    *,
    n_critics: int | None = None,
    gamma: float = 0.99,
    capacity: int = 200_000,
    num_steps: int = 1,
    by_length: bool = True,
    prioritized: Any = None,
    noise: float = 0.1,
    **arguments: Any,
) -> Any:
    """Compose SoftActorCritic, TQC, REDQ, CrossQ, DiscreteSAC, DDPG or TD3.

    Actions are in [-1, 1], or Discrete for DiscreteSAC. Until the first update of the policy they are random.

    Args:
        name: Class of the agent.
        spaces: Spaces of the environment.
        n_critics: Number of critics. If None, 10 for REDQ and 2 for the others. DDPG has one.
        gamma: Discount factor per step.
        capacity: Maximum number of steps in the replay buffer.
        num_steps: Number of steps of n-step returns.
        by_length: True to draw episodes in proportion to their lengths. Only for recurrent networks.
        prioritized: Arguments of `PrioritizedReplayBuffer`. None for a uniform buffer.
        noise: Standard deviation of the noise with which DDPG and TD3 explore.
        **arguments: Settings of `actor_and_critics`, and other arguments of the agent. They may contain each of its
            parts.
    """
    head = _HEADS.get(name, "squashed")
    recurrent = bool(arguments.get("recurrent"))
    if "replay_buffer" not in arguments:
        arguments["replay_buffer"] = make_buffer(capacity, num_steps, recurrent, by_length, prioritized)
        if recurrent:
            arguments.setdefault("num_steps", num_steps)
    arguments.setdefault("burnin_action_func", Given("env").action_space.sample)
    if head == "deterministic":
        if "explorer" not in arguments:
            arguments["explorer"] = parts.explorers.AdditiveGaussian(noise, low=-1.0, high=1.0)
    elif "entropy_target" not in arguments:
        size = -spaces.action_size() if head == "squashed" else round(0.5 * math.log(spaces.n_actions()), 3)
        arguments["entropy_target"] = float(size)
    if name == "CrossQ":
        arguments.setdefault("batch_norm", True)
    if name == "TQC":
        arguments.setdefault("n_quantiles", 25)
    if n_critics is None:
        n_critics = 0 if "q_funcs" in arguments else _N_CRITICS.get(name, 2)
    made = actor_and_critics(spaces, head, n_critics, name == "REDQ", _NAMES.get(name, {}), **arguments)
    return compose_agent(name, gamma=gamma, **made)
