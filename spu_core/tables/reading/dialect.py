"""Separator, quote and notation of a text file.

Each pair of separator and quote gets a score in [0, 1], the product of `_FITS`, by how evenly it splits the lines. The
best pair that passes `_REFUSALS` is used; if there is none, the file has one column.

Text in a notation that the parser does not support is rewritten line by line: separators of two characters (`a||b`), a
blank before a quote (`1, "a, b"`), quotes that are escaped by a backslash (`"say \\"hi\\""`) or not at all
(`"say "hi" to all"`). Lines keep their numbers, and other lines stay unchanged.
"""

from __future__ import annotations

import io
import itertools
import re
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from spu_core.tables.reading.encoding import TextSource
from spu_core.tables.reading.record_splitter import (
    LONGEST_CELL,
    Record,
    cells_of,
    is_well_formed,
    lines_below,
    read_records,
    repaired_cells,
)
from spu_core.tables.reading.sources import text_of
from spu_core.tables.reading.values import looks_like_date, looks_like_number, looks_like_time

SEPARATORS = (",", ";", "\t", "|", ":", " ", "^", "~", "\x01", "\x1f")
# A separator of two characters, so that a cell may contain a comma: `$1,500, 2 pieces`.
COMMA_BLANK = ", "
# Characters that are common in plain text, so that a split by them must be clearly better to be chosen.
_DOUBTFUL = {":": 0.6, " ": 0.5, "^": 0.9, "~": 0.9}
_LINK = re.compile(r"[a-z][a-z0-9+]{1,9}://\S+")
_WORD = re.compile(r"[^\W\d_][\w .\-/&+]{0,40}|")
SAMPLE_RECORDS = 400


@dataclass(frozen=True, slots=True)
class DialectGuess:
    """One way to split the sample: separator, quote, the usual number of fields, and a score in [0, 1].

    The separator may be the same character twice, such as `||`, or a comma with a blank. `first_width` is the number of
    fields of the first line, and `is_even` means that every line has the usual number.
    """

    separator: str
    quote: str
    width: int
    fit: float
    first_width: int = 0
    is_even: bool = False


def guess_dialect(sample: str) -> DialectGuess:
    """The separator and quote that split the lines most evenly into cells that look like values.

    >>> cut = guess_dialect("a;b\\n1,5;x\\n2,5;y\\n")
    >>> cut.separator, cut.width
    (';', 2)
    >>> guess_dialect("time\\n01:02:03\\n04:05:06\\n").width
    1
    >>> guess_dialect("a||b\\n1||2\\n3||4\\n").separator
    '||'
    >>> guess_dialect("price, who\\n$1,500, Ann\\n$20, Bob\\n").separator
    ', '
    >>> guess_dialect("id,tags\\n1,a;b;c\\n2,d;e;f\\n").separator
    ','
    """
    head, quotes = _first_lines(sample), _quotes_in(sample)
    cuts = [rate_dialect(head, separator, quote) for separator in (*SEPARATORS, COMMA_BLANK) for quote in quotes]
    best = _with_first_line(cuts, max(cuts, key=lambda cut: cut.fit))
    if best.fit > 0.0:
        return best
    # One column: the separator is a character that no cell contains.
    return DialectGuess(next((sign for sign in SEPARATORS if sign not in sample), ","), '"', 1, 0.0)


def _with_first_line(cuts: Sequence[DialectGuess], best: DialectGuess) -> DialectGuess:
    """Prefer a separator that splits all lines evenly to one that does not split the first line.

    `id,tags` over `7,a;b;c`: the header shows that the comma is the separator and the semicolon separates list items.
    """
    if best.first_width > 1:
        return best
    others = [cut for cut in cuts if cut.is_even and cut.fit > 0.0 and cut.separator not in _DOUBTFUL]
    return max(others, key=lambda cut: cut.fit, default=best)


