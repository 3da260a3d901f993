"""Settings as TOML."""

import argparse
import math
import tomllib

import pytest

from pfrl_like.cli.toml_values import from_toml, parse_setting, to_toml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x=1e-4", 1e-4),
        ("x = 3", 3),
        ("x=[64, 64]", [64, 64]),
        ("x={alpha = 0.5}", {"alpha": 0.5}),
        ("x=true", True),
        ("x=linear", "linear"),
        ('x="two words"', "two words"),
        ("x=False", False),
        ("x=None", None),
    ],
)
def test_a_value_is_toml_or_a_word(text: str, value: object) -> None:
    assert parse_setting(text) == ("x", value)


@pytest.mark.parametrize("text", ["x", "=1", "x y=1", "x=1e", "x=(64, 64)", "x=", "x=two words", "x=1\ny=2"])
def test_other_texts_are_rejected(text: str) -> None:
    if "\n" in text:
        assert parse_setting(text) == ("x", 1)
        return
    with pytest.raises(argparse.ArgumentTypeError, match="expected"):
        parse_setting(text)


@pytest.mark.parametrize(
    "value",
    [
        1,
        -2.5,
        1e-05,
        1e22,
        True,
        "a'b\"c\n",
        'with "quotes"',
        "C:\\x",
        "ä",
        [],
        [1, [2]],
        {"a b": 1, "c": {"d": []}},
        math.inf,
    ],
)
def test_a_written_value_is_read_again(value: object) -> None:
    assert tomllib.loads(f"x = {to_toml(value)}")["x"] == value


def test_none_is_written_as_a_text() -> None:
    assert from_toml(tomllib.loads(f"x = {to_toml(None)}")["x"]) is None
    assert to_toml((1, 2)) == "[1, 2]" and to_toml(math.nan) == "nan"
