"""DDPG, TD3 and Soft Actor-Critic: what each of their arguments does, and what they refuse."""

import copy
import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from actor_critic_parts import ACTION, ENV, make_agent, make_batch, parameters, random_action
from torch import nn

from pfrl_like.testing.play import play_one
from pfrl_like.utils import set_random_seed

AGENTS = ("DDPG", "TD3", "SoftActorCritic")
OBS = np.ones(4, np.float32)


# Statistics and counters


STATISTICS = {
    "DDPG": "average_q average_actor_loss average_critic_loss n_updates",
    "TD3": "average_q1 average_q2 average_q_func1_loss average_q_func2_loss average_policy_loss policy_n_updates "
    "q_func_n_updates",
    "SoftActorCritic": "average_q1 average_q2 average_q_func1_loss average_q_func2_loss n_updates average_entropy "
    "temperature",
}


@pytest.mark.parametrize("agent", AGENTS)
def test_statistics_are_those_of_pfrl(agent: str) -> None:
    made = make_agent(agent)
    assert [name for name, _ in made.get_statistics()] == STATISTICS[agent].split()
    stats = [made.update(make_batch(seed))[1] for seed in range(4)]
    found = dict(made.get_statistics())
    counts = {name: value for name, value in found.items() if "n_updates" in name}
    assert counts == ({"policy_n_updates": 2, "q_func_n_updates": 4} if agent == "TD3" else {"n_updates": 4})
    assert all(getattr(made, name, count) == count for name, count in counts.items())
    for name in found.keys() - counts.keys() - {"temperature"}:
        key = "loss" if name == "average_critic_loss" else name.removeprefix("average_")
        came = [each[key] for each in stats if key in each]  # TD3's policy learns in every second update
        assert found[name] == pytest.approx(torch.stack(came).mean().item())


# Acting


def test_burn_in_actions_come_until_the_policy_has_learnt() -> None:
    for agent, first in (("DDPG", 10), ("TD3", 11), ("SoftActorCritic", 10)):  # TD3's policy learns every second time
        calls: list[int] = []
        made = make_agent(agent, burnin_action_func=lambda calls=calls: calls.append(0) or random_action())
        play_one(made, ENV, 20)
        assert len(calls) == first
        with made.eval_mode():
            made.act(OBS)
        assert len(calls) == first
        made._policy_updates.count.zero_()
        with made.eval_mode():
            made.act(OBS)
        assert len(calls) == first  # nor in evaluation


def test_every_active_environment_gets_a_burn_in_action_of_its_own() -> None:
    made = make_agent("TD3", burnin_action_func=random_action)
    set_random_seed(0)
    actions = made.batch_act([OBS] * 3)
    set_random_seed(0)
    np.testing.assert_array_equal(actions, [random_action() for _ in range(3)])
    again = made.batch_act([OBS] * 3, active=np.array([True, False, True]))
    np.testing.assert_array_equal(again[1], actions[1])
    assert not np.array_equal(again[0], actions[0])


def test_a_recurrent_policy_remembers_what_it_saw_while_burning_in() -> None:
    made = make_agent("TD3", recurrent=True, burnin_action_func=random_action)
    made.act(OBS)
    assert made.recurrent_memory.train_state is not None


def test_actors_burn_in_until_they_get_what_was_learnt() -> None:
    made = make_agent("SoftActorCritic", burnin_action_func=lambda: np.full(ACTION, 0.25, np.float32))
    make_actor, learner, poller, _ = made.setup_actor_learner_training(1, n_updates=8)
    poller.start()
    learner.start()
    actor = make_actor(0)
    first = play_one(actor, ENV, 5)
    play_one(actor, ENV, 25)
    actor.get_statistics()  # with this all steps have come
    learner.join(20)
    last = play_one(actor, ENV, 1)
    actor.close()
    poller.stop()
    poller.join(10)
    np.testing.assert_array_equal(first, np.full((5, ACTION), 0.25))
    assert not np.array_equal(last[0], first[0])


def test_sac_acts_by_the_mode_only_in_evaluation_and_only_if_told() -> None:
    for deterministic in (True, False):
        made = make_agent("SoftActorCritic", act_deterministically=deterministic)
        with torch.no_grad():
            mode = made.policy(torch.as_tensor(OBS)[None]).mode[0].numpy()
        assert not np.array_equal(made.act(OBS), mode)
        with made.eval_mode():
            assert np.array_equal(made.act(OBS), mode) == deterministic


def test_svg0_samples_unless_told_otherwise() -> None:
    sampling, certain = (make_agent("DDPG", head="gaussian", act_deterministically=flag) for flag in (False, True))
    for made, alike in ((sampling, False), (certain, True)):
        with made.eval_mode():
            assert np.array_equal(made.act(OBS), made.act(OBS)) == alike


