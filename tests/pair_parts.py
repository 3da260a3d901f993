"""Every agent with every combination of its parts: what there is, what fits, and how it is made.

A case names the parts that an agent is made of. Families of agents that are made alike have the same kinds of parts.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from network_parts import (
    BOX,
    CRITICS,
    HEADS,
    HIDDEN,
    N_ACTIONS,
    OBS,
    RECURRENT_CRITICS,
    VALUES,
    features,
    in_a_row,
    make_critic,
    make_policy,
    make_q_function,
    make_value,
    policy_layers,
)
from on_policy_parts import ON_POLICY, make_on_policy
from torch import nn

from pfrl_like import agents, explorers, replay_buffers
from pfrl_like.agents.acer import ACERContinuousActionHead, ACERDiscreteActionHead
from pfrl_like.nn import Branched, ConcatObsAndAction
from pfrl_like.utils.goals import ACHIEVED_GOAL, DESIRED_GOAL, OBSERVATION, concatenate_goal

Case = dict[str, Any]


class Noise(gymnasium.Env[Any, Any]):
    """Random observations and rewards; every fourth step ends an episode, which is terminated and cut off in turn.

    Args:
        action_space: Its actions, which change nothing.
        goals: Whether observations are those of a goal environment.
    """

    N_GOAL = 2

    def __init__(self, action_space: spaces.Space[Any], goals: bool = False) -> None:
        self.action_space, self.goals, self.t = action_space, goals, 0
        parts = {OBSERVATION: OBS - self.N_GOAL, ACHIEVED_GOAL: self.N_GOAL, DESIRED_GOAL: self.N_GOAL}
        boxes = {name: spaces.Box(-np.inf, np.inf, (size,), np.float32) for name, size in parts.items()}
        self.observation_space = spaces.Dict(boxes) if goals else spaces.Box(-np.inf, np.inf, (OBS,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        ends = self.t % 4 == 0
        return self.observe(), float(self.np_random.normal()), ends and self.t % 8 == 0, ends and self.t % 8 == 4, {}

    def observe(self) -> Any:
        space = self.observation_space
        boxes = space.spaces if isinstance(space, spaces.Dict) else {"": space}
        drawn = {name: self.np_random.normal(size=box.shape).astype(np.float32) for name, box in boxes.items()}
        return drawn if self.goals else drawn[""]


def agreement(achieved: Any, desired: Any, info: Any) -> Any:
    """The reward of goals."""
    return -np.square(achieved - desired).sum(-1)


# Explorers and replay buffers


def draw(space: Any) -> Any:
    """A random action, from NumPy's global stream."""
    if isinstance(space, spaces.Box):
        return np.random.uniform(space.low, space.high).astype(np.float32)
    return np.random.randint(space.n)


EXPLORERS: dict[str, Callable[[Callable[[], Any]], Any]] = {
    "Greedy": lambda sample: explorers.Greedy(),
    "ConstantEpsilonGreedy": lambda sample: explorers.ConstantEpsilonGreedy(0.3, sample),
    "LinearDecayEpsilonGreedy": lambda sample: explorers.LinearDecayEpsilonGreedy(1.0, 0.1, 20, sample),
    "ExponentialDecayEpsilonGreedy": lambda sample: explorers.ExponentialDecayEpsilonGreedy(1.0, 0.1, 0.9, sample),
    "Boltzmann": lambda sample: explorers.Boltzmann(),
    "AdditiveGaussian": lambda sample: explorers.AdditiveGaussian(0.1, -1.0, 1.0),
    "AdditiveOU": lambda sample: explorers.AdditiveOU(),
}
ONLY_DISCRETE, ONLY_CONTINUOUS = {"Boltzmann"}, {"AdditiveGaussian", "AdditiveOU"}

BUFFERS: dict[str, Callable[[Path], Any]] = {
    "ReplayBuffer": lambda folder: replay_buffers.ReplayBuffer(100),
    "PrioritizedReplayBuffer": lambda folder: replay_buffers.PrioritizedReplayBuffer(100, num_steps=3),
    "EpisodicReplayBuffer": lambda folder: replay_buffers.EpisodicReplayBuffer(100),
    "PrioritizedEpisodicReplayBuffer": lambda folder: replay_buffers.PrioritizedEpisodicReplayBuffer(100),
    "PersistentReplayBuffer": lambda folder: replay_buffers.PersistentReplayBuffer(folder / "buffer", 100, num_steps=3),
    "PersistentEpisodicReplayBuffer": lambda folder: replay_buffers.PersistentEpisodicReplayBuffer(
        folder / "buffer", 100
    ),
    "HindsightReplayBuffer": lambda folder: replay_buffers.HindsightReplayBuffer(
        100, agreement, terminated_fn=lambda achieved, desired, info: np.zeros(len(achieved), bool)
    ),
}
EPISODIC = {"EpisodicReplayBuffer", "PrioritizedEpisodicReplayBuffer", "PersistentEpisodicReplayBuffer"}
REPLAY = {"gamma": 0.9, "replay_start_size": 8, "minibatch_size": 4, "update_interval": 4}


