"""Every on-policy agent keeps the contracts; its advantages are zero where its values are the true ones."""

import functools
from typing import Any

import pytest
from on_policy_parts import ON_POLICY, make_on_policy

from pfrl_like.testing import check_agent


def sparing(kinds: Any) -> list[Any]:
    return [pytest.param(*kind, marks=[] if kind == ("PPO", False) else pytest.mark.slow) for kind in kinds]


@pytest.mark.parametrize(("kind", "recurrent"), sparing([(kind, r) for kind in ON_POLICY for r in (False, True)]))
def test_agent_keeps_the_contracts(kind: str, recurrent: bool) -> None:
    check_agent(functools.partial(make_on_policy, kind, recurrent))


OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("PPO", {"clip_eps_vf": 0.2, "target_kl": 0.01, "max_grad_norm": 0.5, "act_deterministically": True}),
    ("PPO", {"recurrent": True, "max_recurrent_sequence_len": 3}),
    ("A2C", {"use_gae": True, "max_grad_norm": 0.5}),
    ("IMPALA", {"recurrent": True, "max_recurrent_sequence_len": 3, "act_deterministically": True}),
    ("APPO", {"clip_eps_vf": 0.2, "target_kl": 0.01, "rho_clip": 2.0, "c_clip": 0.5}),
    ("REINFORCE", {"batchsize": 2, "backward_separately": True, "beta": 0.1}),
    ("TRPO", {"recurrent": True, "max_recurrent_sequence_len": 3}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "options"), OPTIONS)
def test_options_keep_the_contracts(kind: str, options: dict[str, Any]) -> None:
    check_agent(functools.partial(make_on_policy, kind, **options))
