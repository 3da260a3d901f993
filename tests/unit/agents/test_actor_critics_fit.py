"""What does not fit an actor-critic is refused before it learns, by name: optimisers, critics, policies, rows."""

import logging
from typing import Any

import numpy as np
import pytest
import torch
from actor_critic_parts import ACTION, OBS, make_agent, make_batch, make_critic, make_policy, random_action
from gymnasium import spaces
from torch import nn

from pfrl_like import q_functions as nets
from pfrl_like.agents import REDQ, TQC, DiscreteSAC, SoftActorCritic
from pfrl_like.explorers import AdditiveGaussian
from pfrl_like.nn import BoundByTanh, ConcatObsAndAction, EmpiricalNormalization
from pfrl_like.policies import DeterministicHead, SoftmaxCategoricalHead, SquashedGaussianHead
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.testing.play import difference

SPACE = spaces.Box(-1, 1, (OBS,), np.float32)
ACTIONS = spaces.Box(-1, 1, (ACTION,), np.float32)
adam = torch.optim.Adam


def make_sac(policy: Any, critics: Any, kind: Any = SoftActorCritic, optimizers: Any = None, **options: Any) -> Any:
    optimizers = optimizers or [adam(part.parameters()) for part in (policy, *critics)]
    options = {"replay_start_size": 10, "minibatch_size": 4, "replay_buffer": ReplayBuffer(100), **options}
    return kind(policy, *critics, *optimizers, gamma=0.9, **options)


def make_discrete(n_valued: int = 3) -> Any:
    """An agent of three actions whose critics value so many."""
    policy = nn.Sequential(nn.Linear(OBS, 3), SoftmaxCategoricalHead())
    return make_sac(policy, twice(lambda: nets.FCStateQFunctionWithDiscreteAction(OBS, n_valued, 8, 1)), DiscreteSAC)


# Optimisers


def test_an_optimiser_in_the_place_of_another_is_refused() -> None:
    policy, *critics = [make_policy(), make_critic(), make_critic()]
    optimizers = [adam(part.parameters()) for part in (policy, *critics[::-1])]
    with pytest.raises(ValueError, match="q_func1_optimizer holds no parameter of q_func1: construct it with q_func1"):
        make_sac(policy, critics, optimizers=optimizers)


def test_one_optimiser_may_serve_both_critics() -> None:
    policy, critics = make_policy(), [make_critic(), make_critic()]
    both = adam([param for critic in critics for param in critic.parameters()])
    agent = make_sac(policy, critics, optimizers=[adam(policy.parameters()), both, both])
    before = [[param.clone() for param in critic.parameters()] for critic in critics]
    agent.update(make_batch())
    assert all(difference(old, [*critic.parameters()]) for old, critic in zip(before, critics, strict=True))


def test_a_network_that_is_frozen_whole_is_refused() -> None:
    policy, critics = make_policy().requires_grad_(False), [make_critic(), make_critic()]
    with pytest.raises(ValueError, match="policy_optimizer holds no parameter that requires a gradient"):
        make_sac(policy, critics)


def test_an_optimiser_whose_step_asks_for_the_loss_again_is_refused() -> None:
    policy, critics = make_policy(), [make_critic(), make_critic()]
    optimizers = [torch.optim.LBFGS(policy.parameters()), *(adam(critic.parameters()) for critic in critics)]
    with pytest.raises(TypeError, match="policy_optimizer is LBFGS, whose step needs a closure: use another optimizer"):
        make_sac(policy, critics, optimizers=optimizers)


# Critics


def twice(make: Any) -> list[Any]:
    return [make(), make()]


