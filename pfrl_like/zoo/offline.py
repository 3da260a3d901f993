"""Builder of the agents that learn from recorded data."""

import dataclasses
from collections.abc import Callable
from typing import Any

from pfrl_like.utils.checks import check_counts
from pfrl_like.zoo.builder import Spaces, compose_agent
from pfrl_like.zoo.composition import parts, variable
from pfrl_like.zoo.networks import Layers, in_sequence
from pfrl_like.zoo.value_based import q_learning

#: Kind of the policy of each agent, see `_head`. The policy of BCQ is a perturbation of actions.
_POLICIES = {
    **dict.fromkeys(["BC", "DecisionTransformer", "TD3PlusBC", "ReBRAC"], "deterministic"),
    **dict.fromkeys(["AWAC", "AWR", "IQL"], "gaussian"),
    **dict.fromkeys(["BEAR", "CQL", "CalQL", "COMBO", "CRR", "EDAC"], "squashed"),
    **dict.fromkeys(["DiscreteAWR", "DiscreteBC", "DiscreteDecisionTransformer"], "categorical"),
    "BCQ": "perturbation",
}
#: Agents that have no critics.
_IMITATORS = ("BC", "DiscreteBC", "DecisionTransformer", "DiscreteDecisionTransformer")
#: Agents whose actions are discrete, and that are variants of DQN.
_VALUE_BASED = ("DiscreteBCQ", "DiscreteCQL")
#: Agents whose policy has an entropy near a target.
_SOFT = ("BEAR", "CQL", "CalQL", "COMBO", "EDAC")
#: Agents of this builder.
NAMES = (*_POLICIES, *_VALUE_BASED)

_own = parts.pfrl_like.nn
_Adam = Callable[[Any, float], Any]


def offline(
    name: str,
    spaces: Spaces,
    *,
    hidden_sizes: Any = (256, 256),
    activation: str = "ReLU",
    layer_norm: bool = False,
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
    policy_layers = Layers(tuple(hidden_sizes), activation, standardize=_standardize(spaces, obs_mean, obs_std))
    critic_layers = dataclasses.replace(policy_layers, layer_norm=layer_norm)
    if name == "DiscreteBCQ":
        arguments.setdefault("imitator", _policy("categorical", policy_layers, spaces))
    if name in _VALUE_BASED:
        arguments = {"explorer": parts.explorers.Greedy()} | arguments
        network = {"hidden_sizes": hidden_sizes, "activation": activation, "layer_norm": layer_norm}
        settings = {"lr": critic_lr, "adam_eps": adam_eps, "gamma": gamma, "capacity": capacity}
        return q_learning(name, spaces, standardize=critic_layers.standardize, **network, **settings, **arguments)

    def adam(module: Any, lr: float) -> Any:
        return None if module is None else parts.torch.optim.Adam(module.parameters(), lr=lr, eps=adam_eps)

    sequences = name.endswith("DecisionTransformer")
    if sequences:
        if arguments.get("target_return") is None:
            raise TypeError(f"target_return is missing, the return that {name} aims at in each episode: pass a number")
        sizes = {"hidden_size": hidden_size, "context_size": context_size, "n_layers": n_layers, "n_heads": n_heads}
        policy = _transformer(name, policy_layers, spaces, **sizes, dropout=dropout)
    else:
        policy = _policy(_POLICIES[name], policy_layers, spaces)
    policy = arguments.setdefault("policy", policy)
    arguments.setdefault("optimizer" if name in _IMITATORS else "policy_optimizer", adam(policy, actor_lr))
    buffer = parts.replay_buffers.EpisodicReplayBuffer if sequences else parts.replay_buffers.ReplayBuffer
    arguments.setdefault("replay_buffer", buffer(capacity))
    if name in _IMITATORS:
        return compose_agent(name, **arguments)
    if name.endswith("AWR") or name == "IQL":
        v_func = arguments.setdefault("v_func", _value(critic_layers, spaces))
        arguments.setdefault("v_func_optimizer", adam(v_func, critic_lr))
    if not name.endswith("AWR"):
        size = spaces.action_size()
        n_critics = n_critics or (10 if name == "EDAC" else 2)
        _add_critics(arguments, n_critics, lambda: critic_layers.critic(spaces.obs, size), adam, critic_lr)
        if name in ("BCQ", "BEAR"):
            imitator = arguments.setdefault("imitator", _autoencoder(policy_layers, spaces, latent_size or 2 * size))
            arguments.setdefault("imitator_optimizer", adam(imitator, imitator_lr))
        if name in _SOFT:
            arguments.setdefault("entropy_target", -size)
        if name in ("TD3PlusBC", "ReBRAC"):
            arguments.setdefault("explorer", parts.explorers.Greedy())
    return compose_agent(name, gamma=gamma, **arguments)


def _standardize(spaces: Spaces, mean: Any, std: Any) -> Any:
    """Return the layer that standardises observations, which all networks share, or None if there are no numbers."""
    if mean is None and std is None:
        return None
    shape = getattr(spaces.obs, "shape", None)
    for setting, numbers in {"obs_mean": mean, "obs_std": std}.items():
        if numbers is None or shape != (len(numbers),):
            raise ValueError(f"{setting} is {numbers!r:.80}, expected a list of one number for each of {spaces.obs}")
    return variable("standardize", _own.Standardize([*map(float, mean)], [*map(float, std)]))


def _head(kind: str, n_in: int, spaces: Spaces) -> list[Any]:
    """Return the last layers of a policy."""
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


def _policy(kind: str, layers: Layers, spaces: Spaces) -> Any:
    if kind == "perturbation":
        size = spaces.action_size()
        return in_sequence([layers.critic(spaces.obs, size, size), parts.nn.Tanh()])
    body = layers.body(spaces.obs)
    return in_sequence([*body.layers, *_head(kind, body.size, spaces)])


def _value(layers: Layers, spaces: Spaces) -> Any:
    body = layers.body(spaces.obs)
    return in_sequence([*body.layers, layers.linear(body.size, 1, 1.0)])


def _transformer(name: str, layers: Layers, spaces: Spaces, **settings: Any) -> Any:
    first, size, discrete = layers.first(spaces.obs), settings["hidden_size"], name.startswith("Discrete")
    embedding = in_sequence([*first.layers, parts.nn.Linear(first.size, size)])
    n_actions = spaces.n_actions() if discrete else spaces.action_size()
    head = in_sequence(_head(_POLICIES[name], size, spaces))
    return _own.ReturnConditionedTransformer(embedding, n_actions, head, discrete=discrete, **settings)


def _autoencoder(layers: Layers, spaces: Spaces, latent_size: int) -> Any:
    size = spaces.action_size()
    encoder = layers.critic(spaces.obs, size, 2 * latent_size)
    decoder = layers.critic(spaces.obs, latent_size, size)
    return _own.ConditionalVAE(encoder, decoder, latent_size)


def _add_critics(arguments: dict[str, Any], n: int, make: Callable[[], Any], adam: _Adam, lr: float) -> None:
    """Add critics and their optimisers to the arguments of an agent."""
    check_counts(least=2, n_critics=n)
    for i in (1, 2):
        critic = arguments.setdefault(f"q_func{i}", make())
        arguments.setdefault(f"q_func{i}_optimizer", adam(critic, lr))
    if n > 2:
        further = [variable(f"q_func{i}", make()) for i in range(3, n + 1)]
        further = arguments.setdefault("further_q_funcs", further)
        arguments.setdefault("further_q_func_optimizers", [adam(critic, lr) for critic in further])
