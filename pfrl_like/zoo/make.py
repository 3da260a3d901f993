"""`make`: an agent and its environments in one line, composed of the parts that a script would compose."""

import copy
import functools
import inspect
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from pfrl_like.errors import CheckpointError
from pfrl_like.experiments import new_run_directory
from pfrl_like.learning.compatibility.parts import check_kinds
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.storage.attributes import MAX_COMPOSITION
from pfrl_like.storage.json_file import dump_json
from pfrl_like.utils.checks import check_counts, nearest_names
from pfrl_like.utils.env_values import box_class, space_kind
from pfrl_like.utils.random_seed import set_random_seed
from pfrl_like.zoo.agents import Recipe, check_actions, find_agent
from pfrl_like.zoo.builder import Spaces
from pfrl_like.zoo.composition import Call, Expression, Given, SizeError, as_value, evaluate, from_json, parts, to_json
from pfrl_like.zoo.environment import base_of, training_wrappers_of, with_time_limit, wrappers_of
from pfrl_like.zoo.plan import Plan, call_with, make_dataset
from pfrl_like.zoo.presets import TRAINING, preset
from pfrl_like.zoo.script import script
from pfrl_like.zoo.training import check_training, has_epsilon, runner_of

#: Addend of standard deviations, as in TD3+BC (arXiv:2106.06860, section 4).
_LEAST_STD = 1e-3
#: What to call in place of methods that other libraries have.
_ELSEWHERE = {
    "learn": "train(steps)", "fit": "train(steps)", "save": "agent.save(directory)",
    "load": "agent.load(directory), or pfrl_like.load_agent(directory) to act without training",
    "act": "agent.act(obs)", "predict": "agent.act(obs) inside `with made.agent.eval_mode():`",
    "evaluate": "agent with pfrl_like.experiments.eval_performance(made.eval_env, made.agent, None, 10)",
}  # fmt: skip


