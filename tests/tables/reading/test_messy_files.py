"""Every messy file gets the reading it deserves: values, rejected lines, findings, or an error in words."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from spu_core.errors import TableError
from spu_core.tables import Dialect, Severity, Table, read_table

_spec = importlib.util.spec_from_file_location("messy_files", Path(__file__).with_name("messy_files.py"))
assert _spec is not None
assert _spec.loader is not None
messy_files = importlib.util.module_from_spec(_spec)
sys.modules["messy_files"] = messy_files
_spec.loader.exec_module(messy_files)

FILES = messy_files.all_files()
READABLE = [file for file in FILES if file.error is None]
REFUSED = [file for file in FILES if file.error is not None]


@cache
def read_once(name: str) -> Table:
    return read(next(file for file in READABLE if file.name == name))


def read(file: Any) -> Table:
    options = dict(file.options)
    types = options.pop("types", None)
    return read_table(file.content, name="file.csv", dialect=Dialect(**options), types=types)


def plain(values: pd.Series) -> list[Any]:
    return [None if pd.isna(value) else value for value in values.tolist()]


def same(found: list[Any], expected: list[Any]) -> bool:
    return found == [None if pd.isna(value) else value for value in expected]


@pytest.mark.parametrize("file", READABLE, ids=str)
def test_a_messy_file_is_read_as_its_author_meant(file: Any) -> None:
    table = read_once(file.name)

    for column, expected in file.values.items():
        assert same(plain(table.frame[column]), expected), (column, plain(table.frame[column]))
    for column, kind in file.types.items():
        assert table.types[column] == kind
    for name, mark in file.dialect.items():
        assert getattr(table.reading.dialect, name) == mark


@pytest.mark.parametrize("file", READABLE, ids=str)
def test_rejected_lines_are_named_and_all_rows_are_counted(file: Any) -> None:
    reading = read_once(file.name).reading

    assert {item.line for item in reading.rejected} == set(file.rejected)
    for item in reading.rejected:
        assert file.rejected[item.line] in item.reason
    assert reading.rejected_rows == len(file.rejected)
    for column in file.values.values():
        assert reading.rows == len(column)


@pytest.mark.parametrize("file", READABLE, ids=str)
def test_what_is_odd_is_a_finding_and_nothing_else_is(file: Any) -> None:
    findings = read_once(file.name).findings

    serious = {finding.code for finding in findings if finding.severity is not Severity.INFO}
    assert serious == set(file.findings)
    assert set(file.notes) <= {finding.code for finding in findings}
    assert all(finding.message.endswith(".") for finding in findings)


@pytest.mark.parametrize("file", REFUSED, ids=str)
def test_a_file_that_is_no_table_gets_a_sentence(file: Any) -> None:
    with pytest.raises(TableError) as caught:
        read(file)

    assert file.error in str(caught.value)
    assert str(caught.value).endswith(".")
    assert len(str(caught.value)) < 400


def test_the_corpus_is_large_enough() -> None:
    assert len(FILES) >= 80
    assert len({file.name for file in FILES}) == len(FILES)
