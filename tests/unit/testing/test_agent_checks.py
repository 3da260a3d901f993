"""`check_agent` finds agents that break a contract, and says which."""

import contextlib
import functools
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from agent_parts import make_agent
from faulty_agents import CutsOffAsTerminal, NeverTerminal, kind_of

from pfrl_like.agent import Agent, AttributeSavingMixin
from pfrl_like.agents import DQN
from pfrl_like.batch import Batch
from pfrl_like.explorer import Explorer
from pfrl_like.testing import Chain, agent_checks, check_agent


@pytest.mark.slow  # so does the DQN of tests/conformance/test_agents.py
def test_an_agent_without_faults_passes_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    check_agent(functools.partial(make_agent, DQN))
    assert not caplog.records


class Tabular(Agent):
    """Q-learning with nothing but what `Agent` demands."""

    training = True

    def __init__(self) -> None:
        self.q = np.zeros((5, 2))

    def act(self, obs: Any) -> int:
        state = int(np.argmax(obs))
        explores = self.training and np.random.rand() < 0.3
        self.last = state, int(np.random.randint(2)) if explores else int(np.argmax(self.q[state]))
        return self.last[1]

    def observe(self, obs: Any, reward: float, done: bool, reset: bool) -> None:
        if self.training:
            following = 0.0 if done else self.q[np.argmax(obs)].max()
            self.q[self.last] += 0.1 * (reward + 0.9 * following - self.q[self.last])

    def save(self, dirname: str) -> None:
        np.save(f"{dirname}/q.npy", self.q)

    def load(self, dirname: str) -> None:
        self.q = np.load(f"{dirname}/q.npy")

    def get_statistics(self) -> list[tuple[str, Any]]:
        return [("average_q", float(self.q.mean()))]


class TabularForgets(Tabular):
    def load(self, dirname: str) -> None:
        pass


class TabularLearnsInEvaluation(Tabular):
    def observe(self, obs: Any, reward: float, done: bool, reset: bool) -> None:
        self.q[self.last] += 0.1 * reward + 0.01


@pytest.mark.slow
def test_an_agent_of_the_bare_interface_passes() -> None:
    check_agent(Tabular)


