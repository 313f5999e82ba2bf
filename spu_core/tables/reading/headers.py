"""Whether a record is a header, decided by the columns below it.

`names_columns` applies the rules in `RULES` in order; the first that returns an answer decides.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from spu_core.tables.reading.values import (
    MISSING_MARKS,
    SOFT_MARKS,
    looks_like_date,
    looks_like_number,
    looks_like_time,
)

Cells = Sequence[str]
# The number of rows from which the kind of a column is inferred.
_ROWS = 200
# The share of cells that must have one kind for the column to have that kind.
_MOST, _NEARLY_ALL = 0.8, 0.95
_MISSING = frozenset((*MISSING_MARKS, *SOFT_MARKS))
_YEAR = re.compile(r"(19|20)\d\d|2100")


def names_columns(first: Cells, below: Sequence[Cells]) -> bool:
    """Whether the first record is a header of the records below it.

    >>> names_columns(["country", "2019", "label"], [["Chad", "5", "0"], ["Peru", "7", "1"]])
    True
    >>> names_columns(["Chad", "5", "0"], [["Peru", "7", "1"], ["Togo", "8", "0"]])
    False
    """
    # A header that is repeated among the rows does not count as a row.
    rows = [row for row in below[:_ROWS] if len(row) == len(first) and list(row) != list(first)]
    seen = _HeaderCandidate(tuple(first), tuple(map(tuple, rows)), repeats_header=len(rows) < len(below))
    return next(answer for rule in RULES if (answer := rule(seen)) is not None)


def kind_of(cell: str) -> str:
    """What a cell holds: nothing, a number, a share, money, a date, a time or a word.

    >>> [kind_of(cell) for cell in ("", "NA", "1.5", "5%", "$3", "2024-01-31", "10:15", "age")]
    ['', '', 'number', 'share', 'money', 'date', 'time', 'word']
    """
    if cell in _MISSING:
        return ""
    if looks_like_number(cell):
        return "share" if cell.endswith("%") else "money" if set("$€£") & set(cell) else "number"
    return "date" if looks_like_date(cell) else "time" if looks_like_time(cell) else "word"


def kind_of_column(cells: Cells, share: float = _MOST) -> str:
    """The kind that this share of the filled cells has; empty if there is none.

    >>> kind_of_column(["1", "2", "NA", "4", "5", "x"]), kind_of_column(["1", "x"])
    ('number', '')
    """
    kinds = [kind for kind in map(kind_of, cells) if kind]
    likeliest = max(sorted(set(kinds)), key=kinds.count, default="")
    return likeliest if kinds and kinds.count(likeliest) >= share * len(kinds) else ""


@dataclass(frozen=True)
class _HeaderCandidate:
    """A first record and the rows below it that have the same length."""

    first: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    repeats_header: bool = False

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        return tuple(map(kind_of, self.first))

    @cached_property
    def columns(self) -> list[tuple[str, ...]]:
        return list(zip(*self.rows, strict=True))

    @cached_property
    def has_figures(self) -> bool:
        """Whether the first record holds a number, a date or a time."""
        return any(kind not in ("", "word") for kind in self.kinds)

    def kind_below(self, column: Cells) -> str:
        """The kind of a column; where the first record holds figures itself, nearly all cells must have it."""
        return kind_of_column(column, _NEARLY_ALL if self.has_figures else _MOST)


def nothing_in_it(seen: _HeaderCandidate) -> bool | None:
    """A record of blanks and missing marks is no header: `,,` · `NA,NA`."""
    return None if any(seen.kinds) else False


def nothing_below(seen: _HeaderCandidate) -> bool | None:
    """A single line is a header if it has words only: `name,amount` is one, `Ann,5` is not."""
    if seen.rows:
        return None
    return not seen.repeats_header and not seen.has_figures


def text_over_numbers(seen: _HeaderCandidate) -> bool | None:
    """A word above numbers, dates or times is a name: `country,2019,label` over `Chad,5,0`."""
    columns = (column for kind, column in zip(seen.kinds, seen.columns, strict=True) if kind == "word")
    return True if any(seen.kind_below(column) not in ("", "word") for column in columns) else None


def other_notation(seen: _HeaderCandidate) -> bool | None:
    """Shares, money, dates or years above another kind are names: `name,5%,95%` over `Ann,12,17` · `1999` over words.

    None of them may be above its own kind, and one row below is not enough.
    """
    pairs = [(kind, column) for kind, column in zip(seen.kinds, seen.columns, strict=True) if kind not in ("", "word")]
    other = [kind != below for kind, column in pairs if (below := seen.kind_below(column))]
    return True if len(seen.rows) > 1 and other and all(other) else None


def counted_columns(seen: _HeaderCandidate) -> bool | None:
    """Numbers that count columns are names: `,0,1,2,3` of pandas · `0,1,2,3` · `country,2019,2020`.

    If rows count in the same way or contain years, the numbers are data.
    """
    places = [at for at, kind in enumerate(seen.kinds) if kind == "number"]
    if any(kind not in ("", "word", "number") for kind in seen.kinds) or not _counts(seen.first, places):
        return None
    alike = sum(_counts(row, places) for row in seen.rows)
    return None if alike > 0.2 * len(seen.rows) else True


def figures_over_figures(seen: _HeaderCandidate) -> bool | None:
    """Any other number, date or time in the first record is data: `Ann,5` over `Bob,7`."""
    return False if seen.has_figures else None


def text_that_repeats(seen: _HeaderCandidate) -> bool | None:
    """In a table of words, names are distinct and do not occur below the header: `rep,y,n,y` is data."""
    names = [name for name in seen.first if name]
    back = sum(name in column for name, column in zip(seen.first, seen.columns, strict=True) if name)
    return back < 0.5 * len(names) and len(set(names)) == len(names) and not _MISSING & set(names)


RULES: tuple[Callable[[_HeaderCandidate], bool | None], ...] = (
    nothing_in_it,
    nothing_below,
    text_over_numbers,
    other_notation,
    counted_columns,
    figures_over_figures,
    text_that_repeats,
)


def _counts(cells: Cells, places: Sequence[int]) -> bool:
    """Whether the cells at these places are rising years, or four and more whole numbers in equal steps.

    >>> _counts(["land", "2019", "2020"], [1, 2]), _counts(["7", "9"], [0, 1]), _counts(list("0123"), range(4))
    (True, False, True)
    """
    found = [cells[place] for place in places]
    if len(found) < 2 or not all(cell.isdigit() for cell in found):
        return False
    numbers = list(map(int, found))
    steps = {after - before for before, after in itertools.pairwise(numbers)}
    if all(map(_YEAR.fullmatch, found)):
        return min(steps) > 0 or max(steps) < 0
    return len(found) >= 4 and len(steps) == 1 and steps != {0}
