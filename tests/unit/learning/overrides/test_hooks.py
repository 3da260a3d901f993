"""Methods of PFRL's replay agents that a subclass overrides are called, or refused when the class is defined."""

import functools
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hook_parts import REPLAYING, by_class, live, replaying, spy

import pfrl_like
from pfrl_like import agents, experiments, explorers
from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.batch import Batch
from pfrl_like.errors import ExportError, NonFiniteError
from pfrl_like.replay_buffer import batch_experiences


def test_a_class_that_a_refused_method_is_assigned_to_stays_as_it_was() -> None:
    cls = type("Own", (agents.TD3,), {})
    with pytest.raises(TypeError, match="override batch_observe"):
        cls._batch_observe_train = lambda self, *args: None  # type: ignore[attr-defined]
    assert "_batch_observe_train" not in vars(cls)
    live(replaying("TD3", cls))


def test_a_method_that_a_mixin_is_given_later_counts_for_new_agents() -> None:
    calls: list[Any] = []
    mixin = type("Mixin", (), {})
    cls = type("Own", (mixin, agents.TD3), {})
    mixin.update_q_func = spy(calls, agents.TD3, "update_q_func")  # type: ignore[attr-defined]
    live(replaying("TD3", cls))
    assert calls


@pytest.mark.parametrize("argument", ["batch", "transitions"])
def test_the_name_of_the_argument_counts_and_not_that_of_self(argument: str) -> None:
    got: list[Any] = []
    code = f"def update(this, {argument}):\n    got.append({argument})\n    return base.update(this, {argument})"
    namespace = {"got": got, "base": agents.DQN}
    exec(code, namespace)
    replaying("DQN", by_class(agents.DQN, "update", namespace["update"])).update_from_replay()
    assert isinstance(got[0], Batch if argument == "batch" else list)


def test_the_nearest_agent_of_this_package_decides() -> None:
    with pytest.raises(TypeError, match="_compute_target_values of PFRL's CategoricalDQN"):
        type("Own", (agents.CategoricalDQN,), {"_compute_target_values": lambda self, batch: None})
    with pytest.raises(TypeError, match="update_q_func of PFRL's BEAR"):
        type("Own", (agents.BEAR,), {"update_q_func": lambda self, batch: None})


