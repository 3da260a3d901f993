"""Agents and environments of every kind train, save and resume in actors."""

import json
import shutil
from functools import partial

import actor_critic_parts
import agent_parts
import gymnasium
import numpy as np
import pytest
from cluster_parts import cartpole
from composed_agents import parameters
from masked_parts import OneAllowed, check_stored
from network_parts import make_q_function
from on_policy_parts import make_nets, make_on_policy

from pfrl_like.envs.abc import ABC
from pfrl_like.experiments.checkpoints import Saved
from pfrl_like.experiments.cluster.runner import train_agent_distributed
from pfrl_like.utils import set_random_seed
from pfrl_like.wrappers.frames import FrameStack

pytestmark = pytest.mark.slow


def dqn(buffer="uniform", recurrent=False, obs_size=4, n_actions=2, **options):
    set_random_seed(0)
    q_function = make_q_function("expected", recurrent, obs_size, n_actions)
    return agent_parts.make_agent("DQN", buffer, recurrent, q_function=q_function, n_actions=n_actions, **options)


def on_policy(kind, recurrent=False):
    set_random_seed(0)
    return make_on_policy(kind, recurrent, nets=make_nets(recurrent, obs_size=4), update_interval=32)


def sac():
    set_random_seed(0)
    return actor_critic_parts.make_agent("SoftActorCritic")


def framed(actor, index, test):
    """CartPole whose observation is a frame of 2x2 pixels, stacked by four."""
    space = gymnasium.spaces.Box(0, 255, (2, 2, 1), np.uint8)
    env = gymnasium.wrappers.TransformObservation(
        cartpole(actor, index, test), lambda obs: np.uint8(128 + 100 * np.tanh(obs)).reshape(space.shape), space
    )
    return FrameStack(env, 4)


def numbers_of_frames(obs):
    return np.asarray(obs, np.float32).reshape(-1) / 255


def in_a_dict(actor, index, test):
    """CartPole whose observation is a dict."""
    half = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    space = gymnasium.spaces.Dict({"cart": half, "pole": half})
    return gymnasium.wrappers.TransformObservation(
        cartpole(actor, index, test), lambda obs: {"cart": obs[:2], "pole": obs[2:]}, space
    )


def numbers_of_dict(obs):
    return np.concatenate([obs["cart"], obs["pole"]])


#: Order in which actors are read, function that makes the agent, function that makes an environment, and options.
KINDS = {
    "prioritised 3-step": ("fixed", partial(dqn, "3-step prioritized"), cartpole, {}),
    "recurrent": ("fixed", partial(dqn, "episodic", recurrent=True), cartpole, {}),
    "masks": ("fixed", partial(dqn, obs_size=5, n_actions=3), lambda *_: OneAllowed(), {}),
    "frames": ("fixed", partial(dqn, obs_size=16, phi=numbers_of_frames), framed, {}),
    "Dict": ("fixed", partial(dqn, phi=numbers_of_dict), in_a_dict, {}),
    "SAC": ("fixed", sac, lambda *_: ABC(discrete=False), {}),
    "recurrent PPO": ("fixed", partial(on_policy, "PPO", recurrent=True), cartpole, {}),
    "IMPALA": ("fixed", partial(on_policy, "IMPALA"), cartpole, {}),
    "recurrent APPO": ("fixed", partial(on_policy, "APPO", recurrent=True), cartpole, {}),
    "IMPALA in the order of arrival": ("arrival", partial(on_policy, "IMPALA"), cartpole, {}),
    "SAC with a replay actor": ("arrival", sac, lambda *_: ABC(discrete=False), {"replay": "actor"}),
    "prioritised recurrent with a replay actor": (
        "arrival", partial(dqn, "prioritized episodic", recurrent=True), cartpole, {"replay": "actor"}
    ),
}  # fmt: skip


def train(kind, outdir, **options):
    order, make_agent, make_env, own = KINDS[kind]
    return train_agent_distributed(
        make_agent, make_env, outdir=outdir, actors=2, envs_per_actor=2, order=order, seed=0, cpus_per_actor=0,
        rows_per_message=(1, 4), start_timeout=300, max_episode_len=20, checkpoint_freq=80, **own, **options,
    )[0]  # fmt: skip


def updates_of(agent):
    return agent.optim_t if hasattr(agent, "optim_t") else agent.n_updates


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_of_every_kind_resumes_from_its_checkpoint(ray, tmp_path, kind):
    is_exact = KINDS[kind][0] == "fixed"
    first = train(kind, tmp_path, steps=140)
    shutil.rmtree(tmp_path / "140_finish")  # as if the process had been killed before
    steps = 140 if is_exact else 180
    agent = train(kind, tmp_path, steps=steps, resume=True)
    resumed = json.loads((tmp_path / "run.json").read_text())["resumed"]
    assert resumed["resume"] == ("exact" if is_exact else "approximate")
    assert 80 <= resumed["t"] < 140
    assert agent.t == steps
    assert updates_of(agent) > 0
    if is_exact:
        assert np.array_equal(parameters(first), parameters(agent))
        assert updates_of(first) == updates_of(agent)
    if hasattr(agent, "replay_buffer"):
        state = Saved(steps, str(tmp_path / f"{steps}_finish")).state()
        assert state["source"]["updates"] == agent.optim_t
    if kind == "masks":
        check_stored(agent.replay_buffer)
