"""Our reader of text tables beside others, judged on polluted files with truth.

Install the others with `pip install duckdb polars clevercsv`; one that is not there is left out with a sentence.
Every reader has to find the dialect by itself and to return its cells as text.
"""

from __future__ import annotations

import importlib
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from spu_core.errors import SpuError
from spu_core.tables import read_table
from tests.benchmarks.pollution import Polluted, Row

# What a reader found: the names of the columns, None if it saw none, and the cells of the rows.
Found = tuple[Row | None, list[Row]]


def score(found: Found | None, truth: Polluted) -> float:
    """Up to ten points: one for reading at all, three each for header, records and cells (precision, recall, F1).

    This is like the score of the Pollock benchmark as published; it is not its code.

    >>> truth = Polluted("clean", "a.csv", b"", ("a", "b"), (("1", "2"), ("3", "4")))
    >>> score((("a", "b"), [("1", "2"), ("3", "4")]), truth), score(None, truth)
    (10.0, 0.0)
    >>> round(score((("a", "b"), [("1", "2")]), truth), 2)
    8.33
    """
    if found is None:
        return 0.0
    header, rows = found
    if truth.header is None or header is None:
        names = 3.0 * (header is None and truth.header is None)
    else:
        names = _three(header, truth.header)
    cells = _three([cell for row in rows for cell in row], [cell for row in truth.rows for cell in row])
    return 1.0 + names + _three(rows, truth.rows) + cells


def _three(found: Iterable[Any], wanted: Iterable[Any]) -> float:
    """Precision, recall and F1 of what was found, each thing as often as it should come."""
    mine, theirs = Counter(found), Counter(wanted)
    both = sum((mine & theirs).values())
    if not both:
        return 3.0 * (not mine and not theirs)
    precision, recall = both / sum(mine.values()), both / sum(theirs.values())
    return precision + recall + 2 * precision * recall / (precision + recall)


def _ours(path: Path) -> Found:
    table = read_table(path, types="text")
    assert table.reading is not None
    header = tuple(table.frame.columns) if table.reading.header_line else None
    return header, list(table.frame.itertuples(index=False, name=None))


def _pandas(path: Path) -> Found:
    import pandas as pd

    frame = pd.read_csv(
        path, sep=None, engine="python", dtype=str, keep_default_na=False, on_bad_lines="skip", index_col=False
    )
    return tuple(map(str, frame.columns)), list(frame.fillna("").astype(str).itertuples(index=False, name=None))


def _duckdb(path: Path) -> Found:
    import duckdb

    with duckdb.connect(config={"threads": 1}) as base:
        # A limit, since it once did not come back from a run over many files.
        limit = threading.Timer(10.0, base.interrupt)
        limit.start()
        try:
            return _asked_of_duckdb(base, str(path).replace("'", "''"))
        finally:
            limit.cancel()


def _asked_of_duckdb(base: Any, shown: str) -> Found:
    row = base.execute(f"SELECT HasHeader FROM sniff_csv('{shown}', ignore_errors=true)").fetchone()
    has_header = bool(row and row[0])
    # Types decide about the header, so it is found first and the cells are read as text after that.
    result = base.execute(
        f"SELECT * FROM read_csv('{shown}', header={has_header}, all_varchar=true, ignore_errors=true)"
    )
    names = tuple(column[0] for column in result.description)
    rows = [tuple("" if cell is None else cell for cell in found) for found in result.fetchall()]
    return (names if has_header else None), rows


def _polars(path: Path) -> Found:
    import polars

    frame = polars.read_csv(path, infer_schema=False, ignore_errors=True, truncate_ragged_lines=True)
    return tuple(frame.columns), [tuple("" if cell is None else cell for cell in row) for row in frame.rows()]


def _clevercsv(path: Path) -> Found:
    import clevercsv

    rows = [tuple(row) for row in clevercsv.wrappers.read_table(path)]
    return rows[0], rows[1:]


READERS: dict[str, tuple[str, Callable[[Path], Found]]] = {
    "ours": ("spu_core", _ours),
    "pandas (sep=None)": ("pandas", _pandas),
    "DuckDB": ("duckdb", _duckdb),
    "polars": ("polars", _polars),
    "clevercsv": ("clevercsv", _clevercsv),
}


def compare_readers(files: Sequence[Polluted]) -> dict[str, dict[str, float]]:
    """For each reader that is installed, the score of each file."""
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            (Path(folder) / file.name).write_bytes(file.content)
        for name, (module, read) in READERS.items():
            try:
                importlib.import_module(module)
            except ImportError:
                print(f"{name} is left out: install it with `pip install {module}`.")
                continue
            found[name] = {file.name: score(_read(read, Path(folder) / file.name), file) for file in files}
    return found


def _read(read: Callable[[Path], Found], path: Path) -> Found | None:
    try:
        return read(path)
    except SpuError:
        return None
    except Exception:  # whatever another reader raises, it did not read the file
        return None


def by_kind(scores: dict[str, float], files: Sequence[Polluted]) -> dict[str, float]:
    """The mean score of each kind of pollution."""
    found = defaultdict(list)
    for file in files:
        found[file.kind].append(scores[file.name])
    return {kind: mean(each) for kind, each in found.items()}


def print_readers(files: Sequence[Polluted]) -> dict[str, dict[str, float]]:
    """Print one line for each reader, and one for each kind; files count the same, or kinds count the same."""
    found = compare_readers(files)
    kinds = {name: by_kind(scores, files) for name, scores in found.items()}
    print(f"{len(files)} files of {len(next(iter(kinds.values())))} kinds; 10 is best")
    print(f"{'':<28}" + "".join(f"{name:>20}" for name in found))
    print(f"{'mean of all files':<28}" + "".join(f"{mean(each.values()):>20.3f}" for each in found.values()))
    print(f"{'mean of all kinds':<28}" + "".join(f"{mean(each.values()):>20.3f}" for each in kinds.values()))
    for kind in next(iter(kinds.values())):
        print(f"{kind:<28}" + "".join(f"{each[kind]:>20.2f}" for each in kinds.values()))
    return found
