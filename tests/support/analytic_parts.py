"""A small task, networks that are tables, and what follows from these, written as it is defined and not as it is done.

An observation names its state, and which step of which episode of which environment it belongs to, which the tables do
not see. So it is known of every row that an agent learns from which steps made it, and their numbers can be looked up.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from torch import nn
from torch.distributions import Distribution

from pfrl_like.testing.play import ENDINGS as EVERY_END
from pfrl_like.testing.play import RecordedEnv, Step, play_stream
from pfrl_like.testing.stream_checks import stream_of
from pfrl_like.utils.contexts import ignores_training

GAMMA = 0.9
N_STATES, N_LABELS = 4, 3

#: By state and action; the rewards are all different, and exact in binary.
NEXT = ((1, 2), (2, 3), (3, 0), (0, 1))
REWARD = ((1.0, -0.5), (0.25, 2.0), (-1.5, 0.75), (3.0, 1.25))

#: How the episodes of a trial end.
ENDINGS: dict[str, tuple[tuple[bool, bool], ...]] = {
    "every": EVERY_END,
    "terminated": ((True, False),),
    "truncated": ((False, True),),
    "both": ((True, True),),
}
MODES: tuple[AutoresetMode | None, ...] = (*AutoresetMode, None)


class Ring(gymnasium.Env[Any, Any]):
    """Four states without an end; a continuous action counts as 1 if it is positive, and earns an eighth of itself."""

    def __init__(self, number: int, continuous: bool = False) -> None:
        shape = (N_STATES + N_LABELS,)
        self.observation_space = spaces.Box(0.0, np.inf, shape, np.float32)
        self.action_space: Any = spaces.Box(-1.0, 1.0, (1,), np.float32) if continuous else spaces.Discrete(2)
        self.continuous = continuous
        self.label = [number, -1, 0]
        self.state = number % N_STATES

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin elsewhere than the last episode ended."""
        self.label[1:] = [self.label[1] + 1, 0]
        self.state = (self.state + 2) % N_STATES
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """As the tables say."""
        which = int(action[0] > 0) if self.continuous else int(action)
        reward = REWARD[self.state][which] + (float(action[0]) / 8 if self.continuous else 0.0)
        self.state = NEXT[self.state][which]
        self.label[2] += 1
        return self._obs(), reward, False, False, {}

    def _obs(self) -> Any:
        obs = np.zeros(N_STATES + N_LABELS, np.float32)
        obs[self.state] = 1.0
        obs[N_STATES:] = self.label
        return obs


@ignores_training
class Table(nn.Module):
    """A row of numbers, float64, for each state."""

    def __init__(self, rows: Sequence[Any]) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.tensor(rows, dtype=torch.float64))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """The rows of observations, [B, ...]."""
        return self.rows[state_of(obs)]


def state_of(obs: Any) -> Any:
    """The number of the state, or of those of a batch."""
    return obs[..., :N_STATES].argmax(-1)


def label_of(obs: Any) -> tuple[int, ...]:
    """Environment, episode and steps in it."""
    return tuple(int(number) for number in obs[N_STATES:])


@ignores_training
class QuadraticCritic(nn.Module):
    """q(s) + slope(s) * a - a**2 / 2, as [B, 1]."""

    def __init__(self, rows: Sequence[tuple[float, float]]) -> None:
        super().__init__()
        self.table = Table(rows)

    def forward(self, obs_and_action: Any) -> torch.Tensor:
        """The values of observations and actions [B, 1]."""
        obs, action = obs_and_action
        return value_of_action(self.table(obs), action.to(torch.float64)).unsqueeze(1)


def value_of_action(row: Any, action: Any) -> Any:
    """What `QuadraticCritic` gives."""
    return row[..., 0] + row[..., 1] * action[..., 0] - action[..., 0] ** 2 / 2


class Known(Distribution):
    """Samples that are always `loc`, [B, 1], of a log-probability that is given, [B]."""

    arg_constraints: Any = {}
    has_rsample = True

    def __init__(self, loc: torch.Tensor, log_probability: torch.Tensor) -> None:
        self.loc, self.log_probability = loc, log_probability
        super().__init__(loc.shape[:1], loc.shape[1:], validate_args=False)

    def rsample(self, sample_shape: Any = ()) -> torch.Tensor:
        """`loc`."""
        return self.loc

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        """What was given, for `loc`."""
        return self.log_probability

    @property
    def mode(self) -> torch.Tensor:
        """`loc`."""
        return self.loc

    @property
    def params(self) -> tuple[torch.Tensor, torch.Tensor]:
        """`loc` and the log-probability."""
        return self.loc, self.log_probability

    def with_params(self, loc: torch.Tensor, log_probability: torch.Tensor) -> "Known":
        """Another one."""
        return Known(loc, log_probability)


