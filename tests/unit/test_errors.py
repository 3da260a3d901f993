import builtins
import inspect
import pickle
from typing import Any

import pytest

from pfrl_like import errors
from pfrl_like.errors import MissingDependencyError
from pfrl_like.experiments import OptunaPrunerHook
from pfrl_like.loggers import TensorBoardLogger


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


ERRORS = [
    errors.PfrlLikeError("what"), errors.CheckpointError("folder", "is empty"), errors.NonFiniteError("loss", "is nan"),
    errors.NotFittedError("what"), errors.EnvError("what"), errors.WorkerError(1, "was killed", "in step"),
    MissingDependencyError("optuna", "pruning"), errors.ExportError("what"),
    errors.AsyncTrainingError({0: "raised"}, {0: "in step"}),
    errors.DownloadError("http://here", "there", "is away"),
]  # fmt: skip


def test_errors_travel_between_processes() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    assert {*map(type, ERRORS)} == {*kinds}
    for error in ERRORS:
        error.add_note("at step 3")
        other = pickle.loads(pickle.dumps(error))
        assert (type(other), str(other), vars(other)) == (type(error), str(error), vars(error))
