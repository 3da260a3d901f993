"""A question to the user on the terminal."""

_ANSWERS = {"y": True, "ye": True, "yes": True, "n": False, "no": False}


def ask_yes_no(question: str) -> bool:
    """Ask the user a question, again and again until the answer is y, ye, yes, n or no, in any case.

    Args:
        question: Text of the question. " [y/N]: " is appended.

    Returns:
        True if the answer is yes.

    Raises:
        EOFError: If the standard input ends before an answer.
    """
    while (answer := _ANSWERS.get(input(f"{question} [y/N]: ").lower())) is None:
        pass
    return answer
