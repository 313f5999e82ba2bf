"""The Soft labels page: its effect is seen before a rule is saved, and nothing saved is lost."""

from __future__ import annotations

import json

import pytest
from streamlit.proto.Metric_pb2 import Metric

from pages.ui.soft_labels.check_wizards import CHECK_NAMES
from spu_core.rules import AnyOf, Compare, ReadyMade, Rule, RuleSet
from spu_core.rules.suggest import is_from_labels
from spu_core.tables import Role
from spu_core.tables.samples import SAMPLES, load_sample
from spu_core.workspace import Workspace
from tests.dashboard.rule_drafts import HOSTILE, PAGE, SAVED, figures, keep, saved_rules, some_table, widget


def test_without_data_the_page_says_what_to_do(open_app):
    page = open_app(PAGE)

    assert not page.exception
    assert "No data yet" in page.subheader[0].value


def test_the_page_shows_saved_rules_and_the_way_on(open_app):
    page = open_app(PAGE, **keep())

    assert not page.exception
    assert figures(page)["Rules in use"] == "2 of 2"
    assert any("Older" in each.value for each in page.markdown)


def test_rules_that_give_few_levels_of_s_are_warned_of_beside_them(open_app):
    one = RuleSet((Rule("Older", 0.4, Compare("age", ">", 50)),))
    page = open_app(PAGE, **keep(rules=one))

    assert not page.exception
    assert any(
        "The soft label has only 2 different values among unconfirmed rows" in each.value for each in page.warning
    )


def test_rules_that_confirmed_cases_contradict_are_warned_of_beside_them(open_app):
    table = some_table()
    confirmed = table.frame["age"][table.is_labeled]
    wrong = RuleSet((Rule("Wrong", 0.4, Compare("age", "<", float(confirmed.min()))),))
    page = open_app(PAGE, **keep(rules=wrong))

    assert not page.exception
    assert any("is lower than that of the other rows" in each.value for each in page.warning)


def test_a_typed_range_is_previewed_before_it_is_saved(open_app):
    query = keep()
    page = open_app(PAGE, **query)
    before = figures(page)["Ceiling"]

    widget(page, "number_input", "_low").set_value(20)
    widget(page, "number_input", "_high").set_value(30)
    page.run()

    rows = int(some_table().frame["age"].between(20, 30).sum())
    assert figures(page)["Rows matched"] == str(rows)
    assert figures(page)["Ceiling"] != before
    # Every honest rule lowers the ceiling: that is explained, and not coloured as a loss.
    ceiling = next(each for each in page.metric if each.label == "Ceiling" and each.delta)
    assert (ceiling.delta[0], ceiling.color) == ("-", Metric.GRAY)
    assert any("A lower ceiling is not a fault" in each.value for each in page.caption)
    assert saved_rules(query) == SAVED

    page.button(key="soft_save").click().run()

    assert not page.exception
    assert saved_rules(query).rules[2].when == Compare("age", "between", [20, 30])
    assert figures(page)["Rows matched"] == "–"


def test_the_first_rule_makes_a_rule_set_and_names_it_in_the_address(open_app):
    page = open_app(PAGE, **keep(rules=None))
    widget(page, "number_input", "_low").set_value(60)
    page.run()
    page.button(key="soft_save").click().run()

    assert not page.exception
    assert saved_rules({"rules": page.query_params["rules"]}).rules[0].when == Compare("age", ">=", 60)


def test_conditions_over_several_columns_are_joined(open_app):
    query = keep()
    page = open_app(PAGE, **query)
    widget(page, "number_input", "_low").set_value(60)
    page.run()
    widget(page, "button", "_more").click().run()
    widget(page, "selectbox", "_1_column").select("city").run()
    widget(page, "multiselect", "_levels").select("Bern").run()
    page.selectbox(key=widget(page, "selectbox", "_joined").key).select("or").run()
    page.button(key="soft_save").click().run()

    assert not page.exception
    expected = AnyOf((Compare("age", ">=", 60), Compare("city", "in", ["Bern"])))
    assert saved_rules(query).rules[2].when == expected


