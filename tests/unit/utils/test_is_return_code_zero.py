"""The success of a command."""

import sys

import pytest

from pfrl_like.utils.is_return_code_zero import is_return_code_zero


@pytest.mark.parametrize("status", [0, 1])
def test_only_the_status_zero_is_success_and_output_discarded(status: int, capfd: pytest.CaptureFixture[str]) -> None:
    program = f"import sys; print(1); print(2, file=sys.stderr); sys.exit({status})"
    assert is_return_code_zero([sys.executable, "-S", "-c", program]) is (status == 0)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("program", ["/nowhere/program", "/"])
def test_a_program_that_cannot_be_run_is_no_success(program: str) -> None:
    assert is_return_code_zero([program]) is False
