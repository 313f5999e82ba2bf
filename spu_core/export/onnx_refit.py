"""What an ONNX file of fused holds, and how far its scores are from those of the bundle."""

from __future__ import annotations

import numpy as np
import pandas as pd

from spu_core.export.bundle import Bundle
from spu_core.export.conform import conform
from spu_core.export.flagging import share_threshold
from spu_core.models import Model

WHAT = (
    "This is the refit of fused alone: its last part, one LightGBM model that learnt what fused believes of each row "
    "and needs no rules. The bundle adds a stack of label models, rule models and rules to it, so their scores differ."
)


def refit_note(bundle: Bundle, refit: Model, frame: pd.DataFrame) -> str:
    """Which part of fused the graph computes, and how its scores lie to the bundle's on the rows of the proof."""
    if bundle.reads_rules and bundle.recipe is None:
        return f"{WHAT} How far cannot be said, since the bundle was saved without its rules."
    fitting = conform(bundle, frame)
    features = bundle.features(fitting)
    whole, alone = bundle.score_features(fitting, features), refit.score_rows(features)
    gap = np.abs(whole - alone)
    share = float(bundle.point.share)
    own = share_threshold(np.sort(alone), share)
    both = _agreement(whole, alone, share)
    return (
        f"{WHAT} On {len(frame):,} rows they differ by {gap.mean():.3g} on average and by {gap.max():.3g} at most;"
        f" their rank correlation is {_rank_correlation(whole, alone):.3f}{both}. The threshold of the bundle does not "
        f"apply to them: scores above {own:.9g} flag {(alone > own).mean():.2%} of these rows."
    )


def _rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    return float(pd.Series(one).rank().corr(pd.Series(other).rank()))


def _agreement(whole: np.ndarray, alone: np.ndarray, share: float) -> str:
    """How many of the rows that fill the review queue are the same."""
    flagged = [score > share_threshold(np.sort(score), share) for score in (whole, alone)]
    if not flagged[0].any():
        return ""
    same = int((flagged[0] & flagged[1]).sum())
    return f", and {same:,} of the {int(flagged[0].sum()):,} rows with the highest scores are the same"
