"""The profile of a folder: that of the same table in memory, one column at a time and only parts of it in memory.

Quantiles come from exact selection, histograms and levels from counts that add up. Two things rest on less than all
rows: the distinct values beyond 32,768 (an estimate), and leaks, repeats and roles, which are looked for in a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from spu_core.tables.column_facts import ColumnFacts
from spu_core.tables.folder import FolderColumn, TableFolder
from spu_core.tables.folder_files import batches_of
from spu_core.tables.leakage import find_leaks
from spu_core.tables.profiles import (
    EDGE_SHARES,
    QUANTILES,
    ColumnProfile,
    Histogram,
    Level,
    TableProfile,
    as_numbers,
    counts_between,
    edges_between,
    label_findings,
    missing_findings,
    repeat_findings,
    stretched,
    top_levels,
)
from spu_core.tables.role_proposals import propose_roles
from spu_core.tables.roles import Role
from spu_core.tables.selection import quantile_ranks, select

SAMPLE_ROWS = 200_000
# Levels of a column of texts are counted one by one up to here; ids have no frequent levels to show.
MOST_LEVELS = 32_768


def profile_folder(folder: TableFolder, on_progress: Callable[[float], None] | None = None) -> TableProfile:
    """Profile every column, and look for labels that are too few and, in a sample, for leaks, repeats and roles."""
    columns = tuple(_profile_columns(folder, on_progress))
    sample = folder.sample(SAMPLE_ROWS)
    leaks = tuple(leak.as_finding() for leak in find_leaks(sample))
    own = (
        *label_findings(folder),
        *missing_findings(columns),
        *leaks,
        *repeat_findings(sample),
        *propose_roles(sample),
    )
    return TableProfile(len(folder), int(folder.is_labeled.sum()), columns, (*folder.findings, *own))


def folder_histogram(folder: TableFolder, name: str) -> Histogram | None:
    """The histogram of one column over all rows, as the rule editor draws it; None for texts and flags."""
    if as_numbers(folder.outline[name]) is None:
        return None
    return _numbers_of(folder, name)[1]


def _profile_columns(folder: TableFolder, on_progress: Callable[[float], None] | None) -> Iterator[ColumnProfile]:
    for done, column in enumerate(folder.columns):
        if on_progress is not None:
            on_progress(done / len(folder.columns))
        yield _profile_column(folder, column)


def _profile_column(folder: TableFolder, column: FolderColumn) -> ColumnProfile:
    name = column.name
    facts = replace(ColumnFacts.empty(name, column.kind, max(len(column.levels), 1)), counts_decimals=True)
    for file in folder.files:
        for batch in batches_of(file, {name: column.kind}):
            facts = facts.add(batch[name])
    is_number = as_numbers(folder.outline[name]) is not None
    quantiles, histogram = _numbers_of(folder, name) if is_number else ({}, None)
    levels: tuple[Level, ...] = () if is_number or facts.distinct > MOST_LEVELS else _levels_of(folder, name)
    return ColumnProfile(
        name=name,
        type=column.type,
        role=folder.roles[name],
        rows=facts.rows,
        missing=facts.missing,
        distinct=facts.distinct,
        quantiles=quantiles,
        top_levels=levels,
        histogram=histogram,
    )


def _numbers_of(folder: TableFolder, name: str) -> tuple[dict[float, float], Histogram | None]:
    shares = np.array([*QUANTILES, *EDGE_SHARES])
    found = select(lambda: (numbers for numbers, _ in _finite(folder, name)), lambda n: quantile_ranks(n, shares))
    if found is None:
        return {}, None
    values = dict(zip(QUANTILES, found.value.tolist(), strict=False))
    least, most = values[0.0], values[1.0]
    low, high = found.value[-2:].tolist()
    edge = edges_between(
        (low, high),
        (least, most),
        lambda: all(bool((numbers == np.floor(numbers)).all()) for numbers, _ in _finite(folder, name)),
    )
    counts, hits = np.zeros(edge.size - 1, dtype=np.int64), np.zeros(edge.size - 1, dtype=np.int64)
    for numbers, labeled in _finite(folder, name, with_labels=True):
        more, of_labeled = counts_between(edge, numbers, labeled)
        counts, hits = counts + more, hits + of_labeled
    return values, Histogram(stretched(edge, least, most), counts, hits)


def _finite(folder: TableFolder, name: str, *, with_labels: bool = False) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The finite numbers of a column, part by part, and whether their rows are labelled."""
    for frame, labeled in _with_labels(folder, name, with_labels):
        numbers = as_numbers(frame[name])
        assert numbers is not None
        finite = np.isfinite(numbers)
        yield numbers[finite], labeled[finite]


def _levels_of(folder: TableFolder, name: str) -> tuple[Level, ...]:
    counts: dict[str, list[int]] = {}
    for frame, labeled in _with_labels(folder, name, True):
        codes, levels = pd.factorize(frame[name])
        rows = np.bincount(codes[codes >= 0], minlength=len(levels))
        hits = np.bincount(codes[(codes >= 0) & labeled], minlength=len(levels))
        for level, row, hit in zip(map(str, levels), rows.tolist(), hits.tolist(), strict=True):
            held = counts.setdefault(level, [0, 0])
            held[0], held[1] = held[0] + row, held[1] + hit
    rows, hits = np.array(list(counts.values()), dtype=np.int64).reshape(-1, 2).T
    return top_levels(list(counts), rows, hits, len(folder))


def _with_labels(folder: TableFolder, name: str, wanted: bool) -> Iterator[tuple[pd.DataFrame, np.ndarray]]:
    label = folder.column_with(Role.LABEL)
    names = list(dict.fromkeys([name, *([label] if wanted and label is not None else [])]))
    for part in folder.parts(names):
        yield part.frame, part.is_labeled if wanted else np.zeros(len(part), dtype=bool)
