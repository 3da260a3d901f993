"""Mistakes that users make, and the error that each of them gets.

`python tests/support/mistakes.py --write` pins the errors in tests/data/mistakes.json, so that a change of their words
is one visible diff.
"""

import contextlib
import functools
import io
import json
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from async_parts import make_a3c
from estimator_parts import QUIET, make, vectors
from fqe_parts import QUIET as QUIET_FQE
from gymnasium import spaces
from network_parts import BOX, N_ACTIONS, OBS, make_critic, make_policy, make_q_function, make_value
from on_policy_parts import make_on_policy
from pair_base import Noise, adam, agreement
from torch import nn

import pfrl_like
from pfrl_like import agents, algos, cli, experiments, explorers, ope, replay_buffers
from pfrl_like.dataset import MDPDataset
from pfrl_like.envs import MultiprocessVectorEnv, SerialVectorEnv, make_vec
from pfrl_like.learning.acting import Acting
from pfrl_like.testing import check_replay_buffer
from pfrl_like.testing.play import play_one
from pfrl_like.utils import set_random_seed

PINNED = Path(__file__).parents[1] / "data" / "mistakes.json"
DISCRETE = spaces.Discrete(N_ACTIONS)
Mistake = Callable[[Path], Any]

# What mistakes are made with


def dqn(kind: Any = agents.DQN, **changes: Any) -> Any:
    """A small DQN with some arguments changed; None leaves one out."""
    q_function = changes.pop("q_function", None) or make_q_function("expected")
    arguments = {
        "q_function": q_function, "optimizer": None, "replay_buffer": replay_buffers.ReplayBuffer(100), "gamma": 0.9,
        "explorer": explorers.ConstantEpsilonGreedy(0.3, functools.partial(np.random.randint, N_ACTIONS)),
        "replay_start_size": 8, "minibatch_size": 4, **changes,
    }  # fmt: skip
    if arguments["optimizer"] is None:
        arguments["optimizer"] = adam(q_function if isinstance(q_function, nn.Module) else make_value())
    return kind(**arguments)


def actor_critic(kind: Any = agents.SoftActorCritic, **changes: Any) -> Any:
    """A small actor-critic with some arguments changed."""
    given = {"policy": make_policy("squashed"), "q_func1": make_critic("numbers"), "q_func2": make_critic("numbers")}
    given |= {name: part for name, part in changes.items() if name in given}
    optimizers = {f"{name}_optimizer": adam(part) for name, part in given.items()}
    rest = dict(replay_buffer=replay_buffers.ReplayBuffer(100), gamma=0.9, replay_start_size=8, minibatch_size=4)
    return kind(**{**given, **optimizers, **rest, **changes})


def env(space: spaces.Space[Any] = DISCRETE) -> Noise:
    """An environment that has begun an episode."""
    made = Noise(space)
    made.reset(seed=0)
    return made


def filled(buffer: Any, n_steps: int = 20) -> Any:
    """The buffer with some steps."""
    for i in range(n_steps):
        append(buffer, i)
    return buffer


def append(buffer: Any, i: int = 0, **changes: Any) -> None:
    """A step with some values changed."""
    step = {"state": np.full(OBS, i, np.float32), "action": 1, "reward": 1.0, "next_state": np.zeros(OBS, np.float32)}
    buffer.append(**{**step, "is_state_terminal": i % 5 == 4, **changes})


def run(folder: Path, runner: Any = experiments.train_agent, agent: Any = None, **changes: Any) -> None:
    """Some steps of training with some arguments changed."""
    arguments = {"agent": agent or dqn(), "env": env(), "steps": 12, "outdir": folder / "run", "progress": False}
    runner(**arguments | changes)


def evaluated_run(folder: Path, **changes: Any) -> None:
    evaluation = {"eval_n_steps": None, "eval_n_episodes": 1, "eval_interval": 10}
    run(folder, experiments.train_agent_with_evaluation, **{**evaluation, **changes})


def batch_run(folder: Path, **changes: Any) -> None:
    run(folder, experiments.train_agent_batch, **{"env": SerialVectorEnv([env(), env()]), **changes})


