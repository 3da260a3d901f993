"""Values of settings as TOML: those of the option `--set`, and those that are written into `run.toml`."""

import argparse
import json
import math
import re
import tomllib
from collections.abc import Mapping
from typing import Any

#: Names of Python's constants. TOML has no None, so that a None is written as the text "None".
_CONSTANTS = {"True": True, "False": False, "None": None}


def parse_setting(text: str) -> tuple[str, Any]:
    """Return the name and the value of a setting `name=value`.

    The value is TOML: `1e-4`, `true`, `[64, 64]`, `{alpha = 0.5}`. A single word is a text.

    Raises:
        argparse.ArgumentTypeError: If the text has another form.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise argparse.ArgumentTypeError(f"got {text!r}, expected name=value, for example lr=1e-4")
    try:
        return name.strip(), from_toml(tomllib.loads(f"x = {value}")["x"])
    except tomllib.TOMLDecodeError:
        if re.fullmatch(r"[A-Za-z_][\w.:/-]*", value.strip()):
            return name.strip(), from_toml(value.strip())
        expected = "expected a value of TOML, such as 1e-4, true, [64, 64], {alpha = 0.5} or a word"
        raise argparse.ArgumentTypeError(f"got {text!r}, {expected}") from None


def from_toml(value: Any) -> Any:
    """Return a value of TOML, in which "None", "True" and "False" are the constants of Python."""
    return _CONSTANTS.get(value, value) if isinstance(value, str) else value


def to_toml(value: Any) -> str:
    """Return a value as TOML: None, a bool, a number, a text, or a list, tuple or dict of such values."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value) if isinstance(value, int) or math.isfinite(value) else str(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(to_toml, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {to_toml(each)}" for key, each in value.items()) + "}"
    text = str(value)
    is_literal = '"' in text and "'" not in text and text.isprintable()
    return f"'{text}'" if is_literal else json.dumps(text, ensure_ascii=False)
