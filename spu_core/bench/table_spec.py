"""A table of the benchmark: where its rows are, its class, which column decides who is labelled, and three rule sets.

A spec is a JSON file; its name is the name of the table:

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

import numpy as np
import pandas as pd

from spu_core.codec import parse_json
from spu_core.errors import TableError
from spu_core.rules import Compare, Rule, RuleSet

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
