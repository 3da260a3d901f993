"""Masks of secrets in what a user gives, which are recognised by their name and by their form.

Only what comes from outside is masked (arguments, command lines, the environment, settings, texts of errors), never
what the library itself writes: checksums, commits and digests look as random as keys.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

MASK = "********"

#: Parts of names whose values are secret wherever they stand, and words that have to stand by themselves.
_PARTS = re.compile(
    r"secret|passw|passphrase|passcode|pwd|credential|token(?!i[sz])|oauth|authent|authori[sz]|cookie|webhook|apikey"
    r"|(?:access|account|auth|encryption|license|master|private|shared|signing|ssh|storage)[._-]?keys?"
)
_WORDS = {"key", "auth", "pass", "pw", "dsn", "jwt", "bearer", "sig", "signature", "otp", "totp", "mnemonic"}
#: A key of these is the name of a column, not a secret.
_COLUMNS = {
    "action", "column", "dict", "frame", "frames", "goal", "group", "image", "index", "info", "mask", "metric", "obs",
    "observation", "pixel", "pixels", "query", "reward", "sort", "state",
}  # fmt: skip
#: Of names that end so the value tells where or how, of those with a count a number tells how many.
_PLACES = {"file", "path", "dir", "directory", "method", "type", "mode", "name", "provider", "backend", "scheme"}
_COUNTS = {
    "n", "num", "number", "count", "total", "max", "min", "len", "length", "dim", "dims", "size", "per", "every",
    "interval", "limit", "budget", "rate", "timeout", "ttl", "tokens",
}  # fmt: skip
_ERRORS = {"error", "exception", "warning"}
_WITHOUT = {"no", "without", "disable", "skip"}
_SEVERAL = ("s", "auth")  # ends of names with several values
_HARMLESS = re.compile(r"|true|false|yes|no|on|off|none|null", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?\d[\d_]*(?:\.\d*)?(?:[eE][+-]?\d+)?")

#: Texts that are secret by their form alone.
_FORMS = re.compile(
    r"(?<=://)[^\s/:@\"'<>]+:(?!\d+/)[^\s\"'<>]{1,500}@|(?<=://)[^\s/\"'<>]{,500}@"  # in URLs
    r"|(?<![\w.:/+-])(?!mailto:)[\w.+-]+:[^\s/@:,\"']+@(?!sha\d)(?=[\w-]+[.:\w-])"  # without a scheme
    r"|(?<=hooks\.slack\.com/)[^\s\"'<>]+|(?<=/api/webhooks/)[^\s\"'<>]+"
    r"|(?<![A-Za-z0-9])(?:"
    r"sk-(?=[\w-]{0,99}\d)[\w-]{16,}|(?:sk|pk|rk)_(?:live|test)_\w+|gh[oprsu]_[A-Za-z0-9]{16,}|github_pat_\w{20,}"
    r"|gl(?:pat|oas|dt|rt|cbt|ptt|ft|soat|imt)-[\w-]{16,}|hf_[A-Za-z0-9]{16,}|xox[a-z]-[\w-]{10,}|xapp-[\w-]{10,}"
    r"|(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}|AIza[\w-]{30,}|ya29\.[\w.-]{16,}|SG\.[\w-]{16,}\.[\w-]{16,}"
    r"|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{30,}|dop_v1_\w{30,}|nvapi-[\w-]{20,}|r8_[A-Za-z0-9]{20,}|dckr_pat_[\w-]{20,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?|\d{8,10}:[\w-]{35}"
    r"|(?<=Bearer )[\w+/=.~-]{8,}|(?<=Basic )[A-Za-z0-9+/]{12,}={0,2}"
    r")(?![A-Za-z0-9])"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|$)"
)
_NAMED = re.compile(r"(?<![\w.-])(?:[\w.-]+[\"']?\s*[=:](?!//)\s*|--[A-Za-z][\w.-]*\s+(?!-))")
_VALUE = re.compile(r"\"[^\"]*\"|'[^']*'|(?:(?:Bearer|Basic|Token|Digest)\s+)?[^\s,;&\"')\]}]+")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

#: Names of random texts that are none.
_DIGESTS = re.compile(
    r"(?:commit|sha\d*|md5|hash|digest|checksum|fingerprint|revision|rev|uuid|run|id)\W*$", re.IGNORECASE
)
_IDENTIFIER = re.compile(
    r"[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}|(?:.+-)?[\da-f]{40}(?:-[\da-f]{8}){2}", re.IGNORECASE
)  # a UUID, and what `generate_exp_id` makes
_LONG = re.compile(r"[A-Za-z0-9+/\\_.~-]{20,}={0,2}")
_BASE64 = re.compile(r"[A-Za-z0-9+][A-Za-z0-9+/]{31,}={0,2}")
_AWS = re.compile(r"[A-Za-z0-9+/]{40}")
_HEX = re.compile(r"[\da-f]{32,}", re.IGNORECASE)
_SPOKEN = re.compile(r"(?=.*[aeiouy])(?!.*[^aeiouy]{4})(?!.*[aeiouy]{4})[a-z]{3,}|\d{6,}", re.IGNORECASE)

#: Variables of the environment that are kept, and how the names of others that are begin.
_KEPT = {
    "ATEN_CPU_CAPABILITY", "COLUMNS", "CONDA_DEFAULT_ENV", "CONDA_PREFIX", "CUBLAS_WORKSPACE_CONFIG", "DISPLAY",
    "HIP_VISIBLE_DEVICES", "HOME", "HOSTNAME", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "LD_PRELOAD", "LINES",
    "LOCAL_RANK", "LOGNAME", "MASTER_ADDR", "MASTER_PORT", "MPLBACKEND", "NVIDIA_DRIVER_CAPABILITIES",
    "NVIDIA_VISIBLE_DEVICES", "OLDPWD", "PATH", "PFRL_LIKE_DATA", "PWD", "PYOPENGL_PLATFORM", "RANK",
    "SDL_VIDEODRIVER", "SHELL", "TERM", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV", "WORLD_SIZE", "XLA_FLAGS",
}  # fmt: skip
_KEPT_PREFIXES = (
    "CUDA_", "CUDNN_", "GLOO_", "GOMP_", "KMP_", "LC_", "MKL_", "MUJOCO_", "NCCL_", "NUMEXPR_", "OMP_", "OPENBLAS_",
    "PYTHON", "PYTORCH_", "SLURM_", "TORCH", "VECLIB_",
)  # fmt: skip


def masked(value: Any, name: str = "") -> Any:
    """A value in which every secret text is replaced by `MASK`.

    Args:
        value: Text, or nested mappings, lists and tuples; of a mapping, every item has the name of its key. What is
            none of these, and no secret by its name, stays as it is.
        name: What it is called, such as "api_key".

    Returns:
        The value, of dicts instead of other mappings.
    """
    return _masked(value, name, is_secret=False)


def masked_text(text: str) -> str:
    """A text, such as the message of an error, without keys, passwords in URLs, and values of secret names."""
    text, parts, end = masked_forms(text), [], 0
    for found in _NAMED.finditer(text):
        if found.start() < end or not _is_secret_name(found[0]):
            continue
        value = _VALUE.match(text, found.end())
        bare = "" if value is None else value[0].strip("\"'")
        if value is not None and bare and not _is_no_secret(bare, found[0]):
            parts += [text[end : found.end()], value[0].replace(bare, MASK)]
            end = value.end()
    return "".join([*parts, text[end:]])


def masked_forms(text: str) -> str:
    """A text, such as source code, without what is secret by its form: passwords in URLs, keys of known services."""
    return _FORMS.sub(lambda found: MASK + "@" * found[0].endswith("@"), text)


def masked_command(argv: Sequence[str]) -> list[str]:
    """A command line without secrets: `--token=x` and `--token x` become `--token=********` and `--token ********`."""
    return [*_masked_arguments(argv)]


@cache
def command_digest(argv: tuple[str, ...]) -> str:
    """A digest by which two command lines are compared; it is slow to compute, so that no weak password is guessed."""
    return "pbkdf2:" + hashlib.pbkdf2_hmac("sha256", json.dumps(argv).encode(), b"pfrl_like", 200_000).hex()


def harmless_environment() -> dict[str, str]:
    """The variables of the environment that are known to be no secrets, such as `PATH` and `CUDA_VISIBLE_DEVICES`."""
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
    return {name: masked(value, "" if name in _KEPT else name) for name, value in kept.items()}


def _masked(value: Any, name: str, *, is_secret: bool) -> Any:
    is_secret = is_secret or _is_secret_name(name)
    if isinstance(value, Mapping):
        return {
            masked_text(key) if isinstance(key, str) else key: _masked(item, str(key), is_secret=is_secret)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        names = getattr(value, "_fields", [name] * len(value))
        items = [_masked(item, each, is_secret=is_secret) for each, item in zip(names, value, strict=True)]
        return tuple(items) if isinstance(value, tuple) else items
    if is_secret and not _is_no_secret(value, name):
        return MASK
    return _without_random(masked_text(value), name) if isinstance(value, str) else value


def _masked_arguments(argv: Sequence[str]) -> Iterator[str]:
    name, waiting = "", False  # of the option before, and whether a value of it may come
    for argument in argv:
        option, sign, value = argument.partition("=")
        if sign and re.fullmatch(r"[+~]*-{0,2}[A-Za-z_][\w.@/-]*", option):
            yield f"{option}={masked(value, option)}"
            waiting = False
        elif re.fullmatch(r"--[A-Za-z].*|-[A-Za-z]{1,8}", argument, re.DOTALL):
            yield _without_random(masked_text(argument), "")
            name, waiting = argument, True
        else:
            yield masked(argument, name if waiting else "")
            waiting = waiting and name.lower().endswith(_SEVERAL)


def _is_secret_name(name: str) -> bool:
    """True if what has this name is a secret, unless its value cannot be one."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or words[-1] in _PLACES | _ERRORS or words[0] in _WITHOUT:
        return False
    found = _WORDS.intersection(words)
    if found == {"key"} and _COLUMNS.intersection(words):
        found = set()
    return bool(found) or _PARTS.search(name.lower()) is not None


