"""Stored runs as files to take away: each is made when somebody asks for it, kept with its run, and found again."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from spu_core.engines.stored import compare_on, names_apart, soft_labels_by, stored_bundle, stored_runs
from spu_core.engines.study import Study, soft_labels_of
from spu_core.errors import BundleError, SpuError, WorkspaceError
from spu_core.export import (
    Bundle,
    Passport,
    bundle_bytes,
    export_onnx,
    model_card,
    model_card_html,
    to_csv,
    write_folder,
)
from spu_core.export.onnx_graph import need_onnx
from spu_core.export.onnx_models import translatable
from spu_core.rules import RuleSet
from spu_core.tables import Role, Table
from spu_core.training import Comparison, make_split
from spu_core.workspace import ExportRecord, RuleSetVersion, RunRecord, Workspace
from spu_core.workspace.values import clean_name

# What the name of a file ends with, and what browsers call its content.
FORMS = {
    "bundle": (".spu", "application/octet-stream"),
    "onnx": (".onnx", "application/octet-stream"),
    "folder": (".zip", "application/zip"),
    "scores_csv": ("-training-scores.csv", "text/csv"),
    "scores_parquet": ("-training-scores.parquet", "application/octet-stream"),
    "card_md": ("-card.md", "text/markdown"),
    "card_html": ("-card.html", "text/html"),
    "report": ("-report.html", "text/html"),
    "rules": ("-rules.json", "application/json"),
    "study": ("-study.json", "application/json"),
}
MOST_COMPARED = 12
PROVEN_ROWS = 100_000
OTHER_FOLDS = (
    "In the studio this run shared the folds of an earlier training, so that both can be compared; spu train makes "
    "folds of its own, and its figures will differ a little."
)


@dataclass(frozen=True, kw_only=True)
class ExportWords:
    """What the analyst says about a model, and whether its bundle may hold a value per training row."""

    purpose: str = ""
    licence: str = ""
    contact: str = ""
    chosen_because: str = ""
    keep_rows: bool = True

    @classmethod
    def last_said(cls, workspace: Workspace, run: str) -> ExportWords:
        """The words of the newest export of a run, so that nobody types them twice."""
        for record in workspace.exports.list(run):
            words = record.detail.get("words")
            if isinstance(words, Mapping):
                return cls(**words)
        return cls()


@dataclass(frozen=True)
class Made:
    """The bytes of an export, and what must be said with it."""

    data: bytes
    note: str = ""


@dataclass(frozen=True, eq=False)
class RunExport:
    """A stored run, ready to be written in any form; `table` is the one it was trained on, with its current roles."""

    workspace: Workspace
    record: RunRecord
    table: Table
    words: ExportWords = field(default_factory=ExportWords)

    @cached_property
    def bundle(self) -> Bundle:
        """The bundle of the run under its name in the workspace, with its operating point and the analyst's words."""
        found = stored_bundle(self.workspace, self.record.id)
        said = {name: text for name, text in asdict(self.words).items() if name != "keep_rows"}
        named = replace(found, facts=replace(found.facts, name=self.name))
        return named.with_passport(Passport.of(self.table, **said))

    @cached_property
    def name(self) -> str:
        return names_apart(self.workspace.runs.list(self.record.dataset))[self.record.id]

    @cached_property
    def rules(self) -> RuleSetVersion | None:
        if self.record.rule_set is None:
            return None
        return self.workspace.rule_sets.get(self.record.rule_set, self.record.rule_set_version)

    @cached_property
    def compared(self) -> tuple[str, ...]:
        """This run, and the newest of each name that learnt under the same rules on the same folds."""
        seen = {self.record.name: self.record.id}
        for other in self.workspace.runs.list(self.record.dataset):
            if _trained_like(other) == _trained_like(self.record):
                seen.setdefault(other.name, other.id)
        return tuple(seen.values())[:MOST_COMPARED]

    def file_name(self, form: str) -> str:
        """A name that every file system takes.

        The words of the run come first, then what the file is.
        """
        return f"{file_stem(self.name)}{FORMS[form][0]}"

    def refusal(self, form: str) -> str | None:
        """Why this form cannot be made of this run; None where it can."""
        if form == "rules" and self.rules is None:
            return "This run was trained without rules."
        if form == "onnx":
            return onnx_refusal(self.bundle)
        return None

    def made_before(self, form: str) -> ExportRecord | None:
        """The export that is there already, made of the same run, operating point, roles and words."""
        key = self._key(form)
        found = (record for record in self.workspace.exports.list(self.record.id) if record.format == form)
        return next((record for record in found if record.detail.get("key") == key), None)

    def prepare(self, form: str) -> ExportRecord:
        """Make a form and keep it with the run, in the place of an older file of that form."""
        known = self.made_before(form)
        if known is not None:
            return known
        older = [record for record in self.workspace.exports.list(self.record.id) if record.format == form]
        made = self.make(form)
        detail = {"key": self._key(form), "note": made.note, "words": asdict(self.words)}
        stored = self.workspace.exports.save(
            self.record.id, self.file_name(form), form, lambda path: _write(path, made.data), detail
        )
        for record in older:
            self.workspace.delete(self.workspace.plan_deletion("export", record.id))
        return stored

    def make(self, form: str) -> Made:
        """The file as bytes, with what must be said about it."""
        makers: dict[str, Callable[[], Made]] = {
            "bundle": lambda: Made(bundle_bytes(self._kept)),
            "onnx": self._onnx,
            "folder": self._folder,
            "scores_csv": lambda: Made(to_csv(self.scored_rows()).encode()),
            "scores_parquet": lambda: Made(_parquet(self.scored_rows())),
            "card_md": lambda: Made(model_card(self._kept, self._comparison).encode()),
            "card_html": lambda: Made(model_card_html(self._kept, self._comparison).encode()),
            "report": self._report,
            "rules": self._rules_json,
            "study": self._study_json,
        }
        if form not in makers:
            raise WorkspaceError(f"There is no export {form!r}; there are {', '.join(FORMS)}.")
        return makers[form]()

    def scored_rows(self) -> pd.DataFrame:
        """The training rows with their out-of-fold scores: no row is scored by a model that saw it."""
        run, bundle = self.bundle.run, self.bundle
        score = pd.Series(run.need_score())
        column = self.table.column_with(Role.ID)
        ids = np.arange(1, len(score) + 1) if column is None else self.table.frame[column].to_numpy()
        return pd.DataFrame(
            {
                "row" if column is None else column: ids,
                "out_of_fold_score": score,
                "flagged": bundle.point.flags(score.to_numpy()),
                "rank": score.rank(ascending=False, method="min").astype("Int64"),
                "soft_label": run.basis.soft_label,
                "confirmed_positive": run.basis.is_labeled,
                "fold": run.fold,
            }
        )

    def study(self) -> Study:
        """What `spu train` needs to train this candidate again on the same table."""
        asked = self._asked
        left_out = dict.fromkeys(asked.get("left_out", ()), Role.IGNORE)
        rules = None if self.rules is None else RuleSet.from_json(self.rules.text)
        table = self.table.with_roles(left_out)
        return Study.of(table, rules, self.bundle.plan, refine=bool(asked.get("refine", True)))

    @property
    def _kept(self) -> Bundle:
        return self.bundle if self.words.keep_rows else self.bundle.without_rows()

    @cached_property
    def _comparison(self) -> Comparison:
        runs = stored_runs(self.workspace, self.compared)
        return compare_on(runs, soft_labels_by(self.table, self.rules))

    @property
    def _asked(self) -> Mapping[str, Any]:
        """The parameters of the training job; a job may have been removed since."""
        known = {job.id: job for job in self.workspace.jobs.list()}
        return known[self.record.job].parameters if self.record.job in known else {}

    def _onnx(self) -> Made:
        made = export_onnx(self.bundle, _some_rows(self.table.frame))
        proof = f"Proven on {made.rows:,} rows: it differs from the native model by {made.worst:.1g} at most."
        return Made(made.data, f"{proof} {made.note}".strip())

    def _folder(self) -> Made:
        with tempfile.TemporaryDirectory() as place:
            refused = onnx_refusal(self.bundle)
            rows = None if refused else _some_rows(self.table.frame)
            folder = write_folder(self._kept, Path(place) / "folder", rows)
            archive = shutil.make_archive(str(Path(place) / "archive"), "zip", folder)
            return Made(Path(archive).read_bytes(), f"Without an ONNX model: {refused}" if refused else "")

    def _report(self) -> Made:
        from spu_core.export.report import report_html

        title = f"Comparison report: {self.table.name}"
        return Made(report_html(self._comparison, self._kept, title=title).encode())

    def _rules_json(self) -> Made:
        if self.rules is None:
            raise BundleError(str(self.refusal("rules")))
        return Made(RuleSet.from_json(self.rules.text).to_json().encode())

    def _study_json(self) -> Made:
        study = self.study()
        labels = soft_labels_of(self.table, study.rules)
        own = make_split(study.prepare(self.table), labels, study.plan.config)
        same = np.array_equal(own.fold, self.bundle.run.fold)
        return Made(study.to_json().encode(), "" if same else OTHER_FOLDS)

    def _key(self, form: str) -> str:
        points = self.workspace.thresholds.list(self.record.id)
        decides = {
            "form": form,
            "name": self.name,
            "point": [points[0].threshold, points[0].flagged_share] if points else None,
            "roles": dict(self.table.roles),
            "words": asdict(self.words),
            "compared": self.compared if form in ("card_md", "card_html", "report") else (),
        }
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def onnx_refusal(bundle: Bundle) -> str | None:
    """Why a bundle cannot become ONNX; None where it can be tried."""
    try:
        need_onnx()
        translatable(bundle.fitted.model)
    except SpuError as refused:
        return str(refused)
    return None


def file_stem(name: str) -> str:
    """Letters, digits and dashes of a name; what people typed never becomes a path.

    >>> file_stem("../My *best* model"), file_stem("模型 3")
    ('My-best-model', '模型-3')
    """
    letters = "".join(letter if letter.isalnum() else " " for letter in clean_name(name))
    return "-".join(letters.split())[:60].strip("-") or "model"


def _trained_like(record: RunRecord) -> tuple[Any, ...]:
    same = tuple(record.config.get(name) for name in ("folds", "seed", "hold_out", "out_of_time"))
    return (record.rule_set, record.rule_set_version, *same)


def _some_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Evenly spread rows: enough to prove a translation, whatever the size of the table."""
    return frame.iloc[:: max(1, -(-len(frame) // PROVEN_ROWS))]


def _parquet(frame: pd.DataFrame) -> bytes:
    target = io.BytesIO()
    frame.to_parquet(target, index=False)
    return target.getvalue()


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
