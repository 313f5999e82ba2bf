"""Figures of the structure of the code: `python -m tests.structure` (`--walk`: also of a training and a page).

Only import cycles and class names that occur twice are gates (`tests/test_architecture.py`); the rest is for reading.
"""

from __future__ import annotations

import ast
import importlib
import io
import statistics
import sys
import tempfile
import threading
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("spu_core", "pages")


class Module:
    """One source file: its name, its syntax tree, and which of our modules it imports."""

    def __init__(self, path: Path) -> None:
        self.path, self.source = path, path.read_text(encoding="utf-8")
        self.name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)

    @property
    def lines(self) -> int:
        return len(self.source.splitlines())

    @property
    def code_lines(self) -> int:
        """Lines that hold code: no blank lines, comments or docstrings."""
        found: set[int] = set()
        skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
        for token in tokenize.generate_tokens(io.StringIO(self.source).readline):
            if token.type not in skipped:
                found.update(range(token.start[0], token.end[0] + 1))
        for node in ast.walk(self.tree):
            body = getattr(node, "body", None)
            if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
                value = body[0].value
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    found.difference_update(range(body[0].lineno, (body[0].end_lineno or body[0].lineno) + 1))
        return len(found)

    @property
    def classes(self) -> list[str]:
        return [node.name for node in self.tree.body if isinstance(node, ast.ClassDef)]

    @property
    def functions(self) -> Iterator[ast.FunctionDef]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef))

    def imports(self, known: set[str], nodes: Callable[[ast.AST], bool] = lambda node: True) -> set[str]:
        """Those of the known modules that it imports, wherever in the file."""
        found: set[str] = set()
        for node in filter(nodes, ast.walk(self.tree)):
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= {full if (full := f"{node.module}.{a.name}") in known else node.module for a in node.names}
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
        return (found & known) - {self.name}

    def local_imports(self) -> list[int]:
        """Lines of imports of our own modules inside functions."""
        return [
            node.lineno
            for function in self.functions
            for node in ast.walk(function)
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PACKAGES
        ]


def modules() -> dict[str, Module]:
    """All modules of the engine and the pages by name."""
    found = (Module(path) for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return {module.name: module for module in found}


def cycles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other, directly or through others (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        number[name] = lowest[name] = len(number)
        stack.append(name)
        for other in sorted(imports[name]):
            if other not in number:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], number[other])
        if lowest[name] == number[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    for name in imports:
        if name not in number:
            visit(name)
    return found


def twice(names: list[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)


def without_parameters() -> list[str]:
    """Public callables of `spu_core` that take arguments but do not describe them."""
    import inspect

    import spu_core

    found = []
    for name in spu_core.__all__:
        value = getattr(spu_core, name)
        if callable(value) and not (inspect.isclass(value) and issubclass(value, Exception)):
            takes = [each for each in inspect.signature(value).parameters if each != "self"]
            if takes and "Parameters\n" not in (inspect.getdoc(value) or ""):
                found.append(name)
    return found


def static_figures() -> dict[str, Any]:
    found = modules()
    known = set(found)
    imports = {name: module.imports(known) for name, module in found.items()}
    importers = Counter(other for others in imports.values() for other in others)
    lengths = [(node.end_lineno or node.lineno) - node.lineno + 1 for m in found.values() for node in m.functions]
    small = [n for n, m in found.items() if importers[n] == 1 and m.lines <= 100 and m.path.name != "__init__.py"]
    names = [m.path.name for m in found.values() if m.path.name != "__init__.py"]
    return {
        "Python files": len(found),
        "lines": sum(module.lines for module in found.values()),
        "code lines per file": round(sum(module.code_lines for module in found.values()) / len(found)),
        "modules with one importer and at most 100 lines": len(small),
        "class names twice": twice([name for module in found.values() for name in module.classes]),
        "file names twice": twice(names),
        "import cycles": cycles(imports),
        "imports of our modules inside functions": sum(len(module.local_imports()) for module in found.values()),
        "function length, median and 90 %": (
            round(statistics.median(lengths)),
            round(statistics.quantiles(lengths, n=10)[-1]),
        ),
        "public names without a Parameters section": without_parameters(),
    }


def own_modules_of(action: Callable[[], object]) -> set[str]:
    """Our modules whose functions run during an action, in all of its threads."""
    files: set[str] = set()

    def look(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    prefixes = tuple(str(ROOT / package) for package in PACKAGES)
    return {file for file in files if file.startswith(prefixes)}


def frames_to_lightgbm() -> list[str]:
    """Our frames between `cross_fit` and `lightgbm.train`, both ends left out."""
    import lightgbm

    from spu_core import RuleSet, TrainConfig, cross_fit, soft_labels_for
    from spu_core.tables.samples import load_sample, load_sample_rules

    table = load_sample("breast_cancer")
    labels = soft_labels_for(table, RuleSet.from_json(load_sample_rules("breast_cancer")))
    seen: list[list[str]] = []
    train = lightgbm.train

    def spy(*arguments: Any, **named: Any) -> Any:
        frame, found = sys._getframe(1), []
        while frame is not None and frame.f_code.co_name != "cross_fit":
            if frame.f_code.co_filename.startswith(str(ROOT / "spu_core")):
                found.append(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_qualname}")
            frame = frame.f_back  # type: ignore[assignment]
        seen.append(found[::-1])
        return train(*arguments, **named)

    lightgbm.train = spy
    try:
        cross_fit(table, labels, ["lightgbm"], TrainConfig(folds=2, threads=1))
    finally:
        lightgbm.train = train
    return max(seen, key=len)


def walked_figures() -> dict[str, Any]:
    """What opening the Compare page and doing a training job run through."""
    import os

    from streamlit.testing.v1 import AppTest

    with tempfile.TemporaryDirectory() as home:
        os.environ["SPU_HOME"] = home
        trained = importlib.import_module("tests.dashboard.trained")
        workspace = importlib.import_module("spu_core.workspace").Workspace.open(home)
        address = trained.bring_sample(workspace)
        job = own_modules_of(lambda: trained.train_quickly(workspace, address))
        app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=600)
        app.query_params.update(address)
        page = own_modules_of(lambda: app.switch_page("pages/4_compare.py").run())
        workspace.close()
    return {"modules behind Compare": len(page), "modules behind a training job": len(job)}


def main() -> None:
    figures = static_figures()
    if "--walk" in sys.argv:
        frames = frames_to_lightgbm()
        figures |= walked_figures() | {"own frames from cross_fit to lightgbm.train": (len(frames), frames)}
    for name, value in figures.items():
        print(f"{name}: {f'{len(value)} {value}' if isinstance(value, list) else value}")


if __name__ == "__main__":
    main()
