"""Servers under bad luck: two on one home, one killed in the middle of trainings, many uploads, slow clients."""

import os
import signal
import socket
import time

import pytest

from spu_core.engines import jobs_now, start_worker, wait_for
from spu_core.engines.processes import wait_until
from spu_core.engines.processes.os_processes import find_process
from spu_core.engines.stored_runs import stored_runs
from spu_core.workspace import Home, JobStatus, Workspace, check
from tests.dashboard.trained import bring_sample, train_quickly
from tests.engines.steps import job, sleep
from tests.live import open_tab_in, running_server
from tests.slow.test_bombs_in_the_dashboard import MOST_GROWTH, PATIENCE, listener

HALF_A_PAGE = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
HALF_AN_UPLOAD = (
    b"PUT /_stcore/upload_file/a/b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 400000000\r\n"
    b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n"
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.xdist_group("processes"),
    pytest.mark.skipif(os.environ.get("SPU_SLOW") != "1", reason="Takes minutes: SPU_SLOW=1 runs it."),
]


def test_two_servers_share_a_home_and_the_death_of_one_harms_no_training(browser, tmp_path):
    home = tmp_path / "home"
    with Workspace.open(home) as workspace:
        address = bring_sample(workspace)
        train_quickly(workspace, address)
    query = "&".join(f"{key}={token}" for key, token in address.items())
    with (
        running_server(home, tmp_path / "second.log") as second,
        running_server(home, tmp_path / "first.log") as first,
    ):
        tab = open_tab_in(browser, first).open(f"train?{query}")
        tab.page.get_by_role("button", name="Train", exact=False).first.click()
        with Workspace.join(Home.at(home), ".") as workspace:
            assert wait_until(
                lambda: any(each.status is JobStatus.RUNNING for each in workspace.jobs.active()), PATIENCE
            )
        os.kill(listener(first.url).pid, signal.SIGKILL)
        other = open_tab_in(browser, second).open(f"train?{query}")
        assert "went wrong" not in other.text
        with Workspace.join(Home.at(home), ".") as workspace:
            training = workspace.jobs.list()[0]
            ended = wait_for(workspace, training.id, PATIENCE)
            assert ended.status is JobStatus.FINISHED, ended
            print(f"the training of the killed server ended: {ended.status}, {len(ended.result['runs'])} runs")
            again = [start_worker(workspace, job(sleep(0.2))).id for _ in range(3)]
            assert all(wait_for(workspace, token, PATIENCE).status is JobStatus.FINISHED for token in again)
            assert not [each for each in jobs_now(workspace) if not each.status.is_over]
    assert check(home).is_well


def test_a_training_whose_server_and_workers_are_killed_is_interrupted_in_words_and_starts_again(browser, tmp_path):
    home = tmp_path / "home"
    with Workspace.open(home) as workspace:
        address = bring_sample(workspace)
        earlier = train_quickly(workspace, address)
    query = "&".join(f"{key}={token}" for key, token in address.items())
    with running_server(home, tmp_path / "first.log") as first:
        tab = open_tab_in(browser, first).open(f"train?{query}")
        tab.page.get_by_role("button", name="Train", exact=False).first.click()
        with Workspace.join(Home.at(home), ".") as workspace:
            assert wait_until(lambda: any(each.share > 0.1 for each in workspace.jobs.active()), PATIENCE)
            training = workspace.jobs.active()[0]
        supervisor = find_process(training.worker)
        for process in (listener(first.url), supervisor, *supervisor.children(recursive=True)):
            process.kill()

    with running_server(home, tmp_path / "again.log") as again:
        tab = open_tab_in(browser, again).open(f"train?{query}")
        assert "The training was interrupted" in tab.text
        with Workspace.join(Home.at(home), ".") as workspace:
            left = [run.id for run in workspace.runs.list()]
            assert set(earlier) <= set(left)
            assert len(stored_runs(workspace, left)) == len(left)  # each is whole, or could not be loaded
            print(
                f"killed at {training.share:.0%}: {workspace.jobs.get(training.id).error!r}, {len(left) - 3} runs kept"
            )
            tab.page.get_by_role("button", name="Start again").click()
            assert wait_until(lambda: not workspace.jobs.get(training.id).status.is_over, PATIENCE)
            ended = wait_for(workspace, training.id, PATIENCE)
            assert ended.status is JobStatus.FINISHED, ended
            assert len(stored_runs(workspace, ended.result["runs"])) > 1
    assert check(home).is_well


