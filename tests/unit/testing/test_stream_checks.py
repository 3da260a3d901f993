"""`check_agent` finds agents, on-policy and off-policy, that make something else of an episode's end than it was."""

import functools
from typing import Any

import faulty_agents
import gymnasium
import numpy as np
import pytest
import torch
from agent_parts import make_agent
from gymnasium.vector import AutoresetMode
from on_policy_parts import make_on_policy

from pfrl_like.agents import DQN, PPO, OffPolicyAgent
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.testing import Chain, check_agent
from pfrl_like.testing.play import ENDINGS, LENGTHS, RecordedEnv, play_stream
from pfrl_like.testing.stream_checks import STREAM_SETUPS, check_rows, check_streams, stream_of

CUT_OFF = "terminated=False and truncated=True is in the .* discount 0, expected 0.9.*only termination stops"
TERMINAL = (
    "terminated=True and truncated=.* is in the training data with the discount 0.9, expected 0, .* a terminal state"
)
FAULTS: list[tuple[type, str]] = [
    (faulty_agents.CutsOffAsTerminal, CUT_OFF),
    (faulty_agents.NeverTerminal, TERMINAL),
    (
        faulty_agents.WaitsForTheNextObservation,
        "the first observation of the next episode, expected the last observation of its episode",
    ),
    (faulty_agents.ForgetsWhoIsActive, "is not the reward of a step, nor|is in the training data with"),
    (faulty_agents.NeverEnds, TERMINAL),
    (faulty_agents.SwapsEnvironments, "is in the training data with|is not the reward of a step"),
]


def make_dqn(fault: type, **options: Any) -> Any:
    return make_agent(faulty_agents.kind_of(fault, DQN), **options)


def make_ppo(fault: type, **options: Any) -> Any:
    plain: Any = make_on_policy("PPO")
    optimizer = torch.optim.Adam(plain.model.parameters(), lr=1e-2)
    return faulty_agents.kind_of(fault, PPO)(
        plain.model, optimizer, gamma=0.9, update_interval=10, minibatch_size=5, **options
    )


MAKERS = {"DQN": make_dqn, "PPO": make_ppo}


def check_only_streams(make: Any) -> None:
    check_streams(make, Chain(), 40, 0, lambda *states: None, lambda agent: None)


@pytest.mark.representatives(6)
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize(("fault", "sentence"), FAULTS)
def test_another_end_of_episodes_is_named(fault: type, sentence: str, make: Any) -> None:
    with pytest.raises(AssertionError, match=rf"are not the steps that were made \(.*\): .*({sentence})"):
        check_only_streams(functools.partial(make, fault))


@pytest.mark.representatives(1)
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_gamma_in_place_of_the_discount_is_named(make: Any) -> None:
    with pytest.raises(AssertionError, match=r"with a discount of 0 .* the TD error depends on the next observation"):
        check_agent(functools.partial(make, faulty_agents.GammaForDiscount))


@pytest.mark.slow
@pytest.mark.parametrize("fault", [faulty_agents.CutsOffAsTerminal, faulty_agents.WaitsForTheNextObservation])
def test_check_agent_looks_at_the_stream_of_on_policy_agents(fault: type) -> None:
    with pytest.raises(AssertionError):
        check_agent(functools.partial(make_ppo, fault))


class Nothing:
    """No fault."""


class Forgets(ReplayBuffer):
    """Stores no last steps."""

    def append_batch(self, *columns: Any, **more: Any) -> Any:
        if not np.any(columns[5]):
            super().append_batch(*columns, **more)


def test_a_step_that_is_not_stored_is_named() -> None:
    make = functools.partial(make_dqn, Nothing)
    with pytest.raises(AssertionError, match="a step is not in the replay buffer"):
        check_only_streams(lambda: make(replay_buffer=Forgets(1_000)))


def test_an_agent_that_does_not_learn_is_named() -> None:
    with pytest.raises(AssertionError, match="made no update in 40 steps of 3 environments, .* NextStep"):
        check_only_streams(functools.partial(make_dqn, Nothing, replay_start_size=1_000))


def test_another_agent_in_another_autoreset_mode_is_named() -> None:
    states = iter([1, 2])

    def require_equal(first: Any, second: Any, message: str) -> None:
        if first != second:
            raise AssertionError(message)

    with pytest.raises(AssertionError, match="resulted in a different agent than with 2 .* SameStep"):
        check_streams(functools.partial(make_dqn, Nothing), Chain(), 40, 0, require_equal, lambda agent: next(states))


@pytest.mark.parametrize(("mode", "n_envs"), STREAM_SETUPS)
def test_episodes_end_in_every_way_in_every_form(mode: AutoresetMode | None, n_envs: int) -> None:
    envs = [RecordedEnv(Chain(terminates=False), number) for number in range(n_envs)]
    agent: OffPolicyAgent = make_dqn(Nothing)
    play_stream(agent, stream_of(envs, mode), 40)
    ends = {episode[-1][4:] for env in envs for episode in env.episodes[:-1]}
    assert ends == set(ENDINGS)
    assert {len(episode) for env in envs for episode in env.episodes[:-1]} >= set(LENGTHS) - {5}
    assert [len(env.episodes[0]) for env in envs] == [5, 4, 2][:n_envs]  # out of phase


def test_a_record_holds_true_observations_even_if_the_environment_reuses_its_array() -> None:
    class Reuses(Chain):
        array = np.zeros(5, np.float32)

        def _observation(self) -> Any:
            self.array[:] = super()._observation()
            return self.array

    env = RecordedEnv(Reuses(), own_rewards=False)
    env.reset()
    env.step(1)
    (step,) = env.episodes[0]
    assert (step.obs != step.next_obs).any()
    assert step.reward == step.obs.argmax() + 1


class FourValues:
    """An environment of gym's old form, which has no spaces and takes no seed."""

    def reset(self) -> Any:
        return np.eye(5, dtype=np.float32)[0]

    def step(self, action: Any) -> Any:
        return np.eye(5, dtype=np.float32)[int(action)], 1.0, False, {}


def test_an_environment_without_spaces_is_tried_in_vectors_of_pfrls_form() -> None:
    check_streams(functools.partial(make_dqn, Nothing), FourValues(), 40, 0, lambda *states: None, lambda agent: None)
    envs = [RecordedEnv(FourValues(), number) for number in range(2)]
    assert isinstance(envs[0], gymnasium.Env)
    agent = make_dqn(Nothing)
    play_stream(agent, stream_of(envs, None), 20)
    check_rows(agent, type("NoDoor", (), {"raw": [], "features": []})(), envs)
