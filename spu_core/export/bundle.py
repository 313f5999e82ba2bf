"""A bundle: an exported run with everything needed to score new rows, explain the scores and compare the run again.

It holds data only; nothing in it runs as code.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO, TypeAlias

import numpy as np
import pandas as pd

from spu_core.checks import check_kind
from spu_core.errors import BundleError, TableError, nearest_hint
from spu_core.export.bundle_parts import (
    FlagPoint,
    LabelRules,
    ModelDetails,
    RunFacts,
    SelfTest,
    input_kind,
    row_parts,
    run_from,
    self_test_rows,
    share_threshold,
)
from spu_core.export.drift import DriftCounter, TrainingProfile, training_profile
from spu_core.export.model_checks import active_columns, keeps_training_rows, reads_rule_score
from spu_core.export.row_files import RowSource, open_rows, write_stream, write_tables
from spu_core.export.score_report import (
    ColumnCheck,
    Contributions,
    RowExplanation,
    ScoreProgress,
    ScoreReport,
    ScoreTable,
    Scoring,
    contributions,
    explain_one,
    top_reasons,
)
from spu_core.html_table import Tabular, count, short_repr
from spu_core.models import Features
from spu_core.models.columns import Column, Family, family_of
from spu_core.rules import FittedRules, RuleMatrix
from spu_core.tables.table import as_pandas
from spu_core.training import FittedCandidate, Run, TrainPlan

PROBE_TOLERANCE = 1e-6
# The first pass over the rows, reading and scoring, takes longer than the second, ranking and writing.
FIRST_PASS = 0.6
_TRUE, _FALSE = {"true", "t", "yes", "1"}, {"false", "f", "no", "0"}
OnProgress: TypeAlias = Callable[[ScoreProgress], None]


@dataclass(frozen=True, eq=False)
class Bundle(Tabular):
    """An exported run. `Bundle.of` makes one, `save_bundle` writes it and `load_bundle` reads it.

    Parameters
    ----------
    fitted : FittedCandidate
        The candidate, trained on all rows.
    facts : RunFacts
        Configuration, metrics and library versions of the run.
    point : FlagPoint
        The threshold above which rows are flagged.
    profile : TrainingProfile
        Quantiles and shares of the training columns, for drift hints and the self-test.
    label_rules : LabelRules, optional
        The rules with their fitted numbers; None where the run had no rules.
    details : ModelDetails, optional
        Purpose, licence, contact and other texts, and the id column.
    rows : mapping of str to array, optional
        Out-of-fold scores, soft labels and labels of the training rows; empty where they were left out.
    self_test : SelfTest, optional
        Synthetic rows with their scores; None for old bundles and for those that lack the rules they need.
    """

    fitted: FittedCandidate
    facts: RunFacts
    point: FlagPoint
    profile: TrainingProfile
    label_rules: LabelRules | None = None
    details: ModelDetails = field(default_factory=ModelDetails)
    rows: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    self_test: SelfTest | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        rules = "without rules" if self.label_rules is None else "with rules"
        method = f"method {self.fitted.candidate.method}"
        return short_repr("Bundle", self.facts.name, method, f"trained on {count(self.facts.rows, 'row')}", rules)

    def to_frame(self) -> pd.DataFrame:
        """What the bundle holds, a line for each fact."""
        lines: dict[str, Any] = {
            "method": self.fitted.candidate.method,
            "trained on": f"{count(self.facts.rows, 'row')}, {self.facts.labeled:,} confirmed",
            "rules": "none" if self.label_rules is None else count(len(self.label_rules.rules.beliefs), "rule"),
            "flags a score above": self.point.threshold,
            "share of training rows flagged": self.point.share,
            "stored scores of training rows": "yes" if self.rows else "no",
        }
        return pd.DataFrame(list(lines.items()), columns=["fact", "value"])

    @classmethod
    def of(
        cls,
        run: Run,
        *,
        label_rules: LabelRules | FittedRules | None = None,
        details: ModelDetails | None = None,
        point: FlagPoint | None = None,
        fitted: FittedCandidate | None = None,
        keep_rows: bool = True,
    ) -> Bundle:
        """Train the run's candidate again on all rows and collect what belongs to it.

        Parameters
        ----------
        run : Run
            A finished run that still has its table.
        label_rules : LabelRules or FittedRules, optional
            The rules that made the soft labels, `rules.fit(table)`. Methods whose scores depend on the rules, such as
            `fused`, need them to score new rows.
        details : ModelDetails, optional
            Purpose, licence, contact and other texts.
        point : FlagPoint, optional
            Where to flag; by default the review budget of the run.
        fitted : FittedCandidate, optional
            The result of an earlier `run.fit_all()`; with it nothing is trained.
        keep_rows : bool
            False leaves out scores, soft labels and labels of the training rows: the bundle scores as before, but its
            run cannot be compared again.
        """
        check_kind(run, Run, "A bundle is made of a Run", "use cross_fit(...)[0]", BundleError)
        if isinstance(label_rules, FittedRules):
            made_by = label_rules.rules
            label_rules = LabelRules(rules=label_rules, combine=made_by.combine, floor=made_by.floor)
        _check_label_rules(run, label_rules)
        bundle = cls(
            fitted=run.fit_all() if fitted is None else fitted,
            facts=RunFacts.of(run),
            point=FlagPoint.at_budget(run) if point is None else point,
            profile=training_profile(run),
            label_rules=label_rules,
            details=details or ModelDetails(),
            rows=row_parts(run) if keep_rows else {},
        )
        probe = bundle._probe_score()
        return replace(
            bundle,
            profile=replace(bundle.profile, probe=tuple(probe.tolist())),
            self_test=bundle._make_self_test(),
        )

    @property
    def name(self) -> str:
        return self.facts.name

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that a table must have to be scored."""
        names = [self.fitted.encoder.names[place] for place in active_columns(self.fitted.model)]
        if self.reads_rules and self.label_rules is not None:
            names += [name for name in self.label_rules.rules.columns if name not in names]
        return tuple(names)

    @cached_property
    def input_kinds(self) -> dict[str, str]:
        """The columns of `columns`, each with the kind of values it holds: number, flag, days (dates) or text."""
        known = {column.name: column for column in self.fitted.encoder.columns}
        rules = {} if self.label_rules is None else self.label_rules.rules.kinds
        return {name: input_kind(known.get(name), rules.get(name)) for name in self.columns}

    @cached_property
    def reads_rules(self) -> bool:
        """Whether the score depends on the rules."""
        return reads_rule_score(self.fitted.model) and not self.fitted.candidate.without_rules

    @property
    def keeps_training_rows(self) -> bool:
        """Whether the model itself contains training rows, as nearest neighbours do."""
        return keeps_training_rows(self.fitted.model)

    @cached_property
    def run(self) -> Run:
        """The run with its out-of-fold scores, to compare it with others; its table is not in the bundle."""
        return run_from(self.facts, self.fitted.candidate, self.rows)

    @property
    def plan(self) -> TrainPlan:
        """The configuration that trains this candidate again, as the command line reads it."""
        return TrainPlan(self.facts.config, (self.fitted.candidate,))

    def with_point(self, point: FlagPoint) -> Bundle:
        """The same bundle with another threshold."""
        return replace(self, point=point)

    def with_details(self, details: ModelDetails) -> Bundle:
        """The same bundle with other texts."""
        return replace(self, details=details)

    def without_rows(self) -> Bundle:
        """The same bundle without the values of single training rows."""
        return replace(self, rows={})

    def score(self, source: Any, scoring: Scoring | None = None) -> ScoreTable:
        """Score new rows and keep the result in memory.

        Training rows get higher scores here than they deserve, since the model has seen them; use their out-of-fold
        scores instead.

        Parameters
        ----------
        source : DataFrame, path, bytes or file object
            The rows, with the columns of `columns` in any order.
        scoring : Scoring, optional
            How rows are flagged and explained.

        Returns
        -------
        ScoreTable
            id, score, flagged, rank, percentile, reasons and fired rules of each row, with a report.
        """
        with self._work(source, scoring) as work:
            frames = list(work.tables())
            return ScoreTable(pd.concat(frames, ignore_index=True), work.report)

    def score_file(
        self,
        source: Any,
        target: str | os.PathLike[str] | TextIO,
        scoring: Scoring | None = None,
        *,
        raw: bool = False,
        on_progress: OnProgress | None = None,
    ) -> ScoreReport:
        """Score rows of any number into a file or an open text stream.

        Parameters
        ----------
        source : DataFrame, path, bytes or file object
            The rows, as in `score`.
        target : path or text stream
            Parquet where the name ends in `.parquet`, else CSV.
        scoring : Scoring, optional
            How rows are flagged and explained.
        raw : bool
            True writes CSV cells as they are; False protects cells that a spreadsheet would run as a formula.
        on_progress : callable, optional
            Called with a `ScoreProgress` after each chunk of rows.
        """
        with self._work(source, scoring, on_progress) as work:
            if isinstance(target, str | os.PathLike):
                write_tables(work.tables(), Path(target), raw=raw)
            else:
                write_stream(work.tables(), target, raw=raw)
            return work.report

    def explain(self, source: Any, row: int) -> RowExplanation:
        """What each column adds to the score of one row; `row` counts from 0.

        Parameters
        ----------
        source : DataFrame, path, bytes or file object
            The rows, as in `score`.
        row : int
            The position of the row.
        """
        with self._work(source, None) as work:
            return work.explain(row)

    def predict(self, frame: pd.DataFrame, rule_score: np.ndarray | None = None) -> np.ndarray:
        """The scores of a frame as an array; equal to those of `run.fit_all()` to the bit."""
        frame = as_pandas(frame)
        check_names(self, tuple(map(str, frame.columns)))
        fitting = conform(self, frame)
        return self.score_features(fitting, self.features(fitting), rule_score)

    def features(self, frame: pd.DataFrame) -> Features:
        """The encoded rows; columns that the model does not read may be absent."""
        names = self.fitted.encoder.names
        unread = [name for name in names if name not in self.columns and name in frame.columns]
        return self.fitted.encoder.transform(frame.drop(columns=unread) if unread else frame, needed=self.columns)

    def score_features(
        self, frame: pd.DataFrame, features: Features, rule_score: np.ndarray | None = None
    ) -> np.ndarray:
        """The scores of encoded rows; the rules are applied to `frame`, from which the rows were encoded."""
        if reads_rule_score(self.fitted.model) and rule_score is None:
            rule_score = self.rule_score(frame)
        return self.fitted.model.score_rows(features, rule_score)

    def rule_score(self, frame: pd.DataFrame) -> np.ndarray:
        """The combined rule score of each row, as at training."""
        if self.fitted.candidate.without_rules:
            return np.zeros(len(frame))
        if self.label_rules is None:
            raise BundleError(
                f"The score of {self.name!r} depends on the rules, but the bundle was saved without them; save it with "
                "label_rules=, or pass rule_score= of the same rows."
            )
        return self.label_rules.rule_score(self.label_rules.apply(frame))

    def check_probe(self) -> None:
        """Refuse a model whose scores of the test rows differ from those at the export.

        The probe tries the model on encoded rows, the self-test also the encoder and the rules.
        """
        self._check_scores(np.array(self.profile.probe), self._probe_score())
        if self.self_test is not None:
            self._check_scores(np.array(self.self_test.score), self._self_test_score(self.self_test))

    def _check_scores(self, expected: np.ndarray, found: np.ndarray) -> None:
        # A network overflows on extreme numbers; it must then do so here as well.
        same = expected.shape == found.shape
        if not same or not np.allclose(found, expected, rtol=0.0, atol=PROBE_TOLERANCE, equal_nan=True):
            worst = float(np.nanmax(np.abs(found - expected))) if same else np.nan
            raise BundleError(
                f"The model of bundle {self.name!r} gives other scores here than at its export (off by up to "
                f"{worst:.3g} on its test rows); it was damaged, or the libraries differ too much: {self._versions()}."
            )

    def _work(self, source: Any, scoring: Scoring | None, on_progress: OnProgress | None = None) -> ScoreWork:
        return ScoreWork(self, open_rows(source, text_columns(self)), scoring or Scoring(), on_progress)

    def _probe_score(self) -> np.ndarray:
        features = Features.of(self.profile.probe_rows(), self.fitted.encoder.columns)
        return self.fitted.model.score_rows(features, self.profile.probe_rule_score())

    def _make_self_test(self) -> SelfTest | None:
        if self.reads_rules and self.label_rules is None:
            return None
        encoder = self.fitted.encoder.columns
        columns = {each.name: (each, outline) for each, outline in zip(encoder, self.profile.columns, strict=True)}
        rows = self_test_rows(self.input_kinds, columns, self.label_rules if self.reads_rules else None)
        return replace(rows, score=tuple(self._self_test_score(rows).tolist()))

    def _self_test_score(self, rows: SelfTest) -> np.ndarray:
        frame = conform(self, rows.frame)
        rule_score = self.rule_score(frame) if reads_rule_score(self.fitted.model) else None
        return self.fitted.model.score_rows(self.features(frame), rule_score)

    def _versions(self) -> str:
        return ", ".join(f"{name} {number}" for name, number in self.facts.versions.items())


