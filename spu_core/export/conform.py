"""The frozen schema: which columns a table must have, which it has too many, and which changed their kind of values."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pandas as pd

from spu_core.errors import TableError, nearest_hint
from spu_core.export.bundle import Bundle
from spu_core.models.columns import Column, Family, family_of

_TRUE, _FALSE = {"true", "t", "yes", "1"}, {"false", "f", "no", "0"}


@dataclass(frozen=True)
class ColumnCheck:
    """Columns that are not needed and were ignored; rule columns that are absent, so that no rule can be shown."""

    extra: tuple[str, ...] = ()
    absent_for_rules: tuple[str, ...] = ()


def check_names(bundle: Bundle, names: tuple[str, ...]) -> ColumnCheck:
    """Refuse a table that lacks needed columns, naming all of them; order does not matter."""
    present = set(names)
    if len(present) < len(names):
        twice = sorted(name for name, times in Counter(names).items() if times > 1)
        raise TableError(f"Column names must be unique, but {', '.join(map(repr, twice[:5]))} appears more than once.")
    absent = [name for name in bundle.columns if name not in present]
    if absent:
        raise TableError(_absent_words(bundle, absent, names))
    used = {*bundle.columns, bundle.passport.id_column}
    rules = bundle.recipe.rules.columns if bundle.recipe is not None else ()
    lost = tuple(name for name in rules if name not in present)
    return ColumnCheck(tuple(name for name in names if name not in used and name not in rules), lost)


def conform(bundle: Bundle, frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with the needed columns only, each of the kind it had at training; all that are not are named."""
    encoded = {column.name: column for column in bundle.fitted.encoder.columns}
    wanted = [name for name in bundle.columns if name in encoded]
    changed: dict[str, pd.Series] = {}
    problems = []
    for name in wanted:
        values = _as_flags(encoded[name], frame[name])
        family = family_of(values)
        if not encoded[name].accepts(family):
            problems.append(f"Column {name!r} was {encoded[name].family} when the model was trained, now {family}.")
        if values is not frame[name]:
            changed[name] = values
    if problems:
        raise TableError("The table does not fit the model. " + " ".join(problems))
    return frame.assign(**changed) if changed else frame


def text_columns(bundle: Bundle) -> frozenset[str]:
    """Columns that held text at training, and the ids: digits in a new file must not make them numbers."""
    names = {column.name for column in bundle.fitted.encoder.columns if column.family is Family.TEXT}
    return frozenset(names | {bundle.passport.id_column or ""})


def _as_flags(column: Column, values: pd.Series) -> pd.Series:
    """A file whose rows all say "true" has no second word to show that these are flags."""
    if column.family is not Family.BOOLEAN or family_of(values) is not Family.TEXT:
        return values
    words = values.astype("object").map(lambda value: str(value).strip().lower(), na_action="ignore")
    if not set(words.dropna()) <= _TRUE | _FALSE:
        return values
    return words.map(lambda word: float(word in _TRUE), na_action="ignore").astype(np.float64)


def _absent_words(bundle: Bundle, absent: list[str], names: tuple[str, ...]) -> str:
    listed = ", ".join(map(repr, absent))
    hints = [f"{name!r}: {nearest_hint(name, names)}" for name in absent[:3] if "Did" in nearest_hint(name, names)]
    more = f" {' '.join(hints)}" if hints else ""
    count = f"{len(absent)} of the {len(bundle.columns)} columns"
    return f"The table lacks {count} that {bundle.name!r} reads: {listed}.{more}"