def replay(case: Case, folder: Path) -> dict[str, Any]:
    """The arguments that all agents with a replay buffer have."""
    phi = {"phi": concatenate_goal} if is_of_goals(case) else {}
    recurrent = {"recurrent": True, "episodic_update_len": 3} if case["recurrent"] else {}
    return {"replay_buffer": BUFFERS[case["replay_buffer"]](folder), **REPLAY, **recurrent, **phi}


def is_of_goals(case: Case) -> bool:
    return case.get("replay_buffer") == "HindsightReplayBuffer"


def of_networks(case: Case) -> bool:
    """Whether the networks are recurrent, which the agent is told by `recurrent`."""
    return case.get("networks", case["recurrent"])


def misfit_in_buffer(case: Case) -> bool:
    if case["recurrent"]:
        return case["replay_buffer"] not in EPISODIC
    return case["replay_buffer"] == "PrioritizedEpisodicReplayBuffer"


def adam(*modules: nn.Module) -> Any:
    return torch.optim.Adam([param for module in modules for param in module.parameters()], lr=1e-2)


# Families of agents


@dataclasses.dataclass(frozen=True, eq=False)
class Family:
    """Agents that are made of the same kinds of parts.

    Attributes:
        kinds: The agents, by name.
        parts: What each part may be.
        make: Makes the agent of a case; persistent buffers lie in a folder.
        misfits: The arguments that do not fit the others.
        space: The actions of a case.
    """

    kinds: tuple[str, ...]
    parts: dict[str, Iterable[Any]]
    make: Callable[[Case, Path], Any]
    misfits: Callable[[Case], Iterator[str]]
    space: Callable[[Case], spaces.Space[Any]]

    def cases(self, agent: str) -> Iterator[Case]:
        """Every case of an agent."""
        for values in itertools.product(*self.parts.values()):
            yield {"agent": agent, **dict(zip(self.parts, values, strict=True))}

    @functools.cached_property
    def every_case(self) -> list[Case]:
        """The cases of all agents."""
        return [case for agent in self.kinds for case in self.cases(agent)]

    def fitting(self, agent: str) -> Iterator[Case]:
        """Those of them that should work."""
        return (case for case in self.cases(agent) if not [*self.misfits(case)])

    def env(self, case: Case) -> Noise:
        """An environment for the agent of a case."""
        return Noise(self.space(case), is_of_goals(case))


RECURRENT = (False, True)

# DQN and its kin

#: Which Q-functions an agent learns; all others learn any.
LEARNT = {
    **dict.fromkeys(("CategoricalDQN", "CategoricalDoubleDQN"), {"distributional", "distributional dueling"}),
    **dict.fromkeys(("IQN", "DoubleIQN"), {"implicit", "proposed"}),
    "QRDQN": {"quantile"},
    "FQF": {"proposed"},
    **dict.fromkeys(("DPP", "DiscreteCQL"), {*VALUES} - {"quadratic"}),
}
#: Critics in the place of a Q-function of the state.
STRANGERS = {"critic of numbers": "numbers", "critic of quantiles": "quantile"}


def make_value_agent(case: Case, folder: Path) -> Any:
    kind, recurrent = case["q_function"], of_networks(case)
    stranger = STRANGERS.get(kind)
    q_function = make_critic(stranger, recurrent) if stranger else make_q_function(kind, recurrent)
    explorer = EXPLORERS[case["explorer"]](functools.partial(draw, value_space(case)))
    make = getattr(agents, case["agent"])
    return make(q_function, adam(q_function), explorer=explorer, target_update_interval=4, **replay(case, folder))


def value_misfits(case: Case) -> Iterator[str]:
    if case["q_function"] not in LEARNT.get(case["agent"], VALUES):
        yield "q_function"
    if case["explorer"] in (ONLY_DISCRETE if case["q_function"] == "quadratic" else ONLY_CONTINUOUS):
        yield "explorer"
    if misfit_in_buffer(case):
        yield "replay_buffer"


def value_space(case: Case) -> spaces.Space[Any]:
    return BOX if case["q_function"] == "quadratic" else spaces.Discrete(N_ACTIONS)


