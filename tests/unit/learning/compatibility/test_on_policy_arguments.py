"""Every argument of the on-policy agents has the effect that its documentation says."""

import functools
import logging
import math
from typing import Any

import numpy as np
import pytest
import torch
from on_policy_parts import ON_POLICY, Table, drive, make_nets, make_on_policy, one_hot
from torch import nn

import pfrl_like.agents.a2c
import pfrl_like.agents.impala
import pfrl_like.agents.ppo
import pfrl_like.agents.trpo
from pfrl_like.agents import PPO, TRPO
from pfrl_like.envs.abc import ABC
from pfrl_like.nn import Branched, EmpiricalNormalization
from pfrl_like.policies import SoftmaxCategoricalHead
from pfrl_like.testing import Chain
from pfrl_like.testing.play import play_one, play_several
from pfrl_like.utils import set_random_seed
from pfrl_like.utils.batch_states import batch_states

CHAIN = Chain(time_limit=7)
EVERY = pytest.mark.parametrize("kind", ON_POLICY)
SGD = functools.partial(torch.optim.SGD, lr=1.0)


def trained(kind: str, n_steps: int = 20, **options: Any) -> Any:
    set_random_seed(0)
    agent = make_on_policy(kind, **options)
    play_one(agent, CHAIN, n_steps)
    return agent


def values_of(module: nn.Module) -> torch.Tensor:
    return torch.cat([param.detach().reshape(-1) for param in module.parameters()])


def watch(monkeypatch: Any, module: Any, name: str) -> list[tuple[Any, dict[str, Any]]]:
    """A list that will hold the arguments and keywords of every call of a loss."""
    calls: list[tuple[Any, dict[str, Any]]] = []
    function = getattr(module, name)

    def watched(*args: Any, **kwargs: Any) -> Any:
        calls.append((args, kwargs))
        return function(*args, **kwargs)

    monkeypatch.setattr(module, name, watched)
    return calls


# When they learn, and from how much


@pytest.mark.parametrize("kind", ["PPO", "IMPALA", "TRPO"])
def test_update_interval(kind: str) -> None:
    agent = make_on_policy(kind, update_interval=6, **({"epochs": 1, "minibatch_size": 6} if kind == "PPO" else {}))
    updates = []
    for _ in range(14):
        play_one(agent, CHAIN, 1)
        updates.append(agent.n_updates)
    assert updates == [0] * 5 + [1] * 6 + [2] * 3


@pytest.mark.parametrize(("minibatch_size", "epochs", "expected"), [(5, 1, 2), (5, 3, 6), (4, 1, 3), (3, 3, 10)])
def test_minibatch_size_and_epochs(minibatch_size: int, epochs: int, expected: int, monkeypatch: Any) -> None:
    calls = watch(monkeypatch, pfrl_like.agents.ppo, "ppo_loss")
    agent = trained("PPO", 10, minibatch_size=minibatch_size, epochs=epochs)
    assert agent.n_updates == len(calls) == expected
    assert {len(batch) for (_, batch), _ in calls} == {minibatch_size}


@pytest.mark.parametrize(("num_processes", "update_steps"), [(3, 2), (2, 5)])
def test_num_processes_and_update_steps(num_processes: int, update_steps: int) -> None:
    agent = make_on_policy("A2C", num_processes=num_processes, update_steps=update_steps)
    play_several(agent, CHAIN, num_processes, update_steps - 1)
    assert agent.n_updates == 0
    play_several(agent, CHAIN, num_processes, 1)
    assert agent.n_updates == 1


def test_batchsize_counts_episodes() -> None:
    agent = make_on_policy("REINFORCE", batchsize=3)
    ended = [(0, 1.0, 1, False, False), (1, 1.0, 2, True, False)]
    drive(agent, ended * 2)
    assert agent.n_updates == 0
    drive(agent, ended)
    assert (agent.n_updates, len(agent._rollout)) == (1, 0)


@pytest.mark.parametrize(("vf_epochs", "vf_batch_size", "expected"), [(1, 5, 2), (3, 5, 6), (2, 4, 5)])
def test_vf_epochs_and_vf_batch_size(vf_epochs: int, vf_batch_size: int, expected: int, monkeypatch: Any) -> None:
    calls = watch(monkeypatch, pfrl_like.agents.trpo, "value_loss")
    trained("TRPO", 10, vf_epochs=vf_epochs, vf_batch_size=vf_batch_size)
    assert [len(batch) for (_, batch), _ in calls] == [vf_batch_size] * expected


