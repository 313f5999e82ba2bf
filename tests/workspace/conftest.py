import pytest

from spu_core.workspace import Workspace


@pytest.fixture
def workspace(tmp_path):
    with Workspace.open(tmp_path / "home") as opened:
        yield opened
