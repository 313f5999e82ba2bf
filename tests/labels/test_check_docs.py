"""The page about checks: its examples run."""

import doctest
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "checks.md"


def test_every_example_of_the_page_runs_and_shows_what_it_says():
    failures, tried = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")

    assert tried > 15
    assert failures == 0
