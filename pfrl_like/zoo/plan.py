"""The plan of a run: what `make` makes, what the script prints, and what is stored beside an agent."""

import copy
import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pfrl_like.envs import SerialVectorEnv, make_env
from pfrl_like.zoo.composition import Call, Given, evaluate, givens_of, names_of, to_json

#: Environments of a run have the seeds `SEEDS_PER_RUN * seed + i`. The last of them is for evaluation.
SEEDS_PER_RUN = 1_000
#: Objects that the functions of a script pass to each other. All other `Given`s are objects of the caller.
_OF_SCRIPT = {"agent", "env", "eval_env", "dataset", "env_of_process", "steps", "eval_interval", "outdir"}


@dataclasses.dataclass
class Plan:
    """Compositions and numbers of a run.

    Attributes:
        agent_name: Name of the agent in the table of `zoo.agents`.
        env_name: Id or class of the environment, for titles.
        seed: Seed of all random streams.
        threads: Number of torch's threads.
        steps: Number of training steps.
        base_env: Call that makes an environment. None if the caller passes an environment.
        wrappers: Calls that wrap the environment `Given("env")`, in order.
        training_wrappers: Calls that come before them in training, but not in evaluations.
        n_envs: Number of environments that are stepped together. 0 for one environment that is no vector.
        dataset: Composition of the dataset of an offline agent. None for the others.
        agent: Composition of the agent.
        train: Call of the runner.
        notes: Sentences about the plan, for readers.
    """

    agent_name: str
    env_name: str
    seed: int
    threads: int
    steps: int
    base_env: Call | None
    wrappers: list[Call]
    training_wrappers: list[Call]
    n_envs: int
    dataset: Any
    agent: Call
    train: Call
    notes: list[str]

    def objects(self) -> list[str]:
        """Return the names of the caller's objects that the agent consists of."""
        return [name for name in givens_of([self.agent, self.train]) if name not in _OF_SCRIPT]

    def env_objects(self) -> list[str]:
        """Return the names of the caller's objects of which an environment is made."""
        if self.base_env is None:
            return ["env"]
        return [name for name in givens_of([self.base_env, self.wrappers]) if name != "env"]

    def all_objects(self) -> list[str]:
        """Return the names of all objects of the caller."""
        return [*self.env_objects(), *self.objects(), *(["dataset"] if isinstance(self.dataset, Given) else [])]

    def names(self) -> list[str]:
        """Return the paths of all names in the script."""
        parts = [self.base_env, self.wrappers, self.training_wrappers, self.dataset, self.agent, self.train]
        return names_of(parts)

    def make_env(self, given: Mapping[str, Any], seed: int, test: bool = False) -> Any:
        """Make an environment. Its episodes and random actions follow from the seed.

        Args:
            given: The caller's objects, by name.
            seed: Seed of the environment and of its action space.
            test: True for an environment for evaluation.
        """
        env = evaluate(Given("env") if self.base_env is None else self.base_env, given)
        for wrapper in [*([] if test else self.training_wrappers), *self.wrappers]:
            env = evaluate(wrapper, {"env": env})
        return make_env(env, seed=seed)

    def env_of_process(self, given: Mapping[str, Any], index: int, test: bool) -> Any:
        """Make the environment of one of several processes."""
        return self.make_env(given, SEEDS_PER_RUN * self.seed + index, test)

    def copies_env(self) -> bool:
        """True if the caller's environment is copied for evaluations, in which rewards are not scaled."""
        return self.base_env is None and bool(self.training_wrappers)

    def make_envs(self, given: Mapping[str, Any]) -> tuple[Any, Any]:
        """Make the environment, or the vector of environments, for training, and the environment for evaluations.

        Raises:
            ValueError: If the caller's environment must be copied and cannot be, or the caller's function returns the
                same environment again.
        """
        first, last = SEEDS_PER_RUN * self.seed, SEEDS_PER_RUN * (self.seed + 1) - 1
        copied = {**given, "env": _copy(given["env"])} if self.copies_env() else None
        envs = [self.make_env(given, first + i) for i in range(max(self.n_envs, 1))]
        env = SerialVectorEnv(envs) if self.n_envs else envs[0]
        if self.base_env is None:
            eval_env = self.make_env(copied, last, test=True) if copied else env if self.dataset is not None else None
            return env, eval_env
        eval_env = self.make_env(given, last, test=True)
        if len({id(getattr(each, "unwrapped", each)) for each in [*envs, eval_env]}) <= len(envs):
            raise ValueError("env returns the same environment again, expected a function that makes new environments")
        return env, eval_env

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON. The agent's composition is at its top level, see `composition.to_json`."""
        rest = {"env": [self.base_env, self.wrappers, self.training_wrappers], "dataset": self.dataset}
        numbers = ("agent_name", "env_name", "seed", "threads", "steps", "n_envs")
        return to_json(self.agent) | {
            "run": {name: getattr(self, name) for name in numbers}
            | {name: to_json(part) for name, part in (rest | {"train": self.train}).items()}
        }


def _copy(env: Any) -> Any:
    try:
        return copy.deepcopy(env)
    except Exception as error:  # an environment may contain objects that cannot be copied
        raise ValueError(
            f"reward_scale is not 1, and env ({type(env).__name__}) cannot be copied for evaluations, in which rewards "
            f"are not scaled ({error!r:.80}): set reward_scale=1, or pass a function that makes the environment"
        ) from error


def make_dataset(dataset: Any, given: Mapping[str, Any]) -> Any:
    """Return the dataset of a composition. None if the composition is None."""
    made = evaluate(dataset, given)
    return made[0] if isinstance(dataset, Call) else made  # the functions return an environment, too


def call_with(call: Call, given: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Evaluate a call with further keyword arguments, which replace its own. Step hooks come after its own.

    Raises:
        TypeError: If the function has no parameter of this name.
    """
    function: Callable[..., Any] = evaluate(call._function, given)
    args = [evaluate(part, given) for part in call._args]
    kwargs = {name: evaluate(part, given) for name, part in call._kwargs.items() if name not in options}
    positional = dict(zip(inspect.signature(function).parameters, args, strict=False))
    hooks = {
        name: [*evaluate(call._kwargs[name], given), *options[name]]
        for name in ("step_hooks", "global_step_hooks")
        if name in options and name in call._kwargs
    }
    return function(**(positional | kwargs | dict(options) | hooks))
