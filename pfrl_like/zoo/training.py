"""The settings of training in `make`: their checks, and the runner's call."""

from collections.abc import Mapping
from typing import Any

from pfrl_like.utils.checks import check_counts, check_flags, check_numbers
from pfrl_like.zoo.agents import Recipe
from pfrl_like.zoo.builder import named_arguments
from pfrl_like.zoo.composition import Call, Given, names_of, parts
from pfrl_like.zoo.presets import READ_BY


def check_training(recipe: Recipe, training: Mapping[str, Any], usual: Mapping[str, Any]) -> None:
    """Check the settings of training.

    Args:
        recipe: Recipe of the agent.
        training: All settings of training.
        usual: The same settings without those of the caller.

    Raises:
        ValueError: If a value is out of range, or the caller passes a setting that training does not read.
        TypeError: If a value has the wrong type.
    """
    counts = ("steps", "n_envs", "processes", "frame_stack", "eval_n_episodes")
    check_counts(1, **{name: training[name] for name in counts})
    check_counts(1, optional=True, max_episode_steps=training["max_episode_steps"])
    check_numbers(0.0, lr_hold=training["lr_hold"], reward_scale=training["reward_scale"])
    flags = ("anneal_epsilon", "rescale_actions", "float32_observations", "standardize_observations")
    check_flags(**{name: training[name] for name in (*flags, "episode_life", "clip_rewards")})
    decay, hold, scale = training["lr_decay"], training["lr_hold"], training["reward_scale"]
    if decay not in ("none", "linear"):
        raise ValueError(f"lr_decay is {decay!r}, expected 'none' or 'linear'")
    if not isinstance(training["select_features"], Mapping | None):
        expected = "a dict of the arguments of SelectFeatures, or None"
        raise TypeError(f"select_features is {training['select_features']!r:.80}, expected {expected}")
    if hold >= 1:
        raise ValueError(f"lr_hold is {hold!r}, expected a share of the steps, from 0 to less than 1")
    if scale == 0:
        raise ValueError("reward_scale is 0, expected a positive number")
    if hold != usual["lr_hold"] and decay == "none":
        raise ValueError(f"lr_hold is {hold!r}, but lr_decay is 'none': set lr_decay='linear'")
    for name, runners in READ_BY.items():
        if training[name] != usual[name] and recipe.runner not in runners:
            kind = {"online": "one process", "async": "several processes", "offline": "a dataset"}[recipe.runner]
            raise ValueError(
                f"{name} is {training[name]!r}, but {recipe.class_name} is trained with {kind}: leave it out"
            )


def runner_of(recipe: Recipe, agent: Call, training: Mapping[str, Any], has_eval_env: bool) -> Call:
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


def has_epsilon(agent: Call) -> bool:
    """True if the explorer of an agent has an epsilon that falls."""
    return names_of(named_arguments(agent).get("explorer")) == ["explorers.LinearDecayEpsilonGreedy"]


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
    if training["anneal_epsilon"] and has_epsilon(agent):
        hooks.append(schedule(Given("steps"), arguments["explorer"]._args[1], 0.0, "explorer.end_epsilon"))
    return hooks
