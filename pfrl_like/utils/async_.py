"""A function that runs in several processes at once."""

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import torch.multiprocessing as mp


class AbnormalExitWarning(Warning):
    """A process has exited with a status other than 0, or was killed by a signal."""


def run_async(n_process: int, run_func: Callable[[int], Any]) -> None:
    """Run a function in several processes and wait until all of them have ended.

    `train_agent_async` trains agents in several processes; it also reports errors and stops the other processes. If a
    process fails here, an `AbnormalExitWarning` is issued after the process has ended. The start method of the
    processes is the method that `multiprocessing.set_start_method` has set. If a process cannot be started, those that
    run already are terminated.

    Args:
        n_process: Number of processes.
        run_func: Function that is called with the index of its process, 0, 1, ... Unless the start method is "fork", it
            must be defined at the top level of a module.

    Raises:
        TypeError: If `run_func` cannot be sent to another process.
    """
    processes = [mp.Process(target=run_func, args=(index,)) for index in range(n_process)]
    try:
        for process in processes:
            process.start()
    except BaseException as error:
        for process in processes:
            if process.pid is not None:
                process.terminate()
                process.join()
        if isinstance(error, AttributeError | TypeError | pickle.PicklingError):
            advice = 'define it at the top level of a module, or call multiprocessing.set_start_method("fork")'
            raise TypeError(f"run_func ({run_func!r:.80}) cannot be sent to a process: {error}; {advice}") from error
        raise
    for index, process in enumerate(processes):
        process.join()
        if process.exitcode:
            how = f"exited with status {process.exitcode}"
            if process.exitcode < 0:
                how = f"was killed by signal {-process.exitcode}"
            warnings.warn(f"process {index} (pid {process.pid}) {how}", AbnormalExitWarning, stacklevel=2)
