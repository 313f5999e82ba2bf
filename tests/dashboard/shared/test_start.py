"""The start page: it says what this is, offers the steps, and is reachable from this computer only."""

from __future__ import annotations

import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest
from streamlit.testing.v1 import AppTest

from pages.ui.shared.shell import STEPS
from spu_core.tables.samples import load_sample
from spu_core.workspace import Workspace

ROOT = Path(__file__).resolve().parents[3]


def test_the_start_page_says_what_this_is_and_offers_the_steps():
    page = AppTest.from_file(str(ROOT / "app.py"), default_timeout=600).run()

    assert not page.exception
    assert page.title[0].value == "SPU Studio"
    words = " ".join(element.value for element in page.markdown)
    assert "confirmed cases" in words
    assert {button.label for button in page.button} >= {"Upload data", "Try a sample"}
    for step in ("1. Data", "2. Soft labels", "3. Train", "4. Compare", "5. Trust", "6. Export", "7. Paper"):
        assert step in words


def test_every_step_has_its_page():
    assert [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("pages/[0-9]*.py"))] == [
        step.file for step in STEPS
    ]


@pytest.mark.browser
def test_the_start_page_opens_in_a_browser_wide_narrow_light_and_dark(shared_server, open_tab):
    server = shared_server

    for width, dark in ((1280, False), (1280, True), (390, False)):
        tab = open_tab(server, width=width, dark=dark).open()
        assert "No confirmed negatives needed" in tab.text
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_server_is_not_reachable_from_other_computers(shared_server):
    port = int(shared_server.url.rsplit(":", 1)[1])

    listening = [each for child in psutil.Process().children(recursive=True) for each in open_ports(child)]

    assert {each.ip for each in listening if each.port == port} == {"127.0.0.1"}


def open_ports(process):
    """The addresses on which a process listens; none where it has ended meanwhile."""
    try:
        return [each.laddr for each in process.net_connections("tcp") if each.status == psutil.CONN_LISTEN]
    except psutil.NoSuchProcess:
        return []


def test_answers_carry_headers_against_other_sites_and_metrics_are_closed(shared_server):
    with urllib.request.urlopen(shared_server.url) as answer:
        headers = answer.headers
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"

    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{shared_server.url}/_stcore/metrics")


LOADED_AND_FROZEN = """
import asyncio, gc, sys
from pages.ui import serve

async def check():
    async with serve.prepared(serve.app):
        assert "pages.ui.train.training" in sys.modules
        frozen = gc.get_freeze_count()
        assert frozen > 0.9 * (frozen + len(gc.get_objects()))
        gc.collect()
        assert gc.get_freeze_count() == frozen, "nothing was loaded"
        assert "xmlrpc.server" not in sys.modules
        import xmlrpc.server
        gc.collect(0)
        assert gc.get_freeze_count() == frozen, "garbage was looked for in the youngest objects only"
        gc.collect()
        assert gc.get_freeze_count() > frozen

asyncio.run(check())
"""


def test_pages_are_loaded_before_the_first_visit_and_left_out_of_the_garbage_collection_after_each_run():
    ended = subprocess.run([sys.executable, "-c", LOADED_AND_FROZEN], cwd=ROOT, capture_output=True, text=True)

    assert ended.returncode == 0, ended.stderr


def test_an_installed_wheel_opens_the_dashboard_in_any_folder(tmp_path, monkeypatch):
    built = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "--quiet", "-w", str(tmp_path / "wheel")],
        capture_output=True,
        text=True,
    )
    if built.returncode:
        pytest.skip(f"no wheel could be built here: {built.stderr.strip().splitlines()[-1]}")
    wheel = next((tmp_path / "wheel").glob("*.whl"))
    site = tmp_path / "site"
    shutil.unpack_archive(wheel, site, "zip")  # all that installing such a wheel does
    code = "from spu_core.cli import dashboard_folder as found; print(found())"
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(site), "PATH": ""},
    )
    folder = Path(result.stdout.strip())

    assert folder == site / "spu_core" / "_dashboard"
    assert {path.name for path in (ROOT / "pages").glob("*.py")} == {p.name for p in (folder / "pages").glob("*.py")}
    assert (folder / ".streamlit" / "config.toml").is_file()
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    assert not AppTest.from_file(str(folder / "app.py"), default_timeout=600).run().exception


def test_the_start_page_goes_on_where_the_work_stopped(open_app):
    with Workspace.open() as workspace:
        dataset = workspace.datasets.save(load_sample("breast_cancer"), "claims.csv")
    page = open_app("app.py", dataset=dataset.id)

    assert page.button(key="start_continue").label.replace("\\", "") == "Continue: claims.csv, step Soft labels"


def test_a_sample_is_one_click_away(open_app):
    page = open_app("app.py")
    page.button(key="start_sample").click().run()

    assert not page.exception
    with Workspace.open() as workspace:
        assert [each.name for each in workspace.datasets.list()] == ["Anti-cheat game"]
