"""The page on trust tells the truth: its examples run."""

import doctest
from pathlib import Path


def test_the_examples_of_the_page_run():
    page = Path(__file__).resolve().parents[2] / "docs" / "trust.md"
    found = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS, encoding="utf-8")
    assert found.attempted > 10
    assert found.failed == 0
