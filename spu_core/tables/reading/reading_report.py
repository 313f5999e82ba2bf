"""Options and results of reading a file: dialect, limits, findings and the report of the reading."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from enum import StrEnum

from spu_core.errors import TableError


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How a text file writes its cells; fields that are None are detected, others are used as given.

    `header=False` means that the first row is data, `quote=""` that nothing is quoted, `thousands=""` that numbers
    have no thousands mark. `missing` adds marks to those that always mean *no value*; `sheet` is the name of an Excel
    sheet.
    """

    encoding: str | None = None
    separator: str | None = None
    quote: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    header: bool | None = None
    missing: tuple[str, ...] = ()
    sheet: str | None = None

    def __post_init__(self) -> None:
        _check_encoding(self.encoding)
        for name, allowed in _MARKS.items():
            _check_mark(name, getattr(self, name), allowed)
        if self.decimal is not None and self.decimal == self.thousands:
            raise TableError(f"decimal and thousands cannot both be {self.decimal!r}; numbers would be ambiguous.")
        if self.quote and self.quote == self.separator:
            raise TableError(f"quote and separator cannot both be {self.quote!r}.")
        object.__setattr__(self, "missing", tuple(map(str, self.missing)))

    def over(self, detected: Dialect) -> Dialect:
        """This dialect, with fields that are None taken from the detected one.

        >>> Dialect(separator=";").over(Dialect(separator=",", decimal=".")).decimal
        '.'
        """
        mine = {item.name: getattr(self, item.name) for item in fields(self)}
        theirs = {item.name: getattr(detected, item.name) for item in fields(detected)}
        return Dialect(**{name: theirs[name] if value in (None, ()) else value for name, value in mine.items()})


@dataclass(frozen=True, kw_only=True)
class ReadLimits:
    """The sizes beyond which a file is refused; each is checked while the file streams in.

    `expansion` bounds how much a compressed file may grow, once it has grown to `expansion_free` bytes;
    `sheet_bytes` bounds the unpacked XML of an Excel file; `rows` counts blank and rejected lines too; `cell_bytes`
    bounds one text, and a record of a text file must fit in four of them (at least 4 MB); `levels` is the largest
    number of distinct texts in a category.
    """

    bytes: int = 2 * 1024**3
    expanded_bytes: int = 4 * 1024**3
    expansion: int = 200
    expansion_free: int = 64 * 1024**2
    sheet_bytes: int = 400 * 1024**2
    rows: int = 50_000_000
    columns: int = 10_000
    cell_bytes: int = 1024**2
    levels: int = 1_000

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if not isinstance(value, int) or value < 1:
                raise TableError(f"The limit {item.name!r} must be a whole number of at least 1, got {value!r}.")


@dataclass(frozen=True, slots=True)
class RejectedLine:
    """A line of the file that did not become a row, and the reason."""

    line: int
    reason: str
    text: str = ""


# Further lines are counted but not listed.
LISTED_LINES = 1_000


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Report of a reading: `rows + rejected_rows` is the number of rows in the file, without header and blank lines.

    `line_of_first_row` and `header_line` count from 1, as editors do; `preamble` holds the lines before the header.
    """

    source: str
    format: str
    dialect: Dialect
    rows: int
    rejected_rows: int = 0
    rejected: tuple[RejectedLine, ...] = ()
    empty_lines: int = 0
    header_line: int | None = None
    preamble: tuple[str, ...] = field(default=(), repr=False)
    compression: str | None = None
    size: int = 0

    def describe(self) -> str:
        """A summary in one line.

        >>> Reading(source="a.csv", format="text", dialect=Dialect(encoding="utf-8", separator=";"), rows=3).describe()
        'a.csv: text, utf-8, separator semicolon; 3 rows read, 0 rejected'
        """
        parts = [self.format, *([self.compression] if self.compression else [])]
        if self.dialect.encoding:
            parts.append(self.dialect.encoding)
        if self.dialect.separator:
            parts.append(f"separator {separator_name(self.dialect.separator)}")
        if self.dialect.decimal == ",":
            parts.append("decimal comma")
        rows = f"{self.rows:,} row{'s' * (self.rows != 1)} read"
        return f"{self.source}: {', '.join(parts)}; {rows}, {self.rejected_rows:,} rejected"


def separator_name(separator: str) -> str:
    """The name of a separator, which may be invisible.

    >>> separator_name("\\t"), separator_name("|")
    ('tab', 'pipe')
    """
    return _SEPARATOR_NAMES.get(separator, repr(separator))


_SEPARATOR_NAMES = {
    ",": "comma",
    ";": "semicolon",
    "\t": "tab",
    "|": "pipe",
    " ": "space",
    ":": "colon",
    ", ": "comma and blank",
}


_MARKS = {
    "separator": None,
    "quote": ("", '"', "'"),
    "decimal": (".", ","),
    "thousands": ("", ",", ".", " ", "'"),
}


def _check_encoding(encoding: str | None) -> None:
    if encoding is None:
        return
    try:
        "a".encode(encoding)
    except (LookupError, TypeError):
        raise TableError(f"encoding {encoding!r} is not known; try 'utf-8', 'utf-16' or 'cp1252'.") from None


def _check_mark(name: str, value: str | None, allowed: tuple[str, ...] | None) -> None:
    if value is None:
        return
    if allowed is not None and value not in allowed:
        raise TableError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}.")
    if allowed is not None:
        return
    sign = value[:1]
    if value not in (sign, 2 * sign, ", ") or not sign.isascii() or sign.isalnum() or sign in "\r\n\0":
        raise TableError(
            f"{name} must be one character such as ',' ';' '|' a tab, one of them twice, or ', ', got {value!r}."
        )


class Severity(StrEnum):
    """How serious a finding is: information, a likely mistake, or a problem that must be solved first."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: a stable code for programs, a message for people, and advice.

    >>> Finding("empty_column", "warning", "Column 'x' has no value.", "Leave it out.", column="x").severity
    <Severity.WARNING: 'warning'>
    """

    code: str
    severity: Severity
    message: str
    advice: str
    column: str | None = None
    lines: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "severity", Severity(self.severity))
        object.__setattr__(self, "lines", tuple(int(line) for line in self.lines))

    def __str__(self) -> str:
        return f"{self.severity.value}: {self.message} {self.advice}".rstrip()


def worst(findings: Iterable[Finding]) -> Severity | None:
    """The highest severity among the findings; None when there is none."""
    order = list(Severity)
    return max((finding.severity for finding in findings), key=order.index, default=None)
