"""Clean tables with one kind of pollution each, and what a reader should make of them.

The kinds follow what surveys of CSV files found: preambles, headers of several rows, separators too many or too few,
odd quotes, line ends, encodings, tables below each other. The tables and the code are our own.
"""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

Row = tuple[str, ...]


@dataclass(frozen=True)
class Polluted:
    """One file and its truth; `header` is None where the file names no columns."""

    kind: str
    name: str
    content: bytes
    header: Row | None
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Clean:
    """A table as its author meant it."""

    name: str
    header: Row
    rows: tuple[Row, ...]

    def text(self, *, separator: str = ",", quote: str = '"', escape: str | None = None, end: str = "\n") -> str:
        lines = [separator.join(_cell(cell, separator, quote, escape) for cell in row) for row in self.all_rows]
        return "".join(line + end for line in lines)

    @property
    def all_rows(self) -> tuple[Row, ...]:
        return (self.header, *self.rows)

    def lines(self) -> list[str]:
        """The text of each row; a cell may hold a line break."""
        return [",".join(_cell(cell, ",", '"', None) for cell in row) + "\n" for row in self.all_rows]

    def polluted(self, kind: str, content: str | bytes, number: object = "", **truth: object) -> Polluted:
        data = content.encode() if isinstance(content, str) else content
        plain = Polluted(kind, f"{kind}{number}_{self.name}.csv", data, self.header, self.rows)
        return replace(plain, **truth)  # type: ignore[arg-type]


def _cell(cell: str, separator: str, quote: str, escape: str | None) -> str:
    if not any(mark in cell for mark in (separator, quote, "\n", "\r")) and cell == cell.strip():
        return cell
    return f"{quote}{cell.replace(quote, quote + quote if escape is None else escape + quote)}{quote}"


def clean_tables() -> list[Clean]:
    """A shop's orders, a sensor's readings, a survey of words, and patients with codes."""
    draw = random.Random(7)
    notes = ("on time", 'said "never again"', "box torn, glass broken", "", "call back; no answer", "it's fine")
    orders = tuple(
        (
            f"2023-{draw.randint(1, 12):02d}-{draw.randint(1, 28):02d}",
            f"{draw.randint(0, 23):02d}:{draw.randint(0, 59):02d}:{draw.randint(0, 59):02d}",
            str(draw.randint(1, 40)),
            f"Item {draw.randint(0, 999):05d}",
            f"${draw.randint(1, 90)}.{draw.randint(0, 99):02d}",
            draw.choice(["book", "toy", "garden tool"]),
            f"http://shop.example/item?id={draw.randint(1, 999)}&x=1",
            draw.choice(notes),
        )
        for _ in range(60)
    )
    sensors = tuple(
        (str(n), f"{draw.gauss(20, 3):.2f}", f"{draw.random():.4f}", draw.choice(["", "NA", "1", "0"]))
        for n in range(1, 46)
    )
    words = tuple(
        (
            f"{draw.choice(['Ann', 'Bob', 'Eve', 'Zoë', 'Jürgen'])} {n}",
            draw.choice(["Bonn", "São Paulo", "Rome"]),
            draw.choice(["yes", "no", "maybe"]),
            draw.choice(["likes it, a lot", "dislikes it", "no answer", "5 stars"]),
        )
        for n in range(40)
    )
    patients = tuple(
        (f"{n:05d}", draw.choice("MF"), str(draw.randint(18, 95)), f"{draw.randint(900, 1100) / 10}", str(n % 2))
        for n in range(50)
    )
    return [
        Clean("orders", ("DATE", "TIME", "Qty", "Product", "Price", "Kind", "URL", "Comment"), orders),
        Clean("sensors", ("reading", "temperature", "share", "alarm"), sensors),
        Clean("words", ("name", "city", "answer", "remark"), words),
        Clean("patients", ("patient_id", "sex", "age", "weight", "label"), patients),
    ]


def corpus() -> list[Polluted]:
    """All files; the same ones every time."""
    found = [file for table in clean_tables() for make in KINDS for file in make(table)]
    return [*found, *odd_headers(), *single_columns(), *headerless()]


def grid() -> list[Polluted]:
    """One table with every kind of pollution, those of a line in every line and column: about 2,500 files."""
    orders = clean_tables()[0]
    broken = replace(orders, rows=tuple((*row[:-1], row[-1].replace("; ", "\n")) for row in orders.rows))
    kinds = [make for make in KINDS if make is not _rows]
    return [*(file for make in kinds for file in make(broken)), *_rows(broken, everywhere=True)]


def _encodings(table: Clean) -> Iterator[Polluted]:
    yield table.polluted("clean", table.text())
    for encoding in ("utf-8-sig", "utf-16", "cp1252"):
        yield table.polluted("encoding", table.text().encode(encoding), f"_{encoding}")


