"""Masking of secrets in the user's input. Secrets are recognised by their name or by their form.

Only input of the user is masked: arguments, command lines, environment variables, settings and error messages. Values
that this library computes are not masked, because checksums, commits and digests look like random keys.
"""

import contextlib
import hashlib
import json
import os
import re
import sys
import tomllib
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

MASK = "********"
_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_WORDS = {name: {*text.split()} for name, text in _TABLES["words"].items()}

# The name of a value determines if the value is secret. Whole words of the name are compared ("apiKey" and "api-key"
# have two words). The rules are applied in this order:
# - not secret: the name ends with one of `_ENDS`, or begins with one of `_WITHOUT`;
# - secret: a word is in `_ALWAYS`, unless the value is a number and another word is in `_COUNTS`;
# - secret: a word is in `_OFTEN`, unless the name also has a word of `_COMPANIONS`, or the name is "key", or the value
#   is a number and a word is "tokens";
# - secret: the name is an option `-u` or `--user`, and the value is "user:password".
_ENDS, _WITHOUT, _COUNTS = _WORDS["ends"], _WORDS["without"], _WORDS["counts"]
_COMPANIONS = _COUNTS | _WORDS["of_networks"] | _WORDS["of_tables"]
#: `_KEPT`: names of environment variables that are recorded. `_KEPT_PREFIXES`: prefixes of the names of other recorded
#: variables.
_KEPT, _KEPT_PREFIXES = _WORDS["kept"], tuple(_WORDS["kept_prefixes"])
#: `_FORMS`: strings that are secret because of their form. `_NAMED`: a name in a text, up to its value.
_ALWAYS, _FORMS, _NAMED = (re.compile("".join(_TABLES["patterns"][name])) for name in ("always", "forms", "named"))
_OFTEN = re.compile(r"(?:\w*token|key)s?\d*|pass\d*")
_USER = re.compile(r"(?:-u|--user)\b\W*")
_ENDS_OF_SEVERAL = ("s", "auth")  # an option with such an ending may have several values
_HARMLESS = re.compile(r"[\[\](){}]*|true|false|yes|no|on|off|none|null", re.IGNORECASE)
_NUMBERS = re.compile(r"(?=.*\d)[\d\s.,_eE()\[\]+-]+")
_USER_AND_PASSWORD = re.compile(r"(?!\d+:\d+$)[^\s:/]+:(?![/\\])\S+")
_WITHOUT_SPACE = re.compile(r"[\"']?[^\s\"'\[\](){},;&]*")
_SCHEME = re.compile(r"(?:Bearer|Basic|Token|Digest)\s+|[bBrRuUfF]{1,2}(?=[\"'])")
#: `_QUOTE`: a quote with its backslashes. `_MARK`: a mark at which a value may end or a nested value may begin: such a
#: quote, a bracket or a separator.
_QUOTE = re.compile(r"\\*[\"']")
_MARK = re.compile(r"(\\*)([\"'])|\\++|[\[({\])}\s,;&]")
_BETWEEN_WORDS = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

#: Names of values that look random but are not secret.
_DIGESTS = re.compile(
    r"(?:commit|sha\d*|md5|hash|digest|checksum|fingerprint|revision|rev|uuid|run|id)\W*$", re.IGNORECASE
)
_IDENTIFIER = re.compile(
    r"[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}|(?:.+-)?[\da-f]{40}(?:-[\da-f]{8}){2}", re.IGNORECASE
)  # a UUID, or an id that `generate_exp_id` made
_LONG = re.compile(r"[A-Za-z0-9+/\\_.~-]{20,}={0,2}")
_BASE64 = re.compile(r"[A-Za-z0-9+][A-Za-z0-9+/]{31,}={0,2}")
_AWS = re.compile(r"[A-Za-z0-9+/]{40}")
_HEX = re.compile(r"[\da-f]{32,}", re.IGNORECASE)
_SPOKEN = re.compile(r"(?=.*[aeiouy])(?!.*[^aeiouy]{4})(?!.*[aeiouy]{4})[a-z]{3,}|\d{6,}", re.IGNORECASE)


