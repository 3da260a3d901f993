"""Builder of agents with a policy and critics that learn from replay; policies and critics for other builders."""

import functools
import math
from collections.abc import Callable
from typing import Any, Literal

from pfrl_like.utils.checks import check_counts
from pfrl_like.zoo.builder import Spaces, add_module, compose_agent, make_adam, make_buffer
from pfrl_like.zoo.composition import Given, parts
from pfrl_like.zoo.networks import Layers, in_sequence

PolicyKind = Literal["squashed", "deterministic", "gaussian", "categorical"]
_POLICIES: dict[str, PolicyKind] = {
    **dict.fromkeys(["SoftActorCritic", "TQC", "REDQ", "CrossQ"], "squashed"),
    **dict.fromkeys(["DDPG", "TD3"], "deterministic"),
    "DiscreteSAC": "categorical",
}
_N_CRITICS = {"DDPG": 1, "REDQ": 10}


def actor_critic(
    name: str,
    spaces: Spaces,
    *,
    hidden_sizes: Any = (256, 256),
    critic_hidden_sizes: Any = None,
    activation: str = "ReLU",
    layer_norm: bool = False,
    batch_norm: bool | None = None,
    n_critics: int | None = None,
    n_quantiles: int | None = None,
    recurrent: bool = False,
    lr: float = 3e-4,
    policy_lr_factor: float = 1.0,
    adam_eps: float = 1e-8,
    adam_betas: Any = (0.9, 0.999),
    gamma: float = 0.99,
    capacity: int = 200_000,
    num_steps: int = 1,
    by_length: bool = True,
    prioritized: Any = None,
    noise: float = 0.1,
    **arguments: Any,
) -> Any:
    """Compose SoftActorCritic, TQC, REDQ, CrossQ, DiscreteSAC, DDPG or TD3.

    Actions are vectors in [-1, 1]; those of DiscreteSAC are Discrete. They are random until the policy's first update.

    Args:
        name: Class of the agent.
        spaces: Spaces of the environment.
        hidden_sizes: Sizes of the hidden layers.
        critic_hidden_sizes: Sizes of the hidden layers of the critics. If None, as those of the policy.
        activation: Name of a module of `torch.nn`.
        layer_norm: True to normalise the hidden layers of the critics (arXiv:2110.02034).
        batch_norm: True for batch normalisation in the critics, which are then not recurrent. If None, only in CrossQ.
        n_critics: Number of critics. If None, 10 in REDQ, 1 in DDPG, and 2 in the others.
        n_quantiles: Number of quantiles of each critic. If None, 25 in TQC, and no quantiles in the others.
        recurrent: True for a GRU in place of the last hidden layer. The replay buffer then has episodes.
        lr: Learning rate of Adam.
        policy_lr_factor: Learning rate of the policy, as a multiple of `lr`.
        adam_eps: Epsilon of Adam.
        adam_betas: Coefficients of Adam's two running averages.
        gamma: Discount factor per step.
        capacity: Maximum number of steps in the replay buffer.
        num_steps: Number of steps of n-step returns.
        by_length: True to draw episodes in proportion to their lengths. Only for recurrent networks.
        prioritized: Arguments of `PrioritizedReplayBuffer`. None for a uniform buffer.
        noise: Standard deviation of the noise of the actions. Only for DDPG and TD3.
        **arguments: Other arguments of the agent. Parts such as `policy`, `q_func1`, `q_func1_optimizer`,
            `replay_buffer` and `explorer` take the place of the default ones.

    Raises:
        ValueError: If the name is unknown, or if the spaces or a setting do not fit the agent.
    """
    if name not in _POLICIES:
        raise ValueError(f"name is {name!r}, expected one of {', '.join(_POLICIES)}")
    kind = _POLICIES[name]
    n_critics = _N_CRITICS.get(name, 2) if n_critics is None else n_critics
    check_counts(least=min(_N_CRITICS.get(name, 2), 2), n_critics=n_critics)
    if name == "DDPG" and n_critics != 1:
        raise ValueError(f"n_critics is {n_critics}, but DDPG has one critic: leave it out, or use TD3")
    batch_norm = name == "CrossQ" if batch_norm is None else batch_norm
    n_quantiles = 25 if name == "TQC" and n_quantiles is None else n_quantiles
    critic_sizes = tuple(hidden_sizes if critic_hidden_sizes is None else critic_hidden_sizes)
    layers = Layers(tuple(hidden_sizes), activation, recurrent=recurrent)
    memory = recurrent and not batch_norm
    critic_layers = Layers(critic_sizes, activation, layer_norm, recurrent=memory, batch_norm=batch_norm)
    critic = functools.partial(make_critic, critic_layers, spaces, kind != "categorical", n_quantiles)
    adam = functools.partial(make_adam, lr=lr, eps=adam_eps, betas=adam_betas)
    policy_optimizer = "actor_optimizer" if name == "DDPG" else "policy_optimizer"
    policy = functools.partial(make_policy, layers, spaces, kind)
    policy_adam = functools.partial(adam, lr_factor=policy_lr_factor)
    add_module(arguments, "policy", policy_optimizer, policy, policy_adam)
    if name == "DDPG":
        add_module(arguments, "q_func", "critic_optimizer", critic, adam)
    elif "q_funcs" not in arguments:
        add_critics(arguments, n_critics, critic, adam, n_named=0 if name == "REDQ" else 2)
    if "replay_buffer" not in arguments:
        arguments["replay_buffer"] = make_buffer(capacity, num_steps, recurrent, by_length, prioritized)
    if recurrent:
        arguments = {"num_steps": num_steps, "recurrent": True} | arguments
    if kind == "deterministic":
        arguments.setdefault("explorer", parts.explorers.AdditiveGaussian(noise, low=-1.0, high=1.0))
    elif "entropy_target" not in arguments:
        target = -spaces.action_size() if kind == "squashed" else round(0.5 * math.log(spaces.n_actions()), 3)
        arguments["entropy_target"] = float(target)
    arguments.setdefault("burnin_action_func", Given("env").action_space.sample)
    return compose_agent(name, gamma=gamma, **arguments)


