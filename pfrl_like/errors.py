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
        self.path = str(path)
        self.reason = reason
        super().__init__(self.path, reason)

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class NonFiniteError(PfrlLikeError, ValueError):
    """An observation, action, reward, loss, gradient or parameter is NaN or infinite.

    Args:
        name: Name of the value, for example "reward" or "loss".
        message: Message with the actual and the expected value.
        batch: Minibatch of a rejected update, for the report of the run; None for other errors.
        skipped: Number of skipped earlier updates that the GPU reports with this error.
    """

    def __init__(self, name: str, message: str, batch: object = None, skipped: int = 0) -> None:
        self.name = name
        self.message = message
        self.batch = batch
        self.skipped = skipped
        super().__init__(name, message)

    def __str__(self) -> str:
        return self.message


class NotFittedError(PfrlLikeError, ValueError):
    """An object that must be fitted to data is used before it is fitted."""


class ExportError(PfrlLikeError, ValueError):
    """An agent cannot be exported, or its exported policy selects different actions; no file was written."""


class EnvError(PfrlLikeError, RuntimeError):
    """An environment violates its interface: wrong return values, wrong shapes, or a step after its end."""


class WorkerError(PfrlLikeError, RuntimeError):
    """A worker process raised an error or died.

    Args:
        index: Index of the worker, which is the index of its environment.
        reason: Description of the failure, for example "was killed by signal 9".
        traceback_text: Traceback of the worker; empty if the worker died without a traceback.
    """

    def __init__(self, index: int, reason: str, traceback_text: str = "") -> None:
        self.index = index
        self.reason = reason
        self.traceback_text = traceback_text
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
        self.package = package
        self.purpose = purpose
        self.extra = extra
        super().__init__(package, purpose, extra)

    def __str__(self) -> str:
        what = self.package if self.extra is None else f'-e ".[{self.extra}]" in the clone of pfrl_like'
        return f"{self.purpose} needs the package {self.package}, which is not installed: pip install {what}"


class DownloadError(PfrlLikeError, RuntimeError):
    """A file cannot be downloaded.

    Args:
        url: URL of the file.
        path: Path to which the file is downloaded.
        reason: Description of the problem, a sentence without a full stop.
    """

    def __init__(self, url: str, path: str, reason: str) -> None:
        self.url = url
        self.path = path
        self.reason = reason
        super().__init__(url, path, reason)

    def __str__(self) -> str:
        return f"{self.url} cannot be fetched: {self.reason}. Without a network, put the file at {self.path} yourself"


class AsyncTrainingError(PfrlLikeError, RuntimeError):
    """A failure of a process or of the learner has ended a training in several processes.

    Args:
        reasons: Descriptions of the failures, keyed by process (an index, or a name such as "learner"), in order of
            time.
        tracebacks: Tracebacks of the processes, as far as available, keyed by process.
    """

    def __init__(self, reasons: dict[int | str, str], tracebacks: dict[int | str, str]) -> None:
        self.reasons = reasons
        self.tracebacks = tracebacks
        super().__init__(reasons, tracebacks)

    def __str__(self) -> str:
        parts = []
        for who, reason in self.reasons.items():
            parts.append(f"process {who} {reason}" if isinstance(who, int) else f"the {who} {reason}")
            if self.tracebacks.get(who):
                parts.append(self.tracebacks[who])
        return "\n\n".join(parts)