class Made:
    """An agent with its environments, as `make` composes them.

    Attributes:
        agent: The agent.
        env: Environment, or vector of environments, for training.
        eval_env: Environment for evaluations. None if the caller passed an environment and rewards are not scaled: the
            runner then makes its own. For an offline agent, it is the environment of the caller.
        dataset: Dataset of an offline agent. None for the others.
        plan: The compositions.
        settings: All settings: those of the preset, and the caller's in their place.
    """

    def __init__(self, plan: Plan, given: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        self.plan, self._given, self.settings = plan, dict(given), dict(settings)
        torch.set_num_threads(plan.threads)
        set_random_seed(plan.seed)
        self.env, self.eval_env = plan.make_envs(given)
        self.dataset = make_dataset(plan.dataset, given)
        self.agent = evaluate(plan.agent, {**given, "env": self.env})
        self.agent.composition = plan.to_json()

    def train(self, steps: int | None = None, outdir: str | os.PathLike[str] | None = None, **options: Any) -> Any:
        """Train the agent with the runner that the script calls.

        All random streams start again from the seed. The numbers are those of the script, however many agents were made
        in between.

        Args:
            steps: Number of training steps. If None, the preset's.
            outdir: Run directory. If None, a new one in "results".
            **options: Other arguments of the runner, for example `resume`, `hooks` or `checkpoint_freq`. Functions of
                `step_hooks` or `global_step_hooks` come after those that lower the learning rate.

        Returns:
            The result of the runner: the agent and a list of the evaluations, or as the runner documents.

        Raises:
            TypeError: If the runner has no such argument. The message contains the most similar one.
        """
        steps = self.plan.steps if steps is None else steps
        check_counts(1, steps=steps)
        runner, recipe = evaluate(self.plan.train._function, {}), find_agent(self.plan.agent_name)[1]
        known = [*inspect.signature(runner).parameters]
        for name in [name for name in options if name not in known]:
            if name in recipe.keywords():
                raise TypeError(f"{name} is no argument of train, but a setting of the agent: pass it to make")
            raise TypeError(f"train has no argument {name!r}{nearest_names(name, known)}")
        torch.set_num_threads(self.plan.threads)
        set_random_seed(self.plan.seed)
        if outdir is None:
            outdir = new_run_directory("results", self.plan.env_name, self.plan.agent_name, self.plan.seed)
        given = {"agent": self.agent, "env": self.env, "eval_env": self.eval_env, "dataset": self.dataset}
        given |= {"env_of_process": functools.partial(self.plan.env_of_process, self._given)}
        given |= {"steps": steps, "outdir": outdir}
        given |= {"eval_interval": max(steps // 10, 1)}
        return call_with(self.plan.train, self._given | given, options)

    def __getattr__(self, name: str) -> Any:
        hint = _ELSEWHERE.get(name)
        raise AttributeError(f"Made has no attribute {name!r}{f': use made.{hint}' if hint else ''}")

    def script(self) -> str:
        """Return a script that makes and trains the same agent from its parts, with equal numbers.

        Objects that the caller passed are parameters of its function `main`.
        """
        return script(self.plan)

    def __repr__(self) -> str:
        notes = "".join(f"\n  {note}" for note in self.plan.notes)
        return f"{self.plan.agent_name} in {self.plan.env_name}, seed {self.plan.seed}{notes}\n{self.agent!r}"


def make(agent: str, env: Any, *, seed: int = 0, threads: int = 1, dataset: Any = None, **settings: Any) -> Made:
    """Make an agent with its environments.

    The result is composed of the same parts as a script: `print(made.script())` shows it. Settings come from the preset
    of the agent and the environment, or from defaults for the kind of its spaces.

    Args:
        agent: Name of the agent, for example "dqn", "sac" or "PPO". An error lists the names.
        env: Id of an environment, an environment, or a function without arguments that makes one. An environment is
            the only one of the run (`n_envs` is 1). An id may name a variant of the preset after "@", for example
            "Hopper-v5@100k".
        seed: Seed of all random streams. `make` and `train` set the global streams of Python, NumPy and torch.
        threads: Number of torch's threads, which `make` and `train` set.
        dataset: Dataset of an offline agent: an `MDPDataset`, or the name "cartpole" or "pendulum" of a set in this
            package. If None, the set of this environment, if there is one.
        **settings: Settings in place of the preset's: of the builder (`lr`, `hidden_sizes`, `gamma`, ...), arguments of
            the agent's constructor, parts of the agent (`q_function=module`, `explorer=...`), and settings of training
            (`steps`, `n_envs`, `reward_scale`, ...).

    Raises:
        ValueError: If there is no such agent or environment, the agent does not fit the environment's spaces, or a
            setting of training is out of range or not read. If observations or actions do not fit a module that is
            passed. If the settings are too large to be saved beside the agent.
        TypeError: If a setting is unknown (the message contains the most similar ones), or has no effect beside the
            others, for example `lr` beside `optimizer`. If a setting that stands for a module is no module, or if the
            output of a module has the wrong type.
    """
    check_counts(0, seed=seed)
    check_counts(1, threads=threads)
    name, recipe = find_agent(agent)
    _check_settings(name, recipe, settings)
    given: dict[str, Any] = {}
    env, variant = _without_variant(env)
    base_env, made, env_name = base_of(env, given)
    check_actions(name, recipe, made.action_space)
    usual = {**preset(name, env_name + variant, Spaces(made.observation_space, made.action_space)), **recipe.settings}
    usual_training = {**TRAINING, **{key: usual.pop(key) for key in [*usual] if key in TRAINING}}
    training = usual_training | {key: value for key, value in settings.items() if key in TRAINING}
    check_training(recipe, training, usual_training)
    wrappers, spaces, notes = wrappers_of(base_env, made, training, usual_training)
    if base_env is None:
        notes += _adapt_to_one_env(recipe, settings, training)
    else:
        getattr(made, "close", lambda: None)()
    data = _dataset(recipe, dataset, env_name, given, training["select_features"])
    if training["standardize_observations"] and data is not None:
        usual |= _moments(make_dataset(data, given))
    if recipe.class_name == "A2C":
        usual["num_processes"] = training["n_envs"]
        if settings.get("num_processes", training["n_envs"]) != training["n_envs"]:
            n_processes = settings["num_processes"]
            raise ValueError(f"num_processes is {n_processes!r}, expected n_envs, which is {training['n_envs']}")
    own = {key: value for key, value in settings.items() if key not in TRAINING}
    if own.get("dueling") is False:  # the preset's streams are those of a dueling network
        usual.pop("stream_sizes", None)
    check_kinds({key: own[key] for key in MODULES & own.keys() if not isinstance(own[key], Expression | None)}, {})
    values = {key: _value(key, value, given) for key, value in {**usual, **own}.items()}
    composed = recipe.build(recipe.class_name, spaces, **values)
    _check_effects(recipe, spaces, composed, values, {key: usual[key] for key in usual.keys() & own.keys()}, own)
    if training["anneal_epsilon"] and not usual_training["anneal_epsilon"] and not has_epsilon(composed):
        raise ValueError("anneal_epsilon is True, but the explorer has no epsilon that falls: leave it out")
    training_wrappers = [] if recipe.runner == "offline" else training_wrappers_of(base_env, training)
    n_envs = 0 if recipe.runner != "online" else training["n_envs"]
    plan = Plan(
        agent_name=name,
        env_name=env_name,
        seed=seed,
        threads=threads,
        steps=training["steps"],
        base_env=with_time_limit(base_env, training["max_episode_steps"]),
        wrappers=wrappers,
        training_wrappers=training_wrappers,
        n_envs=n_envs if n_envs > 1 else 0,
        dataset=data,
        agent=composed,
        train=runner_of(recipe, composed, training, bool(base_env or data is not None or training_wrappers)),
        notes=notes,
    )
    _check_size(plan, values)
    result = Made(plan, given, {**training, **usual, **own})
    if plan.objects():
        _dry_run(result.agent, spaces)
    return result


#: Settings that stand for a module.
MODULES = {
    "imitator", "model", "next_policy", "perturbation", "policy", "q_func", "q_func1", "q_func2", "q_function",
    "v_func", "vf",
}  # fmt: skip


def _check_settings(name: str, recipe: Recipe, settings: Mapping[str, Any]) -> None:
    known = [*recipe.keywords(), *TRAINING]
    for key in settings:
        if key not in known:
            nearest = nearest_names(key, known, cutoff=0.6, n=3)
            raise TypeError(f"{name} has no setting {key!r}{nearest}. `pfrl-like list settings {name}` lists all")


def _without_variant(env: Any) -> tuple[Any, str]:
    """Return the environment, and the end "@..." of an id that names a variant of the preset."""
    if not isinstance(env, str):
        return env, ""
    env_id, at, variant = env.partition("@")
    return env_id, at + variant


def _adapt_to_one_env(recipe: Recipe, settings: Mapping[str, Any], training: dict[str, Any]) -> list[str]:
    """Change settings of training for an environment of the caller, which cannot be made twice. Return notes."""
    way_out = "pass an id, or a function that makes environments"
    if recipe.runner == "async":
        raise ValueError(f"env is an environment, but {recipe.class_name} needs one in every process: {way_out}")
    if settings.get("n_envs", 1) > 1:
        raise ValueError(f"n_envs is {settings['n_envs']}, but env is a single environment: {way_out}")
    n_envs, training["n_envs"] = training["n_envs"], 1
    return [f"The preset has {n_envs} environments. The caller's environment is the only one."] if n_envs > 1 else []


def _check_effects(
    recipe: Recipe, spaces: Spaces, composed: Call, values: Mapping[str, Any], usual: Mapping[str, Any], own: Any
) -> None:
    """Raise an error if a setting changes nothing beside the parts that the caller passes: `lr` beside `optimizer`.

    Args:
        recipe: Recipe of the agent.
        spaces: Spaces of the environment.
        composed: The agent.
        values: Settings of which the agent is composed.
        usual: The preset's settings that the caller's replace.
        own: The caller's settings.
    """
    passed = [key for key in own if isinstance(values[key], Expression)]
    if not passed:  # settings without parts may come from a file of another run
        return
    for key, parameter in inspect.signature(recipe.build).parameters.items():
        if key not in own or _plain(own[key]) == _plain(usual.get(key, parameter.default)):
            continue
        rest = {name: value for name, value in values.items() if name != key}
        rest |= {key: as_value(usual[key])} if key in usual else {}
        try:
            other = to_json(recipe.build(recipe.class_name, spaces, **rest))
        except (TypeError, ValueError):  # the agent needs the setting
            continue
        if other == to_json(composed):
            beside = f"{recipe.class_name} beside {', '.join(passed)}"
            raise TypeError(f"{key} is {own[key]!r:.80}, but has no effect on {beside}: leave it out")


def _check_size(plan: Plan, values: Mapping[str, Any]) -> None:
    """Raise an error if the agent could not be saved and loaded with its composition, for example of large lists."""
    try:
        dump_json(plan.to_json(), "", MAX_COMPOSITION)
        from_json(to_json(plan.agent))
    except (CheckpointError, SizeError) as error:
        text = error.reason if isinstance(error, CheckpointError) else error
        largest = max(values, key=lambda name: len(_plain(values[name]) or ""))
        raise ValueError(
            f"{largest} is too large to be saved with the agent, whose composition {text}: pass a module that contains "
            f"the numbers, for example policy=module, or leave {largest} out"
        ) from error
    except ValueError as error:
        raise ValueError(f"the agent cannot be saved, because its composition {error}") from error


def _dry_run(agent: Any, spaces: Spaces) -> None:
    """Raise an error if an observation and the actions do not fit the agent. No random stream changes."""
    space = _without_large_bounds(spaces.obs)
    space.seed(0)
    with isolated_rng():
        agent.dry_run(space.sample(), spaces.action)


def _without_large_bounds(space: Any) -> Any:
    """Return a copy of a space in which bounds beyond float32 are infinite, because samples between them overflow."""
    kind = space_kind(space)
    if kind == "dict":
        return type(space)({key: _without_large_bounds(part) for key, part in space.spaces.items()})
    if kind == "box" and space.dtype == np.float64:
        most = np.finfo(np.float32).max
        low, high = (np.where(abs(each) > most, np.copysign(np.inf, each), each) for each in (space.low, space.high))
        return box_class(space)(low, high, dtype=space.dtype.type)
    return copy.deepcopy(space)


def _moments(dataset: Any) -> dict[str, list[float]]:
    """Return the mean and the standard deviation of vector observations, as settings. Empty for other observations."""
    observations = np.asarray(dataset.observations)
    if observations.ndim != 2:
        return {}
    observations = observations.astype(np.float64)  # whose rounded numbers are short
    std = observations.std(0) + _LEAST_STD
    return {"obs_mean": observations.mean(0).round(6).tolist(), "obs_std": std.round(6).tolist()}


def _value(name: str, value: Any, given: dict[str, Any]) -> Any:
    """Return a setting as a value of a composition. Objects of the caller become `Given`s."""
    try:
        return as_value(value)
    except TypeError:
        given[name] = value
        return Given(name)


def _plain(value: Any) -> Any:
    """Return a setting with lists in place of tuples. Objects of the caller become None, which no default equals."""
    try:
        return json.dumps(as_value(value))
    except (TypeError, ValueError):
        return None


#: Names of the datasets in this package, keyed by the id of the environment.
PACKAGED = {"CartPole-v1": "cartpole", "Pendulum-v1": "pendulum"}


def _dataset(recipe: Recipe, dataset: Any, env_name: str, given: dict[str, Any], features: Any) -> Any:
    if recipe.runner != "offline":
        if dataset is not None:
            raise ValueError(f"dataset is given, but {recipe.class_name} learns online: leave it out")
        return None
    dataset = PACKAGED.get(env_name) if dataset is None else dataset
    if dataset is None:
        raise ValueError(f"dataset is None, but {recipe.class_name} learns from data: pass an MDPDataset")
    if isinstance(dataset, str):
        if dataset not in PACKAGED.values():
            raise ValueError(f"dataset is {dataset!r}, expected an MDPDataset, {' or '.join(PACKAGED.values())}")
        if features is not None:
            raise ValueError(
                f"select_features is {features!r:.80}, but datasets of this package have all features: leave it out, "
                "or pass an MDPDataset with the selected features"
            )
        return getattr(parts.datasets, f"get_{dataset}")()
    given["dataset"] = dataset
    return Given("dataset")
