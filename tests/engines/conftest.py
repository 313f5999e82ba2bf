import pytest

from spu_core.engines import cancel
from spu_core.workspace import Workspace


@pytest.fixture
def workspace(tmp_path):
    """A workspace of its own; whatever a failed test left running ends with it."""
    with Workspace.open(tmp_path / "home") as opened:
        yield opened
        for job in opened.jobs.active():
            cancel(opened, job.id)
