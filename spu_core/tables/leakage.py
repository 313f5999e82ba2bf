"""Leaking columns: copies of the label or the truth, and columns that predict them nearly perfectly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd

from spu_core.errors import TableError
from spu_core.tables.reading.reading_report import Finding, Severity
from spu_core.tables.reading.values import ColumnType
from spu_core.tables.repeats import RepeatedRows
from spu_core.tables.roles import Role
from spu_core.tables.stores import Store
from spu_core.theory.check_ratio import wilson_interval

# A single column that ranks positives this well is more likely a leak than a good feature.
SUSPICIOUS_AUC = 0.99
# A value that many positives and (nearly) no other rows have was probably written after the fact.
SUSPICIOUS_PURITY = 0.99
SUSPICIOUS_REACH = 0.5
FEWEST_POSITIVES = 5
# A condition on a column that nearly all positives meet is a leak if hardly any other row meets it, and is reported
# if at most half of all rows meet it.
NEARLY_ALL = 0.95
SURELY_COVERED = 0.8
HARDLY_ANY = 0.03
FEWEST_LIFT = 2.0
FEW_LEVELS = 20
_LARGEST_SAMPLE = 200_000
# With fewer rows on either side, two columns agree by chance.
_FEWEST_ROWS_A_SIDE = 5
_FEW = 1_000


class TableLike(Protocol):
    """The members of a table that leak checks and profiles use."""

    @property
    def is_labeled(self) -> np.ndarray: ...

    def column_with(self, role: Role | str) -> str | None: ...

    def __len__(self) -> int: ...

    @property
    def store(self) -> Store: ...

    @property
    def frame(self) -> pd.DataFrame: ...

    def values(self, name: str) -> pd.Series: ...

    def explored(self, rows: int) -> TableLike: ...

    @property
    def roles(self) -> Mapping[str, Role]: ...

    @property
    def types(self) -> Mapping[str, ColumnType]: ...

    @property
    def findings(self) -> tuple[Finding, ...]: ...

    @property
    def features(self) -> tuple[str, ...]: ...

    @property
    def truth(self) -> np.ndarray | None: ...

    @property
    def repeats(self) -> RepeatedRows | None: ...


@dataclass(frozen=True, slots=True)
class Leak:
    """A column that leaks the label or the truth: the kind of leak, and its strength.

    `sign` is what positives have in common, and `elsewhere` the share of the other rows that have it too.
    """

    column: str
    answer: str
    kind: str
    strength: float
    sign: str = ""
    elsewhere: float = 0.0

    def as_finding(self) -> Finding:
        """The leak as a finding with advice."""
        severity = Severity.ERROR if self.kind == "copy" else Severity.WARNING
        parts = {name: getattr(self, name) for name in ("column", "answer", "strength", "sign", "elsewhere")}
        advice = "If it was known only after the fact, set its role to 'ignore'."
        if self.kind == "shared":
            advice += (
                " If it is the real class of each row, set its role to 'truth'. If only such rows could be confirmed, "
                "confirmed cases are not typical."
            )
        return Finding(f"leak_{self.kind}", severity, _WORDS[self.kind].format(**parts), advice, self.column)


_WORDS = {
    "copy": "Column {column!r} is a copy of the column {answer!r}: a model would only repeat it.",
    "ranking": "Column {column!r} alone ranks the positives of {answer!r} with AUC {strength:.3f}.",
    "value": "One value of column {column!r} is found on positives of {answer!r} only, and on {strength:.0%} of them.",
    "filled": "Column {column!r} is filled for positives of {answer!r} only, and for {strength:.0%} of them.",
    "most": "Column {column!r} is {sign} for {strength:.0%} of the positives of {answer!r}, but for {elsewhere:.1%} of "
    "the other rows.",
    "shared": "Column {column!r} is {sign} for {strength:.0%} of the positives of {answer!r}, and for {elsewhere:.0%} "
    "of the other rows.",
}


def find_leaks(table: TableLike, columns: tuple[str, ...] | None = None) -> tuple[Leak, ...]:
    """Columns (by default the features) that leak the label or the truth, each with its strongest evidence.

    >>> from spu_core.tables import Table
    >>> frame = pd.DataFrame({"label": [0, 1] * 50, "banned": ["no", "yes"] * 50, "age": list(range(20, 45)) * 4})
    >>> [(leak.column, leak.kind) for leak in find_leaks(Table.from_frame(frame), columns=("banned", "age"))]
    [('banned', 'copy')]
    """
    found: dict[str, Leak] = {}
    for role, answer in ((Role.LABEL, table.is_labeled), (Role.TRUTH, table.truth)):
        column = table.column_with(role)
        if column is None or answer is None:
            continue
        if min(int(answer.sum()), int((~answer).sum())) < FEWEST_POSITIVES:
            continue
        rows = _sample(answer)
        for name in table.features if columns is None else columns:
            leak = _leak(table.frame[name].iloc[rows], table.types[name], answer[rows], column)
            if leak is not None:
                found.setdefault(name, leak)
    return tuple(found.values())


def single_column_auc(values: pd.Series, kind: ColumnType, answer: np.ndarray) -> float:
    """AUC of one column alone, ascending or descending, whichever is larger; 0.5 is chance.

    Categories are ranked by their rate of positives on one half of the rows and evaluated on the other, so that many
    categories do not look good by chance.
    """
    if _is_ordered(values, kind):
        present = values.notna().to_numpy(dtype=bool)
        auc = _rank_auc(_as_numbers(values[present]), answer[present])
        return max(auc, 1.0 - auc)
    codes, _ = pd.factorize(values)
    codes = codes + 1
    learn = np.arange(codes.size) % 2 == 0
    size = int(codes.max()) + 1
    counts = np.bincount(codes[learn], minlength=size)
    rate = (np.bincount(codes[learn & answer], minlength=size) + answer.mean()) / (counts + 1.0)
    return _rank_auc(rate[codes[~learn]], answer[~learn])


def _leak(values: pd.Series, kind: ColumnType, answer: np.ndarray, column: str) -> Leak | None:
    name = str(values.name)
    if splits_like(values, answer):
        return Leak(name, column, "copy", 1.0)
    filled = values.notna().to_numpy(dtype=bool)
    if not filled.all() and _is_exclusive(filled, answer):
        return Leak(name, column, "filled", float(answer[filled].sum() / answer.sum()))
    if not _is_ordered(values, kind):
        exclusive = _exclusive_value_share(values, answer)
        if exclusive > 0.0:
            return Leak(name, column, "value", exclusive)
    auc = single_column_auc(values, kind, answer)
    if auc >= SUSPICIOUS_AUC:
        return Leak(name, column, "ranking", auc)
    return _covering(values, kind, answer, column, auc)


def _covering(values: pd.Series, kind: ColumnType, answer: np.ndarray, column: str, auc: float) -> Leak | None:
    """A range, or one value, that nearly all positives have and far fewer of the other rows."""
    # Without gaps, such a range has a large AUC.
    may_have_range = auc >= SURELY_COVERED * (1.0 - HARDLY_ANY) or values.isna().any()
    if _is_ordered(values, kind) and may_have_range:
        flag, sign = _best_range(values, answer)
        if _covers(flag, answer) and _is_rare(flag[~answer]):
            return Leak(str(values.name), column, "most", float(flag[answer].mean()), sign, float(flag[~answer].mean()))
    codes, levels = pd.factorize(values)
    if not len(levels) or (_is_ordered(values, kind) and len(levels) > FEW_LEVELS):
        return None
    flag = codes == np.bincount(codes[answer] + 1, minlength=len(levels) + 1)[1:].argmax()
    if not _covers(flag, answer):
        return None
    covered, _ = wilson_interval(int(flag[answer].sum()), int(answer.sum()))
    _, in_general = wilson_interval(int(flag.sum()), flag.size)
    how = "most" if _is_rare(flag[~answer]) else "shared" if covered / in_general >= FEWEST_LIFT else None
    value = repr(str(levels[codes[flag][0]]))
    share, elsewhere = float(flag[answer].mean()), float(flag[~answer].mean())
    return None if how is None else Leak(str(values.name), column, how, share, value, elsewhere)


def _best_range(values: pd.Series, answer: np.ndarray) -> tuple[np.ndarray, str]:
    """The rows above or below the value that separates positives from other rows best; gaps are in neither part."""
    present = values.notna().to_numpy(dtype=bool)
    if not present.any():
        return present, ""
    numbers = np.full(answer.size, np.nan)
    numbers[present] = _as_numbers(values[present])
    order = np.argsort(numbers)[: int(present.sum())]
    ordered, positive = numbers[order], answer[order]
    last = np.flatnonzero(np.diff(ordered) > 0)
    if order.size < answer.size:
        last = np.append(last, order.size - 1)  # all rows with a value
    if not last.size:
        return np.zeros(answer.size, dtype=bool), ""
    hits, others = np.cumsum(positive), np.cumsum(~positive)
    below = hits / answer.sum() - others / (~answer).sum()
    above = below[-1] - below
    upward = above[last].max() > below[last].max()
    cut = last[int((above if upward else below)[last].argmax())]
    if not upward and cut == order.size - 1:
        return present, "filled"
    value = values.iloc[order[cut]]
    shown = str(value)[:10] if pd.api.types.is_datetime64_any_dtype(values.dtype) else f"{value:.4g}"
    return (numbers > ordered[cut], f"above {shown}") if upward else (numbers <= ordered[cut], f"at most {shown}")


def _covers(flag: np.ndarray, answer: np.ndarray) -> bool:
    """Whether nearly all positives are flagged, by the lower limit of an interval."""
    low, high = wilson_interval(int(flag[answer].sum()), int(answer.sum()))
    return bool(low >= SURELY_COVERED and high >= NEARLY_ALL)


def _is_rare(flag: np.ndarray) -> bool:
    return bool(wilson_interval(int(flag.sum()), flag.size)[1] <= HARDLY_ANY)


def _exclusive_value_share(values: pd.Series, answer: np.ndarray) -> float:
    """The share of positives that have a value which hardly any other row has; 0 when there is none."""
    codes, levels = pd.factorize(values)
    present = codes >= 0
    counts = np.bincount(codes[present], minlength=len(levels))
    positives = np.bincount(codes[present & answer], minlength=len(levels))
    exclusive = (positives >= SUSPICIOUS_PURITY * counts) & (positives >= FEWEST_POSITIVES)
    best = positives[exclusive].max() / answer.sum() if exclusive.any() else 0.0
    return float(best) if best >= SUSPICIOUS_REACH else 0.0


def _is_exclusive(flag: np.ndarray, answer: np.ndarray) -> bool:
    hits = int((flag & answer).sum())
    return hits >= max(FEWEST_POSITIVES, SUSPICIOUS_REACH * answer.sum()) and hits >= SUSPICIOUS_PURITY * flag.sum()


def _rank_auc(score: np.ndarray, answer: np.ndarray) -> float:
    from scipy.stats import rankdata

    positives = int(answer.sum())
    negatives = answer.size - positives
    if not positives or not negatives:
        return 0.5
    ranks = rankdata(score)
    return float((ranks[answer].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def _is_ordered(values: pd.Series, kind: ColumnType) -> bool:
    return kind is ColumnType.DATETIME or pd.api.types.is_numeric_dtype(values.dtype)


def _as_numbers(values: pd.Series) -> np.ndarray:
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return values.astype("int64").to_numpy()
    return values.to_numpy(dtype=np.float64)


def _sample(answer: np.ndarray) -> np.ndarray:
    """A sample of at most 200,000 rows, stratified by class; leaks this strong show in any sample."""
    if answer.size <= _LARGEST_SAMPLE:
        return np.arange(answer.size)
    return np.sort(np.random.default_rng(0).choice(answer.size, _LARGEST_SAMPLE, replace=False))


def splits_like(values: pd.Series, answer: np.ndarray) -> bool:
    """Whether a column has two values (a missing value counts) that split the rows as the answer does.

    False with fewer than five rows in either part, because such agreement can be chance.

    >>> answer = np.array([False, True, False] * 5)
    >>> splits_like(pd.Series(["no", "yes", "no"] * 5), answer), splits_like(pd.Series(range(15)), answer)
    (True, False)
    """
    if min(int(answer.sum()), int((~answer).sum())) < _FEWEST_ROWS_A_SIDE:
        return False
    # For most columns, a few rows are enough to rule a copy out.
    if len(values) > _FEW and values.iloc[:_FEW].nunique() > 2:
        return False
    codes, levels = pd.factorize(values)
    if len(levels) > 2 or (len(levels) == 2 and codes.min() < 0):
        return False
    same = codes == codes[int(answer.argmax())]
    return bool((same == answer).all())


def copies_of(table: TableLike, columns: Iterable[str]) -> dict[str, str]:
    """Which of the columns are copies of the label or truth, each with the column that it repeats."""
    suspects = [name for name in columns if table.store.stand_ins[name].iloc[:_FEW].nunique() <= 2]
    if not suspects:
        return {}
    flags = {table.column_with(Role.LABEL): table.is_labeled, table.column_with(Role.TRUTH): table.truth}
    answers = {name: flag for name, flag in flags.items() if name is not None and flag is not None}
    found: dict[str, str] = {}
    for name in suspects if answers else ():
        values = table.values(name)
        for answer_name, answer in answers.items():
            if splits_like(values, answer):
                found.setdefault(name, answer_name)
    return found


def refuse_copies(copies: Mapping[str, str], answer_roles: Mapping[str, str]) -> None:
    """Refuse a copy of the label or truth as a feature."""
    for name, answer in copies.items():
        raise TableError(
            f"Column {name!r} splits the rows exactly as the {answer_roles[answer]} {answer!r} does, so it cannot "
            "become a feature: a model would see the answer. Set it to 'ignore'."
        )
