"""Methods of PFRL's on-policy and asynchronous agents that a subclass overrides are called, or refused by name."""

import pickle
import re
import types
from typing import Any

import numpy as np
import pytest
import torch
from hook_parts import CALLED, N_ENVS, by_class, live, made, made_for, parameters, spy
from torch import nn

from pfrl_like import agents
from pfrl_like.batch import Batch
from pfrl_like.errors import NonFiniteError
from pfrl_like.learning import HOOKS, Hook, HookType
from pfrl_like.learning.on_policy import OnPolicyAgent
from pfrl_like.learning.overrides.hooks import HookMethod
from pfrl_like.nn import Lambda
from pfrl_like.replay_buffers import PrioritizedEpisodicReplayBuffer


def passing_on(base: Any) -> Any:
    """A subclass whose methods do what those of the class do, and nothing else."""
    names = [hook.name for hook in CALLED if hook.owner == base.__name__]
    return type("Own", (base,), {name: spy([], base, name) for name in names})


AGENTS_AND_OPTIONS = [
    ("PPO", {}),
    ("PPO", {"recurrent": True}),
    ("PPO", {"entropy_coef": 0.0, "epochs": 3, "minibatch_size": 4}),
    ("A2C", {}),
    ("A2C", {"use_gae": True, "max_grad_norm": 0.1}),
    ("REINFORCE", {}),
    ("REINFORCE", {"backward_separately": True, "max_grad_norm": 0.1}),
    ("A3C", {"keep_loss_scale_same": True}),
    ("A3C", {"recurrent": True, "use_average_reward": True}),
    ("ACER", {}),
    ("ACER", {"use_Q_opc": True, "normalize_loss_by_steps": False, "truncation_threshold": 0.5}),
    ("ACER", {"disable_online_update": True, "use_trust_region": False, "phi": lambda obs: 2 * obs}),
]


@pytest.mark.representatives(3)
@pytest.mark.parametrize(("owner", "options"), AGENTS_AND_OPTIONS)
def test_methods_that_call_the_base_change_nothing(owner: str, options: dict[str, Any]) -> None:
    learnt = []
    for cls in (getattr(agents, owner), passing_on(getattr(agents, owner))):
        agent = made(owner, cls, **options)
        np.random.seed(0)
        live(agent, n_steps=16)
        learnt.append(agent)
    plain, overridden = learnt
    torch.testing.assert_close(parameters(overridden), parameters(plain), rtol=0, atol=1e-6)
    for (name, value), (_, other) in zip(plain.get_statistics(), overridden.get_statistics(), strict=True):
        assert value == pytest.approx(other, abs=1e-5, nan_ok=True), name
    assert overridden.t == plain.t
    assert getattr(overridden, "optim_t", 0) == getattr(plain, "optim_t", 0)


@pytest.mark.parametrize("owner", ["A3C", "ACER"])
def test_several_environments_have_steps_of_their_own(owner: str) -> None:
    learnt = []
    for cls in (getattr(agents, owner), passing_on(getattr(agents, owner))):
        agent = made(owner, cls)
        np.random.seed(0)
        live(agent, n_steps=12, truncated_at=6, k=3)
        learnt.append(parameters(agent))
    torch.testing.assert_close(learnt[1], learnt[0], rtol=0, atol=1e-6)


STEPPING = [("A2C", "update"), ("REINFORCE", "batch_update"), ("A3C", "update"), ("ACER", "update")]
STEPPING += [("REINFORCE", "update_with_accumulated_grad"), ("ACER", "update_on_policy")]


@pytest.mark.parametrize("times", [0, 1, 2])
@pytest.mark.parametrize(("owner", "name"), STEPPING)
def test_the_base_steps_as_often_as_it_is_called(owner: str, name: str, times: int) -> None:
    base, calls = getattr(agents, owner), list[Any]()
    agent = made_for(Hook(owner, name, "", "called"), by_class(base, name, spy(calls, base, name, times)))
    agent.n_times_replay = 0
    before, steps = parameters(agent).clone(), list[int]()
    agent.optimizer.register_step_post_hook(lambda *_: steps.append(1))
    live(agent)
    assert calls and len(steps) == times * len(calls)
    assert torch.equal(parameters(agent), before) == (times == 0)


