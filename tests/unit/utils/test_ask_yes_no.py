"""Questions on the terminal."""

from collections.abc import Iterator

import pytest

from pfrl_like.utils.ask_yes_no import ask_yes_no


@pytest.mark.parametrize(("answers", "expected"), [(["y"], True), (["maybe", "", "YE"], True), (["No"], False)])
def test_a_question_is_repeated_till_answered(
    monkeypatch: pytest.MonkeyPatch, answers: list[str], expected: bool
) -> None:
    given: Iterator[str] = iter(answers)
    asked: list[str] = []
    monkeypatch.setattr("builtins.input", lambda prompt: asked.append(prompt) or next(given))
    assert ask_yes_no("Save?") is expected
    assert asked == ["Save? [y/N]: "] * len(answers)
