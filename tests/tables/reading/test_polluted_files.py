"""Clean tables with one kind of pollution each are read as if they were clean, or nearly so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.pollution import Polluted, clean_tables, corpus, read_corpus, write_corpus
from tests.benchmarks.readers import READERS, score

FILES = corpus()
# Rows that lost their shape are rejected and named; a name that swallowed another cannot be taken apart.
LEAST = {"row_": 9.85, "header_missing_separator": 8.4, "header_numbers": 9.5}
# A header such as `region,0,18,65` over numbers looks like a row.
NOT_READ = {"header_numbers_ages.csv"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("polluted")


@pytest.mark.parametrize("kind", sorted({file.kind for file in FILES}))
def test_files_of_each_kind_are_read_as_their_author_meant(kind: str, folder: Path) -> None:
    files = [file for file in FILES if file.kind == kind and file.name not in NOT_READ]
    step = max(1, len(files) // 8)
    least = next((value for start, value in LEAST.items() if kind.startswith(start)), 10.0)
    for file in files[::step]:
        assert points(file, folder) >= least, file.name


def points(file: Polluted, folder: Path) -> float:
    path = folder / file.name
    path.write_bytes(file.content)
    return score(READERS["ours"][1](path), file)


def test_a_lost_header_costs_three_points() -> None:
    table = clean_tables()[3]
    truth = table.polluted("clean", "")

    assert score((table.header, list(table.rows)), truth) == 10.0
    assert score((None, list(table.rows)), truth) == 7.0
    assert score((table.header, []), truth) == 4.0


def test_a_corpus_survives_its_folder(tmp_path: Path) -> None:
    write_corpus(tmp_path)

    assert sorted(read_corpus(tmp_path), key=lambda file: file.name) == sorted(FILES, key=lambda file: file.name)
