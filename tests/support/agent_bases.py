"""What every agent is made of, by the names of its constructor's arguments, so that one of them can be changed."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from actor_critic_parts import make_critic, make_policy
from agent_parts import AGENTS, make_q_function
from argument_effects import Arguments, changed
from async_parts import a3c_model, acer_model
from on_policy_parts import make_nets
from torch import nn

from pfrl_like import agents
from pfrl_like.agents.dpp import DPPL, DPPGreedy
from pfrl_like.explorers import AdditiveGaussian, ConstantEpsilonGreedy
from pfrl_like.nn import (
    Branched,
    ConcatObsAndAction,
    ConditionalVAE,
    RecurrentBranched,
    RecurrentSequential,
    ReturnConditionedTransformer,
)
from pfrl_like.policies import GaussianHeadWithFixedCovariance, SoftmaxCategoricalHead
from pfrl_like.replay_buffers import EpisodicReplayBuffer, ReplayBuffer


def sgd(*modules: nn.Module, lr: float = 0.05) -> torch.optim.Optimizer:
    """An optimiser whose steps are as long as the gradients."""
    return torch.optim.SGD(nn.ModuleList(modules).parameters(), lr=lr)


def adadelta(*modules: nn.Module) -> torch.optim.Optimizer:
    """An optimiser that cannot be compiled."""
    return torch.optim.Adadelta(nn.ModuleList(modules).parameters())


def buffer(recurrent: bool) -> Any:
    """An empty one."""
    return EpisodicReplayBuffer(1_000) if recurrent else ReplayBuffer(1_000)


def of_q_functions(kind: Any, recurrent: bool) -> Arguments:
    """DQN and its kin."""
    base = kind.__name__ if kind in AGENTS.values() else "DPP"
    q_function = make_q_function(base, recurrent)
    return {
        "q_function": q_function,
        "optimizer": sgd(q_function),
        "explorer": ConstantEpsilonGreedy(0.6, functools.partial(np.random.randint, 2)),
        "target_update_interval": 5,
        **of_replay(recurrent),
    }


def of_replay(recurrent: bool) -> Arguments:
    """What all agents with a replay buffer take."""
    learning = {"replay_start_size": 10, "minibatch_size": 4, "recurrent": recurrent}
    return {"replay_buffer": buffer(recurrent), "gamma": 0.9, "episodic_update_len": 4, **learning}


def of_actor_critic(kind: Any, recurrent: bool) -> Arguments:
    """Agents of continuous actions with a policy, and discrete Soft Actor-Critic."""
    soft = issubclass(kind, agents.SoftActorCritic)
    weighted = issubclass(kind, agents.AdvantageWeightedActorCritic)
    policy = make_policy("squashed" if soft else "fixed gaussian" if weighted else "gaussian", recurrent)
    remembering = recurrent and kind is not agents.CrossQ
    critics = [make_critic("numbers", remembering) for _ in range(1 if kind is agents.DDPG else 2)]
    if kind is agents.TQC:
        critics = [make_critic("quantiles", recurrent) for _ in range(2)]
    if kind in (agents.DiscreteSAC, agents.DiscreteFittedQEvaluation):
        policy = discrete_policy(recurrent)
        critics = [make_q_function("DQN", recurrent, obs_size=4) for _ in range(2)]
    common = of_replay(recurrent)
    if soft:
        common |= {"entropy_target": -2.0, "initial_temperature": 0.2}
    elif kind is agents.DiscreteFittedQEvaluation:
        common |= {"explorer": ConstantEpsilonGreedy(0.6, functools.partial(np.random.randint, 2))}
    elif not weighted:
        common |= {"explorer": AdditiveGaussian(0.1, low=-1.0, high=1.0)}
    if kind is agents.IQL:
        v_func = make_value(recurrent)
        common |= {"v_func": v_func, "v_func_optimizer": sgd(v_func)}
    if issubclass(kind, agents.FittedQEvaluation):
        optimizers = {"q_func_optimizers": [sgd(critic, lr=0.01) for critic in critics]}
        return {"policy": policy, "q_funcs": critics, **optimizers, "target_update_interval": 5, **common}
    if kind is agents.REDQ:
        critics += [make_critic("numbers", recurrent)]
        optimizers = {"policy_optimizer": sgd(policy), "q_func_optimizers": [sgd(critic) for critic in critics]}
        return {"policy": policy, "q_funcs": critics, **optimizers, "n_times_update": 2, **common}
    if kind is agents.DDPG:
        named = {"q_func": critics[0], "actor_optimizer": sgd(policy), "critic_optimizer": sgd(critics[0])}
        return {"policy": policy, **named, "target_update_interval": 5, **common}
    named = {f"q_func{i}": critic for i, critic in enumerate(critics, 1)}
    optimizers = {f"{name}_optimizer": sgd(critic) for name, critic in named.items()}
    return {"policy": policy, **named, "policy_optimizer": sgd(policy), **optimizers, **common}


def make_value(recurrent: bool) -> nn.Module:
    """A value function of the state."""
    first = nn.GRU(4, 8) if recurrent else nn.Linear(4, 8)
    return (RecurrentSequential if recurrent else nn.Sequential)(first, nn.Tanh(), nn.Linear(8, 1))


def of_imitators(kind: Any, recurrent: bool) -> Arguments:
    """Agents that have nothing but a policy, and learn from a replay buffer."""
    policy = discrete_policy(recurrent) if kind is agents.DiscreteBC else make_policy("gaussian", recurrent)
    common = {name: value for name, value in of_replay(recurrent).items() if name != "gamma"}
    return {"policy": policy, "optimizer": sgd(policy), **common}


def of_regressing(kind: Any, recurrent: bool) -> Arguments:
    """Agents of a policy and a value function, which learn in iterations of several steps each."""
    policy = discrete_policy(recurrent) if kind is agents.DiscreteAWR else make_policy("fixed gaussian", recurrent)
    v_func = make_value(recurrent)
    iteration = {"n_critic_updates": 2, "n_actor_updates": 3, "batch_size_per_update": 3, "update_interval": 3}
    optimizers = {"policy_optimizer": sgd(policy), "v_func_optimizer": sgd(v_func)}
    return {"policy": policy, "v_func": v_func, **optimizers, **iteration, **of_replay(recurrent), "minibatch_size": 6}


def of_bcq(kind: Any, recurrent: bool) -> Arguments:
    """BCQ, whose policy perturbs the actions of an imitator."""
    policy, vae, common = of_pairs(4 + 2, 2), make_vae(), of_replay(False)
    del common["recurrent"], common["episodic_update_len"]
    critics = {f"q_func{i}": make_critic("numbers") for i in (1, 2)}
    parts = {"policy": policy, **critics, "imitator": vae}
    optimizers = {f"{name}_optimizer": sgd(part) for name, part in parts.items()}
    return {**parts, **optimizers, "n_action_samples": 5, **common}


def of_bear(kind: Any, recurrent: bool) -> Arguments:
    """BEAR, whose policy is held near an imitator."""
    policy, vae, common = make_policy("squashed"), make_vae(), of_replay(False)
    del common["recurrent"], common["episodic_update_len"]
    parts = {"policy": policy, **{f"q_func{i}": make_critic("numbers") for i in (1, 2)}, "imitator": vae}
    optimizers = {f"{name}_optimizer": sgd(part) for name, part in parts.items()}
    constraint = {"n_action_samples": 3, "mmd_sigma": 1.0, "entropy_target": -2.0, "initial_temperature": 0.2}
    return {**parts, **optimizers, **constraint, **common}


def of_cal_ql(kind: Any, recurrent: bool) -> Arguments:
    """Cal-QL, which has no recurrent form."""
    common = of_actor_critic(kind, False)
    return {name: value for name, value in common.items() if name not in ("recurrent", "episodic_update_len")}


def of_transformers(kind: Any, recurrent: bool) -> Arguments:
    """Decision Transformers."""
    discrete = kind is agents.DiscreteDecisionTransformer
    last = nn.Linear(8, 2)
    if discrete:
        nn.init.normal_(last.weight, std=2.0)  # so that small changes are decisive
    head = nn.Sequential(last, SoftmaxCategoricalHead() if discrete else GaussianHeadWithFixedCovariance(0.3))
    sizes = {"hidden_size": 8, "context_size": 4, "n_layers": 1}
    policy = ReturnConditionedTransformer(nn.Linear(4, 8), 2, head, discrete=discrete, **sizes)
    parts = {"policy": policy, "optimizer": sgd(policy, lr=3e-3), "replay_buffer": EpisodicReplayBuffer(1_000)}
    return {**parts, "replay_start_size": 10, "minibatch_size": 2, "target_return": 3.0}


def make_vae() -> ConditionalVAE:
    """A model of actions of two numbers."""
    return ConditionalVAE(of_pairs(4 + 2, 6), nn.Sequential(of_pairs(4 + 3, 2), nn.Tanh()), 3)


def of_pairs(n_inputs: int, n_outputs: int) -> nn.Module:
    """A network of pairs."""
    return nn.Sequential(ConcatObsAndAction(), nn.Linear(n_inputs, 8), nn.Tanh(), nn.Linear(8, n_outputs))


def of_discrete_bcq(kind: Any, recurrent: bool) -> Arguments:
    """Discrete BCQ, whose imitator learns by the Q-function's optimiser."""
    common = of_q_functions(kind, False)
    del common["recurrent"], common["episodic_update_len"]
    imitator = nn.Sequential(nn.Linear(5, 2), SoftmaxCategoricalHead())
    return {**common, "imitator": imitator, "optimizer": sgd(common["q_function"], imitator)}


