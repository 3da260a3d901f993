"""Exceptions of this library. Invalid arguments raise plain `ValueError` and `TypeError`.

The exceptions pass their arguments to `Exception`, so that they can be pickled and sent to other processes.
"""


class PfrlLikeError(Exception):
    """Base class of all errors that this library defines."""


class CheckpointError(PfrlLikeError, ValueError):
    """A file or directory cannot be read or written.

    Args:
        path: Path of the file or directory.
        reason: Description of the problem, a sentence without a full stop.
    """

    def __init__(self, path: object, reason: str) -> None:
        self.path, self.reason = str(path), reason
        super().__init__(self.path, reason)

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class NonFiniteError(PfrlLikeError, ValueError):
    """An observation, action, reward, loss, gradient or parameter is NaN or infinite.

    Args:
        name: Name of the value, for example "reward" or "loss".
        message: Message with the actual and the expected value.
        batch: Minibatch of the rejected update. The runner writes it into the run directory. None if no update caused
            the error.
        skipped: Number of updates that the GPU has skipped because of NaN or infinity, and that this error reports.
            They are reported later, so that training does not wait for the GPU after every update.
    """

    def __init__(self, name: str, message: str, batch: object = None, skipped: int = 0) -> None:
        self.name, self.message, self.batch, self.skipped = name, message, batch, skipped
        super().__init__(name, message)

    def __str__(self) -> str:
        return self.message


class NotFittedError(PfrlLikeError, ValueError):
    """An object that must be fitted to data is used before it is fitted."""


class ExportError(PfrlLikeError, ValueError):
    """An agent cannot be exported, or the exported policy selects other actions than the agent. No file is written."""


class EnvError(PfrlLikeError, RuntimeError):
    """An environment violates its interface: wrong return values or shapes, or a step after the end of an episode."""


class WorkerError(PfrlLikeError, RuntimeError):
    """A worker process raised an error or died.

    Args:
        index: Index of the worker. It is also the index of the worker's environment.
        reason: Description of the failure, for example "was killed by signal 9".
        traceback_text: Traceback of the worker; empty if the worker died without a traceback.
    """

    def __init__(self, index: int, reason: str, traceback_text: str = "") -> None:
        self.index, self.reason, self.traceback_text = index, reason, traceback_text
        super().__init__(index, reason, traceback_text)

    def __str__(self) -> str:
        text = f"worker {self.index} {self.reason}"
        return f"{text}\n\n{self.traceback_text}" if self.traceback_text else text


class MissingDependencyError(PfrlLikeError, ImportError):
    """An optional package is not installed.

    Args:
        package: Name of the package on the package index.
        purpose: Function that needs the package.
        extra: Extra of this library that installs the package; None if there is no extra.
    """

    def __init__(self, package: str, purpose: str, extra: str | None = None) -> None:
        self.package, self.purpose, self.extra = package, purpose, extra
        super().__init__(package, purpose, extra)

    def __str__(self) -> str:
        target = self.package if self.extra is None else f'-e ".[{self.extra}]" in the clone of pfrl_like'
        return f"{self.purpose} needs the package {self.package}, which is not installed: pip install {target}"


class DownloadError(PfrlLikeError, RuntimeError):
    """A file cannot be downloaded.

    Args:
        url: URL of the file.
        path: Path to which the file is downloaded.
        reason: Description of the problem, a sentence without a full stop.
    """

    def __init__(self, url: str, path: str, reason: str) -> None:
        self.url, self.path, self.reason = url, path, reason
        super().__init__(url, path, reason)

    def __str__(self) -> str:
        return f"{self.url} cannot be fetched: {self.reason}. Without a network, put the file at {self.path} yourself"


class AsyncTrainingError(PfrlLikeError, RuntimeError):
    """Training in several processes ended because a process or the learner failed.

    Args:
        reasons: Descriptions of the failures, in the order in which they occurred. Keys are the indices of the
            processes, or names such as "learner".
        tracebacks: Tracebacks of the failures, with the keys of `reasons`. The traceback of a failure may be missing or
            empty.
    """

    def __init__(self, reasons: dict[int | str, str], tracebacks: dict[int | str, str]) -> None:
        self.reasons, self.tracebacks = reasons, tracebacks
        super().__init__(reasons, tracebacks)

    def __str__(self) -> str:
        parts = []
        for who, reason in self.reasons.items():
            parts.append(f"process {who} {reason}" if isinstance(who, int) else f"the {who} {reason}")
            if self.tracebacks.get(who):
                parts.append(self.tracebacks[who])
        return "\n\n".join(parts)
