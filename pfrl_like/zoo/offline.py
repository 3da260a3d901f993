"""Builder of the agents that learn from recorded data."""

import dataclasses
import functools
from typing import Any

from pfrl_like.utils.checks import check_counts
from pfrl_like.zoo.actor_critics import Head, actor_and_critics, head_of, policy_of
from pfrl_like.zoo.builder import Spaces, add_module, compose_agent, make_adam, make_buffer
from pfrl_like.zoo.composition import parts, variable
from pfrl_like.zoo.networks import Layers, in_sequence
from pfrl_like.zoo.presets import heads_of
from pfrl_like.zoo.value_based import q_learning

#: Last layers of each agent's policy.
_HEADS: dict[str, Head] = heads_of("offline")
_TRANSFORMERS = ("DecisionTransformer", "DiscreteDecisionTransformer")
_PLAS = ("PLAS", "PLASWithPerturbation")
#: Agents that have neither critics nor a value function.
_IMITATORS = ("BC", "DiscreteBC", *_TRANSFORMERS)
#: Agents with a Q-function of discrete actions.
_VALUE_BASED = ("DiscreteBCQ", "DiscreteCQL")
#: Agents of this builder.
NAMES = (*_HEADS, *_VALUE_BASED)

_own = parts.pfrl_like.nn


def offline(
    name: str,
    spaces: Spaces,
    *,
    hidden_sizes: Any = (256, 256),
    activation: str = "ReLU",
    layer_norm: bool = False,
    recurrent: bool = False,
    actor_lr: float = 3e-4,
    critic_lr: float = 3e-4,
    imitator_lr: float = 3e-4,
    adam_eps: float = 1e-8,
    gamma: float = 0.99,
    capacity: int | None = None,
    n_critics: int | None = None,
    latent_size: int | None = None,
    obs_mean: Any = None,
    obs_std: Any = None,
    hidden_size: int = 128,
    context_size: int = 20,
    n_layers: int = 3,
    n_heads: int = 1,
    dropout: float = 0.1,
    **arguments: Any,
) -> Any:
    """Compose an agent that learns from recorded data.

    Args:
        name: Class of the agent, one of `NAMES`.
        spaces: Spaces of the environment. Actions must be Discrete if the name begins with "Discrete", otherwise
            vectors in [-1, 1].
        hidden_sizes: Sizes of the hidden layers.
        activation: One of `networks.ACTIVATIONS`.
        layer_norm: True to normalise the hidden layers of critics, value functions and Q-functions.
        recurrent: True for a GRU in place of the last hidden layer. The replay buffer then has episodes.
        actor_lr: Learning rate of the policy.
        critic_lr: Learning rate of critics, value functions and Q-functions. In DiscreteBCQ also of the imitator.
        imitator_lr: Learning rate of the model of actions in BCQ, BEAR and PLAS.
        adam_eps: Epsilon of Adam.
        gamma: Discount factor per step. Behavioural cloning and Decision Transformers have none.
        capacity: Maximum number of steps in the replay buffer, which only learning in an environment uses. None for no
            limit.
        n_critics: Number of critics, at least 2. None for 10 in EDAC, and 2 in other agents.
        latent_size: Size of the latent vector in BCQ, BEAR and PLAS. None for twice the length of an action.
        obs_mean: Mean of each number of a vector observation, a list. Networks then standardise observations.
        obs_std: Standard deviation of each number of a vector observation, positive, a list.
        hidden_size: Size of a token of a Decision Transformer.
        context_size: Number of last steps that a Decision Transformer receives.
        n_layers: Number of layers of a Decision Transformer.
        n_heads: Number of attention heads of each layer of a Decision Transformer.
        dropout: Probability that an activation of a Decision Transformer is set to 0.
        **arguments: Other arguments of the agent, for example `minibatch_size`. A composition replaces the part of that
            name, for example `policy`, `q_func1`, `policy_optimizer` or `replay_buffer`.

    Raises:
        ValueError: If the name is unknown, if the spaces do not match it, if a setting is outside its range, or if a
            Decision Transformer has no `target_return`.
    """
    if name not in NAMES:
        raise ValueError(f"name is {name!r}, expected one of {', '.join(NAMES)}")
    if name in _TRANSFORMERS and arguments.get("target_return") is None:
        raise ValueError(f"target_return is missing, the return that {name} aims at in each episode: pass a number")
    standardize = _standardize(spaces, obs_mean, obs_std)
    layers = Layers(hidden_sizes, activation, recurrent=recurrent, standardize=standardize)
    of_critics: dict[str, Any] = {
        "hidden_sizes": hidden_sizes, "activation": activation, "layer_norm": layer_norm, "recurrent": recurrent,
        "standardize": standardize, "lr": critic_lr, "adam_eps": adam_eps,
    }  # fmt: skip
    arguments = _defaults(name, spaces) | arguments
    if name in _VALUE_BASED:
        if name == "DiscreteBCQ":
            arguments.setdefault("imitator", policy_of(layers, spaces, "categorical"))
        return q_learning(name, spaces, gamma=gamma, capacity=capacity, **of_critics, **arguments)
    adam = functools.partial(make_adam, eps=adam_eps)
    sizes = {"context_size": context_size, "n_layers": n_layers, "n_heads": n_heads, "dropout": dropout}
    if name in ("BCQ", "BEAR", *_PLAS):
        latent_size = 2 * spaces.action_size() if latent_size is None else latent_size
        model = functools.partial(_autoencoder, layers, spaces, latent_size)
        add_module(arguments, "imitator", "imitator_optimizer", model, functools.partial(adam, lr=imitator_lr))
    policy = functools.partial(_policy, name, layers, spaces, latent_size, hidden_size=hidden_size, **sizes)
    _add_policy(name, arguments, policy, functools.partial(_perturbation, layers, spaces), adam, actor_lr)
    arguments.setdefault("replay_buffer", make_buffer(capacity, recurrent=recurrent or name in _TRANSFORMERS))
    flags = {"recurrent": True} if recurrent else {}
    if name in _IMITATORS:
        return compose_agent(name, **arguments | flags)
    if name in ("AWR", "DiscreteAWR", "DiscreteIQL", "IQL"):
        value = functools.partial(_value, dataclasses.replace(layers, layer_norm=layer_norm), spaces)
        add_module(arguments, "v_func", "v_func_optimizer", value, functools.partial(adam, lr=critic_lr))
    if name not in ("AWR", "DiscreteAWR"):
        n_critics = (10 if name == "EDAC" else 2) if n_critics is None else n_critics
        check_counts(least=2, n_critics=n_critics)
        arguments = actor_and_critics(spaces, _HEADS[name], n_critics, **of_critics, **arguments)
    return compose_agent(name, gamma=gamma, **arguments | flags)


