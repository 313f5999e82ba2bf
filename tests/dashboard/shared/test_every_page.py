"""What holds for every page: cold deep links, empty states, failures told in words, text that stays text."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from spu_core.workspace import Workspace
from tests.dashboard.shared.failing_server import fail
from tests.dashboard.trained import bring_sample, train_quickly
from tests.live import ROOT, running_server
from tests.workspace.scenario import unwritable

PAGES = sorted(path.name for path in (ROOT / "pages").glob("[0-9]_*.py"))


@pytest.mark.parametrize("name", PAGES)
def test_an_empty_workspace_is_no_failure(open_app, name):
    page = open_app(f"pages/{name}")

    assert not page.exception
    assert not page.error
    assert len(page.title) == 1


@pytest.mark.parametrize("name", PAGES)
def test_what_a_page_chose_by_itself_is_in_its_address(open_app, name):
    with Workspace.open() as workspace:
        address = bring_sample(workspace)

    page = open_app(f"pages/{name}")

    assert not page.exception
    shown = {key: page.query_params[key] for key in address}
    assert {key: "".join(token) for key, token in shown.items()} == address  # AppTest gives a list of one, or its text


@pytest.mark.parametrize("part", ["frame", "content"])
@pytest.mark.parametrize("name", PAGES)
def test_a_failure_gets_a_reference_and_no_traceback(open_app, monkeypatch, caplog, name, part):
    for function in ["pages.ui.shared.shell.marks_of"] if part == "frame" else functions_of_page(name):
        monkeypatch.setattr(function, fail)
    with Workspace.open() as workspace:
        address = bring_sample(workspace)
    page = open_app(f"pages/{name}", **address)

    assert not page.exception
    assert len(page.title) == 1
    shown = page.error[0].value
    assert "secret detail" not in shown
    assert reference_in(shown) in caplog.text
    assert "secret detail" in caplog.text
    assert_lines_are_ours(caplog.text)


@pytest.mark.browser
def test_a_failure_that_no_page_guards_gets_a_reference_too(tmp_path, open_tab):
    command = "-m tests.dashboard.shared.failing_server --server.headless true --server.port"
    log = tmp_path / "server.log"
    with running_server(tmp_path / "home", log, command=command, SPU_HOME=str(tmp_path / "home")) as server:
        tab = open_tab(server)
        shown = [tab.open(re.sub(r"^\d_|\.py$", "", name)).text for name in (PAGES[0], PAGES[-1])]

    logged = log.read_text()
    assert not [text for text in shown if "secret detail" in text or "Traceback" in text]
    assert {reference_in(text) for text in shown} <= set(re.findall("reference ([0-9a-f]{8})", logged))
    assert "secret detail" in logged
    assert_lines_are_ours(logged)


def functions_of_page(name):
    """What the page calls to draw its content, by dotted name."""
    tree = ast.parse((ROOT / "pages" / name).read_text())
    found = [
        f"{node.module}.{each.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("pages.ui.")
        for each in node.names
    ]
    return [function for function in found if function != "pages.ui.shared.shell.open_page"]


def reference_in(text):
    return re.search(r"under reference \W*([0-9a-f]{8})", text).group(1)


def assert_lines_are_ours(log):
    """What a user typed cannot pass for a line of the log, nor change the terminal that shows it."""
    assert "\n2030-01-01" not in log
    assert "\x1b" not in log


def test_every_page_of_a_read_only_home_shows_what_is_there_and_the_files_can_be_downloaded(
    open_app, tmp_path, monkeypatch
):
    with unwritable(tmp_path / "home") as (home, lock):
        with Workspace.open(home) as workspace:
            address = bring_sample(workspace)
            train_quickly(workspace, address)
        monkeypatch.setenv("SPU_HOME", str(home))
        lock()
        for name in PAGES:
            page = open_app(f"pages/{name}", **address)
            assert not page.exception, name
            told = [error.value for error in page.error]
            assert not [words for words in told if "written" in words or "went wrong" in words], (name, told)
            assert "is read-only" in page.warning[0].value, name
        page = open_app("pages/6_export.py", **address)
        assert {button.label for button in page.get("download_button")} == {"Download"}
    assert not open_app("pages/1_data.py").warning


@pytest.mark.browser
def test_a_browser_downloads_every_form_of_a_model_from_a_read_only_home(tmp_path, open_tab):
    with unwritable(tmp_path / "home") as (home, lock):
        with Workspace.open(home) as workspace:
            address = bring_sample(workspace)
            train_quickly(workspace, address)
        lock()
        with running_server(home, tmp_path / "server.log") as server:
            tab = open_tab(server).open("export?" + "&".join(f"{key}={token}" for key, token in address.items()))
            assert "is read-only" in tab.text
            buttons = tab.page.locator("[data-testid=stDownloadButton] button")
            sizes = {}
            for number in range(buttons.count()):
                with tab.page.expect_download() as download:
                    buttons.nth(number).click()
                sizes[download.value.suggested_filename] = download.value.path().stat().st_size
            tab.settle()
    assert len(sizes) >= 4
    assert min(sizes.values()) > 500, sizes


def test_what_the_engine_refuses_is_shown_as_its_sentence(open_app, monkeypatch, tmp_path):
    """A workspace of a newer version is refused by the engine; the page says its sentence."""
    import sqlite3
    from contextlib import closing

    with Workspace.open(tmp_path / "newer"):
        pass
    with closing(sqlite3.connect(tmp_path / "newer" / "catalogue.sqlite")) as catalogue:
        catalogue.execute("PRAGMA user_version = 999")
    monkeypatch.setenv("SPU_HOME", str(tmp_path / "newer"))

    page = open_app("pages/1_data.py")

    assert not page.exception
    assert "The workspace SPU" in page.error[0].value  # the folder of the server is not told
    assert "has schema version 999" in page.error[0].value
    assert str(tmp_path.name) not in page.error[0].value


def test_pages_are_numbered_as_the_steps_are():
    from pages.ui.shared.shell import STEPS

    for step in STEPS:
        assert Path(step.file).name.startswith(f"{step.number}_")
    assert set(PAGES) <= {Path(step.file).name for step in STEPS}
    assert AppTest.from_file(str(ROOT / "app.py"), default_timeout=600).run().title[0].value == "SPU Studio"
