"""People who log in see their own work only, even with equal file names, and links to others' work are refused."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from spu_core.training import Candidate, TrainConfig, TrainPlan
from spu_core.workspace import Home, JobStatus, Workspace
from spu_core.workspace.records import new_id
from tests.dashboard.trained import bring_sample

PAGE = "pages/1_data.py"


class LoggedIn(dict):
    is_logged_in = True


@pytest.fixture
def log_in(monkeypatch):
    """Be somebody: the login itself is Streamlit's, what we do with the person is ours."""

    def be(subject: str | None) -> None:
        person = SimpleNamespace(is_logged_in=False)
        if subject is not None:
            person = LoggedIn(iss="https://login.example", sub=subject)
        monkeypatch.setattr("pages.ui.shared.login.login_is_configured", lambda: True)
        monkeypatch.setattr("pages.ui.shared.shell.login_is_configured", lambda: True)
        monkeypatch.setattr("streamlit.user", person)

    return be


def rows_of(count: int) -> bytes:
    return b"id,amount,fraud\n" + b"".join(b"%d,%d,%d\n" % (row, row, row % 9 == 0) for row in range(count))


def test_equal_file_names_of_two_people_stay_apart(open_app, log_in):
    links = {}
    for subject, count in (("ann", 120), ("bob", 340)):
        log_in(subject)
        page = open_app(PAGE)
        page.file_uploader(key="data_upload_0").upload("sales.csv", rows_of(count)).run()
        assert {metric.label: metric.value for metric in page.metric}["Rows"] == str(count)
        links[subject] = page.query_params["dataset"]

    for subject in ("ann", "bob"):
        with Workspace.open_for("https://login.example", subject, Home.default()) as workspace:
            assert [record.n_rows for record in workspace.datasets.list()] == [120 if subject == "ann" else 340]

    log_in("ann")
    other = links["bob"]
    page = open_app(PAGE, dataset=other[0] if isinstance(other, list) else other)
    assert "not in your workspace" in page.warning[0].value
    assert "340" not in {metric.value for metric in page.metric}


def test_without_a_login_no_page_shows_anything(open_app, log_in):
    log_in(None)
    page = open_app(PAGE)

    assert not page.exception
    assert page.title[0].value == "Log in"
    assert [button.label for button in page.button] == ["Log in"]
    assert not page.metric


@pytest.mark.parametrize("subject", [None, "ann"])
def test_the_log_of_a_failed_training_is_shown_only_where_nobody_logs_in(open_app, log_in, subject):
    home = Home.default()
    if subject is not None:
        log_in(subject)
        workspace = Workspace.open_for("https://login.example", subject, home)
    else:
        workspace = Workspace.open()
    with workspace:
        address = bring_sample(workspace)
        plan = TrainPlan(TrainConfig(folds=2), (Candidate("logistic"),)).to_json()
        parameters = {"dataset": address["dataset"], "rule_set": address["rules"], "rule_set_version": 1, "plan": plan}
        job = new_id()
        workspace.jobs.add(job, "train", "1 candidate", parameters, {})
        workspace.jobs.end(workspace.jobs.begin(job), JobStatus.FAILED, f"The disk under {home.folder} is full.")
        workspace.jobs.log_path(job).write_text(f"Traceback of {home.folder}")

    page = open_app("pages/3_train.py", **address)

    assert not page.exception
    words = [element.value for element in (*page.markdown, *page.code)]
    assert any("SPU\\_HOME is full" in word for word in words)
    assert bool([word for word in words if str(home.folder) in word]) == (subject is None)
    assert len(page.code) == (subject is None)
