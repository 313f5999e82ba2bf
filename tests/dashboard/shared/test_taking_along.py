"""What people take along from a page: tables as CSV that is safe in a spreadsheet, charts as pictures."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from pages.ui.shared.show import safe_to_download
from spu_core.engines.stored_runs import summary_table
from spu_core.tables import read_table
from spu_core.training import Candidate
from spu_core.workspace import Workspace
from tests.dashboard.trained import bring_sample, train_quickly
from tests.live import ROOT

FORMULA = "=cmd|' /C calc'!A0"
CSV = f"id,@handle,=x,change,note,fraud\n1,@ann,a,-1.5,{FORMULA},1\n2,@bob,b,2.25,'=quoted,0\n3,,c,,fine,0\n" + "".join(
    f"{row},@u{row},d,0.5,none,{row % 2}\n" for row in range(4, 40)
)
# Chromium asks where to save a file in a window of its own; without that question it is a download like any other.
NO_QUESTION = "delete window.showSaveFilePicker"


@pytest.fixture
def open_quietly(shared_server, open_tab):
    def open_one(path: str):
        tab = open_tab(shared_server, height=1600)
        tab.page.add_init_script(NO_QUESTION)
        return tab.open(path)

    return open_one


def test_what_could_run_in_a_spreadsheet_is_sent_with_an_apostrophe_and_shown_without():
    frame = pd.DataFrame({"=x": [FORMULA, "'=quoted", None], "'=x": ["a", "-5", "@b"], "n": [-1.0, None, 2.5]})

    kept, titles = safe_to_download(frame)

    assert list(kept.data) == ["''=x", "'=x", "n"]
    assert kept.data["''=x"].tolist()[:2] == [f"'{FORMULA}", "'=quoted"]
    assert kept.data["'=x"].tolist() == ["a", "-5", "'@b"]
    assert kept.data["n"].tolist()[::2] == [-1.0, 2.5]
    assert {name: title["label"] for name, title in titles.items()} == {"''=x": "=x"}
    shown = kept.to_html()
    assert FORMULA.replace("'", "&#x27;") in shown or FORMULA in shown
    assert "&#x27;=cmd" not in shown
    assert "'=cmd" not in shown
    assert "'=quoted" in shown


def test_a_harmless_table_is_sent_as_it_is():
    frame = pd.DataFrame({"name": ["a", "-5"], "n": [1, 2]})

    kept, titles = safe_to_download(frame)

    pd.testing.assert_frame_equal(kept, frame, check_dtype=False)
    assert titles == {}


def test_every_table_of_the_pages_is_one_that_can_be_taken_along():
    raw = re.compile(r"\bst\.(dataframe|data_editor|table)\(")
    files = [path for path in (ROOT / "pages").rglob("*.py") if raw.search(path.read_text(encoding="utf-8"))]

    assert [path.name for path in files] == ["show.py"]


@pytest.mark.browser
def test_the_preview_and_the_roles_leave_as_csv_that_runs_nowhere(shared_server, open_quietly):
    with Workspace.open(shared_server.home) as workspace:
        dataset = workspace.datasets.save(read_table(CSV.encode(), name="formulas.csv"))
    tab = open_quietly(f"data?dataset={dataset.id}")

    preview, roles = saved_csv(tab, 0), saved_csv(tab, 1)

    assert list(preview) == ["row", "id", "'@handle", "'=x", "change", "note", "fraud"]
    assert preview["row"].tolist() == list(range(1, 40))
    assert preview["note"].tolist()[:3] == [f"'{FORMULA}", "'=quoted", "fine"]
    assert preview["'@handle"].tolist()[:2] == ["'@ann", "'@bob"]
    assert preview["change"].tolist()[:2] == [-1.5, 2.25]
    assert roles["column"].tolist() == ["id", "'@handle", "'=x", "change", "note", "fraud"]
    assert roles["examples"][4].startswith(f"'{FORMULA}")


@pytest.mark.browser
def test_the_leaderboard_leaves_with_all_its_figures(shared_server, open_quietly):
    with Workspace.open(shared_server.home) as workspace:
        address = bring_sample(workspace, "taken along")
        train_quickly(workspace, address, [Candidate("logistic", name=FORMULA), Candidate("rule_score")])
        figures = summary_table(workspace.runs.list(address["dataset"])).set_index("name")["auc_spu"]
    tab = open_quietly(f"compare?dataset={address['dataset']}&rules={address['rules']}")

    board = saved_csv(tab, 0)

    assert {"name", "known_positive_auc", "auc_spu", "share_of_ceiling"} <= set(board)
    names = board["name"].str.removesuffix(" (reference)")
    assert set(names) == {f"'{FORMULA}", *figures.index.drop(FORMULA)}
    for name, figure in zip(names, board["auc_spu"], strict=True):
        assert figure == pytest.approx(figures[name.removeprefix("'")])


@pytest.mark.browser
def test_a_chart_of_the_paper_leaves_as_png_and_as_svg(open_quietly):
    tab = open_quietly("paper?experiment=table1")

    assert saved_picture(tab).read_bytes().startswith(b"<svg")
    tab.page.locator(".st-key-paper_image").get_by_text("PNG").click()
    tab.settle()
    assert saved_picture(tab).read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def saved_csv(tab, place: int) -> pd.DataFrame:
    """What the toolbar of a table of the page saves."""
    tables = "[data-testid=stElementContainer]:has([data-testid=stDataFrame])"
    table = tab.page.locator(tables).nth(place)
    with tab.page.expect_download() as download:
        # By the keyboard: what the mouse would click on appears only where it hovers.
        table.get_by_role("button", name="Download as CSV").press("Enter")
    assert re.fullmatch(r"[\dT-]+_export\.csv", download.value.suggested_filename)
    return pd.read_csv(download.value.path())


def saved_picture(tab) -> Path:
    chart = tab.page.locator("[class*=st-key-paper_][class*=_chart] [data-testid=stPlotlyChart]").first
    chart.scroll_into_view_if_needed()
    chart.locator(".nsewdrag").first.hover()
    with tab.page.expect_download() as download:
        chart.locator(".modebar-btn[data-title^=Download]").click()
    return Path(download.value.path())
