"""Separators and quotes are found where they separate and quote; text that only holds their signs stays whole."""

from __future__ import annotations

import pytest

from spu_core.errors import TableError
from spu_core.tables import Dialect, read_table

LISTS = "".join(f'"{n}","a;b;c;d;e;f","{n % 2}"\n' for n in range(20))
ONE_COLUMN = {
    "times": ["time", "01:02:03", "10:20:30", "23:59:59"],
    "times without a name": ["01:02:03", "10:20:30", "23:59:59"],
    "sentences of four words": ["remark", "it rains all day", "no one came home", "red sun at night"],
    "names": ["name", "Ann Lee", "Bob Roe", "Eve Doe"],
    "links": ["url", "http://a.b/c", "http://a.b/d", "http://a.b/e"],
    "moments": ["at", "2024-01-31 10:15:00", "2024-02-01 11:15:00", "2024-02-02 12:15:00"],
    "decimal commas": ["x", "1,5", "2,25", "3,75"],
}


def test_separators_inside_quotes_do_not_count() -> None:
    table = read_table(f'"id","tags","y"\n{LISTS}'.encode())

    assert list(table.frame.columns) == ["id", "tags", "y"]
    assert table.reading.dialect.separator == ","
    assert set(table.frame["tags"]) == {"a;b;c;d;e;f"}


TWELVE = ";".join("abcdefghijkl")
LISTS_OF_TWELVE = {
    "in single quotes": ("id,tags", f"7,'{TWELVE}'"),
    "in single quotes without a header": (f"x,'{TWELVE}'", f"7,'{TWELVE}'"),
    "all in single quotes": ("'id','tags'", f"'7','{TWELVE}'"),
    "without quotes": ("id,tags", f"7,{TWELVE}"),
}


@pytest.mark.parametrize(("first", "row"), LISTS_OF_TWELVE.values(), ids=LISTS_OF_TWELVE)
def test_a_list_of_twelve_items_stays_in_its_column(first: str, row: str) -> None:
    table = read_table("\n".join([first, *[row] * 20, ""]).encode(), types="text")

    assert table.frame.shape[1] == 2
    assert set(table.frame.iloc[:, 1]) == {TWELVE}


@pytest.mark.parametrize("lines", ONE_COLUMN.values(), ids=ONE_COLUMN)
def test_one_column_stays_one_column(lines: list[str]) -> None:
    table = read_table("\n".join([*lines, ""]).encode(), types="text")

    assert table.frame.shape[1] == 1
    assert table.frame.iloc[-1, 0] == lines[-1]


ROWS = [["1", "a, b", 'say "hi"'], ["2", "c", "plain"], ["3", "d", 'a "b" c'], ["4", "e", "two\nlines"]]
NOTATIONS = {
    "comma and blank": 'n, w, q\n1, "a, b", "say ""hi"""\n2, c, plain\n3, d, "a ""b"" c"\n4, e, "two\nlines"\n',
    "backslash": 'n,w,q\n1,"a, b","say \\"hi\\""\n2,c,plain\n3,d,"a \\"b\\" c"\n4,e,"two\nlines"\n',
    "no escape": 'n,w,q\n1,"a, b","say "hi""\n2,c,plain\n3,d,"a "b" c"\n4,e,"two\nlines"\n',
    "blanks": 'n w q\n1 "a, b" "say ""hi"""\n2 c plain\n3 d "a ""b"" c"\n4 e "two\nlines"\n',
    "two signs": 'n||w||q\n1||a, b||"say ""hi"""\n2||c||plain\n3||d||"a ""b"" c"\n4||e||"two\nlines"\n',
    "as the parser knows it": 'n,w,q\n1,"a, b","say ""hi"""\n2,c,plain\n3,d,"a ""b"" c"\n4,e,"two\nlines"\n',
}


@pytest.mark.parametrize("text", NOTATIONS.values(), ids=NOTATIONS)
def test_odd_notations_give_the_same_cells(text: str) -> None:
    table = read_table(text.encode(), types="text")

    assert table.frame.to_numpy().tolist() == ROWS
    assert table.reading.rejected_rows == 0


def test_rejected_lines_keep_their_numbers_in_an_odd_notation() -> None:
    table = read_table(b'a||b\n1||2\n3||"x\ny"\n4\n5||6\n')

    assert [item.line for item in table.reading.rejected] == [5]
    assert table.reading.dialect.separator == "||"


def test_a_separator_of_two_signs_can_be_given() -> None:
    table = read_table(b"a::b\n1:0::2\n", dialect=Dialect(separator="::"), types="text")

    assert table.frame.to_numpy().tolist() == [["1:0", "2"]]


def test_a_comma_with_a_blank_leaves_commas_in_cells_alone() -> None:
    table = read_table(b"price, who, n\n$1,500, Ann, 3\n$20, Bob, 4\n$1,000, Eve, 5\n", types="text")

    assert table.frame["price"].tolist() == ["$1,500", "$20", "$1,000"]
    assert table.reading.dialect.separator == ", "
    assert read_table(b"a, b\n1,5, 2\n", dialect=Dialect(separator=", ")).frame.iloc[0].tolist() == [1.5, 2]


def test_cells_with_line_breaks_may_stand_between_blanks() -> None:
    row = '4 "two\nlines, ""or"" more" 5\n'
    table = read_table(f'n text m\n1 "a b" 2\n{row * 3}'.encode(), types="text")

    assert table.reading.rejected_rows == 0
    assert table.frame["text"].iloc[1] == 'two\nlines, "or" more'


def test_a_backslash_at_the_end_of_a_path_escapes_nothing() -> None:
    table = read_table(b'path,n\n"C:\\a\\",1\n"C:\\b\\",2\n', types="text")

    assert table.frame["path"].tolist() == ["C:\\a\\", "C:\\b\\"]


@pytest.mark.parametrize("sign", [b"\x1b", b"\x07", b"\x02"])
def test_a_control_character_names_its_line(sign: bytes) -> None:
    table = read_table(b"a,b\n1,x\n2," + sign + b"y\n3,z\n")
    finding = next(each for each in table.findings if each.code == "control_characters")

    assert finding.lines == (3,)
    assert f"0x{sign[0]:02X}" in finding.message
    assert table.frame["b"].iloc[1] == sign.decode() + "y"


def test_a_control_character_far_down_or_in_wide_text_is_named() -> None:
    rows = "".join(f"{n},x\n" for n in range(300_000))
    far = read_table(f"a,b\n{rows}1,\x1b\n".encode())
    wide = read_table("a,b\n1,x\n2,\x1by\n".encode("utf-16"))

    assert next(each for each in far.findings if each.code == "control_characters").lines == (300_002,)
    assert next(each for each in wide.findings if each.code == "control_characters").lines == (3,)


def test_control_characters_in_most_lines_are_binary_data() -> None:
    with pytest.raises(TableError, match="binary data"):
        read_table(b"a\x02\x03,b\n\x04,\x05\n\x06\x07,1\n")
