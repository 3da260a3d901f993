"""Agents whose methods of PFRL are overridden, and steps that call each of these methods."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from peers import pfrl_off_policy, pfrl_on_policy
from peers.pfrl_off_policy import filled_buffer
from torch import Tensor, nn

import pfrl_like
from pfrl_like import agents
from pfrl_like.learning import HOOKS, Hook

REPLAYING = ("DQN", "DDPG", "TD3", "SoftActorCritic")
#: Environments of each of the others.
N_ENVS = {"PPO": 2, "TRPO": 2, "A2C": 2, "REINFORCE": 1, "A3C": 1, "ACER": 1}
#: Rows of the table that hold for these agents, with those of their base.
ROWS = [hook._replace(owner=owner) for hook in HOOKS for owner in REPLAYING if hook.owner in (owner, "OffPolicyAgent")]
ROWS += [hook for hook in HOOKS if hook.owner in N_ENVS]
CALLED = [hook for hook in ROWS if hook.outcome != "refused"]

# Ways to override


def by_class(base: Any, name: str, method: Any) -> Any:
    return type("Own", (base,), {name: method})


def by_mixin(base: Any, name: str, method: Any) -> Any:
    return type("Own", (type("Mixin", (), {name: method}), base), {})


def by_grandchild(base: Any, name: str, method: Any) -> Any:
    return type("Grandchild", (by_class(base, name, method),), {})


def by_assignment(base: Any, name: str, method: Any) -> Any:
    cls = type("Own", (base,), {})
    setattr(cls, name, method)
    return cls


WAYS = (by_class, by_mixin, by_grandchild, by_assignment)


def spy(calls: list[Any], base: Any, name: str, times: int = 1) -> Callable[..., Any]:
    """A method that keeps its arguments and does what the base does, so many times."""
    own = getattr(base, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append((args, kwargs))
        result = None
        for _ in range(times):
            result = own(self, *args, **kwargs)
        return result

    return method


# Agents


def replaying(name: str, cls: Any = None, buffer: str | None = None) -> Any:
    """An agent with replay."""
    recurrent, owner = name.startswith("Recurrent"), name.removeprefix("Recurrent")
    kind = buffer or ("episodic" if recurrent else "uniform")
    cls = getattr(agents, owner) if cls is None else cls
    return pfrl_off_policy.MAKE[name](pfrl_like, cls, filled_buffer(pfrl_like, kind, discrete=owner == "DQN"))


def make_trpo(lib: Any, cls: Any, **options: Any) -> Any:
    policy = nn.Sequential(nn.Linear(3, 2), pfrl_like.policies.SoftmaxCategoricalHead())
    vf = nn.Linear(3, 1)
    return cls(policy, vf, torch.optim.SGD(vf.parameters(), lr=0.1), update_interval=8, vf_batch_size=8, **options)


def made(owner: str, cls: Any = None, **options: Any) -> Any:
    """An on-policy or asynchronous agent of 3 numbers to observe and 2 actions, the same each time."""
    torch.manual_seed(0)
    cls = getattr(agents, owner) if cls is None else cls
    own = {"replay": True} if owner == "ACER" else {}
    return {**pfrl_on_policy.MAKE, "TRPO": make_trpo}[owner](pfrl_like, cls, **{**own, **options})


def made_for(hook: Hook, cls: Any = None) -> Any:
    """An agent that calls the method."""
    if hook.owner in REPLAYING:
        return replaying("Recurrent" * (hook[:2] == ("DQN", "update_from_episodes")) + hook.owner, cls)
    options = {"backward_separately": True} if hook.name == "update_with_accumulated_grad" else {}
    return made(hook.owner, cls, **options)


# Their lives


def live(agent: Any, n_steps: int = 8, truncated_at: int = -1, k: int | None = None) -> None:
    """What calls every method: of replay an update and a choice in training and in evaluation, of others some steps.

    They are random; an episode of the first environment ends with the fourth and the last, or is cut off there.
    """
    if isinstance(agent, agents.OffPolicyAgent):
        update_and_act(agent)
        return
    numbers = np.random.RandomState(1)
    k = N_ENVS[next(base.__name__ for base in type(agent).__mro__ if base.__name__ in N_ENVS)] if k is None else k
    obs = [*numbers.normal(size=(k, 3)).astype(np.float32)]
    for step in range(n_steps):
        reset = [step == truncated_at and i == 0 for i in range(k)]
        done = [step in (3, n_steps - 1) and i == 0 and not reset[0] for i in range(k)]
        pfrl_on_policy.TAKEN[0] = numbers.randint(2, size=k)
        rewards, following = numbers.normal(size=k), [*numbers.normal(size=(k, 3)).astype(np.float32)]
        if k == 1:
            agent.act(obs[0])
            agent.observe(following[0], float(rewards[0]), done[0], reset[0])
        else:
            agent.batch_act(obs)
            agent.batch_observe(following, [*rewards], done, reset)
        obs = following


def update_and_act(agent: Any) -> None:
    agent.update_from_replay()
    obs = [np.zeros(3, np.float32)]
    if not getattr(agent, "recurrent", False):
        agent.batch_act(obs)
        with agent.eval_mode():
            agent.batch_act(obs)


def parameters(agent: Any) -> Tensor:
    """Those that learn, one after the other."""
    names = ("model", "shared_model", "shared_average_model")
    parts = [part for name in names if (part := getattr(agent, name, None)) is not None]
    return torch.cat([param.detach().flatten() for part in parts for param in part.parameters()])