def test_a_gradient_may_be_accumulated_twice() -> None:
    base = agents.REINFORCE
    once = made("REINFORCE", by_class(base, "accumulate_grad", spy([], base, "accumulate_grad")))
    twice = made("REINFORCE", by_class(base, "accumulate_grad", spy([], base, "accumulate_grad", 2)))
    before = parameters(once).clone()
    for agent in (once, twice):
        live(agent)
    torch.testing.assert_close(parameters(twice) - before, 2 * (parameters(once) - before))


# PPO


def test_another_loss_of_ppo_is_learnt_from_and_gets_all_that_it_needs() -> None:
    given: list[Batch] = []

    class Own(agents.PPO):
        def loss(self, batch: Batch) -> Any:
            given.append(batch)
            loss, stats = super().loss(batch)
            return 0.5 * loss, stats

    plain, own = made("PPO"), made("PPO", Own)
    own.optimizer.param_groups[0]["lr"] *= 2
    for agent in (plain, own):
        live(agent, n_steps=4)
    torch.testing.assert_close(parameters(own), parameters(plain))
    assert len(given) == 2 and own.n_updates == 2
    for batch in given:
        columns = batch.required("action", "log_prob", "value", "advantage", "returns")
        assert batch.obs.shape == (8, 3) and all(column.shape == (8,) for column in columns)


def test_a_loss_of_ppo_need_not_report_anything() -> None:
    class Own(agents.PPO):
        def loss(self, batch: Batch) -> Any:
            return super().loss(batch)[0], {}

    agent = made("PPO", Own)
    live(agent, n_steps=4)
    assert agent.n_updates == 2 and len(agent.value_loss_record) == 0


def test_lossfun_records_losses_once_and_reports_the_divergence() -> None:
    calls: list[Any] = []
    own = by_class(agents.PPO, "_lossfun", spy(calls, agents.PPO, "_lossfun"))
    agent = made("PPO", own, target_kl=1e-9, epochs=5)
    live(agent, n_steps=4)
    assert len(calls) == 2  # the first epoch is that of the policy that acted
    assert len(agent.value_loss_record) == len(agent.policy_loss_record) == agent.n_updates == 2


def test_weights_of_a_batch_reach_the_own_body_of_lossfun() -> None:
    learnt = []
    for cls in (agents.PPO, by_class(agents.PPO, "_lossfun", spy([], agents.PPO, "_lossfun"))):
        agent = made("PPO", cls)
        agent.update(transitions(weight=torch.tensor([0.1, 1.0, 2.0, 0.5, 1.0, 1.0, 1.0, 1.0])))
        learnt.append(parameters(agent))
    torch.testing.assert_close(learnt[1], learnt[0])


def transitions(**columns: Any) -> Batch:
    numbers = torch.Generator().manual_seed(0)
    obs, next_obs = torch.randn(2, 8, 3, generator=numbers)
    action, reward = torch.arange(8) % 2, torch.randn(8, generator=numbers)
    return Batch(obs, action, reward, next_obs, torch.full((8,), 0.9), **columns)