def test_what_two_servers_on_one_home_save_at_the_same_time_is_there_for_both(browser, tmp_path):
    home = tmp_path / "home"
    with (
        running_server(home, tmp_path / "first.log") as first,
        running_server(home, tmp_path / "second.log") as second,
    ):
        tabs = [open_tab_in(browser, server).open("data") for server in (first, second) for _ in range(2)]
        for number, tab in enumerate(tabs):
            (tmp_path / f"table{number}.csv").write_text(f"id,y\n{number},1\n" + "5,0\n" * 200)
            tab.page.set_input_files("input[type=file]", str(tmp_path / f"table{number}.csv"))
        for tab in tabs:
            tab.page.get_by_role("heading", name="What was read").wait_for()
            tab.settle()
        with Workspace.join(Home.at(home), ".") as workspace:
            saved = {item.name: item.id for item in workspace.datasets.list()}
        assert len(saved) == len(tabs)
        for name, token in saved.items():
            for tab in (tabs[0], tabs[-1]):
                assert name in tab.open(f"data?dataset={token}").text
    assert check(home).is_well


def test_five_uploads_of_fifty_megabytes_at_once_all_arrive(browser, tmp_path):
    line = "{},{:.6f},{:.6f},some text that repeats,{}\n"
    with running_server(tmp_path / "home", tmp_path / "server.log") as server:
        process = listener(server.url)
        tabs = [open_tab_in(browser, server).open("data") for _ in range(5)]
        before = process.memory_info().rss
        for number, tab in enumerate(tabs):
            path = tmp_path / f"table{number}.csv"
            rows = (line.format(n, n / 7, n / 11 + number, n % 2) for n in range(950_000))
            path.write_text("id,a,b,c,y\n" + "".join(rows))
            tab.page.set_input_files("input[type=file]", str(path))
        with Workspace.join(Home.at(server.home), ".") as workspace:
            assert wait_until(lambda: len(workspace.jobs.list()) == 5, PATIENCE)
            largest = process.memory_info().rss
            for each in workspace.jobs.list():
                assert wait_for(workspace, each.id, PATIENCE).status is JobStatus.FINISHED
                largest = max(largest, process.memory_info().rss)
            assert sorted(item.n_rows for item in workspace.datasets.list()) == [950_000] * 5
        print(f"five uploads: the server grew by {(largest - before) / 1e6:.0f} MB")


def test_an_upload_beyond_the_limit_is_refused_by_the_browser_and_by_the_server(browser, tmp_path):
    small, large = tmp_path / "small.csv", tmp_path / "large.csv"
    small.write_text("a,b\n" + "1,2\n" * 100)
    large.write_text("a,b\n" + "1,2\n" * 1_000_000)
    with running_server(tmp_path / "home", tmp_path / "server.log", STREAMLIT_SERVER_MAX_UPLOAD_SIZE="2") as server:
        tab = open_tab_in(browser, server).open("data")
        tab.page.set_input_files("input[type=file]", str(large))
        tab.page.get_by_text("must be 2.0MB or smaller").wait_for()
        sent = []
        tab.page.on("request", lambda request: sent.append(request) if "upload_file" in request.url else None)
        tab.page.set_input_files("input[type=file]", str(small))
        assert wait_until(lambda: tab.page.wait_for_timeout(50) or any(each.method == "PUT" for each in sent), PATIENCE)
        asked = next(each for each in sent if each.method == "PUT")
        answer = tab.page.request.put(
            asked.url,
            headers={name: value for name, value in asked.headers.items() if name.lower().startswith("x-")},
            multipart={"file": {"name": "large.csv", "mimeType": "text/csv", "buffer": large.read_bytes()}},
        )
        assert answer.status == 413
        tab.open("paper")


def test_clients_that_send_half_a_request_keep_nobody_out(browser, tmp_path):
    with running_server(tmp_path / "home", tmp_path / "server.log") as server:
        tab = open_tab_in(browser, server).open("paper")
        start = time.perf_counter()
        tab.open("train")
        alone = time.perf_counter() - start
        address, process = ("127.0.0.1", int(server.url.rsplit(":", 1)[1])), listener(server.url)
        before = process.memory_info().rss
        slow = [socket.create_connection(address) for _ in range(300)]
        for number, each in enumerate(slow):
            each.sendall((HALF_A_PAGE, HALF_AN_UPLOAD)[number % 2])
        start = time.perf_counter()
        tab.open("paper")
        print(f"a page: {alone:.2f} s alone, {time.perf_counter() - start:.2f} s beside 300 slow clients")
        assert process.memory_info().rss - before < MOST_GROWTH
        for each in slow:
            each.close()
