"""A dashboard whose pages fail outside of all that guards them: `python -m tests.dashboard.shared.failing_server …`."""

import contextlib
import runpy

from pages.ui.shared import shell

DETAIL = "secret detail\n2030-01-01 INFO all is well\x1b[2J"


def fail(*_):
    raise RuntimeError(DETAIL)


if __name__ == "__main__":
    shell.marks_of = fail
    shell.show_errors = lambda title: contextlib.nullcontext()
    runpy.run_module("pages.ui.launch", run_name="__main__")
