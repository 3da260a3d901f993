"""With what an exported policy is compared."""

from typing import Any

import numpy as np
import pytest
import torch
from agent_parts import make_agent

from pfrl_like.export.export_policy import check_policy, exporting
from pfrl_like.export.features import more_of
from pfrl_like.export.policy import GreedyPolicy

OBS = torch.from_numpy(np.random.default_rng(0).normal(size=(300, 5)).astype(np.float32))


@pytest.mark.parametrize("recurrent", [False, True])
def test_a_thousand_observations_are_compared_in_batches_of_several_sizes(recurrent: bool) -> None:
    agent, given = make_agent(recurrent=recurrent), []
    policy = GreedyPolicy(agent.greedy_copy(), OBS[:256], None, "fixed")

    def run(inputs: Any) -> list[torch.Tensor]:
        given.append(inputs)
        outputs = policy(*inputs)
        return list(outputs) if recurrent else [outputs]

    with exporting():
        check_policy(agent.greedy_copy(), policy, run, OBS[:256])
    rows = torch.cat([inputs[0] for inputs in given])
    assert rows.shape == (1000, 5) and len(rows.unique(dim=0)) >= 990
    assert {len(inputs[0]) for inputs in given} == ({1, 2, 98} if recurrent else {1, 2, 13, 123})
    begins = [not inputs[1].any() for inputs in given] if recurrent else []
    assert begins.count(True) == (3 if recurrent else 0)


def test_further_observations_lie_between_those_given() -> None:
    generator = torch.Generator().manual_seed(0)
    integers = torch.tensor([[0, 7], [5, 9]])
    for _ in range(20):
        more = more_of({"x": OBS, "n": integers.repeat(150, 1), "action_mask": OBS > 0}, 500, generator)
        assert torch.equal(more["x"][:300], OBS) and (more["x"].aminmax(dim=0)[1] <= OBS.amax(0)).all()
        assert {*more["n"][:, 0].tolist()} == {0, 5} and {*more["n"][:, 1].tolist()} == {7, 9}
    masks = {tuple(row) for row in (OBS > 0).tolist()}
    assert {tuple(row) for row in more["action_mask"].tolist()} <= masks


def test_few_numbers_are_also_moved() -> None:
    more = more_of(OBS[:1], 100, torch.Generator().manual_seed(0))
    assert len(more.unique(dim=0)) == 100 and torch.equal(more[0], OBS[0])
