"""Arguments that are counts accept integral floats, such as 1e6, and store integers; other floats are errors."""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from experiment_fakes import Counting, Recorder
from pfrl_interface import FACTS, found
from registry import KINDS, arguments_of

from pfrl_like import agents, collections, envs, experiments, replay_buffers, wrappers
from pfrl_like.experiments import evaluator
from pfrl_like.nn import EmpiricalNormalization
from pfrl_like.replay_buffer import ReplayUpdater
from pfrl_like.utils.checks import takes_integral_floats
from pfrl_like.wrappers import atari_wrappers

#: Integers that count nothing.
NO_COUNTS = {"gpu", "process_idx", "t"}
#: PFRL's functions whose integers are sizes of layers, or numbers of other kinds, which PFRL refuses as floats, too.
OTHERS = (
    *("agents.acer:ACERC", "agents.iqn:", "agents.categorical_dqn:", "envs.abc:", "nn.", "policies.", "q_functions."),
    *("utils.random:", "utils.random_seed:", "utils.async_:", "utils.conjugate_gradient:"),
)
#: Agents of the default run; the others have the same bases.
SHOWN = (
    *("DQN", "DDPG", "SoftActorCritic", "TD3", "IQN", "REDQ", "TQC"),
    *("PPO", "TRPO", "A2C", "A3C", "ACER", "REINFORCE"),
)
AGENTS = [pytest.param(each, marks=[] if each.__name__ in SHOWN else pytest.mark.slow) for each in KINDS]
Make = Callable[[Any], Any]


def counts_of(function: Any) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.annotation in (int, int | None) and each.name not in NO_COUNTS]


def wrappers_of(function: Any) -> Iterator[Any]:
    while function is not None:
        yield function.__code__.co_qualname
        function = getattr(function, "__wrapped__", None)


def entry_points() -> Iterator[str]:
    """Paths of PFRL's functions and constructors that have counts."""
    for path, text in FACTS.items():
        function = found(path)
        is_entry = path.endswith(".__init__") or "." not in path.partition(":")[2]
        is_public = is_entry and not path.startswith(OTHERS) and ":_" not in path
        if text[0] == "(" and is_public and inspect.isfunction(function) and counts_of(function):
            yield path


def test_every_entry_point_of_pfrl_with_counts_converts_floats() -> None:
    paths = [*entry_points()]
    assert len(paths) > 30
    converts = takes_integral_floats(lambda: None).__code__.co_qualname
    exempt = {"replay_buffer:random_subseq", "wrappers.atari_wrappers:LazyFrames.__init__"}
    assert {path for path in paths if converts not in wrappers_of(found(path))} == exempt


@pytest.mark.parametrize("kind", AGENTS)
def test_agents_store_integers(kind: Any) -> None:
    given = {**{name: each.default for name, each in inspect.signature(kind).parameters.items()}, **arguments_of(kind)}
    floats = {name: float(given[name]) for name in counts_of(kind) if type(given[name]) is int}
    assert floats
    agent = kind(**{**arguments_of(kind), **floats})
    stored = {name: getattr(agent, name) for name in floats if hasattr(agent, name)}
    assert {name: type(value) for name, value in stored.items()} == dict.fromkeys(stored, int)


@pytest.mark.parametrize("kind", AGENTS)
def test_agents_reject_other_floats_and_name_them(kind: Any) -> None:
    given = arguments_of(kind)
    for name in counts_of(kind):
        with pytest.raises((TypeError, ValueError), match=f"{name} is 1.5"):
            kind(**{**given, name: 1.5})


def replay_updater(**changes: Any) -> ReplayUpdater:
    counts: dict[str, Any] = dict.fromkeys(("batchsize", "n_times_update", "replay_start_size", "update_interval"), 4)
    return ReplayUpdater(replay_buffers.ReplayBuffer(), print, episodic_update=False, **{**counts, **changes})


