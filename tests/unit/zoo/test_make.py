"""`make` composes what its script composes; what the caller gives is used, named in the script, or refused."""

import contextlib
import copy
import importlib
import inspect
import json
import random
import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from composed_agents import ACTIONS, OBS, RandomEnv, run_script
from script_process import digest
from torch import nn

import pfrl_like as pfrl
from pfrl_like.zoo import names
from pfrl_like.zoo.agents import AGENTS, find_agent
from pfrl_like.zoo.make import MODULES, _without_large_bounds
from pfrl_like.zoo.presets import GROUPS, TRAINING

#: Settings with which every agent learns within a few steps.
SMALL = {
    "hidden_sizes": (8,), "replay_start_size": 20, "minibatch_size": 16, "update_steps": 5, "batch_size_per_update": 16,
    "n_critic_updates": 2, "n_actor_updates": 2, "vf_batch_size": 16, "target_return": 200.0, "context_size": 4,
    "num_steps": 1,
}  # fmt: skip
RARE = {"value_based": {"update_interval": 8, "n_times_update": 1, "target_update_interval": 16}}
RARE |= {"on_policy": {"update_interval": 64}}
GROUP = {name: group for group, members in GROUPS.items() for name in members}
OFTEN = ("dqn", "ppo", "a3c", "discrete_cql")


def env_of(name: str) -> str:
    is_discrete = name.startswith("discrete") or GROUP[name] not in ("actor_critics", "offline")
    return "CartPole-v1" if is_discrete else "Pendulum-v1"


def q_function(obs_size: int, n_actions: int) -> nn.Module:
    return nn.Sequential(nn.Linear(obs_size, n_actions), pfrl.q_functions.DiscreteActionValueHead())


def random_env(obs: Any = OBS["vector"]) -> RandomEnv:
    return RandomEnv(obs, ACTIONS["Box"])


def small(name: str, **settings: Any) -> Any:
    known = find_agent(name)[1].keywords()
    own = {**SMALL, **RARE.get(GROUP[name], {})}
    used: dict[str, Any] = {key: value for key, value in own.items() if key in known}
    if GROUP[name] == "offline":
        used |= {"replay_start_size": 16}
    if name == "drqn":
        used |= {"minibatch_size": 4}  # episodes
    return pfrl.make(name, env_of(name), **used | {"eval_n_episodes": 1} | settings)


def with_marks(often: tuple[str, ...]) -> list[Any]:
    return [pytest.param(name, marks=() if name in often else pytest.mark.slow) for name in AGENTS]


@pytest.mark.parametrize("name", with_marks(OFTEN))
def test_an_agent_trains_as_its_script_and_acts_when_loaded(name: str, tmp_path: Path) -> None:
    made = small(name)
    if AGENTS[name].runner == "async":
        scope: dict[str, Any] = {"__name__": "script"}
        exec(made.script(), scope)
        pfrl.utils.set_random_seed(0)
        twin = scope["make_agent"](scope["make_env"](0))
    else:
        before = digest(made.agent)
        made.train(200, tmp_path / "made", progress=False, eval_interval=200)
        assert digest(made.agent) != before
        made.plan.train._kwargs["eval_interval"] = 200
        twin = run_script(made, tmp_path / "script", 200)
    assert digest(twin) == digest(made.agent)

    made.agent.save(tmp_path / "agent")
    loaded = pfrl.load_agent(tmp_path / "agent")
    observations = [made.eval_env.observation_space.sample() for _ in range(20)]
    with made.agent.eval_mode():
        assert np.array_equal(actions(made.agent, observations), actions(loaded, observations))


def actions(agent: Any, observations: list[Any]) -> np.ndarray:
    torch.manual_seed(0)  # noisy layers draw in evaluation, too
    with contextlib.suppress(AttributeError):
        agent.stop_episode()
    return np.array([agent.act(obs) for obs in observations])


def test_agents_that_are_made_at_the_same_time_do_not_disturb_each_other(tmp_path: Path) -> None:
    alone = small("dqn")
    alone.train(100, tmp_path / "alone", progress=False)
    first, second = small("dqn"), small("dqn", seed=1)
    second.train(100, tmp_path / "second", progress=False)
    first.train(100, tmp_path / "first", progress=False)
    assert digest(first.agent) == digest(alone.agent) != digest(second.agent)