def test_an_impossible_range_is_said_and_can_be_mended(open_app):
    page = open_app(PAGE, **keep())
    widget(page, "number_input", "_low").set_value(50)
    widget(page, "number_input", "_high").set_value(20)
    page.run()

    assert not page.exception
    assert "put the smaller value first" in page.error[0].value.replace("\\", "")
    assert page.button(key="soft_save").disabled
    widget(page, "number_input", "_high").set_value(70)
    page.run()
    assert not page.error


def test_undo_and_redo_walk_between_versions(open_app):
    query = keep()
    page = open_app(PAGE, **query)
    next(each for each in page.toggle if each.key == "soft_1_0_on").set_value(False).run()
    assert not saved_rules(query)["older"].on

    page.button(key="soft_undo").click().run()
    assert saved_rules(query) == SAVED
    page.button(key="soft_redo").click().run()
    assert not saved_rules(query)["older"].on
    assert figures(page)["Rules in use"] == "1 of 2"


def test_the_way_of_combining_is_kept_with_the_rules(open_app):
    query = keep()
    page = open_app(PAGE, **query)
    page.selectbox(key="soft_1_combine").select("strongest").run()

    assert saved_rules(query).combine == "strongest"


def test_an_edit_of_a_version_that_is_no_longer_current_is_refused(open_app):
    query = keep()
    page = open_app(PAGE, **query)
    widget(page, "number_input", "_low").set_value(30)
    page.run()
    with Workspace.open() as workspace:
        other = workspace.rule_sets.get(query["rules"])
        workspace.rule_sets.save(other, SAVED.remove("rich").to_json())

    page.button(key="soft_save").click().run()

    assert not page.exception
    assert "version" in page.error[0].value
    assert saved_rules(query) == SAVED.remove("rich")


def test_rules_that_do_not_fit_the_table_are_left_out_and_said(open_app):
    query = keep(rules=SAVED.add(Rule("typo", 0.5, Compare("agee", ">", 3))))
    page = open_app(PAGE, **query)

    assert not page.exception
    assert "cannot be applied" in page.warning[0].value
    assert figures(page)["Rules in use"] == "2 of 3"
    page.button(key="soft_off").click().run()
    assert not saved_rules(query)["typo"].on


@pytest.mark.parametrize("part", ["Analysis", "Explain a row", "Audit", "From checks", "Versions and files"])
def test_every_part_opens_from_its_address(open_app, part):
    page = open_app(PAGE, **keep(), part=part)

    assert not page.exception
    assert not page.error


def test_a_link_with_the_former_title_of_a_part_opens_it(open_app):
    page = open_app(PAGE, **keep(), part="Why this S")

    assert "Soft label" in {metric.label for metric in page.metric}


def test_a_mangled_draft_in_the_address_costs_nothing(open_app):
    page = open_app(PAGE, **keep(), draft='{"schema_version": 1, "rules": [{"name": 7}]}')

    assert not page.exception
    assert not page.error
    assert figures(page)["Rows matched"] == "–"


def test_a_draft_in_the_address_comes_back(open_app):
    draft = RuleSet((Rule("Young", 0.7, Compare("age", "<=", 25)),)).to_json()
    page = open_app(PAGE, **keep(), draft=draft)

    assert widget(page, "number_input", "_high").value == 25
    assert widget(page, "slider", "_belief").value == 0.7
    assert figures(page)["Rows matched"] != "–"


def test_a_hostile_file_of_rules_is_refused_in_words(open_app):
    page = open_app(PAGE, **keep(), part="Versions and files")
    hostile = json.dumps({"schema_version": 1, "rules": [{"name": HOSTILE, "belief": {"kind": "__import__('os')"}}]})
    page.file_uploader(key="soft_upload").upload("rules.json", hostile.encode()).run()

    assert not page.exception
    assert "not known" in page.error[0].value or "kind" in page.error[0].value


def test_rules_from_a_file_are_added_as_a_version(open_app):
    query = keep()
    page = open_app(PAGE, **query, part="Versions and files")
    page.file_uploader(key="soft_upload").upload("rules.json", SAVED.to_json().encode()).run()
    page.button(key="soft_beside").click().run()

    assert saved_rules(query).names == ("Older", "Rich", "Older (2)", "Rich (2)")


