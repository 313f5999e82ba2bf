"""The files that a stored run can be exported to. They are stored with the run and reused until something changes.

`StoredModel` gathers what the files contain; `EXPORT_FORMS` lists the kinds of files.
"""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from spu_core.checks import check_choice
from spu_core.codec import dump_json
from spu_core.engines.audit_results import with_audit
from spu_core.engines.stored_runs import (
    MOST_COMPARED,
    compare_on,
    displayed_names,
    folds_and_rules,
    soft_labels_by,
    stored_bundle,
    stored_runs,
)
from spu_core.engines.study import Study, soft_labels_of
from spu_core.errors import BundleError, SpuError, WorkspaceError
from spu_core.export import Bundle, bundle_bytes, export_onnx, model_card, model_card_html, write_folder
from spu_core.export.monitoring import reference_profile
from spu_core.export.onnx_export import refuse_untranslatable
from spu_core.export.onnx_graph import need_onnx
from spu_core.export.report import report_html
from spu_core.rules import RuleSet
from spu_core.tables import Role, Table
from spu_core.tables.spreadsheet import to_csv
from spu_core.training import Comparison, make_split
from spu_core.workspace import ExportRecord, RuleSetVersion, RunRecord, Workspace
from spu_core.workspace.records import clean_name

# An exported ONNX model is compared with the native one on at most this many rows.
PROVEN_ROWS = 100_000
NO_RULES = "This run was trained without rules."
OTHER_FOLDS = (
    "In the studio this run shared the folds of an earlier training, so that both can be compared; spu train makes "
    "folds of its own, and its figures will differ a little."
)


@dataclass(frozen=True, kw_only=True)
class ExportTexts:
    """Texts for the model card, and whether the bundle keeps scores and labels of the training rows (`keep_rows`).

    `changes` has one line for each change since the last export.
    """

    purpose: str = ""
    licence: str = ""
    contact: str = ""
    chosen_because: str = ""
    changes: str = ""
    keep_rows: bool = True

    @classmethod
    def last_used(cls, workspace: Workspace, run: str) -> ExportTexts:
        """The texts of the newest export of a run."""
        for record in workspace.exports.list(run):
            words = record.detail.get("words")
            if isinstance(words, Mapping):
                return cls(**words)
        return cls()


@dataclass(frozen=True, eq=False)
class StoredModel:
    """A stored run with its bundle, rules and comparison; `table` is the one that it was trained on."""

    workspace: Workspace
    record: RunRecord
    table: Table
    words: ExportTexts = field(default_factory=ExportTexts)

    @cached_property
    def name(self) -> str:
        """Its name, different from those of the other runs of its dataset."""
        return displayed_names(self.workspace.runs.list(self.record.dataset))[self.record.id]

    @cached_property
    def bundle(self) -> Bundle:
        """The bundle under that name, with the current operating point and the texts."""
        found = stored_bundle(self.workspace, self.record.id)
        # The fingerprint comes from the catalogue; computing it would read the whole table.
        known = replace(
            found.details,
            id_column=self.table.column_with(Role.ID),
            data_name=self.table.name,
            fingerprint=self.record.dataset_fingerprint,
        )
        named = replace(found, facts=replace(found.facts, name=self.name)).with_details(known)
        return with_texts(named, self.words)

    @property
    def history(self) -> tuple[str, ...]:
        """Events of the run in this workspace, the oldest first: its training, then its operating points."""
        lineage = self.workspace.lineage(self.record.id)
        points = reversed(self.workspace.thresholds.list(self.record.id))
        moved = (
            f"{point.made:%Y-%m-%d}: flags scores above {point.threshold:.6g} ({point.flagged_share:.2%} of the "
            f"training rows out of fold), chosen as {point.name!r}"
            for point in points
        )
        return (f"{self.record.made:%Y-%m-%d}: {lineage}", *moved)

    @property
    def shared_bundle(self) -> Bundle:
        """The bundle to export: without values of training rows, unless `keep_rows` is set."""
        return self.bundle if self.words.keep_rows else self.bundle.without_rows()

    @property
    def dated_bundle(self) -> Bundle:
        """The same with the events of the run, for cards. Dates are not exported: equal studies give equal bundles."""
        bundle = self.shared_bundle
        return bundle.with_details(replace(bundle.details, history=(*self.history, *bundle.details.history)))

    @cached_property
    def rules(self) -> RuleSetVersion | None:
        """The version of the rule set that made its soft labels."""
        if self.record.rule_set is None:
            return None
        return self.workspace.rule_sets.get(self.record.rule_set, self.record.rule_set_version)

    @cached_property
    def compared(self) -> tuple[str, ...]:
        """This run, and the newest run of each name that was trained with the same rules and split settings."""
        seen = {self.record.name: self.record.id}
        for other in self.workspace.runs.list(self.record.dataset):
            if folds_and_rules(other) == folds_and_rules(self.record):
                seen.setdefault(other.name, other.id)
        return tuple(seen.values())[:MOST_COMPARED]

    @cached_property
    def comparison(self) -> Comparison:
        """These runs compared on the soft labels of this one."""
        found = compare_on(stored_runs(self.workspace, self.compared), soft_labels_by(self.table, self.rules))
        return with_audit(self.workspace, self.workspace.datasets.get(self.record.dataset), found)

    @cached_property
    def origin(self) -> str:
        """How the confirmed cases of the dataset were found."""
        return self.workspace.datasets.get(self.record.dataset).origin

    def study(self) -> Study:
        """The study with which `spu train` trains this candidate again on the same table."""
        asked = self._job_parameters
        table = self.table.with_roles(dict.fromkeys(asked.get("left_out", ()), Role.IGNORE))
        rules = None if self.rules is None else RuleSet.from_json(self.rules.text)
        return Study.of(table, rules, self.bundle.plan, refine=bool(asked.get("refine", True)))

    def scored_rows(self) -> pd.DataFrame:
        """The training rows with their out-of-fold scores."""
        run, column = self.bundle.run, self.table.column_with(Role.ID)
        score = pd.Series(run.need_score())
        ids = np.arange(1, len(score) + 1) if column is None else self.table.values(column).to_numpy()
        return pd.DataFrame(
            {
                "row" if column is None else "id": ids,
                "out_of_fold_score": score,
                "flagged": self.bundle.point.flags(score.to_numpy()),
                "rank": score.rank(ascending=False, method="min").astype("Int64"),
                "soft_label": run.evaluation.soft_label,
                "confirmed_positive": run.evaluation.is_labeled,
                "fold": run.fold,
            }
        )

    @property
    def _job_parameters(self) -> Mapping[str, Any]:
        """The parameters of the training job; empty if the job was deleted."""
        jobs = (job for job in self.workspace.jobs.list() if job.id == self.record.job)
        job = next(jobs, None)
        return {} if job is None else job.parameters


