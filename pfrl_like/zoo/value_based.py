"""Builders of DQN and its variants."""

import dataclasses
import math
from typing import Any

from pfrl_like.utils.checks import check_flags
from pfrl_like.zoo.builder import Spaces, compose_agent, make_adam, make_buffer
from pfrl_like.zoo.composition import Given, parts, variable
from pfrl_like.zoo.networks import Layers, in_sequence

_heads = parts.q_functions


def q_learning(
    name: str,
    spaces: Spaces,
    *,
    hidden_sizes: Any = (256, 256),
    activation: str = "ReLU",
    layer_norm: bool = False,
    noise: float | None = None,
    recurrent: bool = False,
    dueling: bool = False,
    stream_sizes: Any = (),
    standardize: Any = None,
    n_atoms: int = 51,
    v_min: float = -100.0,
    v_max: float = 100.0,
    n_quantiles: int = 51,
    n_cosines: int = 64,
    n_fractions: int = 8,
    entropy_coeff: float = 1e-3,
    fraction_lr: float = 1e-3,
    lr: float = 1e-3,
    adam_eps: float = 1e-8,
    gamma: float = 0.99,
    capacity: int | None = 50_000,
    num_steps: int = 1,
    by_length: bool = True,
    prioritized: Any = None,
    start_epsilon: float = 1.0,
    end_epsilon: float = 0.05,
    exploration_steps: int = 10_000,
    q_function: Any = None,
    optimizer: Any = None,
    replay_buffer: Any = None,
    explorer: Any = None,
    **arguments: Any,
) -> Any:
    """Compose DQN or one of its variants.

    Args:
        name: Class of the agent.
        spaces: Spaces of the environment. Actions must be Discrete.
        hidden_sizes: Sizes of the hidden layers.
        activation: One of `networks.ACTIVATIONS`.
        layer_norm: True to normalise the hidden layers.
        noise: Initial scale of noisy linear layers (arXiv:1706.10295), which explore in place of epsilon-greedy. None
            for layers without noise. In a dueling network, only the layers of the two streams are noisy.
        recurrent: True for a GRU in place of the last hidden layer. The replay buffer then has episodes.
        dueling: True for a dueling network (arXiv:1511.06581): two streams after the hidden layers, one for advantages
            and one for values.
        stream_sizes: Sizes of further hidden layers in each of the two streams.
        standardize: Layer that standardises observations, for example `Standardize`. None for observations as they are.
        n_atoms: Number of returns of a categorical Q-function (arXiv:1707.06887).
        v_min: Lowest return of a categorical Q-function.
        v_max: Highest return of a categorical Q-function.
        n_quantiles: Number of quantiles of QRDQN.
        n_cosines: Number of cosines of IQN and FQF.
        n_fractions: Number of fractions of FQF.
        entropy_coeff: Weight of the entropy of FQF's fractions.
        fraction_lr: Learning rate of FQF's fractions, as a multiple of `lr`.
        lr: Learning rate of Adam.
        adam_eps: Epsilon of Adam.
        gamma: Discount factor per step.
        capacity: Maximum number of steps in the replay buffer. None for no limit.
        num_steps: Number of steps of n-step returns.
        by_length: True to draw episodes in proportion to their lengths. Only for recurrent networks.
        prioritized: Arguments of `PrioritizedReplayBuffer`. None for a uniform buffer.
        start_epsilon: Probability of random actions at the first step.
        end_epsilon: Probability of random actions after `exploration_steps`.
        exploration_steps: Number of steps in which epsilon falls.
        q_function: Composition in place of the default Q-function.
        optimizer: Composition in place of Adam.
        replay_buffer: Composition in place of the default replay buffer.
        explorer: Composition in place of the default explorer.
        **arguments: Other arguments of the agent.

    Raises:
        ValueError: If the actions are not Discrete, or `stream_sizes` is not empty although `dueling` is False.
    """
    n_actions = spaces.n_actions()
    check_flags(dueling=dueling)
    if stream_sizes and not dueling:
        raise ValueError(f"stream_sizes is {stream_sizes!r:.80}, but dueling is False: set dueling=True")
    if q_function is None:
        options = {"noise": noise, "recurrent": recurrent, "standardize": standardize}
        layers = Layers(hidden_sizes, activation, layer_norm, **options)
        body = (dataclasses.replace(layers, noise=None) if dueling else layers).body(spaces.obs)
        hidden, size = body.layers, body.size
        after = dataclasses.replace(layers, hidden_sizes=stream_sizes, recurrent=False)
        if "IQN" in name or name == "FQF":
            embedding = in_sequence([_heads.CosineBasisLinear(n_cosines, size), parts.nn.ReLU()])
            last = in_sequence(_outputs(after, size, (n_actions,), dueling))
            if name == "FQF":
                proposal = parts.nn.Linear(size, n_fractions)
                q_function = _heads.FullyParametrizedQFunction(
                    layers.sequence(hidden), embedding, last, proposal, entropy_coeff
                )
            else:
                kind = "RecurrentImplicitQuantileQFunction" if recurrent else "ImplicitQuantileQFunction"
                psi = layers.sequence(hidden)
                q_function = getattr(_heads, kind)(psi, embedding, last)
        elif name.startswith("Categorical"):
            model = in_sequence([*_outputs(after, size, (n_actions, n_atoms), dueling), parts.nn.Softmax(-1)])
            returns = parts.torch.linspace(v_min, v_max, n_atoms)
            last = _heads.DistributionalSingleModelStateQFunctionWithDiscreteAction(model, returns)
            q_function = layers.sequence([*hidden, last])
        elif name == "QRDQN":
            quantiles = in_sequence(_outputs(after, size, (n_quantiles, n_actions), dueling, dim=2))
            last = _heads.QuantileSingleModelStateQFunctionWithDiscreteAction(quantiles)
            q_function = layers.sequence([*hidden, last])
        else:
            head = _heads.DiscreteActionValueHead()
            q_function = layers.sequence([*hidden, *_outputs(after, size, (n_actions,), dueling), head])
    if optimizer is None:
        params = q_function.parameters()
        if name == "FQF":
            params = _heads.fqf_parameter_groups(q_function, lr=lr * fraction_lr, lr_factor=fraction_lr)
        if "imitator" in arguments:
            params = parts.nn.ModuleList([q_function, arguments["imitator"]]).parameters()
        optimizer = make_adam(params, lr, adam_eps)
    if replay_buffer is None:
        replay_buffer = make_buffer(capacity, num_steps, recurrent, by_length, prioritized)
        if recurrent:
            arguments.setdefault("num_steps", num_steps)
    if explorer is None:
        sample = Given("env").action_space.sample
        decay = parts.explorers.LinearDecayEpsilonGreedy(start_epsilon, end_epsilon, exploration_steps, sample)
        explorer = decay if noise is None else parts.explorers.Greedy()
    if recurrent:
        arguments["recurrent"] = True
    made = {"q_function": q_function, "optimizer": optimizer, "replay_buffer": replay_buffer, "explorer": explorer}
    return compose_agent(name, gamma=gamma, **made, **arguments)


def _outputs(layers: Layers, size: int, shape: tuple[int, ...], dueling: bool, dim: int = 1) -> list[Any]:
    """Return the last layers of a Q-function.

    Args:
        layers: How the layers are made. Its hidden layers come first.
        size: Number of features.
        shape: Shape of the outputs of one state.
        dueling: True for two streams.
        dim: Axis of the actions in the outputs of a batch of states, [B, *shape].
    """
    if dueling:
        of_values = (*shape[: dim - 1], 1, *shape[dim:])
        advantage = variable("advantage", in_sequence(_outputs(layers, size, shape, dueling=False)))
        value = variable("value", in_sequence(_outputs(layers, size, of_values, dueling=False)))
        return [_heads.DuelingStreams(advantage, value, **({} if dim == 1 else {"dim": dim}))]
    hidden, size = layers.hidden(size)
    unflatten = [parts.nn.Unflatten(-1, shape)] if len(shape) > 1 else []
    return [*hidden, layers.linear(size, math.prod(shape)), *unflatten]
