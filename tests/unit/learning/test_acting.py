"""Acting and observing: one environment, several, some of which are inactive; recurrent states; wrong spaces."""

import copy
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from agent_parts import AGENTS, make_agent, make_q_function
from async_parts import make_a3c, make_acer
from gymnasium import spaces
from torch import nn

from pfrl_like.agents import DQN
from pfrl_like.batch import Batch
from pfrl_like.distributed.actor import Actor
from pfrl_like.explorers import ConstantEpsilonGreedy, Greedy
from pfrl_like.nn import EmpiricalNormalization
from pfrl_like.q_functions import FCQuadraticStateQFunction
from pfrl_like.testing import Chain
from pfrl_like.testing.play import difference, play_one

OBS = np.random.RandomState(0).randn(200, 5).astype(np.float32)


def test_inactive_environments_are_neither_explored_nor_stored_nor_counted() -> None:
    agent = make_agent(explorer=ConstantEpsilonGreedy(1.0, lambda: 7))
    obs, active = OBS[:3], np.array([True, False, True])
    actions = np.asarray(agent.batch_act(obs, active=active))
    assert ((actions == 7) == active).all()
    agent.batch_observe(obs + 1, np.arange(3.0), [False] * 3, [False] * 3, active=active)
    assert (agent.t, len(agent.replay_buffer)) == (2, 2)
    assert sorted(agent.replay_buffer.sample_batch(2).reward.tolist()) == [0.0, 2.0]


@pytest.mark.parametrize("make", [make_agent, make_a3c, make_acer])
@pytest.mark.parametrize(
    ("n_obs", "n_rewards", "n_done", "options", "message"),
    [
        (2, 1, 2, {}, "obs 2, reward 1, done 2, reset 2"),
        (2, 2, 3, {}, "obs 2, reward 2, done 3, reset 2"),
        (3, 3, 3, {}, "obs 3, last_action 2"),
        (2, 2, 2, {"active": [True]}, "obs 2, active 1"),
    ],
)
def test_columns_of_unequal_lengths_are_refused(
    make: Any, n_obs: int, n_rewards: int, n_done: int, options: Any, message: str
) -> None:
    agent = make()
    agent.batch_act(OBS[:2])
    with pytest.raises(ValueError, match=f"the lengths are: {message}"):
        agent.batch_observe(OBS[:n_obs], [0.0] * n_rewards, [False] * n_done, [False] * n_obs, **options)


@pytest.mark.parametrize("stack", [list, np.asarray, tuple])
def test_observations_may_be_listed_or_stacked(stack: Any) -> None:
    agent = make_agent()
    with agent.eval_mode():
        actions = np.asarray(agent.batch_act(stack(list(OBS))))
        assert actions.tolist() == [agent.act(obs) for obs in OBS]


def test_an_action_is_an_integer_of_numpy() -> None:
    assert isinstance(make_agent().act(OBS[0]), np.integer)


class OfPfrlsSignatures(DQN):
    """Overrides the batched methods, which know of no masks here."""

    calls = 0

    def batch_act(self, batch_obs: Any) -> Any:  # type: ignore[override]
        self.calls += 1
        return super().batch_act(batch_obs)

    def batch_observe(  # type: ignore[override]
        self, batch_obs: Any, batch_reward: Any, batch_done: Any, batch_reset: Any
    ) -> None:
        self.calls += 1
        super().batch_observe(batch_obs, batch_reward, batch_done, batch_reset)


def test_a_subclass_may_have_the_signatures_of_pfrl() -> None:
    agent: Any = make_agent(OfPfrlsSignatures)
    play_one(agent, Chain(4), 10)
    assert (agent.calls, agent.t) == (20, 10)
    sent: list[Any] = []
    actor = Actor(make_agent(OfPfrlsSignatures).acting_copy(), mock.Mock(spec=["send"], send=sent.append))
    play_one(actor, Chain(4), 32)  # as many as are sent together
    assert [(kind, len(content[0])) for kind, content in sent] == [("rows", 32)]


@pytest.mark.parametrize(
    ("batch_obs", "came"), [([], "empty"), ({"b": OBS, "a": OBS}, r"a dict with the keys \['a', 'b'\]")]
)
def test_what_is_no_batch_of_observations_is_refused(batch_obs: Any, came: str) -> None:
    with pytest.raises(ValueError, match=f"obs is {came}, expected a sequence of observations, one for each env"):
        make_agent().batch_act(batch_obs)