def with_texts(bundle: Bundle, words: ExportTexts) -> Bundle:
    """The bundle with these texts; its own texts stay where these are empty."""
    texts = {name: text for name, text in asdict(words).items() if text and name not in ("keep_rows", "changes")}
    changes = tuple(line.strip() for line in words.changes.splitlines() if line.strip())
    own = bundle.details
    return bundle.with_details(replace(own, **texts, history=(*own.history, *changes)))


@dataclass(frozen=True)
class ExportedFile:
    """The bytes of an export, and a note for the user."""

    data: bytes
    note: str = ""


@dataclass(frozen=True)
class ExportForm:
    """A kind of export: the end of the file name, the media type, and the function that makes the file.

    `compares` marks files that describe other runs, too: they are outdated when another run is trained.
    """

    suffix: str
    mime: str
    make: Callable[[StoredModel], ExportedFile]
    compares: bool = False


def refusal(model: StoredModel, form: str) -> str | None:
    """Why a run cannot be exported to this form; None if it can be tried."""
    if form == "rules" and model.rules is None:
        return NO_RULES
    return onnx_refusal(model.bundle) if form == "onnx" else None


def onnx_refusal(bundle: Bundle) -> str | None:
    """Why a bundle cannot be exported to ONNX; None if it can be tried."""
    try:
        need_onnx()
        refuse_untranslatable(bundle)
    except SpuError as refused:
        return str(refused)
    return None


