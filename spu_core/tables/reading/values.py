"""Values of cells and types of columns: numbers and dates in any usual notation, missing marks, column types.

Decimal commas, thousands marks, units and missing marks are handled on whole Arrow columns at once. Dates are
nanoseconds since 1970 as floats, also for years such as 9999, which 64-bit integers cannot hold.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pandas.api import types as kinds

from spu_core.checks import LARGEST_EXACT_INTEGER

# These mean *no value* in every column.
MISSING_MARKS = (
    "", "NA", "N/A", "n/a", "#N/A", "#NA", "#N/A N/A", "<NA>", "NaN", "nan", "-nan", "-NaN", "NULL", "null", "\\N", "?",
    "#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NUM!", "1.#QNAN", "1.#IND", "-1.#IND", "NaT",
)  # fmt: skip
# These mean *no value* among numbers and dates only: as a category, "None" can be a value, such as "not measured".
SOFT_MARKS = (
    "None", "none", "NONE", "unknown", "Unknown", "UNKNOWN", "missing", "Missing", "-", "--", ".", "..", "...", "na",
    "Na", "n.a.", "nil", "Nil", "*", "??", "not available", "Not Available", "not measured", "n/d", "N/D", "k.A.", "#",
)  # fmt: skip

_NUMBER = re.compile(r"[+-]?[$€£]?(\d{1,3}([ \u00a0\u202f.,']\d{3})+|\d+)?([.,]\d*)?([eE][+-]?\d+)?\s?[%€$£]?")
_CLOCK = r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[APap][Mm])?"
_TIME = re.compile(_CLOCK)
_DATE = re.compile(rf"\d{{1,4}}([-/.])\d{{1,2}}\1\d{{1,4}}([T ]{_CLOCK}(Z|[+-]\d\d:?\d\d)?)?")
_COMMA = re.compile(r"[+-]?(\d+,(\d{1,2}|\d{4,})|0,\d+|\d{1,3}([. ' \u00a0\u202f]\d{3})+,\d+)")
_POINT = re.compile(r"[+-]?(\d+\.(\d{1,2}|\d{4,})|0\.\d+|\d{1,3}([, ' \u00a0\u202f]\d{3})+\.\d+)")
_GROUPS = re.compile(r"[+-]?[$€£]?\d{1,3}(?:([., '\u00a0\u202f])\d{3})(?:\1\d{3})*(?:[.,]\d+)?")
_TWO_GROUPS = re.compile(r"[+-]?\d{1,3}([., '\u00a0\u202f])\d{3}(\1\d{3})+(?:[.,]\d+)?")
_BLANKS = "\u00a0\u202f"
_ENOUGH_NUMBERS = 4_000
_ANY_MARK = re.compile(r"[,.' \u00a0\u202f]")


def looks_like_number(cell: str) -> bool:
    """Whether a cell is a number in any usual notation.

    >>> [looks_like_number(cell) for cell in ("-1.5e3", "1.234,50", "12 %", "1-2", "")]
    [True, True, True, False, False]
    """
    return bool(cell) and any(map(str.isdigit, cell)) and _NUMBER.fullmatch(cell) is not None


def looks_like_date(cell: str) -> bool:
    """Whether a cell is a date or a date with a time, in figures.

    >>> looks_like_date("2024-01-31 10:15"), looks_like_date("1/2/2024"), looks_like_date("10:15")
    (True, True, False)
    """
    return _DATE.fullmatch(cell) is not None


def looks_like_time(cell: str) -> bool:
    """Whether a cell is a time of day.

    >>> looks_like_time("10:15"), looks_like_time("10:15:30.5"), looks_like_time("10:5")
    (True, True, False)
    """
    return _TIME.fullmatch(cell) is not None


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
    """Counts of cells with a certain decimal comma or point, and marks between groups of three digits."""

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
    """The mark of most cells; "1,234" alone has a thousands mark in a comma file, a decimal comma in a semicolon file.

    >>> seen = _MarksSeen(0, 0, (",",), frozenset())
    >>> _decimal_mark(seen, ";"), _decimal_mark(seen, ",")
    (',', '.')
    """
    european = separator == ";" and not seen.points and "," in seen.groups and "," not in seen.sure
    return "," if seen.commas > seen.points or european else "."


def _thousands_mark(seen: _MarksSeen, decimal: str) -> str:
    """The most frequent mark between groups of three; with a decimal comma, a point must be certain.

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
    """One block of a column as numbers, and which of its cells were not numbers."""

    values: pa.Array
    bad: np.ndarray
    leading_zeros: bool = False
    huge_integers: bool = False
    units: int = 0


