"""Separator and quote of a text file, judged by how evenly each choice cuts the lines.

Every choice gets a product of fits in [0, 1] (`_FITS`); the best one that `_REFUSALS` do not refuse is taken, and if
none is left, the file has one column.
"""

from __future__ import annotations

import io
import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from spu_core.tables.records import Record, read_records

SEPARATORS = (",", ";", "\t", "|", ":", " ", "^", "~", "\x01", "\x1f")
# Two signs that separate together, so that a comma alone may stand in a cell: `$1,500, 2 pieces`.
COMMA_BLANK = ", "
# Signs that also stand inside plain text, so that a cut by them must be clearly better to be believed.
_DOUBTFUL = {":": 0.6, " ": 0.5, "^": 0.9, "~": 0.9}
_NUMBER = re.compile(r"[+-]?[$€£]?(\d{1,3}([ \u00a0\u202f.,']\d{3})+|\d+)?([.,]\d*)?([eE][+-]?\d+)?\s?[%€$£]?")
_CLOCK = r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[APap][Mm])?"
_TIME = re.compile(_CLOCK)
_DATE = re.compile(rf"\d{{1,4}}([-/.])\d{{1,2}}\1\d{{1,4}}([T ]{_CLOCK}(Z|[+-]\d\d:?\d\d)?)?")
_LINK = re.compile(r"[a-z][a-z0-9+]{1,9}://\S+")
_WORD = re.compile(r"[^\W\d_][\w .\-/&+]{0,40}|")
SAMPLE_RECORDS = 400


@dataclass(frozen=True, slots=True)
class Cut:
    """One way of cutting the sample: separator, quote, the usual number of fields, and how well it fits in [0, 1].

    The separator may be the same sign twice, such as `||`, or a comma with a blank. `first_width` counts the fields of
    the first line, and `is_even` says that every line has the usual number.
    """

    separator: str
    quote: str
    width: int
    fit: float
    first_width: int = 0
    is_even: bool = False


def sniff_cut(sample: str) -> Cut:
    """The separator and quote that cut the lines most evenly into cells that look like values.

    >>> cut = sniff_cut("a;b\\n1,5;x\\n2,5;y\\n")
    >>> cut.separator, cut.width
    (';', 2)
    >>> sniff_cut("time\\n01:02:03\\n04:05:06\\n").width
    1
    >>> sniff_cut("a||b\\n1||2\\n3||4\\n").separator
    '||'
    >>> sniff_cut("price, who\\n$1,500, Ann\\n$20, Bob\\n").separator
    ', '
    >>> sniff_cut("id,tags\\n1,a;b;c\\n2,d;e;f\\n").separator
    ','
    """
    head, quotes = _first_lines(sample), _quotes_in(sample)
    cuts = [cut_with(head, separator, quote) for separator in (*SEPARATORS, COMMA_BLANK) for quote in quotes]
    best = _with_first_line(cuts, max(cuts, key=lambda cut: cut.fit))
    if best.fit > 0.0:
        return best
    # One column: a sign that the cells do not hold.
    return Cut(next((sign for sign in SEPARATORS if sign not in sample), ","), '"', 1, 0.0)


def _with_first_line(cuts: Sequence[Cut], best: Cut) -> Cut:
    """A separator that cuts all lines evenly is better than one that leaves the first line whole.

    `id,tags` over `7,a;b;c`: the header shows that the comma separates and the semicolon makes lists.
    """
    if best.first_width > 1:
        return best
    others = [cut for cut in cuts if cut.is_even and cut.fit > 0.0 and cut.separator not in _DOUBTFUL]
    return max(others, key=lambda cut: cut.fit, default=best)