def _is_no_secret(value: Any, name: str) -> bool:
    """True of flags and of nothing, and of numbers where the name counts something."""
    if value is None or isinstance(value, bool) or (isinstance(value, str) and _HARMLESS.fullmatch(value)):
        return True
    is_number = isinstance(value, int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value) is not None)
    return is_number and not _COUNTS.isdisjoint(word.lower() for word in _WORD.findall(name))


def _without_random(text: str, name: str) -> str:
    """A text without long random strings; digests, identifiers and paths are none, if they are called so."""

    def substitute(found: re.Match[str]) -> str:
        is_digest = _DIGESTS.search(text[: found.start()]) or (not found.start() and _DIGESTS.search(name))
        return found[0] if is_digest or not _is_random(found[0]) else MASK

    return _LONG.sub(substitute, text)


def _is_random(text: str) -> bool:
    """True of texts that nobody would write: long ones of letters of both cases or digits, little of it in words."""
    if _IDENTIFIER.fullmatch(text):
        return False
    if "/" in text or "\\" in text:  # a path, unless it is Base64, whose slashes are rare
        is_base64 = _BASE64.fullmatch(text) is not None and 12 * text.count("/") <= len(text) and _kinds(text) == 3
        return is_base64 and (_share_of_words(text) < 0.6 or _AWS.fullmatch(text) is not None)
    pieces = re.split(r"[^A-Za-z0-9]+", text)
    if not (_kinds(text) == 3 and sum(map(len, pieces)) >= 8 * len(pieces)):
        text = max(pieces, key=len)
    is_hex = _HEX.fullmatch(text) is not None
    return len(text) >= 20 and _kinds(text) >= 2 and (is_hex or _share_of_words(text) < 0.6)


def _kinds(text: str) -> int:
    """The number of kinds of characters among digits, small letters and capitals."""
    return sum(any(map(kind, text)) for kind in (str.isdigit, str.islower, str.isupper))


def _share_of_words(text: str) -> float:
    """The share of letters and digits that belong to something that can be spoken, or to a long number."""
    runs = _WORD.findall(text)
    return sum(len(run) for run in runs if _SPOKEN.fullmatch(run)) / sum(map(len, runs))