def discrete_policy(recurrent: bool) -> nn.Module:
    """A policy of two actions."""
    first = nn.GRU(4, 8) if recurrent else nn.Linear(4, 8)
    return (RecurrentSequential if recurrent else nn.Sequential)(first, nn.Linear(8, 2), SoftmaxCategoricalHead())


def of_on_policy(kind: Any, recurrent: bool) -> Arguments:
    """Agents that learn from what they have just done."""
    policy, vf = make_nets(recurrent)
    if kind is agents.TRPO:
        return {"policy": policy, "vf": vf, "vf_optimizer": sgd(vf), "gamma": 0.9, "update_interval": 10,
                "vf_batch_size": 4, "recurrent": recurrent}  # fmt: skip
    if kind is agents.REINFORCE:
        return {"model": policy, "optimizer": sgd(policy), "recurrent": recurrent}
    model = (RecurrentBranched if recurrent else Branched)(policy, vf)
    parts = {"model": model, "optimizer": sgd(model), "gamma": 0.9, "recurrent": recurrent}
    if kind is agents.A2C:
        return {**parts, "num_processes": 2}
    return {**parts, "update_interval": 10, "minibatch_size": 4, "epochs": 2}


def of_async(kind: Any, recurrent: bool) -> Arguments:
    """A3C and ACER."""
    model = (a3c_model if kind is agents.A3C else acer_model)(recurrent)
    parts = {"model": model, "optimizer": sgd(model), "t_max": 4, "gamma": 0.9, "recurrent": recurrent}
    if kind is agents.A3C:
        return parts
    parts["optimizer"] = sgd(model, lr=0.5)  # so that the policy leaves the average one
    return {**parts, "replay_buffer": buffer(True), "replay_start_size": 10, "n_times_replay": 2,
            "trust_region_delta": 1e-3}  # fmt: skip


