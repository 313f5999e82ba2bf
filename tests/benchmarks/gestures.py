"""What an analyst does on the Soft labels page, as a browser does it; every turn is new, so that no cache answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.live import Tab

Act = Callable[[Tab, int], None]
COMBINERS = ("The strongest", "The mean", "The first in the list", "Log-odds add up")
SHAPES = ("Ramp up", "Ramp down", "Flat")


@dataclass(frozen=True)
class Gesture:
    """Something to do, and what has to be done before it without being measured."""

    act: Act
    before: tuple[Act, ...] = ()


def brush(tab: Tab, turn: int) -> None:
    area = tab.page.locator("[class*=st-key-rule_][class*=_chart] .nsewdrag").first
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    middle, start = box["y"] + box["height"] / 2, box["x"] + (0.1 + 0.05 * turn) * box["width"]
    tab.page.mouse.move(start, middle)
    tab.page.mouse.down()
    tab.page.mouse.move(start + 0.3 * box["width"], middle, steps=8)
    tab.page.mouse.up()


def believe(tab: Tab, turn: int) -> None:
    slider = tab.page.locator("[class*=st-key-rule_][class*=_belief] input[type=range]").first
    slider.focus()
    slider.press("ArrowLeft")


def shape(tab: Tab, turn: int) -> None:
    tab.page.locator("[class*=st-key-rule_][class*=_shape]").get_by_text(SHAPES[turn % 3], exact=True).click()


def switch(tab: Tab, turn: int) -> None:
    tab.page.locator(f"[class*=st-key-soft_][class*=_{turn % 4}_on] label").first.click()


def save(tab: Tab, turn: int) -> None:
    tab.page.locator(".st-key-soft_save button").click()


def undo(tab: Tab, turn: int) -> None:
    tab.page.locator(".st-key-soft_undo button:visible").click()


def choose_column(tab: Tab, turn: int) -> None:
    _choose(tab, "[class*=st-key-rule_][class*=_column] input", f"x{5 + turn}")


def combine(tab: Tab, turn: int) -> None:
    _choose(tab, "[class*=st-key-soft_][class*=_combine] input", COMBINERS[turn % 4])


def raise_floor(tab: Tab, turn: int) -> None:
    box = tab.page.locator("[class*=st-key-soft_][class*=_floor] input")
    box.fill(f"{0.01 * (turn + 1):.2f}")
    box.press("Enter")


def part(name: str) -> Act:
    def open_part(tab: Tab, turn: int) -> None:
        tab.page.get_by_role("tab", name=name, exact=True).click()

    return open_part


def _choose(tab: Tab, where: str, what: str) -> None:
    box = tab.page.locator(where).first
    box.click()
    box.fill(what)
    box.press("Enter")


_CHANGED = (part("Rules"), switch)
GESTURES: dict[str, Gesture] = {
    "a brush": Gesture(brush),
    "a belief": Gesture(believe),
    "a shape": Gesture(shape),
    "another column": Gesture(choose_column),
    "a saved rule": Gesture(save, before=(brush,)),
    "a switched rule": Gesture(switch),
    "an undone change": Gesture(undo),
    "another combiner": Gesture(combine),
    "a floor": Gesture(raise_floor),
    "the analysis": Gesture(part("Analysis"), before=_CHANGED),
    "explain a row": Gesture(part("Explain a row"), before=_CHANGED),
    "the audit": Gesture(part("Audit"), before=_CHANGED),
}