@ignores_training
class KnownPolicy(nn.Module):
    """`Known` distributions; rows of the table are action and log-probability."""

    def __init__(self, rows: Sequence[tuple[float, float]]) -> None:
        super().__init__()
        self.table = Table(rows)

    def forward(self, obs: torch.Tensor) -> Known:
        """The distributions of observations."""
        row = self.table(obs)
        return Known(row[:, :1], row[:, 1])


class Trial:
    """An agent with tables that stay as they are, after some steps in a few environments.

    Args:
        agent: The agent; optimisers have a learning rate of 0.
        ending: A key of `ENDINGS`.
        mode: Autoreset mode, None for environments that the caller resets.
        n_envs: How many there are.
        n_steps: How many steps they make, together.
        continuous: Whether actions are.
    """

    def __init__(
        self,
        agent: Any,
        ending: str = "every",
        mode: AutoresetMode | None = None,
        n_envs: int = 3,
        n_steps: int = 60,
        continuous: bool = False,
    ) -> None:
        self.agent = agent
        self.endings = ENDINGS[ending]
        self.envs = [
            RecordedEnv(Ring(number, continuous), number, endings=self.endings, own_rewards=False)
            for number in range(n_envs)
        ]
        self.n_steps = n_steps
        self.stream = stream_of(self.envs, mode)

    def run(self) -> None:
        """Make the steps."""
        play_stream(self.agent, self.stream, self.n_steps)

    def watch(self, method: str, see: Callable[[Any, Any], None]) -> None:
        """Call `see` with the first argument and the result of each call of a method of the agent."""
        original = getattr(self.agent, method)

        def watched(argument: Any, *others: Any, **keywords: Any) -> Any:
            result = original(argument, *others, **keywords)
            see(argument, result)
            return result

        setattr(self.agent, method, watched)

    def steps(self, obs: Any, n: int | None = None) -> list[Step]:
        """The steps of the episode so far, from the one that began with an observation on; at most n."""
        number, episode, start = label_of(obs)
        steps = self.envs[number].episodes[episode][start:][:n]
        assert steps, f"no step began at {obs}"
        return steps


# What follows from the tables, for steps in a row of one episode


def n_step_return(steps: Sequence[Step], value: Callable[[Any], float]) -> float:
    """r_0 + gamma r_1 + ... + gamma^n V(s_n), without the last term where the steps ended in a terminal state."""
    total = sum(GAMMA**i * step.reward for i, step in enumerate(steps))
    return total if steps[-1].terminated else total + GAMMA ** len(steps) * value(steps[-1].next_obs)


def lambda_return(steps: Sequence[Step], value: Callable[[Any], float], lambd: float) -> float:
    """(1 - lambda) (G^1 + lambda G^2 + ... ) + lambda^(N - 1) G^N, the mean of all n-step returns."""
    last = len(steps)
    returns = [n_step_return(steps[:n], value) for n in range(1, last + 1)]
    mixed = sum((1 - lambd) * lambd**i * each for i, each in enumerate(returns[:-1]))
    return float(mixed + lambd ** (last - 1) * returns[-1])


def retrace_target(
    steps: Sequence[Step], q: Callable[[Step], float], value: Callable[[Any], float], trace: Callable[[Step], float]
) -> float:
    """Q(s_0, a_0) + sum over k of gamma^k c_1 ... c_k delta_k (arXiv:1606.02647, eq. 3)."""
    total = q(steps[0])
    for k, step in enumerate(steps):
        following = 0.0 if step.terminated else value(step.next_obs)
        delta = step.reward + GAMMA * following - q(step)
        total += GAMMA**k * math.prod(trace(each) for each in steps[1 : k + 1]) * delta
    return total


def softmax(logits: Sequence[float]) -> list[float]:
    """exp(x_i) / sum of exp(x_j)."""
    masses = [math.exp(logit) for logit in logits]
    return [mass / sum(masses) for mass in masses]


def forms_of_trials(names: Iterable[str], exemplars: Iterable[str], *n: int) -> list[Any]:
    """Parameters (name, n, ending, mode, number of environments), without n if none are given.

    In the default run every name has one form, and exemplars every mode.
    """
    forms = [*itertools.product(*([n] if n else []), ENDINGS, MODES, (1, 2, 3))]
    quick = {(*n[-1:], "every", AutoresetMode.NEXT_STEP, 3)}
    of_exemplars = quick | {(*n[:1], "every", mode, 2) for mode in MODES}
    return [
        pytest.param(name, *form, marks=[] if form in (quick, of_exemplars)[name in exemplars] else pytest.mark.slow)
        for name in names
        for form in forms
        if name in exemplars or form[-1] != 2
    ]
