import json

import pytest
from hypothesis import given, settings

from spu_core.codec import MAX_BYTES, parse_json
from spu_core.errors import RuleError
from spu_core.rules import AllOf, Compare, Ramp, Rule, RuleSet
from spu_core.rules.conditions import MAX_CONDITION_DEPTH
from tests.rules.strategies import RULE_SETS

GOOD = {
    "name": "Investor",
    "when": {"column": "gain", "operator": ">", "value": 0},
    "belief": {"kind": "constant", "value": 0.5},
}


def file_of(*rules, **changes):
    return json.dumps({"schema_version": 1, "rules": list(rules)} | changes)


def rule_with(**changes):
    return file_of(GOOD | changes)


@given(RULE_SETS)
@settings(max_examples=200)
def test_a_rule_set_survives_json_and_back(rules):
    text = rules.to_json()

    assert RuleSet.from_json(text) == rules
    assert RuleSet.from_json(text.encode()).to_json() == text


@given(RULE_SETS)
@settings(max_examples=100)
def test_every_rule_reads_as_one_line(rules):
    assert all(len(str(rule).splitlines()) == 1 for rule in rules)


def test_json_names_every_field_and_uses_ascii_operators():
    rule = Rule("Investor", 0.5, AllOf((Compare("gain", "≥", 1), Compare("sex", "is missing"))), note="seen twice")

    assert json.loads(RuleSet((rule,)).to_json()) == {
        "schema_version": 1,
        "rules": [
            {
                "id": "investor",
                "name": "Investor",
                "on": True,
                "note": "seen twice",
                "when": {
                    "all": [
                        {"column": "gain", "operator": ">=", "value": 1},
                        {"column": "sex", "operator": "is_missing"},
                    ]
                },
                "belief": {"kind": "constant", "value": 0.5},
            }
        ],
    }


def test_defaults_may_be_left_out():
    assert RuleSet.from_json(file_of(GOOD)) == RuleSet((Rule("Investor", 0.5, Compare("gain", ">", 0)),))


def test_a_ramp_is_written_and_read():
    ramp = Ramp(column="age", start=0.5, end=0.9, at_start=0.2, at_end=0.7, scale="quantile")

    assert RuleSet.from_json(RuleSet((Rule("r", ramp),)).to_json())["r"].belief == ramp


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "The rule file is not valid JSON at line 1, column 1"),
        ("[]", "The rule file must be an object, got a list of 0."),
        ("null", "The rule file must be an object, got None."),
        ("{", "is not valid JSON at line 1, column 2"),
        ('{"schema_version": 1, "rules": [}', "is not valid JSON"),
        (
            file_of(GOOD, schema_version=2),
            "has schema_version 2, but this version reads 1; update the program",
        ),
        (file_of(GOOD, schema_version=True), "has schema_version True, but this version reads 1"),
        (json.dumps({"rules": []}), "The rule file lacks the field 'schema_version'."),
        (file_of(GOOD, rulez=[]), "The rule file has an unknown field 'rulez'. Did you mean 'rules'?"),
        (file_of(rules={}), r"rules must be a list, got an object of 0."),
        (file_of(*[GOOD] * 501), "A rule set has 501 rules, more than the limit of 500."),
        (file_of(GOOD, GOOD), "Two rules have the id 'investor'; each rule needs its own."),
        (file_of(GOOD, GOOD | {"id": "x"}), "Two rules have the name 'Investor'"),
        (file_of("gain > 0"), r"rules\[0\] must be an object, got 'gain > 0'."),
        (rule_with(name=7), r"rules\[0\].name must be text, got 7."),
        (rule_with(name=" "), r"rules\[0\]: The name of a rule must have 1 to 200 characters, got ' '."),
        (rule_with(name="x" * 201), "must have 1 to 200 characters"),
        (rule_with(note="x" * 10_001), "note has 10,001 characters, more than the limit of 10,000."),
        (rule_with(on="yes"), r"rules\[0\].on must be true or false, got 'yes'."),
        (rule_with(code="rm"), r"rules\[0\] has an unknown field 'code'."),
        (rule_with(name="\ud800"), r"rules\[0\].name has an invalid character"),
        (rule_with(belief=1.5), r"rules\[0\].belief: A belief must"),
        (rule_with(belief="0.5"), r"rules\[0\].belief must be an object, got '0.5'."),
        (rule_with(belief=True), r"rules\[0\].belief must be an object, got True."),
        (
            rule_with(belief={"kind": "constant", "value": 1.5}),
            r"rules\[0\].belief: A belief must lie in \[0, 1\], got 1.5.",
        ),
        (
            rule_with(belief={"kind": "constant", "value": "1"}),
            r"rules\[0\].belief.value must be a number, got '1'.",
        ),
        (rule_with(belief={"kind": "constant", "value": True}), r"belief.value must be a number, got True."),
        (
            rule_with(belief={"kind": "constnt"}),
            "belief.kind has an unknown value 'constnt'. Did you mean 'constant'?",
        ),
        (rule_with(belief={"kind": []}), "belief.kind must be text, got a list of 0."),
        (rule_with(belief={"kind": "ramp", "column": "x"}), "belief lacks the field 'start'."),
        (
            rule_with(belief={"kind": "ramp", "column": "x", "start": 2, "end": 1, "at_start": 0, "at_end": 1}),
            "belief: A ramp must start before it ends, got 2 and 1",
        ),
        (
            rule_with(belief={"kind": "constant", "value": 0.5, "column": "x"}),
            "belief has an unknown field 'column'.",
        ),
        (rule_with(when=[]), r"rules\[0\].when must be an object, got a list of 0."),
        (rule_with(when={"all": []}), "when: 'all' is empty; it needs at least one condition."),
        (rule_with(when={"all": {}}), "when.all must be a list, got an object of 0."),
        (rule_with(when={"any": [1]}), r"when.any\[0\] must be an object, got 1."),
        (rule_with(when={"not": None}), "when.not must be an object, got None."),
        (rule_with(when={"all": [GOOD["when"]], "any": []}), "when has an unknown field 'any'."),
        (rule_with(when={"column": "x"}), "when lacks the field 'operator'."),
        (rule_with(when={"column": "x", "operator": ">"}), "when lacks the field 'value'."),
        (
            rule_with(when={"column": "x", "operator": "matches", "value": ".*"}),
            "when.operator 'matches' is not known.",
        ),
        (
            rule_with(when={"column": "x", "operator": ">", "value": [1]}),
            r"when: 'x' > needs a finite number",
        ),
        (
            rule_with(when={"column": "x", "operator": "in", "value": []}),
            "'x' in needs a list with at least one value",
        ),
        (
            rule_with(when={"column": "x", "operator": "in", "value": 3}),
            "'x' in needs a list with at least one value, got '3'.",
        ),
        (rule_with(when={"column": "x", "operator": "in", "value": [[1]]}), "'x' in needs a finite number"),
        (
            rule_with(when={"column": "x", "operator": "between", "value": [3, 1]}),
            "can never hold; put the smaller value first.",
        ),
        (
            rule_with(when={"column": "x", "operator": "between", "value": [1, "2"]}),
            "needs two numbers or two dates",
        ),
        (
            rule_with(when={"column": "x", "operator": "between", "value": [1, 2, 3]}),
            r"needs two values, \[low, high\]",
        ),
        (
            rule_with(when={"column": "x", "operator": "<", "value": True}),
            "true and false have no order; use =.",
        ),
        (
            rule_with(when={"column": "x", "operator": "contains", "value": ""}),
            "'x' contains needs a text to look for",
        ),
        (
            rule_with(when={"column": "x", "operator": "is_missing", "value": 1}),
            "'x' is_missing takes no value, got '1'.",
        ),
        (
            rule_with(when={"column": "", "operator": "is_missing"}),
            "A comparison needs the name of a column, got ''.",
        ),
        (rule_with(when={"column": 5, "operator": "is_missing"}), "when.column must be text, got 5."),
    ],
)
def test_what_is_not_exactly_right_is_refused_with_its_place(text, message):
    with pytest.raises(RuleError, match=message):
        RuleSet.from_json(text)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" * 400])
