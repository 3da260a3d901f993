"""The library's own exceptions; mistakes in arguments are plain `ValueError` and `TypeError`.

They hand their arguments on to `Exception`, by which they travel from one process to another.
"""


class PfrlLikeError(Exception):
    """Base of the errors below, so that a caller can catch what this library raises on purpose."""


class CheckpointError(PfrlLikeError, ValueError):
    """A file or directory that cannot be read or written as it should be.

    Args:
        path: The offending file or directory.
        reason: What is wrong with it, as a sentence without a final full stop.
    """

    def __init__(self, path: object, reason: str) -> None:
        self.path = str(path)
        self.reason = reason
        super().__init__(self.path, reason)

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class NonFiniteError(PfrlLikeError, ValueError):
    """NaN or infinity in an observation, a reward, a loss, a gradient or a parameter.

    Args:
        name: What held the number, for instance "reward" or "loss".
        message: What came and what was expected.
        batch: The minibatch of a refused update, for the report of the run; None elsewhere.
        skipped: Of how many updates before this one a GPU tells only now that it has skipped them.
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
    """Something that is fitted to data, used before it has been."""


class ExportError(PfrlLikeError, ValueError):
    """An agent that cannot be exported, or whose exported policy would not do what it does; nothing was written."""


class EnvError(PfrlLikeError, RuntimeError):
    """An environment that breaks its contract: wrong return values, wrong shapes, a step after its end."""


class WorkerError(PfrlLikeError, RuntimeError):
    """A worker process that raised or died.

    Args:
        index: Which worker (the index of its environment).
        reason: What happened to it, for instance "was killed by signal 9".
        traceback_text: The worker's own traceback, empty if it died without one.
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
    """An optional package that is not installed.

    Args:
        package: Its name on the package index.
        purpose: What needs it.
        extra: This package's extra that brings it along, if there is one.
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
    """A file that cannot be fetched from the network.

    Args:
        url: Where it should come from.
        path: Where it should go.
        reason: What is wrong, as a sentence without a final full stop.
    """

    def __init__(self, url: str, path: str, reason: str) -> None:
        self.url = url
        self.path = path
        self.reason = reason
        super().__init__(url, path, reason)

    def __str__(self) -> str:
        return f"{self.url} cannot be fetched: {self.reason}. Without a network, put the file at {self.path} yourself"


class AsyncTrainingError(PfrlLikeError, RuntimeError):
    """Training in several processes that one of them, or the learner, has ended.

    Args:
        reasons: What happened, by process (an index, or a name such as "learner"), the first one first.
        tracebacks: Their own tracebacks, as far as they had time for one.
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