class Sent:
    """The end of a pipe that keeps what is sent."""

    def __init__(self, name: str) -> None:
        self.name, self.sent = name, []

    def send(self, message: Any) -> None:
        """Keep it."""
        self.sent.append(message)

    def messages(self, actor: Any) -> tuple[str, int, int]:
        """The name, the number of steps that came, and of recurrent states that came with them."""
        actor.stop_episode()  # sends what is left
        further = [each for kind, columns in self.sent if kind == "rows" for each in columns[-1]]
        return self.name, len(further), sum(each.get("recurrent_state") is not None for each in further)


def of_actors(kind: Any, recurrent: bool) -> Arguments:
    """What acts for a learner elsewhere."""
    explorer = ConstantEpsilonGreedy(0.6, functools.partial(np.random.randint, 2))
    return {"pipe": Sent("one"), "model": make_q_function("DQN", recurrent), "explorer": explorer,
            "recurrent": recurrent}  # fmt: skip


FAMILIES: tuple[tuple[Callable[[Any, bool], Arguments], tuple[Any, ...]], ...] = (
    (of_q_functions, (*AGENTS.values(), DPPL, DPPGreedy, agents.DiscreteCQL)),
    (of_actor_critic, (agents.DDPG, agents.TD3, agents.SoftActorCritic, agents.TQC, agents.REDQ, agents.CrossQ,
                       agents.DiscreteSAC, agents.CQL, agents.COMBO, agents.EDAC, agents.TD3PlusBC, agents.ReBRAC,
                       agents.AWAC, agents.CRR, agents.IQL, agents.FittedQEvaluation,
                       agents.DiscreteFittedQEvaluation)),
    (of_imitators, (agents.BC, agents.DiscreteBC)),
    (of_regressing, (agents.AWR, agents.DiscreteAWR)),
    (of_bcq, (agents.BCQ,)),
    (of_bear, (agents.BEAR,)),
    (of_cal_ql, (agents.CalQL,)),
    (of_transformers, (agents.DecisionTransformer, agents.DiscreteDecisionTransformer)),
    (of_discrete_bcq, (agents.DiscreteBCQ,)),
    (of_on_policy, (agents.PPO, agents.TRPO, agents.A2C, agents.REINFORCE)),
    (of_async, (agents.A3C, agents.ACER)),
    (of_actors, (agents.StateQFunctionActor,)),
)  # fmt: skip
#: What gives the arguments of each agent.
MAKERS = {kind: maker for maker, kinds in FAMILIES for kind in kinds}


def arguments_of(kind: Any, recurrent: bool = False, **given: Any) -> Arguments:
    """Arguments of an agent that learns within a few steps."""
    return changed(MAKERS[kind](kind, recurrent), **given)


def obs_size(kind: Any) -> int:
    """Length of the observations."""
    return (
        4
        if MAKERS[kind] in (of_actor_critic, of_imitators, of_regressing, of_bcq, of_bear, of_cal_ql, of_transformers)
        else 5
    )
