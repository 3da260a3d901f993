"""Environments that belong to datasets."""

import importlib
from typing import Any

import gymnasium

from pfrl_like.errors import MissingDependencyError


def make_env(env_id: str, *, package: str, extra: str, registered_by: str | None = None) -> Any:
    """An environment of an optional package.

    Args:
        env_id: Its name in gymnasium.
        package: What has to be installed.
        extra: The extra of this library that has it.
        registered_by: Module whose import tells gymnasium of it; None for those that gymnasium knows.

    Raises:
        MissingDependencyError: If the package is not installed.
    """
    try:
        if registered_by is not None:
            importlib.import_module(registered_by)
        return gymnasium.make(env_id)
    except (ImportError, gymnasium.error.DependencyNotInstalled) as error:
        raise MissingDependencyError(package, f'the environment {env_id} (extra "{extra}")') from error
