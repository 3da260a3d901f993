"""`make`: an agent and its environments in one line, composed of the parts that a script would compose."""

import difflib
import functools
import os
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import torch

from pfrl_like.envs import make_env
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.env_values import space_kind
from pfrl_like.utils.random_seed import set_random_seed
from pfrl_like.zoo.agents import Recipe, find_agent
from pfrl_like.zoo.builder import Spaces, named_arguments
from pfrl_like.zoo.composition import Call, Given, Name, as_value, evaluate, names_of, parts
from pfrl_like.zoo.networks import says_channels_last
from pfrl_like.zoo.plan import SEEDS_PER_RUN, Plan, call_with, make_dataset
from pfrl_like.zoo.presets import TRAINING, preset
from pfrl_like.zoo.script import script

#: Addend of standard deviations, as in TD3+BC (arXiv:2106.06860, section 4).
_LEAST_STD = 1e-3


class Made:
    """An agent with its environments, as `make` composes them.

    Attributes:
        agent: The agent.
        env: Environment, or vector of environments, for training.
        eval_env: Environment for evaluations. None if the caller passed an environment: the runner then makes its own.
        dataset: Dataset of an offline agent. None for the others.
        plan: The compositions.
        settings: All settings: those of the preset, and the caller's in their place.
    """

    def __init__(self, plan: Plan, given: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        self.plan, self._given, self.settings = plan, dict(given), dict(settings)
        torch.set_num_threads(plan.threads)
        set_random_seed(plan.seed)
        self.env = plan.make_training_env(given)
        own = plan.base_env is not None
        self.eval_env = plan.make_env(given, SEEDS_PER_RUN * (plan.seed + 1) - 1, test=True) if own else None
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
            **options: Other arguments of the runner, for example `resume`, `hooks` or `checkpoint_freq`.

        Returns:
            The result of the runner: the agent and a list of the evaluations, or as the runner documents.
        """
        steps = self.plan.steps if steps is None else steps
        check_counts(1, steps=steps)
        torch.set_num_threads(self.plan.threads)
        set_random_seed(self.plan.seed)
        outdir = "results" if outdir is None else outdir
        given = {"agent": self.agent, "env": self.env, "eval_env": self.eval_env, "dataset": self.dataset}
        given |= {"env_of_process": functools.partial(self.plan.env_of_process, self._given)}
        given |= {"steps": steps, "outdir": outdir}
        given |= {"eval_interval": max(steps // 10, 1)}
        return call_with(self.plan.train, self._given | given, options)

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
        env: Id of an environment, an environment, or a function without arguments that makes one. An id may name a
            variant of the preset after "@", for example "Hopper-v5@100k".
        seed: Seed of all random streams. `make` and `train` set the global streams of Python, NumPy and torch.
        threads: Number of torch's threads, which `make` and `train` set.
        dataset: Dataset of an offline agent: an `MDPDataset`, or the name "cartpole" or "pendulum" of a set in this
            package. If None, the set of this environment, if there is one.
        **settings: Settings in place of the preset's: of the builder (`lr`, `hidden_sizes`, `gamma`, ...), arguments of
            the agent's constructor, parts of the agent (`q_function=module`, `explorer=...`), and settings of training
            (`steps`, `n_envs`, `reward_scale`, ...).

    Raises:
        ValueError: If there is no such agent or environment, or the agent does not fit the environment's spaces.
        TypeError: If a setting is unknown. The message contains the most similar one.
    """
    check_counts(0, seed=seed)
    check_counts(1, threads=threads)
    name, recipe = find_agent(agent)
    _check_settings(name, recipe, settings)
    given: dict[str, Any] = {}
    env, variant = env.partition("@")[::2] if isinstance(env, str) else (env, "")
    base_env, spaces, env_name = _base_env(env, given)
    preset_name = f"{env_name}@{variant}" if variant else env_name
    settings = {**preset(name, preset_name, spaces), **recipe.settings, **settings}
    training = {**TRAINING, **{key: settings.pop(key) for key in [*settings] if key in TRAINING}}
    wrappers, spaces, notes = _wrappers(spaces, training)
    data = _dataset(recipe, dataset, env_name, given)
    if training["standardize_observations"] and data is not None:
        settings = {**_moments(make_dataset(data, given)), **settings}
    if recipe.class_name == "A2C":
        settings.setdefault("num_processes", training["n_envs"])
    scale, limit = training["reward_scale"], training["max_episode_steps"]
    if limit is not None:
        base_env = _with_time_limit(base_env, limit)
    values = {key: _value(key, value, given) for key, value in settings.items()}
    composed = recipe.build(recipe.class_name, spaces, **values)
    n_envs = 0 if recipe.runner != "online" else training["n_envs"]
    return Made(
        Plan(
            agent_name=name,
            env_name=env_name,
            seed=seed,
            threads=threads,
            steps=training["steps"],
            base_env=base_env,
            wrappers=wrappers,
            training_wrappers=[] if scale == 1 else [parts.wrappers.ScaleReward(Given("env"), scale)],
            n_envs=n_envs if n_envs > 1 else 0,
            dataset=data,
            agent=composed,
            train=_runner(recipe, composed, training, base_env is not None),
            notes=notes,
        ),
        given,
        {**training, **settings},
    )


#: Other libraries' names of settings.
_SYNONYMS = {
    "learning_rate": "lr", "discount": "gamma", "batch_size": "minibatch_size", "buffer_size": "capacity",
    "net_arch": "hidden_sizes", "hidden_units": "hidden_sizes", "total_timesteps": "steps", "n_steps": "steps",
    "learning_starts": "replay_start_size", "tau": "soft_update_tau", "ent_coef": "entropy_coef",
}  # fmt: skip


def _check_settings(name: str, recipe: Recipe, settings: Mapping[str, Any]) -> None:
    known = [*recipe.keywords(), *TRAINING]
    for key in settings:
        if key not in known:
            nearest = difflib.get_close_matches(_SYNONYMS.get(key, key), known, n=1, cutoff=0.0)[0]
            raise TypeError(f"{name} has no setting {key!r}; the nearest is {nearest!r}. Settings: {', '.join(known)}")


def _base_env(env: Any, given: dict[str, Any]) -> tuple[Call | None, Spaces, str]:
    """Return the call that makes an environment (None for an environment of the caller), its spaces and its name."""
    if isinstance(env, str):
        base: Call | None = parts.gymnasium.make(env)
        made = make_env(env)
    elif callable(env) and not hasattr(env, "step"):
        base = Given("env_fn")()
        given["env_fn"] = env
        made = env()
    else:
        base, made = None, env
        given["env"] = env
    spec = getattr(made, "spec", None)
    name = env if isinstance(env, str) else getattr(spec, "id", None) or type(made).__name__
    spaces = Spaces(made.observation_space, made.action_space)
    if base is not None:
        made.close()
    return base, spaces, name


def _wrappers(spaces: Spaces, training: Mapping[str, Any]) -> tuple[list[Call], Spaces, list[str]]:
    """Return the wrappers of the environment, the spaces of the wrapped environment, and notes about both."""
    wrappers, notes = [], []
    obs, action = spaces.obs, spaces.action
    if training["float32_observations"] and _has_float64(obs):
        wrappers.append(parts.wrappers.CastObservationToFloat32(Given("env")))
        notes.append("Observations of float64 are cast to float32.")
    if says_channels_last(obs):
        notes.append("Images have their channels last: the first layer turns them to the front.")
    if training["rescale_actions"] and space_kind(action) == "box" and _needs_rescaling(action):
        wrappers.append(parts.wrappers.NormalizeActionSpace(Given("env")))
        notes.append(f"Actions of the agent are in [-1, 1]. The environment's are in {_bounds(action)}.")
        action = gymnasium.spaces.Box(-1.0, 1.0, action.shape, action.dtype.type)
    return wrappers, Spaces(obs, action), notes


def _with_time_limit(base_env: Call | None, limit: int) -> Call:
    if base_env is None or not isinstance(base_env._function, Name):
        raise ValueError(f"max_episode_steps is {limit}, expected None, because only environments with an id have one")
    return Call(base_env._function, base_env._args, {"max_episode_steps": limit})


def _moments(dataset: Any) -> dict[str, list[float]]:
    """Return the mean and the standard deviation of vector observations, as settings. Empty for other observations."""
    observations = np.asarray(dataset.observations)
    if observations.ndim != 2:
        return {}
    std = observations.std(0) + _LEAST_STD
    return {"obs_mean": observations.mean(0).round(6).tolist(), "obs_std": std.round(6).tolist()}


def _has_float64(space: Any) -> bool:
    if space_kind(space) == "dict":
        return any(map(_has_float64, space.spaces.values()))
    return space_kind(space) == "box" and space.dtype == np.float64


def _needs_rescaling(space: Any) -> bool:
    is_finite = bool(np.isfinite(space.low).all() and np.isfinite(space.high).all())
    return is_finite and not (bool((space.low == -1).all()) and bool((space.high == 1).all()))


def _bounds(space: Any) -> str:
    low, high = {*space.low.ravel().tolist()}, {*space.high.ravel().tolist()}
    return f"[{low.pop():g}, {high.pop():g}]" if len(low) == len(high) == 1 else "their bounds"


def _value(name: str, value: Any, given: dict[str, Any]) -> Any:
    """Return a setting as a value of a composition. Objects of the caller become `Given`s."""
    try:
        return as_value(value)
    except TypeError:
        given[name] = value
        return Given(name)


#: Names of the datasets in this package, keyed by the id of the environment.
PACKAGED = {"CartPole-v1": "cartpole", "Pendulum-v1": "pendulum"}


def _dataset(recipe: Recipe, dataset: Any, env_name: str, given: dict[str, Any]) -> Any:
    if recipe.runner != "offline":
        if dataset is not None:
            raise ValueError(f"dataset is given, but {recipe.class_name} learns online: expected None")
        return None
    dataset = PACKAGED.get(env_name) if dataset is None else dataset
    if dataset is None:
        raise ValueError(f"dataset is None, but {recipe.class_name} learns from data: pass an MDPDataset")
    if isinstance(dataset, str):
        if dataset not in PACKAGED.values():
            raise ValueError(f"dataset is {dataset!r}, expected an MDPDataset, {' or '.join(PACKAGED.values())}")
        return getattr(parts.datasets, f"get_{dataset}")()
    given["dataset"] = dataset
    return Given("dataset")


def _runner(recipe: Recipe, agent: Call, training: Mapping[str, Any], has_eval_env: bool) -> Call:
    """Return the call of the runner."""
    hooks = _schedules(agent, training)
    evaluation = {"eval_interval": Given("eval_interval"), "eval_n_episodes": training["eval_n_episodes"]}
    evaluation["eval_n_steps"] = None
    if has_eval_env and recipe.runner != "async":
        evaluation["eval_env"] = Given("eval_env")
    step_hooks = {"step_hooks": hooks} if hooks else {}
    common = {"steps": Given("steps"), "outdir": Given("outdir"), **evaluation}
    runners, agent_and_env = parts.experiments, (Given("agent"), Given("env"))
    if recipe.runner == "async":
        async_hooks = {"global_step_hooks": hooks} if hooks else {}
        envs = {"processes": training["processes"], "make_env": Given("env_of_process")}
        call: Call = runners.train_agent_async(agent=Given("agent"), **envs, **common, **async_hooks)
    elif recipe.runner == "offline":
        call = runners.train_agent_offline(Given("agent"), Given("dataset"), **common, **step_hooks)
    elif training["n_envs"] > 1:
        call = runners.train_agent_batch_with_evaluation(*agent_and_env, **common, **step_hooks)
    else:
        call = runners.train_agent_with_evaluation(*agent_and_env, **common, **step_hooks)
    return call


def _schedules(agent: Call, training: Mapping[str, Any]) -> list[Any]:
    """Return the hooks that lower the learning rates and epsilon to 0. Optimisers of the caller are left alone."""
    schedule, arguments, hooks = parts.experiments.ScheduleHook, named_arguments(agent), []
    if training["lr_decay"] == "linear":
        hold = {"hold": training["lr_hold"]} if training["lr_hold"] else {}
        for name, value in arguments.items():
            first = value[0] if isinstance(value, list) else value
            if name.endswith(("optimizer", "optimizers")) and isinstance(first, Call):
                held = name if first is value else "q_func*_optimizer"
                hooks.append(schedule(Given("steps"), first._kwargs["lr"], 0.0, f"{held}.lr", **hold))
    explorer = arguments.get("explorer")
    if training["anneal_epsilon"] and names_of(explorer) == ["explorers.LinearDecayEpsilonGreedy"]:
        hooks.append(schedule(Given("steps"), arguments["explorer"]._args[1], 0.0, "explorer.end_epsilon"))
    return hooks