@pytest.mark.parametrize("info", [{}, {"name": "x"}, {"action_mask": np.ones(2)}])
def test_what_reset_gives_is_no_observation(info: Any) -> None:
    message = r"obs does not fit q_function; obs is .* of float32.* did you pass reset\(\)'s \(obs, info\)\?$"
    for recurrent in (False, True):
        with pytest.raises(ValueError, match=message) as raised:
            make_agent(recurrent=recurrent).act((OBS[0], info))
        assert "ConcatObsAndAction" not in str(raised.value.__cause__)
        with pytest.raises(ValueError, match=message):
            make_agent(recurrent=recurrent).batch_act((OBS[:2], info))
        with pytest.raises(ValueError, match=message):
            make_agent(recurrent=recurrent).batch_act((tuple(OBS[:2]), [info, info]))
        with pytest.raises(AttributeError, match="'tuple' object has no attribute 'astype'") as raised_by_phi:
            make_agent(recurrent=recurrent, phi=lambda obs: obs.astype(np.float32)).act((OBS[0], info))
        assert raised_by_phi.value.__notes__[-1] == "did you pass reset()'s (obs, info)?"


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize(
    ("obs", "message"),
    [
        (np.zeros(7, np.float32), r"obs is \(1, 7\) of float32, and the network raised: "),
        (np.zeros(5, np.float64), r"obs is \(1, 5\) of float64, and the network raised: .* cast with phi, or wrap "),
        (np.int64(3), "obs is"),
        ({"camera": np.zeros(5), "joints": np.zeros(3)}, ".*; set phi to a function that converts each observation "),
        (
            {"observation": np.zeros(3), "achieved_goal": np.zeros(1), "desired_goal": np.zeros(2)},
            ".*phi=concatenate_goal",
        ),
    ],
)
def test_observations_that_do_not_fit_the_q_function_are_refused(obs: Any, message: str, recurrent: bool) -> None:
    agent = make_agent(recurrent=recurrent)
    for look in (agent.act, agent.dry_run):
        with pytest.raises(ValueError, match="obs does not fit q_function; .*" + message):
            look(obs)


def test_one_observation_is_told_from_a_batch() -> None:
    with pytest.raises(ValueError, match=r"obs is \(1, 1, 5\).*act takes one observation, batch_act"):
        make_agent().act(OBS[:1])


OTHERS = ("CategoricalDQN", "QRDQN", "IQN", "FQF")
MISFITS = [(agent, make_q_function("DQN"), make_q_function(agent)) for agent in OTHERS]


@pytest.mark.parametrize("action_mask", [None, [True, False]])
@pytest.mark.parametrize(("agent", "q_function", "fitting"), [*MISFITS, ("DQN", nn.Linear(5, 2), None)])
def test_a_q_function_of_another_kind_is_refused_with_one_that_fits(
    agent: str, q_function: nn.Module, fitting: Any, action_mask: Any
) -> None:
    one = make_agent(agent, q_function=q_function)
    message = "gives Tensor, expected ActionValue"
    if fitting is not None:
        message = f"gives DiscreteActionValue, expected .*use for example an? {type(fitting).__name__}"
    for look in (lambda: one.act(OBS[0], action_mask=action_mask), lambda: one.dry_run(OBS[0], spaces.Discrete(2))):
        with pytest.raises(TypeError, match=message):
            look()


def test_errors_of_the_explorer_are_its_own() -> None:
    def random_action() -> int:
        raise RuntimeError("no action today")

    with pytest.raises(RuntimeError, match="no action today"):
        make_agent(explorer=ConstantEpsilonGreedy(1.0, random_action)).act(OBS[0])


def go(agent: DQN, n_steps: int, ends: bool = False) -> None:
    for i in range(n_steps):
        agent.act(OBS[i])
        agent.observe(OBS[i + 1], 0.0, ends and i == n_steps - 1, False)