def policy_head(kind: PolicyKind, n_in: int, spaces: Spaces) -> list[Any]:
    """Return the last layers of a policy.

    Args:
        kind: "squashed" for a Gaussian squashed by tanh, "deterministic" for actions bounded by tanh, "gaussian" for a
            Gaussian whose mean is bounded by tanh, or "categorical" for discrete actions.
        n_in: Number of inputs.
        spaces: Spaces of the environment.
    """
    linear, policies = parts.nn.Linear, parts.policies
    if kind == "categorical":
        return [linear(n_in, spaces.n_actions()), policies.SoftmaxCategoricalHead()]
    size = spaces.action_size()
    if kind == "squashed":
        return [linear(n_in, 2 * size), policies.SquashedGaussianHead()]
    if kind == "deterministic":
        return [linear(n_in, size), parts.nn.Tanh(), policies.DeterministicHead()]
    gaussian = policies.GaussianHeadWithStateIndependentCovariance(size, "diagonal", parts.torch.exp)
    return [linear(n_in, size), parts.nn.Tanh(), gaussian]


def make_policy(layers: Layers, spaces: Spaces, kind: PolicyKind) -> Any:
    """Return a policy with these hidden layers. The kinds are those of `policy_head`."""
    body = layers.body(spaces.obs)
    return layers.sequence([*body.layers, *policy_head(kind, body.size, spaces)])


def make_critic(layers: Layers, spaces: Spaces, takes_action: bool = True, n_quantiles: int | None = None) -> Any:
    """Return a critic.

    Args:
        layers: Hidden layers.
        spaces: Spaces of the environment.
        takes_action: True for Q(s, a), False for Q(s, .) of discrete actions.
        n_quantiles: Number of quantiles of each value. If None, the critic returns expected returns.
    """
    n_values = 1 if takes_action else spaces.n_actions()
    body = layers.critic_body(spaces.obs, spaces.action_size()) if takes_action else layers.body(spaces.obs)
    linear = layers.linear(body.size, n_values * (n_quantiles or 1), 1.0)
    if n_quantiles is not None:
        quantiles = in_sequence([linear, parts.nn.Unflatten(-1, (n_quantiles, n_values))])
        last = [parts.q_functions.QuantileSingleModelStateQFunctionWithDiscreteAction(quantiles)]
    else:
        last = [linear] if takes_action else [linear, parts.q_functions.DiscreteActionValueHead()]
    return layers.sequence([*body.layers, *last])


def add_critics(
    arguments: dict[str, Any], n: int, make: Callable[[], Any], adam: Callable[[Any], Any], n_named: int = 2
) -> None:
    """Add critics and their optimisers to the arguments of an agent, unless these contain them.

    Args:
        arguments: Arguments of the agent: `q_func1`, `q_func1_optimizer`, ..., and lists of the further critics.
        n: Number of critics.
        make: Function that returns a critic.
        adam: Function that returns the optimiser of a critic.
        n_named: Number of critics that are not in the lists. If 0, the lists are `q_funcs` and `q_func_optimizers`.
    """
    critics = [f"q_func{i + 1}" for i in range(n)]
    for critic in critics:
        add_module(arguments, critic, f"{critic}_optimizer", make, adam)
    prefix = "further_" if n_named else ""
    for suffix in ("", "_optimizer"):
        if listed := [arguments.pop(f"{critic}{suffix}") for critic in critics[n_named:]]:
            arguments[f"{prefix}q_func{suffix}s"] = listed