VALUE_AGENTS = Family(
    ("DQN", "DoubleDQN", "CategoricalDQN", "CategoricalDoubleDQN", "AL", "PAL", "DoublePAL", "DPP", "QRDQN", "IQN",
     "DoubleIQN", "FQF", "DiscreteCQL"),
    {"q_function": (*VALUES, *STRANGERS), "explorer": EXPLORERS, "recurrent": RECURRENT, "replay_buffer": BUFFERS},
    make_value_agent, value_misfits, value_space,
)  # fmt: skip

# Actor-critics with replay

#: Critics that are not one kind of Q-function of state and action.
ODD_CRITICS: dict[str, Callable[[bool, int], nn.Module]] = {
    "of the state": lambda recurrent, i: make_q_function("expected", recurrent),
    "of several kinds": lambda recurrent, i: make_critic(("numbers", "quantile")[i % 2], recurrent),
}
EXPLORING = ("DDPG", "TD3", "TD3PlusBC", "ReBRAC")
#: Whose policy learns by the likelihood of recorded actions.
WEIGHTED = ("AWAC", "CRR", "IQL")
DENSITIES = ("Gaussian", "Gaussian, fixed", "Gaussian, learnt", "squashed")
#: Further arguments of an agent.
OWN: dict[str, dict[str, Any]] = {
    "DDPG": {"target_update_interval": 4},
    "REDQ": {"n_times_update": 2},
    "CrossQ": {"policy_update_delay": 2},
    "CRR": {"n_action_samples": 2},
}


def make_actor_critic(case: Case, folder: Path) -> Any:
    kind, recurrent = case["q_func"], of_networks(case)
    make = ODD_CRITICS.get(kind, lambda recurrent, i: make_critic(kind, recurrent))
    critics = [make(recurrent, i) for i in range(case["n_critics"])]
    return actor_critic(case, make_policy(case["policy"], recurrent), critics, folder)


def actor_critic(case: Case, policy: nn.Module, critics: list[nn.Module], folder: Path) -> Any:
    name, of_critics = case["agent"], [adam(critic) for critic in critics]
    options = {**OWN.get(name, {}), **replay(case, folder)}
    if name in EXPLORING:
        options["explorer"] = EXPLORERS[case["explorer"]](functools.partial(draw, policy_space(case)))
    elif name == "IQL":
        value = make_value(of_networks(case))
        options |= {"v_func": value, "v_func_optimizer": adam(value)}
    elif name not in WEIGHTED:
        options["entropy_target"] = 0.1
    if name == "REDQ":
        return agents.REDQ(policy, critics, adam(policy), of_critics, **options)
    if len(critics) > 2:
        options |= {"further_q_funcs": critics[2:], "further_q_func_optimizers": of_critics[2:]}
    return getattr(agents, name)(policy, *critics[:2], adam(policy), *of_critics[:2], **options)


def actor_critic_misfits(case: Case) -> Iterator[str]:
    name, kind = case["agent"], case["q_func"]
    if case["policy"] not in (("deterministic", *DENSITIES) if name in EXPLORING else DENSITIES):
        yield "policy"
    if (
        kind == "of the state"
        or (kind == "of several kinds" and case["n_critics"] > 1)
        or (name == "TQC" and kind not in ("quantile", "of several kinds"))
    ):
        yield "q_func"
    if case.get("explorer") in ONLY_DISCRETE:
        yield "explorer"
    if name == "CrossQ" and case["recurrent"] and kind in RECURRENT_CRITICS:
        yield "q_func"
    if misfit_in_buffer(case):
        yield "replay_buffer"


def policy_space(case: Case) -> spaces.Space[Any]:
    return HEADS[case["policy"]][2]


OF_ACTOR_CRITICS = {
    "policy": HEADS, "q_func": (*RECURRENT_CRITICS, *ODD_CRITICS), "recurrent": RECURRENT, "replay_buffer": BUFFERS,
    "n_critics": (2,),
}  # fmt: skip
#: Classes of critics, and more of them, in few surroundings.
FURTHER = {
    "policy": ("squashed",), "q_func": CRITICS, "recurrent": RECURRENT, "replay_buffer": ("EpisodicReplayBuffer",),
}  # fmt: skip
ACTOR_CRITIC = functools.partial(Family, make=make_actor_critic, misfits=actor_critic_misfits, space=policy_space)
NOISE = {"explorer": ("AdditiveGaussian",)}
SOFT = ("SoftActorCritic", "TQC", "REDQ", "CrossQ", "CQL", "EDAC")
ACTOR_CRITICS = (
    ACTOR_CRITIC(("DDPG",), {**OF_ACTOR_CRITICS, "n_critics": (1,), "explorer": EXPLORERS}),
    ACTOR_CRITIC(("TD3",), {**OF_ACTOR_CRITICS, "explorer": EXPLORERS}),
    ACTOR_CRITIC(("TD3PlusBC", "ReBRAC"), {**OF_ACTOR_CRITICS, **NOISE}),
    ACTOR_CRITIC((*SOFT, *WEIGHTED), OF_ACTOR_CRITICS),
    ACTOR_CRITIC(("DDPG",), {**FURTHER, "n_critics": (1,), **NOISE}),
    ACTOR_CRITIC(("TD3",), {**FURTHER, "n_critics": (2, 3), **NOISE}),
    ACTOR_CRITIC((*SOFT, *WEIGHTED), {**FURTHER, "n_critics": (2, 3)}),
)


