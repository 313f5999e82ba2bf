import datetime

import numpy as np
import pytest

from spu_core.errors import RuleError
from spu_core.rules import AllOf, AnyOf, Compare, Not, Rule

AGE, CITY = Compare("age", ">", 30), Compare("city", "=", "Bern")


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (Compare("capital-gain", ">", 0), "capital-gain > 0"),
        (Compare("x", "<=", 0.1), "x ≤ 0.1"),
        (Compare("x", "!=", 1e300), "x ≠ 1e+300"),
        (Compare("vip", "=", False), "vip = false"),
        (Compare("city", "in", ["Bern", 3]), "city in {'Bern', 3}"),
        (Compare("n", "in", list(range(9))), "n in {0, 1, 2, 3, 4, 5, … 3 more}"),
        (Compare("x", "between", [1, 2]), "x between 1 and 2"),
        (Compare("x", "contains", "a'b"), 'x contains "a\'b"'),
        (Compare("x", "is_missing"), "x is missing"),
        (Compare("two\nlines", "=", "a\tb"), "two lines = 'a b'"),
        (AGE & CITY, "age > 30 and city = 'Bern'"),
        (AGE | (CITY & ~AGE), "age > 30 or (city = 'Bern' and not age > 30)"),
        (Not(AnyOf((AGE, CITY))), "not (age > 30 or city = 'Bern')"),
    ],
)
def test_conditions_read_as_one_line(condition, words):
    assert condition.text == words


@pytest.mark.parametrize(
    ("sign", "canonical"),
    [("≤", "<="), ("≥", ">="), ("≠", "!="), ("==", "="), ("<>", "!="), ("is missing", "is_missing")],
)
def test_other_spellings_of_operators_are_understood(sign, canonical):
    assert Compare("x", sign, None if canonical == "is_missing" else 1).operator == canonical


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (np.float64(0.5), 0.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (datetime.date(2024, 1, 31), "2024-01-31"),
        (datetime.datetime(2024, 1, 31, 12), "2024-01-31T12:00:00"),
    ],
)
def test_values_are_kept_as_plain_json_values(value, kept):
    compare = Compare("x", "=", value)

    assert (compare.value, type(compare.value)) == (kept, type(kept))


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), object(), {}, [1], b"a", 10**400])
def test_other_values_are_refused(value):
    with pytest.raises(RuleError, match="'x' = needs a finite number, a text, true or false, or a date as text, got"):
        Compare("x", "=", value)


def test_a_set_of_values_has_one_order():
    assert Compare("x", "in", {"b", "a"}) == Compare("x", "in", frozenset({"a", "b"}))


@pytest.mark.parametrize("make", [lambda: AllOf(("age > 30",)), lambda: Not("age > 30"), lambda: AnyOf((AGE, 1))])
def test_parts_must_be_conditions(make):
    with pytest.raises(RuleError, match="must hold conditions, got"):
        make()


def test_a_deep_tree_from_python_is_refused_without_recursion():
    condition = AGE
    for _ in range(100_000):
        condition = Not(condition)

    with pytest.raises(RuleError, match=r"The condition of rule 'deep' is nested deeper than 16 levels; flatten it."):
        Rule("deep", 0.5, condition)
