"""`compile=True`: the numbers of the ordinary update; optimisers that it does not know are refused.

Compiling takes some seconds for each region, so that the tests that compile are slow ones.
"""

import copy
import logging
from typing import Any

import pytest
import torch
from actor_critic_parts import make_agent as make_actor_critic
from actor_critic_parts import make_batch as make_continuous_batch
from agent_parts import make_agent, make_batch
from optimizer_parts import OPTIMIZERS
from torch import nn
from torch.optim import Adadelta, Adam, Optimizer

from pfrl_like.errors import NonFiniteError
from pfrl_like.optimizers.compiled_region import LISTENERS
from pfrl_like.optimizers.compiled_step import CompiledStep
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.testing.play import difference


class Listener:
    """Keeps what it is told of compiling."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def tell(self, text: str) -> None:
        self.told.append(text)


def make_twins(agent: str = "DQN", **options: Any) -> tuple[Any, Any]:
    """The same agent, not compiled and compiled."""
    eager = make_agent(agent, target_update_interval=100, **options)
    compiled = make_agent(agent, target_update_interval=100, compile=True, **options)
    compiled.load_state_dict(copy.deepcopy(eager.state_dict()))
    return eager, compiled


def assert_alike(eager: Any, compiled: Any, n_updates: int = 10, first_seed: int = 0) -> None:
    for seed in range(first_seed, first_seed + n_updates):
        (error, stats), (other_error, other_stats) = (agent.update(make_batch(seed)) for agent in (eager, compiled))
        torch.testing.assert_close(other_error, error, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(other_stats, stats, rtol=1e-5, atol=1e-5)
    attributes = (agent.state_dict()["attributes"] for agent in (compiled, eager))
    torch.testing.assert_close(*attributes, rtol=1e-4, atol=1e-5)


def number_of_regions(agent: Any) -> int:
    return len(agent._compiled._regions)


@pytest.mark.parametrize("code", ["traced", pytest.param("generated", marks=pytest.mark.slow)])
def test_adam_gives_the_numbers_of_the_ordinary_update(
    code: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    if code == "traced":
        request.getfixturevalue("traced")
    eager, compiled = make_twins()
    listener = Listener()
    LISTENERS.add(listener)
    with caplog.at_level(logging.INFO, "pfrl_like"):
        assert_alike(eager, compiled)
    assert number_of_regions(compiled) == 1
    before, after = (record.message for record in caplog.records if record.name.startswith("pfrl_like"))
    assert "compiling the update (about 30 s" in before and "compiled the update in" in after
    assert listener.told == [before, after]
    # The learning rate is read at every step,
    for agent in (eager, compiled):
        agent.optimizer.param_groups[0]["lr"] = 1e-3
    assert_alike(eager, compiled, 3, first_seed=10)
    # a batch that is not finite changes nothing,
    before = copy.deepcopy(compiled.state_dict())
    bad = make_batch(0)
    with pytest.raises(NonFiniteError, match="the loss is not finite"):
        compiled.update(bad.replace(reward=bad.reward * torch.nan))
    assert difference(compiled.state_dict(), before) is None
    # and the target network that is read is the one that moves.
    for agent in (eager, compiled):
        agent.sync_target_network()
    assert_alike(eager, compiled, 3, first_seed=20)
    assert number_of_regions(compiled) == 1


@pytest.mark.parametrize("optimizer", ["Adam", "SGD", "RMSprop, momentum"])
def test_a_state_that_was_cleared_begins_anew(uncompiled: None, optimizer: str) -> None:
    eager, compiled = make_twins(optimizer=OPTIMIZERS[optimizer])
    assert_alike(eager, compiled, 4)
    for agent in (eager, compiled):
        agent.optimizer.state.clear()
    assert_alike(eager, compiled, 4, first_seed=10)
    assert number_of_regions(compiled) == 1


def test_an_algorithm_may_tell_nothing_but_its_loss(uncompiled: None) -> None:
    for agent in make_twins():
        agent.loss = lambda batch, loss=agent.loss: (*loss(batch)[:2], {})
        assert [agent.update(make_batch(seed))[1] for seed in range(3)] == [{}] * 3


def test_all_losses_go_into_the_trail(uncompiled: None) -> None:
    def trail_of(scale: float) -> int:
        torch.manual_seed(0)
        agent = make_actor_critic("TD3", compile=True)
        policy_loss = agent.policy_loss
        agent.policy_loss = lambda batch: scale * policy_loss(batch)
        for seed in range(4):
            agent.update(make_continuous_batch(seed))
            agent.policy.load_state_dict(agent.target_policy.state_dict())  # the critics' losses stay what they were
        (step,) = agent.trailed
        return int(step.trail)

    assert trail_of(1.0) == trail_of(1.0) != trail_of(2.0)


@pytest.mark.parametrize("frozen", [(False, True, False), (True, False)])
@pytest.mark.parametrize("optimizer", ["Adam", "SGD"])
def test_layers_may_be_frozen_and_set_free(uncompiled: None, optimizer: str, frozen: tuple[bool, ...]) -> None:
    eager, compiled = make_twins(optimizer=OPTIMIZERS[optimizer])
    for i, stays in enumerate(frozen):
        for agent in (eager, compiled):
            agent.model.model.output.requires_grad_(not stays)
        before = compiled.model.model.output.weight.clone()
        assert_alike(eager, compiled, 4, first_seed=5 * i)
        assert torch.equal(compiled.model.model.output.weight, before) == stays


@pytest.mark.parametrize("optimizer", ["Adam", "SGD"])
def test_parameters_may_be_added(uncompiled: None, optimizer: str) -> None:
    eager, compiled = make_twins(optimizer=lambda params: OPTIMIZERS[optimizer](list(params)[-2:]))
    assert_alike(eager, compiled, 4)
    for agent in (eager, compiled):
        agent.optimizer.add_param_group({"params": list(agent.model.parameters())[:-2], "lr": 1e-3})
    before = copy.deepcopy(compiled.model.state_dict())
    assert_alike(eager, compiled, 4, first_seed=5)
    assert not any(torch.equal(before[name], value) for name, value in compiled.model.state_dict().items())


EVERY_OPTIMIZER = ("AdamW", "Adam, AMSGrad with L2", "Adam, maximize", "RMSprop, momentum", "SGD", "SGD, Nesterov")
OPTIONS: list[dict[str, Any]] = [{"optimizer": OPTIMIZERS[name]} for name in EVERY_OPTIMIZER]
OPTIONS += [{"agent": name} for name in ("DoubleDQN", "CategoricalDQN", "CategoricalDoubleDQN")]


@pytest.mark.slow
@pytest.mark.parametrize("options", [*OPTIONS, {"max_grad_norm": 0.1}], ids=str)
def test_every_optimizer_and_agent_gives_the_numbers_of_the_ordinary_update(options: dict[str, Any]) -> None:
    eager, compiled = make_twins(**options)
    assert_alike(eager, compiled)
    assert number_of_regions(compiled) == 1


@pytest.mark.slow
def test_an_update_after_loading_goes_on_from_what_was_loaded() -> None:
    eager, compiled = make_twins()
    assert_alike(eager, compiled, 5)
    saved = copy.deepcopy(eager.state_dict())
    assert_alike(eager, compiled, 5, first_seed=5)
    for agent in (eager, compiled):
        agent.load_state_dict(copy.deepcopy(saved))
    assert_alike(eager, compiled, 5, first_seed=5)


@pytest.mark.slow
def test_other_hyperparameters_and_batch_sizes_make_another_region() -> None:
    eager, compiled = make_twins()
    assert_alike(eager, compiled, 3)
    for agent in (eager, compiled):
        agent.optimizer.param_groups[0]["betas"] = (0.5, 0.9)
    assert_alike(eager, compiled, 3, first_seed=3)
    for agent in (eager, compiled):
        agent.update(make_batch(7, n=3))
    assert_alike(eager, compiled, 3, first_seed=10)
    assert number_of_regions(compiled) == 3


@pytest.mark.slow
def test_a_copy_moves_its_own_parameters() -> None:
    _, compiled = make_twins()
    for seed in range(3):
        compiled.update(make_batch(seed))
    before = copy.deepcopy(compiled.state_dict())
    other = copy.deepcopy(compiled)
    other.update(make_batch(3))
    assert difference(compiled.state_dict(), before) is None
    compiled.update(make_batch(3))
    assert difference(other.state_dict(), compiled.state_dict(), exact=False) is None


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["DQN", "DoubleDQN"])
def test_a_model_that_reads_training_works(agent: str) -> None:
    def q_function() -> nn.Module:
        torch.manual_seed(0)
        layers = nn.Linear(5, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)
        return nn.Sequential(*layers, DiscreteActionValueHead())

    eager, compiled = (make_agent(agent, q_function=q_function(), compile=compile) for compile in (False, True))
    assert_alike(eager, compiled, 5)


@pytest.mark.parametrize("kind", [Adadelta, type("MyAdam", (Adam,), {})])
def test_other_optimizers_are_refused(kind: type[Optimizer]) -> None:
    with pytest.raises(
        TypeError,
        match=f"optimizer is {kind.__name__}, expected Adam, AdamW, RMSprop, RMSpropEpsInsideSqrt, SGD, or compile",
    ):
        make_agent(optimizer=kind, compile=True)


def test_recurrent_agents_are_refused() -> None:
    with pytest.raises(ValueError, match="compile is True, which recurrent agents do not support"):
        make_agent(recurrent=True, compile=True)


def test_the_first_update_is_an_ordinary_one() -> None:
    eager, compiled = make_twins()
    assert isinstance(compiled._compiled, CompiledStep)
    assert_alike(eager, compiled, 1)
    assert number_of_regions(compiled) == 0


@pytest.mark.slow
def test_agents_in_one_process_do_not_take_each_others_regions() -> None:
    pairs = []
    for seed in range(2):
        torch.manual_seed(seed)
        pairs.append(make_twins())
    for first_seed in range(0, 20, 2):
        for eager, compiled in pairs:
            assert_alike(eager, compiled, 2, first_seed=first_seed)


@pytest.mark.slow
def test_more_agents_than_the_compiler_allows_recompilations() -> None:
    for _ in range(torch._dynamo.config.recompile_limit + 1):
        assert_alike(*make_twins(), 3)


@pytest.mark.slow
@pytest.mark.parametrize(("agent", "n_regions"), [("DDPG", 1), ("TD3", 2), ("SoftActorCritic", 1)])
def test_all_losses_and_the_noise_of_an_actor_critic_are_one_region(agent: str, n_regions: int) -> None:
    eager, compiled = make_actor_critic(agent), make_actor_critic(agent, compile=True)
    compiled.load_state_dict(copy.deepcopy(eager.state_dict()))
    for seed in range(8):
        results = []
        for one in (eager, compiled):
            torch.manual_seed(seed)
            results.append((*one.update(make_continuous_batch(seed)), torch.rand(1)))  # the stream goes on alike
        torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)
    assert number_of_regions(compiled) == n_regions
    attributes = (one.state_dict()["attributes"] for one in (compiled, eager))
    torch.testing.assert_close(*attributes, rtol=1e-3, atol=1e-5)
    assert compiled.n_policy_updates == eager.n_policy_updates
    bad = make_continuous_batch(0)
    for one in (compiled, eager):  # a target that was due has moved in both
        with pytest.raises(NonFiniteError, match=r"the loss is .*; this step was not made, and no other step was made"):
            one.update(bad.replace(reward=bad.reward * torch.nan))
    again = (one.state_dict()["attributes"] for one in (compiled, eager))
    torch.testing.assert_close(*again, rtol=1e-3, atol=1e-5)