#: Secrets that are masked in all texts of this process.
_KNOWN: set[str] = set()
#: Set to which `_hide` adds secrets. None if no secrets are collected. `_KNOWN` is not used during the collection.
_COLLECTED: ContextVar[set[str] | None] = ContextVar("_COLLECTED", default=None)
_SHORTEST = 6  # minimum length of secrets that are replaced in all texts
_QUOTED = re.compile(r"[\"']([^\"']+)[\"'](?!\s*:)")  # a quoted string that is not a key of a dict


def masked(value: Any, name: str = "", *, is_secret: bool = False) -> Any:
    """Return a value in which every secret string is replaced by `MASK`.

    Args:
        value: String, or nested mappings, lists and tuples. The name of an item in a mapping is its key. Values of
            other types do not change, unless their name is the name of a secret.
        name: Name of the value, such as "api_key".
        is_secret: True if an enclosing value has the name of a secret.

    Returns:
        The masked value. Mappings are converted to dicts.
    """
    is_secret = is_secret or (_may_be_secret(name) and not _USER.fullmatch(name))
    if isinstance(value, Mapping):
        return {
            masked_text(key) if isinstance(key, str) else key: masked(item, str(key), is_secret=is_secret)
            for key, item in value.items()
        }
    if isinstance(value, set | frozenset):
        return type(value)(masked(item, name, is_secret=is_secret) for item in value)
    if isinstance(value, bytes):
        is_secret = is_secret or masked_text(value.decode(errors="replace")).encode() != value
        return _hide(value) if is_secret else value
    if isinstance(value, list | tuple):
        names = getattr(value, "_fields", [name] * len(value))
        items = [masked(item, each, is_secret=is_secret) for each, item in zip(names, value, strict=True)]
        return tuple(items) if isinstance(value, tuple) else items
    if _is_secret(value, name) or (is_secret and not _is_harmless(value, name)):
        return _hide(value)
    return _mask_random_strings(masked_text(value), name) if isinstance(value, str) else value


