from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """A private Ray for all tests of a module; the runner uses it and does not end it."""
    pytest.importorskip("ray")
    from pfrl_like.experiments.cluster.ray_session import ray_session

    with ray_session("local") as (module, is_private):
        assert is_private
        yield module
