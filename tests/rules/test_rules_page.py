"""The page about rules tells the truth: its examples run, and its file is a rule set."""

import doctest
import re
from pathlib import Path

from spu_core.rules import RuleSet

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"


def test_the_examples_of_the_page_run():
    failed, tried = doctest.testfile(
        str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE, encoding="utf-8"
    )

    assert (failed, tried > 10) == (0, True)


def test_the_file_of_the_page_is_a_rule_set():
    text = re.search(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL).group(1)

    assert RuleSet.from_json(text)["investor"].text == "gain > 0 and not city in {'Bern', 'Basel'} → 0.50"
