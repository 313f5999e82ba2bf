"""A cell of the benchmark: one table, one way of labelling, one rule set, one seed.

Look rows (15 % of a table, always the same) are for writing rules and are never used again. The others are drawn into
training and test rows by the seed; labels are drawn among the positives of the training rows. Labels, training and test
rows do not depend on the rule set, so methods that do not read rules are fitted once for the three rule sets.

The spec of a table says where its rows are, what its class is, which column decides who is labelled, and has three rule
sets. It is a JSON file; its name is the name of the table:

    {"title": "Adult", "file": "adult.parquet", "target": "income", "positive": [">50K"], "drop": ["split"],
     "labelled_by": "age",
     "rules": {"strong": [["capital-gain", ">", 5000, 0.8]], "weak": […], "wrong": […]}}

A rule is [column, operator, value, belief]. `"openml": 1590` in place of `"file"` fetches the rows from OpenML.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from spu_core.codec import parse_json
from spu_core.errors import TableError
from spu_core.labels import assign_soft_labels
from spu_core.models import Encoder, Features, TrainingRows
from spu_core.rules import Compare, Rule, RuleSet
from spu_core.tables import Table

RULE_SETS = ("strong", "weak", "wrong")
DEVELOPMENT = Path(__file__).parent / "tables"

Fetch = Callable[[int], pd.DataFrame]


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """One table of the benchmark; the module says what the fields hold."""

    name: str
    title: str
    target: str
    positive: tuple[Any, ...]
    labelled_by: str
    rules: dict[str, RuleSet]
    drop: tuple[str, ...] = ()
    file: str | None = None
    openml: int | None = None

    @classmethod
    def from_file(cls, path: Path) -> TableSpec:
        """The spec in a JSON file; what is missing or unknown is named."""
        found = parse_json(path.read_text(encoding="utf-8"), path.name, TableError)
        known = {field.name for field in fields(cls)} - {"name"}
        needed = {"title", "target", "positive", "labelled_by", "rules"}
        if not isinstance(found, dict) or not needed <= set(found) <= known:
            raise TableError(
                f"{path.name} must be an object with {', '.join(sorted(needed))}, file or openml, and perhaps drop."
            )
        if ("file" in found) == ("openml" in found):
            raise TableError(f"{path.name} must name either a file or a number of OpenML.")
        rules = {name: _rule_set(path.name, name, found["rules"].get(name)) for name in RULE_SETS}
        lists = {name: tuple(found.get(name, ())) for name in ("positive", "drop")}
        return cls(name=path.stem, **{**found, **lists, "rules": rules})

    def load(self, folder: Path | None, *, fetch: Fetch | None = None) -> tuple[pd.DataFrame, np.ndarray]:
        """(features, class) of all rows, from the data folder or from OpenML."""
        frame = (fetch or fetch_openml_frame)(self.openml) if self.openml is not None else self._read(folder)
        rule_columns = {column for rules in self.rules.values() for column in rules.columns}
        for column in (self.target, *self.drop, self.labelled_by, *sorted(rule_columns)):
            if column not in frame:
                raise TableError(f"The table {self.name!r} has no column {column!r}, which its spec names.")
        truth = frame[self.target].isin(self.positive).to_numpy(dtype=bool)
        if not 0 < truth.sum() < truth.size:
            raise TableError(f"In the table {self.name!r}, {int(truth.sum()):,} of {truth.size:,} rows are positive.")
        return frame.drop(columns=[self.target, *self.drop]).reset_index(drop=True), truth

    def _read(self, folder: Path | None) -> pd.DataFrame:
        path = (folder or Path()) / str(self.file)
        if not path.is_file():
            raise TableError(f"The rows of {self.name!r} were not found: put {self.file} into the folder of --data.")
        return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)


def load_specs(folder: Path | None = None) -> list[TableSpec]:
    """All specs of a folder in the order of their names; without a folder, those of the eleven development tables."""
    found = sorted((folder or DEVELOPMENT).glob("*.json"))
    if not found:
        raise TableError(f"There is no table spec (*.json) in {str(folder)!r}.")
    return [TableSpec.from_file(path) for path in found]


def fetch_openml_frame(number: int) -> pd.DataFrame:
    """The data set of this number with its class column; scikit-learn caches it and checks OpenML's checksum."""
    from sklearn.datasets import fetch_openml

    found: Any = fetch_openml(data_id=number, as_frame=True, parser="auto")
    return found.frame


def _rule_set(file: str, name: str, listed: Any) -> RuleSet:
    if not isinstance(listed, list) or not all(isinstance(each, list) and len(each) == 4 for each in listed):
        raise TableError(f"{file}: the rule set {name!r} must list rules as [column, operator, value, belief].")
    return RuleSet(
        tuple(
            Rule(f"{column} {sign} {value}", belief, Compare(column, sign, tuple(value) if sign == "in" else value))
            for column, sign, value, belief in listed
        ),
        combine="noisy_or",
    )


