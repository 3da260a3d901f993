"""Every agent learns the same if a subclass overrides each method of PFRL's that is called, and calls the base's."""

from pathlib import Path
from typing import Any

import pytest
import torch
from registry import LEARNERS
from torch import nn

from pfrl_like import agents
from pfrl_like.experiments import train_agent
from pfrl_like.learning import HOOKS, HookType
from pfrl_like.utils import set_random_seed


def hooks_of(cls: HookType) -> set[str]:
    """Names of the methods that are called where a class overrides them, but for those of episodes."""
    rows = {hook.name: hook for base in reversed(cls.__mro__) for hook in HOOKS if hook.owner == base.__name__}
    return {name for name, hook in rows.items() if hook.outcome != "refused"} - {"update_from_episodes"}


def passing_on(cls: Any, names: set[str]) -> Any:
    """A subclass whose methods do what those of the class do, and nothing else."""

    def method(name: str) -> Any:
        return lambda self, *args, **kwargs: getattr(super(own, self), name)(*args, **kwargs)

    own = type("Own", (cls,), {name: method(name) for name in names})
    return own


def parameters(agent: Any) -> list[torch.Tensor]:
    modules = [part for _, part in sorted(vars(agent).items()) if isinstance(part, nn.Module)]
    return [param for module in modules for param in module.state_dict().values()]


REPLAYING = [name for name in LEARNERS if issubclass(getattr(agents, name), agents.OffPolicyAgent)]


@pytest.mark.representatives(6)
@pytest.mark.parametrize("agent", [name for name in REPLAYING if hooks_of(getattr(agents, name)) - {"update"}])
def test_methods_that_call_the_base_change_nothing(agent: str, tmp_path: Path) -> None:
    entry, learnt = LEARNERS[agent], []
    case = next(case for case in entry.fitting() if "Prioritized" not in case.get("replay_buffer", ""))
    for overrides in (False, True):
        folder = tmp_path / str(overrides)
        folder.mkdir()
        set_random_seed(0)
        made, env = entry.make(case, folder), entry.env(case)
        names = hooks_of(type(made)) - {"update"}
        if overrides:
            made.__class__ = passing_on(type(made), names)
            assert made._overridden_hooks == names
        env.reset(seed=0)
        train_agent(made, env, 24, str(folder / "run"))
        learnt.append(parameters(made))
        assert made.optim_t
    for plain, overridden in zip(*learnt, strict=True):
        torch.testing.assert_close(overridden, plain, rtol=0, atol=0)
