"""Builder of the agents that learn from recorded data."""

import dataclasses
from typing import Any

from pfrl_like.utils.checks import check_counts
from pfrl_like.zoo.actor_critics import Head, actor_and_critics, head_of, policy_of
from pfrl_like.zoo.builder import Spaces, compose_agent, make_buffer
from pfrl_like.zoo.composition import parts, variable
from pfrl_like.zoo.networks import Layers, in_sequence
from pfrl_like.zoo.value_based import q_learning

#: Last layers of each agent's policy. The policy of BCQ is a perturbation of actions.
_HEADS: dict[str, Head] = {
    **dict.fromkeys(["BC", "BCQ", "DecisionTransformer", "TD3PlusBC", "ReBRAC"], "deterministic"),
    **dict.fromkeys(["AWAC", "AWR", "IQL"], "gaussian"),
    **dict.fromkeys(["BEAR", "CQL", "CalQL", "COMBO", "CRR", "EDAC"], "squashed"),
    **dict.fromkeys(["DiscreteAWR", "DiscreteBC", "DiscreteDecisionTransformer"], "categorical"),
}
#: Agents that have no critics.
_IMITATORS = ("BC", "DiscreteBC", "DecisionTransformer", "DiscreteDecisionTransformer")
#: Agents with a Q-function of discrete actions.
_VALUE_BASED = ("DiscreteBCQ", "DiscreteCQL")
#: Agents that learn the temperature of their policy.
_SOFT = ("BEAR", "CQL", "CalQL", "COMBO", "EDAC")
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
        activation: Name of a module of `torch.nn`.
        layer_norm: True to normalise the hidden layers of critics, value functions and Q-functions.
        recurrent: True for a GRU in place of the last hidden layer. The replay buffer then has episodes.
        actor_lr: Learning rate of the policy.
        critic_lr: Learning rate of critics, value functions and Q-functions. In DiscreteBCQ also of the imitator.
        imitator_lr: Learning rate of the model of actions in BCQ and BEAR.
        adam_eps: Epsilon of Adam.
        gamma: Discount factor per step. Behavioural cloning and Decision Transformers have none.
        capacity: Maximum number of steps in the replay buffer, which only learning in an environment uses. None for no
            limit.
        n_critics: Number of critics, at least 2. None for 10 in EDAC, and 2 in other agents.
        latent_size: Size of the latent vector in BCQ and BEAR. None for twice the length of an action.
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
        TypeError: If a Decision Transformer has no `target_return`.
        ValueError: If the name is unknown, if the spaces do not match it, or if a setting is outside its range.
    """
    if name not in NAMES:
        raise ValueError(f"name is {name!r}, expected one of {', '.join(NAMES)}")
    standardize = _standardize(spaces, obs_mean, obs_std)
    layers = Layers(tuple(hidden_sizes), activation, recurrent=recurrent, standardize=standardize)
    of_critics: dict[str, Any] = {
        "hidden_sizes": hidden_sizes, "activation": activation, "layer_norm": layer_norm, "recurrent": recurrent,
        "standardize": standardize, "lr": critic_lr, "adam_eps": adam_eps,
    }  # fmt: skip
    if name in _VALUE_BASED:
        if name == "DiscreteBCQ":
            arguments.setdefault("imitator", policy_of(layers, spaces, "categorical"))
        arguments.setdefault("explorer", parts.explorers.Greedy())
        return q_learning(name, spaces, gamma=gamma, capacity=capacity, **of_critics, **arguments)

    def add(part: str, optimizer: str, lr: float, module: Any) -> None:
        module = variable(part, arguments.setdefault(part, module))
        arguments.setdefault(optimizer, parts.torch.optim.Adam(module.parameters(), lr=lr, eps=adam_eps))

    has_sequences = name.endswith("DecisionTransformer")
    if has_sequences:
        sizes = {"context_size": context_size, "n_layers": n_layers, "n_heads": n_heads, "dropout": dropout}
        policy = _transformer(name, layers, spaces, hidden_size=hidden_size, **sizes)
    elif name == "BCQ":
        policy = _pair_network(layers, spaces, spaces.action_size(), parts.nn.Tanh())
    else:
        policy = policy_of(layers, spaces, _HEADS[name])
    add("policy", "optimizer" if name in _IMITATORS else "policy_optimizer", actor_lr, policy)
    arguments.setdefault("replay_buffer", make_buffer(capacity, recurrent=recurrent or has_sequences))
    flags = {"recurrent": True} if recurrent else {}
    if name in _IMITATORS:
        if has_sequences and arguments.get("target_return") is None:
            raise TypeError(f"target_return is missing, the return that {name} aims at in each episode: pass a number")
        return compose_agent(name, **flags, **arguments)
    if name in ("AWR", "DiscreteAWR", "IQL"):
        add("v_func", "v_func_optimizer", critic_lr, _value(dataclasses.replace(layers, layer_norm=layer_norm), spaces))
    if name in ("BCQ", "BEAR"):
        model = _autoencoder(layers, spaces, latent_size or 2 * spaces.action_size())
        add("imitator", "imitator_optimizer", imitator_lr, model)
    if name in _SOFT:
        arguments.setdefault("entropy_target", -float(spaces.action_size()))
    if name in ("ReBRAC", "TD3PlusBC"):
        arguments.setdefault("explorer", parts.explorers.Greedy())
    if "AWR" not in name:
        n_critics = (10 if name == "EDAC" else 2) if n_critics is None else n_critics
        check_counts(least=2, n_critics=n_critics)
        arguments = actor_and_critics(spaces, _HEADS[name], n_critics, **of_critics, **arguments)
    return compose_agent(name, gamma=gamma, **arguments | flags)


def _standardize(spaces: Spaces, mean: Any, std: Any) -> Any:
    """Return the layer that standardises observations, which all networks share, or None if there are no numbers."""
    if mean is None and std is None:
        return None
    shape = getattr(spaces.obs, "shape", None)
    for setting, numbers in {"obs_mean": mean, "obs_std": std}.items():
        if numbers is None or shape != (len(numbers),):
            raise ValueError(f"{setting} is {numbers!r:.80}, expected a list of one number for each of {spaces.obs}")
    return variable("standardize", _own.Standardize([*map(float, mean)], [*map(float, std)]))


def _transformer(name: str, layers: Layers, spaces: Spaces, **settings: Any) -> Any:
    first, size, discrete = layers.first(spaces.obs), settings["hidden_size"], name.startswith("Discrete")
    embedding = in_sequence([*first.layers, layers.linear(first.size, size)])
    n_outputs, last = head_of(spaces, _HEADS[name])
    head = in_sequence([layers.linear(size, n_outputs), *last])
    return _own.ReturnConditionedTransformer(embedding, n_outputs, head, discrete=discrete, **settings)


def _value(layers: Layers, spaces: Spaces) -> Any:
    body = layers.body(spaces.obs)
    return layers.sequence([*body.layers, layers.linear(body.size, 1, 1.0)])


def _autoencoder(layers: Layers, spaces: Spaces, latent_size: int) -> Any:
    encoder = _pair_network(layers, spaces, 2 * latent_size)
    decoder = _pair_network(layers, spaces, spaces.action_size(), n_in=latent_size)
    return _own.ConditionalVAE(encoder, decoder, latent_size)


def _pair_network(layers: Layers, spaces: Spaces, n_out: int, *last: Any, n_in: int | None = None) -> Any:
    """Return a network of pairs (observation, action), or of pairs (observation, vector of `n_in` numbers)."""
    body = layers.critic_body(spaces.obs, spaces.action_size() if n_in is None else n_in)
    return layers.sequence([*body.layers, layers.linear(body.size, n_out), *last])