def _line_ends(table: Clean) -> Iterator[Polluted]:
    for number, end in enumerate(("\r\n", "\r")):
        yield table.polluted("line_end", table.text(end=end), number)
    lines = table.lines()
    mixed = "".join(line if n % 3 else line.rstrip("\n") + "\r\n" for n, line in enumerate(lines))
    yield table.polluted("line_end", mixed, "_mixed")
    yield table.polluted("no_last_line_end", table.text().rstrip("\n"))
    yield table.polluted("blank_lines_at_end", table.text() + "\n\n")


def _separators(table: Clean) -> Iterator[Polluted]:
    for word, separator in (("tab", "\t"), ("semicolon", ";"), ("pipe", "|"), ("blank", " ")):
        yield table.polluted(f"separator_{word}", table.text(separator=separator))
    yield table.polluted("separator_comma_blank", table.text(separator=", "))
    yield table.polluted("separator_two_signs", table.text(separator="||"))


def _quotes(table: Clean) -> Iterator[Polluted]:
    yield table.polluted("quote_single", table.text(quote="'"))
    yield table.polluted("quote_everywhere", "".join(_all_quoted(row) for row in table.all_rows))
    yield table.polluted("escape_backslash", table.text(escape="\\"))
    yield table.polluted("escape_none", table.text(escape=""))


def _all_quoted(row: Row) -> str:
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in row) + "\n"


def _preambles(table: Clean) -> Iterator[Polluted]:
    text, rest = table.text(), "," * (len(table.header) - 1)
    yield table.polluted("preamble", f"Report of the year 2024\n\n{text}", "_title")
    yield table.polluted("preamble", f"# made by tool, v1.2\n# 2024-01-31\n{text}", "_comments")
    yield table.polluted("preamble", f"Source: office, Bonn\nMade: 2024-01-31, 10:15\nBy: Ann\n\n{text}", "_facts")
    yield table.polluted("preamble_excel", f"Report{rest}\n{rest}\n{text}", "_title")
    yield table.polluted("preamble_excel", f"Report{rest}\nMade by Ann,2024-01-31{rest[1:]}\n{rest}\n{text}", "_facts")
    yield table.polluted("preamble_excel", f"Report{rest}\n{text}", "_no_gap")


def _headers(table: Clean) -> Iterator[Polluted]:
    lines = table.lines()
    yield table.polluted("header_twice", lines[0] + table.text())
    yield table.polluted("header_twice", lines[0] * 2 + table.text(), "_three_times")
    middle = len(lines) // 2
    yield table.polluted("repeats_header_line", "".join([*lines[:middle], lines[0], *lines[middle:]]))
    yield table.polluted("header_quoted", _all_quoted(table.header) + "".join(lines[1:]))
    for place in range(1, len(table.header)):
        more = [*table.header[:place], "", *table.header[place:]]
        yield table.polluted("header_extra_separator", ",".join(more) + "\n" + "".join(lines[1:]), place)
        joined = "".join(table.header[place - 1 : place + 1])
        less = [*table.header[: place - 1], joined, *table.header[place + 1 :]]
        yield table.polluted("header_missing_separator", ",".join(less) + "\n" + "".join(lines[1:]), place)
    yield table.polluted("header_extra_separator", lines[0].rstrip("\n") + ",\n" + "".join(lines[1:]), "_at_end")
    for word, sign in (("semicolon", ";"), ("tab", "\t"), ("blank", " "), ("comma_blank", ", ")):
        yield table.polluted("header_other_separator", sign.join(table.header) + "\n" + "".join(lines[1:]), f"_{word}")
    for place in range(len(table.header)):
        for number, pattern in enumerate(('"{}', '{}"')):
            names = [pattern.format(name) if at == place else name for at, name in enumerate(table.header)]
            yield table.polluted("header_extra_quote", ",".join(names) + "\n" + "".join(lines[1:]), f"{place}_{number}")


def _few_rows(table: Clean) -> Iterator[Polluted]:
    lines = table.lines()
    yield table.polluted("no_header", "".join(lines[1:]), header=None)
    yield table.polluted("header_only", lines[0], rows=())
    yield table.polluted("one_row", "".join(lines[:2]), rows=table.rows[:1])
    yield table.polluted("two_rows", "".join(lines[:3]), rows=table.rows[:2])