def zipped(folder: Path) -> bytes:
    """A folder as the bytes of a zip file; equal files give equal bytes."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix())
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return target.getvalue()


def _bundle(model: StoredModel) -> ExportedFile:
    return ExportedFile(bundle_bytes(model.shared_bundle))


def _onnx(model: StoredModel) -> ExportedFile:
    made = export_onnx(model.bundle, _some_rows(model))
    return ExportedFile(made.data, made.summary)


def _folder(model: StoredModel) -> ExportedFile:
    refused = onnx_refusal(model.bundle)
    rows = None if refused else _some_rows(model)
    with tempfile.TemporaryDirectory() as place:
        folder = write_folder(model.shared_bundle, Path(place) / "folder", rows, card_of=model.dated_bundle)
        return ExportedFile(zipped(folder), f"Without an ONNX model. {refused}" if refused else "")


def _scores_csv(model: StoredModel) -> ExportedFile:
    return ExportedFile(to_csv(model.scored_rows()).encode())


def _scores_parquet(model: StoredModel) -> ExportedFile:
    target = io.BytesIO()
    model.scored_rows().to_parquet(target, index=False)
    return ExportedFile(target.getvalue())


def _card_md(model: StoredModel) -> ExportedFile:
    return ExportedFile(model_card(model.dated_bundle, model.comparison, origin=model.origin).encode())


def _card_html(model: StoredModel) -> ExportedFile:
    return ExportedFile(model_card_html(model.dated_bundle, model.comparison, origin=model.origin).encode())


def _report(model: StoredModel) -> ExportedFile:
    title = f"Comparison report: {model.table.name}"
    return ExportedFile(report_html(model.comparison, model.dated_bundle, title=title, origin=model.origin).encode())


def _rules(model: StoredModel) -> ExportedFile:
    if model.rules is None:
        raise BundleError(NO_RULES)
    return ExportedFile(RuleSet.from_json(model.rules.text).to_json().encode())


def _study(model: StoredModel) -> ExportedFile:
    study = model.study()
    own = make_split(study.prepare(model.table), soft_labels_of(model.table, study.rules), study.plan.config)
    same = np.array_equal(own.fold, model.bundle.run.fold)
    return ExportedFile(study.to_json().encode(), "" if same else OTHER_FOLDS)


def _profile(model: StoredModel) -> ExportedFile:
    return ExportedFile(dump_json(reference_profile(model.bundle), indent=1).encode())


def _some_rows(model: StoredModel) -> pd.DataFrame:
    """Evenly spaced rows of the table, or of the sample of a folder."""
    table = model.table
    frame = table.frame if table.in_memory else model.workspace.datasets.explore(model.record.dataset).frame
    return frame.iloc[:: max(1, -(-len(frame) // PROVEN_ROWS))]


_BYTES, _JSON = "application/octet-stream", "application/json"
EXPORT_FORMS = {
    "bundle": ExportForm(".spu", _BYTES, _bundle),
    "onnx": ExportForm(".onnx", _BYTES, _onnx),
    "folder": ExportForm(".zip", "application/zip", _folder),
    "scores_csv": ExportForm("-training-scores.csv", "text/csv", _scores_csv),
    "scores_parquet": ExportForm("-training-scores.parquet", _BYTES, _scores_parquet),
    "card_md": ExportForm("-card.md", "text/markdown", _card_md, compares=True),
    "card_html": ExportForm("-card.html", "text/html", _card_html, compares=True),
    "report": ExportForm("-report.html", "text/html", _report, compares=True),
    "rules": ExportForm("-rules.json", _JSON, _rules),
    "study": ExportForm("-study.json", _JSON, _study),
    "profile": ExportForm("-profile.json", _JSON, _profile),
}


def prepare(model: StoredModel, form: str) -> ExportRecord:
    """Make and store a file of a run. It replaces an older one of the same form."""
    known = made_before(model, form)
    if known is not None:
        return known
    workspace, token = model.workspace, model.record.id
    older = [record for record in workspace.exports.list(token) if record.format == form]
    made = EXPORT_FORMS[form].make(model)

    def write(path: Path) -> None:
        path.write_bytes(made.data)

    detail = {"key": _key(model, form), "note": made.note, "words": asdict(model.words)}
    stored = workspace.exports.save(token, f"{file_stem(model.name)}{EXPORT_FORMS[form].suffix}", form, write, detail)
    for record in older:
        workspace.delete(workspace.plan_deletion("export", record.id))
    return stored


def made_before(model: StoredModel, form: str) -> ExportRecord | None:
    """The stored file that was made from the same run, operating point, roles and texts; None if there is none."""
    check_choice(form, EXPORT_FORMS, "form", WorkspaceError)
    key = _key(model, form)
    found = (record for record in model.workspace.exports.list(model.record.id) if record.format == form)
    return next((record for record in found if record.detail.get("key") == key), None)


def file_stem(name: str) -> str:
    """A file name from the letters and digits of a name; never a path.

    >>> file_stem("../My *best* model"), file_stem("模型 3"), file_stem("…")
    ('My-best-model', '模型-3', 'model')
    """
    letters = "".join(letter if letter.isalnum() else " " for letter in clean_name(name))
    return "-".join(letters.split())[:60].strip("-") or "model"


def _key(model: StoredModel, form: str) -> str:
    """A hash of everything that decides the content, besides the run itself, which never changes."""
    points = model.workspace.thresholds.list(model.record.id)
    decides = {
        "form": form,
        "name": model.name,
        "points": [[point.threshold, point.flagged_share] for point in points],
        "roles": dict(model.table.roles),
        "words": asdict(model.words),
        "compared": (*model.compared, model.origin) if EXPORT_FORMS[form].compares else (),
    }
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()