def test_objects_of_the_caller_are_parameters_of_main(tmp_path: Path) -> None:
    def q_function() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 2), pfrl.q_functions.DiscreteActionValueHead())

    def env() -> gymnasium.Env[Any, Any]:
        return gymnasium.make("CartPole-v1")

    made = pfrl.make("dqn", env(), q_function=q_function(), replay_start_size=64, update_interval=8,
                     target_update_interval=8)  # fmt: skip
    made.train(100, tmp_path / "made", progress=False)
    assert "def main(env, q_function, steps=50_000" in made.script()
    assert digest(run_script(made, tmp_path / "script", 100, env(), q_function())) == digest(made.agent)


def test_a_function_that_makes_environments_is_a_parameter_of_main() -> None:
    made = pfrl.make("ppo", lambda: gymnasium.make("CartPole-v1"), n_envs=2)
    assert len(made.env.envs) == 2
    assert "def main(env_fn, steps" in made.script()


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("obs", OBS)
def test_all_kinds_of_observations_and_actions(obs: str, action: str, tmp_path: Path) -> None:
    made = pfrl.make("ppo", lambda: RandomEnv(OBS[obs], ACTIONS[action]), hidden_sizes=(4,), update_interval=8,
                     minibatch_size=4, n_envs=1)  # fmt: skip
    before = digest(made.agent)
    pfrl.experiments.train_agent(made.agent, made.env, 20, tmp_path)
    assert digest(made.agent) != before
    turned = "Images have their channels last: the first layer turns them to the front."
    assert (turned in made.plan.notes) == (obs != "vector")


def test_what_is_done_to_the_environment_is_said() -> None:
    spaces = gymnasium.spaces.Box(-1, 1, (3,), np.float64), gymnasium.spaces.Box(-2, 2, (1,), np.float32)
    made = pfrl.make("td3", lambda: RandomEnv(*spaces), reward_scale=0.5)
    assert made.env.observation_space.dtype == np.float32
    assert made.env.action_space.low.tolist() == [-1]
    text = made.script()
    assert "Observations of float64 are cast to float32." in text
    assert "Actions of the agent are in [-1, 1]. The environment's are in [-2, 2]." in text
    assert "if not test:\n        env = wrappers.ScaleReward(env, 0.5)" in text


def test_a_time_limit_replaces_that_of_the_environment() -> None:
    made = pfrl.make("dqn", "CartPole-v1", max_episode_steps=7)
    assert made.env.spec.max_episode_steps == 7
    with pytest.raises(ValueError, match="max_episode_steps is 7, expected None"):
        pfrl.make("dqn", gymnasium.make("CartPole-v1"), max_episode_steps=7)