def offline_run(folder: Path, **changes: Any) -> None:
    run(folder, functools.partial(without_env, experiments.train_agent_offline), **{"dataset": data(), **changes})


def without_env(runner: Any, env: Any, **arguments: Any) -> None:
    runner(**arguments)


def data(discrete: bool = True) -> MDPDataset:
    return vectors(discrete, 24, 8)


@functools.cache
def arrays() -> Mapping[str, Any]:
    """Arrays of a dataset, by name."""
    names = ("observations", "actions", "rewards", "terminals")
    return {name: values for name, values in data().to_arrays().items() if name in names}


def fitted(name: str = "DQN") -> Any:
    """An estimator that has networks."""
    estimator = make(name)
    estimator.create_impl((4,), 3 if name == "DQN" else 2)
    return estimator


def saved(agent: Any, folder: Path) -> Path:
    """Where an agent has been saved."""
    agent.save(folder / "saved")
    return folder / "saved"


def damage(folder: Path, pattern: str) -> Path:
    """Invert the second half of a file."""
    path = min(folder.glob(pattern))
    content = bytearray(path.read_bytes())
    content[len(content) // 2 :] = bytes(255 - byte for byte in content[len(content) // 2 :])
    path.write_bytes(content)
    return path


def resumed(folder: Path, first: Any, second: Any, **changes: Any) -> None:
    """Resume the run of another agent."""
    run(folder, agent=first, checkpoint_freq=5)
    run(folder, agent=second, resume=True, **{"steps": 20, **changes})


class CommandError(Exception):
    """What the command line has printed."""


def command(*words: str) -> None:
    """The last line of what a command prints to stderr."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(io.StringIO()):
            status = cli.main(words)
    except SystemExit as error:
        status = int(error.code or 0)
    if status == 2:
        raise CommandError(printed.getvalue().strip().splitlines()[-1].replace("'", ""))


class NoModule:
    """A Q-function that is no module."""

    def __call__(self, obs: Any) -> Any:
        return obs


def subclass_with(kind: Any, **methods: Any) -> Any:
    """A class of the user's own."""
    return type("Own", (kind,), methods)


# Mistakes

AGENTS: dict[str, Mistake] = {
    "q_function is a number": lambda _: dqn(q_function=3),
    "q_function is no module": lambda _: dqn(q_function=NoModule()),
    "q_function is a policy": lambda _: dqn(q_function=make_policy("softmax")),
    "q_function is a critic": lambda _: dqn(q_function=make_critic("numbers")),
    "q_function is a class": lambda _: dqn(q_function=nn.Linear),
    "explorer is a number": lambda _: dqn(explorer=0.1),
    "explorer is a class": lambda _: dqn(explorer=explorers.Greedy),
    "explorer of vectors for indices": lambda _: play_one(dqn(explorer=explorers.AdditiveGaussian(0.1)), env(), 3),
    "explorer of one argument": lambda _: dqn(explorer=subclass_with(object, select_action=lambda self, t: 0)()),
    "replay_buffer is a class": lambda _: dqn(replay_buffer=replay_buffers.ReplayBuffer),
    "replay_buffer is a list": lambda _: dqn(replay_buffer=[]),
    "replay_buffer is None": lambda _: dqn(replay_buffer=None),
    "gamma is negative": lambda _: dqn(gamma=-0.1),
    "gamma is above 1": lambda _: dqn(gamma=99),
    "gamma is text": lambda _: dqn(gamma="0.9"),
    "unknown keyword": lambda _: dqn(colour="red"),
    "keyword of another library": lambda _: dqn(batch_size=32),
    "an abbreviated name": lambda _: agents.SAC,  # type: ignore[attr-defined]
    "predict": lambda _: dqn().predict(np.zeros(OBS)),
    "minibatch_size is 0": lambda _: dqn(minibatch_size=0),
    "minibatch_size above replay_start_size": lambda _: dqn(minibatch_size=20),
    "replay_start_size above the capacity": lambda _: dqn(replay_start_size=200),
    "update_interval is a fraction": lambda _: dqn(update_interval=0.5),
    "target_update_method is unknown": lambda _: dqn(target_update_method="soggy"),
    "batch_accumulator is unknown": lambda _: dqn(batch_accumulator="max"),
    "soft_update_tau is above 1": lambda _: dqn(target_update_method="soft", soft_update_tau=2.0),
    "optimizer is a class": lambda _: dqn(optimizer=torch.optim.Adam),
    "optimizer of another model": lambda _: dqn(optimizer=adam(make_value())),
    "recurrent without a recurrent network": lambda _: dqn(
        recurrent=True, replay_buffer=replay_buffers.EpisodicReplayBuffer(100)
    ),
    "recurrent network without recurrent": lambda _: dqn(q_function=make_q_function("expected", True)),
    "recurrent with a buffer of steps": lambda _: dqn(q_function=make_q_function("expected", True), recurrent=True),
    "episodic_update_len is 0": lambda _: dqn(episodic_update_len=0),
    "phi is no function": lambda _: dqn(phi=3),
    "gpu is text": lambda _: dqn(gpu="first"),
    "device is unknown": lambda _: dqn(device="abacus"),
    "max_grad_norm is negative": lambda _: dqn(max_grad_norm=-1.0),
    "CategoricalDQN of plain values": lambda _: dqn(agents.CategoricalDQN),
    "IQN of plain values": lambda _: dqn(agents.IQN),
    "QRDQN of plain values": lambda _: dqn(agents.QRDQN),
    "a hook of PFRL that is not called": lambda _: subclass_with(
        agents.DQN, _compute_y_and_t=lambda self, exp_batch: None
    ),
    "policy is deterministic": lambda _: actor_critic(policy=make_policy("deterministic")),
    "policy is a critic": lambda _: actor_critic(policy=make_critic("numbers")),
    "critic of the state": lambda _: actor_critic(q_func1=make_q_function("expected")),
    "the same critic twice": lambda _: (lambda q: actor_critic(q_func1=q, q_func2=q))(make_critic("numbers")),
    "critics of several kinds": lambda _: actor_critic(q_func2=make_critic("quantile")),
    "TQC of plain values": lambda _: actor_critic(agents.TQC),
    "entropy_target is text": lambda _: actor_critic(entropy_target="low"),
    "initial_temperature is negative": lambda _: actor_critic(initial_temperature=-1.0),
    "TD3 without explorer": lambda _: actor_critic(agents.TD3, policy=make_policy("deterministic")),
    "PPO with minibatch_size 0": lambda _: make_on_policy("PPO", minibatch_size=0),
    "PPO with a negative clip_eps": lambda _: make_on_policy("PPO", clip_eps=-0.2),
    "PPO of a policy alone": lambda _: (lambda model: agents.PPO(model, adam(model)))(make_policy("softmax")),
    "PPO with an unknown obs_normalizer": lambda _: make_on_policy("PPO", obs_normalizer=3),
    "TRPO of a deterministic policy": lambda _: make_on_policy(
        "TRPO", nets=(make_policy("deterministic"), make_value())
    ),
    "A2C with no processes": lambda _: make_on_policy("A2C", num_processes=0),
    "REINFORCE with batchsize 0": lambda _: make_on_policy("REINFORCE", batchsize=0),
    "A3C with t_max 0": lambda _: make_a3c(t_max=0),
    "observe before act": lambda _: dqn().observe(np.zeros(OBS, np.float32), 0.0, False, False),
    "observe before act, PPO": lambda _: make_on_policy().observe(np.zeros(OBS, np.float32), 0.0, False, False),
    "observations of another size": lambda _: dqn().act(np.zeros(OBS + 1, np.float32)),
    "NaN is observed": lambda _: observe(dqn(), reward=float("nan")),
    "another number of environments": lambda _: observe_several(dqn()),
    "unknown action in a minibatch": lambda _: make_on_policy().update(
        filled(replay_buffers.ReplayBuffer()).sample_batch(3).replace(action=torch.tensor([0, 7, 1]))
    ),
}


def observe(agent: Any, obs: Any = None, reward: Any = 0.0) -> None:
    agent.act(np.zeros(OBS, np.float32))
    agent.observe(np.zeros(OBS, np.float32) if obs is None else obs, reward, False, False)


def observe_several(agent: Any) -> None:
    agent.batch_act([np.zeros(OBS, np.float32)] * 2)
    agent.batch_observe([np.zeros(OBS, np.float32)] * 3, [0.0] * 3, [False] * 3, [False] * 3)


SPACES: dict[str, Mistake] = {
    "actions are vectors for a Q-function of indices": lambda folder: run(folder, env=env(BOX)),
    "actions are indices for a policy of vectors": lambda folder: run(folder, agent=actor_critic()),
    "more actions than the Q-function has": lambda folder: run(folder, env=env(spaces.Discrete(5))),
    "longer action vectors than the policy has": lambda folder: run(
        folder, agent=actor_critic(), env=env(spaces.Box(-1, 1, (4,), np.float32))
    ),
    "observations of another size": lambda folder: run(
        folder, agent=dqn(q_function=make_q_function("expected", obs_size=7))
    ),
    "dry run in another space": lambda _: dqn().dry_run(env().observation_space.sample(), BOX),
}

BUFFERS: dict[str, Mistake] = {
    "unknown keyword": lambda _: replay_buffers.ReplayBuffer(10, n_steps=3),  # type: ignore[call-arg]
    "capacity is 0": lambda _: replay_buffers.ReplayBuffer(0),
    "num_steps is 0": lambda _: replay_buffers.ReplayBuffer(10, num_steps=0),
    "alpha is negative": lambda _: replay_buffers.PrioritizedReplayBuffer(10, alpha=-1.0),
    "reward is NaN": lambda _: append(replay_buffers.ReplayBuffer(10), reward=float("nan")),
    "observation is NaN": lambda _: append(replay_buffers.ReplayBuffer(10), state=np.full(OBS, np.nan, np.float32)),
    "another shape of observation": lambda _: append(
        filled(replay_buffers.ReplayBuffer(10), 1), state=np.zeros(3, np.float32)
    ),
    "another kind of action": lambda _: append(filled(replay_buffers.ReplayBuffer(10), 1), action=np.zeros(2)),
    "reward is missing": lambda _: replay_buffers.ReplayBuffer(10).append(np.zeros(OBS), 1),
    "reward is a vector": lambda _: append(replay_buffers.ReplayBuffer(10), reward=[1.0, 2.0]),
    "update_errors twice": lambda _: twice(),
    "sample of an empty buffer": lambda _: replay_buffers.ReplayBuffer(10).sample(2),
    "sample_batch of an empty buffer": lambda _: replay_buffers.ReplayBuffer(10).sample_batch(2),
    "sample of more than there is": lambda _: filled(replay_buffers.ReplayBuffer(10), 3).sample(4),
    "sample_episodes of more than there are": lambda _: filled(
        replay_buffers.EpisodicReplayBuffer(10), 5
    ).sample_episodes(4),
    "update_priorities without priorities": lambda _: filled(replay_buffers.ReplayBuffer(10)).update_priorities(
        np.arange(2), np.ones(2)
    ),
    "update_priorities of more errors than items": lambda _: filled(
        replay_buffers.PrioritizedReplayBuffer(10)
    ).update_priorities(np.arange(12, 14), np.ones(3)),
    "update_errors before a sample": lambda _: filled(replay_buffers.PrioritizedReplayBuffer(10)).update_errors([1.0]),
    "priorities are NaN": lambda _: prioritise([float("nan"), 1.0]),
    "too few priorities": lambda _: prioritise([1.0]),
    "append_batch of columns of several lengths": lambda _: replay_buffers.ReplayBuffer(10).append_batch(
        np.zeros((3, OBS)), [0, 1, 0], [0.0, 1.0], np.zeros((3, OBS)), [False] * 3, [False] * 3
    ),
    "hindsight without goals": lambda _: append(replay_buffers.HindsightReplayBuffer(10, agreement)),
    "hindsight with an unknown strategy": lambda _: replay_buffers.HindsightReplayBuffer(
        10, agreement, strategy="past"
    ),
    "persistent without a directory": lambda _: replay_buffers.PersistentReplayBuffer("", 10),
    "persistent in a directory of something else": lambda folder: persistent_elsewhere(folder),
    "persistent twice at once": lambda folder: persistent_twice(folder),
    "persistent after close": lambda folder: persistent_closed(folder),
    "load of a file that is missing": lambda folder: replay_buffers.ReplayBuffer(10).load(folder / "none"),
    "load of something else": lambda folder: load_text(replay_buffers.ReplayBuffer(10).load, folder),
    "load of a buffer of another kind": lambda folder: load_other_buffer(folder),
    "load of a damaged file": lambda folder: load_damaged_buffer(folder),
    "check_replay_buffer of a buffer": lambda _: check_replay_buffer(replay_buffers.ReplayBuffer()),
    "from_dataset of a list": lambda _: replay_buffers.ReplayBuffer.from_dataset([]),
}


def prioritise(errors: list[float]) -> None:
    buffer = filled(replay_buffers.PrioritizedReplayBuffer(10))
    buffer.sample(2)
    buffer.update_errors(errors)


def twice() -> None:
    buffer = filled(replay_buffers.PrioritizedReplayBuffer(10))
    buffer.sample(2)
    buffer.update_errors([1.0, 1.0])
    buffer.update_errors([1.0, 1.0])


def persistent_elsewhere(folder: Path) -> None:
    (folder / "notes.txt").write_text("notes")
    replay_buffers.PersistentReplayBuffer(folder, 10)


def persistent_twice(folder: Path) -> None:
    with replay_buffers.PersistentReplayBuffer(folder / "buffer", 10):
        replay_buffers.PersistentReplayBuffer(folder / "buffer", 10)


def persistent_closed(folder: Path) -> None:
    buffer = filled(replay_buffers.PersistentReplayBuffer(folder / "buffer", 10), 2)
    buffer.close()
    append(buffer)


def load_text(load: Callable[[Any], Any], folder: Path, name: str = "text") -> None:
    (folder / name).write_text("no file of this kind")
    load(folder / name)


def load_other_buffer(folder: Path) -> None:
    filled(replay_buffers.ReplayBuffer(10)).save(folder / "saved")
    replay_buffers.PrioritizedReplayBuffer(10).load(folder / "saved")


def load_damaged_buffer(folder: Path) -> None:
    filled(replay_buffers.ReplayBuffer(10)).save(folder / "saved")
    replay_buffers.ReplayBuffer(10).load(damage(folder, "saved"))


RUNNERS: dict[str, Mistake] = {
    "unknown keyword": lambda folder: run(folder, max_episode_length=3),
    "evaluated is no agent": lambda _: experiments.eval_performance(env(), 3, n_steps=None, n_episodes=1),
    "steps is negative": lambda folder: run(folder, steps=-1),
    "steps is a fraction": lambda folder: run(folder, steps=1.5),
    "env is a class": lambda folder: run(folder, env=Noise),
    "env is a vector environment": lambda folder: run(folder, env=SerialVectorEnv([env()])),
    "agent is a class": lambda folder: run(folder, agent=agents.DQN),
    "outdir is a file": lambda folder: load_text(lambda path: run(folder, outdir=path), folder),
    "outdir is empty": lambda folder: run(folder, outdir=""),
    "step_offset beyond steps": lambda folder: run(folder, step_offset=20),
    "step_offset and resume": lambda folder: run(folder, step_offset=5, resume=True),
    "eval_interval is missing": lambda folder: evaluated_run(folder, eval_interval=None),
    "eval_interval is 0": lambda folder: evaluated_run(folder, eval_interval=0),
    "neither steps nor episodes of evaluation": lambda folder: evaluated_run(folder, eval_n_episodes=None),
    "both steps and episodes of evaluation": lambda folder: evaluated_run(folder, eval_n_steps=5),
    "eval_env is a number": lambda folder: evaluated_run(folder, eval_env=3),
    "checkpoint_freq is 0": lambda folder: run(folder, checkpoint_freq=0),
    "hooks are no list": lambda folder: run(folder, step_hooks=print),
    "on_checkpoint_failure is unknown": lambda folder: run(folder, on_checkpoint_failure="shrug"),
    "env is an unknown id": lambda folder: run(folder, env="CartPol-v1"),
    "offline with an empty dataset": lambda folder: offline_run(folder, dataset=[]),
    "offline with observations of another size": lambda folder: offline_run(folder),
    "offline with an agent that learns online": lambda folder: offline_run(
        folder, agent=make_on_policy("REINFORCE"), dataset=filled(replay_buffers.ReplayBuffer(50))
    ),
    "resume of another agent's directory": lambda folder: resumed(
        folder, dqn(), dqn(agents.IQN, q_function=make_q_function("implicit"))
    ),
    "resume of other networks": lambda folder: resumed(folder, dqn(), dqn(q_function=make_q_function("dueling"))),
    "resume in another environment": lambda folder: resumed(folder, dqn(), dqn(), env=Noise(DISCRETE, goals=True)),
    "resume of agents without checkpoints": lambda folder: resume_agent_alone(folder),
    "prepare_output_dir of a file": lambda folder: load_text(
        lambda path: experiments.prepare_output_dir(None, str(path), "same"), folder
    ),
}


def resume_agent_alone(folder: Path) -> None:
    saved(dqn(), folder / "run").rename(folder / "run" / "10_checkpoint")
    run(folder, resume=True)


DATASETS: dict[str, Mistake] = {
    "no arguments": lambda _: MDPDataset(),
    "columns of several lengths": lambda _: MDPDataset.from_arrays(**{**arrays(), "rewards": arrays()["rewards"][1:]}),
    "rewards are NaN": lambda _: MDPDataset.from_arrays(**{**arrays(), "rewards": arrays()["rewards"] * np.nan}),
    "actions are text": lambda _: MDPDataset.from_arrays(**{**arrays(), "actions": ["a"] * 24}),
    "no rows": lambda _: MDPDataset.from_arrays(**{name: values[:0] for name, values in arrays().items()}),
    "actions of another kind": lambda _: data().extend(data(False)),
    "unknown reward_convention": lambda folder: data().dump(folder / "data.h5", reward_convention="other_row"),
    "dump as another format": lambda folder: data().dump(folder / "data.csv"),
    "load of a file that is missing": lambda folder: MDPDataset.load(folder / "none.h5"),
    "load of a text": lambda folder: load_text(MDPDataset.load, folder, "data.h5"),
    "load of an archive that is none": lambda folder: load_text(MDPDataset.load, folder, "data.npz"),
    "load_minari of nothing": lambda folder: MDPDataset.load_minari(folder / "none"),
    "from_directory of nothing": lambda folder: MDPDataset.from_directory(folder / "none"),
    "from_buffer of a list": lambda _: MDPDataset.from_buffer([]),
    "from_buffer of an empty one": lambda _: MDPDataset.from_buffer(replay_buffers.ReplayBuffer(10)),
    "sample_batch of nothing": lambda _: data().sample_batch(-1),
}

ESTIMATORS: dict[str, Mistake] = {
    "unknown argument": lambda _: warned(lambda: algos.DQN(colour="red")),
    "unknown argument near a known one": lambda _: warned(lambda: algos.DQN(batchsize=3)),
    "predict before fit": lambda _: algos.DQN().predict(np.zeros((2, 4))),
    "predict_value before fit": lambda _: algos.DQN().predict_value(np.zeros((2, 4)), [0, 1]),
    "save_model before fit": lambda folder: algos.DQN().save_model(folder / "model.pt"),
    "fit of vectors by an estimator of indices": lambda _: make("DQN").fit(data(False), 1, **QUIET),
    "fit of indices by an estimator of vectors": lambda _: make("CQL").fit(data(), 1, **QUIET),
    "fit of a number": lambda _: make("DQN").fit(3, 1, **QUIET),
    "fit of no epochs": lambda _: make("DQN").fit(data(), 0, **QUIET),
    "fit with a negative batch size": lambda _: make("DQN", batch_size=-1).fit(data(), 1, **QUIET),
    "fit with gamma above 1": lambda _: make("DQN", gamma=2.0).fit(data(), 1, **QUIET),
    "fit with an unknown scaler": lambda _: make("DQN", scaler="huge").fit(data(), 1, **QUIET),
    "fit with an unknown q_func_factory": lambda _: make("DQN", q_func_factory="odd").fit(data(), 1, **QUIET),
    "predict of another size": lambda _: fitted().predict(np.zeros((2, 9))),
    "predict of text": lambda _: fitted().predict("here"),
    "predict_value of more actions": lambda _: fitted().predict_value(np.zeros((2, 4)), [0, 1, 1]),
    "load_model of a file that is missing": lambda folder: algos.DQN().load_model(folder / "none.pt"),
    "load_model of a text": lambda folder: load_text(algos.DQN().load_model, folder),
    "load_model of another algorithm": lambda folder: load_other_model(folder),
    "from_json of a text": lambda folder: load_text(algos.DQN.from_json, folder),
    "load_learnable of a text": lambda folder: load_text(pfrl_like.load_learnable, folder),
    "FQE of nothing": lambda _: ope.FQE(None, ope.FQEConfig()).predict(np.zeros((2, 4))),
    "FQE of a number": lambda _: ope.FQE(3, ope.FQEConfig()).fit(data(False), 1, **QUIET_FQE),
    "FQE with an unknown argument": lambda _: ope.FQEConfig(colour="red"),
    "FQE before fit": lambda _: ope.DiscreteFQE(fitted(), ope.FQEConfig()).predict_value(np.zeros((2, 4)), [0, 1]),
}


def warned(mistake: Callable[[], Any]) -> None:
    """Raise what is a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mistake()


def load_other_model(folder: Path) -> None:
    fitted("CQL").save_model(folder / "model.pt")
    algos.DQN().load_model(folder / "model.pt")


FILES: dict[str, Mistake] = {
    "load of a directory that is missing": lambda folder: dqn().load(folder / "none"),
    "load of an empty directory": lambda folder: dqn().load(folder),
    "load of another agent": lambda folder: actor_critic().load(saved(dqn(), folder)),
    "load of other networks": lambda folder: dqn(q_function=make_q_function("expected", n_actions=3)).load(
        saved(dqn(), folder)
    ),
    "load of a damaged file": lambda folder: (damage(saved(dqn(), folder), "model-*"), dqn().load(folder / "saved")),
    "load of a manifest that is none": lambda folder: (
        (saved(dqn(), folder) / "manifest.json").write_text("{"), dqn().load(folder / "saved"),
    ),
    "load without a file": lambda folder: (
        min(saved(dqn(), folder).glob("model-*")).unlink(), dqn().load(folder / "saved"),
    ),
    "save below a file": lambda folder: load_text(lambda path: dqn().save(path / "saved"), folder),
    "save of parameters that are NaN": lambda folder: save_nan(folder),
    "load_state_dict of another agent": lambda _: dqn().load_state_dict(make_on_policy().state_dict()),
}  # fmt: skip


def save_nan(folder: Path) -> None:
    agent = dqn()
    with torch.no_grad():
        next(agent.model.parameters()).fill_(float("nan"))
    agent.save(folder / "saved")


ENVS: dict[str, Mistake] = {
    "no environments": lambda _: SerialVectorEnv([]),
    "environments that are numbers": lambda _: SerialVectorEnv([3]),
    "copies of an environment": lambda _: make_vec(env(), 2),
    "too few actions": lambda _: begun().step([0]),
    "too few seeds": lambda _: SerialVectorEnv([env(), env()]).seed([1]),
    "a mask of another length": lambda _: begun().reset([True]),
    "processes of no functions": lambda _: MultiprocessVectorEnv([]),
    "processes of numbers": lambda _: MultiprocessVectorEnv([3]),
    "processes with an unknown start method": lambda _: MultiprocessVectorEnv([env], "thread"),
}


def begun() -> SerialVectorEnv:
    several = SerialVectorEnv([env(), env()])
    several.reset()
    return several


EXPLORERS: dict[str, Mistake] = {
    "unknown keyword": lambda _: explorers.Boltzmann(temperature=1.0),  # type: ignore[call-arg]
    "epsilon above 1": lambda _: explorers.ConstantEpsilonGreedy(1.5, lambda: 0),
    "random_action_func is a number": lambda _: explorers.ConstantEpsilonGreedy(0.1, 0),
    "random_action_func is missing": lambda _: explorers.ConstantEpsilonGreedy(0.1),
    "random actions out of the space": lambda _: play_one(
        dqn(explorer=explorers.ConstantEpsilonGreedy(1.0, lambda: [7])), env(), 3
    ),
    "decay_steps is negative": lambda _: explorers.LinearDecayEpsilonGreedy(1.0, 0.1, -5, lambda: 0),
    "decay is above 1": lambda _: explorers.ExponentialDecayEpsilonGreedy(1.0, 0.1, 1.5, lambda: 0),
    "T is 0": lambda _: explorers.Boltzmann(0.0),
    "scale is negative": lambda _: explorers.AdditiveGaussian(-0.1),
    "low is above high": lambda _: explorers.AdditiveGaussian(0.1, 1.0, -1.0),
    "sigma is negative": lambda _: explorers.AdditiveOU(sigma=-1.0),
    "Boltzmann without values": lambda _: explorers.Boltzmann().select_action(0, lambda: 0),
}

COMMANDS: dict[str, Mistake] = {
    "no command": lambda _: command(),
    "an unknown command": lambda _: command("fly"),
    "one run to compare": lambda _: command("diff-runs", "a"),
    "runs that are missing": lambda folder: command("diff-runs", str(folder / "a"), str(folder / "b")),
    "a crash that is missing": lambda folder: command("replay-crash", str(folder / "crash-3")),
    "a run instead of a crash": lambda folder: ((folder / "crash-3").mkdir(), command("replay-crash", str(folder))),
    "both ways at once": lambda _: command("diff-runs", "a", "b", "--rerun", "--no-rerun"),
}

MISTAKES: dict[str, Mistake] = {
    f"{kind}: {name}": mistake
    for kind, mistakes in {
        "agents": AGENTS, "spaces": SPACES, "buffers": BUFFERS, "runners": RUNNERS, "datasets": DATASETS,
        "estimators": ESTIMATORS, "files": FILES, "vector envs": ENVS, "explorers": EXPLORERS, "commands": COMMANDS,
    }.items()
    for name, mistake in mistakes.items()
}  # fmt: skip

# Their errors


#: What differs from machine to machine, and from process to process.
MACHINES = {
    r"<__main__\.": "<mistakes.",
    r"\b0x[0-9a-f]+": "<address>", r"-[0-9a-f]{8}\.": "-<digest>.",
    r"process \d+ on \S+ since [^;]+": "process <number> on <host> since <time>",
    r"\bmat1 and mat2 [^;]*|\blinear\(\): [^;]*": "<words of torch>",
}  # fmt: skip


class NoError(Exception):
    """A mistake that nobody has noticed."""


def error_of(name: str, folder: Path) -> str:
    """The error that a mistake gets, in an empty folder, without what differs from machine to machine.

    An agent that is made meets its first observation, too.

    Raises:
        NoError: If it gets none.
    """
    set_random_seed(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = MISTAKES[name](folder)
            if isinstance(made, Acting):
                made.dry_run(np.zeros(OBS, np.float32))
    except Exception as error:
        return plain(f"{type(error).__name__}: {error}", folder)
    raise NoError(name)


def plain(text: str, folder: Path) -> str:
    """A text without paths, addresses, drawn names of files, and words of torch."""
    for path in sorted({str(folder), str(folder.resolve())}, key=len, reverse=True):
        text = text.replace(path, "<folder>")
    for pattern, name in MACHINES.items():
        text = re.sub(pattern, name, text)
    return text


def pinned() -> dict[str, str]:
    """The errors by mistake, as they are to be."""
    read: dict[str, str] = json.loads(PINNED.read_text())
    return read


def all_errors() -> dict[str, str]:
    """The errors by mistake, as they are."""
    errors = {}
    for name in MISTAKES:
        with tempfile.TemporaryDirectory() as folder:
            errors[name] = error_of(name, Path(folder))
    return errors


if __name__ == "__main__":
    errors = all_errors()
    if sys.argv[1:] == ["--write"]:
        PINNED.write_text(json.dumps(errors, indent=1, ensure_ascii=False) + "\n")
    else:
        print(json.dumps(errors, indent=1, ensure_ascii=False))
