"""What IQN, QR-DQN and FQF add to DQN."""

import functools
from typing import Any

import numpy as np
import pytest
import torch
from agent_parts import make_agent, make_batch, make_q_function
from torch import Tensor, nn

from pfrl_like import agents
from pfrl_like.q_functions import fqf_parameter_groups

QUANTILE_AGENTS = ("QRDQN", "IQN", "FQF")


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of what is drawn from PyTorch's stream."""
    shapes: list[tuple[int, ...]] = []
    rand = torch.rand

    def recording(*shape: int, **options: Any) -> Tensor:
        shapes.append(shape)
        return rand(*shape, **options)

    monkeypatch.setattr(torch, "rand", recording)
    return shapes


@pytest.mark.parametrize("name", ["IQN", "DoubleIQN"])
def test_arguments_say_how_many_fractions_are_drawn(name: str, drawn: list[tuple[int, ...]]) -> None:
    batch = make_batch(0)
    agent = make_agent(name, quantile_thresholds_N=3, quantile_thresholds_N_prime=2, quantile_thresholds_K=7)
    drawn.clear()
    agent.update(batch)
    assert sorted(drawn) == [(8, 2), (8, 3), (8, 7)]
    drawn.clear()
    agent.act(np.zeros(5, np.float32))
    assert drawn == [(1, 7)]


def test_without_arguments_the_q_function_says_so(drawn: list[tuple[int, ...]]) -> None:
    make_agent("IQN").update(make_batch(0))
    assert drawn[-3:] == [(8, 6), (8, 4), (8, 5)]
    assert make_agent("IQN", quantile_thresholds_K=9).model.thresholds == (6, 5, 9)


def test_fractions_of_recurrent_and_wrapped_q_functions_are_set() -> None:
    assert make_agent("IQN", recurrent=True, quantile_thresholds_N=2).model.thresholds.N == 2
    wrapped = nn.Sequential(nn.Linear(5, 5), make_q_function("IQN"))
    agent: Any = make_agent("IQN", q_function=wrapped, quantile_thresholds_N=2)
    assert agent.model[1].thresholds.N == agent.target_model[1].thresholds.N == 2


def test_fractions_of_what_draws_none_are_refused() -> None:
    with pytest.raises(TypeError, match="quantile_thresholds_K is given, but q_function is Sequential"):
        make_agent("IQN", q_function=nn.Sequential(make_q_function("DQN")), quantile_thresholds_K=2)
    with pytest.raises(ValueError, match="quantile_thresholds_N_prime is -1, expected an integer from 1 on"):
        make_agent("IQN", quantile_thresholds_N_prime=-1)


def seen_fractions(agent: Any) -> list[Tensor]:
    seen: list[Tensor] = []
    agent.model.phi.register_forward_pre_hook(lambda module, args: seen.append(args[0].clone()))
    for _ in range(2):
        agent.batch_act(list(np.zeros((3, 5), np.float32)))
    return seen


def test_acting_deterministically_takes_even_fractions_in_evaluation_only() -> None:
    agent = make_agent("IQN", act_deterministically=True)
    with agent.eval_mode():
        for taus in seen_fractions(agent):
            torch.testing.assert_close(taus, torch.tensor([[0.125, 0.375, 0.625, 0.875]]).expand(3, -1))
    first, second = seen_fractions(agent)[-2:]
    assert not torch.equal(first, second)


def test_acting_is_random_in_evaluation_unless_it_is_told_otherwise() -> None:
    agent = make_agent("IQN")
    with agent.eval_mode():
        first, second = seen_fractions(agent)
    assert not torch.equal(first, second)


def test_recurrent_acting_can_be_deterministic() -> None:
    agent = make_agent("IQN", recurrent=True, act_deterministically=True)
    with agent.eval_mode():
        for taus in seen_fractions(agent):
            torch.testing.assert_close(taus[0], torch.tensor([0.125, 0.375, 0.625, 0.875]))


@pytest.mark.parametrize("agent", [*QUANTILE_AGENTS, "DoubleIQN"])
def test_an_update_of_another_form_is_refused(agent: str) -> None:
    with pytest.raises(TypeError, match="q_function gives DiscreteActionValue, expected"):
        make_agent(agent, q_function=make_q_function("DQN")).update(make_batch(0))


@pytest.mark.parametrize("agent", QUANTILE_AGENTS)
def test_forbidden_actions_are_not_bootstrapped_from(agent: str) -> None:
    one = make_agent(agent, n_actions=3)
    only = torch.nn.functional.one_hot(torch.arange(8) % 3, 3).bool()
    batch = make_batch(0).replace(next_action_mask=only, action_mask=torch.ones(8, 3, dtype=torch.bool))
    torch.manual_seed(0)
    masked = one.loss(batch)[1]
    other = batch.replace(next_action_mask=torch.nn.functional.one_hot((torch.arange(8) + 1) % 3, 3).bool())
    torch.manual_seed(0)
    assert (one.loss(other)[1] != masked).all()  # the same draws, other actions


def test_the_proposal_learns_at_a_rate_of_its_own() -> None:
    q_function = make_q_function("FQF")
    groups = fqf_parameter_groups(q_function, lr=0.0)
    optimizer = functools.partial(lambda _, groups: torch.optim.RMSprop(groups, lr=1e-2), groups=groups)
    one: Any = make_agent("FQF", q_function=q_function, optimizer=optimizer)
    before = {name: param.clone() for name, param in q_function.named_parameters()}
    one.update(make_batch(0))
    still = {name for name, param in q_function.named_parameters() if torch.equal(param, before[name])}
    assert still == {"proposal.weight", "proposal.bias"}


@pytest.mark.parametrize("methods", ["_compute_loss", "_compute_y_and_taus", "_compute_loss _compute_target_values"])
def test_pfrls_methods_of_a_subclass_compute_the_loss(methods: str) -> None:
    batch, calls = make_batch(0).replace(weight=torch.linspace(0.5, 1, 8)), list[str]()

    def own(name: str) -> Any:
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            return getattr(agents.IQN, name)(self, *args, **kwargs)

        return method

    results = []
    for cls in (agents.IQN, type("Own", (agents.IQN,), {name: own(name) for name in methods.split()})):
        torch.manual_seed(0)
        agent: Any = make_agent(cls, q_function=make_q_function("IQN"))
        td_error, _ = agent.update(batch)
        results.append([td_error, *agent.model.parameters()])
    assert {*methods.split()} == {*calls}
    torch.testing.assert_close(*results)
    assert (agent.quantile_thresholds_N, agent.quantile_thresholds_N_prime, agent.quantile_thresholds_K) == (6, 5, 4)