def test_a_compiled_agent_refuses_a_method_that_its_class_got_later(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = made("PPO", compile=True)
    monkeypatch.setattr(agents.PPO, "_lossfun", lambda self, *args, **kwargs: None)
    with pytest.raises(TypeError, match="compile is True, but PPO overrides _lossfun"):
        live(compiled)


# A2C


def test_an_episode_that_is_cut_off_within_a_rollout_is_masked_as_in_pfrl_and_told() -> None:
    own = type("Own", (agents.A2C,), {"update": lambda self: kept.append(self.masks.tolist())})
    kept: list[Any] = []
    with pytest.warns(UserWarning, match="treats an episode that is truncated within the rollout as terminated"):
        live(made("A2C", own), n_steps=4, truncated_at=1)
    assert kept == [[[1, 1], [0, 1], [1, 1], [0, 1]]]


@pytest.mark.parametrize("name", ["update", "_compute_returns"])
def test_the_own_update_of_a2c_bootstraps_from_an_episode_that_is_cut_off(name: str) -> None:
    plain, own = made("A2C"), made("A2C", by_class(agents.A2C, name, spy([], agents.A2C, name)))
    live(plain, n_steps=4, truncated_at=1)
    with pytest.warns(UserWarning, match="truncated within the rollout"):
        live(own, n_steps=4, truncated_at=1)
    bootstraps = name == "update"  # PFRL's `_compute_returns` knows masks alone
    assert torch.allclose(parameters(own), parameters(plain)) == bootstraps


def test_steps_that_pfrls_update_cannot_hold_are_refused() -> None:
    own = by_class(agents.A2C, "update", lambda self: None)
    expected = "4 steps of each of num_processes = 2 environments, got 9 steps of 3 episodes"
    with pytest.raises(ValueError, match=expected):
        live(made("A2C", own), k=3, n_steps=4)
    with pytest.raises(TypeError, match="batch is None, expected a Batch"):
        made("A2C").update()


def test_observations_that_pfrls_update_cannot_hold_are_refused() -> None:
    model = nn.Sequential(Lambda(lambda obs: obs["x"]), made("A2C").model)
    own = by_class(agents.A2C, "update", lambda self: None)
    agent = own(model, torch.optim.SGD(model.parameters(), lr=0.1), 0.9, 1, update_steps=1)
    agent.act({"x": np.zeros(3, np.float32)})
    with pytest.raises(TypeError, match="obs is dict"):
        agent.observe({"x": np.zeros(3, np.float32)}, 0.0, False, False)


@pytest.mark.parametrize("owner", ["A2C", "A3C", "ACER"])
def test_update_in_our_form_gets_features_and_its_base_learns_from_them(owner: str) -> None:
    base, given = getattr(agents, owner), list[Any]()

    class Own(base):  # type: ignore[misc]
        def update(self, batch: Any, errors_out: Any = None) -> Any:
            given.append(batch)
            return super().update(batch.replace(reward=batch.reward + 0.5), errors_out)

    class Raised(base):  # type: ignore[misc]
        def batch_observe(self, batch_obs: Any, batch_reward: Any, *args: Any) -> None:
            super().batch_observe(batch_obs, [reward + 0.5 for reward in batch_reward], *args)

    def halved(obs: Any) -> Any:
        return obs / 2

    own, raised = made(owner, Own, phi=halved), made(owner, Raised, phi=halved)
    for agent in (own, raised):
        if owner == "ACER":  # whose buffer would hold the higher rewards
            agent.n_times_replay = 0
        live(agent)
    assert given and all(isinstance(batch, Batch) for batch in given)
    torch.testing.assert_close(parameters(own), parameters(raised), rtol=0, atol=1e-6)


# A3C and ACER


def test_update_of_a3c_gets_raw_observations_and_features_of_the_last_one() -> None:
    class Own(agents.A3C):
        def update(self, statevar: Any) -> None:
            times = range(self.t_start, self.t)
            obs = [float(self.past_obs[time][0]) for time in times]
            seen.append((None if statevar is None else statevar.tolist(), obs, [*self.past_rewards.values()]))
            assert self.past_action[self.t_start].shape == () and self.past_recurrent_state[self.t_start] is None
            self.t_start = self.t

    seen: list[Any] = []
    agent = made("A3C", Own, phi=lambda obs: obs * 10)
    for step in range(6):
        agent.act(np.full(3, step, np.float32))
        agent.observe(np.full(3, step + 1, np.float32), float(step), step == 5, False)
    assert seen == [([[40.0, 40.0, 40.0]], [0, 1, 2, 3], [0, 1, 2, 3]), (None, [4, 5], [4, 5])]
    assert agent.optim_t == 2 and not agent.past_obs


def test_a_resumed_agent_knows_the_observations_of_before() -> None:
    own = type("Own", (agents.A3C,), {"update": lambda self, statevar: seen.append([*self.past_obs.values()])})
    seen: list[Any] = []
    first, second = (made("A3C", own, phi=lambda obs: obs * 10) for _ in range(2))
    obs = np.arange(15, dtype=np.float32).reshape(5, 3)
    for agent, steps in ((first, range(3)), (second, range(3, 4))):
        if agent is second:
            second.restore_state(first.saved_state())
        for step in steps:
            agent.act(obs[step])
            agent.observe(obs[step + 1], 0.0, False, False)
    np.testing.assert_array_equal(seen, [obs[:4]])
    assert made("A3C").saved_state().keys() == first.saved_state().keys() - {"steps"}


def test_observations_of_an_older_save_are_its_features() -> None:
    seen: list[Any] = []
    plain = made("A3C")
    plain.act(np.ones(3, np.float32))
    plain.observe(np.ones(3, np.float32), 0.0, False, False)
    own = type("Own", (agents.A3C,), {"update": lambda self, statevar: seen.append([*self.past_obs.values()])})
    resumed = made("A3C", own)
    resumed.restore_state(plain.saved_state())
    resumed.act(np.zeros(3, np.float32))
    resumed.observe(np.zeros(3, np.float32), 0.0, True, False)
    np.testing.assert_array_equal(seen, [[np.ones(3), np.zeros(3)]])


def test_sharing_is_asserted_only_where_processes_share() -> None:
    agent = made("A3C")
    agent.assert_shared_memory()
    next(agent.model.parameters()).data.share_memory_()
    with pytest.raises(AssertionError, match="model is in shared memory"):
        agent.assert_shared_memory()
    alone = agents.A3C(agent.shared_model, torch.optim.Adam(agent.shared_model.parameters()), 4, 0.9)
    alone.optimizer.state[next(alone.shared_model.parameters())] = {"step": torch.zeros(1)}
    with pytest.raises(AssertionError, match="shared_model or optimizer is not all in shared memory"):
        alone.assert_shared_memory()


def test_history_of_acer_is_begun_when_the_agent_is_built_and_after_each_update() -> None:
    calls: list[Any] = []
    name = "init_history_data_for_online_update"
    agent = made("ACER", by_class(agents.ACER, name, spy(calls, agents.ACER, name)), replay=False)
    assert len(calls) == 1 and agent.past_rewards == {}
    live(agent)
    assert len(calls) == 3 and agent.optim_t == 2


def test_update_of_acer_is_told_who_acted_in_replay_alone() -> None:
    calls: list[Any] = []
    agent = made("ACER", by_class(agents.ACER, "update", spy(calls, agents.ACER, "update")))
    live(agent)
    behaviours = [kwargs["action_distribs_mu"] for _, kwargs in calls]
    assert [each is None for each in behaviours] == [True, False, True, False]
    log_prob = [each.log_prob(torch.tensor([1])).shape for each in behaviours[1].values()]
    assert log_prob == [(1,)] * 4


def test_action_masks_hold_in_the_distributions_that_acers_methods_get() -> None:
    calls: list[Any] = []
    agent = made("ACER", by_class(agents.ACER, "compute_loss", spy(calls, agents.ACER, "compute_loss")))
    plain = made("ACER")
    for each in (agent, plain):
        for step in range(4):
            obs = np.full(3, step, np.float32)
            each.act(obs, action_mask=np.array([True, False]))
            each.observe(obs + 1, 1.0, step == 3, False, action_mask=np.array([True, False]))
    for _, kwargs in calls:
        for name in ("action_distribs", "avg_action_distribs"):
            assert all(each.probs.tolist() == [[1.0, 0.0]] for each in kwargs[name].values())
    torch.testing.assert_close(parameters(agent), parameters(plain), rtol=0, atol=1e-6)


def test_prioritised_episodes_get_the_errors_of_our_critic_after_the_methods() -> None:
    own = by_class(agents.ACER, "compute_loss", spy([], agents.ACER, "compute_loss"))
    agent = made("ACER", own, disable_online_update=True)
    agent.replay_buffer = PrioritizedEpisodicReplayBuffer(100)
    written: list[Any] = []
    update_errors = agent.replay_buffer.update_priorities
    agent.replay_buffer.update_priorities = lambda index, errors: (
        written.append(errors.clone()),
        update_errors(index, errors),
    )
    live(agent, n_steps=4)
    ((error,),) = written
    batch = agent.replay_buffer.sample_sequences(1, 4, 0.9)
    assert error == pytest.approx(float(agent.loss(batch.replace(weight=None))[1].abs().max()), abs=1e-6)


# Refusals and what stays


def test_a_gradient_of_reinforce_that_is_not_finite_makes_no_step() -> None:
    class Own(agents.REINFORCE):
        def accumulate_grad(self) -> None:
            super().accumulate_grad()
            next(self.model.parameters()).grad[0, 0] = float("inf")

    agent = made("REINFORCE", Own)
    before = parameters(agent).clone()
    with pytest.raises(NonFiniteError, match="norm of the gradient is (inf|nan); no update was made"):
        live(agent)
    assert torch.equal(parameters(agent), before)
    with pytest.raises(TypeError, match="accumulate_grad was called, but no episodes are collected"):
        agent.accumulate_grad()


def test_a_method_of_an_agent_that_has_the_name_of_ours_travels_as_itself() -> None:
    agent = made("A3C")
    agent.update = types.MethodType(update, agent)
    other = pickle.loads(pickle.dumps(agent))
    with pytest.raises(AssertionError, match="^called$"):
        live(other)


def update(self: Any, statevar: Any) -> Any:
    raise AssertionError("called")


# The table


def replacements() -> list[tuple[str, str]]:
    """(agent, what to override instead) of all refused methods."""
    found = {
        (hook.owner, name)
        for hook in HOOKS
        if hook.outcome == "refused"
        for name in re.findall(r"\b([a-z_]+)\(|^([a-z_]+)\b", hook.replacement)
    }
    return sorted({(owner, first or second) for owner, (first, second) in found})


@pytest.mark.parametrize(("owner", "name"), replacements())
def test_what_to_override_instead_exists(owner: str, name: str) -> None:
    assert hasattr(getattr(agents, owner, None) or getattr(agents.dpp, owner), name)


@pytest.mark.parametrize(("owner", "name"), [each for each in replacements() if each[0] in N_ENVS])
def test_what_to_override_instead_is_called(owner: str, name: str) -> None:
    base, calls = getattr(agents, owner), list[Any]()
    live(made(owner, by_class(base, name, spy(calls, base, name))))
    assert calls


def ours(cls: Any = None) -> list[Any]:
    """All agent classes of this package."""
    roots = [OnPolicyAgent, agents.A3C.__bases__[0], agents.DQN.__bases__[0]] if cls is None else cls.__subclasses__()
    found = [each for root in roots for each in (root, *ours(root)) if each.__module__.startswith("pfrl_like.")]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("cls", ours(), ids=lambda cls: cls.__name__)
def test_no_method_of_ours_has_a_name_that_is_refused(cls: HookType) -> None:
    seen: set[str] = set()
    for base in cls.__mro__:
        for hook in HOOKS:
            if hook.owner == base.__name__ and hook.name not in seen:
                seen.add(hook.name)
                definer = next(each for each in cls.__mro__ if hook.name in vars(each))
                method = vars(definer)[hook.name]
                is_ours = not isinstance(method, HookMethod) or method.function is not None
                assert is_ours == (hook.outcome != "refused"), hook


# Several processes
