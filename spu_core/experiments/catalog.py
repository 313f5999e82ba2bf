"""The experiments by name: how large they run, their results with provenance, and the job that runs them.

Importing this module loads no runner: `Experiment.run` imports the module that does the work.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from textwrap import fill
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, get_args

import pandas as pd

from spu_core.checks import check_choice
from spu_core.codec import decode, encode, parse_json
from spu_core.errors import SpuError, WorkspaceError, nearest_hint
from spu_core.versions import library_versions

if TYPE_CHECKING:
    from spu_core.engines.jobs import JobContext


Cell = str | float | None
Verdict = Literal["holds", "holds partly", "does not hold", "not shown"]
VERDICTS: tuple[str, ...] = get_args(Verdict)


@dataclass(frozen=True)
class ResultTable:
    """A table of plain cells; None means that there is no such figure.

    >>> table = ResultTable("auc", "True AUC", ("data", "ours"), (("adult", 0.863), ("bank", None)))
    >>> table.column("ours")
    (0.863, None)
    >>> table.records()[0]
    {'data': 'adult', 'ours': 0.863}
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        for place, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise SpuError(
                    f"Row {place} of table {self.name!r} has {len(row)} cells, but the table has "
                    f"{len(self.columns)} columns; give one cell per column (None where there is no figure)."
                )

    def frame(self) -> pd.DataFrame:
        """The rows as a data frame."""
        return pd.DataFrame([list(row) for row in self.rows], columns=list(self.columns))

    def column(self, name: str) -> tuple[Cell, ...]:
        """All cells of one column."""
        place = self.columns.index(name)
        return tuple(row[place] for row in self.rows)

    def records(self) -> list[dict[str, Any]]:
        """Each row as a dictionary."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper (`text`), the verdict, and the figures behind it (`words`)."""

    text: str
    verdict: Verdict
    words: str

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise SpuError(f"A verdict must be one of {', '.join(map(repr, VERDICTS))}, got {self.verdict!r}.")


@dataclass(frozen=True)
class Provenance:
    """Where a result comes from: commit of the program, versions of libraries, settings, time and day."""

    commit: str
    versions: Mapping[str, str]
    settings: Mapping[str, Any]
    seconds: float
    made_on: str

    def describe(self) -> str:
        """One line of text."""
        size = ", ".join(f"{name} {value}" for name, value in self.settings.items() if value is not None)
        by = self.commit if " " in self.commit else f"commit {self.commit[:12]}"
        return f"Made on {self.made_on} by {by} in {self.seconds / 60:.1f} minutes ({size})."


@dataclass(frozen=True)
class ExperimentResult:
    """All results of one experiment. `choices` say what was chosen after looking at the printed figures and what was
    not; `series` holds plain lists for charts.
    """

    name: str
    title: str
    tables: tuple[ResultTable, ...]
    claims: tuple[Claim, ...]
    choices: tuple[str, ...]
    provenance: Provenance
    series: Mapping[str, Any] = field(default_factory=dict)

    def table(self, name: str) -> ResultTable:
        """The table of this name."""
        for each in self.tables:
            if each.name == name:
                return each
        names = ", ".join(repr(each.name) for each in self.tables)
        raise SpuError(f"Experiment {self.name!r} has no table {name!r}; it has {names}.")

    def to_json(self) -> str:
        """The result as indented JSON, one table row per line; `from_json` reads it back to an equal value."""
        value = {**dict([SCHEMA]), **encode(self, "result", WorkspaceError, exact=True)}
        return _indented(value) + "\n"

    @classmethod
    def from_json(cls, source: str | bytes) -> ExperimentResult:
        """Read what `to_json` wrote; anything else is refused with a `WorkspaceError`."""
        value = parse_json(source, WHAT, WorkspaceError, MAX_BYTES)
        return decode(cls, value, WHAT, WorkspaceError, schema=SCHEMA, complete=True)

    def to_text(self) -> str:
        """Title, tables, claims, choices and provenance, wrapped for a terminal; wide tables are not wrapped."""
        parts = [self.title, "=" * len(self.title)]
        for table in self.tables:
            parts += ["", table.title, text_table(table)]
            parts += [_wrapped(table.note)] if table.note else []
        parts += ["", "What the paper claims, and what we found"]
        parts += [_wrapped(f"[{each.verdict}] {each.text} {each.words}", "- ") for each in self.claims]
        parts += ["", "Choices"]
        parts += [_wrapped(choice, "- ") for choice in self.choices]
        return "\n".join([*parts, "", _wrapped(self.provenance.describe())])

    def to_markdown(self) -> str:
        """The same as Markdown."""
        parts = [f"## {self.title}"]
        for table in self.tables:
            parts += [f"### {table.title}", markdown_table(table)]
            parts += [table.note] if table.note else []
        parts += ["### What the paper claims, and what we found"]
        parts += ["\n".join(f"- **{each.verdict}**: {each.text} {each.words}" for each in self.claims)]
        parts += ["### Choices", "\n".join(f"- {choice}" for choice in self.choices)]
        return "\n\n".join([*parts, f"*{self.provenance.describe()}*"]) + "\n"