def test_inactive_environments_cost_no_draw() -> None:
    made = make_agent("SoftActorCritic")
    torch.manual_seed(0)
    some = made.batch_act([OBS] * 3, active=np.array([False, True, False]))
    after = torch.rand(1)
    torch.manual_seed(0)
    alone = made.batch_act([OBS])
    np.testing.assert_array_equal(some[1], alone[0])
    assert torch.rand(1) == after


# Learning


def test_td3s_policy_and_targets_move_once_every_delay() -> None:
    made = make_agent("TD3", policy_update_delay=3, soft_update_tau=0.25)
    for number in range(1, 7):
        before = {name: parameters(getattr(made, name)) for name in ("policy", "q_func1", "target_q_func1")}
        made.update(make_batch(number))
        now = {name: parameters(getattr(made, name)) for name in before}
        assert not torch.equal(now["q_func1"], before["q_func1"])
        assert torch.equal(now["policy"], before["policy"]) == (number % 3 != 0)
        expected = before["target_q_func1"]
        if number % 3 == 0:
            expected = torch.lerp(expected, now["q_func1"], 0.25)
        torch.testing.assert_close(now["target_q_func1"], expected)


def test_sacs_targets_move_after_every_update() -> None:
    made = make_agent("SoftActorCritic", soft_update_tau=0.25)
    before = parameters(made.target_q_func2)
    made.update(make_batch())
    torch.testing.assert_close(parameters(made.target_q_func2), torch.lerp(before, parameters(made.q_func2), 0.25))
    assert not hasattr(made, "target_policy")


def test_the_smoothing_function_disturbs_the_targets_action() -> None:
    seen = []

    def smoothing(action: torch.Tensor) -> torch.Tensor:
        seen.append(action)
        return torch.zeros_like(action)

    made, batch = make_agent("TD3", target_policy_smoothing_func=smoothing), make_batch()
    value, _ = made.bootstrap(batch)
    zeros = torch.zeros(len(batch), ACTION)
    expected = torch.minimum(*(critic((batch.next_obs, zeros)) for critic in made.target_critics))
    torch.testing.assert_close(value.q_values, expected)
    torch.testing.assert_close(seen[0], made.target_policy(batch.next_obs).mean)


def test_more_critics_make_targets_lower_and_are_saved(tmp_path: Path) -> None:
    third = nn.Sequential(Below(), nn.Linear(1, 1))
    nn.init.ones_(third[1].weight)
    options = {"further_q_funcs": [third], "further_q_func_optimizers": [torch.optim.Adam(third.parameters())]}
    for agent in ("TD3", "SoftActorCritic"):
        made = make_agent(agent, **options)
        value, _ = made.bootstrap(make_batch())
        assert (value.q_values < -90).all()
        made.update(make_batch())
        made.save(tmp_path / agent)
        assert (tmp_path / agent / "target_q_func3.pt").exists()
    with pytest.raises(ValueError, match="got 3 critics and 2 optimisers"):
        make_agent("TD3", further_q_funcs=[third])


class Below(nn.Module):
    def forward(self, pair: Any) -> torch.Tensor:
        return torch.full((len(pair[0]), 1), -1e3)


def test_a_critic_is_asked_for_its_loss_after_the_descent_on_the_one_before() -> None:
    agent, batch = make_agent("TD3"), make_batch()
    order: list[str] = []
    for name in ("q_func1", "q_func2"):
        getattr(agent, name).register_forward_hook(lambda *_, name=name: order.append(name))
    agent.critics_step(batch, lambda optimizer, loss: order.append(optimizer))
    assert order == ["q_func1", "q_func1_optimizer", "q_func2", "q_func2_optimizer"]


def test_losses_of_more_or_fewer_critics_than_there_are_are_refused() -> None:
    agent = make_agent("TD3")
    first, second = agent.critic_losses(make_batch())
    for losses, message in (([first], "gave 1 losses"), ([first, second, second], "gave 3 losses")):
        with pytest.raises(ValueError, match=f"{message}, expected one for each of q_func1, q_func2"):
            agent._step_critics(losses, lambda optimizer, loss: None)


def test_each_networks_gradient_is_clipped() -> None:
    sgd = functools.partial(torch.optim.SGD, lr=1.0)
    for agent in AGENTS:
        made = make_agent(agent, optimizer=sgd, max_grad_norm=1e-3)
        for seed in range(2):
            before = [parameters(part) for part in (made.policy, *made.critics)]
            made.update(make_batch(seed))
        moved = [new - old for old, new in zip(before, map(parameters, (made.policy, *made.critics)), strict=True)]
        assert [step.norm().item() for step in moved] == pytest.approx([1e-3] * len(moved), rel=1e-2)


