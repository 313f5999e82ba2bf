"""The tables of the documentation that list what the engine's own tables hold.

`python -m tests.doc_tables` writes them into the pages; `tests/test_contributing.py` compares them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import spu_core
from spu_core.bench.advice import advise_method
from spu_core.commands.command_index import INDEX_FILE, make_index
from spu_core.engines.jobs import JOBS, job_function
from spu_core.models import METHODS, Method
from spu_core.rules import OPERATORS
from spu_core.rules.columns import KIND_NAMES, Kind
from spu_core.rules.combine import COMBINERS

DOCS = Path(__file__).resolve().parents[1] / "docs"


def table(*rows: Iterable[str]) -> str:
    """Rows of cells, the first of them the head."""
    head, *rest = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *rest]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def operators() -> str:
    head = ("operator", "in the editor", "columns", "value", "holds where")
    return table(
        head,
        *(
            (
                f"`{row.sign}`",
                row.question or "–",
                "all" if row.kinds == tuple(Kind) else ", ".join(KIND_NAMES[kind] for kind in row.kinds),
                row.shape.words,
                row.meaning,
            )
            for row in OPERATORS.values()
        ),
    )


def combiners() -> str:
    head = ("combiner", "in the editor", "S of a row", "credit in `explain`", "one more fired rule")
    return table(
        head,
        *(
            (
                f"`{row.name}`",
                row.title,
                row.description,
                row.credit_description,
                "never lowers S" + ("" if row.ignores_order else ", after the others")
                if row.is_monotone
                else "can lower S",
            )
            for row in COMBINERS.values()
        ),
    )


def methods() -> str:
    head = ("key", "what it is", "needs", "columns the rules read")
    return table(
        head,
        *(
            (f"`{row.key}`", row.description, ", ".join(row.needs), "kept" if row.keeps_rule_columns else "dropped")
            for row in METHODS.values()
        ),
    )


def settings(row: Method) -> str:
    """The section of one method: its learners and settings."""
    learners = ", ".join(f"`{name}`" for name in row.learners)
    note = f"Learners: {learners}; the settings below are those with the first.\n\n" if len(row.learners) > 1 else ""
    head = ("setting", "default", "allowed", "meaning")
    cells = ((f"`{each.name}`", repr(each.default), each.law, each.help) for each in row.settings())
    return f"### `{row.key}`: {row.title}\n\n{note}{table(head, *cells)}"


def job_kinds() -> str:
    """Each kind with the first line of its function: parameters → result."""
    lines = ((f"`{kind}`", (job_function(kind).__doc__ or "").splitlines()[0]) for kind in sorted(JOBS))
    return table(("kind", "parameters → result"), *lines)


def which_method() -> str:
    """The advice for some numbers of confirmed cases, ways of finding them, and rules."""
    origins, rules = {"chance": "by chance", "other": "some other way"}, ("strong", "weak", "none")
    head = ("confirmed cases", "found", "rules", "begin with", "lost AUC", "next best", "cells (tables)")
    rows = []
    for confirmed, origin, quality in product((5, 30, 100, 300), origins, rules):
        advice = advise_method(confirmed, origin=origin, rules=quality)
        lost = advice.ranking.set_index("method")["regret"][advice.advised]
        rival = advice.ranking.set_index("method").loc[advice.rival]
        cells = f"{advice.cells} ({advice.tables})"
        gap = f"`{advice.rival}` ({rival['difference']:+.3f} ± {rival['error']:.3f})"
        rows.append((str(confirmed), origins[origin], quality, f"`{advice.method}`", f"{lost:.3f}", gap, cells))
    return table(head, *rows)


def reference() -> str:
    """A directive of the site's API reference for each public name, by package."""
    sections: dict[str, list[str]] = {}
    for name in sorted(spu_core.__all__, key=str.lower):
        found = getattr(spu_core, name)
        where = getattr(found, "__module__", "")
        if not where.startswith("spu_core.") or getattr(found, "__name__", None) != name:
            continue
        sections.setdefault(where.split(".")[1].removesuffix(".py"), []).append(f"::: {where}.{name}\n")
    return "\n".join(f"## spu_core.{package}\n\n" + "\n".join(lines) for package, lines in sorted(sections.items()))


def parts() -> dict[str, dict[str, str]]:
    """What is made, by page and by the mark that stands around it."""
    return {
        "rules.md": {"operators": operators(), "combiners": combiners()},
        "methods.md": {"methods": methods()},
        "settings.md": {"settings": "\n".join(settings(row) for row in METHODS.values())},
        "workspace.md": {"job kinds": job_kinds()},
        "which_method.md": {"advice": which_method()},
        "reference.md": {"reference": reference()},
    }


def part(page: str, mark: str) -> re.Match[str]:
    """What stands between the marks of a page."""
    pattern = rf"(<!-- {mark}: made by tests/doc_tables.py -->\n)(.*?)(<!-- end of {mark} -->\n)"
    found = re.search(pattern, (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None, f"docs/{page} has no part {mark!r}"
    return found


def write() -> None:
    for page, made in parts().items():
        for mark, text in made.items():
            found = part(page, mark)
            whole = found.string[: found.start(2)] + text + found.string[found.end(2) :]
            (DOCS / page).write_text(whole, encoding="utf-8")
    INDEX_FILE.write_text(make_index(), encoding="utf-8")


if __name__ == "__main__":
    write()