LOOK = 0.15
TRAIN = 0.55
MOST_ROWS = 5_000
FEWEST_LABELS = 3


# The chance of each positive to be labelled, from the rank (0 to 1) of a column that stays in the table.
LABELLINGS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "even": lambda rank, rng: rng.uniform(0.0, 0.5, rank.size),
    "scarce": lambda rank, _: np.full(rank.size, 0.05),
    "biased": lambda rank, _: 0.02 + 0.45 * rank**2,
}


@dataclass(frozen=True, eq=False)
class Cell:
    """Training rows with labels and soft labels, test rows with their class.

    `X` and `X_test` hold the columns as they are, `rows` and `test` the encoded ones; `fired` says which rule (column)
    fires on which row. `truth` is for the oracle and for out-of-fold figures only.
    """

    table: str
    labelling: str
    rule_set: str
    seed: int
    X: pd.DataFrame
    X_test: pd.DataFrame
    rows: TrainingRows
    test: Features
    rule_score_test: np.ndarray
    fired: np.ndarray
    fired_test: np.ndarray
    truth: np.ndarray
    truth_test: np.ndarray

    @property
    def name(self) -> str:
        return cell_name(self.table, self.labelling, self.rule_set, self.seed)

    @property
    def is_labeled(self) -> np.ndarray:
        return self.rows.is_labeled


def cell_name(table: str, labelling: str, rule_set: str, seed: int) -> str:
    return f"{table}.{labelling}.{rule_set}.{seed}"


def make_cell(spec: TableSpec, data: tuple[pd.DataFrame, np.ndarray], labelling: str, rule_set: str, seed: int) -> Cell:
    """Draw the training rows, their labels and the test rows, and apply the rules."""
    frame, truth = data
    train, test = split_rows(len(frame), seed)
    rng = np.random.default_rng([seed, crc32(f"{spec.name}/{labelling}".encode())])
    X, X_test = (frame.iloc[rows].reset_index(drop=True) for rows in (train, test))
    is_labeled = draw_labels(truth[train], X[spec.labelled_by].to_numpy(dtype=float), labelling, rng)
    encoder, rules = Encoder().fit(X), spec.rules[rule_set]
    seen = X[list(rules.columns)]
    fitted = rules.fit(Table.from_frame(seen.assign(labeled__=is_labeled.astype(int)), roles={"labeled__": "label"}))
    matrix, matrix_test = fitted.apply(seen), fitted.apply(X_test[list(rules.columns)])
    soft = assign_soft_labels(matrix, is_labeled, rules.combine)
    soft_test = assign_soft_labels(matrix_test, np.zeros(len(X_test), dtype=bool), rules.combine)
    rows = TrainingRows(
        features=encoder.transform(X),
        soft_label=soft.value,
        is_labeled=is_labeled,
        rule_score=soft.rule_score,
        truth=truth[train],
        rule_columns=tuple(rules.columns),
    )
    return Cell(
        table=spec.name,
        labelling=labelling,
        rule_set=rule_set,
        seed=seed,
        X=X,
        X_test=X_test,
        rows=rows,
        test=encoder.transform(X_test),
        rule_score_test=soft_test.rule_score,
        fired=matrix.fired,
        fired_test=matrix_test.fired,
        truth=truth[train],
        truth_test=truth[test],
    )


def look_rows(rows: int) -> np.ndarray:
    """The rows on which rules may be checked; they are never trained or tested on."""
    return np.random.default_rng([15, rows]).permutation(rows)[: round(LOOK * rows)]


def split_rows(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(training rows, test rows), at most 5,000 of each; 55 % of a small table are for training."""
    others = np.setdiff1d(np.arange(rows), look_rows(rows))
    order = np.random.default_rng([seed, rows]).permutation(others)
    count = min(MOST_ROWS, round(TRAIN * rows))
    return np.sort(order[:count]), np.sort(order[count : count + MOST_ROWS])


def draw_labels(truth: np.ndarray, column: np.ndarray, labelling: str, rng: np.random.Generator) -> np.ndarray:
    """Label each positive with its chance; where fewer than three are drawn, the three that came nearest."""
    rank = rankdata(np.nan_to_num(column, nan=np.nanmedian(column))) / column.size
    reach = np.where(truth, rng.random(truth.size) / LABELLINGS[labelling](rank, rng), np.inf)
    wanted = min(max(FEWEST_LABELS, int((reach < 1.0).sum())), int(truth.sum()))
    is_labeled = np.zeros(truth.size, dtype=bool)
    is_labeled[np.argsort(reach, kind="stable")[:wanted]] = True
    return is_labeled