class TestRecurrence:
    """Each environment has a state of its own, apart for training and evaluation, that ends with its episode."""

    @staticmethod
    def make(**options: Any) -> DQN:
        return make_agent(recurrent=True, explorer=Greedy(), replay_start_size=900, **options)

    @staticmethod
    def state(agent: DQN) -> Any:
        return agent.recurrent_memory.train_state if agent.training else agent.recurrent_memory.test_state  # type: ignore[union-attr]

    @pytest.mark.parametrize("training", [True, False])
    @pytest.mark.parametrize("cut_off", [True, False])
    def test_state_ends_with_the_episode(self, training: bool, cut_off: bool) -> None:
        agent = self.make()
        agent.training = training
        agent.batch_act(OBS[:2])
        assert all((part != 0).any() for part in self.state(agent)[0])
        agent.batch_observe(OBS[2:4], [0.0, 0.0], [not cut_off, False], [cut_off, False])
        for part in self.state(agent)[0]:
            assert (part[:, 0] == 0).all() and (part[:, 1] != 0).any()

    def test_state_goes_on_within_an_episode(self) -> None:
        agent = self.make()
        go(agent, 4)
        with torch.no_grad():
            _, expected = agent.model(nn.utils.rnn.pack_sequence([torch.from_numpy(OBS[:4])]), None)
        torch.testing.assert_close(self.state(agent), expected)

    def test_an_episode_whose_end_was_never_told_is_over_when_the_agent_is_told_to_stop(self) -> None:
        agent, fresh = self.make(), self.make()
        fresh.load_state_dict(agent.state_dict())
        go(agent, 3)
        agent.stop_episode()
        for one in (agent, fresh):
            one.act(OBS[3])
        assert difference(list(self.state(agent)[0]), list(self.state(fresh)[0])) is None
        agent.observe(OBS[4], 1.0, True, False)
        episodes = agent.replay_buffer.episodic_memory  # type: ignore[attr-defined]
        assert [len(episode) for episode in episodes] == [3, 1]
        assert all((part == 0).all() for part in episodes[1][0]["recurrent_state"][0])

    def test_stopping_in_evaluation_leaves_training_alone(self) -> None:
        agent = self.make()
        agent.act(OBS[0])
        before = [part.clone() for part in self.state(agent)[0]]
        with agent.eval_mode():
            agent.act(OBS[1])
            agent.stop_episode()
            assert agent.recurrent_memory.test_state is None  # type: ignore[union-attr]
        agent.observe(OBS[2], 0.0, False, False)
        assert difference(before, list(self.state(agent)[0])) is None and agent.replay_buffer.n_episodes == 0  # type: ignore[attr-defined]

    def test_inactive_environments_keep_their_state(self) -> None:
        agent = self.make()
        agent.batch_act(OBS[:2])
        agent.batch_observe(OBS[2:4], [0.0, 0.0], [False, False], [False, False])
        before = [part.clone() for part in self.state(agent)[0]]
        agent.batch_act(OBS[4:6], active=np.array([True, False]))
        for was, now in zip(before, self.state(agent)[0], strict=True):
            assert torch.equal(was[:, 1], now[:, 1]) and not torch.equal(was[:, 0], now[:, 0])

    @pytest.mark.parametrize("training", [True, False])
    def test_another_number_of_environments_begins_anew(self, training: bool) -> None:
        agent, fresh = self.make(), self.make()
        fresh.load_state_dict(agent.state_dict())
        agent.training = fresh.training = training
        agent.act(OBS[0])
        agent.batch_act(OBS[1:4])
        fresh.batch_act(OBS[1:4])
        assert difference(list(self.state(agent)[0]), list(self.state(fresh)[0])) is None

    @pytest.mark.parametrize(("interval", "kept"), [(2, {0, 2, 4}), (None, {0})])
    def test_every_few_steps_a_state_goes_into_the_buffer(self, interval: int | None, kept: set[int]) -> None:
        agent = self.make(episodic_update_len=interval)
        states = []
        for i in range(5):
            agent.act(OBS[i])
            states.append([part[:, 0].clone() for part in self.state(agent)[0]])
            agent.observe(OBS[i + 1], 0.0, i == 4, False)
        (episode,) = agent.replay_buffer.sample_episodes(1)  # type: ignore[attr-defined]
        for i, step in enumerate(episode):
            assert (step["recurrent_state"] is not None) == (i in kept)
            if i in kept:
                before = [0 * part for part in states[0]] if i == 0 else states[i - 1]
                assert difference(step["recurrent_state"][0], [part.numpy() for part in before]) is None
                assert difference(step["next_recurrent_state"][0], [part.numpy() for part in states[i]]) is None

    def test_several_environments_store_their_own_states(self) -> None:
        agent = self.make()
        agent.batch_act(OBS[:3])
        states = [[part[:, i].clone().numpy() for part in self.state(agent)[0]] for i in range(3)]
        agent.batch_observe(OBS[3:6], [0.0, 1.0, 2.0], [True] * 3, [False] * 3)
        for (step,) in agent.replay_buffer.sample_episodes(3):  # type: ignore[attr-defined]
            assert difference(step["next_recurrent_state"][0], states[int(step["reward"])]) is None

    def test_values_in_replay_are_those_of_acting(self) -> None:
        # With unchanged parameters the stored states make the values of a sequence those of the whole episode.
        agent = self.make(episodic_update_len=2)
        go(agent, 6, ends=True)
        whole = agent.model(nn.utils.rnn.pack_sequence([torch.from_numpy(OBS[:6])]), None)[0].q_values
        for _ in range(10):
            batch = agent.replay_buffer.sample_sequences(1, 2, 0.9)  # type: ignore[attr-defined]
            first = int((torch.from_numpy(OBS) == batch.obs[0]).all(1).nonzero())
            q = agent.loss(batch)[2]["q"]
            expected = whole[first : first + len(batch)].gather(1, batch.action.unsqueeze(1)).squeeze(1)
            torch.testing.assert_close(q, expected.detach())