@pytest.mark.parametrize("agent", AGENTS)
def test_the_policys_loss_gives_critics_no_gradient(agent: str) -> None:
    made, losses = make_agent(agent), []
    made.policy_step(make_batch(), lambda name, loss: losses.append((name, loss)))
    for name, loss in losses:
        made.gradient_steps[name](loss)
    assert all(param.grad is None for critic in made.critics for param in critic.parameters())
    assert all(param.grad is not None for param in made.policy.parameters())


@pytest.mark.parametrize("agent", AGENTS)
def test_weights_and_accumulator_count_in_every_loss(agent: str) -> None:
    def losses(batch: Any, **options: Any) -> list[float]:
        torch.manual_seed(0)
        made, found = make_agent(agent, **options), []
        torch.manual_seed(1)
        made.update_step(batch, lambda name, loss: found.append(loss.item()))
        return found

    plain = make_batch().replace(weight=None)
    light = plain.replace(weight=torch.full((8,), 0.25))
    alone = losses(plain)
    assert len(alone) == {"DDPG": 2, "TD3": 3, "SoftActorCritic": 4}[agent]
    assert losses(light) == pytest.approx([0.25 * loss for loss in alone], rel=1e-4)
    assert losses(plain, batch_accumulator="sum") == pytest.approx([8 * loss for loss in alone], rel=1e-4)


def test_actions_of_double_precision_are_learnt_from() -> None:
    made = make_agent("DDPG", burnin_action_func=lambda: np.random.uniform(-1, 1, ACTION))
    play_one(made, ENV, 12)
    assert made.n_updates == 3


# The temperature


def test_without_a_target_the_temperature_stays() -> None:
    made = make_agent("SoftActorCritic", entropy_target=None, initial_temperature=0.3)
    made.update(make_batch())
    assert made.temperature == 0.3 and made.temperature_holder is None and made.temperature_optimizer is None
    assert make_agent("SoftActorCritic", entropy_target=None).temperature == 0.2  # as the parts of these tests have it


@pytest.mark.parametrize(("target", "rises"), [(50.0, True), (-50.0, False)])
def test_the_temperature_follows_the_entropy(target: float, rises: bool) -> None:
    made = make_agent("SoftActorCritic", entropy_target=target, initial_temperature=0.5, temperature_optimizer_lr=0.1)
    assert made.temperature == pytest.approx(0.5)
    made.update(make_batch())
    assert made.temperature == pytest.approx(0.5 * np.exp(0.1 if rises else -0.1), rel=1e-4)  # Adam's first step is lr
    assert make_agent("SoftActorCritic").temperature_optimizer.param_groups[0]["lr"] == 1e-3


def test_the_temperature_weighs_the_entropy_in_target_and_policy() -> None:
    rewards, losses = [], []
    for temperature in (0.0, 1.0):
        torch.manual_seed(0)
        made = make_agent("SoftActorCritic", entropy_target=None, initial_temperature=temperature)
        torch.manual_seed(1)
        rewards.append(made.bootstrap(make_batch())[1])
        losses.append(made.policy_step(make_batch(), lambda name, loss: None)["policy_loss"])
    torch.testing.assert_close(rewards[0], make_batch().reward)
    assert not torch.allclose(rewards[1], rewards[0]) and losses[0] != losses[1]


# Saving


# Actors


# Refusals


def test_the_optimiser_of_a_temperature_is_fixed() -> None:
    made = make_agent("SoftActorCritic")
    with pytest.raises(AttributeError, match="temperature_optimizer of SoftActorCritic cannot be changed"):
        made.temperature_optimizer = copy.copy(made.temperature_optimizer)


def test_a_log_probability_of_each_component_is_refused() -> None:
    class Loose(nn.Module):
        def forward(self, mean: torch.Tensor) -> Any:
            return torch.distributions.Normal(mean, 1.0)

    made = make_agent("SoftActorCritic", policy=nn.Sequential(nn.Linear(4, ACTION), Loose()))
    with pytest.raises(ValueError, match=r"log_prob of the policy's distribution has shape \(8, 2\)"):
        made.update(make_batch())


@pytest.mark.parametrize(("update_interval", "interval"), [(2, 3), (4, 1), (2, 6)])
def test_targets_of_ddpg_move_once_every_interval_whatever_the_updates(update_interval: int, interval: int) -> None:
    agent = make_agent("DDPG", update_interval=update_interval, target_update_interval=interval)
    moves, move = [], agent.sync_target_network
    agent.sync_target_network = lambda: (moves.append(agent.t), move())
    play_one(agent, ENV, 24)
    assert moves == [*range(interval, 25, interval)]