def to_numbers(cells: pa.Array, marks: Marks) -> Numbers:
    """Cells as int64 if all are whole numbers, else as float64; cells that are not numbers become null."""
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
    # A cast that fails takes ten times as long as one that succeeds, so a few cells are tried first.
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
    """Whether most cells have leading zeros, as codes such as 00501 do, also among numbers with a fraction."""
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
    """A pattern in which a thousands mark separates complete groups of three, so that "1,2,3" never becomes 123."""
    decimal = r"\." if marks.decimal == "." else "[,.]" if not marks.thousands else ","
    group = {"": None, " ": r"[ \x{a0}\x{202f}]", ".": r"\."}.get(marks.thousands, marks.thousands)
    grouped = rf"\d{{1,3}}(?:{group}\d{{3}})+|" if group else ""
    return rf"(?i)^[+-]?(?:(?:{grouped}\d+)(?:{decimal}\d*)?(?:e[+-]?\d+)?|{decimal}\d+(?:e[+-]?\d+)?|inf|infinity)$"


_NULL = pa.scalar(None, pa.string())
_SOFT = pa.array([*SOFT_MARKS, *MISSING_MARKS])


_CLOCKS = (
    "",
    " %H:%M",
    " %H:%M:%S",
    " %H:%M:%S.%f",
    "T%H:%M",
    "T%H:%M:%S",
    "T%H:%M:%S.%f",
    " %I:%M %p",
    " %I:%M:%S %p",
)


@dataclass(frozen=True)
class Dates:
    """A column as dates, the format that fits it, and whether day and month could be exchanged."""

    values: pd.Series
    format: str
    ambiguous: bool = False


def parse_dates(codes: np.ndarray, levels: pd.Series) -> Dates | None:
    """Coded texts as dates, if all distinct texts have the same format; soft missing marks become missing values.

    >>> parse_dates(np.array([0, -1, 1]), pd.Series(["31.01.2024", "01.02.2024"])).format
    '%d.%m.%Y'
    >>> parse_dates(np.array([0, 1]), pd.Series(["2024-01-31", "soon"])) is None
    True
    """
    texts = levels.where(~levels.isin(SOFT_MARKS), None)
    present = texts.dropna().astype("str")
    if present.empty or not all(map(looks_like_date, present.head(200))):
        return None
    fitting = [
        (layout, parsed) for layout in _formats(present.iloc[0]) if (parsed := _parse(texts, layout)) is not None
    ]
    if not fitting:
        return None
    layout, parsed = fitting[0]
    ambiguous = len(fitting) > 1 and not parsed.equals(fitting[1][1])
    return Dates(pd.Series(parsed.array.take(codes, allow_fill=True)), layout, ambiguous)


def _formats(example: str) -> list[str]:
    """Formats that the example allows; of day-first and month-first, the one usual with its mark comes first."""
    found = re.match(r"(\d{1,4})([-/.])\d{1,2}[-/.](\d{1,4})", example)
    if found is None:
        return []
    mark = found.group(2)
    if len(found.group(1)) == 4:
        days = [f"%Y{mark}%m{mark}%d"]
    else:
        year = "%Y" if len(found.group(3)) == 4 else "%y"
        day_first, month_first = f"%d{mark}%m{mark}{year}", f"%m{mark}%d{mark}{year}"
        days = [month_first, day_first] if mark == "/" else [day_first, month_first]
    zone = "%z" if re.search(r"\d(Z|[+-]\d\d:?\d\d)$", example[10:]) else ""
    return [day + clock + zone for day in days for clock in _CLOCKS]


def _parse(levels: pd.Series, layout: str) -> pd.Series | None:
    try:
        return pd.to_datetime(levels, format=layout, utc=layout.endswith("%z"))
    except (ValueError, OverflowError):
        return None


class ColumnType(StrEnum):
    """What a column holds."""

    NUMBER = "number"
    CATEGORY = "category"
    BOOLEAN = "boolean"
    DATETIME = "datetime"
    TEXT = "text"
    IDENTIFIER = "identifier"


# A text column with more distinct values is free text or an identifier, not a category.
DEFAULT_LEVELS = 1_000
# With fewer rows, all values may differ by chance.
FEW_ROWS = 20
_ID_NAME = re.compile(r"(^|[_\W])(id|ids|uuid|guid|key|nbr|no|number|index|rownum)$|[a-z](Id|ID)$|^(Id|ID|UUID|No)$")