@pytest.mark.parametrize(("max_len", "longest"), [(None, 7), (3, 3)])
def test_max_recurrent_sequence_len(max_len: int | None, longest: int, monkeypatch: Any) -> None:
    calls = watch(monkeypatch, pfrl_like.agents.ppo, "ppo_loss")
    options = {"recurrent": True, "update_interval": 21, "minibatch_size": 21, "max_recurrent_sequence_len": max_len}
    trained("PPO", 21, **options)
    assert max(int(batch.lengths.max()) for (_, batch), _ in calls) <= longest
    calls = watch(monkeypatch, pfrl_like.agents.trpo, "surrogate_gain")
    options.pop("minibatch_size")
    trained("TRPO", 21, **options)
    assert max(int(batch.lengths.max()) for (_, batch, _), _ in calls) <= longest
    calls = watch(monkeypatch, pfrl_like.agents.impala, "impala_loss")
    trained("IMPALA", 21, **options)
    assert max(int(batch.lengths.max()) for (_, batch), _ in calls) <= longest


# What they learn


@pytest.mark.parametrize("kind", ["PPO", "TRPO"])
@pytest.mark.parametrize("standardize", [True, False])
def test_standardize_advantages(kind: str, standardize: bool, monkeypatch: Any) -> None:
    if kind == "PPO":
        calls = watch(monkeypatch, pfrl_like.agents.ppo, "ppo_loss")
    else:
        calls = watch(monkeypatch, pfrl_like.agents.trpo, "surrogate_gain")
    trained(kind, 10, standardize_advantages=standardize, **({"minibatch_size": 10} if kind == "PPO" else {}))
    advantage = calls[0][0][1].advantage
    assert (abs(advantage.mean()) < 1e-6 and abs(advantage.std(correction=0) - 1) < 1e-5) == standardize


HANDED_ON: dict[str, tuple[str, dict[str, Any]]] = {
    "PPO": ("ppo_loss", {"clip_eps": 0.3, "clip_eps_vf": 0.4, "value_func_coef": 0.6, "entropy_coef": 0.7}),
    "A2C": ("a2c_loss", {"pi_loss_coef": 0.3, "v_loss_coef": 0.4, "entropy_coeff": 0.5}),
    "IMPALA": ("impala_loss", {"value_coeff": 0.4, "entropy_coeff": 0.5}),
    "TRPO": (
        "natural_step", {"max_kl": 0.02, "conjugate_gradient_damping": 0.5, "conjugate_gradient_max_iter": 3}
    ),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "function", "options"), [(kind, *each) for kind, each in HANDED_ON.items()])
def test_arguments_are_those_of_the_function(
    kind: str, function: str, options: dict[str, Any], monkeypatch: Any
) -> None:
    calls = watch(monkeypatch, getattr(pfrl_like.agents, kind.lower()), function)
    trained(kind, 10, **options)
    expected = {name.removeprefix("conjugate_gradient_"): value for name, value in options.items()}
    assert calls and all(keywords == expected for _, keywords in calls)


@pytest.mark.parametrize("kind", ["PPO", "A2C", "IMPALA", "REINFORCE"])
def test_max_grad_norm(kind: str) -> None:
    set_random_seed(0)
    nets = make_nets()
    before = values_of(nn.ModuleList(nets))
    own = {"PPO": {"epochs": 1, "minibatch_size": 10}}.get(kind, {})
    trained(kind, 10, nets=nets, optimizer=SGD, max_grad_norm=1e-3, **own)
    n_updates = 2 if kind == "REINFORCE" else 1
    assert 0 < (values_of(nn.ModuleList(nets)) - before).norm() <= n_updates * 1.001e-3


def test_max_grad_norm_of_trpo_is_that_of_the_values() -> None:
    policy, vf = make_nets()
    before = values_of(policy), values_of(vf)
    trained("TRPO", 10, nets=(policy, vf), optimizer=SGD, max_grad_norm=1e-4, vf_epochs=1, vf_batch_size=10)
    assert (values_of(vf) - before[1]).norm() <= 1.001e-4
    assert (values_of(policy) - before[0]).norm() > 1e-2


@pytest.mark.parametrize("target_kl", [None, 0.0, 1e9])
def test_target_kl_ends_an_update(target_kl: float | None) -> None:
    agent = trained("PPO", 10, epochs=5, minibatch_size=5, optimizer=SGD, target_kl=target_kl)
    assert agent.n_updates == (2 if target_kl == 0.0 else 10)