SCHEMA = ("schema", 1)
WHAT = "The stored experiment"
MAX_BYTES = 20_000_000


def _indented(value: Any, depth: int = 0) -> str:
    """Indented JSON with lists of plain values on one line, so that tables stay readable."""
    inside, outside = "  " * (depth + 1), "  " * depth
    if isinstance(value, dict) and value:
        lines = [f"{inside}{json.dumps(name)}: {_indented(inner, depth + 1)}" for name, inner in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{outside}}}"
    if isinstance(value, list) and any(_is_long(inner) for inner in value):
        return "[\n" + ",\n".join(inside + _indented(inner, depth + 1) for inner in value) + f"\n{outside}]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _is_long(value: Any) -> bool:
    return isinstance(value, list | dict) or (isinstance(value, str) and len(value) > 40)


WIDTH = 110


def text_table(table: ResultTable) -> str:
    """Columns aligned by spaces.

    >>> print(text_table(ResultTable("t", "T", ("data", "AUC"), (("adult", 0.8632), ("bank", None)))))
    data     AUC
    adult  0.863
    bank       –
    """
    cells = [list(table.columns), *([cell_text(cell) for cell in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    is_text = [any(isinstance(cell, str) for cell in table.column(name)) for name in table.columns]
    return "\n".join(_line(row, widths, is_text) for row in cells)


def markdown_table(table: ResultTable) -> str:
    """The table as Markdown, numbers to the right."""
    is_text = [any(isinstance(cell, str) for cell in table.column(name)) for name in table.columns]
    rows = [list(table.columns), [" --- " if text else " ---: " for text in is_text]]
    rows += [[cell_text(cell) for cell in row] for row in table.rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|").strip() for cell in row) + " |" for row in rows)


def cell_text(cell: Cell) -> str:
    """A cell as text; small numbers such as standard errors get one digit more than an AUC.

    >>> [cell_text(cell) for cell in (0.8632, 0.00241, 1e-12, 1234, "adult", None)]
    ['0.863', '0.0024', '1.0e-12', '1,234', 'adult', '–']
    """
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    if cell != 0.0 and abs(cell) < 5e-5:
        return f"{cell:.1e}"
    return f"{cell:.4f}" if abs(cell) < 0.1 else f"{cell:.3f}"


def _line(row: list[str], widths: list[int], is_text: list[bool]) -> str:
    cells = [
        cell.ljust(width) if text else cell.rjust(width) for cell, width, text in zip(row, widths, is_text, strict=True)
    ]
    return "  ".join(cells).rstrip()


def _wrapped(text: str, mark: str = "") -> str:
    return fill(text, WIDTH, initial_indent=mark, subsequent_indent=" " * len(mark))


# Columns that hold sizes of the run, not results.
SIZES = ("seeds", "worlds", "count", "scores tried", "rows")


def compare_verdicts(stored: ExperimentResult, fresh: ExperimentResult) -> ResultTable:
    """Every claim of the new result with both verdicts."""
    before = {claim.text: claim.verdict for claim in stored.claims}
    rows = tuple((claim.text, before.get(claim.text), claim.verdict) for claim in fresh.claims)
    return ResultTable("verdicts", "Verdicts", ("claim", "stored", "now"), rows)


def compare_figures(stored: ExperimentResult, fresh: ExperimentResult) -> ResultTable:
    """Every number that both results have, in the order of the new one.

    >>> from dataclasses import replace
    >>> from spu_core.experiments.catalog import Provenance
    >>> def one(auc):
    ...     table = ResultTable("t", "T", ("data", "auc"), (("adult", auc),))
    ...     return ExperimentResult("x", "X", (table,), (), (), Provenance("c", {}, {}, 1.0, "today"))
    >>> compare_figures(one(0.8), one(0.75)).rows
    (('T', 'adult', 'auc', 0.8, 0.75, -0.05...),)
    """
    known = {table.name: table for table in stored.tables}
    rows = [row for table in fresh.tables if table.name in known for row in _pairs(known[table.name], table)]
    columns = ("table", "row", "figure", "stored", "now", "now − stored")
    return ResultTable("figures", "Figures, stored and now", columns, tuple(rows))


def _pairs(stored: ResultTable, fresh: ResultTable) -> list[tuple[Any, ...]]:
    keys = _key_columns(fresh)
    before = {_key(row, keys): row for row in stored.records()}
    found = []
    for row in fresh.records():
        old: Mapping[str, Any] = before.get(_key(row, keys), {})
        for name, value in row.items():
            if name not in keys and name not in SIZES and _is_figure(value) and _is_figure(old.get(name)):
                found.append((fresh.title, _key(row, keys), name, old[name], value, value - old[name]))
    return found


def _key_columns(table: ResultTable) -> tuple[str, ...]:
    """Columns before the first one that holds measured numbers: text, and numbers that make the rows distinct."""
    keys: list[str] = []
    for name in table.columns:
        is_text = any(isinstance(value, str) for value in table.column(name))
        distinct = {tuple(row[key] for key in keys) for row in table.records()}
        if not is_text and len(distinct) == len(table.rows):
            break
        keys.append(name)
    return tuple(keys)


def _key(row: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return ", ".join(str(row[key]) for key in keys)


def _is_figure(value: Any) -> bool:
    return isinstance(value, float)


KIND = "experiment"
"""The kind of the job that runs an experiment."""
SCALES = ("smoke", "full")
OnProgress = Callable[[float, str], None]
"""Called with the share that is done, from 0 to 1, and the name of the next step."""


@dataclass(frozen=True, kw_only=True)
class ExperimentSettings:
    """How large an experiment runs, and where it finds its data.

    Parameters
    ----------
    seeds : int, optional
        Number of seeds; by default that of the experiment.
    scale : {"full", "smoke"}
        "full" as in the stored results, or "smoke", which takes seconds.
    data : Path, optional
        Folder of data files; by default the folder of SPU_DATA, then OpenML.
    threads : int
        Processor threads.

    >>> ExperimentSettings(scale="smoke").count_of_seeds(smoke=2, full=10)
    2
    >>> ExperimentSettings(seeds=0)
    Traceback (most recent call last):
    spu_core.errors.SpuError: seeds must be at least 1, got 0.
    """

    seeds: int | None = None
    scale: str = "full"
    data: Path | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        check_choice(self.scale, SCALES, "scale")
        if self.seeds is not None and self.seeds < 1:
            raise SpuError(f"seeds must be at least 1, got {self.seeds}.")
        if self.threads < 1:
            raise SpuError(f"threads must be at least 1, got {self.threads}.")

    @property
    def is_smoke(self) -> bool:
        return self.scale == "smoke"

    def count_of_seeds(self, *, smoke: int, full: int) -> int:
        """The caller's number of seeds, or the experiment's own at this scale."""
        return self.seeds or (smoke if self.is_smoke else full)


def quiet(share: float, words: str) -> None:
    """An `OnProgress` that does nothing."""


@dataclass(frozen=True)
class Experiment:
    """One experiment. `needs` names data sets and extras; `live` ones are small enough to rerun on a page.

    `module` is a module of `spu_core.experiments.runners` with `run(settings, on_progress)` and `claims(tables)`. The
    claims follow from the tables alone. `parts` are those that can be run alone, with their titles.
    """

    name: str
    title: str
    description: str
    module: str
    needs: tuple[str, ...]
    live: bool
    typical_minutes: float
    parts: Mapping[str, str] = field(default_factory=dict, hash=False)

    def run(
        self, settings: ExperimentSettings | None = None, on_progress: OnProgress = quiet, *, part: str | None = None
    ) -> ExperimentResult:
        """Run the experiment now, or one part of it."""
        settings = settings or ExperimentSettings()
        if part is None:
            return self._runner().run(settings, on_progress)
        if not self.parts:
            raise WorkspaceError(f"Experiment {self.name!r} has no parts; run all of it.")
        check_choice(part, self.parts, "part")
        return self._runner().run(settings, on_progress, parts=[part])

    def claims(self, tables: Mapping[str, ResultTable]) -> tuple[Claim, ...]:
        """The verdicts on the paper's claims that follow from these tables."""
        return self._runner().claims(tables)

    def _runner(self) -> ModuleType:
        # Imported when it is needed: runners load boosters and torch.
        return import_module(f"spu_core.experiments.runners.{self.module}")


_ALL = (
    Experiment(
        "table1",
        "Table 1: UCI data, soft labels against labels only",
        "Diabetes, Adult and Breast Cancer with XGBoost and LightGBM, as the paper did it and honestly.",
        "table1",
        ("diabetes130", "adult"),
        False,
        25.0,
    ),
    Experiment(
        "table2",
        "Table 2: images under generalized SCAR",
        "Fashion-MNIST and CIFAR-10 with a small convolutional network, against BL0 and BL1.",
        "table2",
        ("fashion-mnist", "cifar10", "vision"),
        False,
        110.0,
    ),
    Experiment(
        "table3",
        "Table 3: the anti-cheat game",
        "Check ratios, check records, baseline and oracle in simulated worlds, with the sensitivity of the ordering.",
        "table3",
        (),
        True,
        8.0,
    ),
    Experiment(
        "theorems",
        "Theorems 1 to 5, by simulation",
        "Each theorem as a figure that can be checked, with the caveats that the paper leaves out.",
        "theorems",
        (),
        True,
        2.0,
        {
            "theorem1": "Theorem 1: the ceiling",
            "theorem2": "Theorem 2: a straight line",
            "theorem3": "Theorem 3: the best order",
            "theorem4": "Theorem 4: second-order loss",
            "theorem5": "Theorem 5: more rows",
            "figure2": "Figure 2: check and punishment",
        },
    ),
    Experiment(
        "selection",
        "Model selection without truth",
        "Does choosing by AUC_SPU pick the model with the best true AUC?",
        "model_selection",
        ("diabetes130", "adult", "bank_full"),
        False,
        15.0,
    ),
    Experiment(
        "features",
        "Feature selection without truth",
        "Do columns that are chosen by AUC_SPU keep the true AUC, and is noise left out?",
        "feature_selection",
        ("diabetes130", "adult", "bank_full"),
        False,
        15.0,
    ),
    Experiment(
        "discussion",
        "Discussion 7.2: soft label as target or as feature",
        "Who wins as the number of labels and their bias vary.",
        "discussion",
        ("adult",),
        False,
        10.0,
    ),
)

EXPERIMENTS: dict[str, Experiment] = {each.name: each for each in _ALL}


def experiment(name: str) -> Experiment:
    """The experiment of this name, or an error that names the nearest one."""
    if name not in EXPERIMENTS:
        raise SpuError(f"There is no experiment {name!r}. {nearest_hint(name, EXPERIMENTS)}")
    return EXPERIMENTS[name]


def stored_result(name: str) -> ExperimentResult:
    """The result of a full run that is shipped with the program."""
    file = files("spu_core.experiments") / "results" / f"{experiment(name).name}.json"
    if not file.is_file():
        raise WorkspaceError(f"No result of {name!r} is stored with this version; run it: spu paper {name} --run.")
    return ExperimentResult.from_json(file.read_bytes())


def run_experiment(task: JobContext) -> dict[str, Any]:
    """`{"experiment": "theorems", "part": "theorem4", "scale": "smoke"}` → `{"result": JSON text}`; part is optional.

    Data are found as on the command line, by SPU_DATA; a path never comes from a job.
    """
    chosen = experiment(str(task.parameters.get("experiment", "")))
    settings = ExperimentSettings(scale=str(task.parameters.get("scale", "smoke")), threads=task.threads)
    part = task.parameters.get("part")
    return {"result": chosen.run(settings, task.progress, part=None if part is None else str(part)).to_json()}


def result_of(outcome: dict[str, Any]) -> ExperimentResult:
    """The result of a finished job."""
    text = outcome.get("result")
    if not isinstance(text, str):
        raise WorkspaceError("This job holds no result of an experiment; run the experiment again.")
    return ExperimentResult.from_json(text)


def provenance(settings: ExperimentSettings, seconds: float, **more: Any) -> Provenance:
    """The provenance of results made now; `more` are sizes that the experiment chose, such as its seeds."""
    # The data folder belongs to one computer, so it is left out.
    chosen = {name: value for name, value in asdict(settings).items() if name != "data"}
    today = datetime.now(UTC).date().isoformat()
    return Provenance(commit_of_program(), library_versions(), {**chosen, **more}, round(seconds, 1), today)


def commit_of_program() -> str:
    """The commit of a checkout, with a mark where the engine has changes; the version of an installed program."""
    folder = Path(__file__).resolve().parent.parent
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None or _git(folder, "ls-files", "--error-unmatch", __file__) is None:
        return f"version {library_versions()['spu-studio']}"
    # A stored result does not change the figures, so a new one does not count as a change.
    unchanged = _git(folder, "diff", "--quiet", "HEAD", "--", ".", ":(exclude)experiments/results")
    return commit + ("" if unchanged is not None else " with changes")


def _git(folder: Path, *arguments: str) -> str | None:
    """The output of git, or None where it fails or is not installed."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