def cut_with(sample: str, separator: str, quote: str) -> Cut:
    """How well one separator and quote fit the sample; nothing fits a separator that cuts no cells apart."""
    if separator == COMMA_BLANK:
        return replace(cut_with(sample.replace(COMMA_BLANK, "\x1f"), "\x1f", quote), separator=COMMA_BLANK)
    if separator[0] not in sample:
        return Cut(separator, quote, 1, 0.0)
    records = [record for record in read_records(sample, separator[0], quote, SAMPLE_RECORDS) if any(record.cells)]
    width = usual_width([record.cells for record in records])
    seen = _Seen(sample, separator[0], quote, width, tuple(records))
    if width < 2 or any(refuses(seen) for refuses in _REFUSALS):
        return Cut(separator, quote, max(1, min(width, 1)), 0.0)
    fit = 1.0
    for judge in _FITS:
        fit *= judge(seen)
    first, is_even = len(records[0].cells), len(seen.usual) == len(records) > 2
    if _is_doubled(seen):
        return Cut(2 * separator[0], quote, (width + 1) // 2, fit, first, is_even)
    return Cut(separator[0], quote, width, fit, first, is_even)


def _first_lines(sample: str) -> str:
    """Lines enough for the records that are looked at."""
    return "".join(itertools.islice(io.StringIO(sample, newline=""), SAMPLE_RECORDS + 100))


def usual_width(records: Sequence[Sequence[str]]) -> int:
    """The most frequent number of fields; the larger one when two are equally frequent.

    >>> usual_width([["title"], ["a", "b"], ["1", "2"]])
    2
    """
    counts = Counter(len(record) for record in records if any(record))
    return max(counts, key=lambda width: (counts[width], width), default=0)


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
class _Seen:
    """The sample as one separator cuts it."""

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


def _evenness(seen: _Seen) -> float:
    """The share of lines with the usual number of cells counts twice."""
    return float((len(seen.usual) / len(seen.records)) ** 2)


def _value_share(seen: _Seen) -> float:
    """Cells that look like numbers, dates, times or words speak for a cut."""
    cells = seen.cells
    return 0.2 + 0.8 * sum(map(_looks_like_value, cells)) / len(cells)


def _without_stray_quotes(seen: _Seen) -> float:
    """A quote sign left at the start of a cell speaks against a cut."""
    cells = seen.cells
    return 1.0 - sum(cell[:1] in ('"', "'") for cell in cells) / len(cells)


def _breadth(seen: _Seen) -> float:
    """More columns are less likely by chance."""
    return 1.0 - 0.4 / seen.width


def _trust(seen: _Seen) -> float:
    """Signs that also stand inside plain text are believed less; so is the single quote."""
    return _DOUBTFUL.get(seen.separator, 1.0) * (1.0 if seen.quote == '"' else 0.99)


def _quotes_in_place(seen: _Seen) -> float:
    """Quoted cells stand between separators, so a sign that only stands inside quotes separates nothing."""
    if not seen.quote or seen.quote not in seen.sample:
        return 1.0
    any_sign = "[" + re.escape("".join(SEPARATORS)) + "]"
    everywhere = _count_quoted(seen, any_sign)
    return min(1.0, _count_quoted(seen, re.escape(seen.separator)) / everywhere) ** 2 if everywhere else 1.0


_FITS: tuple[Callable[[_Seen], float], ...] = (
    _evenness,
    _value_share,
    _without_stray_quotes,
    _breadth,
    _trust,
    _quotes_in_place,
)


def _lines_are_values(seen: _Seen) -> bool:
    """Lines that are times, dates, links or numbers as a whole are one column, unless the header is cut as well.

    A comma may separate two whole numbers, so it needs a header that it does not cut.
    """
    lines = [line.strip() for line in re.split(r"[\r\n]+", seen.sample[:20_000]) if line.strip()]
    first, rest = lines[0], lines[1:-1] or lines[1:]
    header_is_cut = seen.separator in first and not _is_one_value(first)
    if not rest or header_is_cut or sum(map(_is_one_value, rest)) < 0.95 * len(rest):
        return False
    return seen.separator in _DOUBTFUL or seen.separator not in first


def _blanks_are_prose(seen: _Seen) -> bool:
    """Blanks cut a table only if they cut its first line too, and some column holds numbers, dates or quoted cells."""
    if seen.separator != " ":
        return False
    if not seen.width - 1 <= len(seen.records[0].cells) <= seen.width:
        return True
    quoted = bool(seen.quote) and _count_quoted(seen, " ") > 0
    columns = zip(*seen.usual[1:] or seen.usual, strict=True)
    return not quoted and not any(_mostly_figures(column) for column in columns)


_REFUSALS: tuple[Callable[[_Seen], bool], ...] = (_lines_are_values, _blanks_are_prose)


def _is_doubled(seen: _Seen) -> bool:
    """Whether every second column is empty everywhere, so that the separator is the sign twice: a||b."""
    if seen.width < 3 or seen.width % 2 == 0 or 2 * seen.separator not in seen.sample:
        return False
    usual = seen.usual
    between = not any(cell for record in usual for cell in record[1::2])
    return between and any(any(record[::2]) for record in usual) and seen.separator not in " \t"


def _count_quoted(seen: _Seen, signs: str) -> int:
    mark = re.escape(seen.quote)
    # Possessive: a quote that is never closed must not be tried in many ways.
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
    """A single quote counts as a quote only where it opens cells; elsewhere it is an apostrophe.

    Where no double quote stands in the file and half of its lines hold a cell in single quotes, only these count.

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