def _check_label_rules(run: Run, label_rules: LabelRules | None) -> None:
    """Rules of another table or another version would give wrong scores without an error."""
    if label_rules is None:
        return
    check_kind(label_rules, LabelRules, "label_rules must be fitted rules", "use rules.fit(table)", BundleError)
    known: Any = run.need_data().rows.rule_columns
    if set(known) != set(label_rules.rules.columns):
        raise BundleError(
            f"The given rules read {sorted(label_rules.rules.columns)}, but {run.name!r} was trained with rules that "
            f"read {sorted(known)}; pass the fitted rules that made its soft labels."
        )


# The schema of the training table, which new rows must have.


def check_names(bundle: Bundle, names: tuple[str, ...]) -> ColumnCheck:
    """Refuse a table that lacks needed columns, naming all of them; the order does not matter."""
    present = set(names)
    if len(present) < len(names):
        twice = sorted(name for name, times in Counter(names).items() if times > 1)
        raise TableError(f"Column names must be unique, but {', '.join(map(repr, twice[:5]))} appears more than once.")
    absent = [name for name in bundle.columns if name not in present]
    if absent:
        raise TableError(_absent_columns(bundle, absent, names))
    used = {*bundle.columns, bundle.details.id_column}
    rules = bundle.label_rules.rules.columns if bundle.label_rules is not None else ()
    lost = tuple(name for name in rules if name not in present)
    return ColumnCheck(tuple(name for name in names if name not in used and name not in rules), lost)


