"""What tests of compiled updates share."""

from typing import Any

import pytest
import torch


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions run as they are written."""
    monkeypatch.setattr(torch, "compile", lambda region, **_: region)


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions are traced, and PyTorch runs their graphs: no C++ is written and compiled, which takes seconds."""
    from torch._functorch.aot_autograd import make_boxed_func

    def graph_as_code(graph: Any, example_inputs: Any, **options: Any) -> Any:
        return make_boxed_func(graph)

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx_inner", graph_as_code)
