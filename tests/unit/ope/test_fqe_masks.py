"""Fitted Q evaluation where only some actions are allowed: what it collects, learns and says."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from agent_parts import make_agent
from fqe_parts import OBS, QUIET, LeansOn, built, make
from masked_parts import OneAllowed, check_stored
from torch import nn

from pfrl_like import algos
from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.explorers import ConstantEpsilonGreedy
from pfrl_like.metrics import evaluate_on_environment
from pfrl_like.ope.policies import GreedyPolicy
from pfrl_like.policies import SoftmaxCategoricalHead
from pfrl_like.replay_buffers import ReplayBuffer

EVALUATED: dict[str, Callable[[], Any]] = {
    "an agent": lambda: make_agent("DoubleDQN", n_actions=3),
    "an estimator": lambda: built(algos.DiscreteCQL(), 3),
    "a policy": lambda: nn.Sequential(nn.Linear(OBS, 3), SoftmaxCategoricalHead()),
}


@pytest.mark.parametrize("name", EVALUATED)
@pytest.mark.parametrize("options", [
    {}, {"deterministic": True}, {"explorer": ConstantEpsilonGreedy(0.5, lambda: 0)},
], ids=["policy", "modes", "explorer"])  # fmt: skip
def test_collected_actions_are_allowed_ones_which_are_stored(name: str, options: dict[str, Any]) -> None:
    fqe = make(algo=EVALUATED[name]())
    buffer = fqe.collect(OneAllowed(), n_steps=30, show_progress=False, **options)
    check_stored(buffer)
    fqe.fit(buffer, 5, **QUIET)
    assert fqe.grad_step == 5


def test_online_training_and_its_evaluation_keep_to_allowed_actions() -> None:
    fqe, buffer = make(algo=EVALUATED["an agent"]()), ReplayBuffer(100)
    fqe.fit_online(OneAllowed(), buffer, n_steps=60, random_steps=20, eval_env=OneAllowed(), **QUIET)
    check_stored(buffer)
    assert evaluate_on_environment(OneAllowed())(fqe) == 5.0


def test_what_has_predict_alone_is_refused() -> None:
    with pytest.raises(TypeError, match="action_mask: not supported if actions need more than one network"):
        make(algo=LeansOn(True)).collect(OneAllowed(), n_steps=5, show_progress=False)


def test_targets_are_those_of_the_best_allowed_action() -> None:
    """Q is (1, 2, 3), and the last action is forbidden: the policy takes the one in the middle."""

    class Values(nn.Module):
        def forward(self, obs: Any) -> DiscreteActionValue:
            return DiscreteActionValue(torch.tensor([[1.0, 2.0, 3.0]]).expand(len(obs), 3))

    mask = torch.tensor([[True, True, False], [False, True, True], [False, False, False]])
    chosen = GreedyPolicy(Values())(torch.zeros(3, OBS)).masked(mask)
    assert torch.equal(chosen.probs, torch.eye(3)[[1, 2, 2]])
    with_chance = GreedyPolicy(Values(), epsilon=0.2)(torch.zeros(3, OBS))
    torch.testing.assert_close(with_chance.probs[0], torch.tensor([0.2 / 3, 0.2 / 3, 0.8 + 0.2 / 3]))
    expected = [[0.1, 0.9, 0.0], [0.0, 0.1, 0.9], [0.2 / 3, 0.2 / 3, 0.8 + 0.2 / 3]]
    torch.testing.assert_close(with_chance.masked(mask).probs, torch.tensor(expected))