class TestSpaces:
    """An agent that cannot act in an environment says so before the first step, and what to use instead."""

    def test_continuous_values_for_discrete_actions_are_refused(self) -> None:
        q_function = FCQuadraticStateQFunction(5, 2, 8, 1, spaces.Box(-1, 1, (2,), np.float32))
        with pytest.raises(TypeError, match="gives QuadraticActionValue, which has continuous actions"):
            make_agent(q_function=q_function).dry_run(OBS[0], spaces.Discrete(2))

    def test_actions_that_are_many_at_once_are_refused(self) -> None:
        with pytest.raises(TypeError, match=r"environment has MultiBinary\(2\): map the actions to integers"):
            make_agent().dry_run(OBS[0], spaces.MultiBinary(2))

    def test_actions_that_are_not_counted_from_0_are_refused(self) -> None:
        message = r"whose first action is 5, .* wrap the environment in gymnasium.wrappers.TransformAction"
        with pytest.raises(ValueError, match=message):
            make_agent().dry_run(OBS[0], spaces.Discrete(2, start=5))

    @pytest.mark.parametrize("recurrent", [False, True])
    @pytest.mark.parametrize("agent", AGENTS)
    def test_what_fits_is_accepted_and_nothing_is_drawn(self, agent: str, recurrent: bool) -> None:
        one, before = make_agent(agent, recurrent=recurrent), np.random.get_state()
        one.dry_run(OBS[0], spaces.Discrete(2))
        assert difference(before, np.random.get_state()) is None


def test_a_distributional_q_function_makes_dqn_distributional() -> None:
    obs = torch.from_numpy(OBS[:4])
    batch = Batch(obs, torch.zeros(4, dtype=torch.int64), torch.ones(4), obs, torch.full((4,), 0.9))
    torch.manual_seed(0)
    one = make_agent("CategoricalDQN")
    torch.manual_seed(0)
    other = make_agent("DQN", q_function=make_q_function("CategoricalDQN"))
    assert difference(one.update(batch), other.update(batch)) is None


class Remembering:
    """A phi that keeps what it is given."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    def __call__(self, obs: Any) -> Any:
        self.seen.append(obs)
        return obs


@pytest.mark.parametrize("compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_moments_of_a_normalisation_are_those_of_training_and_phi_stays_as_it_was(compile: bool) -> None:
    seen: list[Any] = []
    q_function = nn.Sequential(EmpiricalNormalization(5), make_q_function())
    agent = make_agent(q_function=q_function, compile=compile, phi=Remembering(seen))
    agent.dry_run(np.full(5, np.finfo(np.float32).max), spaces.Discrete(2))
    assert q_function[0].count == 0 and agent.phi.seen is seen == []
    for _ in range(3):
        agent.batch_act(OBS[:7])
    before = copy.deepcopy(q_function.state_dict())
    with agent.eval_mode():
        agent.batch_act(100 * OBS[:7])
    assert q_function[0].count == 21 and difference(q_function.state_dict(), before) is None
