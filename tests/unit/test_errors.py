import builtins
from typing import Any

import pytest

from pfrl_like.errors import MissingDependencyError
from pfrl_like.experiments import OptunaPrunerHook
from pfrl_like.loggers.tensorboard import TensorBoardLogger


@pytest.mark.parametrize("package, user", [("optuna", OptunaPrunerHook), ("tensorboard", TensorBoardLogger)])
def test_a_missing_package_is_named_as_pip_knows_it(monkeypatch: Any, package: str, user: Any) -> None:
    def without(name: str, *arguments: Any, **options: Any) -> Any:
        if package in name:
            raise ImportError(name)
        return original(name, *arguments, **options)

    original = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingDependencyError, match=f"which is not installed: pip install {package}$"):
        user("directory")
