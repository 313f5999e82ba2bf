"""The Data page: a sample in one click, uploads of any shape, roles that are kept, deletion that says what goes."""

from __future__ import annotations

import pytest

from spu_core.workspace import Workspace

CSV = b"id,amount,note,fraud\n" + b"".join(
    b"%d,%d,%s,%d\n" % (row, row * 7 % 100, b"<b>bold</b>" if row % 2 else b"$x$ *y*", row % 10 == 0)
    for row in range(200)
)


@pytest.fixture
def data_page(open_app):
    return open_app("pages/1_data.py")


def test_the_empty_page_offers_a_file_and_the_samples(data_page):
    assert not data_page.exception
    assert {"Anti-cheat game", "Breast cancer"} <= {button.label for button in data_page.button}


def test_one_click_brings_a_sample_with_its_rules(data_page):
    data_page.button(key="sample_breast_cancer").click().run()

    assert not data_page.exception
    assert {metric.label: metric.value for metric in data_page.metric}["Rows"] == "569"
    assert set(data_page.query_params) == {"dataset", "rules"}
    with Workspace.open() as workspace:
        assert [record.name for record in workspace.datasets.list()] == ["Breast cancer"]


def test_an_upload_is_kept_and_shown(data_page):
    data_page.file_uploader(key="data_upload").upload("sales.csv", CSV).run()

    assert not data_page.exception
    values = {metric.label: metric.value for metric in data_page.metric}
    assert (values["Rows"], values["Columns"], values["Rejected lines"]) == ("200", "4", "0")
    with Workspace.open() as workspace:
        assert len(workspace.datasets.list()) == 1


def test_a_file_that_is_no_table_is_refused_in_words(data_page):
    data_page.file_uploader(key="data_upload").upload(
        "login.csv", b"<!DOCTYPE html><html><body>Log in</body></html>"
    ).run()

    assert not data_page.exception
    assert "HTML" in data_page.error[0].value


def test_reading_it_differently_reads_it_again(data_page):
    data_page.file_uploader(key="data_upload").upload("odd.csv", b"a;b\n1,5;2\n2,5;3\n").run()
    data_page.selectbox(key="data_separator").select("comma").run()

    assert not data_page.exception
    with Workspace.open() as workspace:
        assert len(workspace.datasets.list()) == 2


def test_a_link_to_a_dataset_of_somebody_else_is_refused(open_app):
    page = open_app("pages/1_data.py", dataset="0123456789abcdef")

    assert not page.exception
    assert "not in your workspace" in page.warning[0].value


@pytest.mark.browser
def test_upload_refresh_and_a_shared_link_come_back_to_the_same_rows(start_server, open_tab, tmp_path):
    server = start_server()
    (tmp_path / "sales.csv").write_bytes(CSV)
    tab = open_tab(server).open("data")

    tab.page.set_input_files("input[type=file]", str(tmp_path / "sales.csv"))
    tab.page.wait_for_selector("text=What was read")
    tab.settle()
    link = tab.page.url.removeprefix(server.url + "/")
    assert "dataset=" in link
    assert "200" in tab.text

    tab.page.reload()
    tab.settle()
    assert "sales.csv" in tab.text
    assert "What was read" in open_tab(server, width=390).open(link).text


@pytest.mark.browser
def test_text_in_cells_and_headers_stays_text(start_server, open_tab, tmp_path):
    server = start_server()
    hostile = (
        b"<script>alert(1)</script>,$\\frac{1}{2}$,:red[x],fraud\n"
        + b"<img src=x onerror=alert(1)>,*a*,b,1\nc,d,e,0\n" * 30
    )
    (tmp_path / "[x](javascript:alert(1)).csv").write_bytes(hostile)
    tab = open_tab(server).open("data")
    tab.page.on("dialog", lambda dialog: tab.errors.append("a script ran"))

    tab.page.set_input_files("input[type=file]", str(tmp_path / "[x](javascript:alert(1)).csv"))
    tab.page.wait_for_selector("text=What was read")
    tab.settle()

    assert "[x](javascript:alert(1)).csv" in tab.text
    assert tab.page.locator(".katex").count() == 0
    assert tab.page.locator("[data-testid=stApp] a[href^=javascript]").count() == 0