def guess_type(values: pd.Series, levels: int = DEFAULT_LEVELS) -> ColumnType:
    """The type of one column, from its dtype and its values.

    >>> guess_type(pd.Series([1.5, 2.0], name="age")), guess_type(pd.Series(["a", "b", "a"], name="city"))
    (<ColumnType.NUMBER: 'number'>, <ColumnType.CATEGORY: 'category'>)
    >>> guess_type(pd.Series(range(100), name="user_id"))
    <ColumnType.IDENTIFIER: 'identifier'>
    """
    dtype = values.dtype
    if kinds.is_bool_dtype(dtype):
        return ColumnType.BOOLEAN
    if kinds.is_datetime64_any_dtype(dtype):
        return ColumnType.DATETIME
    if kinds.is_numeric_dtype(dtype):
        return _number_or_identifier(values)
    return _text_type(values, levels)


def names_an_id(name: str) -> bool:
    """Whether a column has the name of an identifier: `user_id`, `patientId`, `uuid`, `row number`.

    >>> [names_an_id(name) for name in ("user_id", "encounterId", "paid", "num_cases")]
    [True, True, False, False]
    """
    return bool(_ID_NAME.search(name))


def _number_or_identifier(values: pd.Series) -> ColumnType:
    whole = kinds.is_integer_dtype(values.dtype)
    if whole and names_an_id(str(values.name)) and len(values) and values.is_unique:
        return ColumnType.IDENTIFIER
    return ColumnType.NUMBER


def _is_plain_category(values: pd.Series, levels: int) -> bool:
    """Whether the declared categories are few enough, so that those in use need not be counted."""
    if not isinstance(values.dtype, pd.CategoricalDtype):
        return False
    declared = len(values.cat.categories)
    return declared <= levels and max(FEW_ROWS, 2 * declared) <= int(values.count())


def _text_type(values: pd.Series, levels: int) -> ColumnType:
    if _is_plain_category(values, levels):
        return ColumnType.CATEGORY
    present, distinct = int(values.count()), int(values.nunique())
    return type_of_text(str(values.name), present, distinct, levels, lambda: _is_one_word(values))


def type_of_text(name: str, present: int, distinct: int, levels: int, one_word: Callable[[], bool]) -> ColumnType:
    """The type of a text column, from its counts; `one_word` returns whether its first values are single words.

    >>> type_of_text("city", 1_000, 12, 1_000, lambda: True), type_of_text("user", 1_000, 999, 1_000, lambda: True)
    (<ColumnType.CATEGORY: 'category'>, <ColumnType.IDENTIFIER: 'identifier'>)
    """
    if names_an_id(name) and distinct == present and distinct:
        return ColumnType.IDENTIFIER
    if present < FEW_ROWS or (distinct <= levels and distinct <= 0.5 * present):
        return ColumnType.CATEGORY
    return ColumnType.IDENTIFIER if distinct >= 0.9 * present and one_word() else ColumnType.TEXT


def _is_one_word(values: pd.Series) -> bool:
    return not values.dropna().head(1_000).astype(str).str.contains(r"\s").any()


def stamps(values: pd.Series) -> np.ndarray:
    """Nanoseconds since 1970 as floats, NaN where missing; used to sort and draw dates.

    >>> stamps(pd.Series(pd.to_datetime(["1970-01-02", None])))
    array([8.64e+13,      nan])
    >>> bool(stamps(pd.Series(np.array(["9999-12-31"], "M8[s]")))[0] > 2.5e20)
    True
    """
    fine = values.dt.unit == "ns"
    counted = values.dt.as_unit("ns" if fine else "us").astype("int64").to_numpy().astype(np.float64)
    return np.where(values.isna().to_numpy(), np.nan, counted if fine else counted * 1e3)


def moment_bits(values: pd.Series) -> np.ndarray:
    """64 bits that differ for different times: nanoseconds since 1970, which overflow after the year 2262.

    >>> moment_bits(pd.Series(pd.to_datetime(["1970-01-01 00:00:01"]))).tolist()
    [1000000000]
    """
    if values.dt.unit == "ns":
        return values.astype("int64").to_numpy()
    bits = values.dt.as_unit("us").astype("int64").to_numpy() * np.int64(1000)
    # The value of a missing date stays the same in nanoseconds.
    return np.where(values.isna().to_numpy(), np.iinfo(np.int64).min, bits)


def day_of(stamp: float) -> str:
    """The day of a stamp as text.

    >>> day_of(8.64e13)
    '1970-01-02'
    """
    return str(np.datetime64(int(stamp // 1e3), "us").astype("datetime64[D]"))


def stamp_of(text: str) -> float:
    """The stamp of a date in text form, with or without a time.

    >>> stamp_of("1970-01-02 00:00")
    86400000000000.0
    """
    return float(np.datetime64(text.replace(" ", "T"), "us").astype(np.int64)) * 1e3