def rate_dialect(sample: str, separator: str, quote: str) -> DialectGuess:
    """How well one separator and quote fit the sample; 0 for a separator that does not split any line."""
    if separator == COMMA_BLANK:
        return replace(rate_dialect(sample.replace(COMMA_BLANK, "\x1f"), "\x1f", quote), separator=COMMA_BLANK)
    if separator[0] not in sample:
        return DialectGuess(separator, quote, 1, 0.0)
    records = [record for record in read_records(sample, separator[0], quote, SAMPLE_RECORDS) if any(record.cells)]
    width = usual_width([record.cells for record in records])
    seen = _SampleCut(sample, separator[0], quote, width, tuple(records))
    if width < 2 or any(refuses(seen) for refuses in _REFUSALS):
        return DialectGuess(separator, quote, max(1, min(width, 1)), 0.0)
    fit = 1.0
    for judge in _FITS:
        fit *= judge(seen)
    first, is_even = len(records[0].cells), len(seen.usual) == len(records) > 2
    if _is_doubled(seen):
        return DialectGuess(2 * separator[0], quote, (width + 1) // 2, fit, first, is_even)
    return DialectGuess(separator[0], quote, width, fit, first, is_even)


def _first_lines(sample: str) -> str:
    """The first lines, enough for the records that are checked."""
    return "".join(itertools.islice(io.StringIO(sample, newline=""), SAMPLE_RECORDS + 100))


def usual_width(records: Sequence[Sequence[str]]) -> int:
    """The most frequent number of fields; the larger one when two are equally frequent.

    >>> usual_width([["title"], ["a", "b"], ["1", "2"]])
    2
    """
    counts = Counter(len(record) for record in records if any(record))
    return max(counts, key=lambda width: (counts[width], width), default=0)


@dataclass(frozen=True)
class _SampleCut:
    """The sample, split by one separator."""

    sample: str
    separator: str
    quote: str
    width: int
    records: tuple[Record, ...]

    @property
    def usual(self) -> list[tuple[str, ...]]:
        """The records of the usual width."""
        return [record.cells for record in self.records if len(record.cells) == self.width]

    @property
    def cells(self) -> list[str]:
        """The cells of the first hundred rows."""
        usual = self.usual
        return [cell for record in usual[1:101] or usual for cell in record]


def _evenness(seen: _SampleCut) -> float:
    """The square of the share of lines with the usual number of cells."""
    return float((len(seen.usual) / len(seen.records)) ** 2)


def _value_share(seen: _SampleCut) -> float:
    """The share of cells that look like numbers, dates, times or words."""
    cells = seen.cells
    return 0.2 + 0.8 * sum(map(_looks_like_value, cells)) / len(cells)


def _without_stray_quotes(seen: _SampleCut) -> float:
    """Lower where quote characters are left at the start of cells."""
    cells = seen.cells
    return 1.0 - sum(cell[:1] in ('"', "'") for cell in cells) / len(cells)


def _breadth(seen: _SampleCut) -> float:
    """Higher for more columns, which are less likely by chance."""
    return 1.0 - 0.4 / seen.width


def _trust(seen: _SampleCut) -> float:
    """Lower for characters that are common in plain text, and for the single quote."""
    return _DOUBTFUL.get(seen.separator, 1.0) * (1.0 if seen.quote == '"' else 0.99)


def _quotes_in_place(seen: _SampleCut) -> float:
    """Lower where quoted cells are not between separators: a character only inside quotes is not a separator."""
    if not seen.quote or seen.quote not in seen.sample:
        return 1.0
    any_sign = "[" + re.escape("".join(SEPARATORS)) + "]"
    everywhere = _count_quoted(seen, any_sign)
    return min(1.0, _count_quoted(seen, re.escape(seen.separator)) / everywhere) ** 2 if everywhere else 1.0


_FITS: tuple[Callable[[_SampleCut], float], ...] = (
    _evenness,
    _value_share,
    _without_stray_quotes,
    _breadth,
    _trust,
    _quotes_in_place,
)


def _lines_are_values(seen: _SampleCut) -> bool:
    """Whether whole lines are times, dates, links or numbers, so that the file has one column.

    Not if the separator splits the header too. A comma may separate two whole numbers, so it needs a header that it
    does not split.
    """
    lines = [line.strip() for line in re.split(r"[\r\n]+", seen.sample[:20_000]) if line.strip()]
    first, rest = lines[0], lines[1:-1] or lines[1:]
    header_is_cut = seen.separator in first and not _is_one_value(first)
    if not rest or header_is_cut or sum(map(_is_one_value, rest)) < 0.95 * len(rest):
        return False
    return seen.separator in _DOUBTFUL or seen.separator not in first


def _blanks_are_prose(seen: _SampleCut) -> bool:
    """Whether blanks only separate words of text.

    Blanks are separators only if they split the first line too, and some column has numbers, dates or quoted cells.
    """
    if seen.separator != " ":
        return False
    if not seen.width - 1 <= len(seen.records[0].cells) <= seen.width:
        return True
    quoted = bool(seen.quote) and _count_quoted(seen, " ") > 0
    columns = zip(*seen.usual[1:] or seen.usual, strict=True)
    return not quoted and not any(_mostly_figures(column) for column in columns)


_REFUSALS: tuple[Callable[[_SampleCut], bool], ...] = (_lines_are_values, _blanks_are_prose)


def _is_doubled(seen: _SampleCut) -> bool:
    """Whether every second column is empty in all rows, so that the separator is the character twice: a||b."""
    if seen.width < 3 or seen.width % 2 == 0 or 2 * seen.separator not in seen.sample:
        return False
    usual = seen.usual
    between = not any(cell for record in usual for cell in record[1::2])
    return between and any(any(record[::2]) for record in usual) and seen.separator not in " \t"


def _count_quoted(seen: _SampleCut, signs: str) -> int:
    mark = re.escape(seen.quote)
    # Possessive, so that a quote that is never closed does not cause backtracking.
    pattern = rf"(?:^|{signs}) ?{mark}(?:[^{mark}\\]|{mark}{mark}|\\.)*+{mark}(?= ?(?:{signs}|$|\r))"
    return len(re.findall(pattern, seen.sample[:100_000], re.MULTILINE))


def _mostly_figures(column: Sequence[str]) -> bool:
    figures = sum(looks_like_number(cell) or looks_like_date(cell) or looks_like_time(cell) for cell in column)
    return figures > 0.8 * len(column)


def _is_one_value(line: str) -> bool:
    """
    >>> [_is_one_value(line) for line in ("01:02:03", "2024-01-31 10:15", "http://a.b/c?d=1", "1,5", "a b")]
    [True, True, True, True, False]
    """
    return looks_like_time(line) or looks_like_date(line) or looks_like_number(line) or bool(_LINK.fullmatch(line))


def _quotes_in(sample: str) -> list[str]:
    """The possible quotes: a single quote only if it opens cells; otherwise it is an apostrophe.

    If there is no double quote and half of the lines have a cell in single quotes, only the single quote is possible.

    >>> _quotes_in("a,b\\n1,it's\\n"), _quotes_in("a,b\\n" + "1,'x;y'\\n" * 5)
    (['"'], ["'"])
    """
    sample = sample[:20_000]
    opens = len(re.findall(r"(?:^|[,;\t|])'[^'\n]*'(?=[,;\t|\r\n])", sample, re.MULTILINE))
    if opens < 3 or opens <= sample.count('"') / 2:
        return ['"']
    return ["'"] if '"' not in sample and 2 * opens >= len(re.split(r"[\r\n]+", sample)) else ['"', "'"]


def _looks_like_value(cell: str) -> bool:
    return looks_like_number(cell) or looks_like_date(cell) or looks_like_time(cell) or bool(_WORD.fullmatch(cell))


# A longer line stays unchanged: the parser has its own limit.
_LONGEST_LINE = 1 << 20


@dataclass(frozen=True, slots=True)
class Notation:
    """How cells are written in the file: separator of one or two characters, quote, and escape character."""

    separator: str
    quote: str
    escape: str
    width: int


def find_notation(sample: str, cut: DialectGuess) -> Notation | None:
    """The notation of the sample if the parser does not support it, else None.

    >>> find_notation('a,b\\n1,"x, y"\\n', DialectGuess(",", '"', 2, 1.0)) is None
    True
    >>> find_notation('a, b\\n1, "x, y"\\n', DialectGuess(",", '"', 2, 1.0))
    Notation(separator=',', quote='"', escape='', width=2)
    """
    notation = Notation(cut.separator, cut.quote, _escape_in(sample, cut), cut.width)
    if len(cut.separator) > 1:
        return notation
    if not cut.quote or cut.quote not in sample:
        return None
    # A line inside a cell with line breaks gives no information about quotes.
    lines = list(io.StringIO(sample, newline=""))
    records = read_records(sample, cut.separator, cut.quote, SAMPLE_RECORDS)
    single = (lines[record.last_line - 1] for record in records if record.first_line == record.last_line)
    return notation if any(_is_odd(line.rstrip("\r\n"), notation) for line in single) else None


def _is_odd(line: str, notation: Notation) -> bool:
    """Whether the line is a row after its quotes are repaired, and the parser would read it differently."""
    if notation.quote not in line or is_well_formed(line, notation.separator, notation.quote):
        return False
    cells = repaired_cells(line, notation.separator, notation.quote, notation.escape)
    fits = cells is not None and len(cells) == notation.width
    return fits and cells != cells_of(line, notation.separator, notation.quote)


def rewritten(source: TextSource, notation: Notation) -> TextSource:
    """The same text with separators of one character, and with doubled quotes inside cells."""
    source.stream.seek(source.start)
    target = tempfile.TemporaryFile()  # noqa: SIM115 - handed on in the result
    for line in _rewritten_lines(iter(text_of(source.stream)), notation):
        target.write(line.encode())
    size = target.tell()
    target.seek(0)
    return replace(source, stream=target, start=0, size=size)


def is_padded(sample: str, separator: str) -> bool:
    """Whether a blank follows nearly every separator, so that it belongs to the separator and not to the cell.

    >>> is_padded("a, b, c\\n1, 2, 3\\n", ","), is_padded("a,b\\n1, 2\\n", ",")
    (True, False)
    """
    if separator.isspace():
        return False
    return 0 < 0.95 * sample.count(separator) <= sample.count(f"{separator} ")


def _escape_in(sample: str, cut: DialectGuess) -> str:
    r"""A backslash if one escapes a quote inside a cell, else empty; the one in `"C:\folder\",` escapes nothing."""
    if not cut.quote:
        return ""
    end = rf"[ ]*(?:{re.escape(cut.separator)}|[\r\n]|\Z)"
    return "\\" if re.search(rf"\\{re.escape(cut.quote)}(?!{end})(?!{re.escape(cut.quote)}{end})", sample) else ""


def _rewritten_lines(lines: Iterator[str], notation: Notation) -> Iterator[str]:
    ahead = _Ahead(lines)
    while (line := ahead.next()) is not None:
        if len(line) > _LONGEST_LINE or not _may_change(line, notation):
            yield line
        elif below := _lines_below(line, ahead, notation):
            yield line
            yield from (ahead.next() or "" for _ in range(below))
        else:
            yield _rewritten(line, ahead, notation)


def _may_change(line: str, notation: Notation) -> bool:
    return len(notation.separator) > 1 or (bool(notation.quote) and notation.quote in line)


def _lines_below(line: str, ahead: _Ahead, notation: Notation) -> int:
    """How many lines below belong to this record for the parser as well; they stay unchanged."""
    if len(notation.separator) > 1 or notation.escape:
        return 0
    return lines_below(line, iter(ahead), notation.width, notation.separator, notation.quote) or 0


def _rewritten(line: str, ahead: _Ahead, notation: Notation) -> str:
    bare = line.rstrip("\r\n")
    if len(notation.separator) == 1 and is_well_formed(bare, notation.separator, notation.quote):
        return line
    cells: Sequence[str] | None = repaired_cells(bare, notation.separator, notation.quote, notation.escape)
    if cells is None:
        line, cells = _joined(line, ahead, notation)
        bare = line.rstrip("\r\n")
    if cells is None and len(notation.separator) > 1:
        cells = bare.split(notation.separator)
    return line if cells is None else _plain_line(cells, notation) + line[len(bare) :]


class _Ahead:
    """An iterator over lines with lookahead: iterating shows the lines below without consuming them."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines, self._seen = lines, deque[str]()

    def next(self) -> str | None:
        return self._seen.popleft() if self._seen else next(self._lines, None)

    def __iter__(self) -> Iterator[str]:
        yield from list(self._seen)
        for line in self._lines:
            self._seen.append(line)
            yield line


def _joined(line: str, ahead: _Ahead, notation: Notation) -> tuple[str, Sequence[str] | None]:
    """The line with those below it that close its quote, and their cells; only the line if none does."""
    whole = line
    for count, below in enumerate(itertools.islice(ahead, LONGEST_CELL), start=1):
        other = repaired_cells(below.rstrip("\r\n"), notation.separator, notation.quote, notation.escape)
        whole += below
        if (other is not None and len(other) == notation.width > 1) or len(whole) > _LONGEST_LINE:
            break
        cells = repaired_cells(whole.rstrip("\r\n"), notation.separator, notation.quote, notation.escape)
        if cells is not None:
            for _ in range(count):
                ahead.next()
            return whole, cells
    return line, None


def _plain_line(cells: Sequence[str], notation: Notation) -> str:
    separator, quote = notation.separator[0], notation.quote or '"'
    special = (separator, quote, "\n", "\r")
    quoted = (
        f"{quote}{cell.replace(quote, 2 * quote)}{quote}" if any(sign in cell for sign in special) else cell
        for cell in cells
    )
    return separator.join(quoted)
