"""The loss of A3C, worked out by hand."""

import torch
from torch import nn
from torch.testing import assert_close

from pfrl_like.agents import A3C
from pfrl_like.agents.a3c import a3c_loss
from pfrl_like.nn import Branched
from pfrl_like.policies import SoftmaxCategoricalHead


def test_loss_of_two_steps() -> None:
    log_prob = torch.tensor([-0.5, -1.0], requires_grad=True)
    value = torch.tensor([1.0, 2.0], requires_grad=True)
    loss = a3c_loss(
        log_prob, torch.tensor([0.6, 0.4]), value, torch.tensor([1.5, 1.0]),
        beta=0.1, pi_loss_coef=2.0, v_loss_coef=0.5,
    )  # fmt: skip
    # R - V:       0.5, -1.0
    # of policy:   -(0.5 * -0.5 + 0.1 * 0.6) = 0.19;  -(-1 * -1 + 0.1 * 0.4) = -1.04;  sum -0.85, twice that -1.7
    # of value:    0.5 * (0.25 + 1) / 2 = 0.3125
    assert_close(loss.item(), -1.3875)
    loss.backward()  # type: ignore[no-untyped-call]
    assert_close(log_prob.grad, torch.tensor([-1.0, 2.0]))  # -2 (R - V)
    assert_close(value.grad, torch.tensor([-0.25, 0.5]))  # -0.5 (R - V): none from the policy's loss


class _Fixed(nn.Module):
    """Gives the first number of an observation as the value, whatever its parameter, and even odds."""

    def __init__(self) -> None:
        super().__init__()
        self.zero = nn.Parameter(torch.zeros(1))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return obs[:, :1] + self.zero


def _agent(**options: object) -> A3C:
    model = Branched(nn.Sequential(nn.Linear(1, 2), SoftmaxCategoricalHead()), _Fixed())
    return A3C(model, torch.optim.SGD(model.parameters(), lr=0.0), 3, 0.5, **options)  # type: ignore[arg-type]


def _returns(agent: A3C, ends: list[tuple[bool, bool]]) -> torch.Tensor:
    """What the rewards 1, 2, ... make of states with the values 10, 20, ..., as the errors that `learn` gives."""
    errors: list[torch.Tensor] = []
    learn = agent.learn
    agent.learn = lambda batch: errors.append(learn(batch)[0])  # type: ignore[method-assign, assignment, func-returns-value]
    obs = torch.arange(10.0, 80.0, 10.0).unsqueeze(1).numpy()
    for i, (done, reset) in enumerate(ends):
        agent.act(obs[i])
        agent.observe(obs[i + 1], float(i + 1), done, reset)
    return torch.cat(errors)


def test_returns_bootstrap_unless_the_episode_terminated() -> None:
    # Values of the states 10, 20, 30, 40; gamma 0.5; errors are returns less these.
    # goes on after three steps: R2 = 3 + 0.5 * 40 = 23, R1 = 2 + 0.5 * 23 = 13.5, R0 = 1 + 0.5 * 13.5 = 7.75
    goes_on = [(False, False)] * 3
    assert_close(_returns(_agent(), goes_on), torch.tensor([-2.25, -6.5, -7.0]))
    # truncated after two: R1 = 2 + 0.5 * 30 = 17, R0 = 1 + 0.5 * 17 = 9.5
    assert_close(_returns(_agent(), [(False, False), (False, True)]), torch.tensor([-0.5, -3.0]))
    # terminated after two: R1 = 2, R0 = 1 + 0.5 * 2 = 2;  both at once counts as terminated
    for reset in (False, True):
        assert_close(_returns(_agent(), [(False, False), (True, reset)]), torch.tensor([-8.0, -18.0]))


def test_average_reward_is_taken_off_and_follows_the_advantages() -> None:
    agent = _agent(use_average_reward=True, average_reward_tau=0.1)
    agent.average_reward = 0.5
    # rewards 0.5, 1.5; R1 = 1.5, R0 = 0.5 + 0.5 * 1.5 = 1.25; errors -8.75, -18.5
    assert_close(_returns(agent, [(False, False), (True, False)]), torch.tensor([-8.75, -18.5]))
    assert_close(agent.average_reward, 0.5 + 0.1 * (-8.75 - 18.5))
