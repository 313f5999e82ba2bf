"""Equal fits are done once: a memory of what learners have learnt from one encoded matrix.

Methods share steps: Elkan–Noto ends with the fit that labelled-against-rest makes, a candidate without rules repeats
the label half of its twin, and refined soft labels repeat the refit of the fused method.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

MOST_BYTES = 64 << 20


@dataclass(frozen=True, eq=False)
class KnownFit:
    """What a fit has learnt (attributes of the learner by name), the training losses it reported, and its size.

    A loss is (round, rounds, loss).
    """

    learnt: dict[str, Any]
    losses: tuple[tuple[int, int, float], ...]
    size: int | None


@dataclass(eq=False)
class FitMemo:
    """The fits that were used last, as many as fit into `MOST_BYTES`; models of unknown size are not kept."""

    known: OrderedDict[bytes, KnownFit] = field(default_factory=OrderedDict)

    def find(self, key: bytes | None) -> KnownFit | None:
        """The fit with this key, if it is known."""
        if key is None or key not in self.known:
            return None
        self.known.move_to_end(key)
        return self.known[key]

    def keep(self, key: bytes | None, fit: KnownFit) -> None:
        """Remember a fit, and forget those that were not used for longest."""
        if key is None or fit.size is None or fit.size > MOST_BYTES:
            return
        self.known[key] = fit
        while sum(each.size or 0 for each in self.known.values()) > MOST_BYTES:
            self.known.popitem(last=False)
