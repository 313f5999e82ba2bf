"""Typing into an editable table: its cells are painted on a canvas, so they are reached by mouse and keyboard."""

from __future__ import annotations

HEADER = LINE = 35


def type_into(page, key: str, *, line: int, column: int, text: str) -> None:
    """Write into a cell of the table whose key starts with `key`; lines and columns count from 0."""
    grid = page.locator(f"[class*=st-key-{key}] .dvn-scroller").first
    grid.scroll_into_view_if_needed()
    grid.click(position={"x": 30, "y": HEADER + LINE * line + LINE / 2})
    for _ in range(column):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    # The editor of the cell is there before it listens; what is typed too early is lost.
    page.wait_for_function("document.activeElement?.closest('[id^=gdg-overlay]')")
    page.keyboard.type(text)
    page.wait_for_function(f"document.activeElement?.value === '{text}'")
    page.keyboard.press("Enter")
    page.wait_for_selector("[id^=gdg-overlay]", state="detached")
    cell = f"[class*=st-key-{key}] [data-testid=glide-cell-{column}-{line}]"
    page.wait_for_function(f"document.querySelector('{cell}')?.innerText === '{text}'")
