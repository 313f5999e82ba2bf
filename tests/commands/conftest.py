"""What the tests of commands share."""

import pytest


@pytest.fixture
def no_trial(monkeypatch):
    """Bundle files are read without the child process that tries them first, which takes two seconds per file.

    `tests/export/test_foreign_models.py` shows that the commands try them, and the tutorial runs with it.
    """
    monkeypatch.setattr("spu_core.export.bundle_storage.try_in_child", lambda data: None)