def test_numbers_that_are_not_finite_are_refused(number):
    text = file_of(GOOD).replace('"value": 0.5', f'"value": {number}')

    with pytest.raises(RuleError, match="write a finite number"):
        RuleSet.from_json(text)


@pytest.mark.parametrize("key", ["name", "belief", "value"])
def test_a_key_that_comes_twice_is_refused(key):
    text = file_of(GOOD).replace(f'"{key}"', f'"{key}": 1, "{key}"', 1)

    with pytest.raises(RuleError, match=rf"has the key '{key}' twice in one object; keep one of them."):
        RuleSet.from_json(text)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('{"not":', "}")])
@pytest.mark.parametrize("depth", [41, 100_000])
def test_deep_nesting_is_refused(opening, closing, depth):
    with pytest.raises(RuleError, match=r"nested deeper than 40 levels; flatten it."):
        RuleSet.from_json(f"{opening * depth}1{closing * depth}")


def test_nesting_up_to_the_limit_is_read():
    assert json.dumps(parse_json("[" * 40 + "]" * 40)) == "[" * 40 + "]" * 40


def test_brackets_inside_texts_do_not_count_as_nesting():
    rule = RuleSet.from_json(rule_with(note='[{"\\' * 100))["investor"]

    assert rule.note == '[{"\\' * 100


def test_a_condition_deeper_than_the_limit_is_refused():
    when = GOOD["when"]
    for _ in range(MAX_CONDITION_DEPTH):
        when = {"not": when}

    with pytest.raises(RuleError, match=r"is nested deeper than 16 levels; flatten it."):
        RuleSet.from_json(rule_with(when=when))


def test_a_condition_with_too_many_parts_is_refused():
    when = {"any": [{"all": [GOOD["when"]] * 40}] * 40}

    with pytest.raises(RuleError, match=r"has more than 1,000 parts; split the rule."):
        RuleSet.from_json(rule_with(when=when))


def test_a_huge_file_is_refused_by_its_size():
    with pytest.raises(RuleError, match=rf"more than the limit of {MAX_BYTES:,}."):
        RuleSet.from_json(" " * (MAX_BYTES + 1))


def test_a_file_with_very_many_keys_is_refused():
    keys = ",".join(f'"{i}":0' for i in range(200_001))

    with pytest.raises(RuleError, match=r"has more than 200,000 keys; split it."):
        RuleSet.from_json("{" + keys + "}")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"\xff\xfe{}", "is not UTF-8 text"),
        ('"\ud800"', "has an invalid character at position 1"),
        (7, "must be text or bytes, got int."),
        (None, "must be text or bytes, got NoneType."),
    ],
)
def test_other_encodings_and_types_are_named(source, message):
    with pytest.raises(RuleError, match=message):
        RuleSet.from_json(source)


def test_a_byte_order_mark_is_accepted():
    assert len(RuleSet.from_json(b"\xef\xbb\xbf" + file_of(GOOD).encode())) == 1


def test_a_file_cut_anywhere_is_refused_in_words():
    text = file_of(GOOD)
    for cut in range(len(text)):
        with pytest.raises(RuleError):
            RuleSet.from_json(text[:cut])