def test_learn_from_truncated(caplog: Any) -> None:
    steps = [(0, 1.0, 1, False, False), (1, 1.0, 2, False, True), (0, 1.0, 1, False, True)]
    for learns in (False, True):
        agent = make_on_policy("REINFORCE", learn_from_truncated=learns, logger=logging.getLogger("own"))
        drive(agent, steps)
        assert (agent.n_updates, len(agent._rollout)) == (2 * learns, 0)
        assert [record.name for record in caplog.records] == ["own"]  # of the first episode without learning alone
    assert "truncated episodes" in caplog.text and "learn_from_truncated=True" in caplog.text


@pytest.mark.parametrize("max_kl", [1e-4, 1e-2])
def test_max_kl(max_kl: float) -> None:
    agent = trained("TRPO", 10, max_kl=max_kl, entropy_coef=0.0)
    assert 0.2 * max_kl < dict(agent.get_statistics())["average_kl"] <= max_kl


def test_line_search_max_backtrack(monkeypatch: Any) -> None:
    natural_step = pfrl_like.agents.trpo.natural_step
    monkeypatch.setattr(pfrl_like.agents.trpo, "natural_step", lambda *args, **more: 100 * natural_step(*args, **more))
    sizes = []
    for trials in (0, 2, 30):
        policy, vf = make_nets()
        before = values_of(policy)
        agent = trained("TRPO", 10, nets=(policy, vf), line_search_max_backtrack=trials)
        sizes.append(dict(agent.get_statistics())["average_policy_step_size"])
        assert torch.equal(before, values_of(policy)) == (trials < 30)
    assert sizes[:2] == [0.0, 0.0] and math.log2(sizes[2]) in range(-30, -2)


# What they see


@EVERY
def test_phi_and_batch_states(kind: str) -> None:
    calls = []

    def collate(states: Any, device: Any, phi: Any) -> Any:
        calls.append(len(states))
        return batch_states(states, device, phi)

    agent: Any = make_on_policy(kind, phi=lambda obs: 2 * obs, batch_states=collate)
    agent.is_due = lambda: False
    agent.act(one_hot(1))
    agent.observe(one_hot(2), 0.0, False, False)
    obs = agent._rollout.take(1.0, "cpu", agent._bootstrap_inputs)
    assert (obs.steps.obs.tolist(), obs.last_obs.tolist()) == ([[0, 2, 0, 0, 0]], [[0, 0, 2, 0, 0]])
    assert calls == [1, 1]


@pytest.mark.parametrize("kind", ["PPO", "IMPALA", "TRPO"])
def test_obs_normalizer_learns_between_targets_and_update(kind: str, monkeypatch: Any) -> None:
    normalizer = EmpiricalNormalization(5)
    agent: Any = make_on_policy(kind, obs_normalizer=normalizer, **({"minibatch_size": 10} if kind == "PPO" else {}))
    seen = []
    agent.model.register_forward_hook(lambda module, args, out: seen.append((int(normalizer.count), args[0].clone())))
    loss = {"PPO": ("ppo", "ppo_loss"), "IMPALA": ("impala", "impala_loss")}.get(kind, ("trpo", "value_loss"))
    learnt = watch(monkeypatch, getattr(pfrl_like.agents, loss[0]), loss[1])
    play_one(agent, CHAIN, 9)
    assert normalizer.count == 0
    play_one(agent, CHAIN, 1)
    assert normalizer.count == 10
    targets = next(obs for count, obs in seen if len(obs) == 10)
    raw = normalizer.inverse(learnt[0][0][1].obs) if len(learnt[0][0][1]) == 10 else None
    torch.testing.assert_close(targets, (targets > 0.5) / math.sqrt(1.01))  # mean 0, variance 1, eps 0.01
    if raw is not None:
        assert raw.sum(1).tolist() == pytest.approx([1.0] * 10, abs=1e-4)
    count = int(normalizer.count)
    with agent.eval_mode():
        play_one(agent, CHAIN, 5)
    assert normalizer.count == count


# How they act


@EVERY
def test_act_deterministically_is_for_evaluation(kind: str) -> None:
    for deterministic in (False, True):
        agent: Any = make_on_policy(kind, act_deterministically=deterministic)
        agent.is_due = lambda: False
        obs = [one_hot(0)] * 64
        trained_actions = agent.batch_act(obs)
        with agent.eval_mode():
            actions = agent.batch_act(obs)
        assert len(set(trained_actions.tolist())) == 2
        assert len(set(actions.tolist())) == (1 if deterministic else 2)


# What they report


