"""Headers are kept, whatever their names look like, and rows of data are never taken for a header."""

from __future__ import annotations

import pytest

from spu_core.errors import TableError
from spu_core.tables import Dialect, Table, read_table

LANDS = (("Chad", "512", "88", "4071"), ("Peru", "71", "903", "22"), ("Togo", "640", "5", "318"))


def csv(*rows: object) -> bytes:
    return "".join(f"{row if isinstance(row, str) else ','.join(row)}\n" for row in rows).encode()  # type: ignore[arg-type]


def codes(table: Table) -> set[str]:
    return {finding.code for finding in table.findings}


WITH_HEADER = {
    "years and a label": ("country,2019,2020,label", *LANDS),
    "years alone": ("country,2019,2020,2021", *LANDS),
    "falling years": ("country,2021,2020,2019", *LANDS),
    "one year among names": ("country,gdp,2020,label", *LANDS),
    "digits and a target": ("0,1,2,target", "5,0,12,1", "3,7,2,0", "9,9,1,1"),
    "digits alone": ("0,1,2,3,4", "5,0,12,1,8", "3,7,2,0,8", "9,9,1,1,0"),
    "index of pandas": (",0,1,2,3", "0,.5,.25,3,1", "1,.75,2,1,9", "2,.1,4,4,2"),
    "shares": ("name,5%,50%,95%", *LANDS),
    "money": ("name,$1,$10,$100", *LANDS),
    "dates and a label": ("country,2020-01-01,2020-02-01,label", *LANDS),
    "dates alone": ("country,2020-01-01,2020-02-01,2020-03-01", *LANDS),
    "years over words": ("remark,1999,2000", "x y,left,red", "z,right,blue", "u,left,green", "w,up,red"),
    "names over dates": ("start,end", "2024-01-01,2024-01-02", "2024-02-01,2024-02-03"),
    "names over times": ("start,who", "10:15,Ann", "11:30,Bob"),
    "words only": ("name,city", "Ann,Bonn", "Bob,Rome", "Eve,Oslo"),
    "a name over gaps": ("a,b", "1,NA", "2,NA", "3,5"),
    "one row": ("name,amount", "Ann,5"),
}
HEADERLESS = {
    "words and numbers": ("Ann,1.5", "Bob,2.5", "Eve,3.5"),
    "years as data": ("Chad,1923,1950", "Peru,1911,1987", "Togo,2001,1999"),
    "rising years as data": ("Chad,1923,1950", "Peru,1911,1987", "Togo,1999,2001"),
    "counts as data": ("1,2,3,4,5", "2,3,4,5,6", "3,4,5,6,7"),
    "numbers": ("5.1,3.5,1.4", "4.9,3.0,1.4", "4.7,3.2,1.3"),
    "dates": ("2024-01-01,start,1", "2024-01-02,stop,2", "2024-01-03,start,3"),
    "times": ("10:15,start", "10:20,stop", "10:25,start"),
    "money": ("Item 1,$1.50", "Item 2,$2.50", "Item 3,$3.50"),
    "codes": ("00501,a", "00502,b", "00503,a"),
    "votes": ("rep,y,n,y", "dem,n,n,y", "rep,y,n,n", "dem,n,y,y"),
    "a gap first": ("NA,0.5", "1,0.25", "2,0.125"),
    "a mark first": ("?,Private,39", "5,State,50", "7,Private,38"),
    "one row": ("Ann,5",),
    "two rows": ("Ann,5", "Bob,6"),
}


@pytest.mark.parametrize("lines", WITH_HEADER.values(), ids=WITH_HEADER)
def test_a_header_is_kept_whatever_its_names_look_like(lines: tuple[object, ...]) -> None:
    table = read_table(csv(*lines), types="text")
    names = str(lines[0]).split(",")

    assert list(table.frame.columns) == [name or "column_1" for name in names]
    assert table.reading.header_line == 1
    assert len(table) == len(lines) - 1


@pytest.mark.parametrize("lines", HEADERLESS.values(), ids=HEADERLESS)
def test_a_file_without_names_keeps_its_first_row(lines: tuple[str, ...]) -> None:
    table = read_table(csv(*lines), types="text")

    assert table.reading.header_line is None
    assert table.frame.iloc[0].tolist() == lines[0].split(",")
    assert len(table) == len(lines)


