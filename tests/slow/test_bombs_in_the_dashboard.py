"""Thirty small files that ask for much, brought to a running dashboard: it stays small and answers others."""

import os
import statistics
import time

import psutil
import pytest

from spu_core.engines.processes.os_processes import wait_until
from spu_core.workspace import Home, Workspace
from tests.live import open_tab_in, running_server
from tests.tables.bombs import BOMBS

PATIENCE = 900.0
LONGEST_WAIT = 2.0  # seconds, on two cores that do nothing else
MOST_GROWTH = 200_000_000


def listener(url: str) -> psutil.Process:
    port = int(url.rsplit(":", 1)[1])
    found = (each for each in psutil.net_connections("tcp") if each.status == psutil.CONN_LISTEN)
    return psutil.Process(next(each.pid for each in found if each.laddr.port == port))


def worked(process: psutil.Process) -> float:
    """Seconds of processor time that the process has used."""
    return sum(process.cpu_times()[:2])


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.xdist_group("processes")
@pytest.mark.skipif(
    os.environ.get("SPU_SLOW") != "1", reason="Takes minutes; tests/engines/jobs/test_harmful_files.py has a sample."
)
def test_no_bomb_takes_the_server(browser, tmp_path, monkeypatch):
    monkeypatch.delenv("SPU_WORKER_NICENESS")  # as users have it
    with running_server(tmp_path / "home", tmp_path / "server.log") as server:
        process, waits, told = listener(server.url), [], {}
        brings, looks = open_tab_in(browser, server).open("data"), open_tab_in(browser, server).open("paper")
        before = largest = process.memory_info().rss
        for name, make in BOMBS.items():
            (tmp_path / name).write_bytes(make())
            brings.open("data").page.set_input_files("input[type=file]", str(tmp_path / name))
            with Workspace.join(Home.at(server.home), ".") as workspace:
                assert wait_until(lambda name=name: any(job.title == name for job in workspace.jobs.list()), PATIENCE)
                begun = time.monotonic()
                while not (job := next(job for job in workspace.jobs.list() if job.title == name)).status.is_over:
                    assert time.monotonic() - begun < PATIENCE
                    page = "train" if len(waits) % 2 else "paper"
                    start, asked, busy = time.perf_counter(), looks.runs.seconds, worked(process)
                    looks.open(page)
                    took, answered = time.perf_counter() - start, looks.runs.seconds - asked
                    waits.append((took, answered, worked(process) - busy, page, name))
                    largest = max(largest, process.memory_info().rss)
            told[name] = f"{job.status}: {job.error or job.result}"
            assert "unexpected error" not in job.error, (name, job.error)
            assert "without a message" not in job.error, (name, job.error)
            size = (largest - before) / 1e6
            print(f"{name:38} {time.monotonic() - begun:6.1f} s  +{size:.0f} MB  {told[name][:150]}", flush=True)
            (tmp_path / name).unlink()
        grown = largest - before
        print(f"server grew by {grown / 1e6:.0f} MB; another page:", end=" ")
        print(f"{statistics.median(wait for wait, *_ in waits):.2f} s (median of {len(waits)}); the longest:")
        for took, answered, busy, page, name in sorted(waits)[-5:]:
            print(f"{took:.2f} s until it was drawn, {answered:.2f} s until the server had answered,", end=" ")
            print(f"which worked {busy:.2f} s ({page}, beside {name})")

    assert len(told) == 30
    assert grown <= MOST_GROWTH
    assert max(waits)[0] <= LONGEST_WAIT
