"""Settings refuse nonsense, and provenance tells the commit without the folders of this computer."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from spu_core.errors import SpuError
from spu_core.experiments import EXPERIMENTS, ExperimentSettings
from spu_core.experiments import catalog as module
from spu_core.experiments.catalog import commit_of_program, provenance


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"scale": "huge"}, "scale must be one of 'smoke', 'full', got 'huge'"),
        ({"seeds": 0}, "seeds must be at least 1, got 0"),
        ({"threads": 0}, "threads must be at least 1, got 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(given, message):
    with pytest.raises(SpuError, match=message):
        ExperimentSettings(**given)


def test_provenance_keeps_sizes_and_no_folder():
    made = provenance(ExperimentSettings(data=Path("secret"), seeds=3), 12.34, worlds=10)

    assert made.settings == {"seeds": 3, "scale": "full", "threads": 1, "worlds": 10}
    assert made.seconds == 12.3


def git(folder, *words):
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository with one file of the engine, which the program takes for itself."""
    file = tmp_path / "spu_core" / "experiments" / "settings.py"
    (file.parent / "results").mkdir(parents=True)
    file.write_text("# settings\n")
    (file.parent / "results" / "table1.json").write_text("{}")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    monkeypatch.setattr(module, "__file__", str(file))
    return file


def test_a_commit_is_marked_where_the_engine_has_changes_but_not_for_results(checkout):
    clean = commit_of_program()
    assert re.fullmatch("[0-9a-f]{40}", clean)
    (checkout.parent / "results" / "table1.json").write_text('{"new": 1}')
    assert commit_of_program() == clean
    checkout.write_text("# changed\n")
    assert commit_of_program() == f"{clean} with changes"


def test_outside_a_checkout_the_version_stands_for_the_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "__file__", str(tmp_path / "a" / "b.py"))

    assert commit_of_program().startswith("version ")


def test_every_experiment_says_what_it_is():
    for name, each in EXPERIMENTS.items():
        assert each.name == name
        assert each.title
        assert each.description.endswith((".", "?"))
        assert each.typical_minutes > 0
