import pytest

from spu_core.errors import RuleError
from spu_core.rules import Compare, Constant, Rule, RuleSet
from spu_core.rules.rule import default_id

A, B, C = (Rule(name, 0.5, Compare(name.lower(), ">", 0)) for name in "ABC")
RULES = RuleSet((A, B, C))


def test_changes_return_a_new_set_and_leave_the_old_one_alone():
    before = RULES.to_json()

    RULES.add(Rule("D", 0.1)).move("d", 0).switch("a", on=False).remove("b").duplicate("c")

    assert RULES.to_json() == before


def test_add_puts_a_rule_at_the_end_or_at_a_place():
    assert RULES.add(Rule("D", 0.1)).names == ("A", "B", "C", "D")
    assert RULES.add(Rule("D", 0.1), 1).names == ("A", "D", "B", "C")


def test_add_gives_a_free_id_when_the_wanted_one_is_taken():
    added = RULES.add(Rule("a", 0.1)).add(Rule("a!", 0.1))

    assert [rule.id for rule in added] == ["a", "b", "c", "a-2", "a-3"]


def test_replace_keeps_the_id_and_the_place():
    replaced = RULES.replace("b", Rule("New name", 0.9))

    assert replaced.names == ("A", "New name", "C")
    assert replaced["b"].belief == Constant(0.9)


def test_remove_and_switch():
    assert RULES.remove("b").names == ("A", "C")
    assert RULES.switch("b", on=False).active.names == ("A", "C")
    assert RULES.switch("b", on=False).switch("b", on=True) == RULES


@pytest.mark.parametrize(("place", "names"), [(0, "BAC"), (1, "ABC"), (2, "ACB"), (99, "ACB"), (-5, "BAC")])
def test_move_counts_places_in_the_final_order(place, names):
    assert RULES.move("b", place).names == tuple(names)


def test_duplicate_puts_a_copy_with_its_own_name_and_id_behind_the_rule():
    twice = RULES.duplicate("a").duplicate("a")

    assert twice.names == ("A", "A (copy) 2", "A (copy)", "B", "C")
    assert len({rule.id for rule in twice}) == 5
    assert {rule.text for rule in twice.rules[:3]} == {A.text}


def test_only_active_rules_say_which_columns_are_read():
    assert RULES.columns == ("a", "b", "c")
    assert RULES.switch("a", on=False).columns == ("b", "c")


def test_an_unknown_id_points_to_the_nearest():
    with pytest.raises(RuleError, match=r"There is no rule with id 'investr'\. Did you mean 'investor'\?"):
        RuleSet((Rule("Investor", 0.5),))["investr"]


def test_names_and_ids_are_distinct():
    with pytest.raises(RuleError, match="Two rules have the name 'A'; each rule needs its own"):
        RULES.add(Rule("A", 0.1))
    with pytest.raises(RuleError, match="Two rules have the id 'x'"):
        RuleSet((Rule("one", 0.1, id="x"), Rule("two", 0.1, id="x")))


def test_a_set_holds_rules_only_and_not_too_many():
    with pytest.raises(RuleError, match="A rule set holds rules, got 'a > 0'"):
        RuleSet(("a > 0",))
    with pytest.raises(RuleError, match="A rule set has 501 rules, more than the limit of 500"):
        RuleSet(tuple(Rule(f"rule {i}", 0.1) for i in range(501)))


def test_the_text_of_a_set_marks_what_is_off():
    assert str(RULES.switch("b", on=False).remove("c")) == "A: a > 0 → 0.50\nB: b > 0 → 0.50 (off)"


def test_a_rule_keeps_its_id_through_every_change():
    changed = A.renamed("Z").with_belief(0.9).switched(False)

    assert (changed.id, changed.name, changed.belief, changed.on) == ("a", "Z", Constant(0.9), False)


def test_a_rule_without_a_condition_always_fires():
    assert Rule("everyone", 0.01).text == "always → 0.01"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", 0.5), r"The name of a rule must have 1 to 200 characters, got ''"),
        ((5, 0.5), r"The name of a rule must be text, got 5"),
        (("r", 1.5), r"Rule 'r' needs a belief: a number in \[0, 1\], a ramp, a column or checks; got 1.5"),
        (("r", True), r"Rule 'r' needs a belief"),
        (("r", "0.5"), r"Rule 'r' needs a belief"),
        (
            ("r", 0.5, "age > 30"),
            r"Rule 'r' needs a condition such as Compare\('age', '>', 30\), got 'age > 30'",
        ),
        (("r", 0.5, None, "", 1), r"'on' of rule 'r' must be true or false, got 1"),
        (("r", 0.5, None, "", True, 7), r"note of rule 'r' must be text, got 7"),
    ],
)
def test_a_rule_that_is_not_one_is_refused_in_words(arguments, message):
    with pytest.raises(RuleError, match=message):
        Rule(*arguments)


def test_ids_keep_letters_of_every_script():
    assert default_id("高额 交易 > 5") == "高额-交易-5"
    assert default_id("!!!") != default_id("???")


def test_every_change_keeps_how_the_set_is_combined_and_its_floor():
    rules = RuleSet((Rule("a", 0.5), Rule("b", 0.2, on=False))).combined("strongest", 0.05)

    changed = rules.duplicate("a").move("b", 0).switch("b", True).remove("a").active

    assert (changed.combine, changed.floor) == ("strongest", 0.05)
    assert RuleSet.from_json(rules.to_json()) == rules


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"schema_version": 1, "rules": [], "combine": "magic"}', "magic"),
        ('{"schema_version": 1, "rules": [], "floor": 2}', r"floor must lie in \[0, 1\]"),
        ('{"schema_version": 1, "rules": [], "floor": "0"}', "floor must be a number"),
    ],
)
def test_an_unknown_combiner_or_an_impossible_floor_is_refused(text, words):
    with pytest.raises(RuleError, match=words):
        RuleSet.from_json(text)
