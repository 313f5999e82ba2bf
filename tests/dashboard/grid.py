"""Typing into an editable table: its cells are painted on a canvas, so they are reached by mouse and keyboard."""

from __future__ import annotations

from playwright.sync_api import TimeoutError as TooLate

HEADER = LINE = 35
TRIES, PATIENCE, KEY_PAUSE = 3, 10_000, 30


def type_into(page, key: str, *, line: int, column: int, text: str) -> None:
    """Write into a cell of the table whose key starts with `key`; lines and columns count from 0.

    The editor of a cell may drop what is typed as fast as a machine does, and then sends nothing: a person who sees the
    cell empty would type again, and so it is done here.
    """
    for _ in range(TRIES - 1):
        _type(page, key, line, column, text)
        try:
            return _wait_for_cell(page, key, column, line, "innerText", text, timeout=PATIENCE)
        except TooLate:
            continue
    _type(page, key, line, column, text)
    return _wait_for_cell(page, key, column, line, "innerText", text)


def _type(page, key: str, line: int, column: int, text: str) -> None:
    grid = page.locator(f"[class*=st-key-{key}] .dvn-scroller").first
    grid.scroll_into_view_if_needed()
    grid.click(position={"x": 30, "y": HEADER + LINE * line + LINE / 2})
    # A key that is pressed before the table has taken the last one moves on from the wrong cell.
    _wait_for_cell(page, key, 0, line, "ariaSelected", "true")
    for passed in range(column):
        page.keyboard.press("ArrowRight")
        _wait_for_cell(page, key, passed + 1, line, "ariaSelected", "true")
    page.keyboard.press("Enter")
    # The editor of the cell is there before it listens; what is typed too early is lost.
    page.wait_for_function("document.activeElement?.closest('[id^=gdg-overlay]')")
    page.keyboard.type(text, delay=KEY_PAUSE)
    page.wait_for_function(f"document.activeElement?.value === '{text}'")
    page.keyboard.press("Enter")
    page.wait_for_selector("[id^=gdg-overlay]", state="detached")


def _wait_for_cell(page, key: str, column: int, line: int, what: str, value: str, **patience: float) -> None:
    """The table tells screen readers of its cells; `what` is said of this one."""
    cell = f"[class*=st-key-{key}] [data-testid=glide-cell-{column}-{line}]"
    page.wait_for_function(f"document.querySelector('{cell}')?.{what} === '{value}'", **patience)
