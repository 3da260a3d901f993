"""Connection to Ray: a private Ray on this machine, a cluster, or the Ray that the user has started."""

import contextlib
import glob
import logging
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from pfrl_like.errors import CheckpointError, MissingDependencyError
from pfrl_like.storage.atomic import save_lock

_LOGGER = logging.getLogger(__name__)

#: Environment variables of Ray that apply unless the user has set them: no telemetry, and no token in the home folder.
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
#: Further variables for a private Ray. It listens only on the loopback interface (Ray reads this variable when it is
#: imported). If its head is lost, this process ends after 10 s and not after a minute.
_PRIVATE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_gcs_rpc_server_reconnect_timeout_s": "10"}
#: Address with which Ray starts on this machine.
_LOCAL = "local"
#: Folder of the temporary files. Ray makes sockets below it, whose paths are limited to about 100 characters.
_FOLDER, _PREFIX = "/tmp", "pfrl_like-ray-"
#: Seconds after which the folder of a process that was killed is removed.
_OLD_SECONDS = 600.0
#: Size of the object store of a private Ray, in bytes. Memory is allocated only when it is used.
_OBJECT_STORE_BYTES = 1 << 29


def import_ray(purpose: str = "train_agent_distributed") -> Any:
    """Return the module `ray`.

    Args:
        purpose: Name of the function or option that needs Ray, for the message of the error.

    Raises:
        MissingDependencyError: If Ray is not installed.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingDependencyError("ray", purpose, "distributed") from error
    return ray


@contextlib.contextmanager
def ray_session(address: str | None = None, *, purpose: str = "train_agent_distributed") -> Iterator[tuple[Any, bool]]:
    """Connect to Ray. At the end, disconnect, and stop Ray if this function started it.

    If the program has already called `ray.init`, this connection is used. It is neither configured nor closed. Ray's
    handler of SIGTERM is not active inside the context, so that a runner can handle the signal.

    Args:
        address: Address of a cluster, as in `ray.init`. If None, the environment variable RAY_ADDRESS is used. If this
            variable is not set either, or if the address is "local", a private Ray is started on this machine. It
            prints nothing, has no dashboard, sends no telemetry and listens only on the loopback interface. Its
            temporary folder is removed at the end.
        purpose: Name of the function or option that needs Ray, for the message of an error.

    Yields:
        The module `ray`, and True if a private Ray was started.

    Raises:
        MissingDependencyError: If Ray is not installed.
        ConnectionError: If no cluster answers at `address`.
    """
    given, address = address, address or os.environ.get("RAY_ADDRESS") or None
    if address == _LOCAL:
        address = None
    with variables(_QUIET if address is not None else _QUIET | _PRIVATE):
        ray = import_ray(purpose)
        with contextlib.ExitStack() as stack:
            stack.enter_context(_own_sigterm())
            if ray.is_initialized():
                if given not in (None, "auto", ray.get_runtime_context().gcs_address):
                    _LOGGER.warning("address is %r and has no effect, because the program has called ray.init", given)
                _default_sigterm()
                yield ray, False
                return
            options: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": "ERROR"}
            if address is None:
                options |= stack.enter_context(_private_options(ray))
            stack.callback(ray.shutdown)
            with _own_sigterm():
                _init(ray, options)
            yield ray, address is None


def _init(ray: Any, options: Mapping[str, Any]) -> None:
    """Call `ray.init`. A private Ray is started again once, because Ray gives up after 30 s on a machine under load."""
    try:
        ray.init(**options)
    except Exception:
        ray.shutdown()
        if options["address"] != _LOCAL:
            raise
        ray.init(**options)


@contextlib.contextmanager
def _private_options(ray: Any) -> Iterator[dict[str, Any]]:
    """Yield the arguments of `ray.init` for a private Ray. Print no messages of Ray inside the context."""
    # If the user has imported Ray earlier, Ray has already read the first variable of `_PRIVATE`.
    constants, worker = ray._private.ray_constants, ray._private.worker
    parent = _FOLDER if os.path.isdir(_FOLDER) else tempfile.gettempdir()
    _remove_old_folders(parent)
    folder = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent)
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.enter_context(save_lock(folder))
        stack.enter_context(_attribute(constants, "ENABLE_RAY_CLUSTER", False))
        # `log_to_driver=False` does not silence Ray's reports of dead processes. The runner reports these deaths.
        stack.enter_context(_attribute(worker, "print_to_stdstream", lambda *args, **kwargs: None))
        yield {
            "address": _LOCAL, "include_dashboard": False, "object_store_memory": _OBJECT_STORE_BYTES,
            "_temp_dir": folder,
        }  # fmt: skip


def _remove_old_folders(parent: str) -> None:
    """Remove the folders of processes that were killed. A process that runs locks its folder."""
    for folder in glob.glob(os.path.join(parent, f"{_PREFIX}*")) if os.name == "posix" else ():
        with contextlib.suppress(OSError, CheckpointError):
            if time.time() - os.stat(folder).st_mtime > _OLD_SECONDS:
                with save_lock(folder, timeout=0.0):
                    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables that are not set. At the end, remove them."""
    added = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextlib.contextmanager
def _attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Set an attribute of a module of Ray. At the end, set it back. An attribute that does not exist is not set."""
    exists, before = hasattr(owner, name), getattr(owner, name, None)
    if exists:
        setattr(owner, name, value)
    try:
        yield
    finally:
        if exists:
            setattr(owner, name, before)


@contextlib.contextmanager
def _own_sigterm() -> Iterator[None]:
    """Restore the handler of SIGTERM at the end of the context, because Ray replaces it."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def _default_sigterm() -> None:
    """Restore the default action of SIGTERM if Ray handles the signal."""
    module = str(getattr(signal.getsignal(signal.SIGTERM), "__module__", ""))
    if module.partition(".")[0] == "ray" and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