def _rows(table: Clean, *, everywhere: bool = False) -> Iterator[Polluted]:
    lines = table.lines()
    for at in range(1, len(lines)) if everywhere else (1, len(lines) // 2, len(lines) - 1):
        row = table.all_rows[at]
        for place in range(1, len(row)) if everywhere else sorted({1, len(row) // 2, len(row) - 1}):
            cells = [_cell(cell, ",", '"', None) for cell in row]
            more = ",".join([*cells[:place], "", *cells[place:]])
            less = ",".join([*cells[: place - 1], cells[place - 1] + cells[place], *cells[place + 1 :]])
            odd = ",".join([*cells[:place], '"' + cells[place], *cells[place + 1 :]])
            late = ",".join([*cells[:place], cells[place] + '"', *cells[place + 1 :]])
            changes = {"extra_separator": more, "missing_separator": less, "open_quote": odd, "late_quote": late}
            for kind, line in changes.items():
                content = "".join([*lines[:at], line + "\n", *lines[at + 1 :]])
                yield table.polluted(f"row_{kind}", content, f"{at}_{place}")
        other = lines[at].replace(",", ";")
        yield table.polluted("row_other_separator", "".join([*lines[:at], other, *lines[at + 1 :]]), at)
        ended = lines[at].removesuffix("\n") + "\r\n"
        yield table.polluted("row_other_end", "".join([*lines[:at], ended, *lines[at + 1 :]]), at)


def _ends(table: Clean) -> Iterator[Polluted]:
    text, rest = table.text(), "," * (len(table.header) - 1)
    yield table.polluted("footnote", text + "\nSource: office of things\n", "_line")
    yield table.polluted("footnote", text + f"* preliminary{rest}\n", "_cell", rows=(*table.rows, _note(table)))
    yield table.polluted("blank_rows_at_end", text + f"{rest}\n" * 20)
    lines = table.lines()
    yield table.polluted("blank_lines_between", "\n".join(lines))
    few = "code,word\n7,y\n8,z\n9,x\n"
    yield table.polluted("second_table", f"{text}\n{few}")


def _note(table: Clean) -> Row:
    return ("* preliminary", *[""] * (len(table.header) - 1))


def _multirow(table: Clean) -> Iterator[Polluted]:
    groups = ["first", *[""] * (len(table.header) // 2 - 1), "second", *[""] * (len(table.header) - 1)]
    line = ",".join(groups[: len(table.header)]) + "\n"
    half = len(table.header) // 2
    joined = tuple(f"{'first' if at < half else 'second'} {name}" for at, name in enumerate(table.header))
    yield table.polluted("header_groups", line + table.text(), header=joined)
    if half > 1:
        upper, lower = (*table.header[:half], *[""] * (len(table.header) - half)), (*[""] * half, *table.header[half:])
        rows = "".join(table.lines()[1:])
        yield table.polluted("header_split", f"{','.join(upper)}\n{','.join(lower)}\n{rows}")


KINDS = (
    _encodings,
    _line_ends,
    _separators,
    _quotes,
    _preambles,
    _headers,
    _few_rows,
    _rows,
    _ends,
    _multirow,
)


def odd_headers() -> list[Polluted]:
    """Headers in which some names look like numbers, dates or shares."""
    draw = random.Random(11)
    lands = [(land, *(str(draw.randint(100, 9_000)) for _ in range(8))) for land in ("Chad", "Peru", "Togo", "Fiji")]
    labelled = [(row[0], *row[1:4], str(n % 2)) for n, row in enumerate(lands)]
    codes = [(row[0], row[0][:2].upper(), row[2], row[3], str(n % 2)) for n, row in enumerate(lands)]
    digits = [(*(str((n * m) % 17) for m in range(8)), str(n % 3)) for n in range(1, 9)]
    index = [(str(n), *(f"{(n * m) % 7 / 8}" for m in range(1, 6))) for n in range(8)]
    words = [("x y", "left", "red"), ("z", "right", "blue"), ("u v", "left", "green"), ("w", "right", "red")]
    found = {
        "years_label": (("country", "2019", "2020", "2021", "label"), labelled),
        "one_year": (("country", "code", "gdp", "2020", "label"), codes),
        "digits_target": ((*map(str, range(8)), "target"), digits),
        "pandas_index": (("", "0", "1", "2", "3", "4"), index),
        "shares": (("name", "5%", "50%", "95%"), [row[:4] for row in lands]),
        "dates_label": (("country", "2020-01-01", "2020-02-01", "2020-03-01", "label"), labelled),
        "year_of_words": (("remark", "1999", "2000"), words),
        "years": (("country", "2019", "2020", "2021"), [row[:4] for row in lands]),
        "dollars": (("name", "$1", "$10", "$100"), [row[:4] for row in lands]),
        "ages": (("region", "0", "18", "65"), [row[:4] for row in lands]),
    }
    return [
        Clean(name, header, tuple(rows)).polluted("header_numbers", Clean(name, header, tuple(rows)).text())
        for name, (header, rows) in found.items()
    ]


def single_columns() -> list[Polluted]:
    """One column of sentences, times, links, numbers or quoted lists; nothing separates cells there."""
    draw = random.Random(3)
    times = [f"{draw.randint(0, 23):02d}:{draw.randint(0, 59):02d}:{draw.randint(0, 59):02d}" for _ in range(30)]
    sentences = [
        draw.choice(["the quick fox runs", "it rains all day", "no one came home", "red sun at night"])
        for _ in range(30)
    ]
    found = {
        "times": ("time", times),
        "sentences": ("remark", sentences),
        "numbers": ("value", [str(n * 7) for n in range(30)]),
        "links": ("url", [f"http://a.example/p?n={n}" for n in range(30)]),
        "moments": ("when", [f"2024-01-{n % 28 + 1:02d} {time}" for n, time in enumerate(times)]),
        "names": ("name", [f"{a} {b}" for a in ("Ann", "Bob", "Eve") for b in ("Lee", "Roe", "Doe", "Poe")]),
    }
    tables = [Clean(name, (head,), tuple((cell,) for cell in cells)) for name, (head, cells) in found.items()]
    files = [table.polluted("one_column", table.text()) for table in tables]
    for name, most in (("lists", 5), ("equal_lists", 1)):
        rows = tuple((str(n), ";".join("abcdef"[: 2 + n % most if most > 1 else 6]), str(n % 2)) for n in range(20))
        table = Clean(name, ("id", "tags", "y"), rows)
        quoted = "".join(_all_quoted(row) for row in table.all_rows)
        files.append(table.polluted("separator_in_quotes", quoted))
    return files


def headerless() -> list[Polluted]:
    """Files that name no columns; whatever is taken for a header there is a row lost."""
    draw = random.Random(5)
    iris = [(*(f"{draw.uniform(0.1, 7):.1f}" for _ in range(4)), f"kind-{n % 3}") for n in range(40)]
    adult = [
        (str(draw.randint(17, 90)), draw.choice(["Private", "State-gov", "?"]), draw.choice(["<=50K", ">50K"]))
        for _ in range(40)
    ]
    events = [(f"2024-01-{n % 28 + 1:02d} 10:{n % 60:02d}", draw.choice(["start", "stop"]), str(n)) for n in range(40)]
    years = [(land, *(str(draw.randint(1900, 2020)) for _ in range(3))) for land in ("Chad", "Peru", "Togo", "Fiji")]
    votes = [(draw.choice(["rep", "dem"]), *(draw.choice(["y", "n", "?"]) for _ in range(6))) for _ in range(40)]
    codes = [(f"{n:05d}", f"{n * 3:04d}", draw.choice(["a", "b"])) for n in range(40)]
    money = [(f"Item {n}", f"${n}.50", str(n % 5)) for n in range(1, 30)]
    first_missing = [(str(n) if n else "NA", f"{n / 7:.3f}") for n in range(30)]
    matrix = [tuple(str(draw.randint(0, 9)) for _ in range(6)) for _ in range(30)]
    rising = [tuple(str(n + m) for m in range(5)) for n in range(30)]
    found = {
        "iris": iris, "adult": adult, "events": events, "years": years, "votes": votes, "codes": codes,
        "money": money, "first_missing": first_missing, "matrix": matrix, "rising": rising,
    }  # fmt: skip
    tables = [Clean(name, ("",) * len(rows[0]), tuple(rows)) for name, rows in found.items()]
    return [table.polluted("no_header_real", "".join(table.lines()[1:]), header=None) for table in tables]


def write_corpus(folder: Path) -> None:
    """The corpus as files: `csv/NAME` polluted, `clean/NAME` as it should be read, `corpus.json` with kinds."""
    for part in ("csv", "clean"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    notes = {}
    for file in corpus():
        (folder / "csv" / file.name).write_bytes(file.content)
        text = io.StringIO()
        csv.writer(text).writerows([*([] if file.header is None else [file.header]), *file.rows])
        (folder / "clean" / file.name).write_text(text.getvalue(), encoding="utf-8", newline="")
        notes[file.name] = {"kind": file.kind, "header": file.header is not None}
    (folder / "corpus.json").write_text(json.dumps(notes, indent=1), encoding="utf-8")


def read_corpus(folder: Path) -> list[Polluted]:
    """A corpus of files; without `corpus.json`, the kind is the name and every clean file starts with its header."""
    notes_path = folder / "corpus.json"
    notes = json.loads(notes_path.read_text(encoding="utf-8")) if notes_path.exists() else {}
    found = []
    for path in sorted((folder / "csv").iterdir()):
        with (folder / "clean" / path.name).open(encoding="utf-8", newline="") as stream:
            rows = [tuple(row) for row in csv.reader(stream)]
        note = notes.get(path.name, {"kind": path.stem, "header": True})
        header = rows.pop(0) if note["header"] and rows else None
        found.append(Polluted(note["kind"], path.name, path.read_bytes(), header, tuple(rows)))
    return found