class Mean(nn.Module):
    """One number for all rows."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(OBS + ACTION, 1)

    def forward(self, pair: Any) -> torch.Tensor:
        return self.linear(torch.cat(pair, 1)).mean()


@pytest.mark.parametrize(
    ("critics", "error", "message"),
    [
        (
            lambda: [make_critic(), nets.FCSAQFunction(OBS + 1, ACTION, 8, 1)],
            ValueError,
            r"q_func2 failed .* \(2, 4\) of f",
        ),
        (lambda: [Mean(), make_critic()], ValueError, r"q_func1 failed .* a critic gives numbers of shape \(\) for 2"),
        (
            lambda: twice(lambda: nn.Sequential(ConcatObsAndAction(), nn.Linear(OBS + ACTION, 2))),
            ValueError,
            r"q_func1 failed on observations .* shape \(2, 2\) for 2 rows",
        ),
        (
            lambda: [nets.QuantileFCSAQFunction(OBS, ACTION, n, 8, 1) for n in (5, 7)],
            ValueError,
            "q_func1 and q_func2 failed on observations",
        ),
        (
            lambda: [nets.DistributionalFCSAQFunction(OBS, ACTION, 11, -v, v, 8, 1) for v in (5.0, 10.0)],
            ValueError,
            "q_func1 and q_func2 .* different z_values, expected the same v_min",
        ),
        (
            lambda: twice(lambda: nets.QuantileFCStateQFunctionWithDiscreteAction(OBS, 2, 5, 8, 1)),
            TypeError,
            "q_func1 .*: make ConcatObsAndAction its first",
        ),
        (
            lambda: twice(
                lambda: nn.Sequential(ConcatObsAndAction(), nn.Linear(OBS + ACTION, 2), SquashedGaussianHead())
            ),
            TypeError,
            "q_func1 .* gives SquashedGaussian, .* DiscreteActionValue: use for example an FCSAQFunction$",
        ),
    ],
)
def test_critics_that_cannot_be_learnt_from_are_refused_before_they_learn(
    critics: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make_sac(make_policy(), critics()).dry_run(SPACE.sample(), ACTIONS)


def make_redq(critics: Any, optimizers: Any) -> Any:
    policy = make_policy()
    return REDQ(policy, critics, adam(policy.parameters()), optimizers, ReplayBuffer(100), 0.9, replay_start_size=100)


def test_lists_of_critics_are_called_as_they_are_given() -> None:
    critics = [make_critic() for _ in range(3)]
    one, *others = (adam(critic.parameters()) for critic in critics)
    for wrong, error, message in (
        ((critics, one), TypeError, "q_func_optimizers is a single Adam, expected one list element per critic"),
        ((critics[0], [one]), TypeError, "q_funcs is a single Sequential, expected one list"),
        (([critics[0], None], [one, one]), TypeError, r"q_funcs\[1\] is None .* expected a torch.nn.Module"),
        ((critics, [one, [one], one]), TypeError, r"q_func_optimizers\[1\] is \[Adam .* expected a"),
        ((critics, [one, *others[::-1]]), ValueError, r"q_func_optimizers\[1\] holds .* with q_funcs\[1\].param"),
    ):
        with pytest.raises(error, match=message):
            make_redq(*wrong)
    for further in ({"further_q_funcs": critics[2]}, {"further_q_funcs": [], "further_q_func_optimizers": others[1]}):
        with pytest.raises(TypeError, match="further_q_.* is a single .*, expected one list element per critic"):
            make_agent("TD3", **further)
    assert make_redq(nn.ModuleList(critics), (one, *others)).critics == critics


def test_tqc_without_a_quantile_left_is_refused_when_a_run_begins() -> None:
    critics = twice(lambda: nets.QuantileFCSAQFunction(OBS, ACTION, 5, 8, 1))
    agent = make_sac(make_policy(), critics, TQC, n_dropped=5)
    with pytest.raises(ValueError, match="n_dropped is 5, expected less than"):
        agent.dry_run(SPACE.sample(), ACTIONS)


def test_the_trial_of_critics_leaves_no_trace() -> None:
    layers = (ConcatObsAndAction(), EmpiricalNormalization(OBS + ACTION), nn.BatchNorm1d(OBS + ACTION))
    critics = [nn.Sequential(*layers, nn.Linear(OBS + ACTION, 1)), make_critic()]
    agent = make_sac(make_policy(), critics)
    before = torch.get_rng_state(), {name: value.clone() for name, value in critics[0].state_dict().items()}
    agent.dry_run(SPACE.sample(), ACTIONS)
    assert difference(before, (torch.get_rng_state(), critics[0].state_dict())) is None
    assert critics[0].training


# Policies


def test_what_is_no_distribution_for_each_observation_is_refused() -> None:
    agent = make_agent("SoftActorCritic")
    with pytest.raises(ValueError, match="obs does not fit policy; .* batch_act takes a sequence"):
        agent.batch_act(np.zeros(OBS, np.float32))
    with pytest.raises(ValueError, match=r"batch shape \(1, 1\) for 1 observations, expected \(1,\)"):
        agent.act(np.zeros((1, OBS), np.float32))
    with pytest.raises(ValueError, match=r"batch shape \(1, 1\) for 1 observations"):
        agent.dry_run(spaces.Box(-1, 1, (1, OBS), np.float32).sample(), ACTIONS)


@pytest.mark.parametrize(
    ("agent", "low", "high", "told"),
    [
        ("SoftActorCritic", -1, 1, None),
        ("SoftActorCritic", -2, 2, "by policy to [-1, 1], but the environment has Box(-2.0"),
        ("SoftActorCritic", -np.inf, np.inf, "by policy to [-1, 1], but"),
        ("TD3", -1, 1, None),
        ("TD3", -0.5, 1, "by policy to [-1, 1], explorer to [-1, 1], target_policy_smoothing_func to [-1, 1], but"),
        ("DDPG", -1, 1, None),
        ("DDPG", -2, 2, "by policy to [-1, 1], explorer to [-1, 1], but"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"burnin_action_func": random_action}, {"recurrent": True}], ids=", ".join)
def test_actions_within_other_bounds_than_the_environments_are_told_of_once(
    agent: str, low: float, high: float, told: str | None, options: Any, caplog: pytest.LogCaptureFixture
) -> None:
    made = make_agent(agent, **options)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            made.dry_run(SPACE.sample(), spaces.Box(low, high, (ACTION,), np.float32))
    assert len(caplog.messages) == (told is not None)
    assert (told or "") in caplog.text


def test_bounds_that_are_those_of_the_environment_or_not_known_are_not_told_of(caplog: Any) -> None:
    low, high = np.array([-2.0, -1.0], np.float32), np.array([2.0, 3.0], np.float32)
    bounded = nn.Sequential(nn.Linear(OBS, ACTION), nn.Sequential(BoundByTanh(low, high), DeterministicHead()))
    options = {"target_policy_smoothing_func": lambda action: action, "explorer": AdditiveGaussian(0.1, low, high)}
    for policy in (bounded, make_policy("gaussian"), nn.Sequential(nn.Linear(OBS, ACTION), DeterministicHead())):
        make_agent("TD3", policy=policy, **options).dry_run(SPACE.sample(), spaces.Box(low, high))
    assert not caplog.messages
    make_agent("TD3", policy=bounded, **options).dry_run(SPACE.sample(), ACTIONS)
    assert "policy to [[-2.0, -1.0], [2.0, 3.0]], explorer to [[-2.0, -1.0], [2.0, 3.0]], but" in caplog.text


@pytest.mark.parametrize("smoothing", [lambda action: None, lambda action: action[:, :1]])
def test_a_smoothing_function_that_gives_something_else_is_refused(smoothing: Any) -> None:
    with pytest.raises(ValueError, match=r"target_policy_smoothing_func gave .*, expected shape \(8, 2\)"):
        make_agent("TD3", target_policy_smoothing_func=smoothing).update(make_batch())


def test_policies_of_another_kind_of_actions_are_refused() -> None:
    with pytest.raises(ValueError, match="the first action of .* is 1, expected 0"):
        make_discrete().dry_run(SPACE.sample(), spaces.Discrete(3, start=1))
    with pytest.raises(ValueError, match="q_func1 and q_func2 failed on observations"):
        make_discrete(4).dry_run(SPACE.sample(), spaces.Discrete(3))


# Arguments and rows


def test_arguments_that_do_not_fit_are_named() -> None:
    for agent, changes, error in (
        ("TD3", {"policy_update_delay": 0}, ValueError),
        ("DDPG", {"target_update_interval": None}, TypeError),
        ("SoftActorCritic", {"initial_temperature": 0.0}, ValueError),
        ("TD3", {"burnin_action_func": 3}, TypeError),
        ("TD3", {"target_policy_smoothing_func": None}, TypeError),
        ("SoftActorCritic", {"entropy_target": float("nan")}, ValueError),
        ("SoftActorCritic", {"initial_temperature": "1"}, TypeError),
        ("SoftActorCritic", {"temperature_optimizer_lr": -1.0}, ValueError),
        ("SoftActorCritic", {"temperature_optimizer_lr": "slow"}, TypeError),
    ):
        with pytest.raises(error, match=f"{next(iter(changes))} is"):
            make_agent(agent, **changes)


@pytest.mark.parametrize("name", ["reward", "discount", "weight"])
def test_columns_with_another_shape_than_rows_are_refused(name: str) -> None:
    batch = make_batch()
    wide = batch.replace(**{name: getattr(batch, name).unsqueeze(1)})
    with pytest.raises(ValueError, match=rf"{name} \(8, 1\).*, expected one number for each row"):
        make_agent("TD3").update(wide)