def test_update_in_pfrls_form_may_be_called_with_a_batch() -> None:
    got: list[Any] = []

    class Own(agents.DQN):
        def update(self, experiences: Any, errors_out: Any = None) -> None:
            got.extend(experiences)
            super().update(experiences, errors_out)

    own, plain = replaying("DQN", Own, "3-step"), replaying("DQN", agents.DQN, "3-step")
    batch = plain.replay_buffer.sample_batch(6, plain.gamma)
    td_error, _ = own.update(experiences=batch)
    plain.update(batch)
    assert td_error.shape == (6,)
    assert sorted({len(item) for item in got}) != [1]  # n follows from the discount
    for one, other in zip(own.model.parameters(), plain.model.parameters(), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("owner", REPLAYING)
def test_priorities_are_the_errors_of_our_critics_after_the_hook(owner: str) -> None:
    name = {"DQN": "_compute_target_values", "DDPG": "compute_critic_loss"}.get(owner, "update_q_func")
    base = getattr(agents, owner)
    agent = replaying(owner, by_class(base, name, spy([], base, name)), "prioritized")
    buffer = agent.replay_buffer
    written: list[Any] = []
    update_priorities = buffer.update_priorities
    buffer.update_priorities = lambda index, errors: (written.append((index, errors)), update_priorities(index, errors))
    agent.update_from_replay()
    ((index, errors),) = written
    if owner != "DQN":  # whose errors are those of its loss
        items = [buffer.memory[i] for i in index]
        torch.testing.assert_close(errors, agent._td_errors(items))
    assert len(errors) == len(buffer) and not buffer.waits_for_errors


def test_actions_follow_the_values_that_an_override_returns() -> None:
    class Own(agents.DQN):
        def _evaluate_model_and_update_recurrent_states(self, batch_obs: Any) -> Any:
            value = super()._evaluate_model_and_update_recurrent_states(batch_obs)
            return DiscreteActionValue(-value.q_values)

    own, plain = replaying("DQN", Own), replaying("DQN")
    obs = [*np.random.RandomState(0).normal(size=(8, 3)).astype(np.float32)]
    with torch.no_grad():
        q = plain.model(torch.from_numpy(np.array(obs))).q_values.numpy()
    assert [*own.batch_act(obs)] == [*q.argmin(1)] != [*plain.batch_act(obs)]
    with own.eval_mode():
        assert [*own.batch_act(obs)] == [*q.argmin(1)]
        allowed = np.ones_like(q, dtype=bool)
        allowed[range(8), q.argmin(1)] = False
        assert not np.equal(own.batch_act(obs, action_mask=allowed), q.argmin(1)).any()


@pytest.mark.parametrize("hooks", [(), ("_evaluate_model_and_update_recurrent_states",)])
def test_own_observe_methods_find_lists_of_their_own(hooks: tuple[str, ...]) -> None:
    base = type("Base", (agents.DQN,), {name: spy([], agents.DQN, name) for name in hooks})

    class Own(base):  # type: ignore[misc, valid-type]
        def batch_observe(self, batch_obs: Any, batch_reward: Any, batch_done: Any, batch_reset: Any) -> None:
            self.batch_last_obs[0] = self.batch_last_action[0] = None

    obs = [np.zeros(3, np.float32)] * 2
    agent = replaying("DQN", Own)
    agent.batch_act(obs)
    agent.batch_observe(obs, [0.0, 0.0], [True, False], [False, False])
    assert obs[0] is not None and agent.batch_last_action[0] is None and agent.batch_last_action[1] in (0, 1)


def test_errors_that_an_overridden_update_does_not_write_back_are_written() -> None:
    class Own(agents.DQN):
        def update(self, experiences: Any, errors_out: Any = None) -> None:
            super().update(experiences)

    agent = replaying("DQN", Own, "prioritized")
    before = agent.replay_buffer._priorities.to_array().copy()
    agent.update_from_replay()
    assert not agent.replay_buffer.waits_for_errors
    assert not np.array_equal(agent.replay_buffer._priorities.to_array(), before)


@pytest.mark.parametrize("owner", REPLAYING)
def test_an_update_that_does_not_count_itself_is_counted_once(owner: str) -> None:
    def update(self: Any, experiences: Any, errors_out: Any = None) -> None:
        batch = batch_experiences(experiences, self.device, self.phi, self.gamma)
        if owner == "DDPG":
            self.compute_critic_loss(batch)
            self.n_updates += 1  # as PFRL's body does
        elif owner != "DQN":
            self.update_q_func(batch)

    agent = replaying(owner, by_class(getattr(agents, owner), "update", update))
    for _ in range(3):
        agent.update_from_replay()
    assert agent.optim_t == 3
    assert getattr(agent, "q_func_n_updates", 3) == 3


@pytest.mark.parametrize("kind", ["uniform", "prioritized"])
def test_an_update_in_pfrls_form_that_leaves_nan_is_told(kind: str) -> None:
    def update(self: Any, experiences: Any, errors_out: Any = None) -> None:
        for param in self.model.parameters():
            param.data.fill_(np.nan)

    agent = replaying("DQN", by_class(agents.DQN, "update", update), kind)
    with pytest.raises(NonFiniteError, match="optimizer hold NaN.*steps that update made before cannot be rolled back"):
        agent.update_from_replay()


def test_an_update_that_is_assigned_to_an_agent_gets_experiences_if_it_says_so() -> None:
    agent, came = replaying("DQN", agents.DQN), list[Any]()
    agent.update = lambda experiences: came.append(experiences)
    agent.update_from_replay()
    assert came[0][0][0].keys() >= {"state", "action", "reward"}


def test_a_wrapper_of_the_own_body_that_is_assigned_to_the_class_of_agents_is_called(monkeypatch: Any) -> None:
    calls, body = list[Any](), agents.TD3.update_q_func

    @functools.wraps(body)
    def logged(self: Any, batch: Any) -> None:
        calls.append(batch)
        body(self, batch)

    monkeypatch.setattr(agents.TD3, "update_q_func", logged)
    replaying("TD3", agents.TD3).update_from_replay()
    assert calls


def test_a_compiled_agent_refuses_a_method_that_its_class_got_later(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = replaying("DQN")
    agent._compiled = lambda batch: pytest.fail("it does not call the method")
    with pytest.raises(TypeError, match="overrides _can_start_replay") as rejected:  # keeps the rejected class alive
        type("Own", (agents.DQN,), {"_can_start_replay": lambda self: True})
    monkeypatch.setattr(agents.DQN, "_compute_loss", lambda self, *args: None)
    assert rejected.value.__traceback__ is not None
    with pytest.raises(TypeError, match="overrides _compute_loss of PFRL's agents, which a compiled update"):
        agent.update_from_replay()


def test_statistics_and_counters_of_pfrl_count_what_the_methods_do() -> None:
    class Twice(agents.TD3):
        def update_q_func(self, batch: Any) -> None:
            super().update_q_func(batch)
            super().update_q_func(batch)

        def update_policy(self, batch: Any) -> None:
            self.policy_n_updates += 5

    agent = replaying("TD3", Twice)
    agent.update_from_replay()
    agent.update_from_replay()
    assert (agent.q_func_n_updates, agent.policy_n_updates, agent.optim_t) == (4, 10, 2)
    assert len(agent.q_func1_loss_record) == 4 and not len(agent.policy_loss_record)
    resumed = replaying("TD3", Twice)
    resumed.load_state_dict(agent.state_dict())
    assert (resumed.q_func_n_updates, resumed.policy_n_updates, resumed.optim_t) == (4, 10, 2)


@pytest.mark.parametrize("given", [None, 1.5, torch.ones(2, requires_grad=True), torch.ones(())])
@pytest.mark.parametrize(("owner", "name"), [("DQN", "_compute_loss"), ("DDPG", "compute_actor_loss")])
def test_what_is_no_loss_is_refused_by_the_name_of_the_method(owner: str, name: str, given: Any) -> None:
    cls = by_class(getattr(agents, owner), name, lambda self, *args, **kwargs: given)
    with pytest.raises(TypeError, match=f"{name} of Own returned .*, expected the loss, a scalar tensor"):
        replaying(owner, cls).update_from_replay()


ACTING = {"TD3": "batch_select_onpolicy_action", "SoftActorCritic": "batch_select_greedy_action"}


@pytest.mark.parametrize("owner", ACTING)
def test_the_explorer_acts_upon_what_an_overridden_choice_gives(owner: str) -> None:
    def chosen(self: Any, batch_obs: Any, deterministic: bool = False) -> Any:
        return np.full((len(batch_obs), 2), 0.25 if deterministic else 0.5, np.float32)

    agent = replaying(owner, by_class(getattr(agents, owner), ACTING[owner], chosen))
    obs = [np.zeros(3, np.float32)] * 4
    if owner == "TD3":
        agent.explorer = explorers.AdditiveGaussian(1e-3)
        assert len({float(action[0]) for action in agent.batch_act(obs)}) == 4
    np.testing.assert_allclose(agent.batch_act(obs), np.full((4, 2), 0.5), atol=0.01)
    with agent.eval_mode():
        expected = 0.5 if owner == "TD3" else 0.25
        np.testing.assert_allclose(agent.batch_act(obs), np.full((4, 2), expected))
    with pytest.raises(ExportError, match=f"overrides {ACTING[owner]}, which cannot be exported"):
        agent.export("policy.pt")


@pytest.mark.parametrize("owner", ACTING)
def test_the_own_body_of_a_choice_is_what_acts(owner: str) -> None:
    agent = replaying(owner, getattr(agents, owner))
    obs = [np.full(3, i, np.float32) for i in range(4)]
    with agent.eval_mode():
        agent.act_deterministically = False
        torch.manual_seed(3)
        expected = agent.batch_act(obs)
        torch.manual_seed(3)
        np.testing.assert_array_equal(getattr(agent, ACTING[owner])(obs), expected)


def test_an_offline_run_calls_the_overrides(tmp_path: Path) -> None:
    calls: list[Any] = []
    own = by_class(agents.TD3, "update_policy", spy(calls, agents.TD3, "update_policy"))
    agent = replaying("TD3", own)
    buffer = agent.replay_buffer
    experiments.train_agent_offline(agent, pfrl_like.dataset.MDPDataset.from_buffer(buffer), 3, str(tmp_path))
    assert len(calls) == 3


def test_agents_have_the_signatures_of_their_constructors() -> None:
    for owner in REPLAYING:
        names = [*inspect.signature(getattr(agents, owner)).parameters]
        assert names == [*inspect.signature(getattr(agents, owner).__init__).parameters][1:]