NAMES = ("name", "amount", "share", "day")
ROWS = ("Ann,5,0.5,2024-01-01", "Bob,6,0.7,2024-01-02", "Eve,7,0.9,2024-01-03")
AROUND = {
    "a title as Excel saves it": (("Report,,,", ",,,", ",".join(NAMES), *ROWS), NAMES, "preamble"),
    "facts as Excel saves them": (("Report,,,", "By Ann,2024-01-31,,", ",".join(NAMES), *ROWS), NAMES, "preamble"),
    "one separator too many": (("name,,amount,share,day", *ROWS), NAMES, "uneven_header"),
    "separators at the end": (("name,amount,share,day,,,", *ROWS), NAMES, "uneven_header"),
    "one separator too few": (
        ("nameamount,share,day", *ROWS, "Ann,8,0.1,2024-01-04"),
        ("nameamount", "share", "day", "column_4"),
        "uneven_header",
    ),
    "an open quote": (('name,"amount,share,day', *ROWS), NAMES, "uneven_header"),
    "an open quote at the start": (('"name,amount,share,day', *ROWS), NAMES, "uneven_header"),
    "a quote that was never opened": (('name,amount",share,day', *ROWS), NAMES, "uneven_header"),
    "the header twice": ((",".join(NAMES), ",".join(NAMES), *ROWS), NAMES, "repeated_header"),
    "groups above names": (
        (",first,,last", "name,amount,share,day", *ROWS),
        ("name", "first amount", "first share", "last day"),
        "header_rows",
    ),
    "names that fill each other's gaps": (("name,amount,,", ",,share,day", *ROWS), NAMES, "header_rows"),
    "semicolons in the header only": (("name;amount;share;day", *ROWS), NAMES, "uneven_header"),
    "tabs in the header only": (("name\tamount\tshare\tday", *ROWS), NAMES, "uneven_header"),
    "blanks in the header only": (("name amount share day", *ROWS), NAMES, "uneven_header"),
    "units below names": ((",".join(NAMES), ",(EUR),(of 1),(UTC)", *ROWS), NAMES, "header_rows"),
    "codes below names": ((",".join(NAMES), "q1,q2,q3,q4", *ROWS), NAMES, "header_rows"),
}


@pytest.mark.parametrize(("lines", "names", "code"), AROUND.values(), ids=AROUND)
def test_names_are_kept_and_what_was_skipped_is_said(lines: tuple[str, ...], names: tuple[str, ...], code: str) -> None:
    table = read_table(csv(*lines), types="text")

    assert tuple(table.frame.columns) == names
    assert table.frame.iloc[:3, 0].tolist() == ["Ann", "Bob", "Eve"]
    assert code in codes(table)


def test_a_title_above_a_header_is_not_cut_into_names() -> None:
    table = read_table(csv("Sales of the year", ",".join(NAMES), *ROWS), types="text")

    assert tuple(table.frame.columns) == NAMES
    assert table.reading.preamble == ("Sales of the year",)


def test_a_header_without_rows_is_an_empty_table_as_text_only() -> None:
    table = read_table(csv(",".join(NAMES)), types="text")

    assert tuple(table.frame.columns) == NAMES
    assert len(table) == 0
    assert "no_rows" in codes(table)
    with pytest.raises(TableError, match="no rows below its header"):
        read_table(csv(",".join(NAMES)))


def test_inches_in_a_name_are_kept() -> None:
    table = read_table(csv('name,5",7 cm', "Ann,1,2", "Bob,3,4"), types="text")

    assert list(table.frame.columns) == ["name", '5"', "7 cm"]
    assert "uneven_header" not in codes(table)


def test_a_row_of_words_in_one_number_column_is_data() -> None:
    table = read_table(csv("name,amount", "Ann,much", *(f"x{n},{n}" for n in range(40))))

    assert len(table) == 41
    assert "header_rows" not in codes(table)


def test_whoever_says_that_the_first_row_holds_names_is_believed() -> None:
    table = read_table(csv("a,b,c", "x,y,z", "1,2,3", "4,5,6"), dialect=Dialect(header=True), types="text")

    assert table.frame.iloc[0].tolist() == ["x", "y", "z"]