def make_discrete_sac(case: Case, folder: Path) -> Any:
    kind, recurrent = case["q_func"], of_networks(case)
    make = make_critic if kind in CRITICS and kind not in VALUES else make_q_function
    critics = [make(kind, recurrent) for _ in range(case["n_critics"])]
    return actor_critic(case, make_policy(case["policy"], recurrent), critics, folder)


def discrete_sac_misfits(case: Case) -> Iterator[str]:
    if case["policy"] != "softmax":
        yield "policy"
    if case["q_func"] in ("quadratic", "numbers"):
        yield "q_func"
    if misfit_in_buffer(case):
        yield "replay_buffer"


DISCRETE_SAC = Family(
    ("DiscreteSAC",), {**OF_ACTOR_CRITICS, "q_func": (*VALUES, "numbers")},
    make_discrete_sac, discrete_sac_misfits, policy_space,
)  # fmt: skip

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

# Agents that learn from what they have just done


def make_on_policy_agent(case: Case, folder: Path) -> Any:
    recurrent = of_networks(case)
    if case["agent"] == "A3C":
        head = Branched(nn.Sequential(*policy_layers(case["policy"])), make_value_head())
        model = in_a_row(recurrent, *features(recurrent), head)
        return agents.A3C(model, adam(model), t_max=4, gamma=0.9, recurrent=case["recurrent"])
    nets = make_policy(case["policy"], recurrent), make_value(recurrent)
    return make_on_policy(case["agent"], case["recurrent"], nets=nets)


def make_value_head() -> nn.Module:
    return nn.Linear(HIDDEN, 1)


def on_policy_misfits(case: Case) -> Iterator[str]:
    if case["policy"] == "deterministic":
        yield "policy" if case["agent"] == "TRPO" else "model"


ON_POLICY_AGENTS = Family(
    (*ON_POLICY, "A3C"), {"policy": HEADS, "recurrent": RECURRENT}, make_on_policy_agent, on_policy_misfits,
    policy_space,
)  # fmt: skip


def make_acer(case: Case, folder: Path) -> Any:
    recurrent, kind = of_networks(case), case["q_function"]
    pi = nn.Sequential(*policy_layers(case["policy"]))
    if kind == "advantage":
        advantage = nn.Sequential(ConcatObsAndAction(), nn.Linear(HIDDEN + N_ACTIONS, 1))
        head: nn.Module = ACERContinuousActionHead(pi, make_value_head(), advantage)
    else:
        head = ACERDiscreteActionHead(pi, nn.Sequential(*VALUES[kind](N_ACTIONS)))
    model = in_a_row(recurrent, *features(recurrent), head)
    name = case["replay_buffer"]
    buffer = None if name is None else BUFFERS[name](folder)
    phi = concatenate_goal if is_of_goals(case) else None
    options = {"replay_start_size": 8, "n_times_replay": 1, "recurrent": case["recurrent"], "phi": phi}
    return agents.ACER(model, adam(model), 4, 0.9, buffer, **options)


def acer_misfits(case: Case) -> Iterator[str]:
    if case["policy"] not in (DENSITIES if case["q_function"] == "advantage" else ("softmax",)):
        yield "pi"
    if case["q_function"] == "quadratic":
        yield "q"
    if case["replay_buffer"] not in (None, *EPISODIC):
        yield "replay_buffer"


ACER = Family(
    ("ACER",),
    {"policy": HEADS, "q_function": (*VALUES, "advantage"), "recurrent": RECURRENT, "replay_buffer": (None, *BUFFERS)},
    make_acer, acer_misfits, policy_space,
)  # fmt: skip

FAMILIES = (VALUE_AGENTS, *ACTOR_CRITICS, DISCRETE_SAC, IMITATORS, ON_POLICY_AGENTS, ACER)
#: The first family of each agent has all its parts.
FAMILY = {agent: family for family in reversed(FAMILIES) for agent in family.kinds}