def test_statistics_have_the_names_that_are_documented() -> None:
    names = {kind: [name for name, _ in make_on_policy(kind).get_statistics()] for kind in ON_POLICY}
    of_ppo = ["average_value", "average_entropy", "average_value_loss", "average_policy_loss", "n_updates",
              "explained_variance"]  # fmt: skip
    assert names == {
        **dict.fromkeys(("PPO", "IMPALA", "APPO"), of_ppo),
        "A2C": ["average_actor", "average_value", "average_entropy"],
        "REINFORCE": ["average_entropy"],
        "TRPO": ["average_value", "average_entropy", "average_kl", "average_policy_step_size", "explained_variance"],
    }  # fmt: skip


WINDOWS = [
    (kind, f"{name}_stats_window")
    for kind in ("PPO", "IMPALA")
    for name in ("value", "entropy", "value_loss", "policy_loss")
]
WINDOWS += [("TRPO", f"{name}_stats_window") for name in ("value", "entropy", "kl")]


@pytest.mark.parametrize(("kind", "argument"), [*WINDOWS, ("TRPO", "policy_step_size_stats_window")])
def test_windows_of_statistics(kind: str, argument: str) -> None:
    agent = make_on_policy(kind, **{argument: 3})
    name = argument.removesuffix("_stats_window")
    record = getattr(agent, f"{name}_record")
    assert math.isnan(dict(agent.get_statistics())[f"average_{name}"])
    for values in ([5.0], [1.0, 2.0], [3.0], [4.0, 8.0]):
        record.extend(torch.tensor(values))
    assert dict(agent.get_statistics())[f"average_{name}"] == 5.0  # of 3, 4, 8
    assert len(record) == 3


@pytest.mark.parametrize("argument", ["average_actor_loss_decay", "average_entropy_decay", "average_value_decay"])
def test_decays_of_a2cs_statistics(argument: str) -> None:
    agent: Any = make_on_policy("A2C", **{argument: 0.75})
    name = argument.removesuffix("_decay")
    agent._move_average(name, 8.0)
    agent._move_average(name, 8.0)
    assert dict(agent.get_statistics())[name.removesuffix("_loss")] == 3.5  # 2, then 2 + 6 / 4


def test_decay_of_reinforces_entropy() -> None:
    agent = make_on_policy("REINFORCE", average_entropy_decay=0.5)
    with torch.no_grad():
        for param in agent.model.parameters():
            param.zero_()
    agent.batch_act([one_hot(0)] * 2)
    assert dict(agent.get_statistics())["average_entropy"] == pytest.approx(0.75 * math.log(2))


def test_explained_variance_is_that_of_the_last_update() -> None:
    nets = (
        nn.Sequential(Table(np.zeros((5, 2), np.float32)), SoftmaxCategoricalHead()),
        Table([[3.0], [2.0], [0.0]] + [[0.0]] * 2),
    )
    agent = make_on_policy("PPO", nets=nets, update_interval=2, gamma=1.0)
    drive(agent, [(0, 3.0, 3, True, False), (1, 1.0, 3, True, False)])
    # returns 3 and 1: variance 1; differences 0 and -1: variance 0.25
    assert agent.explained_variance == pytest.approx(0.75)


# Where they compute, and what is refused


