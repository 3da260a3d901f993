"""A3C and ACER keep the contracts, in one environment and in several; actions that they cannot take are refused."""

import gymnasium
import numpy as np
import pytest
import torch
from async_parts import MAKE, make_a3c, make_acer, parameters
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from pfrl_like.envs import make_env
from pfrl_like.experiments import train_agent, train_agent_batch
from pfrl_like.testing import Chain, check_agent
from pfrl_like.utils import set_random_seed

QUICK = ("recurrent ACER",)


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in MAKE])
def test_agent_keeps_the_contracts(name):
    check_agent(MAKE[name])


@pytest.mark.parametrize("make", [make_a3c, make_acer])
def test_one_environment_in_a_vector_gives_the_serial_numbers(tmp_path, make):
    learnt = []
    for runner in (train_agent, train_agent_batch):
        set_random_seed(0)
        agent = make()
        runner(agent, make_env(Chain(time_limit=7), seed=1), 40, tmp_path / runner.__name__)
        learnt.append(parameters(agent))
    assert torch.equal(*learnt)


@pytest.mark.representatives(1)
@pytest.mark.parametrize("mode", AutoresetMode)
def test_every_autoreset_mode_gives_the_same_updates(tmp_path, mode):
    set_random_seed(0)
    agent = make_acer()
    env = SyncVectorEnv([lambda: Chain(time_limit=4), lambda: Chain(time_limit=6)], autoreset_mode=mode)
    seen = []
    loss = agent.loss

    def watched(batch):
        if batch.extra is None:
            obs, after = batch.obs.argmax(1), batch.next_obs.argmax(1)
            seen.append((obs.tolist(), batch.discount.tolist()))
            assert torch.equal(obs[1:], after[:-1])  # no step joins two episodes
        return loss(batch)

    agent.loss = watched
    train_agent_batch(agent, env, 60, str(tmp_path))
    assert len(seen) >= 12
    assert all(np.isclose(discount[:-1], 0.9).all() for _, discount in seen)


def test_environments_with_other_actions_are_refused(tmp_path):
    env = Chain()
    env.action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    with pytest.raises(TypeError, match="model gives Categorical"):
        train_agent(make_a3c(), env, 5, str(tmp_path))
    with pytest.raises(TypeError, match="model gives DiagonalGaussian"):
        train_agent(make_acer(continuous=True), Chain(), 5, str(tmp_path))
