"""Cells to numbers: decimal comma, thousands marks, units and missing marks, on whole Arrow columns at once."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spu_core.checks import LARGEST_EXACT_INTEGER

# These mean *no value* in every column.
MISSING_MARKS = (
    "", "NA", "N/A", "n/a", "#N/A", "#NA", "#N/A N/A", "<NA>", "NaN", "nan", "-nan", "-NaN", "NULL", "null", "\\N", "?",
    "#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NUM!", "1.#QNAN", "1.#IND", "-1.#IND", "NaT",
)  # fmt: skip
# These mean *no value* among numbers and dates only: as a level, "None" can mean "not measured", which is knowledge.
SOFT_MARKS = (
    "None", "none", "NONE", "unknown", "Unknown", "UNKNOWN", "missing", "Missing", "-", "--", ".", "..", "...", "na",
    "Na", "n.a.", "nil", "Nil", "*", "??", "not available", "Not Available", "not measured", "n/d", "N/D", "k.A.", "#",
)  # fmt: skip

_COMMA = re.compile(r"[+-]?(\d+,(\d{1,2}|\d{4,})|0,\d+|\d{1,3}([. ' \u00a0\u202f]\d{3})+,\d+)")
_POINT = re.compile(r"[+-]?(\d+\.(\d{1,2}|\d{4,})|0\.\d+|\d{1,3}([, ' \u00a0\u202f]\d{3})+\.\d+)")
_GROUPS = re.compile(r"[+-]?[$€£]?\d{1,3}(?:([., '\u00a0\u202f])\d{3})(?:\1\d{3})*(?:[.,]\d+)?")
_TWO_GROUPS = re.compile(r"[+-]?\d{1,3}([., '\u00a0\u202f])\d{3}(\1\d{3})+(?:[.,]\d+)?")
_BLANKS = "\u00a0\u202f"
_ENOUGH_NUMBERS = 4_000
_ANY_MARK = re.compile(r"[,.' \u00a0\u202f]")


@dataclass(frozen=True)
class Marks:
    """Decimal and thousands marks of the numbers in a file; an empty `thousands` means there is none."""

    decimal: str = "."
    thousands: str = ""


def detect_marks(cells: Iterable[str], separator: str) -> Marks:
    """The marks that the numbers among the cells use.

    >>> detect_marks(["1.234,50", "2,5"], ";"), detect_marks(["1,234.50"], ";"), detect_marks(["1.5"], ",")
    (Marks(decimal=',', thousands='.'), Marks(decimal='.', thousands=','), Marks(decimal='.', thousands=''))
    """
    marked = (cell.strip() for cell in cells if len(cell) < 40 and _ANY_MARK.search(cell))
    seen = _MarksSeen.among(list(itertools.islice(marked, _ENOUGH_NUMBERS)))
    decimal = _decimal_mark(seen, separator)
    return Marks(decimal, _thousands_mark(seen, decimal))


@dataclass(frozen=True)
class _MarksSeen:
    """Cells with a decimal comma or point beyond doubt, and the marks between groups of three (two or more: sure)."""

    commas: int
    points: int
    groups: tuple[str, ...]
    sure: frozenset[str]

    @classmethod
    def among(cls, numbers: list[str]) -> _MarksSeen:
        groups = (match.group(1) for cell in numbers if (match := _GROUPS.fullmatch(cell)))
        return cls(
            sum(_COMMA.fullmatch(cell) is not None for cell in numbers),
            sum(_POINT.fullmatch(cell) is not None for cell in numbers),
            tuple(" " if mark in _BLANKS else mark for mark in groups),
            frozenset(match.group(1) for cell in numbers if (match := _TWO_GROUPS.fullmatch(cell))),
        )


def _decimal_mark(seen: _MarksSeen, separator: str) -> str:
    """The mark that more cells show; "1,234" alone is a thousand in a comma file, a decimal in a semicolon file.

    >>> seen = _MarksSeen(0, 0, (",",), frozenset())
    >>> _decimal_mark(seen, ";"), _decimal_mark(seen, ",")
    (',', '.')
    """
    european = separator == ";" and not seen.points and "," in seen.groups and "," not in seen.sure
    return "," if seen.commas > seen.points or european else "."


def _thousands_mark(seen: _MarksSeen, decimal: str) -> str:
    """The most frequent mark between groups of three; beside a decimal comma, a point must be beyond doubt.

    >>> seen = _MarksSeen(0, 0, (",", ",", "'"), frozenset())
    >>> _thousands_mark(seen, "."), _thousands_mark(seen, ",")
    (',', "'")
    """
    other = "." if decimal == "," else ","
    marks = [mark for mark in seen.groups if mark in (other, " ", "'")]
    if decimal == "," and other not in seen.sure and not seen.commas:
        marks = [mark for mark in marks if mark != other]
    return max(sorted(set(marks)), key=marks.count, default="")


@dataclass(frozen=True)
class Numbers:
    """One block of a column as numbers, and which of its cells were none."""

    values: pa.Array
    bad: np.ndarray
    leading_zeros: bool = False
    huge_integers: bool = False
    units: int = 0


def to_numbers(cells: pa.Array, marks: Marks) -> Numbers:
    """Cells as int64 where every one is a whole number, else as float64; cells that are no numbers become null."""
    if marks.decimal == "." and not marks.thousands:
        plain = _cast_plain(cells)
        if plain is not None:
            return plain
    trimmed = pc.utf8_trim_whitespace(cells)
    present = pc.if_else(pc.is_in(trimmed, value_set=_SOFT), _NULL, trimmed)
    bare = pc.replace_substring_regex(present, pattern=r"^([+-]?)[$€£]|[ \x{a0}]?[%€$£]$", replacement=r"\1")
    valid = pc.fill_null(pc.match_substring_regex(bare, _number_pattern(marks)), False)
    kept = pc.if_else(valid, bare, _NULL)
    bad = np.asarray(pc.and_(pc.is_valid(present), pc.invert(valid)))
    units = int(pc.sum(pc.and_(valid, pc.not_equal(bare, present))).as_py() or 0)
    parsed = _cast_plain(_plain_notation(kept, marks))
    assert parsed is not None, "a cell that matches the number pattern is a number"
    return Numbers(parsed.values, bad, parsed.leading_zeros, parsed.huge_integers, units)


def _cast_plain(cells: pa.Array) -> Numbers | None:
    """The cells as numbers in plain notation; None if one of them is not."""
    none = np.zeros(0, dtype=bool)
    # A cast that fails on every cell costs ten times one that succeeds, so a few cells are tried first.
    few = cells.slice(0, 64)
    whole = _cast(cells, pa.int64()) if _cast(few, pa.int64()) is not None else None
    if whole is not None:
        # "0" itself is the only whole number that may start with a zero.
        zeros = (pc.sum(pc.starts_with(cells, "0")).as_py() or 0) > (pc.sum(pc.equal(whole, 0)).as_py() or 0)
        return Numbers(whole, none, leading_zeros=zeros)
    values = _cast(cells, pa.float64()) if _cast(few, pa.float64()) is not None else None
    if values is None:
        return None
    return Numbers(values, none, _has_leading_zeros(cells, values), _has_huge_integers(cells, values))


def _cast(cells: pa.Array, kind: pa.DataType) -> pa.Array | None:
    try:
        return pc.cast(cells, kind)
    except pa.ArrowInvalid:
        return None


def _has_leading_zeros(cells: pa.Array, values: pa.Array) -> bool:
    """Codes such as 00501 among numbers with a fraction are still codes, if most cells are written so."""
    zeros = pc.and_(pc.starts_with(cells, "0"), pc.invert(pc.match_substring(cells, ".")))
    if (pc.sum(zeros).as_py() or 0) <= 0.5 * (len(values) - values.null_count):
        return False
    suspects = pc.sum(pc.match_substring_regex(cells, r"^0\d+$")).as_py() or 0
    return suspects > 0.5 * (len(values) - values.null_count)


def _has_huge_integers(cells: pa.Array, values: pa.Array) -> bool:
    bounds = pc.min_max(values).as_py()
    largest = max(abs(bounds["min"] or 0.0), abs(bounds["max"] or 0.0))
    if not largest > LARGEST_EXACT_INTEGER:
        return False
    return bool(pc.any(pc.match_substring_regex(cells, r"^[+-]?\d{16,}$")).as_py())


def _plain_notation(cells: pa.Array, marks: Marks) -> pa.Array:
    plain = cells
    if marks.thousands == " ":
        plain = pc.replace_substring_regex(plain, pattern=r"[ \x{a0}\x{202f}]", replacement="")
    elif marks.thousands:
        plain = pc.replace_substring(plain, pattern=marks.thousands, replacement="")
    if marks.decimal == ",":
        plain = pc.replace_substring(plain, pattern=",", replacement=".")
    return pc.replace_substring_regex(plain, pattern=r"^\+", replacement="")


def _number_pattern(marks: Marks) -> str:
    """Only whole groups of three make a thousands mark, so that "1,2,3" never becomes 123."""
    decimal = r"\." if marks.decimal == "." else "[,.]" if not marks.thousands else ","
    group = {"": None, " ": r"[ \x{a0}\x{202f}]", ".": r"\."}.get(marks.thousands, marks.thousands)
    grouped = rf"\d{{1,3}}(?:{group}\d{{3}})+|" if group else ""
    return rf"(?i)^[+-]?(?:(?:{grouped}\d+)(?:{decimal}\d*)?(?:e[+-]?\d+)?|{decimal}\d+(?:e[+-]?\d+)?|inf|infinity)$"


_NULL = pa.scalar(None, pa.string())
_SOFT = pa.array([*SOFT_MARKS, *MISSING_MARKS])