def test_the_share_of_positives_is_estimated_as_a_range_and_never_written_into_the_field(open_app):
    page = open_app(PAGE, **keep(), part="Audit")
    page.button(key="soft_estimate").click().run()

    assert not page.exception
    assert not page.error
    assert "prior" not in page.query_params
    assert page.number_input(key="soft_prior_None").value is None
    assert any("confirmed cases alone" in each.value for each in page.caption)


def test_the_share_of_positives_shows_three_digits_and_can_be_emptied(open_app):
    page = open_app(PAGE, **keep(), part="Audit", prior="0.285999")
    assert page.number_input(key="soft_prior_0.285999").value == 28.6
    page.number_input(key="soft_prior_0.285999").set_value(12.3456).run()
    assert page.query_params["prior"] == "0.123"
    page.number_input(key="soft_prior_0.123").set_value(None).run()

    assert not page.exception
    assert "prior" not in page.query_params
    assert page.number_input(key="soft_prior_None").value is None


def test_the_shares_of_the_audit_add_up_to_the_whole(open_app):
    shown = figures(open_app(PAGE, **keep(), part="Audit"))

    parts = [float(shown[name].rstrip("%")) for name in ("Confirmed", "Suspected by a rule", "Neither")]
    assert sum(parts) == pytest.approx(100)


def test_without_a_known_share_of_positives_the_labels_rank_rules_and_offer_no_belief(open_app):
    page = open_app(PAGE, **keep())
    widget(page, "number_input", "_low").set_value(60).run()
    ranking = [each.value for each in page.caption if "Rules by lift" in each.value]

    assert not page.exception
    assert len(ranking) == 1
    assert "this rule" in ranking[0]
    assert all(button.key != "soft_take" for button in page.button)


def test_a_given_share_of_positives_suggests_a_belief_to_take(open_app):
    page = open_app(PAGE, **keep(), prior="0.2")
    widget(page, "number_input", "_low").set_value(60).run()

    assert any("if 20.0% of all rows are positive" in each.value for each in page.caption)
    assert page.button(key="soft_take").label.startswith("Use 0.")


def test_a_log_of_checks_becomes_a_column_and_a_rule(open_app):
    with Workspace.open() as workspace:
        sample = SAMPLES["anti_cheat"]
        dataset = workspace.datasets.save(load_sample("anti_cheat"), sample.title)
        rules = workspace.rule_sets.create("rules", RuleSet().to_json())
    page = open_app(PAGE, dataset=dataset.id, rules=rules.id, part="From checks")
    page.toggle(key="soft_log_sample").set_value(True).run()
    page.button(key="soft_log_add").click().run()

    assert not page.exception
    assert not page.error
    assert page.query_params["dataset"] != dataset.id
    assert saved_rules({"rules": rules.id}) == RuleSet()
    assert saved_rules({"rules": page.query_params["rules"]}).rules[0].belief == ReadyMade("check_soft_label")
    with Workspace.open() as workspace:
        bigger = workspace.datasets.load(page.query_params["dataset"])
    assert bigger.roles["check_soft_label"] is Role.SOFT_LABEL
    assert 0 < bigger.soft_label.mean() < 0.2


def test_deleting_a_rule_set_says_first_what_goes(open_app):
    query = keep()
    page = open_app(PAGE, **query, part="Versions and files")
    page.button(key="soft_delete").click().run()
    assert any("1 rule\\-set version" in each.value for each in page.markdown)

    page.button(key="delete_for_good").click().run()
    assert not page.exception
    assert "rules" not in page.query_params
    with Workspace.open() as workspace:
        assert workspace.rule_sets.list() == ()


def test_a_condition_can_be_turned_round(open_app):
    query = keep()
    page = open_app(PAGE, **query)
    widget(page, "number_input", "_low").set_value(60)
    widget(page, "toggle", "_negated").set_value(True).run()
    page.button(key="soft_save").click().run()

    assert not page.exception
    assert saved_rules(query).rules[2].when == ~Compare("age", ">=", 60)


