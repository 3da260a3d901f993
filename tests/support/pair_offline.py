"""Agents of offline algorithms that are made of other parts than policy and critics: what fits, how they are made."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gymnasium import spaces
from network_parts import (
    BOX,
    CRITICS,
    HEADS,
    HIDDEN,
    N_ACTIONS,
    OBS,
    VALUES,
    features,
    in_a_row,
    make_critic,
    make_policy,
    make_q_function,
    make_value,
    policy_layers,
)
from pair_base import (
    BUFFERS,
    DENSITIES,
    EPISODIC,
    EXPLORERS,
    ONLY_CONTINUOUS,
    RECURRENT,
    Case,
    Family,
    adam,
    draw,
    is_of_goals,
    misfit_in_buffer,
    of_networks,
    policy_space,
    replay,
)
from torch import nn

from pfrl_like import agents
from pfrl_like.nn import ConcatObsAndAction, ConditionalVAE, ReturnConditionedTransformer

# Imitation


def make_imitator(case: Case, folder: Path) -> Any:
    policy = make_policy(case["policy"], of_networks(case))
    options = {name: value for name, value in replay(case, folder).items() if name != "gamma"}
    return getattr(agents, case["agent"])(policy, adam(policy), **options)


def imitator_misfits(case: Case) -> Iterator[str]:
    if case["policy"] not in (("softmax",) if case["agent"] == "DiscreteBC" else ("deterministic", *DENSITIES)):
        yield "policy"
    if misfit_in_buffer(case):
        yield "replay_buffer"


IMITATORS = Family(
    ("BC", "DiscreteBC"), {"policy": HEADS, "recurrent": RECURRENT, "replay_buffer": BUFFERS},
    make_imitator, imitator_misfits, policy_space,
)  # fmt: skip

# Regression

#: Some steps of an iteration of AWR.
ITERATION = {"n_critic_updates": 2, "n_actor_updates": 2, "batch_size_per_update": 3}


def make_regressing(case: Case, folder: Path) -> Any:
    policy, value = make_policy(case["policy"], of_networks(case)), make_value(of_networks(case))
    options = {**ITERATION, **replay(case, folder)}
    return getattr(agents, case["agent"])(policy, value, adam(policy), adam(value), **options)


def regressing_misfits(case: Case) -> Iterator[str]:
    if case["policy"] not in (("softmax",) if case["agent"] == "DiscreteAWR" else DENSITIES):
        yield "policy"
    if misfit_in_buffer(case) or is_of_goals(case):
        yield "replay_buffer"


REGRESSING = Family(
    ("AWR", "DiscreteAWR"), {"policy": HEADS, "recurrent": RECURRENT, "replay_buffer": BUFFERS},
    make_regressing, regressing_misfits, policy_space,
)  # fmt: skip

# What is constrained to actions like the recorded ones

LATENT = 3
NOT_RECURRENT = {"recurrent": (False,), "replay_buffer": BUFFERS}


def make_vae() -> ConditionalVAE:
    """A model of actions."""
    sizes = (OBS + N_ACTIONS, 2 * LATENT), (OBS + LATENT, N_ACTIONS)
    encoder, decoder = [of_pairs(False, n_inputs, n_outputs) for n_inputs, n_outputs in sizes]
    return ConditionalVAE(encoder, nn.Sequential(decoder, nn.Tanh()), LATENT)


def of_pairs(recurrent: bool, n_inputs: int, n_outputs: int) -> nn.Module:
    """A network of pairs."""
    return in_a_row(recurrent, ConcatObsAndAction(), *features(recurrent, n_inputs), nn.Linear(HIDDEN, n_outputs))


def make_bcq(case: Case, folder: Path) -> Any:
    policy = of_pairs(of_networks(case), OBS + N_ACTIONS, N_ACTIONS)
    critics, vae = [make_critic(case["q_func"]) for _ in range(case["n_critics"])], make_vae()
    of_critics = [adam(critic) for critic in critics]
    options = {"imitator": vae, "imitator_optimizer": adam(vae), "n_action_samples": 4, **replay(case, folder)}
    if len(critics) > 2:
        options |= {"further_q_funcs": critics[2:], "further_q_func_optimizers": of_critics[2:]}
    return agents.BCQ(policy, *critics[:2], adam(policy), *of_critics[:2], **options)


def constrained_misfits(case: Case) -> Iterator[str]:
    if case.get("explorer") in ONLY_CONTINUOUS:
        yield "explorer"
    if case.get("q_function") == "quadratic":
        yield "q_function"
    if misfit_in_buffer(case):
        yield "replay_buffer"


def bcq_space(case: Case) -> spaces.Space[Any]:
    return BOX


def make_discrete_bcq(case: Case, folder: Path) -> Any:
    q_function, imitator = make_q_function(case["q_function"], of_networks(case)), make_policy("softmax")
    explorer = EXPLORERS[case["explorer"]](functools.partial(draw, discrete_bcq_space(case)))
    options = {"explorer": explorer, "imitator": imitator, "target_update_interval": 4, **replay(case, folder)}
    return agents.DiscreteBCQ(q_function, adam(q_function, imitator), **options)


def discrete_bcq_space(case: Case) -> spaces.Space[Any]:
    return spaces.Discrete(N_ACTIONS)


def make_bear(case: Case, folder: Path) -> Any:
    policy = make_policy(case["policy"], of_networks(case))
    imitator = make_vae() if case["imitator"] == "autoencoder" else make_policy(case["imitator"])
    critics = [make_critic(case["q_func"]) for _ in range(case["n_critics"])]
    of_critics = [adam(critic) for critic in critics]
    options = {"imitator": imitator, "imitator_optimizer": adam(imitator), "n_action_samples": 2}
    options |= {"entropy_target": 0.1, "mmd_sigma": 1.0, **replay(case, folder)}
    if len(critics) > 2:
        options |= {"further_q_funcs": critics[2:], "further_q_func_optimizers": of_critics[2:]}
    return agents.BEAR(policy, *critics[:2], adam(policy), *of_critics[:2], **options)


def bear_misfits(case: Case) -> Iterator[str]:
    if case["policy"] not in DENSITIES:
        yield "policy"
    if case["imitator"] == "softmax":
        yield "imitator"
    if misfit_in_buffer(case):
        yield "replay_buffer"


CONSTRAINED = (
    Family(
        ("BEAR",),
        {"policy": HEADS, "q_func": CRITICS, "imitator": ("autoencoder", "Gaussian", "softmax"), **NOT_RECURRENT,
         "n_critics": (2, 3)},
        make_bear, bear_misfits, policy_space,
    ),
    Family(
        ("BCQ",), {"q_func": CRITICS, **NOT_RECURRENT, "n_critics": (2, 3)}, make_bcq, constrained_misfits, bcq_space
    ),
    Family(
        ("DiscreteBCQ",), {"q_function": VALUES, "explorer": EXPLORERS, **NOT_RECURRENT},
        make_discrete_bcq, constrained_misfits, discrete_bcq_space,
    ),
)  # fmt: skip

# Sequences


def make_transformer(case: Case, folder: Path) -> Any:
    discrete = case["agent"].startswith("Discrete")
    last = policy_layers("softmax" if discrete else case["policy"])
    policy: nn.Module = ReturnConditionedTransformer(
        nn.Linear(OBS, HIDDEN), N_ACTIONS, nn.Sequential(*last), discrete=discrete, hidden_size=HIDDEN, context_size=3,
        n_layers=1,
    )  # fmt: skip
    policy = make_policy("softmax", True) if of_networks(case) else policy
    options = {name: value for name, value in replay(case, folder).items() if name != "gamma"}
    return getattr(agents, case["agent"])(policy, adam(policy), target_return=1.0, **options)


def transformer_misfits(case: Case) -> Iterator[str]:
    if case["replay_buffer"] not in EPISODIC:
        yield "replay_buffer"


def transformer_space(case: Case) -> spaces.Space[Any]:
    return discrete_bcq_space(case) if case["agent"].startswith("Discrete") else BOX


TRANSFORMERS = Family(
    ("DecisionTransformer", "DiscreteDecisionTransformer"), {"policy": ("deterministic", *DENSITIES), **NOT_RECURRENT},
    make_transformer, transformer_misfits, transformer_space,
)  # fmt: skip
