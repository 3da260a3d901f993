"""What an argument changes: an agent is made twice, with one argument changed, and lives through the same steps."""

import ast
import dataclasses
import functools
import inspect
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pfrl_like.errors import NonFiniteError
from pfrl_like.testing.play import difference
from pfrl_like.utils import set_random_seed

Arguments = dict[str, Any]
TESTS = Path(__file__).parents[1]


@dataclasses.dataclass(frozen=True)
class Made:
    """The value of an argument that depends on the others, which it is called with."""

    of: Callable[[Arguments], Any]


@dataclasses.dataclass(frozen=True)
class Effect:
    """What another value of an argument does.

    Attributes:
        value: The other value; it may be `Made`.
        shows: Names of what differs then, of `OBSERVED`; "parameters" stay as they are unless they are named. "nothing"
            where the documentation says that there is no effect.
        held_by: A test that says more than that something differs, as `file::name`; the only one if nothing else is
            said.
        refused: Instead of that, what the error says.
        given: Arguments without which there would be no effect.
        also: Other arguments that change with it.
    """

    value: Any = None
    shows: str = ""
    held_by: str = ""
    _: dataclasses.KW_ONLY
    refused: str = ""
    given: Arguments = dataclasses.field(default_factory=dict)
    also: Arguments = dataclasses.field(default_factory=dict)


def changed(arguments: Arguments, **changes: Any) -> Arguments:
    """The arguments with others, one after the other."""
    for name, value in changes.items():
        arguments = {**arguments, name: value.of(arguments) if isinstance(value, Made) else value}
    return arguments


def parameters_of(kind: Any) -> dict[str, type]:
    """Every argument of a constructor, and the agent that introduces it, or gives it another default."""
    owners: dict[str, type] = {}
    earlier: Any = {}
    for owner in reversed(kind.__mro__):
        if "__init__" in vars(owner) and owner.__module__.startswith("pfrl_like.agents."):
            parameters = inspect.signature(owner).parameters
            for name, each in parameters.items():
                if name not in earlier or earlier[name].default != each.default:
                    owners[name] = owner
            earlier = parameters
    return {name: owners[name] for name in inspect.signature(kind).parameters}


# An agent's life


def steps(obs_size: int, n: int) -> Iterator[tuple[Any, float, Any, bool, bool]]:
    """Steps (obs, reward, next obs, terminated, truncated) that do not ask what the agent does."""
    rng = np.random.default_rng(0)
    obs = rng.normal(size=obs_size).astype(np.float32)
    for i in range(1, n + 1):
        following = rng.normal(size=obs_size).astype(np.float32)
        terminated, truncated = i % 5 == 0, i % 8 == 0
        yield obs, float(2 * rng.normal()), following, terminated, truncated
        obs = rng.normal(size=obs_size).astype(np.float32) if terminated or truncated else following


def modules_of(agent: Any, targets: bool) -> dict[str, Any]:
    """The parameters of an agent's networks, or of those that follow others."""
    follows = re.compile("target_|shared_average_")
    return {
        name: [param.detach().clone() for param in module.parameters()]
        for name, module in vars(agent).items()
        if isinstance(module, nn.Module) and bool(follows.match(name)) == targets
    }


class Life:
    """What is seen of an agent in some steps of training, and after them.

    Args:
        agent: The agent.
        obs_size: Length of its observations.
        n_steps: Steps of training.
    """

    def __init__(self, agent: Any, obs_size: int, n_steps: int = 24) -> None:
        self.agent, self.obs_size, self.n_steps = agent, obs_size, n_steps
        self.actions: list[Any] = []
        self.updates: list[int] = []
        self.rows: list[int] = []
        if isinstance(model := getattr(agent, "model", None), nn.Module):
            model.register_forward_pre_hook(lambda module, inputs: self.rows.append(len(inputs[0])))
        for obs, reward, following, terminated, truncated in steps(obs_size, n_steps):
            self.actions.append(agent.act(obs))
            agent.observe(following, reward, terminated, truncated)
            self.updates.append(self.n_updates)

    @property
    def n_updates(self) -> int:
        """Updates so far."""
        return int(getattr(self.agent, "optim_t", getattr(self.agent, "n_updates", 0)))

    def in_evaluation(self) -> list[Any]:
        """Actions in evaluation."""
        torch.manual_seed(1)
        with self.agent.eval_mode():
            if hasattr(self.agent, "stop_episode"):
                self.agent.stop_episode()
            return [self.agent.act(obs) for obs, *_ in steps(self.obs_size, 20)]

    def log_of_a_refused_update(self) -> list[str]:
        """Who is told of steps that nothing can be learnt from."""
        set_random_seed(0)
        heard = Ear()
        logging.getLogger().addHandler(heard)
        try:
            stores = hasattr(self.agent, "replay_buffer")
            for i, (obs, _, following, _, _) in enumerate(steps(self.obs_size, 40), 1):
                self.agent.act(obs)
                if stores:
                    self.agent.observe(following * float("nan"), 1.0, False, False)
                else:  # the return of eight such rewards is infinite
                    self.agent.observe(following, 3e38, i % 8 == 0, False)
        except NonFiniteError:
            return heard.names
        finally:
            logging.getLogger().removeHandler(heard)
        raise AssertionError("NaN was learnt from")


class Ear(logging.Handler):
    """Keeps the names of loggers that say something."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.names: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.names.append(record.name)


#: What can be seen of a life.
OBSERVED: dict[str, Callable[[Life], Any]] = {
    "parameters": lambda life: modules_of(life.agent, targets=False),
    "targets": lambda life: modules_of(life.agent, targets=True),
    "actions": lambda life: life.actions,
    "evaluation": Life.in_evaluation,
    "updates": lambda life: life.updates,
    "passes": lambda life: [rows for rows in life.rows if rows > 1],
    "statistics": lambda life: life.agent.get_statistics(),
    "stored": lambda life: len(life.agent.replay_buffer),
    "process": lambda life: life.agent.process_idx,
    "sent": lambda life: life.agent.pipe.messages(life.agent),
    "log": Life.log_of_a_refused_update,
}


def live(make: Callable[[], Any], obs_size: int) -> Life:
    """The life of an agent under fixed seeds."""
    set_random_seed(0)
    agent = make()
    set_random_seed(0)  # whatever was drawn for the networks
    return Life(agent, obs_size)


def differ(first: Any, second: Any) -> bool:
    """Whether two things differ by more than rounding."""
    return difference(first, second, exact=False) is not None


# Tests that say more


def held(pointer: str, argument: str = "") -> bool:
    """Whether a test `file::name` is there and speaks of an argument, itself or in a table that it takes."""
    file, name = pointer.split("::")
    return re.search(rf"\b{argument}\b", _words_of(TESTS / file, name)) is not None


@functools.cache
def _words_of(path: Path, name: str) -> str:
    source = path.read_text()
    tree = ast.parse(source)
    tables = {
        target.id: ast.unparse(node)
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            text = ast.unparse(node)
            return text + "".join(table for word, table in tables.items() if re.search(rf"\b{word}\b", text))
    raise AssertionError(f"{path.name} has no test {name}")