def made(tmp_path: Path) -> dict[tuple[str, str], Make]:
    """Each class but agents, with a count that it stores."""
    env = gymnasium.make("CartPole-v1")
    buffers = replay_buffers
    made: dict[tuple[str, str], Make] = {
        ("ReplayBuffer", "num_steps"): lambda n: buffers.ReplayBuffer(10, n),
        ("PrioritizedReplayBuffer", "num_steps"): lambda n: buffers.PrioritizedReplayBuffer(10, num_steps=n),
        ("RandomAccessQueue", "maxlen"): lambda n: collections.RandomAccessQueue(maxlen=n),
        ("PrioritizedBuffer", "capacity"): lambda n: collections.PrioritizedBuffer(n),
        ("ContinuingTimeLimit", "max_episode_steps"): lambda n: wrappers.ContinuingTimeLimit(env, n),
        ("EmpiricalNormalization", "until"): lambda n: EmpiricalNormalization(3, until=n),
        ("VectorFrameStack", "k"): lambda n: wrappers.VectorFrameStack(envs.SerialVectorEnv([env]), n),
        ("NoopResetEnv", "noop_max"): lambda n: atari_wrappers.NoopResetEnv(Meanings(), n),
    }
    for name in ("batchsize", "n_times_update", "update_interval", "replay_start_size", "episodic_update_len"):
        made["ReplayUpdater", name] = lambda n, name=name: replay_updater(**{name: n})  # type: ignore[misc]
    for kind in ("Replay", "EpisodicReplay", "PrioritizedReplay", "PrioritizedEpisodicReplay"):
        cls = getattr(buffers, f"{kind}Buffer")
        made[cls.__name__, "capacity"] = cls
    for name in ("capacity", "num_steps", "sync_every", "journal_length"):
        made["PersistentReplayBuffer", name] = lambda n, name=name: buffers.PersistentReplayBuffer(  # type: ignore[misc]
            str(tmp_path / f"{name}{n}"), **{"capacity": 10, name: n}
        )
    return made


class Meanings(Counting):
    def get_action_meanings(self) -> list[str]:
        return ["NOOP", "FIRE"]


def test_other_objects_store_integers_and_reject_other_floats(tmp_path: Path) -> None:
    for (_, name), make in made(tmp_path).items():
        stored = {"max_episode_steps": "_max_episode_steps"}.get(name, name)
        value = getattr(make(4.0), stored)
        assert (type(value), value) == (int, 4)
        with pytest.raises((TypeError, ValueError), match=f"{name}(:| is|: got) 1.5"):
            make(1.5)


def runners(tmp_path: Path) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Runners with their arguments but the counts, which are added as floats."""
    common = {"agent": Recorder(), "env": Counting(), "outdir": str(tmp_path)}
    vector = {**common, "env": envs.SerialVectorEnv([Counting(), Counting()])}
    evaluation = {"steps": 12.0, "eval_n_steps": None, "eval_n_episodes": 2.0, "eval_interval": 6.0}
    return {
        "train_agent": (experiments.train_agent, {**common, "steps": 6.0}),
        "train_agent_with_evaluation": (experiments.train_agent_with_evaluation, {**common, **evaluation}),
        "train_agent_batch": (experiments.train_agent_batch, {**vector, "steps": 6.0}),
        "train_agent_batch_with_evaluation": (experiments.train_agent_batch_with_evaluation, {**vector, **evaluation}),
    }


RUNNERS = [*runners(Path())]


@pytest.mark.parametrize("name", RUNNERS)
def test_a_run_with_floats_writes_integers(name: str, tmp_path: Path) -> None:
    run, arguments = runners(tmp_path)[name]
    more = {each: 6.0 for each in counts_of(run) if each.endswith(("max_episode_len", "checkpoint_freq"))}
    run(**arguments, **more, step_offset=0.0)
    steps = int(arguments["steps"])
    assert len(arguments["agent"].observed) == steps
    assert {each.name for each in tmp_path.iterdir()} >= {f"{steps}_finish"}
    if "eval_interval" in arguments:
        lines = (tmp_path / "scores.txt").read_text(encoding="utf-8").splitlines()[1:]
        assert [line.split("\t")[0] for line in lines] == ["6", "12"]


@pytest.mark.parametrize("name", RUNNERS)
def test_runners_reject_other_floats_and_name_them(name: str, tmp_path: Path) -> None:
    run, arguments = runners(tmp_path)[name]
    for each in counts_of(run):
        limits = {"eval_n_episodes": None} if each == "eval_n_steps" else {}
        with pytest.raises(TypeError, match=f"{each} is 1.5"):
            run(**{**arguments, **limits, each: 1.5})
    assert not [*tmp_path.iterdir()]


def test_evaluations_take_floats_and_reject_others() -> None:
    agent, env = Recorder(), Counting()
    scores, lengths = evaluator.run_evaluation_episodes(env, agent, n_steps=None, n_episodes=2.0, max_episode_len=2.0)
    assert lengths == [2, 2]
    for name in ("n_episodes", "max_episode_len"):
        with pytest.raises(TypeError, match=f"{name} is 1.5"):
            evaluator.run_evaluation_episodes(env, agent, n_steps=None, **{"n_episodes": 1, name: 1.5})


def test_the_actors_and_the_learner_take_floats() -> None:
    with pytest.raises(TypeError, match="n_actors is 1.5"):
        agents.DQN(**arguments_of(agents.DQN)).setup_actor_learner_training(n_actors=1.5)
