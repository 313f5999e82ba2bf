"""`spu mcp`: the engine as tools for an agent, over the Model Context Protocol on standard input and output.

The tools read files below one folder. Nothing is written unless the command was started with `--write`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from spu_core.commands.command_io import plain
from spu_core.engines.study import soft_labels_of
from spu_core.errors import SpuError
from spu_core.export import Bundle, load_bundle, save_bundle
from spu_core.labels import audit_soft_labels
from spu_core.metrics import auc_spu_ceiling
from spu_core.rules import RuleSet
from spu_core.tables import Table, open_folder, read_table
from spu_core.training import Candidate, Run, TrainConfig, compare_runs, cross_fit, recommend, with_twins
from spu_core.trust import Population, forecast

MOST_ROWS = 50
METHODS_TO_TRY = ("fused", "labeled_vs_rest")


def add_to(app: typer.Typer) -> None:
    """Register the command of this file."""
    app.command("mcp")(serve_tools)


def serve_tools(
    folder: Annotated[Path, typer.Argument(help="The folder whose files the tools may read.")],
    write: Annotated[bool, typer.Option("--write", help="Also let them write new files into it.")] = False,
) -> None:
    """Offer profile, label, train, compare, audit plan and score to an agent, over MCP on standard input and output."""
    make_server(folder, write=write).run("stdio")


def make_server(folder: Path, *, write: bool = False) -> Any:
    """An MCP server with the tools for one folder."""
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp.types import ToolAnnotations
    except ImportError as problem:
        raise SpuError(
            "Tools for agents need mcp, which is not installed; install the extra: pip install 'spu-studio[mcp]'."
        ) from problem
    tools = Tools(folder, write=write)
    server = MCPServer("spu-studio", instructions=INSTRUCTIONS, log_level="CRITICAL")
    for tool in (tools.profile, tools.label, tools.train, tools.compare, tools.plan_audit, tools.score):
        writes = write and tool in (tools.train, tools.score)
        hints = ToolAnnotations(read_only_hint=not writes, destructive_hint=False, open_world_hint=False)
        server.add_tool(_in_sentences(tool, ToolError, folder.resolve()), annotations=hints)
    return server


INSTRUCTIONS = """Learn from a few confirmed cases, unlabelled rows and rules: profile, label, train, plan_audit.
AUC_SPU follows the rules, right or wrong: use the recommendation, not the highest AUC_SPU. Files lie in one folder."""


@dataclass(frozen=True)
class Profile:
    """What a table holds."""

    rows: int
    confirmed_cases: int
    columns: list[dict[str, Any]]
    findings: list[str]


@dataclass(frozen=True)
class Labelled:
    """What rules say about a table."""

    rows: int
    mean_soft_label: float
    ceiling_of_auc_spu: float
    rules: list[dict[str, Any]]
    findings: list[str]


@dataclass(frozen=True)
class Compared:
    """Which model to use, how sure that is, and what to do next."""

    model: str | None
    confidence: str
    sentences: list[str]
    next_step: str
    do_the_rules_help: str
    leaderboard: list[dict[str, Any]]
    bundles: list[str]


@dataclass(frozen=True)
class AuditPlanned:
    """How exact the answer becomes with a number of rows that people check."""

    sentence: str
    forecast: list[dict[str, Any]]


@dataclass(frozen=True)
class Scored:
    """The highest scores, and whether the rows are like the training rows."""

    rows: int
    flagged_share: float
    conclusion: str
    top: list[dict[str, Any]]


class Tools:
    """The tools, for the files below one folder."""

    def __init__(self, folder: Path, *, write: bool) -> None:
        self._root, self._may_write = folder.resolve(), write
        if not self._root.is_dir():
            raise SpuError(f"{str(folder)!r} is no folder.")

    def profile(self, file: str) -> Profile:
        """Describe a table: columns with types and roles, confirmed cases, and what deserves a look."""
        table = self._table(file)
        found = table.profile()
        confirmed = int(table.is_labeled.sum())
        return Profile(len(table), confirmed, _rows(found.to_frame()), [str(each) for each in found.findings])

    def label(self, file: str, rules: str) -> Labelled:
        """Apply a rule set (a JSON file) to a table: mean soft label, ceiling of AUC_SPU, shares of rules."""
        table, chosen = self._table(file), self._rules(rules)
        soft_labels = soft_labels_of(table, chosen)
        matrix = chosen.fit(table).apply(table.read().frame)
        summary = matrix.summary(table.is_labeled)[["coverage", "lift"]].reset_index()
        findings = [str(each) for each in audit_soft_labels(soft_labels).findings]
        return Labelled(len(table), soft_labels.mean, auc_spu_ceiling(soft_labels.value), _rows(summary), findings)

    def train(
        self,
        file: str,
        rules: str | None = None,
        methods: list[str] | None = None,
        folds: int = 5,
        origin: str = "unknown",
        output: str | None = None,
    ) -> Compared:
        """Cross-fit methods on a table and recommend one; with output (a new folder), also write a bundle for each.

        origin says how the confirmed cases were found: chance, rules, other or unknown.
        """
        target = self._new(output)
        table = self._table(file)
        chosen = None if rules is None else self._rules(rules)
        candidates = tuple(Candidate(key) for key in methods or METHODS_TO_TRY)
        candidates = candidates if chosen is None else with_twins(candidates)
        runs = list(
            cross_fit(table, soft_labels_of(table, chosen), candidates, TrainConfig(folds=folds), progress=False)
        )
        written = [] if target is None else self._save(runs, target)
        return _compared(runs, origin, written)

    def compare(self, bundles: list[str], origin: str = "unknown") -> Compared:
        """Compare bundles (.spu) of one table: which model to use, how sure that is, and what to do next."""
        return _compared([self._bundle(name).run for name in bundles], origin, bundles)

    def plan_audit(self, bundle: str, question: str = "how_good", rival: str | None = None) -> AuditPlanned:
        """Say what checking rows by hand will tell. question: how_good, which_better (with a rival) or how_many."""
        names = [bundle] if rival is None else [bundle, rival]
        rows = [Population.of_run(each.run, each.point.threshold) for each in map(self._bundle, names)]
        found = forecast(rows[0], question, rival=rows[1] if rival is not None else None)
        middle = int(found.table["checks"].iloc[len(found.table) // 2]) if len(found.table) else 0
        sentence = found.sentence(middle) if middle else "There are too few rows to check."
        return AuditPlanned(sentence, _rows(found.table))

    def score(self, bundle: str, file: str, output: str | None = None) -> Scored:
        """Score new rows with a bundle and return the highest ones; with output (.csv or .parquet), write all."""
        target = self._new(output)
        model, rows = self._bundle(bundle), self._inside(file)
        found = model.score(rows)
        if target is not None:
            model.score_file(rows, target)
        top = found.frame.sort_values("rank").head(MOST_ROWS)
        return Scored(len(found.frame), found.report.flag_rate, found.report.conclusion, _rows(top))

    def _table(self, name: str) -> Table:
        path = self._inside(name)
        if not path.is_dir():
            return read_table(path)
        for each in path.iterdir():
            self._inside(str(each))
        return open_folder(path)

    def _rules(self, name: str) -> RuleSet:
        return RuleSet.from_json(self._inside(name).read_text(encoding="utf-8"))

    def _bundle(self, name: str) -> Bundle:
        return load_bundle(self._inside(name))

    def _inside(self, name: str) -> Path:
        """A path below the folder; links that lead out of it are refused, like `..` and absolute paths."""
        path = (self._root / name).resolve()
        if not path.is_relative_to(self._root):
            raise SpuError(f"{name!r} is outside the folder that these tools may use.")
        return path

    def _new(self, name: str | None) -> Path | None:
        """Where to write; None if nothing is to be written. Nothing that exists is overwritten."""
        if name is None:
            return None
        if not self._may_write:
            raise SpuError("These tools may only read. Start the server with --write to let them write.")
        path = self._inside(name)
        if path.exists():
            raise SpuError(f"{name!r} exists; choose another name.")
        return path

    def _save(self, runs: list[Run], folder: Path) -> list[str]:
        folder.mkdir(parents=True)
        named = {f"{at:02d}-{run.candidate.method}.spu": run for at, run in enumerate(runs, 1) if run.error is None}
        return [str(save_bundle(run, folder / name).relative_to(self._root)) for name, run in named.items()]


def _compared(runs: list[Run], origin: str, bundles: list[str]) -> Compared:
    comparison = compare_runs(runs)
    found = recommend(comparison, origin=origin)
    shown = ["name", "auc_spu", "auc_spu_low", "auc_spu_high", "known_positive_auc", "true_auc"]
    leaderboard = _rows(found.ranked(comparison.leaderboard)[shown])
    sentences = [*found.sentences, *comparison.disagreements]
    return Compared(
        found.model, found.confidence, sentences, found.next_step.sentence, found.help_of_rules, leaderboard, bundles
    )


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as plain JSON values, with numbers to four digits."""
    return plain(frame.round(4))


def _in_sentences(tool: Callable[..., Any], error: type[Exception], root: Path) -> Callable[..., Any]:
    """The tool, with what the engine refuses as an error of the protocol: a sentence, and no path of this computer."""

    @functools.wraps(tool)
    def call(**given: Any) -> Any:
        try:
            return tool(**given)
        except SpuError as problem:
            raise error(str(problem).replace(f"{root}/", "")) from None
        except OSError as problem:
            raise error(f"The file cannot be used: {problem.strerror}.") from None

    return call
