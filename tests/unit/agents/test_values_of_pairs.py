"""Values of pairs are one number of each critic for each pair, of every agent whose critics know actions."""

from pathlib import Path

import pytest
import torch
from gymnasium import spaces
from network_parts import OBS
from registry import LEARNERS
from seed_parts import exemplar
from torch import Tensor

from pfrl_like import agents

N = 4
ASKED = [name for name in LEARNERS if hasattr(getattr(agents, name), "values_of_pairs")]
WITHOUT_CRITICS = {
    **dict.fromkeys(("BC", "DiscreteBC", "DecisionTransformer", "DiscreteDecisionTransformer"), "no critic"),
    **dict.fromkeys(("AWR", "DiscreteAWR"), "v_func"),
}


def pairs(space: spaces.Space) -> tuple[Tensor, Tensor]:
    action = torch.arange(N) % int(space.n) if isinstance(space, spaces.Discrete) else torch.rand(N, space.shape[0])
    return torch.randn(N, OBS), action


@pytest.mark.parametrize("name", [name for name in ASKED if name not in WITHOUT_CRITICS])
def test_each_critic_gives_one_value_for_each_pair(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    case = exemplar(name)
    agent = LEARNERS[name].make(case, tmp_path)
    assert agent.values_of_pairs(*pairs(LEARNERS[name].space(case))).shape == (case.get("n_critics", 1), N)


@pytest.mark.parametrize("name", ["DiscreteSAC", "DiscreteFittedQEvaluation"])
def test_of_several_actions_the_given_one_is_valued(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    case = {**exemplar(name), "q_func": "expected"}
    agent = LEARNERS[name].make(case, tmp_path)
    obs, action = pairs(LEARNERS[name].space(case))
    values = agent.values_of_pairs(obs, action)
    for critic, of_critic in zip(agent.critics, values, strict=True):
        q = critic(obs).q_values.detach()
        assert of_critic.tolist() == [float(q[i, action[i]]) for i in range(N)]


@pytest.mark.parametrize("name", WITHOUT_CRITICS)
def test_an_agent_without_critics_of_actions_refuses(name: str, tmp_path: Path) -> None:
    case = exemplar(name)
    agent = LEARNERS[name].make(case, tmp_path)
    with pytest.raises(TypeError, match=f"^{name} has {WITHOUT_CRITICS[name]}, expected critics that compute"):
        agent.values_of_pairs(*pairs(LEARNERS[name].space(case)))
