"""The Soft labels page in a browser: a brush becomes a rule, and rules are edited, moved and taken back."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from spu_core.rules import Compare, Rule, RuleSet
from tests.dashboard.rule_drafts import HOSTILE, ODD, SAVED, keep, saved_rules, some_table


def drag(tab, start: float, end: float) -> None:
    """Drag across the histogram, from one share of its width to another."""
    area = tab.page.locator("[class*=st-key-rule_][class*=_chart] .nsewdrag").first
    area.wait_for()
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    middle = box["y"] + box["height"] / 2
    tab.page.mouse.move(box["x"] + start * box["width"], middle)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + end * box["width"], middle, steps=12)
    tab.page.mouse.up()
    tab.settle()


def live(tab, place: int) -> str:
    return tab.page.locator(".st-key-soft_changes [data-testid=stMetricValue]").nth(place).inner_text()


@pytest.mark.browser
def test_a_brush_becomes_a_rule_and_survives_a_refresh(shared_server, open_tab, tmp_path):
    server = shared_server
    query = keep(folder=server.home)
    tab = open_tab(server, height=720).open(f"soft_labels?dataset={query['dataset']}&rules={query['rules']}")
    before = live(tab, 3)
    button = tab.page.locator(".st-key-soft_save button").bounding_box()
    assert button["y"] + button["height"] <= 720, "Add rule is in sight"

    drag(tab, 0.05, 0.4)
    tab.page.wait_for_function("document.querySelector('.st-key-soft_changes').innerText.includes('%')")
    assert live(tab, 3) != before, "the ceiling moves before anything is saved"
    assert saved_rules(query, server.home) == SAVED
    touched = live(tab, 0)

    tab.reload()
    tab.page.wait_for_selector(".st-key-soft_changes [data-testid=stMetricValue]")
    assert live(tab, 0) == touched, "the draft is still there"

    tab.page.click(".st-key-soft_save button")
    tab.page.wait_for_selector("text=Rules (3)")
    tab.settle()
    rule = saved_rules(query, server.home).rules[2]
    assert rule.when.operator == "between"
    assert rule.when.column == "age"

    tab.page.click(".st-key-soft_undo button")
    tab.page.wait_for_selector("text=Rules (2)")
    assert saved_rules(query, server.home) == SAVED


@pytest.mark.browser
def test_clicked_bars_of_a_hostile_column_become_levels_and_stay_text(shared_server, open_tab):
    server = shared_server
    name = f"{HOSTILE} $x^2$ :red[col]"
    query = keep(folder=server.home, table=some_table(extra=name), rules=SAVED)
    draft = RuleSet((Rule("d", 0.5, Compare(name, "in", ["Bern", ODD])),)).to_json()
    tab = open_tab(server, width=390, height=844)
    tab.page.on("dialog", lambda dialog: tab.errors.append("a script ran"))
    tab.open(f"soft_labels?dataset={query['dataset']}&rules={query['rules']}&draft={quote(draft)}")
    bars = tab.page.locator("[class*=st-key-rule_][class*=_chart] .barlayer .point path")
    bars.first.wait_for()
    bars.nth(1).scroll_into_view_if_needed()
    bars.nth(1).click(force=True)
    tab.settle()
    tab.page.click(".st-key-soft_save button")
    tab.page.wait_for_selector("text=Rules (3)")
    tab.settle()

    compare = saved_rules(query, server.home).rules[2].when
    assert compare.column == name
    assert compare.value[0] in ("Bern", HOSTILE, ODD)
    assert tab.page.locator("[data-testid=stApp] .katex").count() == 0
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390


def do(tab, place: int, action: str) -> None:
    """Choose an action from the menu of a rule."""
    tab.page.locator(f"[class*=st-key-soft_][class*=_{place}_menu] button").click()
    tab.page.get_by_role("menuitem", name=action).click()
    tab.settle()


@pytest.mark.browser
def test_rules_are_duplicated_moved_removed_switched_edited_and_taken_back(shared_server, open_tab):
    query = keep(folder=shared_server.home)
    tab = open_tab(shared_server).open(f"soft_labels?dataset={query['dataset']}&rules={query['rules']}")

    def names() -> tuple[str, ...]:
        return saved_rules(query, shared_server.home).names

    do(tab, 0, "Duplicate")
    tab.page.wait_for_selector("text=Rules (3)")
    assert names() == ("Older", "Older (copy)", "Rich")
    do(tab, 0, "Move down")
    assert names() == ("Older (copy)", "Older", "Rich")
    do(tab, 2, "Move up")
    assert names() == ("Older (copy)", "Rich", "Older")
    do(tab, 0, "Remove")
    tab.page.wait_for_selector("text=Rules (2)")
    assert names() == ("Rich", "Older")
    tab.page.locator("[class*=st-key-soft_][class*=_0_on] label").first.click()
    tab.page.wait_for_selector("text=1 of 2")
    tab.settle()
    assert not saved_rules(query, shared_server.home)["rich"].on

    do(tab, 1, "Edit")
    tab.page.wait_for_selector("text=Save changes")
    drag(tab, 0.5, 0.9)
    tab.page.click(".st-key-soft_save button")
    tab.page.wait_for_selector("text=Add rule")
    tab.settle()
    edited = saved_rules(query, shared_server.home)["older"]
    assert edited.when.operator == "between"
    assert len(names()) == 2

    for _ in range(6):
        tab.page.click(".st-key-soft_undo button")
        tab.settle()
    assert saved_rules(query, shared_server.home) == SAVED


@pytest.mark.browser
def test_a_rule_is_made_with_the_keyboard_alone(shared_server, open_tab):
    query = keep(folder=shared_server.home)
    tab = open_tab(shared_server).open(f"soft_labels?dataset={query['dataset']}&rules={query['rules']}")

    tab.tab_to("[class*=st-key-rule_][class*=_low] input")
    tab.page.keyboard.type("65")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_function("document.querySelector('.st-key-soft_changes').innerText.includes('%')")
    tab.settle()
    tab.tab_to("[class*=st-key-rule_][class*=_belief] input")
    tab.page.keyboard.press("ArrowRight")
    tab.settle()
    tab.tab_to(".st-key-soft_save button")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector("text=Rules (3)")

    assert saved_rules(query, shared_server.home).rules[2].when == Compare("age", ">=", 65)
