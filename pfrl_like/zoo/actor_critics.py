"""Builder of agents with a policy and critics that learn from replay; policies and critics for other builders."""

import dataclasses
import functools
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from pfrl_like.utils.checks import check_counts
from pfrl_like.zoo.builder import Spaces, add_module, compose_agent, make_adam, make_buffer
from pfrl_like.zoo.composition import Given, parts
from pfrl_like.zoo.networks import Layers, in_sequence
from pfrl_like.zoo.presets import heads_of

Head = Literal["squashed", "gaussian", "deterministic", "categorical"]

_HEADS: dict[str, Head] = heads_of("actor_critics")
_N_CRITICS = {"DDPG": 1, "REDQ": 10}
#: Arguments of single agents that have names of their own, see `actor_and_critics`.
_NAMES = {"DDPG": {"q_func1": "q_func", "policy_optimizer": "actor_optimizer", "q_func1_optimizer": "critic_optimizer"}}


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
        activation: One of `networks.ACTIVATIONS`.
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
        **arguments: Other arguments of the agent. A composition replaces the part of that name, for example `policy`,
            `q_func1`, `q_func1_optimizer`, `replay_buffer` or `explorer`.

    Raises:
        ValueError: If the name is unknown, or if the spaces or a setting do not fit the agent.
    """
    if name not in _HEADS:
        raise ValueError(f"name is {name!r}, expected one of {', '.join(_HEADS)}")
    head = _HEADS[name]
    if "replay_buffer" not in arguments:
        arguments["replay_buffer"] = make_buffer(capacity, num_steps, recurrent, by_length, prioritized)
    if recurrent:
        arguments.setdefault("num_steps", num_steps)
    if head == "deterministic":
        arguments.setdefault("explorer", parts.explorers.AdditiveGaussian(noise, low=-1.0, high=1.0))
    elif "entropy_target" not in arguments:
        target = -spaces.action_size() if head == "squashed" else round(0.5 * math.log(spaces.n_actions()), 3)
        arguments["entropy_target"] = float(target)
    arguments.setdefault("burnin_action_func", Given("env").action_space.sample)
    settings = {"hidden_sizes": hidden_sizes, "critic_hidden_sizes": critic_hidden_sizes, "activation": activation}
    settings |= {"layer_norm": layer_norm, "batch_norm": name == "CrossQ" if batch_norm is None else batch_norm}
    settings |= {"n_quantiles": 25 if name == "TQC" and n_quantiles is None else n_quantiles, "recurrent": recurrent}
    settings |= {"lr": lr, "policy_lr_factor": policy_lr_factor, "adam_eps": adam_eps, "adam_betas": adam_betas}
    n_critics = 0 if "q_funcs" in arguments else _number_of_critics(name, n_critics)
    names, in_lists = _NAMES.get(name, {}), name == "REDQ"
    made = actor_and_critics(spaces, head, n_critics, names=names, in_lists=in_lists, **settings, **arguments)
    return compose_agent(name, gamma=gamma, **made)


def _number_of_critics(name: str, n_critics: int | None) -> int:
    usual = _N_CRITICS.get(name, 2)
    if n_critics is None:
        return usual
    check_counts(least=min(usual, 2), n_critics=n_critics)
    if usual == 1 != n_critics:
        raise ValueError(f"n_critics is {n_critics}, but {name} has one critic: leave the setting out, or use TD3")
    return n_critics


def actor_and_critics(
    spaces: Spaces,
    head: Head,
    n_critics: int = 2,
    *,
    in_lists: bool = False,
    names: Mapping[str, str] = MappingProxyType({}),
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
    adam_betas: Any = (0.9, 0.999),
    **arguments: Any,
) -> dict[str, Any]:
    """Return arguments of an agent: the policy, the critics, and an optimiser for each of them.

    The arguments are `policy`, `q_func1`, `q_func2`, `policy_optimizer`, `q_func1_optimizer` and `q_func2_optimizer`;
    further critics are in the lists `further_q_funcs` and `further_q_func_optimizers`. Those in `arguments` stay as
    they are.

    Args:
        spaces: Spaces of the environment.
        head: Last layers of the policy, as in `head_of`. If "categorical", the critics take only the observation.
        n_critics: Number of critics.
        in_lists: True to return all critics in the lists `q_funcs` and `q_func_optimizers`.
        names: Names of the agent's arguments that differ from those above, keyed by those above.
        hidden_sizes: Sizes of the hidden layers.
        critic_hidden_sizes: Sizes of the hidden layers of the critics. If None, as those of the policy.
        activation: One of `networks.ACTIVATIONS`.
        layer_norm: True to normalise the hidden layers of the critics (arXiv:2110.02034).
        batch_norm: True for batch normalisation in the critics, which are then not recurrent.
        n_quantiles: Number of quantiles of each critic. If None, the critics return expected returns.
        recurrent: True for a GRU in place of the last hidden layer. The agent has the same argument.
        standardize: Layer that standardises observations, for example `Standardize`. None for observations as they are.
        lr: Learning rate of Adam.
        policy_lr_factor: Learning rate of the policy, as a multiple of `lr`.
        adam_eps: Epsilon of Adam.
        adam_betas: Coefficients of Adam's two running averages.
        **arguments: Other arguments of the agent, which are returned, too.
    """
    layers = Layers(hidden_sizes, activation, recurrent=recurrent, standardize=standardize)
    sizes = layers.hidden_sizes if critic_hidden_sizes is None else critic_hidden_sizes
    critic_layers = dataclasses.replace(layers, hidden_sizes=sizes, layer_norm=layer_norm, batch_norm=batch_norm)
    critic_layers = dataclasses.replace(critic_layers, recurrent=recurrent and not batch_norm)
    policy = functools.partial(policy_of, layers, spaces, head)
    critic = functools.partial(critic_of, critic_layers, spaces, head != "categorical", n_quantiles)
    adam = functools.partial(make_adam, lr=lr, eps=adam_eps, betas=adam_betas)
    policy_adam = functools.partial(adam, lr_factor=policy_lr_factor)
    modules = ["policy", *[f"q_func{i + 1}" for i in range(n_critics)]]
    pairs = [(names.get(each, each), names.get(f"{each}_optimizer", f"{each}_optimizer")) for each in modules]
    add_module(arguments, *pairs[0], policy, policy_adam)
    for pair in pairs[1:]:
        add_module(arguments, *pair, critic, adam)
    lists = ("q_funcs", "q_func_optimizers") if in_lists else ("further_q_funcs", "further_q_func_optimizers")
    for name, listed in zip(lists, zip(*pairs[1 if in_lists else 3 :], strict=True), strict=False):
        arguments[name] = [arguments.pop(each) for each in listed]
    return arguments | ({"recurrent": True} if recurrent else {})


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
            whose standard deviation is the exponential of a parameter, "deterministic" for actions bounded by tanh, or
            "categorical" for discrete actions.
    """
    policies = parts.policies
    if head == "categorical":
        return spaces.n_actions(), [policies.SoftmaxCategoricalHead()]
    size = spaces.action_size()
    if head == "squashed":
        return 2 * size, [policies.SquashedGaussianHead()]
    if head == "deterministic":
        return size, [parts.nn.Tanh(), policies.DeterministicHead()]
    gaussian = policies.GaussianHeadWithStateIndependentCovariance(size, "diagonal", policies.variance_of_log_scale)
    return size, [parts.nn.Tanh(), gaussian]


def critic_of(layers: Layers, spaces: Spaces, takes_action: bool = True, n_quantiles: int | None = None) -> Any:
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