@pytest.mark.parametrize(
    ("agent", "settings", "error", "text"),
    [
        ("dqn", {"batchsize": 8}, TypeError, "'batchsize'; the nearest are 'minibatch_size', 'batch_states'. "),
        ("dqn", {"foo": 1}, TypeError, "dqn has no setting 'foo'. `pfrl-like list settings dqn` lists all"),
        ("dqn", {"learning_rate": 1e-3}, TypeError, "dqn has no setting 'learning_rate'; the nearest is 'lr'"),
        ("dqn", {"hidden_size": 3}, TypeError, "the nearest is 'hidden_sizes'"),
        ("dqm", {}, ValueError, "the nearest is 'dqn'"),
        (pfrl.agents.DQN, {}, TypeError, "expected a name such as 'dqn'"),
        ("sac", {}, ValueError, "the action space is Discrete"),
        ("discrete_cql", {"dataset": "cartpol"}, ValueError, "dataset is 'cartpol', expected"),
        ("dqn", {"dataset": "cartpole"}, ValueError, "DQN learns online"),
        ("dqn", {"seed": -1}, ValueError, "seed is -1"),
        ("dqn", {"threads": 0}, ValueError, "threads is 0"),
        ("dqn", {"steps": 0}, ValueError, "steps is 0"),
        ("dqn", {"eval_n_episodes": 1.5}, TypeError, "eval_n_episodes is 1.5"),
        ("dqn", {"reward_scale": 0}, ValueError, "reward_scale is 0, expected a positive number"),
        ("dqn", {"reward_scale": "1"}, TypeError, "reward_scale is '1'"),
        ("dqn", {"lr_decay": "cosine"}, ValueError, "lr_decay is 'cosine', expected 'none' or 'linear'"),
        ("dqn", {"lr_hold": 1.0}, ValueError, "lr_hold is 1.0, expected a share"),
        ("dqn", {"lr_hold": 0.5, "lr_decay": "none"}, ValueError, "set lr_decay='linear'"),
        ("dqn", {"rescale_actions": 1}, TypeError, "rescale_actions is 1"),
        ("dqn", {"processes": 3}, ValueError, "processes is 3, but DQN is trained with one process"),
        ("dqn", {"standardize_observations": True}, ValueError, "standardize_observations is True"),
        ("a3c", {"n_envs": 4}, ValueError, "n_envs is 4, but A3C is trained with several processes"),
        ("discrete_cql", {"reward_scale": 0.5}, ValueError, "but DiscreteCQL is trained with a dataset"),
        ("dqn", {"anneal_epsilon": True, "noise": 0.5}, ValueError, "the explorer has no epsilon that falls"),
        ("a2c", {"num_processes": 3}, ValueError, "num_processes is 3, expected n_envs, which is 8"),
        ("dqn", {"hidden_sizes": 64}, TypeError, "hidden_sizes is 64, expected a list of sizes"),
        ("dqn", {"hidden_sizes": "64"}, TypeError, "hidden_sizes is '64'"),
        ("dqn", {"hidden_sizes": (64, 0)}, ValueError, "hidden_sizes is 0"),
        ("dqn", {"activation": "Relu"}, ValueError, "activation is 'Relu', expected one of ReLU"),
        ("dqn", {"lr": 0.5, "optimizer": object()}, TypeError, "lr is 0.5, but has no effect on DQN beside optimizer:"),
        ("dqn", {"capacity": 7, "replay_buffer": object()}, TypeError, "capacity is 7, but has no effect"),
        ("ppo", {"hidden_sizes": (7,), "model": nn.Identity()}, TypeError, "hidden_sizes is (7,), but has no effect"),
        ("dqn", {"q_function": nn.Linear}, TypeError, "q_function is the class Linear, expected a torch.nn.Module"),
        ("dqn", {"q_function": "mlp"}, TypeError, "q_function is 'mlp' (str), expected a torch.nn.Module"),
        ("dqn", {"q_function": nn.Linear(4, 2)}, TypeError, "q_function gives Tensor, expected ActionValue"),
        ("dqn", {"q_function": q_function(3, 2)}, ValueError, "obs does not fit q_function; obs is (1, 4) of float32"),
        ("dqn", {"q_function": q_function(4, 3)}, ValueError, "the values of 3 actions, the environment has 2"),
        ("ppo", {"policy": nn.ReLU}, TypeError, "policy is the class ReLU, expected a torch.nn.Module"),
        ("ppo", {"model": nn.Linear(4, 2)}, TypeError, "model gives Tensor, expected tuple"),
        ("dqn", {"optimizer": torch.optim.Adam}, TypeError, "optimizer is the class Adam"),
    ],
)
def test_mistakes_are_named(agent: Any, settings: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        pfrl.make(agent, "CartPole-v1", **settings)


@pytest.mark.parametrize(
    ("env", "error", "text"),
    [
        (pfrl.envs.make_vec("CartPole-v1", 2), ValueError, "env is a vector of 2 environments"),
        (lambda: pfrl.envs.make_vec("CartPole-v1", 2), ValueError, "pass an id, or a function"),
        (gymnasium.spec("CartPole-v1"), TypeError, "env is the EnvSpec of CartPole-v1"),
        (3, TypeError, "env is 3, expected an id, an environment, or a function"),
        (random_env(gymnasium.spaces.Discrete(3, start=1)), ValueError, "subtract 1"),
        (random_env(gymnasium.spaces.Tuple([OBS["vector"]])), ValueError, "a Dict of them: a wrapper"),
        ((lambda env: lambda: env)(random_env()), ValueError, "the same env"),
        (gymnasium.Wrapper, TypeError, "env"),
    ],
)
def test_environments_that_do_not_fit_are_refused(env: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        pfrl.make("ppo", env)


@pytest.mark.parametrize(
    ("agent", "settings", "text"),
    [("ppo", {"n_envs": 2}, "n_envs is 2, but env is a single"), ("a3c", {}, "A3C needs one in every process")],
)
def test_an_agent_of_several_environments_is_refused_a_single_one(agent: str, settings: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        pfrl.make(agent, random_env(), **settings)


def test_an_environment_of_the_caller_is_the_only_one() -> None:
    env = random_env()
    for name in ("ppo", "a2c"):
        made = pfrl.make(name, env)
        assert made.env is env and made.settings["n_envs"] == 1
        assert "The preset has 8 environments. The caller's environment is the only one." in made.script()


def test_a2c_has_as_many_processes_as_environments() -> None:
    assert pfrl.make("a2c", "CartPole-v1", n_envs=2).agent.num_processes == 2


def test_evaluations_in_a_copy_of_the_callers_environment_have_rewards_as_they_are(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"hidden_sizes": (4,), "update_interval": 8, "minibatch_size": 4, "reward_scale": 0.5}
    made = pfrl.make("ppo", random_env(), **settings)
    assert made.env.env is not made.eval_env
    made.eval_env.reset()
    assert made.eval_env.step(np.zeros(2, np.float32))[1] == 1
    made.train(20, tmp_path / "made", progress=False)
    assert digest(run_script(made, tmp_path / "script", 20, random_env())) == digest(made.agent)

    fixed = random_env()
    fixed.generator = (each for each in [1])  # type: ignore[attr-defined]  # cannot be copied
    with pytest.raises(ValueError, match="reward_scale is not 1, and env .* cannot be copied"):
        pfrl.make("ppo", fixed, **settings)


def test_an_offline_agent_is_evaluated_in_the_callers_environment(tmp_path: Path) -> None:
    env = gymnasium.make("CartPole-v1")
    made = pfrl.make("discrete_bc", env, hidden_sizes=(4,))
    assert made.eval_env is made.env is env
    assert "eval_env = env\n" in made.script()


def test_a_class_and_an_environment_in_the_form_of_gym_are_environments(tmp_path: Path) -> None:
    class Old:
        observation_space, action_space = OBS["vector"], ACTIONS["Discrete"]

        def seed(self, seed: int) -> None:
            self.rng = np.random.default_rng(seed)

        def reset(self) -> Any:
            return self.rng.normal(size=3).astype(np.float32)

        def step(self, action: Any) -> Any:
            return self.reset(), 1.0, bool(self.rng.random() < 0.5), {}

    settings: dict[str, Any] = {"hidden_sizes": (4,), "update_interval": 8, "minibatch_size": 4, "n_envs": 2}
    made = pfrl.make("ppo", Old, **settings)
    made.train(20, tmp_path / "made", progress=False)
    assert digest(run_script(made, tmp_path / "script", 20, Old)) == digest(made.agent)


def test_hooks_of_the_caller_come_after_those_of_the_preset(tmp_path: Path) -> None:
    made = small("ppo", lr=1e-3)
    hook = pfrl.experiments.ScheduleHook(4, 1.0, 2.0, "entropy_coef")
    made.train(4, tmp_path, progress=False, step_hooks=[hook])
    assert made.agent.entropy_coef == 2.0
    assert {group["lr"] for group in made.agent.optimizer.param_groups} == {0.0}


def test_every_training_has_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = small("ppo")
    made.train(1, progress=False)
    run_script(made, None, 1)
    assert len([*Path("results").glob("*-ppo-cartpole-seed0*")]) == 2


def test_a_float64_image_in_a_dict_is_divided_like_the_image_that_it_was() -> None:
    spaces = gymnasium.spaces.Dict({"image": OBS["image"], "x": gymnasium.spaces.Box(-1, 1, (3,), np.float64)})
    text = pfrl.make("ppo", lambda: random_env(spaces)).script()
    assert "ToFloat(255" in text and "ToFloat()" not in text


def test_names_of_agents_have_many_spellings() -> None:
    for spelling in ("sac", "SAC", "SoftActorCritic", "soft-actor-critic"):
        assert find_agent(spelling)[0] == "sac"
    assert find_agent("TD3+BC")[0] == find_agent("td3_plus_bc")[0] == "td3_plus_bc"
    assert find_agent("DQN")[0] == "dqn"


def test_presets_and_builders_know_the_same_agents() -> None:
    assert set(AGENTS) == set(GROUP)


def test_settings_of_training_and_of_agents_have_different_names() -> None:
    for recipe in AGENTS.values():
        assert not {*recipe.keywords()} & {*TRAINING}


def test_every_name_of_the_table_exists() -> None:
    for path in names._TABLE:
        assert callable(names.resolve(path)), path


@pytest.mark.parametrize("name", with_marks(OFTEN))
def test_a_script_needs_nothing_of_the_zoo(name: str) -> None:
    text = small(name).script()
    assert "zoo" not in text.replace("`pfrl_like.make`", "")
    assert max(map(len, text.splitlines())) <= 120


def test_the_composition_of_a_run_is_plain_json() -> None:
    stored = small("ppo").agent.composition
    assert json.loads(json.dumps(stored)) == stored
    assert stored["run"]["seed"] == 0


def test_a_variant_of_a_preset_is_named_after_the_id() -> None:
    usual, variant = (pfrl.make("td3", env) for env in ("Hopper-v5", "Hopper-v5@100k"))
    assert usual.env.spec.id == variant.env.spec.id
    assert usual.script() != variant.script()
    with pytest.raises(ValueError, match="variant"):
        pfrl.make("ppo", "CartPole-v1@unknown")


def test_noise_in_place_of_epsilon_has_no_epsilon_to_lower() -> None:
    assert "end_epsilon" in pfrl.make("dqn", "MountainCar-v0").script()
    assert "end_epsilon" not in pfrl.make("dqn", "MountainCar-v0", noise=0.5).script()


@pytest.mark.parametrize(
    ("name", "lr"), [pytest.param("redq", 1e-3, marks=pytest.mark.slow), ("fqf", 2.3e-3), ("td3", 1e-3), ("trpo", 1e-3)]
)
def test_all_learning_rates_fall_to_0(name: str, lr: float, tmp_path: Path) -> None:
    made = small(name, lr=lr, **({"n_critics": 3} if name == "redq" else {}))
    optimizers = {key: part for key, part in vars(made.agent).items() if isinstance(part, torch.optim.Optimizer)}
    optimizers.pop("temperature_optimizer", None)
    assert max(group["lr"] for optimizer in optimizers.values() for group in optimizer.param_groups) == lr
    made.train(30, tmp_path, progress=False, eval_interval=30)
    assert {group["lr"] for optimizer in optimizers.values() for group in optimizer.param_groups} == {0.0}


def test_the_readme_shows_the_printed_script() -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    assert f"```py\n{pfrl.make('dqn', 'CartPole-v1', seed=0).script()}```" in readme


def test_builders_use_every_name_of_the_table() -> None:
    folder = Path(names.__file__).parent
    paths = [*folder.glob("*.py"), folder / "agents.toml"]
    sources = [path.read_text() for path in paths if path.name != "names.py"]
    words = {*re.findall(r"\w+", " ".join(sources))}
    datasets = {"datasets.get_cartpole", "datasets.get_pendulum"}  # composed from their names
    assert {path for path in names._TABLE if path.rpartition(".")[2] not in words} == datasets


def test_what_others_call_elsewhere_is_named() -> None:
    made = pfrl.make("dqn", "CartPole-v1", hidden_sizes=(4,))
    with pytest.raises(AttributeError, match=r"Made has no attribute 'learn': use made.train\(steps\)"):
        made.learn(100)
    with pytest.raises(AttributeError, match="Made has no attribute 'other'$"):
        made.other  # noqa: B018
    with pytest.raises(TypeError, match="lr is no argument of train, but a setting of the agent: pass it to make"):
        made.train(10, lr=1.0)


@pytest.mark.parametrize(
    ("agent", "names"), [("ppo", "'update_interval' or 'steps'"), ("a2c", "'update_steps' or 'steps'")]
)
def test_n_steps_is_the_length_of_a_rollout_or_of_the_training(agent: str, names: str) -> None:
    with pytest.raises(TypeError, match=f"{agent} has no setting 'n_steps'; the nearest is {names}"):
        pfrl.make(agent, "CartPole-v1", n_steps=128)


@pytest.mark.parametrize("name", ["total_timesteps", "timesteps", "n_steps", "step"])
def test_other_names_of_the_number_of_steps_are_named(name: str) -> None:
    made = pfrl.make("dqn", "CartPole-v1", hidden_sizes=(4,))
    with pytest.raises(TypeError, match=f"train has no argument '{name}'; the nearest is 'steps'"):
        made.train(**{name: 10})


@pytest.mark.parametrize(
    ("module", "name", "limit", "text"),
    [
        ("composition", "_MAX_VALUES", 60, "has more than 60 values"),
        ("make", "MAX_COMPOSITION", 900, "JSON exceed the limit of 900"),
    ],
)
def test_a_composition_that_cannot_be_saved_is_refused_before_training(
    module: str, name: str, limit: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.import_module(f"pfrl_like.zoo.{module}"), name, limit)
    env = random_env(gymnasium.spaces.Box(-1, 1, (50,), np.float32))
    settings: dict[str, Any] = {"obs_mean": [0.25] * 50, "obs_std": [1.0] * 50, "hidden_sizes": (1,)}
    text = f"obs_mean is too large to be saved with the agent, whose composition .*{text}"
    with pytest.raises(ValueError, match=text):
        pfrl.make("bc", env, dataset="pendulum", **settings)


def test_a_number_that_cannot_be_saved_is_no_matter_of_size() -> None:
    text = "the agent cannot be saved, because its composition has an integer of 71 bits"
    with pytest.raises(ValueError, match=text):
        pfrl.make("dqn", "CartPole-v1", hidden_sizes=(4,), replay_start_size=2**70)


def test_a_module_of_the_caller_is_tried_whatever_the_bounds_of_the_space() -> None:
    most = np.finfo(np.float64).max
    space = gymnasium.spaces.Dict({"x": gymnasium.spaces.Box(-most, most, (4,), np.float64)})
    assert np.isfinite(_without_large_bounds(space).sample()["x"]).all()
    env = RandomEnv(space["x"], ACTIONS["Discrete"])
    env.reset = lambda **kwargs: (np.zeros(4), {})  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="obs does not fit q_function; obs is "):
        pfrl.make("dqn", env, float32_observations=False, q_function=q_function(3, 3))


def test_packaged_data_have_all_features() -> None:
    with pytest.raises(ValueError, match="select_features is .*, but datasets of this package have all features"):
        pfrl.make("discrete_bc", "CartPole-v1", select_features={"indices": [0, 2]})


class Noise(nn.Module):
    """Adds noise of torch's global stream, also in evaluation."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand_like(x)


def test_the_trial_of_a_module_of_the_caller_changes_no_random_stream() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), Noise(), q_function(4, 2))
    before = copy.deepcopy(module.state_dict())
    made = pfrl.make("dqn", "CartPole-v1", q_function=module)
    streams = torch.get_rng_state(), np.random.get_state()[1], random.getstate()
    action = made.env.action_space.sample()
    assert all(torch.equal(before[key], value) for key, value in module.state_dict().items())
    pfrl.utils.set_random_seed(0)
    assert torch.equal(streams[0], torch.get_rng_state()) and random.getstate() == streams[2]
    assert np.array_equal(streams[1], np.random.get_state()[1])
    other = pfrl.make("dqn", "CartPole-v1", hidden_sizes=(4,))
    assert action == other.env.action_space.sample()


def test_modules_are_the_settings_whose_type_is_a_module() -> None:
    found = {
        key
        for recipe in AGENTS.values()
        for key, parameter in inspect.signature(names.resolve(f"agents.{recipe.class_name}")).parameters.items()
        if parameter.annotation in (nn.Module, nn.Module | None)
    }
    assert found == MODULES
