"""The page on check outcomes is true: its examples run."""

import doctest
from pathlib import Path


def test_the_examples_of_the_page_run():
    page = Path(__file__).resolve().parents[2] / "docs" / "outcomes.md"
    found = doctest.testfile(str(page), module_relative=False, encoding="utf-8")

    assert found.attempted > 8
    assert found.failed == 0