@pytest.mark.parametrize(
    ("kind", "said"),
    [(TabularForgets, "loaded agent differs"), (TabularLearnsInEvaluation, "evaluation has changed the agent")],
    ids=["forgets", "learns in evaluation"],
)
def test_faults_of_an_agent_of_the_bare_interface_are_found(kind: type[Agent], said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check_agent(kind)


class TakesAnything(DQN):
    def __init__(self, *arguments: Any, not_an_argument: int = 0, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)


class ActsOutside(DQN):
    def batch_act(self, batch_obs: Any, **told: Any) -> Any:
        return super().batch_act(batch_obs, **told) + 1


class NeverLearns(DQN):
    def update_from_replay(self) -> None:
        pass


class DrawsFromElsewhere(DQN):
    generator = np.random.default_rng()

    def update(self, batch: Any, errors_out: Any = None) -> Any:
        noise = torch.from_numpy(self.generator.normal(size=len(batch)).astype(np.float32))
        return super().update(batch.replace(reward=batch.reward + noise), errors_out)


class LearnsInEvaluation(DQN):
    def batch_observe(self, *arguments: Any, **told: Any) -> None:
        super().batch_observe(*arguments, **told)
        if not self.training:
            self.optim_t += 1


class StoresInEvaluation(DQN):
    def batch_observe(self, batch_obs: Any, *arguments: Any, **told: Any) -> None:
        super().batch_observe(batch_obs, *arguments, **told)
        if not self.training:
            self.replay_buffer.append(batch_obs[0], 0, 0.0, batch_obs[0], is_state_terminal=True)


class MixesEpisodes(DQN):
    """Adds the observations before, be they of training or of evaluation."""

    before = 0.0

    def batch_act(self, batch_obs: Any, **told: Any) -> Any:
        mixed = [obs + self.before for obs in batch_obs]
        self.before += float(batch_obs[0].argmax()) / 100
        return super().batch_act(mixed, **told)


class ExploresInEvaluation(DQN):
    def select_actions(self, obs: Any, action_mask: Any, active: Any) -> Any:
        training, self.training = self.training, True
        actions = super().select_actions(obs, action_mask, active)
        self.training = training
        return actions


class ActsOtherwiseAlone(DQN):
    def act(self, obs: Any, **told: Any) -> Any:
        return 1 - super().act(obs, **told)


class CountsTwice(DQN):
    def batch_observe(self, batch_obs: Any, *arguments: Any, **told: Any) -> None:
        super().batch_observe(batch_obs, *arguments, **told)
        if len(batch_obs) > 1:
            self.t += 1


class TellsText(DQN):
    def get_statistics(self) -> Any:
        return [("loss", "small")]


class TellsMoreLater(DQN):
    def get_statistics(self) -> Any:
        return [*super().get_statistics(), *([("learnt", 1)] if self.optim_t else [])]


class SavesHalf(DQN):
    def restore_state(self, state: Any) -> None:
        super().restore_state({})


class ForgetsItsTurn(DQN):
    """Does something at every seventh step, and does not save at which one it is."""

    turn = 0

    def batch_observe(self, *told: Any, **more: Any) -> None:
        super().batch_observe(*told, **more)
        self.turn += self.training
        if self.training and self.turn % 7 == 0:
            np.random.random()


class NeverBootstraps(DQN):
    def loss(self, batch: Batch) -> Any:
        return super().loss(batch.replace(discount=torch.zeros_like(batch.discount)))


class DropsWeights(DQN):
    def loss(self, batch: Batch) -> Any:
        return super().loss(batch.replace(weight=None))


class WeighsErrors(DQN):
    def loss(self, batch: Batch) -> Any:
        loss, td_error, stats = super().loss(batch)
        return loss, td_error if batch.weight is None else td_error * batch.weight, stats


class LeavesErrorsOut(DQN):
    def update(self, batch: Any, errors_out: Any = None) -> Any:
        return super().update(batch)


class TakesNaN(DQN):
    def update(self, batch: Any, errors_out: Any = None) -> Any:
        return super().update(batch.replace(reward=torch.nan_to_num(batch.reward)), errors_out)


def only(check: str, alone: bool = True) -> contextlib.AbstractContextManager[Any]:
    """A context in which `check_agent` makes no other checks, which take most of its time."""
    checks = (getattr(agent_checks, f"check_{check}"),)
    return mock.patch.multiple(agent_checks, CHECKS=checks, BATCH_CHECKS=()) if alone else contextlib.nullcontext()


ALONE = pytest.mark.parametrize("alone", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["alone", "all"])


#: Agents that break a contract by the check that finds them, and the error.
BROKEN = {
    "unknown_keywords_are_rejected": [
        (TakesAnything, "the constructor accepted the unknown keyword not_an_argument, expected a TypeError"),
    ],
    "training_changes_the_agent": [(NeverLearns, "the agent's state has not changed after 40 steps of training")],
    "same_seed_gives_the_same_agent": [(DrawsFromElsewhere, "the same seed gave two different agents")],
    "actions_lie_in_the_space": [
        (ActsOutside, r"the agent chose an action outside the action space: action is np.int64\(2\)"),
    ],
    "one_environment_is_a_batch_of_one": [
        (ActsOtherwiseAlone, "a batch of one environment gave other numbers than the environment alone"),
    ],
    "evaluation_changes_nothing": [
        (LearnsInEvaluation, r"an evaluation has changed the agent: .*optim_t"),
        (StoresInEvaluation, r"an evaluation has changed the agent: \(state, buffer size\)\[1\]"),
        (MixesEpisodes, "an evaluation has changed the training after it"),
    ],
    "evaluation_does_not_explore": [(ExploresInEvaluation, "the explorer was called in evaluation")],
    "steps_are_counted": [(CountsTwice, "t is 20 after 5 steps in 3 environments, expected 15")],
    "statistics_are_numbers": [
        (TellsText, r"get_statistics returned \('loss', 'small'\), expected a pair of a name and a number"),
        (TellsMoreLater, "get_statistics returned the names"),
    ],
    "a_loaded_agent_is_the_saved_one": [(SavesHalf, r"the loaded agent differs from the saved agent: .*is 40 and 0")],
    "an_interrupted_run_resumes": [
        (ForgetsItsTurn, "a run that was interrupted and resumed from its checkpoint has different results"),
    ],
    "only_termination_stops_bootstrapping": [
        (kind_of(CutsOffAsTerminal, DQN), "done=False and reset=True was stored with the discount 0.0, expected 0.9"),
        (kind_of(NeverTerminal, DQN), "done=True and reset=False was stored with the discount 0.8.*, expected 0.0"),
    ],
    "bootstrapping_depends_on_the_discount": [
        (NeverBootstraps, "with a discount of 0.9 .* the TD error ignores the next observation"),
    ],
    "importance_weights_multiply_the_loss": [
        (DropsWeights, "with weights of 0.25 the loss is"),
        (WeighsErrors, "importance weights change the TD errors, expected only the loss"),
    ],
    "update_changes_parameters": [(LeavesErrorsOut, "errors_out is not the absolute TD errors")],
    "a_batch_with_nan_is_rejected": [
        (TakesNaN, "a batch with reward of NaN was accepted by update, expected a NonFiniteError"),
    ],
}


@ALONE
@pytest.mark.parametrize(
    ("kind", "check", "sentence"), [(kind, check, said) for check, broken in BROKEN.items() for kind, said in broken]
)
def test_a_broken_contract_is_named(kind: type[DQN], check: str, sentence: str, alone: bool) -> None:
    with only(check, alone), pytest.raises(AssertionError, match=sentence):
        check_agent(functools.partial(make_agent, kind))


class Masked(Chain):
    """A chain in which only one action is allowed at every step."""

    def reset(self, **options: Any) -> Any:
        return super().reset(**options)[0], {"action_mask": [False, True]}

    def step(self, action: Any) -> Any:
        return *super().step(action)[:-1], {"action_mask": np.arange(2) == self._steps % 2}


class OneInTwenty(Explorer):
    """Takes a random action of all now and then, whatever the mask; all environments at once, or one."""

    def select_actions(self, t: int, greedy: Any, action_value: Any = None, active: Any = None) -> Any:
        return np.where(np.random.rand(len(greedy)) < 0.05, np.random.randint(2, size=len(greedy)), greedy)

    def select_action(self, t: int, greedy_action_func: Any, action_value: Any = None) -> Any:
        return self.select_actions(t, np.array([greedy_action_func()]))[0]


@ALONE
def test_an_explorer_that_ignores_masks_is_found_where_there_are_masks(alone: bool) -> None:
    sentence = "in training the agent chose action ., but the action mask allows only ."
    with only("masked_actions_are_not_selected", alone):
        with pytest.raises(AssertionError, match=sentence):
            check_agent(functools.partial(make_agent, DQN, explorer=OneInTwenty()), Masked(time_limit=7))
        check_agent(functools.partial(make_agent, DQN), Masked(time_limit=7))


def test_an_agent_that_is_made_at_random_is_told_from_one_that_does_not_resume() -> None:
    with (
        only("an_interrupted_run_resumes"),
        pytest.raises(AssertionError, match="same seed, both uninterrupted, .*does make_agent"),
    ):
        check_agent(functools.partial(make_agent, DrawsFromElsewhere))


@pytest.mark.slow
def test_random_streams_are_left_as_they_were() -> None:
    np.random.seed(5)
    torch.manual_seed(5)
    check_agent(functools.partial(make_agent, DQN))
    drawn = np.random.rand(), torch.rand(1).item()
    np.random.seed(5)
    torch.manual_seed(5)
    assert drawn == (np.random.rand(), torch.rand(1).item())


class OnlyActs:
    """What little an agent has to have: it learns nothing from batches and knows one environment only."""

    training = True

    def __init__(self) -> None:
        self.weight = torch.zeros(1)

    def act(self, obs: Any) -> Any:
        return np.int64(0)

    def observe(self, obs: Any, reward: float, done: bool, reset: bool) -> None:
        self.weight += self.training

    eval_mode, save, load = DQN.eval_mode, AttributeSavingMixin.save, AttributeSavingMixin.load
    state_dict, load_state_dict = AttributeSavingMixin.state_dict, AttributeSavingMixin.load_state_dict
    saved_attributes = ()

    def saved_state(self) -> dict[str, Any]:
        return {"weight": self.weight.item()}

    def restore_state(self, state: dict[str, Any]) -> None:
        self.weight = torch.tensor([state["weight"]])

    def get_statistics(self) -> list[tuple[str, float]]:
        return []


def test_checks_leave_out_what_an_agent_does_not_have() -> None:
    check_agent(OnlyActs)
