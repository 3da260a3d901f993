"""Warnings name the user's line, and come once a process where they are asked to."""

import warnings

import pytest

from pfrl_like.utils.checks import warn_once


def test_a_warning_comes_once_for_each_key() -> None:
    with warnings.catch_warnings(record=True) as came:
        warnings.simplefilter("always")
        warn_once("rows", "3 rows were dropped")
        warn_once("rows", "5 rows were dropped")
        warn_once("columns", "2 columns were dropped")
    assert [str(each.message) for each in came] == ["3 rows were dropped", "2 columns were dropped"]


def test_the_warning_names_the_line_of_the_user() -> None:
    with pytest.warns(FutureWarning, match="rows") as came:
        warn_once("rows", "rows were dropped", FutureWarning)
    assert came[0].filename == __file__
