"""Which runs belong side by side: those of the same rules and folds, and the models that may be chosen from."""

from __future__ import annotations

from collections.abc import Sequence

from spu_core.training.views import NOT_MODELS
from spu_core.workspace import RunRecord

_SAME_FOLDS = ("folds", "seed", "hold_out", "out_of_time")


def comparable_runs(records: Sequence[RunRecord], most: int) -> list[str]:
    """Ids of the newest run and of those made under the same rules and on the same folds; the newest of each name.

    Parameters
    ----------
    records
        Runs of one dataset, the newest first.
    most
        How many ids to return at most.
    """
    if not records:
        return []
    alike = [record for record in records if _folds_and_rules(record) == _folds_and_rules(records[0])]
    newest: dict[str, str] = {}
    for record in alike:
        newest.setdefault(record.name, record.id)
    return list(newest.values())[:most]


def models_of_same_rules(records: Sequence[RunRecord], chosen: RunRecord, most: int) -> tuple[RunRecord, ...]:
    """The chosen run and the other models that learnt from the same rules, in the order of `records`.

    Runs that are no models to choose from are left out: the rules alone lead on the soft labels that they made, and an
    oracle has seen the truth.
    """
    same = (chosen.rule_set, chosen.rule_set_version)
    others = [
        record
        for record in records
        if record.id != chosen.id
        and record.candidate.get("method") not in NOT_MODELS
        and (record.rule_set, record.rule_set_version) == same
    ]
    return (chosen, *others)[:most]


def _folds_and_rules(record: RunRecord) -> tuple[object, ...]:
    folds = tuple(dict(record.config).get(name) for name in _SAME_FOLDS)
    return (record.rule_set, record.rule_set_version, *folds)
