"""Builders of agents that learn from their own last steps: PPO, TRPO, A2C, IMPALA, APPO, REINFORCE, A3C, ACER."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from pfrl_like.utils.env_values import numbers_of_choices, space_kind
from pfrl_like.zoo.builder import Spaces, compose_agent, make_adam, make_buffer
from pfrl_like.zoo.composition import parts, variable
from pfrl_like.zoo.networks import Body, Layers

_own = parts.pfrl_like.nn
#: Arguments that the constructors require.
_REQUIRED: dict[str, dict[str, Any]] = {
    "A2C": {"gamma": 0.99, "num_processes": 1},
    "A3C": {"t_max": 20, "gamma": 0.99},
    "ACER": {"t_max": 20, "gamma": 0.99},
}
#: Agents that have an `obs_normalizer`.
_NORMALIZING = ("PPO", "TRPO", "IMPALA", "APPO")


def on_policy(
    name: str,
    spaces: Spaces,
    *,
    hidden_sizes: Any = (64, 64),
    activation: str = "Tanh",
    layer_norm: bool = False,
    orthogonal: bool = True,
    recurrent: bool = False,
    normalize: bool = False,
    lr: float = 1e-3,
    adam_eps: float = 1e-8,
    policy: Any = None,
    vf: Any = None,
    model: Any = None,
    optimizer: Any = None,
    **arguments: Any,
) -> Any:
    """Compose PPO, TRPO, A2C, IMPALA, APPO, REINFORCE or A3C.

    Policy and value function are separate networks. If the observations have images, the two have all layers but the
    last ones in common, except in TRPO.

    Args:
        name: Class of the agent.
        spaces: Spaces of the environment. Actions are Discrete, MultiDiscrete, MultiBinary, or a Box of one axis.
        hidden_sizes: Sizes of the hidden layers.
        activation: One of `networks.ACTIVATIONS`.
        layer_norm: True to normalise the hidden layers.
        orthogonal: True for orthogonal initial weights, which are small in the last layer of the policy
            (arXiv:2005.12729, section 3).
        recurrent: True for a GRU in place of the last hidden layer.
        normalize: True to normalise the observations with the mean and variance of all observations so far. Only for
            PPO, TRPO, IMPALA and APPO, and for vectors.
        lr: Learning rate of Adam.
        adam_eps: Epsilon of Adam.
        policy: Composition in place of the default policy.
        vf: Composition in place of the default value function.
        model: Composition in place of the whole model, from observations to (distribution of actions, value), or to
            a distribution of actions for REINFORCE. TRPO has no model.
        optimizer: Composition in place of Adam. TRPO's optimiser only trains the value function.
        **arguments: Other arguments of the agent.

    Raises:
        ValueError: If `normalize` is True, but the agent or the observations do not allow it.
    """
    layers = Layers(hidden_sizes, activation, layer_norm, orthogonal, recurrent=recurrent)
    given = {"model": model, "policy": policy, "vf": vf}
    made = _networks(name, layers, spaces, {key: part for key, part in given.items() if part is not None})
    if normalize:
        if name not in _NORMALIZING or space_kind(spaces.obs) != "box" or len(spaces.obs.shape) != 1:
            raise ValueError(
                f"normalize is True for {name} with the observation space {spaces.obs}, expected one of "
                f"{', '.join(_NORMALIZING)}, and a Box of one axis; set normalize=False"
            )
        made["obs_normalizer"] = _own.EmpiricalNormalization(spaces.obs.shape[0], clip_threshold=5)
    return _agent(name, made, optimizer, lr, adam_eps, recurrent, arguments)


def _networks(name: str, layers: Layers, spaces: Spaces, given: dict[str, Any]) -> dict[str, Any]:
    """Return the networks as arguments of the constructor.

    Args:
        name: Class of the agent.
        layers: How layers are made.
        spaces: Spaces of the environment.
        given: Compositions in place of "model", "policy" and "vf". The result contains those that have no use, and the
            constructor refuses them.
    """
    if "model" in given and name != "TRPO":
        return given
    if name == "REINFORCE":
        return {"model": given.pop("policy", None) or _policy(layers, spaces), **given}
    if name != "TRPO" and not given and layers.body(spaces.obs).has_images:
        body, last, features = _split(layers, spaces)
        policy, vf = variable("policy", _policy(last, features)), variable("vf", _value(last, features))
        return {"model": layers.sequence([*body, _own.Branched(policy, vf)])}
    policy = variable("policy", given.pop("policy", None) or _policy(layers, spaces))
    vf = variable("vf", given.pop("vf", None) or _value(layers, spaces))
    if name == "TRPO":
        return {"policy": policy, "vf": vf, **given}
    return {"model": (_own.RecurrentBranched if layers.recurrent else _own.Branched)(policy, vf)}


def acer(
    name: str,
    spaces: Spaces,
    *,
    hidden_sizes: Any = (64, 64),
    activation: str = "Tanh",
    layer_norm: bool = False,
    orthogonal: bool = True,
    recurrent: bool = False,
    lr: float = 1e-3,
    adam_eps: float = 1e-8,
    capacity: int = 50_000,
    by_length: bool = True,
    n_samples: int = 5,
    model: Any = None,
    optimizer: Any = None,
    replay_buffer: Any = None,
    **arguments: Any,
) -> Any:
    """Compose ACER.

    Policy and critics are separate networks. If the network is recurrent, or if the observations have images, they have
    all layers but the last ones in common.

    Args:
        name: Class of the agent, "ACER".
        spaces: Spaces of the environment. Actions are Discrete or a Box of one axis.
        hidden_sizes: Sizes of the hidden layers.
        activation: One of `networks.ACTIVATIONS`.
        layer_norm: True to normalise the hidden layers.
        orthogonal: True for orthogonal initial weights, which are small in the last layer of the policy
            (arXiv:2005.12729, section 3).
        recurrent: True for a GRU in place of the last hidden layer.
        lr: Learning rate of Adam.
        adam_eps: Epsilon of Adam.
        capacity: Maximum number of steps in the replay buffer of each process.
        by_length: True to draw episodes in proportion to their lengths.
        n_samples: Number of actions with which the mean advantage of continuous actions is estimated.
        model: Composition in place of the whole model.
        optimizer: Composition in place of Adam.
        replay_buffer: Composition in place of the default replay buffer.
        **arguments: Other arguments of the agent.

    Raises:
        ValueError: If the actions are neither Discrete nor a Box of one axis.
    """
    if model is None:
        layers = Layers(hidden_sizes, activation, layer_norm, orthogonal, recurrent=recurrent)
        if recurrent or layers.body(spaces.obs).has_images:
            body, last, features = _split(layers, spaces)
            model = layers.sequence([*body, _acer_head(last, features, layers.hidden_sizes[-1:], n_samples)])
        else:
            model = _acer_head(layers, spaces, layers.hidden_sizes, n_samples)
    if replay_buffer is None:
        replay_buffer = make_buffer(capacity, recurrent=True, by_length=by_length)
    made = {"model": model, "replay_buffer": replay_buffer}
    return _agent(name, made, optimizer, lr, adam_eps, recurrent, arguments)


def _acer_head(layers: Layers, spaces: Spaces, advantage_sizes: Sequence[int], n_samples: int) -> Any:
    """Return the head of ACER. The advantage of continuous actions has hidden layers of `advantage_sizes`."""
    if space_kind(spaces.action) not in ("discrete", "box"):
        raise ValueError(f"the action space is {spaces.action}, expected Discrete or a Box of one axis for ACER")
    policy = variable("policy", _policy(layers, spaces))
    if space_kind(spaces.action) == "discrete":
        q_head = parts.q_functions.DiscreteActionValueHead()
        q_function = _network(layers, layers.body(spaces.obs), spaces.n_actions(), 1.0, q_head)
        return parts.agents.acer.ACERDiscreteActionHead(policy, variable("q_function", q_function))
    vf = variable("vf", _value(layers, spaces))
    layers = dataclasses.replace(layers, hidden_sizes=advantage_sizes)
    advantage = _network(layers, layers.critic_body(spaces.obs, spaces.action_size()), 1)
    return parts.agents.acer.ACERContinuousActionHead(policy, vf, variable("advantage", advantage), n_samples)


def _agent(
    name: str, made: dict[str, Any], optimizer: Any, lr: float, adam_eps: float, recurrent: bool, arguments: Any
) -> Any:
    """Return the agent made of the parts `made`, of Adam, unless there is an optimiser, and of other arguments."""
    trained, key = ("vf", "vf_optimizer") if name == "TRPO" else ("model", "optimizer")
    if optimizer is None:
        optimizer = make_adam(made[trained].parameters(), lr, adam_eps)
    recurrence = {"recurrent": True} if recurrent else {}
    defaults = {key: optimizer, **_REQUIRED.get(name, {}), **recurrence, "act_deterministically": True}
    return compose_agent(name, **{**made, **defaults, **arguments})


def _split(layers: Layers, spaces: Spaces) -> tuple[Any, Layers, Spaces]:
    """Return the layers that all heads have in common, how the heads' layers are made, and the spaces of the heads."""
    body = layers.body(spaces.obs)
    features = gymnasium.spaces.Box(-np.inf, np.inf, (body.size,), np.float32)
    return body.layers, dataclasses.replace(layers, hidden_sizes=(), recurrent=False), Spaces(features, spaces.action)


def _policy(layers: Layers, spaces: Spaces) -> Any:
    """Return a policy, from observations to distributions of actions."""
    heads, kind = parts.policies, space_kind(spaces.action)
    if kind == "discrete":
        size, head = spaces.n_actions(), heads.SoftmaxCategoricalHead()
    elif kind == "box":
        size = spaces.action_size()
        head = heads.GaussianHeadWithStateIndependentCovariance(size, "diagonal", heads.variance_of_log_scale)
    else:
        choices = numbers_of_choices(spaces.action)
        size, head = sum(choices), heads.MultiCategoricalHead(choices)
    return _network(layers, layers.body(spaces.obs), size, 0.01, head)


def _value(layers: Layers, spaces: Spaces) -> Any:
    """Return a network from observations to state values, [B, 1]."""
    return _network(layers, layers.body(spaces.obs), 1)


def _network(layers: Layers, body: Body, n_out: int, gain: float = 1.0, *head: Any) -> Any:
    """Return a network that begins with `body` and has `n_out` outputs, or ends in a head."""
    return layers.sequence([*body.layers, layers.linear(body.size, n_out, gain), *head])
