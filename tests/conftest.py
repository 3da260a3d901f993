"""What every test runs under: one thread, no screen, fixed seeds."""

import gc
import logging
import os
import random
import signal
import sys
from collections.abc import Iterator

#: Otherwise every worker compiles all tests, and every script the package, anew: 10 seconds each.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.update(OMP_NUM_THREADS="1", SDL_VIDEODRIVER="dummy", SDL_AUDIODRIVER="dummy", MPLBACKEND="Agg")

import hypothesis  # noqa: E402  the variables above are read when libraries are loaded
import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
from time_parts import PATIENCE, OwnTime  # noqa: E402

torch.set_num_threads(1)
#: Collections of garbage take a twentieth of the time otherwise.
gc.set_threshold(20_000, 10, 10)
HAS_CUDA = torch.cuda.is_available()
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells have it for what they start in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
#: However slow the machine is.
UNTIMED = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("default", derandomize=True, **UNTIMED)
#: `make fuzz`.
hypothesis.settings.register_profile("long", max_examples=10_000, print_blob=True, **UNTIMED)
hypothesis.settings.load_profile("default")


@pytest.fixture(autouse=True)
def _as_at_the_start() -> None:
    """Fixed seeds, and no warning or secret of an earlier test; one fixture, since each costs every test its time."""
    from pfrl_like.runs import secrets
    from pfrl_like.utils import checks

    checks._WARNED.clear()
    secrets._KNOWN.clear()
    random.seed(0)
    np.random.seed(0)
    torch.default_generator.manual_seed(0)
    if HAS_CUDA:  # torch.manual_seed writes the stack down for a device that is not there, 0.3 ms each time
        torch.cuda.manual_seed_all(0)


@pytest.fixture(scope="session", autouse=True)
def _no_syncs() -> Iterator[None]:
    """No test cuts the power; those of syncs replace `os.fsync` by functions of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        yield


@pytest.fixture(autouse=True)
def _no_start_method_chosen_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event without a context, made by another test, chooses one for the whole process."""
    monkeypatch.setattr("multiprocessing.context._default_context._actual_context", None)


@pytest.fixture
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what mapped files say, not of what is left of them after a power cut."""
    monkeypatch.setattr("pfrl_like.storage.log_directory.MappedFile.sync", lambda file: None)


@pytest.fixture
def no_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who does what he should has the time for it, on a loaded machine, too: to end, and to say where he is."""
    for name in ("processes.supervisor._REPORT_SECONDS", "experiments.signals.PATIENCE"):
        monkeypatch.setattr(f"pfrl_like.{name}", PATIENCE)
    for name in ("GRACE", "TRACEBACK_SECONDS"):
        monkeypatch.setattr(f"pfrl_like.experiments.async_source.{name}", PATIENCE)
    monkeypatch.setattr("pfrl_like.processes.supervisor.PATIENCE", (PATIENCE, PATIENCE))


@pytest.fixture
def few_words(no_haste: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is stopped says nothing, however long one listens."""
    monkeypatch.setattr("pfrl_like.processes.supervisor._REPORT_SECONDS", 0.1)


@pytest.fixture
def own_time(monkeypatch: pytest.MonkeyPatch) -> OwnTime:
    """Time that all countdowns go by."""
    clock = OwnTime()
    monkeypatch.setattr("pfrl_like.processes.pipe_end.time", clock)
    return clock


@pytest.hookimpl(tryfirst=True)  # before slow tests are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Make all cases but the representatives of a matrix slow, and refuse names of tests that hold an address.

    Such names differ from process to process, and pytest-xdist runs none of them.
    """
    matrices: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("representatives") and not item.get_closest_marker("slow"):
            matrices.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in matrices.values():
        wanted, *ids = cases[0].get_closest_marker("representatives").args
        kept = {i * len(cases) // wanted for i in range(wanted)}  # spread evenly, the first among them
        for i, item in enumerate(cases):
            if i not in kept and item.callspec.id not in ids:
                item.add_marker(pytest.mark.slow)
    differing = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if differing:
        raise pytest.UsageError(f"names of tests hold addresses: {differing[:3]}; give their parameters other ids")


def pytest_collection_finish() -> None:
    """Keep what the collection made, thousands of tests among it, out of every collection of garbage from here on.

    And let records of PyTorch's loggers reach the root: pytest gives six handlers to each that keeps them, for every
    test.
    """
    for logger in logging.root.manager.loggerDict.values():
        if isinstance(logger, logging.Logger) and logger.name.startswith("torch"):
            logger.propagate = True
    gc.freeze()
