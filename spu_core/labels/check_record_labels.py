"""Appendix A.2: soft labels of users from their record of n checks and k passes.

A user who failed or skipped a check gets S = 1 − E[θ | k, n], where θ is the probability to pass and its distribution
is fitted to the records of all users. An admitted user gets 1. Users who passed every check, or were never checked, get
the floor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spu_core.checks import check_flags, check_share
from spu_core.errors import SoftLabelError
from spu_core.labels.soft_labels import SoftLabels
from spu_core.theory.check_prior import CheckPrior, check_records, fit_check_prior


@dataclass(frozen=True, eq=False)
class CheckRecordLabels:
    """Soft labels, one per user, with the fitted prior and each user's expected probability to pass."""

    labels: SoftLabels
    prior: CheckPrior
    pass_chance: np.ndarray

    @property
    def reading(self) -> str:
        """What the soft labels mean, in sentences."""
        return (
            f"A user without checks passes a check with probability {self.prior.mean:.1%}. For users who failed or "
            f"skipped a check, S is one minus the probability to pass, given the user's own record. It is the "
            f"probability to fail the next check, not a proven probability of being positive."
        )


def check_record_labels(
    checks: Any,
    passes: Any,
    *,
    failed: Any = None,
    admitted: Any = None,
    check_prior: CheckPrior | None = None,
    penalty: float | None = None,
    method: str = "newton",
    floor: float = 0.0,
) -> CheckRecordLabels:
    """Soft labels from one record of checks per user (Appendix A.2).

    A user who failed or skipped a check gets S = 1 − E[θ | k, n], where θ is the probability to pass a check.

    Parameters
    ----------
    checks : array-like of int
        n: number of checks of each user.
    passes : array-like of int
        k: number of passed checks, at most n.
    failed : array-like of bool, optional
        Who failed or skipped a check. Default: users whose checks are not all passed; for an admitted user, the check
        in which the user admitted does not count.
    admitted : array-like of bool, optional
        Who admitted. These are confirmed cases.
    check_prior : CheckPrior, optional
        Distribution of θ. Default: fitted to these records.
    penalty : float, optional
        λ of the smoothness penalty λ∫f². Default: chosen from the number of records.
    method : {"newton", "exponentiated_gradient"}, default "newton"
        Solver of the fit. Both reach the same optimum.
    floor : float, default 0
        Soft label of users without a failed check.

    Returns
    -------
    CheckRecordLabels
        `.labels` (SoftLabels), `.check_prior` and `.pass_chance`.

    Raises
    ------
    SoftLabelError
        If records are not valid.

    Notes
    -----
    An admission counts as a check that was not passed when the prior is fitted, but not in `.labels.rule_score`, which
    must not depend on labels.

    Examples
    --------
    >>> result = check_record_labels([4, 4, 4, 0], [4, 1, 3, 0], admitted=[0, 0, 1, 0], penalty=0.1)
    >>> result.labels.value.round(2).tolist()
    [0.0, 0.6, 1.0, 0.0]
    """
    checks, passes = check_records(checks, passes)
    admitted = _flags(admitted, checks.size, "admitted")
    if check_prior is None:
        check_prior = fit_check_prior(checks, passes, penalty=penalty, method=method)
    floor = check_share(floor, "floor", SoftLabelError, closed=True)
    before = checks - (admitted & (passes < checks))
    failed = passes < before if failed is None else _failed(failed, before, passes)
    pass_chance = check_prior.posterior_mean(before, passes)
    rule_score = np.where(failed, np.maximum(1.0 - pass_chance, floor), floor)
    labels = SoftLabels(np.where(admitted, 1.0, rule_score), rule_score, admitted, floor=floor)
    return CheckRecordLabels(labels, check_prior, pass_chance)


def _flags(values: Any, size: int, name: str) -> np.ndarray:
    if values is None:
        return np.zeros(size, dtype=bool)
    flags = check_flags(values, None, name)
    if flags.size != size:
        raise SoftLabelError(f"{name} has {flags.size} rows, but checks has {size}; both need one row per user.")
    return flags


def _failed(values: Any, checks: np.ndarray, passes: np.ndarray) -> np.ndarray:
    failed = _flags(values, checks.size, "failed")
    impossible = np.flatnonzero(failed & (passes == checks))
    if impossible.size:
        row = impossible[0]
        raise SoftLabelError(
            f"failed is true in row {row}, but its record has no failed or skipped check ({passes[row]} of "
            f"{checks[row]} passed); correct failed, checks or passes."
        )
    return failed
