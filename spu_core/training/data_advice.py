"""Advice before a training: what a table holds, which method and yardstick fit it, and what it cannot tell."""

from __future__ import annotations

from dataclasses import dataclass

from spu_core.checks import check_choice
from spu_core.errors import TrainingError
from spu_core.html_table import short_repr
from spu_core.labels import SoftLabels
from spu_core.tables import Role, Table, find_leaks
from spu_core.training.recommendation import ORIGINS

# With fewer confirmed cases, an AUC on them has an interval of about 0.2.
FEW_LABELS = 20


@dataclass(frozen=True)
class DataAdvice:
    """What to do with a table. Made by `advise`.

    Attributes
    ----------
    seen : tuple of str
        What the table holds: rows, labels, rules, groups, time, leaks.
    method : str or None
        The method to begin with, a key of `METHODS`; None where nothing can be trained yet.
    reasons : tuple of str
        Why this method, and how to train it.
    yardstick : str
        By which figure models of this table can be compared.
    unknown : tuple of str
        What the table cannot tell.
    """

    seen: tuple[str, ...]
    method: str | None
    reasons: tuple[str, ...]
    yardstick: str
    unknown: tuple[str, ...]

    def __repr__(self) -> str:
        return short_repr("DataAdvice", self.method, self.yardstick)

    def __str__(self) -> str:
        parts = {"Seen": self.seen, "Advice": (*self.reasons, self.yardstick), "Not known": self.unknown}
        return "\n".join(line for title, lines in parts.items() for line in (f"{title}:", *(f"  - {x}" for x in lines)))


def advise(table: Table, soft_labels: SoftLabels | None = None, *, origin: str = "unknown") -> DataAdvice:
    """Say what a table holds, which method and yardstick fit it, and what it cannot tell; nothing is trained.

    Parameters
    ----------
    table : Table
        The rows with the roles of their columns.
    soft_labels : SoftLabels, optional
        The soft labels of its rules; None where there are no rules yet.
    origin : {"chance", "rules", "other", "unknown"}, default "unknown"
        How the confirmed cases were found.

    Returns
    -------
    DataAdvice

    Raises
    ------
    TrainingError
        If `origin` is not one of these words.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": range(20, 70), "label": [1] * 5 + [0] * 45})
    >>> found = advise(Table.from_frame(frame))
    >>> found.method
    'fused'
    >>> found.seen[1]
    "5 confirmed cases (10.0%) in column 'label'."
    """
    check_choice(origin, tuple(ORIGINS), "origin", TrainingError)
    label, confirmed = table.column_with(Role.LABEL), int(table.is_labeled.sum())
    leaks = find_leaks(table) if table.in_memory else ()
    seen = [f"{len(table):,} rows, {len(table.features)} feature columns."]
    share = confirmed / len(table)
    seen.append(
        f"{confirmed:,} confirmed cases ({share:.1%}) in column {label!r}." if label else "No column of labels."
    )
    seen += _seen_rules(soft_labels)
    seen += [str(leak.as_finding()) for leak in leaks]
    reasons = []
    if (group := table.column_with(Role.GROUP)) is not None:
        seen.append(f"Rows belong to groups by column {group!r}; folds keep each group together.")
    if (time := table.column_with(Role.TIME)) is not None:
        seen.append(f"Column {time!r} is a time.")
        reasons.append("Judge models on the latest rows, as they will be used: `spu plan --out-of-time 0.2`.")
    if leaks:
        reasons.insert(0, "Set the role of leaking columns to 'ignore' first: `spu plan --role COLUMN=ignore`.")
    method, why = _method(confirmed, soft_labels)
    return DataAdvice(
        tuple(seen),
        method,
        (why, *reasons),
        _yardstick(table, confirmed, soft_labels, origin, has_leaks=bool(leaks)),
        tuple(_unknown(table, soft_labels, origin)),
    )


def _seen_rules(soft_labels: SoftLabels | None) -> list[str]:
    if soft_labels is None:
        return ["No rules."]
    fired = float((soft_labels.rule_score > soft_labels.floor).mean())
    lines = [f"Rules raise the soft label of {fired:.1%} of the rows; the mean soft label is {soft_labels.mean:.3f}."]
    if soft_labels.labels_chosen_by_rules:
        lines.append("The rules fire on nearly all confirmed cases: they may have decided which rows were checked.")
    return lines


def _method(confirmed: int, soft_labels: SoftLabels | None) -> tuple[str | None, str]:
    if confirmed and soft_labels is not None:
        return "fused", "Begin with 'fused': it learns from confirmed cases and rules, and weighs them by the data."
    if confirmed:
        return (
            "fused",
            "Begin with 'fused'. Without rules it learns from confirmed cases only; define rules if you can.",
        )
    if soft_labels is not None:
        return "lightgbm", "Begin with 'lightgbm': it learns from soft labels alone, and there are no confirmed cases."
    return None, "Nothing can be trained yet: give the role 'label' to a column of confirmed cases, or define rules."


def _yardstick(table: Table, confirmed: int, soft_labels: SoftLabels | None, origin: str, *, has_leaks: bool) -> str:
    if table.column_with(Role.TRUTH) is not None:
        return "Compare models by true AUC, since the truth is known."
    follows = soft_labels is not None and soft_labels.labels_chosen_by_rules
    if origin == "chance" and confirmed >= FEW_LABELS and not has_leaks and not follows:
        return "Compare models by AUC on confirmed cases, since these were found by chance."
    return (
        "No figure of this table decides between models: check rows by hand (`spu audit plan`), and take the "
        "recommended method until then."
    )


def _unknown(table: Table, soft_labels: SoftLabels | None, origin: str) -> list[str]:
    lines = []
    if origin == "unknown":
        lines.append(f"How the confirmed cases were found; say it with --origin ({', '.join(ORIGINS)}).")
    elif origin != "chance":
        lines.append("Whether other cases look like the confirmed ones, which were not found by chance.")
    if table.column_with(Role.TRUTH) is None:
        lines.append("How many of the other rows are positive.")
        if soft_labels is not None:
            lines.append("Whether the rules are right.")
    return lines