def conform(bundle: Bundle, frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with each needed column as the type it had at training; an error names all that have another."""
    encoded = {column.name: column for column in bundle.fitted.encoder.columns}
    wanted = [name for name in bundle.columns if name in encoded]
    changed: dict[str, pd.Series] = {}
    problems = []
    for name in wanted:
        values = _without_empty_texts(encoded[name], _as_flags(encoded[name], frame[name]))
        family = family_of(values)
        if not encoded[name].accepts(family):
            problems.append(f"Column {name!r} was {encoded[name].family} when the model was trained, now {family}.")
        if values is not frame[name]:
            changed[name] = values
    if problems:
        raise TableError("The table does not fit the model. " + " ".join(problems))
    return frame.assign(**changed) if changed else frame


def text_columns(bundle: Bundle) -> frozenset[str]:
    """Columns that held text at training, and the id column: digits in a new file must not make them numbers."""
    names = {column.name for column in bundle.fitted.encoder.columns if column.family is Family.TEXT}
    return frozenset(names | {bundle.details.id_column or ""})


def _as_flags(column: Column, values: pd.Series) -> pd.Series:
    """Text such as "true" as 1 and 0: the reader takes a column with only one such word for text."""
    if column.family is not Family.BOOLEAN or family_of(values) is not Family.TEXT:
        return values
    words = values.astype("object").map(lambda value: str(value).strip().lower(), na_action="ignore")
    if not set(words.dropna()) <= _TRUE | _FALSE:
        return values
    return words.map(lambda word: float(word in _TRUE), na_action="ignore").astype(np.float64)


def _without_empty_texts(column: Column, values: pd.Series) -> pd.Series:
    """Empty texts as missing, as in a file and in ONNX, unless the training rows had them as a category."""
    if column.family is not Family.TEXT or "" in column.levels:
        return values
    empty = (values == "").fillna(False).astype(bool)
    return values.mask(empty) if empty.any() else values


def _absent_columns(bundle: Bundle, absent: list[str], names: tuple[str, ...]) -> str:
    listed = ", ".join(map(repr, absent))
    hints = [f"{name!r}: {nearest_hint(name, names)}" for name in absent[:3] if "Did" in nearest_hint(name, names)]
    more = f" {' '.join(hints)}" if hints else ""
    count = f"{len(absent)} of the {len(bundle.columns)} columns"
    return f"The table lacks {count} that {bundle.name!r} reads: {listed}.{more}"


@dataclass(eq=False)
class ScoreWork:
    """Scores rows in two passes: scores first, kept on disk; then ranks, flags and reasons.

    Only one chunk of rows is in memory at a time. A rank depends on all rows, so the scores of all rows lie in a
    temporary file, eight bytes each, with a sorted copy. Both are memory-mapped: the system can reclaim their memory.
    """

    bundle: Bundle
    source: RowSource
    scoring: Scoring
    on_progress: OnProgress | None = None
    _folder: tempfile.TemporaryDirectory[str] = field(default_factory=tempfile.TemporaryDirectory)

    def __enter__(self) -> ScoreWork:
        return self

    def __exit__(self, *_: object) -> None:
        self.__dict__.pop("ordered", None)
        self._folder.cleanup()

    @property
    def _scores(self) -> Path:
        return Path(self._folder.name) / "scores"

    @cached_property
    def columns(self) -> ColumnCheck:
        return check_names(self.bundle, self.source.names)

    @cached_property
    def drift(self) -> DriftCounter:
        return DriftCounter(self.bundle.profile, self.bundle.fitted.encoder)

    @cached_property
    def places(self) -> np.ndarray:
        return active_columns(self.bundle.fitted.model)

    @cached_property
    def total(self) -> int:
        """The number of rows. The first pass finds it and writes every score to a file."""
        done = 0
        with self._scores.open("wb") as stream:
            for score in self.scores():
                stream.write(score.tobytes())
                done += score.size
                self._report_progress("scoring", done, FIRST_PASS * min(1.0, done / max(self.source.about, 1)))
        if not self._scores.stat().st_size:
            raise TableError("The table has no rows to score.")
        return self._scores.stat().st_size // 8

    def scores(self) -> Iterator[np.ndarray]:
        """The scores, chunk by chunk; drift is counted at the same time."""
        _ = self.columns
        # A variable for the chunk would keep it, and the piece of the file it belongs to, while the next one is read.
        yield from map(self._score, self.source.chunks())

    @cached_property
    def ordered(self) -> np.ndarray:
        """All scores in increasing order, backed by a file."""
        total, path = self.total, Path(self._folder.name) / "ordered"
        shutil.copyfile(self._scores, path)
        ordered = np.memmap(path, dtype="<f8", mode="r+", shape=(total,))
        ordered.sort()
        return ordered

    @cached_property
    def threshold(self) -> float:
        if self.scoring.flag_by == "share":
            return share_threshold(self.ordered, self.bundle.point.share)
        return float(self.bundle.point.threshold)

    @property
    def report(self) -> ScoreReport:
        return ScoreReport(
            rows=self.total,
            flagged=int(self.total - np.searchsorted(self.ordered, self.threshold, side="right")),
            threshold=self.threshold,
            training_share=float(self.bundle.point.share),
            flag_by=self.scoring.flag_by,
            columns=self.columns,
            drift=self.drift.report(self.places, self.ordered),
        )

    def tables(self) -> Iterator[pd.DataFrame]:
        """The second pass: the result, chunk by chunk."""
        start, total = 0, self.total
        for chunk in self.source.chunks():
            score = np.fromfile(self._scores, dtype="<f8", count=len(chunk), offset=8 * start)
            if score.size != len(chunk):
                raise TableError("The file changed while it was scored; score it again.")
            table = self.table(chunk, score, start)
            start += len(chunk)
            del chunk
            yield table
            self._report_progress("ranking and writing", start, FIRST_PASS + (1.0 - FIRST_PASS) * start / total)
        if start != total:
            raise TableError("The file changed while it was scored; score it again.")

    def _score(self, chunk: pd.DataFrame) -> np.ndarray:
        fitting = conform(self.bundle, chunk)
        features = self.bundle.features(fitting)
        score = self.bundle.score_features(fitting, features)
        self.drift.add(features.matrix, self.places)
        return np.ascontiguousarray(score, dtype="<f8")

    def table(self, chunk: pd.DataFrame, score: np.ndarray, start: int) -> pd.DataFrame:
        """The result for some rows, the first of which is number `start` of all."""
        below = self._rows_up_to(score)
        # Rank 1 is the highest score; tied rows share the better rank.
        rank = self.ordered.size - below + 1
        flagged = score > self.threshold
        percentile = 100.0 * below / self.ordered.size
        found = {"id": self._ids(chunk, start), "score": score, "flagged": flagged, "rank": rank}
        table = pd.DataFrame({**found, "percentile": percentile})
        shown = self.scoring.explained if self.scoring.reasons else 0
        explained = np.flatnonzero(flagged & (rank <= shown))
        reasons, rules = self._reasons(chunk, explained)
        for number in range(self.scoring.reasons):
            table[f"reason_{number + 1}"] = _reason_column(reasons, number, explained, len(table))
        if self.bundle.label_rules is not None and not self.columns.absent_for_rules:
            table["rules"] = rules
        return table

    def _rows_up_to(self, score: np.ndarray) -> np.ndarray:
        """How many of all rows have at most the score of each of these."""
        # Searching in the order of the scores reads memory in sequence, which is four times as fast.
        order = np.argsort(score)
        found = np.empty(score.size, dtype=np.int64)
        found[order] = np.searchsorted(self.ordered, score[order], side="right")
        return found

    def _report_progress(self, step: str, rows: int, share: float) -> None:
        if self.on_progress is not None:
            self.on_progress(ScoreProgress(step=step, rows=rows, share=share))

    def _ids(self, chunk: pd.DataFrame, start: int) -> Any:
        name = self.bundle.details.id_column
        if name is not None and name in chunk.columns:
            return chunk[name].to_numpy()
        return np.arange(start + 1, start + len(chunk) + 1)

    def _reasons(self, chunk: pd.DataFrame, rows: np.ndarray) -> tuple[list[tuple[str, ...]], Any]:
        matrix = self._matrix(chunk)
        rules = None if matrix is None else fired_names(matrix)
        if not rows.size:
            return [], rules
        found, features = self._contributions(chunk.iloc[rows])
        return top_reasons(found, features, self.scoring.reasons, None if rules is None else rules[rows]), rules

    def explain(self, row: int) -> RowExplanation:
        """What each column adds to the score of one row."""
        _ = self.columns
        start = 0
        for chunk in self.source.chunks():
            if start <= row < start + len(chunk):
                part = chunk.iloc[[row - start]]
                matrix = self._matrix(part)
                return explain_one(*self._contributions(part), None if matrix is None else fired_names(matrix).tolist())
            start += len(chunk)
        raise TableError(f"The table has no row {row + 1}; it has {start}.")

    def _contributions(self, chunk: pd.DataFrame) -> tuple[Contributions, Features]:
        bundle, part = self.bundle, conform(self.bundle, chunk)
        features = bundle.features(part)
        rule_score = bundle.rule_score(part) if reads_rule_score(bundle.fitted.model) else None
        return contributions(bundle.fitted.model, features, rule_score, bundle.profile), features

    def _matrix(self, chunk: pd.DataFrame) -> RuleMatrix | None:
        label_rules = self.bundle.label_rules
        return None if label_rules is None or self.columns.absent_for_rules else label_rules.apply(chunk)


def fired_names(matrix: RuleMatrix) -> np.ndarray:
    """The names of the rules that fired on each row, joined by semicolons; empty where none did."""
    weight = 1 << np.arange(matrix.n_rules, dtype=object) if matrix.n_rules > 62 else 1 << np.arange(matrix.n_rules)
    pattern, place = np.unique(matrix.fired @ weight, return_inverse=True)
    names = ["; ".join(name for bit, name in enumerate(matrix.names) if int(value) >> bit & 1) for value in pattern]
    return np.array(names, dtype=object)[place]


def _reason_column(reasons: list[tuple[str, ...]], number: int, rows: Any, length: int) -> pd.Series:
    """Reason number `number` of each explained row, empty for the others."""
    texts = np.full(length, "", dtype=object)
    for row, found in zip(rows, reasons, strict=True):
        texts[row] = found[number] if number < len(found) else ""
    return pd.Series(texts, dtype="str")