BAD: list[tuple[str, dict[str, Any], type[Exception]]] = [
    *((kind, {"gamma": 1.5}, ValueError) for kind in ("PPO", "A2C", "IMPALA", "TRPO")),
    *((kind, {"gamma": "much"}, TypeError) for kind in ("PPO", "A2C", "IMPALA", "TRPO")),
    *((kind, {"phi": 3}, TypeError) for kind in ON_POLICY),
    *((kind, {"batch_states": 3}, TypeError) for kind in ON_POLICY),
    *((kind, {"max_grad_norm": bound}, ValueError) for kind in ON_POLICY for bound in (-1.0, 0)),
    *((kind, {"value_stats_window": 0}, ValueError) for kind in ("PPO", "IMPALA", "TRPO")),
    ("TRPO", {"kl_stats_window": "long"}, TypeError),
    ("TRPO", {"line_search_max_backtrack": 2.5}, TypeError),
    *((kind, {"optimizer": torch.optim.LBFGS}, TypeError) for kind in ON_POLICY),
    *((kind, {"recurrent": True, "nets": make_nets()}, TypeError) for kind in ("REINFORCE", "TRPO")),
    *((kind, {"nets": make_nets(recurrent=True)}, (TypeError, ValueError)) for kind in ("REINFORCE", "TRPO")),
    *(("PPO", {name: 0}, ValueError) for name in ("update_interval", "minibatch_size", "epochs")),
    *(("PPO", {name: -1}, ValueError) for name in ("clip_eps", "clip_eps_vf", "entropy_coef", "target_kl", "lambd")),
    *((kind, {"obs_normalizer": nn.Identity()}, TypeError) for kind in ("PPO", "IMPALA", "TRPO")),
    ("PPO", {"max_recurrent_sequence_len": 0}, ValueError),
    *(("APPO", {name: 0}, ValueError) for name in ("rho_clip", "c_clip")),
    *(("IMPALA", {name: 0}, ValueError) for name in ("update_interval", "rho_clip", "c_clip")),
    *(("IMPALA", {name: -1}, ValueError) for name in ("vtrace_lambda", "value_coeff", "entropy_coeff")),
    *(("A2C", {name: 0}, ValueError) for name in ("update_steps", "num_processes")),
    *(("A2C", {name: -1}, ValueError) for name in ("tau", "pi_loss_coef", "average_value_decay")),
    ("REINFORCE", {"beta": -1}, ValueError),
    *(("TRPO", {name: 0}, ValueError) for name in ("update_interval", "vf_epochs", "conjugate_gradient_max_iter")),
    *(("TRPO", {key: -1}, ValueError) for key in ("max_kl", "conjugate_gradient_damping", "line_search_max_backtrack")),
]


@pytest.mark.parametrize(("kind", "options", "error"), BAD)
def test_what_does_not_fit_is_refused_by_name(kind: str, options: dict[str, Any], error: Any) -> None:
    name = next(iter(options)) if "nets" not in options else "recurrent"
    with pytest.raises(error, match=name):
        make_on_policy(kind, **options)


def test_a_policy_of_trpo_learns_by_its_own_step_alone() -> None:
    def make(policy: nn.Module, vf: nn.Module, optimized: nn.Module) -> None:
        TRPO(policy, vf, torch.optim.Adam(optimized.parameters()))

    policy, vf = make_nets()
    with pytest.raises(ValueError, match="vf_optimizer has parameters of policy"):
        make(policy, vf, policy)
    with pytest.raises(ValueError, match="vf has parameters of policy"):
        make(nn.Sequential(vf, SoftmaxCategoricalHead()), vf, vf)
    with pytest.raises(ValueError, match="policy has no trainable parameter"):
        make(policy.requires_grad_(False), vf, vf)


@EVERY
def test_a_state_that_does_not_fit_changes_nothing(kind: str) -> None:
    agent = make_on_policy(kind)
    good = agent.saved_state()
    for bad in ({"numbers": ["x"]}, {"numbers": []}, {"windows": {"other": []}}, {"t": -1}, {"more": 1}):
        with pytest.raises(ValueError, match=r"could not convert|the state has"):
            agent.restore_state({**good, "t": 99, **bad})
        with pytest.raises(ValueError, match="the state has"):
            agent.restore_state({"t": 99, "n_updates": 0, "cumulative_steps": 0})
    assert agent.t == 0


def test_an_optimiser_of_other_parameters_is_refused() -> None:
    policy, vf = make_nets()
    model = Branched(policy, vf)
    with pytest.raises(ValueError, match=r"construct it with model.parameters\(\)"):
        PPO(model, torch.optim.Adam(nn.Linear(1, 1).parameters()))
    with pytest.raises(TypeError, match="optimizer is None"):
        PPO(model, None)  # type: ignore[arg-type]


# How they learn


@pytest.mark.slow
@pytest.mark.parametrize("continuous", [False, True])
def test_ppo_compiles_what_it_does_with_a_minibatch(continuous: bool) -> None:
    env = ABC(size=2, discrete=not continuous, partially_observable=False)

    def values_after(**options: Any) -> torch.Tensor:
        set_random_seed(0)
        size = env.observation_space.shape[0]
        n_actions = 2 if continuous else env.action_space.n
        nets = make_nets(obs_size=size, n_actions=n_actions, continuous=continuous)
        agent = make_on_policy("PPO", nets=nets, max_grad_norm=0.5, clip_eps_vf=0.2, **options)
        play_one(agent, env, 50)
        assert agent.n_updates == 25
        return values_of(agent.model)

    assert torch.allclose(values_after(), values_after(compile=True), atol=1e-5)


def test_ppo_does_not_compile_sequences() -> None:
    with pytest.raises(ValueError, match="compile is True, which recurrent"):
        make_on_policy("PPO", recurrent=True, compile=True)
