"""Old names of PFRL, found in `legacy`."""

import pytest

from pfrl_like.agents import dqn
from pfrl_like.legacy import parts
from pfrl_like.utils.old_names import old_names


def test_an_old_name_is_the_function_in_legacy() -> None:
    from pfrl_like.agents.dqn import _mean_or_nan

    assert _mean_or_nan is parts._mean_or_nan


@pytest.mark.parametrize("name", ["DQNN", "_mean", "__path__", "legacy"])
def test_an_unknown_name_raises_the_error_of_a_module(name: str) -> None:
    assert not hasattr(dqn, name)
    with pytest.raises(AttributeError, match=f"^module 'pfrl_like.agents.dqn' has no attribute '{name}'$"):
        getattr(dqn, name)


def test_a_module_without_old_names_has_none() -> None:
    with pytest.raises(AttributeError, match="module 'pfrl_like.gpu' has no attribute '_mean_or_nan'"):
        old_names("pfrl_like.gpu")("_mean_or_nan")