def _defaults(name: str, spaces: Spaces) -> dict[str, Any]:
    """Return arguments of single agents that stand for those that are not given."""
    if name in ("BEAR", "CQL", "CalQL", "COMBO", "EDAC"):
        return {"entropy_target": -float(spaces.action_size())}
    if name in ("ReBRAC", "TD3PlusBC", *_VALUE_BASED):
        return {"explorer": parts.explorers.Greedy()}
    return {}


def _standardize(spaces: Spaces, mean: Any, std: Any) -> Any:
    """Return the layer that standardises observations, which all networks share, or None if there are no numbers."""
    if mean is None and std is None:
        return None
    shape = getattr(spaces.obs, "shape", None)
    for setting, numbers in {"obs_mean": mean, "obs_std": std}.items():
        if numbers is None or shape != (len(numbers),):
            raise ValueError(f"{setting} is {numbers!r:.80}, expected a list of one number for each of {spaces.obs}")
    return variable("standardize", _own.Standardize([*map(float, mean)], [*map(float, std)]))


def _add_policy(name: str, arguments: dict[str, Any], policy: Any, perturbation: Any, adam: Any, lr: float) -> None:
    """Add a policy and its optimiser, unless the arguments contain them. PLASWithPerturbation also gets a perturbation.

    `policy` and `perturbation` are functions that return the networks.
    """
    if name == "PLASWithPerturbation":
        modules = {"policy": policy, "perturbation": perturbation}
        arguments |= {part: variable(part, make()) for part, make in modules.items() if part not in arguments}
        trained = parts.nn.ModuleList([arguments[part] for part in modules])
        arguments.setdefault("policy_optimizer", adam(trained.parameters(), lr=lr))
    optimizer = "optimizer" if name in _IMITATORS else "policy_optimizer"
    add_module(arguments, "policy", optimizer, policy, functools.partial(adam, lr=lr))


def _perturbation(layers: Layers, spaces: Spaces) -> Any:
    size = spaces.action_size()
    return _pair_network(layers, spaces, size, size, parts.nn.Tanh())


def _policy(name: str, layers: Layers, spaces: Spaces, latent_size: int | None, **settings: Any) -> Any:
    """Return a policy. `settings` are those of a Decision Transformer."""
    if name == "BCQ":
        return _perturbation(layers, spaces)
    if name in _PLAS:
        body = layers.body(spaces.obs)
        return layers.sequence([*body.layers, layers.linear(body.size, latent_size or 0), parts.nn.Tanh()])
    head = _HEADS[name]
    if name not in _TRANSFORMERS:
        return policy_of(layers, spaces, head)
    first, size = layers.first(spaces.obs), settings["hidden_size"]
    n_outputs, last = head_of(spaces, head)
    embedding = in_sequence([*first.layers, layers.linear(first.size, size)])
    outputs = in_sequence([layers.linear(size, n_outputs), *last])
    return _own.ReturnConditionedTransformer(embedding, n_outputs, outputs, discrete=head == "categorical", **settings)


def _value(layers: Layers, spaces: Spaces) -> Any:
    body = layers.body(spaces.obs)
    return layers.sequence([*body.layers, layers.linear(body.size, 1, 1.0)])


def _autoencoder(layers: Layers, spaces: Spaces, latent_size: int) -> Any:
    size = spaces.action_size()
    encoder = _pair_network(layers, spaces, size, 2 * latent_size)
    return _own.ConditionalVAE(encoder, _pair_network(layers, spaces, latent_size, size), latent_size)


def _pair_network(layers: Layers, spaces: Spaces, n_in: int, n_out: int, *last: Any) -> Any:
    """Return a network of pairs (observation, vector of `n_in` numbers)."""
    body = layers.critic_body(spaces.obs, n_in)
    return layers.sequence([*body.layers, layers.linear(body.size, n_out), *last])
