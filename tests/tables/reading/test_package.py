"""The reader stands alone: it could be published without the rest of the project."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import spu_core.tables.reading as reading
from spu_core.tables.reading import Dialect, ReadOptions, read_file

FOLDER = Path(reading.__file__).parent
ALLOWED = ("spu_core.errors", "spu_core.checks", "spu_core.tables.reading")


def own_imports(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    names = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name for name in names if name.startswith("spu_core")}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_the_reader_imports_nothing_of_the_project_but_errors_and_checks(path: Path) -> None:
    assert not [name for name in own_imports(path) if not name.startswith(ALLOWED)]


def test_a_file_is_read_to_columns_without_roles() -> None:
    content = read_file(b"zip,price,day\n007,$1.50,31.01.2024\n008,$2.00,01.02.2024\n", ReadOptions(), name="shop")

    assert [kind.value for kind in content.types.values()] == ["category", "number", "datetime"]
    assert content.frame["price"].tolist() == [1.5, 2.0]
    assert content.written["price"].cells(content.frame["price"]).tolist() == ["$1.50", "$2.00"]
    assert content.reading.describe() == "shop: text, utf-8, separator comma; 2 rows read, 0 rejected"


def test_a_dialect_that_is_given_is_believed() -> None:
    content = read_file(b"a;b,c\n1;2,3\n", ReadOptions(dialect=Dialect(separator=","), as_text=True))

    assert content.frame.to_numpy().tolist() == [["1;2", "3"]]
