"""`spu workspace check --jobs` tries real workers, says what is wrong with them, and leaves nothing behind."""

import re

from spu_core.engines import check_jobs
from spu_core.engines.processes import job_queue


def test_workers_of_a_sound_machine_have_no_problems_but_its_load(workspace):
    problems = [str(problem) for problem in check_jobs(workspace, seconds=600)]

    assert not [words for words in problems if not re.match(r"Cancelling took \d", words)]
    assert workspace.jobs.list() == ()


def test_workers_that_cannot_start_are_named(workspace, monkeypatch):
    def refuse(*arguments, **options):
        raise OSError(8, "Exec format error")

    monkeypatch.setattr(job_queue, "spawn", refuse)

    first, second = map(str, check_jobs(workspace, seconds=1))

    assert first.startswith("A job without work is failed after 1 seconds. The worker could not be started")
    assert second.startswith("A cancelled job is failed.")
    assert workspace.jobs.list() == ()