def test_rules_of_another_dataset_are_copied_best_fit_first_and_the_original_stays(open_app):
    query = keep(rules=None)
    stranger = RuleSet((Rule("Strange", 0.4, Compare("elsewhere", ">", 1)),))
    half = RuleSet((Rule("Older", 0.4, Compare("age", ">", 50)), *stranger))
    with Workspace.open() as workspace:
        other = workspace.rule_sets.create("Claims", half.to_json())
        workspace.rule_sets.create("Newest", stranger.to_json())
        workspace.rule_sets.create("Fits", RuleSet((half.rules[0],)).to_json())
    page = open_app(PAGE, **query)

    chooser = page.selectbox(key="soft_earlier")
    assert chooser.options == ["Fits, version 1 · 1 of 1 rule fits", "Claims, version 1 · 1 of 2 rules fit"]
    chooser.select(other.id).run()
    page.button(key="soft_use").click().run()
    page.button(key="soft_off").click().run()

    assert not page.exception
    copy = page.query_params["rules"]
    with Workspace.open() as workspace:
        assert workspace.rule_sets.get(other.id) == other
        assert workspace.rule_sets.history(copy)[0].note == "copied from Claims, version 1"
    assert figures(page)["Rules in use"] == "1 of 2"


def test_rules_of_another_dataset_are_changed_in_a_copy_even_where_every_column_exists(open_app):
    query = keep(rules=None)
    with Workspace.open() as workspace:
        other = workspace.rule_sets.create("Claims", SAVED.to_json(), dataset="c" * 24)
    page = open_app(PAGE, **query)
    assert "rules" not in page.query_params

    page = open_app(PAGE, **query, rules=other.id)
    next(each for each in page.toggle if each.key == "soft_1_0_on").set_value(False).run()

    assert not page.exception
    with Workspace.open() as workspace:
        assert workspace.rule_sets.get(other.id) == other
        copy = workspace.rule_sets.get(page.query_params["rules"])
        assert (copy.dataset, copy.number) == (query["dataset"], 2)
    assert not saved_rules({"rules": copy.id})["older"].on


def test_one_click_on_a_ranked_column_drafts_a_rule_that_is_marked_as_made_from_labels(open_app):
    page = open_app(PAGE, **keep(rules=None))
    assert any("AUC" in each.value for each in page.caption)

    page.button(key="soft_draft_0").click().run()
    assert figures(page)["Rows matched"] != "–"
    page.button(key="soft_save").click().run()

    assert not page.exception
    [rule] = saved_rules({"rules": page.query_params["rules"]})
    assert rule.columns == ("age",)
    assert rule.name.startswith("age is at least")
    assert is_from_labels(RuleSet((rule,)))


def test_a_suggested_rule_becomes_a_draft(open_app):
    page = open_app(PAGE, **keep(rules=None))
    page.button(key="soft_suggested_0").click().run()

    assert not page.exception
    assert widget(page, "number_input", "_low").value is not None


def test_a_suggested_rule_that_was_added_is_not_offered_again(open_app):
    page = open_app(PAGE, **keep(rules=None))
    page.button(key="soft_suggested_0").click().run()
    page.button(key="soft_save").click().run()
    page.session_state["soft_find"] = True
    page.run()

    assert not page.exception
    assert "soft_suggested_0" not in [each.key for each in page.button]
    assert any("in your rules" in each.value for each in page.markdown)


def test_checks_are_hidden_until_the_table_has_columns_of_checks(open_app):
    assert "From checks" not in [each.label for each in open_app(PAGE, **keep()).tabs]
    assert "From checks" in [each.label for each in open_app(PAGE, **keep(), part="From checks").tabs]


@pytest.mark.parametrize(
    ("name", "is_about_checks"),
    [("last_check", True), ("numChecks", True), ("checked", True), ("poutcome", False), ("checking_account", False)],
)
def test_the_names_of_columns_about_checks(name, is_about_checks):
    assert bool(CHECK_NAMES.search(name)) == is_about_checks


def test_an_automatic_name_is_said_once(open_app):
    named = RuleSet((Rule("age is at least 60", 0.4, Compare("age", ">=", 60)),))
    page = open_app(PAGE, **keep(rules=named))

    assert [each.value for each in page.caption if "at least 60" in each.value] == []
