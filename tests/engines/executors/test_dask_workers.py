"""Workers on this computer leave no trace in the process that started them, and do not outlive it."""

from __future__ import annotations

import json
import subprocess
import sys

import psutil
import pytest

pytestmark = pytest.mark.xdist_group("cluster")

# Read from standard input: as from a notebook, there is no file that workers could import.
_BORROWING = """
import json, os
import dask, distributed
from spu_core.engines.executors import open_cluster

def state():
    return {"environment": dict(os.environ), "settings": json.dumps(dask.config.config, default=str), "file": __file__}

def seen(cluster):
    return cluster.client.submit(lambda: (os.environ.get("A_VARIABLE"), os.environ["OMP_WAIT_POLICY"])).result()

before = state()
first, second = open_cluster(workers=1), open_cluster(workers=1)
found = [seen(first.__enter__())]
os.environ["A_VARIABLE"] = before["environment"]["A_VARIABLE"] = "set between"
found.append(seen(second.__enter__()))
first.__exit__(None, None, None)
found.append(dask.config.get("distributed.worker.multiprocessing-method"))
second.__exit__(None, None, None)
print(json.dumps({"found": found, "before": before, "after": state()}))
"""

_WAITING = """
import time
from spu_core.engines.executors import open_cluster

def work(_):
    while True:
        pass

if __name__ == "__main__":
    with open_cluster(workers=2) as cluster:
        futures = cluster.client.map(work, range(2), pure=False)
        print("working", flush=True)
        time.sleep(600)
"""


def test_two_clusters_of_a_piped_script_give_back_what_they_changed_in_whichever_order_they_close():
    result = subprocess.run(
        [sys.executable, "-"], input=_BORROWING, capture_output=True, text=True, check=False, timeout=300
    )

    assert result.returncode == 0, result.stderr[-2_000:]
    told = json.loads(result.stdout)
    method = "spawn" if sys.platform == "win32" else "forkserver"
    assert told["found"] == [[None, "PASSIVE"], ["set between", "PASSIVE"], method]
    assert told["after"] == told["before"]


def test_no_worker_outlives_a_caller_that_is_killed_at_work(tmp_path):
    script = tmp_path / "waiting.py"
    script.write_text(_WAITING)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout is not None
        assert caller.stdout.readline() == "working\n"
        descendants = psutil.Process(caller.pid).children(recursive=True)
        caller.kill()

    assert len(descendants) >= 3  # two workers, and the process that they were forked from
    _, alive = psutil.wait_procs(descendants, timeout=300)
    assert alive == []