def masked_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with masked secrets. From then on, `masked_text` masks these secrets, too."""
    with _collecting_secrets() as secrets:
        masked(arguments)
    _KNOWN.update(secrets)
    return dict(masked(arguments))


def masked_text(text: str) -> str:
    """Return a text, such as an error message, with masked secrets.

    Secrets are keys of known services, passwords in URLs, values with the name of a secret, and the secrets in the
    command line and the environment.
    """
    text, parts, end = mask_secret_patterns(mask_known_secrets(text)), [], 0
    for match in _NAMED.finditer(text):
        if match.start() < end or not _may_be_secret(name := match[0]):
            continue
        until = _end_of_value(text, match.end(), name)
        value = text[match.end() : until]
        opening = _QUOTE.match(value)
        bare = value if opening is None else value[opening.end() :].removesuffix(opening[0])
        if _is_secret(bare, name):
            parts += [text[end : match.end()], value.replace(bare, _hide(bare), 1)]
            end = until
    return "".join([*parts, text[end:]])


def mask_secret_patterns(text: str) -> str:
    """Return a text, such as source code, with masked passwords in URLs and masked keys of known services."""
    return _FORMS.sub(lambda match: _hide(match[0].removesuffix("@")) + "@" * match[0].endswith("@"), text)


def mask_known_secrets(text: str) -> str:
    """Mask the secrets of the command line, of `masked_arguments` and of the environment variables in a text.

    Secrets with fewer than 6 characters are not masked, because the text may contain them by chance.
    """
    if _COLLECTED.get() is not None:
        return text
    environ = tuple((name, os.environ.get(name, "")) for name in os.environ)  # other threads may change it
    _KNOWN.update(_secrets_of_process(tuple(sys.argv), tuple(sys.orig_argv), environ))
    pattern = _pattern_of(frozenset(_KNOWN))
    return text if pattern is None else pattern.sub(MASK, text)


def masked_command(argv: Sequence[str]) -> list[str]:
    """Return a command line with masked secrets, such as `--token=********` for `--token=x`."""
    return [*_masked_command(argv)]


@cache
def command_digest(argv: tuple[str, ...]) -> str:
    """Return a digest to compare command lines. The computation is slow, so that passwords are hard to guess."""
    return "pbkdf2:" + hashlib.pbkdf2_hmac("sha256", json.dumps(argv).encode(), b"pfrl_like", 200_000).hex()


def harmless_environment() -> dict[str, str]:
    """Return the environment variables that contain no secrets, such as `PATH` and `CUDA_VISIBLE_DEVICES`."""
    variables = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
    return {name: masked(value, "" if name in _KEPT else name) for name, value in variables.items()}


@contextlib.contextmanager
def _collecting_secrets() -> Iterator[set[str]]:
    """Collect the secrets that are masked inside the context."""
    secrets: set[str] = set()
    before = _COLLECTED.set(secrets)
    try:
        yield secrets
    finally:
        _COLLECTED.reset(before)


@lru_cache(maxsize=1)
def _secrets_of_process(
    argv: tuple[str, ...], started_as: tuple[str, ...], environ: tuple[tuple[str, str], ...]
) -> set[str]:
    """Return the secrets in command lines and in the environment."""
    with _collecting_secrets() as secrets:
        masked_command(argv)
        masked_command(started_as)
        for name, value in environ:
            if name not in _KEPT:
                mask_secret_patterns(value)
                if _is_secret(value, name):
                    _hide(value)
    return secrets


@lru_cache(maxsize=1)
def _pattern_of(secrets: frozenset[str]) -> re.Pattern[str] | None:
    """Return a pattern that matches any of the secrets, as written in plain text, in quotes and in URLs."""
    written = {
        form for secret in secrets
        for form in (secret, repr(secret)[1:-1], json.dumps(secret)[1:-1], urllib.parse.quote(secret, safe=""))
    }  # fmt: skip
    longest_first = sorted(written, key=lambda form: (-len(form), form))
    ends = [rf"(?<!\d){form}(?!\d)" if form.isdigit() else re.escape(form) for form in longest_first]
    return re.compile("|".join(ends)) if ends else None


def _hide(secret: Any) -> str:
    """Return `MASK`. Inside `_collecting_secrets`, also collect the secret.

    Items of lists and dicts inside the secret, and the value in "name=secret", are also collected.
    """
    if (collected := _COLLECTED.get()) is not None:
        whole = str(secret)
        parts = {whole, *_QUOTED.findall(whole), *(part.strip("[](){}") for part in re.split(r"[,;]\s*", whole))}
        parts |= {re.split("[=:]", part, maxsplit=1)[-1] for part in parts}
        parts = {part[scheme.end() :] if (scheme := _SCHEME.match(part)) else part for part in parts}
        collected |= {part for part in map(str.strip, parts) if len(part) >= _SHORTEST and MASK not in part}
    return MASK


def _masked_command(argv: Sequence[str]) -> Iterator[str]:
    # `name` is the last option. `is_next`: the next argument may be its value. `may_follow`: further values may follow.
    name, is_next, may_follow = "", False, False
    for argument in argv:
        option, sign, value = argument.partition("=")
        if is_next and not argument.startswith("--") and sign and _is_secret(argument, name):  # --cookie name=secret
            yield _hide(argument)
        elif sign and re.fullmatch(r"[+~]*-{0,2}[A-Za-z_][\w.@/-]*", option):
            yield f"{_mask_random_strings(option, '')}={masked(value, option)}"
            name = ""
        elif re.fullmatch(r"--[A-Za-z].*|-[A-Za-z]{1,8}", argument, re.DOTALL):
            yield _mask_random_strings(masked_text(argument), "")
            name, is_next, may_follow = argument, True, argument.lower().endswith(_ENDS_OF_SEVERAL)
            continue
        else:
            yield masked(argument, name if is_next or may_follow else "")
        is_next, may_follow = False, may_follow and name != ""


def _end_of_value(text: str, start: int, name: str) -> int:
    """Return the index of the end of the value at `start`: after its quotes or brackets, or before a separator.

    If no end is found, the value extends to the end of the text, so that no part of the text is searched twice. If the
    name is a plural, as in "keys=a,b", a comma does not end the value.
    """
    if _USER.fullmatch(name) and (match := _WITHOUT_SPACE.match(text, start)) is not None:
        return match.end()
    has_several = _words_of(name)[-1].endswith("s")
    opening = start if (scheme := _SCHEME.match(text, start)) is None else scheme.end()
    depth, quote, slashes = 0, "", 0
    for mark in _MARK.finditer(text, opening):
        if quote:  # the same quote with as many backslashes ends it; pairs of backslashes are ignored
            if mark[2] == quote and len(mark[1]) % (2 * slashes + 2) == slashes:
                quote = ""
                if not depth:
                    return mark.end()
        elif mark[2]:
            if not depth and mark.start() != opening:
                return mark.start()
            quote, slashes = mark[2], len(mark[1])
        elif mark[0] in "[({":
            depth += 1
        elif mark[0] in "])}":
            depth -= 1
            if depth <= 0:
                return mark.start() if depth < 0 else mark.end()
        elif depth or mark[0][0] == "\\":
            continue
        elif mark[0] != "," or not has_several or not text[mark.end() : mark.end() + 1].strip():
            return mark.start()
    return len(text)


def _may_be_secret(name: str) -> bool:
    """True if the name is the name of a secret. The value may still be harmless."""
    words = _words_of(name)
    if not words or words[-1] in _ENDS or words[0] in _WITHOUT:
        return False
    either = {*words, *re.split(r"[^a-z0-9]+", name.lower())}  # also words of "APIKey" and "APIkey"
    if _USER.fullmatch(name) or any(map(_ALWAYS.fullmatch, either)):
        return True
    is_key = re.fullmatch(r"keys?\d*", "".join(words)) is not None
    return any(map(_OFTEN.fullmatch, either)) and not is_key and _COMPANIONS.isdisjoint(words)


def _is_secret(value: Any, name: str) -> bool:
    """True if a value with this name is a secret."""
    if not _may_be_secret(name):
        return False
    if _USER.fullmatch(name):
        return isinstance(value, str) and _USER_AND_PASSWORD.fullmatch(value) is not None
    return not _is_harmless(value, name)


def _is_harmless(value: Any, name: str) -> bool:
    """True for bools, for empty values, and for numbers whose name is the name of a count, such as "max_tokens"."""
    if value is None or isinstance(value, bool) or (isinstance(value, str) and _HARMLESS.fullmatch(value)):
        return True
    is_number = isinstance(value, int | float) or (isinstance(value, str) and _NUMBERS.fullmatch(value) is not None)
    return is_number and not (_COUNTS | {"tokens"}).isdisjoint(_words_of(name))


def _words_of(name: str) -> list[str]:
    return [word.lower() for word in _BETWEEN_WORDS.split(name) if word]


def _mask_random_strings(text: str, name: str) -> str:
    """Return a text with masked long random strings. Named digests, identifiers and paths are not masked."""

    def substitute(match: re.Match[str]) -> str:
        before = text[max(0, match.start() - 40) : match.start()] if match.start() else name
        is_digest = _DIGESTS.search(before)
        return match[0] if is_digest or not _is_random(match[0]) else _hide(match[0])

    return _LONG.sub(substitute, text)


def _is_random(text: str) -> bool:
    """True for long strings of letters and digits that contain few words, such as keys."""
    if _IDENTIFIER.fullmatch(text):
        return False
    if "/" in text or "\\" in text:  # a path, or Base64, in which slashes are rare
        is_base64 = _BASE64.fullmatch(text) is not None and 12 * text.count("/") <= len(text) and _n_kinds(text) == 3
        return is_base64 and (_share_of_words(text) < 0.6 or _AWS.fullmatch(text) is not None)
    pieces = re.split(r"[^A-Za-z0-9]+", text)
    if not (_n_kinds(text) == 3 and sum(map(len, pieces)) >= 8 * len(pieces)):
        text = max(pieces, key=len)
    is_hex = _HEX.fullmatch(text) is not None
    return len(text) >= 20 and _n_kinds(text) >= 2 and (is_hex or _share_of_words(text) < 0.6)


def _n_kinds(text: str) -> int:
    """Return the number of kinds of characters in a text: digits, lower-case letters and upper-case letters."""
    return sum(any(map(kind, text)) for kind in (str.isdigit, str.islower, str.isupper))


def _share_of_words(text: str) -> float:
    """Return the fraction of letters and digits that belong to a pronounceable word or to a long number."""
    runs = _WORD.findall(text)
    return sum(len(run) for run in runs if _SPOKEN.fullmatch(run)) / sum(map(len, runs))
